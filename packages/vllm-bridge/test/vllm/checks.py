"""Named checks with a count at the end. A failed one shows why, and the ends of the logs that it names."""

from __future__ import annotations

import sys
import time
import traceback
from contextlib import contextmanager
from typing import Iterator, Sequence

from engines import Engine


class Checks:
    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0
        self.skipped = 0

    @contextmanager
    def check(self, name: str, engines: Sequence[Engine] = ()) -> Iterator[None]:
        """One check: passes unless its body raises. The next one runs all the same."""
        started = time.monotonic()
        try:
            yield
        except Exception:
            self.failed += 1
            print(f"FAIL {name}\n{traceback.format_exc()}", file=sys.stderr)
            for engine in engines:
                print(engine.log_tail(), file=sys.stderr)
        else:
            self.passed += 1
            print(f"ok   {name} ({time.monotonic() - started:.1f} s)", file=sys.stderr)
        sys.stderr.flush()

    def summary(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def equal(actual: object, expected: object, what: str) -> None:
    if actual != expected:
        raise AssertionError(f"{what}: {actual!r}, expected {expected!r}")
