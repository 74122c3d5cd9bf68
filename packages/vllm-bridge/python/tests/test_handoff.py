"""The handoff, bit for bit as connector-pull writes and reads it."""

from __future__ import annotations

import math
import unittest
from typing import Any

from kvferry_vllm.handoff import (
    WIRE_VERSION,
    Consume,
    Handoff,
    Malformed,
    Prompt,
    Remote,
    decode_rank_metadata,
    digest_tokens,
    encode_handoff,
    handoff_bytes,
    parse_params,
    sign_handoff,
)

from . import golden

PROMPT = Prompt(9, digest_tokens(range(9)))


def _handoff(claims: dict[str, Any], tp_size: int) -> Handoff:
    remote = Remote(
        claims["engineId"], claims["incarnation"], claims["host"], claims["port"], claims["requestId"]
    )
    return Handoff(
        remote,
        tuple(claims["blockIds"]),
        golden.prompt_of(claims["tokenCount"], claims["promptDigest"]),
        claims["blockTokens"],
        tp_size,
        claims["leaseDeadlineMs"],
    )


class SignedHandoff(unittest.TestCase):
    def test_wire_version(self) -> None:
        self.assertEqual(golden.handoffs()["wireVersion"], WIRE_VERSION)

    def test_bytes_signature_and_params(self) -> None:
        for vector in golden.handoffs()["signed"]:
            with self.subTest(vector["name"]):
                keys = [bytes.fromhex(key) for key in vector["keys"]]
                handoff = _handoff(vector["claims"], len(keys))
                self.assertEqual(handoff_bytes(handoff).hex(), vector["bytes"])
                self.assertEqual(sign_handoff(handoff, keys).hex(), vector["signature"])
                self.assertEqual(encode_handoff(handoff, keys), vector["params"])

    def test_another_claim_has_another_signature(self) -> None:
        vector = golden.handoffs()["signed"][0]
        key = bytes.fromhex(vector["keys"][0])
        for field, value in (
            ("blockIds", [5, 9, 3]),
            ("tokenCount", 8),
            ("promptDigest", digest_tokens([9] * 9).hex()),
            ("leaseDeadlineMs", 1.0),
        ):
            changed = _handoff({**vector["claims"], field: value}, 1)
            self.assertNotEqual(sign_handoff(changed, [key]).hex(), vector["signature"])


class Digests(unittest.TestCase):
    def test_golden(self) -> None:
        for vector in golden.handoffs()["digests"]:
            self.assertEqual(digest_tokens(vector["tokens"]).hex(), vector["digest"])


class ParsedParams(unittest.TestCase):
    def test_golden(self) -> None:
        kinds = set()
        for vector in golden.handoffs()["parsed"]:
            context = vector["context"]
            with self.subTest(vector["name"]):
                parsed = parse_params(
                    vector["params"],
                    engine_id=context["engineId"],
                    block_tokens=context["blockTokens"],
                    prompt=golden.prompt_of(context["promptTokenCount"], context["promptDigest"]),
                    tp_size=context["tpSize"],
                )
                kinds.add(parsed.kind)
                self.assertEqual(parsed.kind, vector["kind"])
                if isinstance(parsed, Malformed) and vector.get("field") is not None:
                    self.assertEqual(parsed.field, vector["field"])
        self.assertEqual(kinds, {"none", "produce", "consume", "malformed"})

    def test_what_json_can_not_say(self) -> None:
        """In-process callers can pass anything; nothing of it raises or is believed."""
        good = golden.handoffs()["parsed"][0]
        context: dict[str, Any] = dict(engine_id="d0", block_tokens=4, prompt=PROMPT)
        self.assertIsInstance(parse_params(good["params"], **context), Consume)
        for field, value in (
            ("remote_lease_deadline_ms", math.nan),
            ("remote_lease_deadline_ms", math.inf),
            ("remote_lease_deadline_ms", 10**400),
            ("remote_port", True),
            ("remote_port", 2**70),
            ("remote_block_ids", [[True, 9, 2]]),
            ("remote_block_ids", ([5, 9, 2],)),
            ("remote_signature", b"00"),
            ("remote_prompt_digest", PROMPT.digest),
            ("remote_engine_id", "\ud800" * 100),
            ("wire_version", float(WIRE_VERSION) + 0.5),
        ):
            with self.subTest(field=field, value=repr(value)[:40]):
                parsed = parse_params({**good["params"], field: value}, **context)
                self.assertEqual(parsed, Malformed(field))

    def test_whole_floats_are_integers(self) -> None:
        good = golden.handoffs()["parsed"][0]
        params = {**good["params"], "remote_port": 5600.0, "remote_block_ids": [[5.0, 9, 2]]}
        parsed = parse_params(params, engine_id="d0", block_tokens=4, prompt=PROMPT)
        self.assertIsInstance(parsed, Consume)

    def test_a_genuine_handoff_is_for_its_own_prompt_alone(self) -> None:
        """Also one of the same length, whose request the same engine made."""
        good = golden.handoffs()["parsed"][0]
        for tokens in (range(1, 10), [0, 1, 2, 3, 4, 5, 6, 7, 9], [0] * 9):
            prompt = Prompt(9, digest_tokens(tokens))
            parsed = parse_params(good["params"], engine_id="d0", block_tokens=4, prompt=prompt)
            self.assertEqual(parsed, Malformed("remote_prompt_digest"))


class RankMetadata(unittest.TestCase):
    def test_round(self) -> None:
        encoded = bytes.fromhex(golden.hook_scripts()[0]["metadata"])
        metadata = decode_rank_metadata(encoded)
        self.assertEqual((metadata.host, metadata.port), ("127.0.0.1", 5600))
        self.assertEqual(len(metadata.handoff_key), 32)

    def test_refusals(self) -> None:
        encoded = bytes.fromhex(golden.hook_scripts()[0]["metadata"])
        for wrong in (b"", b"\x01" + encoded[1:], encoded[:-1], encoded + b"\x00"):
            with self.assertRaises(ValueError):
                decode_rank_metadata(wrong)


if __name__ == "__main__":
    unittest.main()
