"""No exception leaves a hook, and its time counts for the step in which it ran."""

from __future__ import annotations

import logging
import time
import unittest

from kvferry_vllm import hook_timing
from kvferry_vllm.hook_timing import hook, timer

logging.getLogger("vllm.kvferry").setLevel(logging.CRITICAL + 1)


class Hooks:
    def __init__(self) -> None:
        self.hook_failures = 0

    @hook(lambda: (0, False))
    def ask(self, seconds: float) -> tuple[int, bool]:
        time.sleep(seconds)
        if seconds < 0.002:
            raise KeyError("for the test")
        return 1, True


class HookTiming(unittest.TestCase):
    def setUp(self) -> None:
        timer.begin_step(False)
        timer.take()

    def test_an_exception_is_answered_and_counted(self) -> None:
        hooks = Hooks()
        self.assertEqual(hooks.ask(0.0), (0, False))
        self.assertEqual(hooks.ask(0.003), (1, True))
        self.assertEqual(hooks.hook_failures, 1)

    def test_steps_that_compute_are_kept_apart(self) -> None:
        hooks = Hooks()
        timer.begin_step(True)
        hooks.ask(0.002)
        hooks.ask(0.002)
        timer.begin_step(False)
        hooks.ask(0.003)
        timer.begin_step(True)
        timer.begin_step(True)
        computing, waiting = timer.take()
        self.assertEqual((len(computing), len(waiting)), (1, 1))
        self.assertGreaterEqual(computing[0], 4_000_000)
        self.assertGreaterEqual(waiting[0], 3_000_000)

    def test_samples_are_bounded(self) -> None:
        for _ in range(hook_timing.HOOK_SAMPLE_COUNT_MAX + 10):
            timer.elapsed_ns = 1
            timer.begin_step(True)
        self.assertEqual(len(timer.take()[0]), hook_timing.HOOK_SAMPLE_COUNT_MAX)


if __name__ == "__main__":
    unittest.main()
