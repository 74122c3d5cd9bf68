"""Our hooks inside the engine's thread: how long they take, and that no exception leaves one.

Always on: two clock readings a hook cost less than a microsecond together. A step begins with
`build_connector_meta`, which vLLM calls exactly once a step in the scheduler's process, and with
`bind_connector_metadata` in a worker's process of its own. Used by connector.py.
"""

from __future__ import annotations

import functools
import logging
from time import perf_counter_ns
from typing import Any, Callable, TypeVar

from .limits import HOOK_SAMPLE_COUNT_MAX

Hook = TypeVar("Hook", bound=Callable[..., Any])
logger = logging.getLogger("vllm.kvferry")


class _Ring:
    """The latest samples; unordered once it's full."""

    def __init__(self) -> None:
        self._samples: list[int] = []
        self._next = 0

    def add(self, sample: int) -> None:
        if len(self._samples) < HOOK_SAMPLE_COUNT_MAX:
            self._samples.append(sample)
        else:
            self._samples[self._next] = sample
            self._next = (self._next + 1) % HOOK_SAMPLE_COUNT_MAX

    def take(self) -> list[int]:
        samples, self._samples, self._next = self._samples, [], 0
        return samples


class HookTimer:
    """Nanoseconds inside hooks, one sample a step; steps that compute apart from those that only wait."""

    def __init__(self) -> None:
        self._computing = _Ring()
        self._waiting = _Ring()
        self._is_computing = False
        #: Of the step in progress.
        self.elapsed_ns = 0

    def begin_step(self, is_computing: bool) -> None:
        """Ends the step before it, if that had any hooks."""
        if self.elapsed_ns > 0:
            (self._computing if self._is_computing else self._waiting).add(self.elapsed_ns)
        self.elapsed_ns = 0
        self._is_computing = is_computing

    def take(self) -> tuple[list[int], list[int]]:
        """The samples since the last call: of steps that computed, of steps that waited."""
        return self._computing.take(), self._waiting.take()


#: One engine thread per process, so one timer.
timer = HookTimer()


def hook(default: Callable[[], Any]) -> Callable[[Hook], Hook]:
    """Adds the time of each call to the current step, and answers `default()` instead of raising.

    For methods of a class that counts in `hook_failures`. One wrapper does both: cold caches make every
    call on the path of a step expensive.
    """

    def decorate(function: Hook) -> Hook:
        @functools.wraps(function)
        def guarded(self: Any, *args: Any) -> Any:
            started = perf_counter_ns()
            try:
                return function(self, *args)
            except Exception:
                return _answer_instead(self, function, default)
            finally:
                timer.elapsed_ns += perf_counter_ns() - started

        return guarded  # type: ignore[return-value]

    return decorate


def guard(default: Callable[[], Any]) -> Callable[[Hook], Hook]:
    """As `hook`, without the time: for what vLLM asks also while it does nothing, which belongs to no step."""

    def decorate(function: Hook) -> Hook:
        @functools.wraps(function)
        def guarded(self: Any, *args: Any) -> Any:
            try:
                return function(self, *args)
            except Exception:
                return _answer_instead(self, function, default)

        return guarded  # type: ignore[return-value]

    return decorate


def _answer_instead(failed: Any, function: Callable[..., Any], default: Callable[[], Any]) -> Any:
    """While the exception is being handled."""
    failed.hook_failures += 1
    logger.exception("KVFerry: %s failed; the engine goes on", function.__name__)
    return default()
