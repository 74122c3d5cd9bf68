"""Makes a tiny Llama with a byte-level tokenizer: python make_model.py FOLDER

One byte is one token. The weights are random from a fixed seed, large enough that greedy decoding depends
on every token of the prompt (vLLM's own dummy weights give a constant output, which proves nothing).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

VOCABULARY = 320
HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS, HEAD_SIZE = 256, 512, 4, 4, 2, 64


def save_tokenizer(folder: Path) -> None:
    names = ["<pad>", "<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocabulary = {name: index for index, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(names[:3])
    tokenizer.save(str(folder / "tokenizer.json"))
    save_json(
        folder / "tokenizer_config.json",
        tokenizer_class="PreTrainedTokenizerFast", bos_token="<s>", eos_token="</s>", pad_token="<pad>",
        model_max_length=4096, clean_up_tokenization_spaces=False,
    )  # fmt: skip


def save_config(folder: Path) -> None:
    ids = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)
    save_json(
        folder / "config.json",
        architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=HIDDEN,
        intermediate_size=INTERMEDIATE, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS, head_dim=HEAD_SIZE, vocab_size=VOCABULARY,
        max_position_embeddings=4096, rms_norm_eps=1e-5, rope_theta=10000.0, hidden_act="silu",
        tie_word_embeddings=False, dtype="float32", initializer_range=0.02, **ids,
    )  # fmt: skip
    save_json(folder / "generation_config.json", **ids)


def save_weights(folder: Path) -> None:
    generator = torch.Generator().manual_seed(7)

    def normal(*shape: int, scale: float = 1.0) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * scale / (shape[-1] ** 0.5)

    weights = {
        "model.embed_tokens.weight": normal(VOCABULARY, HIDDEN, scale=HIDDEN**0.5),
        "lm_head.weight": normal(VOCABULARY, HIDDEN, scale=2.0),
        "model.norm.weight": torch.ones(HIDDEN),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        weights |= {
            f"{prefix}.input_layernorm.weight": torch.ones(HIDDEN),
            f"{prefix}.post_attention_layernorm.weight": torch.ones(HIDDEN),
            f"{prefix}.self_attn.q_proj.weight": normal(HEADS * HEAD_SIZE, HIDDEN, scale=5.0),
            f"{prefix}.self_attn.k_proj.weight": normal(KV_HEADS * HEAD_SIZE, HIDDEN, scale=5.0),
            f"{prefix}.self_attn.v_proj.weight": normal(KV_HEADS * HEAD_SIZE, HIDDEN, scale=1.5),
            f"{prefix}.self_attn.o_proj.weight": normal(HIDDEN, HEADS * HEAD_SIZE, scale=8.0),
            f"{prefix}.mlp.gate_proj.weight": normal(INTERMEDIATE, HIDDEN),
            f"{prefix}.mlp.up_proj.weight": normal(INTERMEDIATE, HIDDEN),
            f"{prefix}.mlp.down_proj.weight": normal(HIDDEN, INTERMEDIATE),
        }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def save_json(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(values, indent=1))


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    save_tokenizer(folder)
    save_config(folder)
    save_weights(folder)


if __name__ == "__main__":
    main()
