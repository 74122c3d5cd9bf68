"""The xavier rules answer as the connector did, in every golden conversation, and make its tickets."""

from __future__ import annotations

import unittest
from typing import Any

from kvferry_vllm.handoff import Malformed, Prompt
from kvferry_vllm.rules import REQUEST_COUNT_MAX
from kvferry_vllm.xavier_params import decode_ticket_rank, parse_ticket_params
from kvferry_vllm.xavier_rules import XavierRules

from . import golden
from .conversations import play

PROMPT = Prompt(9, b"")
PRODUCE = {"do_remote_decode": True}


def rules(**changed: Any) -> XavierRules:
    usual = dict(engine_id="e0", host="127.0.0.1", port=5600, block_tokens=4, recompute_threshold=0)
    return XavierRules(**{**usual, "ticket_key": b"k" * 32, **changed})


class GoldenConversations(unittest.TestCase):
    def test_all(self) -> None:
        scripts = golden.xavier_scripts()
        self.assertGreater(len(scripts), 10)
        for script in scripts:
            with self.subTest(seed=script["seed"]):
                rank = decode_ticket_rank(bytes.fromhex(script["metadata"]))
                self.assertFalse(rank.keeps_history)
                started = rules(
                    engine_id=script["engineId"],
                    block_tokens=script["blockTokens"],
                    recompute_threshold=script["recomputeThreshold"],
                    ticket_key=rank.ticket_key,
                )
                play(self, started, script)


class Bounds(unittest.TestCase):
    def test_more_requests_than_the_limit_are_served_without_transfer(self) -> None:
        full = rules()
        for index in range(REQUEST_COUNT_MAX + 1):
            full.on_allocated(f"r{index}", PROMPT, PRODUCE, 0)
        ended = (9, "stopped", [[1, 2, 3]], 0.0)
        self.assertFalse(full.on_finished(f"r{REQUEST_COUNT_MAX}", PROMPT, *ended).delay_free)
        self.assertTrue(full.on_finished("r0", PROMPT, *ended).delay_free)

    def test_an_id_that_comes_again_has_another_ticket(self) -> None:
        again = rules()
        tickets = set()
        for _ in range(2):
            again.on_allocated("r", PROMPT, PRODUCE, 0)
            finish = again.on_finished("r", PROMPT, 9, "stopped", [[1, 2, 3]], 0.0)
            assert finish.params is not None
            tickets.add(finish.params["remote_ticket"])
            again.on_output(["r"], [])
        self.assertEqual(len(tickets), 2)

    def test_metadata_of_another_form(self) -> None:
        for encoded in (b"", b"\x02\x00\x00", b"\x03\x01\x00" + bytes(35)):
            with self.assertRaises(ValueError):
                decode_ticket_rank(encoded)


class Params(unittest.TestCase):
    def test_what_json_can_not_say(self) -> None:
        good = {"do_remote_prefill": True, "transfer_mode": "ticket", "wire_version": 4.0, "tp_size": 1,
                "remote_engine_id": "p0", "remote_host": "h", "remote_port": 5600.0,
                "remote_ticket": "0" * 32, "remote_num_tokens": 9}  # fmt: skip
        self.assertEqual(parse_ticket_params(good, engine_id="d0", prompt=PROMPT).kind, "consume")
        for field, value in (
            ("remote_port", True),
            ("tp_size", 1.5),
            ("wire_version", True),
            ("remote_ticket", b"0" * 32),
            ("remote_num_tokens", 8),
            ("remote_engine_id", "d0"),
        ):
            with self.subTest(field):
                parsed = parse_ticket_params({**good, field: value}, engine_id="d0", prompt=PROMPT)
                self.assertEqual(parsed, Malformed(field))


if __name__ == "__main__":
    unittest.main()
