"""A host that was lost comes back to an engine that has nothing else to do.

Both halves as vLLM runs them: apart, with the step's metadata and the news pickled between them, and only
as many steps as vLLM would make: while a request is open or the scheduler half asks for more.
"""

from __future__ import annotations

import pickle
import unittest
from typing import Any, Sequence

from kvferry_vllm import limits
from kvferry_vllm.scheduler_half import SchedulerHalf
from kvferry_vllm.step_metadata import HostNews

from . import golden
from .fake_host import ready, results
from .worker_case import WorkerHalfCase

#: Steps after which an engine that is still busy would never end.
STEP_COUNT_MAX = 1_000


def offer() -> tuple[Sequence[int], dict[str, Any]]:
    """A prompt's tokens, and a handoff of it by another engine."""
    vector = golden.handoffs()["parsed"][0]
    return range(vector["context"]["promptTokenCount"]), vector["params"]


class IdleEngine(WorkerHalfCase):
    def setUp(self) -> None:
        super().setUp()
        facts = self.half.start()
        self.scheduler = SchedulerHalf(engine_id="d0", block_tokens=4)
        self.scheduler.set_host(HostNews(facts, is_starting=False))
        self.requests: set[str] = set()
        self.invalid: set[int] = set()

    def make_step(self) -> None:
        step = pickle.loads(pickle.dumps(self.scheduler.build_step({}, None)))
        self.half.begin_step(step)
        output = self.half.take_output()
        news = self.half.news_for(step)
        self.scheduler.on_output(output.sent, output.received)
        if news is not None:
            self.scheduler.set_host(pickle.loads(pickle.dumps(news)))
        self.requests -= output.received
        self.invalid |= output.invalid_block_ids

    def run_until_idle(self, next_life: str | None = None) -> int:
        """Steps that it took. `next_life`: the host that has been started by then is ready at the fifth."""
        for count in range(STEP_COUNT_MAX):
            if not self.requests and not self.scheduler.has_pending:
                return count
            if count == 5 and next_life is not None:
                self.host.inbox.append(ready(next_life))
            self.make_step()
        raise AssertionError(f"the engine is still busy after {STEP_COUNT_MAX} steps")

    def load(self, request_id: str) -> int:
        """A request that would load. Returns the tokens that were promised."""
        prompt, params = offer()
        promised = self.scheduler.matched_tokens(request_id, prompt, params, 0)
        self.scheduler.on_allocated(request_id, prompt, params, 0, [[1, 2, 3]], promised)
        if promised > 0:
            self.requests.add(request_id)
        return promised

    def finish(self, request_id: str) -> None:
        self.scheduler.on_finished(request_id, 0, "stopped", [[1, 2, 3]])

    def test_lost_in_the_middle_of_a_load(self) -> None:
        self.assertGreater(self.load("a"), 0)
        self.make_step()
        self.host.die()
        self.run_until_idle("life-2")
        self.assertEqual((self.invalid, self.scheduler.epoch), ({1, 2, 3}, "life-2"))
        self.finish("a")
        self.assertGreater(self.load("b"), 0, "tokens that are promised of the new host")

    def test_silent_for_too_long(self) -> None:
        self.load("a")
        old = self.host
        self.make_step()
        self.now += limits.PING_INTERVAL_S + 0.1
        self.make_step()
        self.now += limits.HOST_ANSWER_TIMEOUT_S + 0.1
        self.make_step()
        self.assertTrue(old.is_killed)
        old.is_gone = True
        self.run_until_idle("life-2")
        self.assertEqual((self.invalid, self.scheduler.epoch), ({1, 2, 3}, "life-2"))
        self.assertGreater(self.load("b"), 0)

    def test_lost_while_idle_is_noticed_with_the_next_request(self) -> None:
        self.assertEqual(self.run_until_idle(), 0)
        self.now += 60
        self.host.die()
        self.assertEqual(self.run_until_idle(), 0, "nobody tells it")
        self.load("a")
        self.run_until_idle("life-2")
        self.assertEqual((self.invalid, self.scheduler.epoch), ({1, 2, 3}, "life-2"))
        self.assertGreater(self.load("b"), 0)

    def test_lost_too_often_it_comes_back_with_a_request_after_a_while(self) -> None:
        """A busy machine made hosts miss their time again and again: not a state for ever."""
        for count in range(limits.RESTART_COUNT_MAX + 1):
            self.load(f"a{count}")
            self.make_step()
            self.host.die()
            self.greeting = [ready(f"next-{count}")] if count < limits.RESTART_COUNT_MAX else []
            self.run_until_idle()
        self.assertIsNone(self.scheduler.epoch)
        self.assertEqual(self.load("b"), 0)
        self.now += limits.RESTART_WINDOW_S + 0.1
        self.greeting = [ready("much later")]
        self.make_step()  # of a request that computes
        self.run_until_idle()
        self.assertEqual(self.scheduler.epoch, "much later")
        self.assertGreater(self.load("c"), 0)

    def test_a_load_that_ends(self) -> None:
        """The control: nothing is lost, and nothing goes on for ever."""
        self.load("a")
        self.make_step()
        self.host.inbox.append(results(received=["a"]))
        self.run_until_idle()
        self.assertEqual((self.invalid, self.scheduler.epoch), (set(), "life-1"))


if __name__ == "__main__":
    unittest.main()
