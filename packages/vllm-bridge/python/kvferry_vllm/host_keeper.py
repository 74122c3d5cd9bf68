"""Keeps one host process alive for an engine: starts it, hears it, asks for signs of life, replaces it.

It decides when a host is lost, and says so only when the process is **reaped**: until then its transfers
may write (architecture §6). A host that is silent, never becomes ready, or has a load without an end is
killed first. Restarts are limited and loud. What a loss means for requests is worker_half.py's business,
which owns this; never waits, except where a name says so.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable

from . import limits
from .block_keys import identity_of
from .handoff import decode_rank_metadata
from .step_metadata import HostFacts, HostNews, Step
from .xavier_params import decode_ticket_rank

if TYPE_CHECKING:
    from .host_process import HostProcess

Message = dict[str, Any]
logger = logging.getLogger("vllm.kvferry")


@dataclass(frozen=True)
class Supervision:
    """How long the host may take, in seconds, and how often it may die; see limits.py."""

    start: float = limits.START_TIMEOUT_S
    answer: float = limits.HOST_ANSWER_TIMEOUT_S
    load: float = limits.LOAD_TIMEOUT_S
    restart_count_max: int = limits.RESTART_COUNT_MAX


@dataclass(frozen=True)
class Loss:
    """A host that is reaped: nothing that it began can touch memory any more."""

    reason: str
    #: For how long others may still read what was kept for them.
    reader_hold_ms: float


class HostRefused(RuntimeError):
    """The host can't serve this engine; its text names the code and the remedy."""


