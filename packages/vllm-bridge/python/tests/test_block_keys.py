"""Keys of KV blocks are those of the TypeScript, in the vectors that both share."""

from __future__ import annotations

import struct
import unittest

from kvferry_vllm.block_keys import BLOCK_KEY_SIZE_BYTES, BlockKeyer, KvIdentity, identity_of

from . import golden
from .worker_case import START


class Vectors(unittest.TestCase):
    def test_all(self) -> None:
        vectors = golden.block_keys()
        self.assertGreater(len(vectors), 4)
        for vector in vectors:
            with self.subTest(vector["name"]):
                identity = vector["identity"]
                keyer = BlockKeyer(KvIdentity(identity["model"], identity["layout"]), vector["blockTokens"])
                keys = keyer.keys_of(vector["tokens"], identity.get("salt"), identity.get("lora"))
                self.assertEqual(keys, bytes.fromhex("".join(vector["keys"])))


class Identity(unittest.TestCase):
    def test_all_that_shapes_kv_is_in_it(self) -> None:
        caches = START["caches"]
        usual = identity_of(caches)
        self.assertEqual(usual, KvIdentity("tiny", "float32 LBHNC 2 2 64"))
        for field in ("model", "dtype", "layout", "kvHeadCount", "headSize"):
            self.assertNotEqual(identity_of({**caches, field: 3}), usual, field)
        self.assertNotEqual(identity_of({**caches, "regions": [{}]}), usual)

    def test_a_salt_keeps_tenants_apart(self) -> None:
        keyer = BlockKeyer(KvIdentity("m", "l"), 4)
        keys = {keyer.keys_of([1, 2, 3], salt)[:BLOCK_KEY_SIZE_BYTES] for salt in (None, "", "a", "b")}
        self.assertEqual(len(keys), 4)

    def test_what_has_no_keys(self) -> None:
        keyer = BlockKeyer(KvIdentity("m", "l"), 4)
        self.assertEqual(keyer.keys_of([]), b"")
        with self.assertRaises(struct.error):
            keyer.keys_of([-1])


if __name__ == "__main__":
    unittest.main()
