"""A worker half over fake hosts, with a clock of the test's: what its tests share."""

from __future__ import annotations

import logging
import unittest
from typing import Any

from kvferry_vllm.host_keeper import Supervision
from kvferry_vllm.step_metadata import Batch, Event, Step
from kvferry_vllm.worker_half import Output, WorkerHalf

from .fake_host import FakeHost, ready

logging.getLogger("vllm.kvferry").setLevel(logging.CRITICAL + 1)


START = {
    "t": "start",
    "caches": {"model": "tiny", "dtype": "float32", "layout": "LBHNC", "kvHeadCount": 2, "headSize": 64,
               "regions": [{}, {}]},
}  # fmt: skip


class WorkerHalfCase(unittest.TestCase):
    def setUp(self) -> None:
        self.now = 1_000.0
        self.hosts: list[FakeHost] = []
        self.greeting: list[dict[str, Any]] = [ready("life-1")]
        self.index = 0
        self.spawn_error: OSError | None = None
        self.half = WorkerHalf(self._start, START, Supervision(), 100, lambda: self.now)  # type: ignore[arg-type]

    def _start(self) -> FakeHost:
        if self.spawn_error is not None:
            raise self.spawn_error
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
