"""Tiny random Llama with a byte-level tokenizer, made in place: python mkmodel.py DIR [--weights]"""
import json, os, sys
d = sys.argv[1]; os.makedirs(d, exist_ok=True)
from tokenizers import Tokenizer, models, pre_tokenizers, decoders
alpha = sorted(pre_tokenizers.ByteLevel.alphabet())
vocab = {"<pad>": 0, "<s>": 1, "</s>": 2}
for a in alpha: vocab[a] = len(vocab)
t = Tokenizer(models.BPE(vocab=vocab, merges=[]))
t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
t.decoder = decoders.ByteLevel()
t.add_special_tokens(["<pad>", "<s>", "</s>"])
t.save(os.path.join(d, "tokenizer.json"))
V = 320
json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>",
           "model_max_length": 4096, "clean_up_tokenization_spaces": False,
           "chat_template": "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "},
          open(os.path.join(d, "tokenizer_config.json"), "w"))
cfg = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
       "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": V,
       "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
       "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "dtype": "float32",
       "initializer_range": 0.02}
json.dump(cfg, open(os.path.join(d, "config.json"), "w"), indent=1)
json.dump({"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}, open(os.path.join(d, "generation_config.json"), "w"))
if "--weights" in sys.argv:
    # real random weights with a scale large enough that greedy decoding depends on every prompt token
    import torch
    from safetensors.torch import save_file
    g = torch.Generator().manual_seed(7); H, I, L = 256, 512, 4
    r = lambda *s, k=1.0: torch.randn(*s, generator=g) * k / (s[-1] ** 0.5)
    w = {"model.embed_tokens.weight": r(V, H, k=H ** 0.5), "lm_head.weight": r(V, H, k=2.0), "model.norm.weight": torch.ones(H)}
    for i in range(L):
        p = f"model.layers.{i}."
        w |= {p + "input_layernorm.weight": torch.ones(H), p + "post_attention_layernorm.weight": torch.ones(H),
              p + "self_attn.q_proj.weight": r(256, H, k=5.0), p + "self_attn.k_proj.weight": r(128, H, k=5.0),
              p + "self_attn.v_proj.weight": r(128, H, k=1.5), p + "self_attn.o_proj.weight": r(H, 256, k=8.0),
              p + "mlp.gate_proj.weight": r(I, H), p + "mlp.up_proj.weight": r(I, H), p + "mlp.down_proj.weight": r(H, I)}
    save_file(w, os.path.join(d, "model.safetensors"), metadata={"format": "pt"})
