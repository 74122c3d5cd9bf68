"""What the scheduler half answers and records, also across the host's lives."""

from __future__ import annotations

import json
import unittest
from typing import Any, Iterator

from kvferry_vllm.handoff import decode_rank_metadata, digest_tokens
from kvferry_vllm.rules import NOTHING
from kvferry_vllm.scheduler_half import SchedulerHalf
from kvferry_vllm.step_metadata import HostFacts, HostNews

from . import golden

PRODUCE = {"do_remote_decode": True}
#: The prompt of `consume`.
TOKENS = list(range(9))


def facts(epoch: str) -> HostFacts:
    rank = decode_rank_metadata(bytes.fromhex(golden.hook_scripts()[0]["metadata"]))
    return HostFacts(epoch, "pull", rank.host, rank.port, rank.handoff_key, 30_000.0, 0)


def ready(epoch: str) -> HostNews:
    return HostNews(facts(epoch), is_starting=False)


GONE = HostNews(None, is_starting=True)


def consume() -> dict[str, Any]:
    vector = golden.handoffs()["parsed"][0]
    assert vector["context"]["promptTokenCount"] == len(TOKENS)
    return dict(vector["params"])


class Records(unittest.TestCase):
    def setUp(self) -> None:
        self.half = SchedulerHalf(engine_id="d0", block_tokens=4)
        self.half.set_host(ready("life-1"))

    def events(self) -> list[tuple[str, list[dict[str, Any]]]]:
        return [(batch.epoch, batch.events) for batch in self.half.build_step({}, []).batches]

    def kinds(self) -> list[str]:
        return [event["k"] for _, events in self.events() for event in events]

    def test_blocks_that_came_after_admission_are_told_once(self) -> None:
        params = {"do_remote_decode": True, "do_remote_prefill": False}
        self.half.on_new_request("r", TOKENS, params)
        self.assertFalse(self.half.is_following, "pull hands over at the end of a request")
        self.half.on_allocated("r", TOKENS, params, 0, [[7]], 0)
        self.half.on_grown("r", [[8]])
        self.half.on_grown("r", [[9]])
        self.half.on_grown("stranger", [[5]])
        told = self.half.build_step({"r": 8, "stranger": 4}, None).scheduled
        self.assertEqual(told, [{"id": "r", "computed": 8, "blocks": [[8, 9]]}])
        self.half.on_grown("r", [[10]])
        # Preempted and admitted anew: what it got before is not its any more.
        self.half.on_allocated("r", TOKENS, params, 0, [[3, 4, 5]], 0)
        told = self.half.build_step({"r": 9}, None).scheduled
        self.assertEqual(told, [{"id": "r", "computed": 9, "blocks": [[]]}])

    def test_a_load(self) -> None:
        params = consume()
        self.half.on_new_request("r", TOKENS, params)
        self.assertEqual(self.half.matched_tokens("r", TOKENS, params, 4), 5)
        self.half.on_allocated("r", TOKENS, params, 0, [[7, 8, 9]], 5)
        [(epoch, events)] = self.events()
        self.assertEqual(epoch, "life-1")
        self.assertEqual([event["k"] for event in events], ["new", "match", "alloc"])
        self.assertEqual(events[1], {"k": "match", "id": "r", "computed": 4, "answer": 5})
        self.assertEqual(events[2]["blocks"], [[7, 8, 9]])
        self.assertEqual(events[2]["fill"], [8, 9])
        self.assertEqual(self.events(), [], "told twice")
        quiet = self.half.build_step({"r": 1}, None)
        self.assertIs(quiet, self.half.build_step({"r": 1}, set()), "a step without news is made once")
        self.assertEqual(quiet.index, -1)

    def test_the_same_question_is_told_once(self) -> None:
        params = consume()
        for _ in range(3):
            self.half.matched_tokens("r", TOKENS, params, 0)
        self.half.matched_tokens("r", TOKENS, params, 4)
        self.assertEqual(self.kinds(), ["new", "match", "match"])

    def test_requests_without_transfer_are_not_recorded(self) -> None:
        for params in (None, {}, {"do_remote_decode": False, "note": 1}):
            self.half.on_new_request("r", TOKENS, params)
            self.assertEqual(self.half.matched_tokens("r", TOKENS, params, 0), 0)
            self.half.on_allocated("r", TOKENS, params, 0, [[1, 2, 3]], 0)
            self.assertEqual(self.half.on_finished("r", 9, "stopped", [[1, 2, 3]]), NOTHING)
        self.assertEqual(self.events(), [])
        self.assertFalse(self.half.has_pending)

    def test_a_producer(self) -> None:
        self.half.on_new_request("p", TOKENS, PRODUCE)
        self.half.on_allocated("p", TOKENS, PRODUCE, 0, [[1, 2, 3]], 0)
        answer = self.half.on_finished("p", 9, "length-capped", [[1, 2, 3]])
        self.assertTrue(answer.delay_free)
        assert answer.params is not None
        self.assertEqual(answer.params["remote_incarnation"], "life-1")
        answer.params["added by vLLM"] = 0
        [(_, events)] = self.events()
        self.assertNotIn("added by vLLM", events[-1]["params"])
        self.assertTrue(self.half.has_pending, "blocks wait for a report")
        self.half.on_output(["p"], [])
        self.events()
        self.assertFalse(self.half.has_pending)

    def test_an_aborted_load_keeps_the_engine_stepping_until_its_report(self) -> None:
        params = consume()
        self.half.matched_tokens("r", TOKENS, params, 0)
        self.half.on_allocated("r", TOKENS, params, 0, [[1, 2, 3]], 9)
        self.assertEqual(self.half.on_finished("r", 0, "aborted", [[1, 2, 3]]), NOTHING)
        self.events()
        self.assertTrue(self.half.has_pending)
        self.half.on_output([], ["r"])
        self.events()
        self.assertFalse(self.half.has_pending)

    def test_a_handoff_of_another_prompt_of_this_length(self) -> None:
        """Anybody who reaches the engine may send it; it's computed, and its host hears the same."""
        params, others = consume(), [7, *TOKENS[1:]]
        self.half.on_new_request("r", others, params)
        self.assertEqual(self.half.matched_tokens("r", others, params, 0), 0)
        [(_, events)] = self.events()
        self.assertEqual(events[0]["prompt"], 9)
        self.assertEqual(events[0]["digest"], digest_tokens(others).hex())
        self.assertEqual(events[1]["answer"], 0)

    def test_a_producer_names_its_prompt(self) -> None:
        self.half.on_allocated("p", TOKENS, PRODUCE, 0, [[1, 2, 3]], 0)
        answer = self.half.on_finished("p", 9, "length-capped", [[1, 2, 3]])
        assert answer.params is not None
        self.assertEqual(answer.params["remote_prompt_digest"], digest_tokens(TOKENS).hex())

    def test_the_digest_is_worked_out_once(self) -> None:
        reads = 0

        class Counted(list[int]):
            def __iter__(self) -> Iterator[int]:
                nonlocal reads
                reads += 1
                return super().__iter__()

        tokens, params = Counted(TOKENS), consume()
        self.half.on_new_request("r", tokens, params)
        for _ in range(3):
            self.half.matched_tokens("r", tokens, params, 0)
        self.half.on_allocated("r", tokens, params, 0, [[1, 2, 3]], 9)
        self.assertEqual(reads, 1)

    def test_a_prompt_that_its_token_ids_do_not_tell_takes_no_part(self) -> None:
        with self.assertLogs("vllm.kvferry", "WARNING") as logs:
            for params in (consume(), PRODUCE):
                self.half.on_new_request("r", None, params)
                self.assertEqual(self.half.matched_tokens("r", None, params, 0), 0)
                self.half.on_allocated("r", None, params, 0, [[1, 2, 3]], 0)
                self.assertEqual(self.half.on_finished("r", 9, "stopped", [[1, 2, 3]]), NOTHING)
        self.assertEqual(len(logs.output), 2, "once a request")
        self.assertEqual(self.events(), [])
        # Its id is forgotten with it.
        self.assertEqual(self.half.matched_tokens("r", TOKENS, consume(), 0), 9)

    def test_params_that_are_no_json(self) -> None:
        for wrong in (b"bytes", float("nan"), {1, 2}, "x" * 1_100_000):
            params = {**consume(), "note": wrong}
            self.assertEqual(self.half.matched_tokens("r", TOKENS, params, 0), 0)
            [(_, events)] = self.events()
            self.assertEqual(json.loads(events[0]["params"]), {"do_remote_prefill": "unreadable"})
            self.half.on_finished("r", 9, "stopped", [[1, 2, 3]])
            self.events()

    def test_text_that_is_no_unicode_travels_as_ascii(self) -> None:
        params = {**consume(), "note": ["\ud800", 10**40]}
        self.assertEqual(self.half.matched_tokens("r", TOKENS, params, 0), 9)
        [(_, events)] = self.events()
        self.assertTrue(events[0]["params"].isascii())
        self.assertEqual(json.loads(events[0]["params"]), params)

    def test_an_id_in_params_that_no_message_carries_is_refused(self) -> None:
        params = {**consume(), "remote_request_id": "a\ud800"}
        self.assertEqual(self.half.matched_tokens("r", TOKENS, params, 0), 0)

    def test_an_id_that_is_no_unicode_takes_no_part(self) -> None:
        self.assertEqual(self.half.matched_tokens("\ud800", TOKENS, consume(), 0), 0)
        self.assertEqual(self.events(), [])


