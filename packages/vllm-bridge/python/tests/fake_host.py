"""A host process that does nothing by itself, and the messages and events that tests send around."""

from __future__ import annotations

from typing import Any

from kvferry_vllm.step_metadata import Event

from . import golden

LEASE_MS = 30_000.0


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
        self.life = {"fd": 9, "sizeBytes": 4_096}

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


def ready(incarnation: str, connector: str = "pull") -> dict[str, Any]:
    place = {"host": "127.0.0.1", "port": 5600}
    metadata = "00"
    if connector != "push":
        scripts = golden.hook_scripts() if connector == "pull" else golden.returning_scripts()
        metadata = scripts[0]["metadata"]
    return {"t": "ready", "incarnation": incarnation, "connector": connector, "metadata": metadata,
            "sideChannel": place, "leaseMs": LEASE_MS, "recomputeThreshold": 0, "isProgressive": False,
            "registrationTimeoutMs": 480_000 if connector == "push" else 0}  # fmt: skip


def load(request_id: str, *fill: int) -> Event:
    return {"k": "alloc", "id": request_id, "blocks": [list(fill)], "external": 5, "fill": list(fill)}


def finish(request_id: str, delay_free: bool) -> Event:
    return {"k": "finish", "id": request_id, "delayFree": delay_free}


def results(sent: Any = (), received: Any = (), failed: Any = (), matched: Any = ()) -> dict[str, Any]:
    failures = [{"id": request_id, "code": "ERR", "message": "why"} for request_id in failed]
    return {"t": "results", "sent": list(sent), "received": list(received), "failed": failures,
            "matched": list(matched)}  # fmt: skip
