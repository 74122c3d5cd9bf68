"""Puts vLLM's KV cache into memory that another process can map.

vLLM allocates the cache inside the context that `get_mem_pool_context` returns, with one call of
`torch.zeros(size, dtype=int8)`. While this context is entered, that call is answered with a memfd's
mapping instead; every other call is untouched. The file descriptors are inherited by the host process.
The mapping lives as long as a tensor of it does.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


@dataclass(frozen=True)
class SharedAllocation:
    fd: int
    size_bytes: int
    #: Address of its first byte in this process.
    address: int


class MemfdPool(TorchFunctionMode):
    """A context; reusable. What was allocated in it is in `allocations`."""

    def __init__(self) -> None:
        super().__init__()
        self.allocations: list[SharedAllocation] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.zeros and _is_host_bytes(args, kwargs):
            return self._allocate(args[0])
        return func(*args, **kwargs)

    def close(self) -> None:
        """Closes the descriptors; mapped memory stays until its tensors are gone. Idempotent."""
        allocations, self.allocations = self.allocations, []
        for allocation in allocations:
            os.close(allocation.fd)

    def _allocate(self, size_bytes: int) -> torch.Tensor:
        fd = os.memfd_create("kvferry-kv", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, size_bytes)
            mapping = mmap.mmap(fd, size_bytes, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        except BaseException:
            os.close(fd)
            raise
        tensor = torch.frombuffer(mapping, dtype=torch.int8)  # memfd pages are zero
        self.allocations.append(SharedAllocation(fd, size_bytes, tensor.data_ptr()))
        return tensor


def _is_host_bytes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    device = kwargs.get("device")
    is_host = device is None or torch.device(device).type == "cpu"
    is_bytes = kwargs.get("dtype") is torch.int8 and len(args) == 1 and isinstance(args[0], int)
    return is_host and is_bytes
