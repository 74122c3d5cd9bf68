"""Describes vLLM's KV cache tensors to the host: which bytes of which shared allocation are which block.

Everything that is not one group of full-attention layers with contiguous blocks in shared host memory is
refused here, at start. Called once by connector.py in `register_kv_caches`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

if TYPE_CHECKING:
    import torch
    from .memfd_pool import SharedAllocation
    from vllm.config import VllmConfig
    from vllm.v1.kv_cache_interface import KVCacheConfig


def block_tokens_of(kv_cache_config: KVCacheConfig) -> int:
    """Tokens of one logical block. @raises ValueError when there is more than one group of layers."""
    groups = kv_cache_config.kv_cache_groups
    if len(groups) != 1:
        raise ValueError(
            f"ERR_KV_UNSUPPORTED: KVFerry serves models with one KV cache group, this one has {len(groups)}"
        )
    return int(groups[0].kv_cache_spec.block_size)


def layout_name_of(vllm_config: VllmConfig) -> str:
    return str(vllm_config.cache_config.get_resolved_kv_cache_layout().name)


def describe_caches(
    kv_caches: Mapping[str, torch.Tensor],
    kv_cache_config: KVCacheConfig,
    allocations: Sequence[SharedAllocation],
    layout: str,
) -> dict[str, Any]:
    """@raises ValueError for a cache that the host could not transfer block by block."""
    spec = kv_cache_config.kv_cache_groups[0].kv_cache_spec
    block_count = int(kv_cache_config.num_blocks)
    return {
        "dtype": str(spec.dtype).removeprefix("torch."),
        "layout": layout,
        "kvHeadCount": int(spec.num_kv_heads),
        "headSize": int(spec.head_size),
        "blockTokens": block_tokens_of(kv_cache_config),
        "blockCount": block_count,
        "memories": [{"fd": a.fd, "sizeBytes": a.size_bytes} for a in allocations],
        "regions": [
            _describe_layer(name, tensor, block_count, allocations)
            for name, tensor in kv_caches.items()
        ],
    }


def _describe_layer(
    name: str,
    tensor: torch.Tensor,
    block_count: int,
    allocations: Sequence[SharedAllocation],
) -> dict[str, Any]:
    element = tensor.element_size()
    if tensor.shape[0] != block_count or not tensor[0].is_contiguous():
        raise ValueError(
            f"ERR_KV_UNSUPPORTED: layer {name} has shape {tuple(tensor.shape)} and strides "
            f"{tensor.stride()}; KVFerry needs {block_count} contiguous blocks first"
        )
    block_size = tensor[0].numel() * element
    stride = tensor.stride(0) * element
    start = tensor.data_ptr()
    end = start + (block_count - 1) * stride + block_size
    for index, allocation in enumerate(allocations):
        if allocation.address <= start and end <= allocation.address + allocation.size_bytes:
            return {
                "name": name,
                "memory": index,
                "offsetBytes": start - allocation.address,
                "blockSizeBytes": block_size,
                "blockStrideBytes": stride,
            }
    raise ValueError(
        f"ERR_KV_UNSUPPORTED: the KV cache of layer {name} is on {tensor.device}, not in the host memory "
        f"that KVFerry shares with its host process"
    )
