"""What a host's death means: when loads fail, how long blocks stay, when another one is started."""

from __future__ import annotations

import logging
import unittest

from kvferry_vllm import limits
from kvferry_vllm.step_metadata import Step

from .fake_host import LEASE_MS, finish, load, ready, results
from .worker_case import WorkerHalfCase


class Deaths(WorkerHalfCase):
    def setUp(self) -> None:
        super().setUp()
        self.half.start()

    def start_with(self, connector: str) -> None:
        super().setUp()
        self.greeting = [ready("life-1", connector)]
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

    def test_a_host_that_is_starting_has_nothing_to_settle(self) -> None:
        """It began no transfer, so its silence is no reason to end it."""
        self.step(finish("p", delay_free=True))
        self.host.die()
        self.step()
        self.assert_output(self.step(preempted=["p"]))
        self.assertEqual(len(self.hosts), 2)
        self.assertFalse(self.host.is_killed)

    def test_what_only_the_host_itself_read_is_free_when_it_is_reaped(self) -> None:
        self.half.close()
        self.start_with("push")
        self.step(finish("p", delay_free=True))
        self.host.is_open = False
        self.assert_output(self.step())
        self.host.is_gone = True
        self.assert_output(self.step(), sent=["p"])

    def test_a_load_may_wait_for_its_producer_first(self) -> None:
        self.half.close()
        self.start_with("push")
        self.step(load("r", 4))
        for _ in range(480 + int(limits.LOAD_TIMEOUT_S) - 1):
            self.now += 1
            self.host.inbox.append({"t": "pong", "counters": {}})
            self.step()
        self.assertFalse(self.hosts[-1].is_killed)
        self.now += 2
        self.step()
        self.assertTrue(self.hosts[-1].is_killed)

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

    def test_after_too_many_deaths_another_host_comes_when_the_first_is_old(self) -> None:
        for _ in range(limits.RESTART_COUNT_MAX + 1):
            self.host.die()
            self.now += limits.QUIET_LOOK_INTERVAL_S + 0.01
            self.step()
        self.assertFalse(self.is_starting())
        self.now += limits.RESTART_WINDOW_S
        self.greeting = [ready("life-9")]
        self.step()
        self.assertEqual(len(self.hosts), limits.RESTART_COUNT_MAX + 2)
        self.assertTrue(self.is_starting())
        self.step()
        assert self.half.facts is not None
        self.assertEqual(self.half.facts.epoch, "life-9")

    def test_a_host_that_can_not_be_started_is_tried_again(self) -> None:
        self.spawn_error = OSError("no memory")
        self.host.die()
        self.now += limits.QUIET_LOOK_INTERVAL_S + 0.01
        self.step()
        self.assertFalse(self.is_starting())
        self.spawn_error = None
        self.now += limits.RESTART_WINDOW_S + 0.01
        self.step()
        self.assertTrue(self.is_starting())

    def test_after_the_end_nothing_is_started(self) -> None:
        self.host.die()
        self.now += limits.QUIET_LOOK_INTERVAL_S + 0.01
        self.step()
        self.half.close()
        self.now += limits.RESTART_WINDOW_S + 0.01
        self.step()
        self.assertEqual(len(self.hosts), 2)

    def test_what_a_loss_means_is_said(self) -> None:
        self.step(finish("p", delay_free=True))
        self.host.die()
        # The second one dies before it is ready: its own leases are none, the kept blocks are still kept.
        for said in ("0 loads fail, 1 requests keep their blocks for 30.0 s", "blocks for 29.5 s"):
            with self.assertLogs("vllm.kvferry", logging.ERROR) as logs:
                self.step()
            self.assertIn(said, logs.output[-1])
            self.host.die()
            self.now += 0.5
        self.now += LEASE_MS / 1_000
        self.step()
        self.host.die()
        self.now += limits.QUIET_LOOK_INTERVAL_S + 0.01
        with self.assertLogs("vllm.kvferry", logging.ERROR) as logs:
            self.step()
        self.assertTrue(logs.output[-1].endswith("0 requests keep their blocks"), logs.output)

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


if __name__ == "__main__":
    unittest.main()
