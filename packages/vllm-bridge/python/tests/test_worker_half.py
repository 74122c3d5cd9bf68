"""What the worker half reports to vLLM, which asserts on ids it doesn't expect; and its start."""

from __future__ import annotations

import unittest

from kvferry_vllm.host_keeper import HostRefused
from kvferry_vllm.step_metadata import Event, Step

from .fake_host import finish, load, ready, results
from .worker_case import START, WorkerHalfCase

PART: Event = {"id": "r", "computed": 3, "blocks": [[1]]}


class Steps(WorkerHalfCase):
    def setUp(self) -> None:
        super().setUp()
        self.half.start()

    def test_start(self) -> None:
        self.assertEqual(self.host.sent, [{**START, "life": self.host.life}])
        facts = self.half.facts
        assert facts is not None
        self.assertEqual((facts.epoch, facts.host, facts.port), ("life-1", "127.0.0.1", 5600))
        self.assertNotIn(facts.handoff_key.hex(), repr(facts))

    def test_a_step_without_news_sends_nothing(self) -> None:
        self.step()
        self.step(scheduled=[PART])
        self.assertEqual(len(self.host.sent), 1)
        self.step(load("r", 4), scheduled=[PART])
        self.assertEqual(self.host.sent[1]["scheduled"], [PART])

    def test_a_load_is_reported_once(self) -> None:
        self.assert_output(self.step(load("r", 4, 5)))
        self.host.inbox.append(results(received=["r"]))
        self.assert_output(self.step(), received=["r"])
        self.host.inbox.append(results(received=["r"]))
        self.assert_output(self.step())

    def test_a_failed_load_names_its_blocks_in_the_same_step(self) -> None:
        self.step(load("r", 4, 5))
        self.host.inbox.append(results(received=["r"], failed=["r"]))
        self.assert_output(self.step(), received=["r"], invalid=[4, 5])

    def test_a_failed_load_of_an_aborted_request_spoils_no_blocks(self) -> None:
        """They may belong to another request as soon as vLLM hears of the end."""
        self.step(load("r", 4, 5))
        self.step(finish("r", delay_free=False))
        self.host.inbox.append(results(received=["r"], failed=["r"]))
        self.assert_output(self.step(), received=["r"])

    def test_unknown_ids_are_not_reported(self) -> None:
        self.host.inbox.append(results(sent=["x"], received=["y"], failed=["y"]))
        self.assert_output(self.step())

    def test_a_send_is_reported_once(self) -> None:
        self.step(finish("p", delay_free=True))
        self.host.inbox.append(results(sent=["p"]))
        self.assert_output(self.step(), sent=["p"])
        self.host.inbox.append(results(sent=["p"]))
        self.assert_output(self.step())

    def test_what_a_forward_computes_is_told_before_it_and_its_end_after_it(self) -> None:
        step = Step(0, [PART], [], [], "life-1", False, is_saved=True)
        self.half.begin_step(step)
        self.half.end_forward(step)
        message = {"t": "step", "index": 0, "scheduled": [PART], "preempted": [], "events": [],
                   "settle": False, "save": True}  # fmt: skip
        self.assertEqual(self.host.sent[1:], [message, {"t": "saved", "index": 0}])

    def test_a_host_of_another_life_hears_of_no_forward(self) -> None:
        step = Step(0, [PART], [], [], "an older life", False, is_saved=True)
        self.half.begin_step(step)
        self.half.end_forward(step)
        self.half.end_forward(Step.nothing("life-1", False))
        self.assertEqual(len(self.host.sent), 1)

    def test_totals_say_each_end_once(self) -> None:
        self.step(load("a", 4, 5), load("b", 6), finish("p", delay_free=True))
        self.assertIsNone(self.half.take_stats())
        self.host.inbox.append(results(sent=["p"], received=["a", "b"], failed=["b"]))
        self.step()
        expected = {"loads": 1, "loaded_bytes": 200, "loads_failed": 1, "sends": 1}
        self.assertEqual(self.half.take_stats(), expected)
        self.assertIsNone(self.half.take_stats())
        self.step(load("c", 7))
        self.host.die()
        self.step()
        self.assertEqual(self.half.take_stats(), {"loads_failed": 1, "host_deaths": 1})

    def test_preempted_requests_without_a_transfer_wait_for_nothing(self) -> None:
        self.step(load("r", 4))
        self.step(preempted=["other"])
        self.assertEqual([message.get("settle") for message in self.host.sent[1:]], [False, False])

    def test_preempted_requests_with_a_transfer_wait_for_the_host(self) -> None:
        self.step(load("r", 4))
        self.host.inbox.append({"t": "settled"})
        self.step(preempted=["r"])
        self.assertEqual([message.get("settle") for message in self.host.sent[1:]], [False, True])
        self.assertFalse(self.host.is_killed)

    def test_one_of_several_preempted_requests_is_enough_to_wait_for(self) -> None:
        self.step(load("r", 4))
        self.host.inbox.append({"t": "settled"})
        self.step(preempted=["other", "r"])
        self.assertTrue(self.host.sent[-1]["settle"])

    def test_blocks_that_are_kept_for_a_reader_wait_for_the_host(self) -> None:
        self.step(finish("p", delay_free=True))
        self.host.inbox.append({"t": "settled"})
        self.step(preempted=["p"])
        self.assertTrue(self.host.sent[-1]["settle"])

    def test_a_running_request_of_which_some_has_left_waits_for_the_host_once(self) -> None:
        """WRITEs may read its blocks, though vLLM waits for nothing of it yet."""
        self.half.begin_step(Step(0, [PART], [], [], "life-1", False, is_saved=True))
        self.index = 1
        self.host.inbox.append({"t": "settled"})
        self.step(preempted=["r"])
        self.step(preempted=["r"])
        self.assertEqual([message["settle"] for message in self.host.sent[1:]], [False, True, False])
        self.assertFalse(self.host.is_killed)

    def test_nothing_leaves_any_more_of_a_request_that_has_ended_or_whose_host_is_gone(self) -> None:
        for end in (lambda: self.step(finish("r", delay_free=False)), self._replace_host):
            with self.subTest(end):
                epoch = f"life-{len(self.hosts)}"
                self.half.begin_step(Step(self.index, [PART], [], [], epoch, False, is_saved=True))
                self.index += 1
                end()
                self.step(epoch=f"life-{len(self.hosts)}", preempted=["r"])
                self.assertFalse(self.host.sent[-1]["settle"])

    def _replace_host(self) -> None:
        self.greeting = [ready("life-2")]
        self.host.die()
        self.now += 1
        self.step()  # it's lost
        self.now += 1
        self.step()  # the next one is ready

    def test_what_ends_while_the_host_settles_is_reported(self) -> None:
        self.step(load("r", 4))
        self.host.inbox += [results(received=["r"]), {"t": "settled"}]
        self.assert_output(self.step(preempted=["r"]), received=["r"])

    def test_a_host_that_does_not_settle_is_ended_before_the_blocks_are_given_away(self) -> None:
        self.step(load("r", 4))
        old = self.host
        output = self.step(preempted=["r"])
        self.assertTrue(old.is_killed and old.is_gone)
        self.assert_output(output, received=["r"], invalid=[4])


class Start(WorkerHalfCase):
    def test_a_refusal_names_its_reason(self) -> None:
        self.greeting = [{"t": "refused", "code": "ERR_KV_CONFIG", "message": "ERR_KV_CONFIG: peers"}]
        with self.assertRaisesRegex(HostRefused, "ERR_KV_CONFIG: peers"):
            self.half.start()
        self.assertTrue(self.host.is_gone)
        self.half.close()

    def test_silence(self) -> None:
        self.greeting = []
        with self.assertRaisesRegex(HostRefused, "not become ready"):
            self.half.start()


if __name__ == "__main__":
    unittest.main()