class Pushes(unittest.TestCase):
    """Steps whose forward computes what is to leave are told, and no others."""

    def setUp(self) -> None:
        self.half = SchedulerHalf(engine_id="p0", block_tokens=4)
        push = HostFacts("life-1", "push", "127.0.0.1", 5600, b"", 30_000.0, 0)
        self.half.set_host(HostNews(push, is_starting=False))
        self.params = {"do_remote_decode": True, "transfer_id": "x"}

    def test_a_prompt_in_chunks(self) -> None:
        self.assertFalse(self.half.is_following)
        self.half.on_new_request("p", TOKENS, self.params)
        self.assertTrue(self.half.is_following)
        self.assertEqual(self.half.matched_tokens("p", TOKENS, self.params, 0), 0)
        self.half.on_allocated("p", TOKENS, self.params, 0, [[7]], 0)
        self.assertFalse(self.half.build_step({"p": 4}, None).is_saved, "told for its events")
        self.half.on_grown("p", [[8]])
        self.assertEqual(self.half.build_step({"p": 8, "other": 3}, None).index, -1)
        self.half.on_grown("p", [[9]])
        last = self.half.build_step({"p": 9, "other": 4}, None)
        self.assertTrue(last.is_saved)
        self.assertEqual(last.scheduled, [{"id": "p", "computed": 9, "blocks": [[8, 9]]}])
        self.assertFalse(self.half.is_following, "its answer is no news")
        self.assertEqual(self.half.build_step({"p": 10}, None).index, -1)
        answer = self.half.on_finished("p", 10, "length-capped", [[7, 8, 9]])
        self.assertEqual((answer.delay_free, answer.params), (True, None))
        self.half.build_step({}, None)
        self.assertTrue(self.half.has_pending, "its blocks wait for the report")
        self.half.on_output(["p"], [])
        self.half.build_step({}, None)
        self.assertFalse(self.half.has_pending)

    def test_preempted_before_it_is_computed(self) -> None:
        self.half.on_allocated("p", TOKENS, self.params, 0, [[7]], 0)
        self.half.build_step({"p": 4}, None)
        self.assertEqual(self.half.build_step({}, ["p"]).preempted, ["p"])
        self.assertTrue(self.half.is_following)
        self.assertFalse(self.half.on_finished("p", 0, "aborted", [[]]).delay_free)

    def test_a_consumer_that_decodes_is_not_told_of(self) -> None:
        params = {"do_remote_prefill": True, "transfer_id": "x", "remote_engine_id": "p9",
                  "remote_host": "h", "remote_port": 1, "tp_size": 1}  # fmt: skip
        self.assertEqual(self.half.matched_tokens("d", TOKENS, params, 4), 5)
        self.half.on_allocated("d", TOKENS, params, 4, [[7, 8, 9]], 5)
        [batch] = self.half.build_step({}, None).batches
        self.assertFalse(self.half.is_following)
        self.assertEqual(batch.events[-1]["fill"], [8, 9])
        self.half.on_output([], ["d"])
        self.half.on_allocated("d", TOKENS, params, 8, [[7, 8, 9]], 0)
        self.assertFalse(self.half.build_step({"d": 9}, None).is_saved)
        self.assertEqual(self.half.build_step({"d": 10}, None).index, -1)


