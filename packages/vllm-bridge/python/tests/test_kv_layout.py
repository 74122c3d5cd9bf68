"""Which bytes of the shared memory are which block; a cache that is something else is refused at start."""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from typing import Any

from kvferry_vllm.kv_layout import block_tokens_of, describe_caches

BLOCKS, BLOCK_BYTES, BASE = 8, 1024, 0x10_0000
ALLOCATION = SimpleNamespace(fd=7, size_bytes=2 * BLOCKS * BLOCK_BYTES, address=BASE)
SPEC = SimpleNamespace(block_size=32, dtype="torch.float32", num_kv_heads=2, head_size=64)


class FakeTensor:
    """What the layout asks of a tensor of 4-byte elements."""

    def __init__(self, address: int, blocks: int = BLOCKS, is_contiguous: bool = True) -> None:
        self.shape = (blocks, BLOCK_BYTES // 4)
        self.device = "cpu"
        self._address = address
        self._is_contiguous = is_contiguous

    def __getitem__(self, index: int) -> FakeTensor:
        return self

    def is_contiguous(self) -> bool:
        return self._is_contiguous

    def numel(self) -> int:
        return BLOCK_BYTES // 4

    def element_size(self) -> int:
        return 4

    def stride(self, axis: int | None = None) -> Any:
        return BLOCK_BYTES // 4 if axis == 0 else (BLOCK_BYTES // 4, 1)

    def data_ptr(self) -> int:
        return self._address


def config(group_count: int = 1) -> Any:
    groups = [SimpleNamespace(kv_cache_spec=SPEC)] * group_count
    return SimpleNamespace(kv_cache_groups=groups, num_blocks=BLOCKS)


def describe(**layers: FakeTensor) -> dict[str, Any]:
    return describe_caches(layers, config(), [ALLOCATION], "LBHNC")  # type: ignore[arg-type]


class Layout(unittest.TestCase):
    def test_layers_in_one_allocation(self) -> None:
        second = BASE + BLOCKS * BLOCK_BYTES
        described = describe(a=FakeTensor(BASE), b=FakeTensor(second))
        block = {"memory": 0, "blockSizeBytes": BLOCK_BYTES, "blockStrideBytes": BLOCK_BYTES}
        expected = [
            {"name": "a", "offsetBytes": 0, **block},
            {"name": "b", "offsetBytes": BLOCKS * BLOCK_BYTES, **block},
        ]
        self.assertEqual(described["regions"], expected)
        self.assertEqual(described["memories"], [{"fd": 7, "sizeBytes": ALLOCATION.size_bytes}])
        facts = [described[key] for key in ("dtype", "layout", "kvHeadCount", "headSize", "blockTokens")]
        self.assertEqual(facts, ["float32", "LBHNC", 2, 64, 32])

    def test_memory_that_is_not_shared(self) -> None:
        for address in (BASE - 1, BASE + BLOCKS * BLOCK_BYTES + 1):
            with self.assertRaisesRegex(ValueError, "ERR_KV_UNSUPPORTED: the KV cache of layer a is on cpu"):
                describe(a=FakeTensor(address))

    def test_blocks_that_are_not_contiguous_or_not_first(self) -> None:
        for tensor in (FakeTensor(BASE, is_contiguous=False), FakeTensor(BASE, blocks=2)):
            with self.assertRaisesRegex(ValueError, "ERR_KV_UNSUPPORTED: layer a has shape"):
                describe(a=tensor)

    def test_several_groups(self) -> None:
        self.assertEqual(block_tokens_of(config()), 32)
        with self.assertRaisesRegex(ValueError, "ERR_KV_UNSUPPORTED.*one KV cache group"):
            block_tokens_of(config(2))


if __name__ == "__main__":
    unittest.main()
