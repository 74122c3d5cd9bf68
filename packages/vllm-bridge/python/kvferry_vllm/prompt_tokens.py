"""Which token ids say what a request's prompt is. Called by connector.py in each hook; imports nothing of vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Sequence

if TYPE_CHECKING:
    from vllm.v1.request import Request


def tokens_of(request: Request) -> Sequence[int] | None:
    """The prompt's token ids, or None where a prompt of the same ids can have other KV.

    So it is with embeddings in place of tokens, with images behind placeholders, and under a LoRA adapter:
    none of these is in the digest that a handoff is bound to.
    """
    if request.prompt_embeds is not None or request.mm_features or request.lora_request is not None:
        return None
    return request.prompt_token_ids
