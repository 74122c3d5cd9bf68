"""Prompts that come back: the tables answer as xavier did, and both halves of the shim carry question and answer."""

from __future__ import annotations

import unittest
from base64 import b64decode
from typing import Any
from unittest import mock

from kvferry_vllm import limits, returning_prompts, scheduler_half
from kvferry_vllm.block_keys import BLOCK_KEY_SIZE_BYTES, BlockKeyer, KvIdentity
from kvferry_vllm.handoff import Prompt, digest_tokens
from kvferry_vllm.returning_prompts import ANSWER_TIMEOUT_MS, Matched, ReturningPrompts
from kvferry_vllm.scheduler_half import SchedulerHalf
from kvferry_vllm.step_metadata import Event, HostAnswers, HostFacts, HostNews
from kvferry_vllm.xavier_params import decode_ticket_rank
from kvferry_vllm.xavier_rules import XavierRules

from . import golden
from .conversations import play
from .fake_host import finish, load, ready, results
from .worker_case import WorkerHalfCase

IDENTITY = KvIdentity("tiny", "float32 LBNHC")
PRODUCE = {"do_remote_decode": True, "do_remote_prefill": False}
#: 9 tokens in blocks of four: the 8 that are kept fill two.
TOKENS = list(range(9))


class GoldenConversations(unittest.TestCase):
    def test_all(self) -> None:
        scripts = golden.returning_scripts()
        self.assertGreater(len(scripts), 10)
        for script in scripts:
            with self.subTest(seed=script["seed"]):
                rank = decode_ticket_rank(bytes.fromhex(script["metadata"]))
                self.assertTrue(rank.keeps_history)
                block_tokens = script["blockTokens"]
                keyer = BlockKeyer(IDENTITY, block_tokens)

                def prompt_of(request: dict[str, Any]) -> Prompt:
                    tokens = [request["token"]] * request["prompt"]
                    self.assertEqual(digest_tokens(tokens).hex(), request["digest"])
                    first_key = keyer.keys_of(tokens[:-1])[:BLOCK_KEY_SIZE_BYTES]
                    return Prompt(len(tokens), digest_tokens(tokens), first_key)

                started = XavierRules(
                    engine_id=script["engineId"],
                    host="127.0.0.1",
                    port=5600,
                    block_tokens=block_tokens,
                    recompute_threshold=0,
                    ticket_key=rank.ticket_key,
                    keeps_history=True,
                )
                play(self, started, script, prompt_of)


class Bounds(unittest.TestCase):
    def test_the_first_blocks_that_were_not_offered_for_longest_are_forgotten(self) -> None:
        prompts = ReturningPrompts(4)
        with mock.patch.object(returning_prompts, "OFFERED_PROMPT_COUNT_MAX", 2):
            for number, key in enumerate((b"a", b"b", b"a", b"c", b"")):
                prompts.add(f"r{number}", 8, key)
                prompts.offer(f"r{number}")
        for key, answer in ((b"a", None), (b"b", 0), (b"c", None), (b"", 0)):
            prompts.add("again", 8, key)
            self.assertEqual(prompts.matched("again", 0, 0.0), answer, key)

    def test_a_prompt_that_is_being_restored_asks_for_nothing(self) -> None:
        prompts = ReturningPrompts(4)
        prompts.add("r", 8, b"a")
        prompts.offer("r")
        prompts.matched("r", 0, 0.0)
        prompts.answered(Matched("r", 1, 2), 1.0)
        self.assertTrue(prompts.allocated("r", 8))
        self.assertEqual(prompts.matched("r", 0, 2.0), 0)
        self.assertFalse(prompts.allocated("r", 0))


