"""What the worker half reports to vLLM, which asserts on ids it doesn't expect, and when after a death."""

from __future__ import annotations

import logging
import unittest
from typing import Any

from kvferry_vllm import limits
from kvferry_vllm.step_metadata import Batch, Event, Step
from kvferry_vllm.host_keeper import HostRefused, Supervision
from kvferry_vllm.worker_half import Output, WorkerHalf

from . import golden

logging.getLogger("vllm.kvferry").setLevel(logging.CRITICAL + 1)
LEASE_MS = 30_000.0
PART: Event = {"id": "r", "computed": 3, "blocks": [[1]]}


class FakeHost:
    """Holds what was sent, and hands out what the test puts into `inbox`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.sent: list[dict[str, Any]] = []
        self.inbox: list[dict[str, Any]] = []
        self.is_open = True
        self.is_gone = False
        self.end_reason: str | None = None
        self.is_killed = False

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def flush(self) -> None: ...

    def receive(self) -> list[dict[str, Any]]:
        messages, self.inbox = self.inbox, []
        return messages

    def wait_for(self, is_met: Any, timeout_s: float) -> list[dict[str, Any]]:
        return self.receive()

    def is_reaped(self) -> bool:
        return self.is_gone

    def wait_for_end(self, timeout_s: float) -> int | None:
        self.is_gone = True
        return -9

    def kill(self, reason: str) -> None:
        self.is_killed, self.is_open = True, False
        self.end_reason = self.end_reason or reason

    def close(self, timeout_s: float) -> int | None:
        self.is_open, self.is_gone = False, True
        return 0

    def die(self) -> None:
        self.is_open, self.is_gone, self.end_reason = False, True, "killed by the test"


def ready(incarnation: str) -> dict[str, Any]:
    metadata = golden.hook_scripts()[0]["metadata"]
    return {"t": "ready", "incarnation": incarnation, "metadata": metadata,
            "leaseMs": LEASE_MS, "recomputeThreshold": 0}  # fmt: skip


def load(request_id: str, *fill: int) -> Event:
    return {"k": "alloc", "id": request_id, "blocks": [list(fill)], "external": 5, "fill": list(fill)}


def finish(request_id: str, delay_free: bool) -> Event:
    return {"k": "finish", "id": request_id, "delayFree": delay_free}


def results(sent: Any = (), received: Any = (), failed: Any = ()) -> dict[str, Any]:
    failures = [{"id": request_id, "code": "ERR", "message": "why"} for request_id in failed]
    return {"t": "results", "sent": list(sent), "received": list(received), "failed": failures}


class WorkerHalfCase(unittest.TestCase):
    def setUp(self) -> None:
        self.now = 1_000.0
        self.hosts: list[FakeHost] = []
        self.greeting: list[dict[str, Any]] = [ready("life-1")]
        self.index = 0
        self.half = WorkerHalf(self._start, {"t": "start"}, Supervision(), lambda: self.now)  # type: ignore[arg-type]

    def _start(self) -> FakeHost:
        host = FakeHost(len(self.hosts) + 1)
        host.inbox, self.greeting = self.greeting, []
        self.hosts.append(host)
        return host

    @property
    def host(self) -> FakeHost:
        return self.hosts[-1]

    def step(
        self, *events: Event, epoch: str = "life-1", preempted: Any = (), scheduled: Any = ()
    ) -> Output:
        step = Step.nothing(epoch, False)
        if events or preempted:
            batches = [Batch(epoch, list(events))] if events else []
            step = Step(self.index, list(scheduled), list(preempted), batches, epoch, False)
            self.index += 1
        if preempted:
            self.half.settle_preempted(step)
        self.half.begin_step(step)
        return self.half.take_output()

    def is_starting(self) -> bool:
        news = self.half.news_for(Step.nothing("an older life", False))
        assert news is not None
        return news.is_starting

    def assert_output(self, output: Output, sent: Any = (), received: Any = (), invalid: Any = ()) -> None:
        actual = (output.sent, output.received, output.invalid_block_ids)
        self.assertEqual(actual, (set(sent), set(received), set(invalid)))


class Steps(WorkerHalfCase):
    def setUp(self) -> None:
        super().setUp()
        self.half.start()

    def test_start(self) -> None:
        self.assertEqual(self.host.sent, [{"t": "start"}])
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

    def test_a_host_that_does_not_settle_is_ended_before_the_blocks_are_given_away(self) -> None:
        self.step(load("r", 4))
        old = self.host
        output = self.step(preempted=["r"])
        self.assertTrue(old.is_killed and old.is_gone)
        self.assert_output(output, received=["r"], invalid=[4])


class Deaths(WorkerHalfCase):
    def setUp(self) -> None:
        super().setUp()
        self.half.start()

    def test_loads_fail_only_when_the_process_is_reaped(self) -> None:
        self.step(load("r", 4, 5))
        self.host.is_open = False
        self.assert_output(self.step())
        self.assertTrue(self.host.is_killed, "it closed its socket and lives")
        self.assertIsNone(self.half.facts)
        self.assert_output(self.step())
        self.host.is_gone = True
        self.assert_output(self.step(), received=["r"], invalid=[4, 5])
        self.assert_output(self.step())

    def test_blocks_stay_for_as_long_as_a_reader_may_hold_a_lease(self) -> None:
        self.step(finish("p", delay_free=True))
        self.host.die()
        self.assert_output(self.step())
        self.now += LEASE_MS / 1_000 - 0.001
        self.assert_output(self.step())
        self.now += 0.001
        self.assert_output(self.step(), sent=["p"])
        self.assert_output(self.step())

    def test_a_second_death_shortens_nothing(self) -> None:
        self.step(finish("p", delay_free=True))
        self.host.die()
        self.assert_output(self.step())
        # The next host dies before it is ready: it granted no lease, but the first one did.
        self.host.die()
        self.now += limits.QUIET_LOOK_INTERVAL_S + 0.01
        self.assert_output(self.step())
        self.now += LEASE_MS / 1_000 - limits.QUIET_LOOK_INTERVAL_S - 0.02
        self.assert_output(self.step())
        self.now += 0.02
        self.assert_output(self.step(), sent=["p"])

    def test_events_for_a_host_that_is_gone(self) -> None:
        self.host.die()
        self.greeting = [ready("life-2")]
        self.step()
        self.step()
        news = self.half.news_for(Step.nothing("life-1", False))
        assert news is not None and news.facts is not None
        self.assertEqual((news.facts.epoch, news.is_starting), ("life-2", False))
        self.assertIsNone(self.half.news_for(Step.nothing("life-2", False)))
        before = list(self.host.sent)
        output = self.step(load("r", 4), finish("p", delay_free=True), epoch="life-1")
        self.assert_output(output, sent=["p"], received=["r"], invalid=[4])
        self.assertEqual(self.host.sent, before)

    def test_the_new_host_can_not_release_what_the_old_one_kept(self) -> None:
        self.step(finish("p", delay_free=True))
        self.host.die()
        self.greeting = [ready("life-2"), results(sent=["p"])]
        self.step()
        self.assert_output(self.step())

    def test_restarts_are_limited(self) -> None:
        for count in range(limits.RESTART_COUNT_MAX):
            self.host.die()
            self.now += limits.QUIET_LOOK_INTERVAL_S + 0.01
            self.step()
            self.assertEqual(len(self.hosts), count + 2)
            self.assertTrue(self.is_starting())
        self.host.die()
        self.now += limits.QUIET_LOOK_INTERVAL_S + 0.01
        self.step()
        self.assertEqual(len(self.hosts), limits.RESTART_COUNT_MAX + 1)
        self.assertFalse(self.is_starting())
        self.assert_output(self.step(load("r", 4)), received=["r"], invalid=[4])

    def test_a_restarted_host_that_never_becomes_ready_is_ended(self) -> None:
        self.step(load("r", 4))
        self.host.die()
        self.step()
        self.now += limits.START_TIMEOUT_S - 0.1
        self.step()
        self.assertFalse(self.host.is_killed)
        self.now += 0.2
        self.step()
        self.assertTrue(self.host.is_killed)

    def test_restarts_far_apart_are_not_counted_together(self) -> None:
        for _ in range(2 * limits.RESTART_COUNT_MAX):
            self.host.die()
            self.step()
            self.now += limits.RESTART_WINDOW_S
        self.assertEqual(len(self.hosts), 2 * limits.RESTART_COUNT_MAX + 1)

    def test_a_silent_host_is_asked_and_then_ended(self) -> None:
        self.step(load("r", 4))
        self.now += limits.PING_INTERVAL_S + 0.1
        self.step()
        self.assertEqual(self.host.sent[-1], {"t": "ping"})
        self.now += limits.HOST_ANSWER_TIMEOUT_S + 0.1
        old = self.host
        self.assert_output(self.step())
        self.assertTrue(old.is_killed)
        old.is_gone = True
        self.assert_output(self.step(), received=["r"], invalid=[4])

    def test_a_host_that_answers_lives(self) -> None:
        self.step(load("r", 4))
        for _ in range(30):
            self.now += limits.PING_INTERVAL_S + 0.1
            self.step()
            self.host.inbox.append({"t": "pong", "counters": {}})
            self.step()
        self.assertFalse(self.host.is_killed)

    def test_the_death_of_a_host_of_which_nothing_is_expected(self) -> None:
        self.step()
        self.host.die()
        self.step()
        self.assertEqual(len(self.hosts), 1, "it's looked at now and then only")
        self.now += limits.QUIET_LOOK_INTERVAL_S + 0.01
        self.step()
        self.assertEqual(len(self.hosts), 2)

    def test_an_idle_host_is_not_asked(self) -> None:
        self.now += 1_000
        self.step()
        self.assertEqual(len(self.host.sent), 1)

    def test_a_load_without_an_end_ends_the_host(self) -> None:
        self.step(load("r", 4))
        for _ in range(int(limits.LOAD_TIMEOUT_S)):
            self.now += 1.1
            self.host.inbox.append({"t": "pong", "counters": {}})
            self.step()
        self.assertTrue(self.hosts[0].is_killed)


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
