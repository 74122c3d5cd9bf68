"""The push rules answer as the connector did, in every golden conversation."""

from __future__ import annotations

import unittest
from typing import Any

from kvferry_vllm.handoff import Malformed, Prompt
from kvferry_vllm.push_params import parse_push_params
from kvferry_vllm.push_rules import PushRules
from kvferry_vllm.rules import REQUEST_COUNT_MAX, Finish

from . import golden

PROMPT = Prompt(9, b"")
PRODUCE = {"do_remote_decode": True, "transfer_id": "x"}


def rules_of(script: dict[str, Any]) -> PushRules:
    return PushRules(
        engine_id=script["engineId"],
        recompute_threshold=script["recomputeThreshold"],
        is_progressive=script["progressive"],
    )


def rules(is_progressive: bool = False) -> PushRules:
    return PushRules(engine_id="e0", recompute_threshold=0, is_progressive=is_progressive)


class GoldenConversations(unittest.TestCase):
    def test_all(self) -> None:
        scripts = golden.push_scripts()
        self.assertGreater(len(scripts), 20)
        for script in scripts:
            with self.subTest(seed=script["seed"]):
                self._play(script)

    def _play(self, script: dict[str, Any]) -> None:
        rules = rules_of(script)
        for index, call in enumerate(script["calls"]):
            request = script["requests"].get(call.get("id"), {})
            about: Any = (call.get("id"), Prompt(request.get("prompt", 0), b""), request.get("params"))
            where = f"call {index}: {call}"
            hook = call["hook"]
            if hook == "new":
                rules.on_new_request(*about)
            elif hook == "match":
                self.assertEqual(rules.matched_tokens(*about, call["computed"], 0.0), call["tokens"], where)
            elif hook == "alloc":
                rules.on_allocated(*about, call["external"])
            elif hook == "step":
                answer = rules.on_step(call["computed"], call["preempted"])
                self.assertEqual(answer, call["handsOver"], where)
            elif hook == "finish":
                ended = (call["computed"], call["end"], [call["blocks"]], 0.0)
                finish = rules.on_finished(*about[:2], *ended)
                self.assertEqual(finish, Finish(call["delayFree"], None), where)
            else:
                rules.on_output(call["sent"], call["received"])
        self.assertEqual(list(rules.request_ids), [], "requests that were never forgotten")
        self.assertFalse(rules.has_pending_block_frees)


class Bounds(unittest.TestCase):
    def test_more_requests_than_the_limit_are_served_without_transfer(self) -> None:
        full = rules()
        for index in range(REQUEST_COUNT_MAX + 1):
            full.on_allocated(f"r{index}", PROMPT, {**PRODUCE, "transfer_id": f"x{index}"}, 0)
        self.assertFalse(full.on_step({f"r{REQUEST_COUNT_MAX}": 9}, []))
        self.assertTrue(full.on_step({"r0": 9}, []))

    def test_blocks_stay_for_as_long_as_the_report_is_missing(self) -> None:
        held = rules()
        held.on_allocated("p", PROMPT, PRODUCE, 0)
        self.assertTrue(held.on_step({"p": 9}, []))
        self.assertFalse(held.on_step({"p": 10}, []), "told twice")
        held.on_output(["p"], ["p"])
        self.assertEqual(list(held.request_ids), ["p"], "a report before the end ends nothing")
        self.assertTrue(held.on_finished("p", PROMPT, 9, "aborted", [[1]], 0.0).delay_free)
        self.assertTrue(held.has_pending_block_frees)
        held.on_output(["p"], [])
        self.assertFalse(held.has_pending_block_frees)
        # The transfer's id is free again.
        held.on_allocated("q", PROMPT, PRODUCE, 0)
        self.assertTrue(held.on_step({"q": 9}, []))


class Params(unittest.TestCase):
    def test_what_json_can_not_say(self) -> None:
        good = {"do_remote_prefill": True, "transfer_id": "x", "remote_engine_id": "p0",
                "remote_host": "h", "remote_port": 5600.0, "tp_size": 1}  # fmt: skip
        self.assertEqual(parse_push_params(good, engine_id="d0").kind, "consume")
        for field, value in (
            ("remote_port", True),
            ("pp_size", True),
            ("pp_size", "1"),
            ("tp_size", 1.5),
            ("transfer_id", b"x"),
            ("remote_engine_id", "\ud800" * 100),
        ):
            with self.subTest(field):
                parsed = parse_push_params({**good, field: value}, engine_id="d0")
                self.assertEqual(parsed, Malformed(field))


if __name__ == "__main__":
    unittest.main()