class Scheduler(unittest.TestCase):
    """A producer's scheduler half whose host keeps a history."""

    def setUp(self) -> None:
        self.now_ms = 1_000.0
        clock = mock.patch.object(scheduler_half, "_now_ms", lambda: self.now_ms)
        clock.start()
        self.addCleanup(clock.stop)
        self.half = SchedulerHalf(engine_id="p0", block_tokens=4)
        self.start("life-1")
        self.serve("first", 0)

    def start(self, epoch: str, identity: KvIdentity | None = IDENTITY) -> None:
        facts = HostFacts(epoch, "xavier", "127.0.0.1", 5600, b"k" * 32, 30_000.0, 0, kv_identity=identity)
        self.half.set_host(HostNews(facts, is_starting=False))

    def serve(self, request_id: str, external: int) -> None:
        self.half.on_allocated(request_id, TOKENS, PRODUCE, 0, [[7, 8, 9]], external)
        if external > 0:
            self.half.on_output([], [request_id])
        self.assertTrue(self.half.on_finished(request_id, 9, "length-capped", [[7, 8, 9]]).delay_free)
        self.half.on_output([request_id], [])

    def ask(self, request_id: str = "again", computed: int = 0) -> int | None:
        return self.half.matched_tokens(request_id, TOKENS, PRODUCE, computed)

    def answer(self, blocks: int, question: int = 1, epoch: str = "life-1") -> None:
        self.half.on_answers(HostAnswers(epoch, [Matched("again", question, blocks)]))

    def events(self) -> list[Event]:
        return [event for batch in self.half.build_step({}, []).batches for event in batch.events]

    def test_a_restore(self) -> None:
        self.events()
        for _ in range(3):
            self.assertIsNone(self.ask(), "the host looks it up")
        new, match = self.events()
        self.assertEqual(b64decode(new["keys"]), BlockKeyer(IDENTITY, 4).keys_of(TOKENS[:8]))
        self.assertEqual(match, {"k": "match", "id": "again", "computed": 0, "answer": None, "at": 1_000.0})
        self.now_ms = 1_007.5
        self.answer(2)
        self.assertEqual(self.ask(), 8)
        self.half.on_allocated("again", TOKENS, PRODUCE, 0, [[1, 2, 3]], 8)
        output, match, alloc = self.events()
        told = {"id": "again", "question": 1, "blocks": 2}
        self.assertEqual(output, {"k": "output", "sent": [], "received": [], "matched": [told], "at": 1_007.5})
        self.assertEqual((match["answer"], match["at"]), (8, 1_007.5))
        self.assertEqual((alloc["external"], alloc["fill"], alloc["isRestore"]), (8, [1, 2], True))

    def test_after_a_local_hit_only_the_rest_is_filled(self) -> None:
        self.ask(computed=4)
        self.answer(1)
        self.assertEqual(self.ask(computed=4), 4)
        self.half.on_allocated("again", TOKENS, PRODUCE, 0, [[1, 2, 3]], 4)
        self.assertEqual(self.events()[-1]["fill"], [2])

    def test_one_that_ends_while_it_is_restored_is_waited_for(self) -> None:
        self.ask()
        self.answer(2)
        self.ask()
        self.half.on_allocated("again", TOKENS, PRODUCE, 0, [[1, 2, 3]], 8)
        self.assertEqual(self.half.on_finished("again", 0, "aborted", [[1, 2, 3]]).delay_free, False)
        self.events()
        self.assertTrue(self.half.has_pending, "the host may still write its blocks")
        self.half.on_output([], ["again"])
        self.events()
        self.assertFalse(self.half.has_pending)

    def test_the_same_answer_after_an_answer_of_the_host_is_told_again(self) -> None:
        """A question that is asked anew has the answer that its predecessor had."""
        self.ask()
        self.answer(2)
        self.now_ms += returning_prompts.RESERVATION_RENEW_MS
        self.events()
        self.assertIsNone(self.ask())
        self.assertEqual([event["k"] for event in self.events()], ["match"])

    def test_nobody_waits_longer_than_the_deadline(self) -> None:
        self.assertIsNone(self.ask())
        self.now_ms += ANSWER_TIMEOUT_MS - 0.5
        self.assertIsNone(self.ask())
        self.now_ms += 0.5
        self.assertEqual(self.ask(), 0)
        self.answer(2)
        self.assertEqual(self.ask(), 0)

    def test_answers_to_others_change_nothing(self) -> None:
        self.ask()
        self.events()
        self.answer(2, epoch="an older life")
        self.half.on_answers(HostAnswers("life-1", [Matched("stranger", 1, 2)]))
        self.assertEqual(self.events(), [])
        self.answer(2, question=7)
        self.assertIsNone(self.ask())

    def test_a_new_host_has_an_empty_history(self) -> None:
        self.ask()
        self.half.set_host(HostNews(None, is_starting=True))
        self.assertEqual(self.ask(), 0, "its request goes on without")
        self.start("life-2")
        self.assertEqual(self.ask(), 0)
        self.assertEqual(self.ask("another"), 0)

    def test_after_a_reset_nothing_that_is_kept_is_found_again(self) -> None:
        self.assertIsNone(self.ask())
        self.assertFalse(self.half.reset_history(), "a request is open that may be restored")
        self.half.on_finished("again", 0, "aborted", [[]])
        self.assertTrue(self.half.reset_history())
        self.assertEqual(self.ask(), 0)
        self.half.on_finished("again", 0, "aborted", [[]])
        # A host that starts later has the same weights; what is served now is found again.
        self.start("life-2")
        self.serve("second", 0)
        self.assertIsNone(self.ask())
        self.assertNotEqual(b64decode(self.events()[-2]["keys"]), BlockKeyer(IDENTITY, 4).keys_of(TOKENS[:8]))

    def test_without_a_history_there_is_nothing_to_reset(self) -> None:
        self.start("life-2", identity=None)
        self.ask()
        self.assertTrue(self.half.reset_history())

    def test_another_salt_is_another_prompt(self) -> None:
        self.assertEqual(self.half.matched_tokens("again", TOKENS, PRODUCE, 0, "tenant"), 0)

    def test_nobody_else_pays_for_keys(self) -> None:
        self.half.matched_tokens("d", TOKENS, {"do_remote_prefill": True}, 0)
        self.assertNotIn("keys", self.events()[-2])
        self.start("life-2", identity=None)
        self.ask()
        for event in self.events():
            self.assertFalse({"keys", "at"} & set(event), event)