class Lives(unittest.TestCase):
    def setUp(self) -> None:
        self.half = SchedulerHalf(engine_id="d0", block_tokens=4)

    def test_without_a_host_nothing_is_promised(self) -> None:
        for news in (None, HostNews(None, is_starting=False)):
            if news is not None:
                self.half.set_host(news)
            self.assertEqual(self.half.matched_tokens("r", TOKENS, consume(), 0), 0)
            self.half.on_allocated("p", TOKENS, PRODUCE, 0, [[1, 2, 3]], 0)
            self.assertEqual(self.half.on_finished("p", 9, "stopped", [[1, 2, 3]]), NOTHING)
            self.assertEqual(self.half.build_step({}, []).batches, [])

    def test_an_idle_engine_steps_on_while_a_host_starts(self) -> None:
        self.assertFalse(self.half.has_pending)
        self.half.set_host(GONE)
        self.assertTrue(self.half.has_pending)
        self.assertTrue(self.half.build_step({}, []).is_host_starting)
        self.half.set_host(ready("life-2"))
        self.assertFalse(self.half.has_pending)

    def test_a_request_of_an_earlier_life_asks_for_nothing_again(self) -> None:
        """After a preemption vLLM asks again; the producer has long freed those blocks."""
        params = consume()
        self.half.set_host(ready("life-1"))
        self.half.matched_tokens("r", TOKENS, params, 0)
        self.half.on_allocated("r", TOKENS, params, 0, [[1, 2, 3]], 9)
        self.half.set_host(GONE)
        self.half.set_host(ready("life-2"))
        self.assertEqual(self.half.matched_tokens("r", TOKENS, params, 0), 0)
        self.assertEqual(self.half.on_finished("r", 9, "stopped", [[1, 2, 3]]), NOTHING)
        epochs = [batch.epoch for batch in self.half.build_step({}, []).batches]
        self.assertEqual(epochs, ["life-1"])
        # Its id is forgotten with it.
        self.assertEqual(self.half.matched_tokens("r", TOKENS, params, 0), 9)

    def test_a_request_that_came_while_there_was_no_host(self) -> None:
        params = consume()
        self.half.on_new_request("r", TOKENS, params)
        self.half.set_host(ready("life-1"))
        self.assertEqual(self.half.matched_tokens("r", TOKENS, params, 0), 9)
        [batch] = self.half.build_step({}, []).batches
        self.assertEqual([event["k"] for event in batch.events], ["new", "match"])

    def test_an_end_after_the_host_died_belongs_to_its_life(self) -> None:
        self.half.set_host(ready("life-1"))
        self.half.on_allocated("p", TOKENS, PRODUCE, 0, [[1, 2, 3]], 0)
        self.assertTrue(self.half.on_finished("p", 9, "stopped", [[1, 2, 3]]).delay_free)
        self.half.set_host(ready("life-2"))
        self.half.on_allocated("q", TOKENS, PRODUCE, 0, [[4, 5, 6]], 0)
        batches = self.half.build_step({}, []).batches
        self.assertEqual([batch.epoch for batch in batches], ["life-1", "life-2"])
        self.assertEqual(batches[0].events[-1]["k"], "finish")


if __name__ == "__main__":
    unittest.main()
