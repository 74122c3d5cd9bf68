"""How long the engine's thread spends inside our hooks, per step.

Always on: two clock readings a hook cost less than a microsecond together. A step begins with
`build_connector_meta`, which vLLM calls exactly once a step in the scheduler's process; a worker process
without a scheduler half cuts at `bind_connector_metadata`. Owned by connector.py.
"""

from __future__ import annotations

import functools
import time
from typing import Any, Callable, TypeVar

from .limits import HOOK_SAMPLE_COUNT_MAX

Function = TypeVar("Function", bound=Callable[..., Any])


class HookTimer:
    """Nanoseconds inside hooks, one sample a step, in a ring."""

    def __init__(self) -> None:
        self._samples: list[int] = []
        self._next = 0
        self._current_ns = 0

    def add(self, elapsed_ns: int) -> None:
        self._current_ns += elapsed_ns

    def end_step(self) -> None:
        if len(self._samples) < HOOK_SAMPLE_COUNT_MAX:
            self._samples.append(self._current_ns)
        else:
            self._samples[self._next] = self._current_ns
            self._next = (self._next + 1) % HOOK_SAMPLE_COUNT_MAX
        self._current_ns = 0

    def take(self) -> list[int]:
        """The samples since the last call, in nanoseconds; unordered once the ring is full."""
        samples, self._samples, self._next = self._samples, [], 0
        return samples


#: One engine thread per process, so one timer.
timer = HookTimer()


def timed(hook: Function) -> Function:
    """Adds the time of each call to the current step."""

    @functools.wraps(hook)
    def measured(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter_ns()
        try:
            return hook(*args, **kwargs)
        finally:
            timer.add(time.perf_counter_ns() - started)

    return measured  # type: ignore[return-value]
