"""The mirrored tables answer as the connector did, in every golden conversation."""

from __future__ import annotations

import unittest
from typing import Any

from kvferry_vllm.handoff import Prompt, decode_rank_metadata, digest_tokens
from kvferry_vllm.param_fields import BLOCKS_PER_POST_MAX
from kvferry_vllm.pull_rules import Producer, PullRules
from kvferry_vllm.rules import REQUEST_COUNT_MAX, Finish

from . import golden
from .conversations import play

PROMPT = Prompt(5, digest_tokens(range(5)))


def _rules(script: dict[str, Any]) -> PullRules:
    rank = decode_rank_metadata(bytes.fromhex(script["metadata"]))
    return PullRules(
        engine_id=script["engineId"],
        block_tokens=script["blockTokens"],
        recompute_threshold=script["recomputeThreshold"],
        producer=Producer(script["incarnation"], rank.host, rank.port, rank.handoff_key),
    )


class GoldenConversations(unittest.TestCase):
    def test_all(self) -> None:
        scripts = golden.hook_scripts()
        self.assertGreater(len(scripts), 10)
        for script in scripts:
            with self.subTest(seed=script["seed"]):
                play(self, _rules(script), script)


class Bounds(unittest.TestCase):
    def setUp(self) -> None:
        self.rules = _rules(golden.hook_scripts()[1])

    def test_more_requests_than_the_limit_are_served_without_transfer(self) -> None:
        produce = {"do_remote_decode": True}
        for index in range(REQUEST_COUNT_MAX):
            self.rules.on_allocated(f"r{index}", PROMPT, produce, 0)
        self.rules.on_allocated("over", PROMPT, produce, 0)
        finish = self.rules.on_finished("over", PROMPT, 5, "stopped", [[1]], 1.0)
        self.assertEqual(finish, Finish(False, None))
        self.assertTrue(self.rules.on_finished("r0", PROMPT, 5, "stopped", [[1]], 1.0).delay_free)

    def test_a_long_id_is_served_without_transfer(self) -> None:
        long_id = "ü" * 129
        self.rules.on_allocated(long_id, PROMPT, {"do_remote_decode": True}, 0)
        finish = self.rules.on_finished(long_id, PROMPT, 5, "stopped", [[1]], 1.0)
        self.assertEqual(finish, Finish(False, None))

    def test_more_blocks_than_one_transfer_takes_leave_nothing_to_read(self) -> None:
        block_tokens = golden.hook_scripts()[1]["blockTokens"]
        for block_count, is_kept in ((BLOCKS_PER_POST_MAX, True), (BLOCKS_PER_POST_MAX + 1, False)):
            prompt = Prompt(block_count * block_tokens, PROMPT.digest)
            blocks = [range(block_count)]
            self.rules.on_allocated("r", prompt, {"do_remote_decode": True}, 0)
            finish = self.rules.on_finished("r", prompt, prompt.token_count, "stopped", blocks, 1.0)
            self.assertEqual(finish.delay_free, is_kept)
            self.rules.on_output(["r"], [])

    def test_several_groups_leave_nothing_to_read(self) -> None:
        self.rules.on_allocated("r", PROMPT, {"do_remote_decode": True}, 0)
        finish = self.rules.on_finished("r", PROMPT, 5, "stopped", [[1], [2]], 1.0)
        self.assertEqual(finish, Finish(False, None))


class Reports(unittest.TestCase):
    """A report ends only what waits for it: the worker half may tell of an id whose request has moved on."""

    def setUp(self) -> None:
        self.rules = _rules(golden.hook_scripts()[1])
        self.consume = golden.handoffs()["parsed"][0]

    def test_sent_ends_a_lease_alone(self) -> None:
        self.rules.on_allocated("p", PROMPT, {"do_remote_decode": True}, 0)
        self.rules.on_output(["p"], ["p"])
        self.assertEqual(list(self.rules.request_ids), ["p"])
        finish = self.rules.on_finished("p", PROMPT, 5, "stopped", [[1]], 1.0)
        self.assertTrue(finish.delay_free, "it is forgotten before anybody could read it")
        self.rules.on_output([], ["p"])
        self.assertTrue(self.rules.has_pending_block_frees, "received says nothing of a lease")
        self.rules.on_output(["p"], [])
        self.assertEqual(list(self.rules.request_ids), [])

    def test_received_ends_a_load_alone(self) -> None:
        context = self.consume["context"]
        prompt = golden.prompt_of(context["promptTokenCount"], context["promptDigest"])
        rules = PullRules(
            engine_id=context["engineId"],
            block_tokens=context["blockTokens"],
            recompute_threshold=0,
            producer=None,
        )
        about = ("r", prompt, self.consume["params"])
        rules.on_output(["r"], ["r"])
        self.assertEqual(rules.matched_tokens(*about, 0, 0.0), 9)
        rules.on_output(["r"], ["r"])
        self.assertEqual(rules.matched_tokens(*about, 0, 0.0), 9, "no load was begun")
        rules.on_allocated(*about, 9)
        rules.on_output(["r"], [])
        rules.on_finished(*about[:2], 0, "aborted", [[1, 2, 3]], 1.0)
        self.assertTrue(rules.has_pending_block_frees, "its load may still write")
        rules.on_output(["r"], [])
        self.assertTrue(rules.has_pending_block_frees, "sent says nothing of a load")
        rules.on_output([], ["r"])
        self.assertEqual(list(rules.request_ids), [])


if __name__ == "__main__":
    unittest.main()