class HostKeeper:
    def __init__(
        self,
        start_host: Callable[[], HostProcess],
        start_message: Message,
        supervision: Supervision,
        now: Callable[[], float],
    ) -> None:
        self._start_host = start_host
        self._start_message = start_message
        self._supervision = supervision
        self._now = now
        self._host: HostProcess | None = None
        self._facts: HostFacts | None = None
        self._started_at = 0.0
        self._heard_at = 0.0
        self._looked_at = 0.0
        self._pinged_at: float | None = None
        self._restarts: deque[float] = deque()
        #: Deaths since the start, and the totals that this life of the host told.
        self.deaths = 0
        self.host_counters: dict[str, int] = {}

    @property
    def facts(self) -> HostFacts | None:
        """Of the host that is ready now."""
        return self._facts if self._host is not None and self._host.is_open else None

    @property
    def epoch(self) -> str | None:
        """Of the host that was ready last and isn't known to be reaped: its news may still come."""
        return None if self._facts is None else self._facts.epoch

    @property
    def pid(self) -> int:
        """0 while none is ready."""
        return 0 if self.facts is None or self._host is None else self._host.pid

    def news_for(self, step: Step) -> HostNews | None:
        """What the scheduler half, which made this step, doesn't know of the host; None: it knows all."""
        facts = self.facts
        epoch = None if facts is None else facts.epoch
        is_starting = facts is None and self._host is not None
        if step.epoch == epoch and step.is_host_starting == is_starting:
            return None
        return HostNews(facts, is_starting)

    def start_and_wait(self) -> HostFacts:
        """@raises HostRefused when it refuses, ends or stays silent; OSError when it can't be started."""
        host = self._spawn()
        messages = host.wait_for(lambda m: m.get("t") in ("ready", "refused"), self._supervision.start)
        self._hear(messages)
        if self._facts is None:
            last = messages[-1] if messages else {}
            reason = last.get("message") or host.end_reason or "it did not become ready in time"
            host.close(0)
            self._host = None
            raise HostRefused(f"KVFerry's host process did not start: {reason}")
        return self._facts

    def send(self, message: Message) -> None:
        if self._host is not None and self._facts is not None:
            self._host.send(message)

    def receive(
        self, is_waiting: bool, oldest_load_at: float | None
    ) -> tuple[list[Message], Loss | None]:
        """Results that arrived, and the loss of the host if it is lost; another one is starting then.

        `oldest_load_at`: since when the host has been at the load that began first.
        """
        host, now = self._host, self._now()
        if host is None:
            self._restart_when_due(now)
            return [], None
        # With nothing open, a look at the socket now and then is enough to hear of a host's death.
        is_quiet = not is_waiting and self._facts is not None
        if is_quiet and now - self._looked_at <= limits.QUIET_LOOK_INTERVAL_S:
            return [], None
        self._looked_at = now
        host.flush()
        results = self._hear(host.receive())
        if host.is_open:
            self._watch(host, is_waiting, oldest_load_at)
            return results, None
        if not host.is_reaped():
            host.kill("")
            return results, None
        return results, self._lose(host)

    def wait_for(self, kind: str) -> tuple[list[Message], bool]:
        """Waits for one kind of answer. Returns the results that came meanwhile, and whether it came."""
        if self._host is None or self._facts is None:
            return [], False
        messages = self._host.wait_for(lambda m: m.get("t") == kind, self._supervision.answer)
        return self._hear(messages), any(message.get("t") == kind for message in messages)

    def end_and_wait(self, reason: str) -> Loss | None:
        """Kills the host and waits until it's reaped, however long that takes. Another one is starting then."""
        host = self._host
        if host is None:
            return None
        host.kill(reason)
        while not host.is_reaped():
            # The one wait without a bound: returning would give away blocks that may be written.
            logger.critical("waiting for KVFerry's host process %d to end", host.pid)
            host.wait_for_end(limits.KILL_TIMEOUT_S)
        return self._lose(host)

    def close(self) -> None:
        """Idempotent. Ends and reaps the host."""
        host, self._host, self._facts = self._host, None, None
        self._restarts.clear()
        if host is None:
            return
        status = host.close(limits.SHUTDOWN_TIMEOUT_S)
        if status != 0:
            logger.warning("KVFerry's host process ended with %s", status)

    def _hear(self, messages: list[Message]) -> list[Message]:
        """Takes what concerns the host itself; returns the results."""
        results: list[Message] = []
        for message in messages:
            self._heard_at = self._now()
            self._pinged_at = None
            kind = message.get("t")
            if kind == "results":
                results.append(message)
            elif kind == "ready":
                self._ready(message)
            elif kind == "pong":
                self.host_counters = message["counters"]
            elif kind == "refused":
                logger.error("KVFerry's host process refuses: %s", message["message"])
        return results

    def _ready(self, message: Message) -> None:
        connector, place = message["connector"], message["sideChannel"]
        key, kv_identity = b"", None
        if connector == "pull":
            key = decode_rank_metadata(bytes.fromhex(message["metadata"])).handoff_key
        elif connector == "xavier":
            rank = decode_ticket_rank(bytes.fromhex(message["metadata"]))
            key = rank.ticket_key
            if rank.keeps_history:
                kv_identity = identity_of(self._start_message["caches"])
        self._facts = HostFacts(
            epoch=message["incarnation"],
            connector=connector,
            host=place["host"],
            port=place["port"],
            handoff_key=key,
            lease_ms=message["leaseMs"],
            recompute_threshold=message["recomputeThreshold"],
            is_progressive=message["isProgressive"],
            registration_timeout_ms=message["registrationTimeoutMs"],
            kv_identity=kv_identity,
        )
        logger.info("KVFerry's host process is ready at %s:%d (%s)", place["host"], place["port"], connector)

    def _watch(self, host: HostProcess, is_waiting: bool, oldest_load_at: float | None) -> None:
        now, limit = self._now(), self._supervision
        if self._facts is None:
            if now - self._started_at > limit.start:
                host.kill("it did not become ready in time")
        elif not is_waiting:
            self._pinged_at = None
        elif oldest_load_at is not None and now - oldest_load_at > limit.load:
            host.kill(f"a load has had no end for {limit.load:.0f} s")
        elif self._pinged_at is not None:
            if now - self._pinged_at > limit.answer:
                host.kill(f"it has not answered for {limit.answer} s")
        elif now - self._heard_at > limits.PING_INTERVAL_S:
            self._pinged_at = now
            host.send({"t": "ping"})

    def _lose(self, host: HostProcess) -> Loss:
        reader_hold_ms = 0.0 if self._facts is None else self._facts.reader_hold_ms
        self._host = self._facts = None
        self.deaths += 1
        self._restart()
        return Loss(host.end_reason or "unknown", reader_hold_ms)

    def _restart(self) -> None:
        now = self._now()
        while self._restarts and now - self._restarts[0] > limits.RESTART_WINDOW_S:
            self._restarts.popleft()
        if len(self._restarts) >= self._supervision.restart_count_max:
            due = f"for {self._restarts[0] + limits.RESTART_WINDOW_S - now:.0f} s" if self._restarts else "any more"
            logger.error(
                "KVFerry's host process died %d times in %.0f s: no transfers in this engine %s",
                len(self._restarts) + 1, limits.RESTART_WINDOW_S, due,
            )  # fmt: skip
            return
        self._restarts.append(now)
        try:
            self._spawn()
        except OSError as error:
            logger.error("KVFerry's host process can't be started: %s", error)

    def _restart_when_due(self, now: float) -> None:
        """There were too many restarts, or the last one failed: tries again when the first is old enough."""
        if self._restarts and now - self._restarts[0] > limits.RESTART_WINDOW_S:
            self._restart()

    def _spawn(self) -> HostProcess:
        host = self._start_host()
        self._host = host
        self.host_counters = {}
        self._started_at = self._heard_at = self._now()
        self._pinged_at = None
        host.send({**self._start_message, "life": host.life})
        return host