class Worker(WorkerHalfCase):
    def setUp(self) -> None:
        super().setUp()
        self.greeting = [ready("life-1", "xavier")]
        facts = self.half.start()
        assert facts.kv_identity is not None
        self.assertEqual(facts.kv_identity.layout, "float32 LBHNC 2 2 64")

    def asked(self, request_id: str = "r", answer: int | None = None) -> Event:
        return {"k": "match", "id": request_id, "computed": 0, "answer": answer, "at": 1.0}

    def told(self, request_id: str = "r") -> Any:
        return results(matched=[{"id": request_id, "question": 1, "blocks": 2}])

    def test_an_open_question_is_listened_for_in_every_step(self) -> None:
        self.step()
        self.step(self.asked())
        self.assertIsNone(self.half.take_answers())
        self.host.inbox.append(self.told())
        self.step()
        self.assertEqual(self.half.take_answers(), HostAnswers("life-1", [Matched("r", 1, 2)]))
        self.assertIsNone(self.half.take_answers(), "told twice")

    def test_a_host_that_is_silent_about_a_question_is_killed(self) -> None:
        self.step(self.asked())
        for _ in range(int(limits.HOST_ANSWER_TIMEOUT_S) + 3):
            self.now += 1
            self.step()
        self.assertTrue(self.host.is_killed)

    def test_what_nobody_waits_for_is_not_listened_for(self) -> None:
        for last in (self.asked(answer=0), finish("r", delay_free=False), None):
            self.step(self.asked())
            if last is None:
                self.host.inbox.append(self.told())
            self.step(*([] if last is None else [last]))
            count = len(self.host.sent)
            self.now += limits.PING_INTERVAL_S + 1
            self.step()
            self.assertEqual(len(self.host.sent), count, last)

    def test_a_question_to_a_host_that_is_gone(self) -> None:
        self.host.inbox.append(self.told())
        self.host.is_open, self.host.is_gone = False, True
        self.step(self.asked())
        self.host.inbox.append(ready("life-2", "xavier"))
        self.step()
        self.assertIsNone(self.half.take_answers(), "its reservation went with it")
        for question in ((), (self.asked(),)):
            self.now += limits.PING_INTERVAL_S + 1
            self.step(*question)
            self.assertNotIn({"t": "ping"}, self.host.sent, "asked of its predecessor")

    def test_restores_are_counted_apart(self) -> None:
        restore = {**load("r", 4, 5), "isRestore": True}
        self.step(restore)
        self.host.inbox.append(results(received=["r"]))
        self.assert_output(self.step(), received=["r"])
        self.assertEqual(self.half.take_stats(), {"restores": 1, "restored_blocks": 2})
        self.step(restore)
        self.host.inbox.append(results(received=["r"], failed=["r"]))
        self.assert_output(self.step(), received=["r"], invalid=[4, 5])
        self.assertEqual(self.half.take_stats(), {"restores_failed": 1})

    def test_a_host_that_dies_in_the_middle_of_a_restore(self) -> None:
        """Its copies end with it: until it's reaped they may write."""
        self.step({**load("r", 4, 5), "isRestore": True})
        self.host.is_open = False
        self.assert_output(self.step())
        self.host.is_gone = True
        self.assert_output(self.step(), received=["r"], invalid=[4, 5])

    def test_a_restore_waits_for_no_producer(self) -> None:
        self.half.close()
        super().setUp()
        self.greeting = [{**ready("life-1", "xavier"), "registrationTimeoutMs": 600_000}]
        self.half.start()
        self.step({**load("r", 4, 5), "isRestore": True})
        for _ in range(int(limits.LOAD_TIMEOUT_S) - 1):
            self.now += 1
            self.host.inbox.append({"t": "pong", "counters": {}})
            self.step()
        self.assertFalse(self.host.is_killed)
        self.now += 2
        self.step()
        self.assertTrue(self.hosts[-1].is_killed)

    def test_blocks_that_it_was_copying_are_free_when_it_is_reaped(self) -> None:
        self.step(finish("p", delay_free=True))
        self.host.die()
        self.assert_output(self.step(), sent=["p"])


if __name__ == "__main__":
    unittest.main()
