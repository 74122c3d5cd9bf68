"""The worker half of the shim: carries each step to the host and brings back what ended.

It owns the set of what is outstanding: vLLM asserts on an id that it doesn't expect or hears twice, so
only ids in that set are ever reported, once each. And it owns the rule for a host that died: nothing is
reported before the process is reaped (until then its READs may write), then loads are failed; blocks that
were kept for a reader stay kept for as long as a reader may hold a lease on them. Called by connector.py,
which catches what is raised here; never waits, except at start and where `settle_preempted` says so.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence

from . import limits
from .handoff import decode_rank_metadata
from .step_metadata import Event, HostFacts, HostNews, Step

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


@dataclass(slots=True)
class Load:
    """A load that vLLM waits for. `block_ids`: those that it fills."""

    block_ids: Sequence[int]
    started_at: float
    is_aborted: bool = False


@dataclass
class Output:
    """What one step reports to vLLM. A failed load is also a received one."""

    sent: set[str] = field(default_factory=set)
    received: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    invalid_block_ids: set[int] = field(default_factory=set)


class HostRefused(RuntimeError):
    """The host can't serve this engine; its text names the code and the remedy."""


class WorkerHalf:
    def __init__(
        self,
        start_host: Callable[[], HostProcess],
        start_message: Message,
        supervision: Supervision,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start_host = start_host
        self._start_message = start_message
        self._supervision = supervision
        self._now = now
        self._host: HostProcess | None = None
        self._facts: HostFacts | None = None
        self._begun_step_index = -1
        self._started_at = 0.0
        self._restarts: deque[float] = deque()
        self._loads: dict[str, Load] = {}
        #: Requests whose blocks are kept for a reader; the value is when they're let go without a host.
        self._sends: dict[str, float | None] = {}
        self._output = Output()
        self._heard_at = 0.0
        self._looked_at = 0.0
        self._pinged_at: float | None = None
        #: Totals of this half, and of this life of the host, for tests and tools.
        self._counters: dict[str, int] = {"hostDeaths": 0, "loadsFailedByHostDeath": 0}
        self._host_counters: dict[str, int] = {}

    @property
    def facts(self) -> HostFacts | None:
        """Of the host that is ready now."""
        return self._facts if self._host is not None and self._host.is_open else None

    def news_for(self, step: Step) -> HostNews | None:
        """What the scheduler half, which made this step, doesn't know of the host; None: it knows all."""
        facts = self.facts
        epoch = None if facts is None else facts.epoch
        is_starting = facts is None and self._host is not None
        if step.epoch == epoch and step.is_host_starting == is_starting:
            return None
        return HostNews(facts, is_starting)

    def start(self) -> HostFacts:
        """Starts the first host and waits until it's ready.

        @raises HostRefused when it refuses, ends or stays silent; OSError when it can't be started.
        """
        host = self._spawn()
        messages = host.wait_for(lambda m: m.get("t") in ("ready", "refused"), self._supervision.start)
        for message in messages:
            self._handle(message)
        if self._facts is None:
            last = messages[-1] if messages else {}
            reason = last.get("message") or host.end_reason or "it did not become ready in time"
            host.close(0)
            self._host = None
            raise HostRefused(f"KVFerry's host process did not start: {reason}")
        return self._facts

    def settle_preempted(self, step: Step) -> None:
        """vLLM gives these requests' blocks away when this returns: waits if a transfer may touch them."""
        if all(r not in self._loads and r not in self._sends for r in step.preempted):
            return
        host = self._host
        if host is None or self._facts is None:
            return
        self.begin_step(step, settle=True)
        messages = host.wait_for(lambda m: m.get("t") == "settled", self._supervision.answer)
        for message in messages:
            self._handle(message)
        if not any(message.get("t") == "settled" for message in messages):
            host.kill("it did not answer about preempted requests")
            while not host.is_reaped():
                # The one wait without a bound: returning would give away blocks that may be written.
                logger.critical("waiting for KVFerry's host process %d to end", host.pid)
                host.wait_for_end(limits.KILL_TIMEOUT_S)
            self._lose_host(host.end_reason or "")

    def begin_step(self, step: Step, settle: bool = False) -> None:
        """Takes note of what vLLM will wait for, and passes the step on. Again for the same step: nothing."""
        if step.index < 0 or step.index == self._begun_step_index:
            return
        self._begun_step_index = step.index
        live = None if self._facts is None else self._facts.epoch
        events: list[Event] = []
        for batch in step.batches:
            for event in batch.events:
                self._note(event)
            if batch.epoch == live:
                events += batch.events
            else:
                self._disown(batch.events)
        if self._host is None or live is None or not (events or step.preempted):
            return
        self._host.send(
            {"t": "step", "index": step.index, "scheduled": step.scheduled,
             "preempted": step.preempted, "events": events, "settle": settle}
        )  # fmt: skip

    def take_output(self) -> Output:
        """Everything that ended since the last call. Watches over the host."""
        host = self._host
        now = self._now()
        # With nothing open, a look at the socket now and then is enough to hear of a host's death.
        if host is not None and (self._is_waiting or now - self._looked_at > limits.QUIET_LOOK_INTERVAL_S):
            self._looked_at = now
            host.flush()
            for message in host.receive():
                self._handle(message)
            self._watch(host)
        if self._sends:
            self._release_overdue_sends()
        output, self._output = self._output, Output()
        return output

    @property
    def _is_waiting(self) -> bool:
        return bool(self._loads or self._sends or self._facts is None)

    def close(self) -> None:
        """Idempotent. Ends and reaps the host."""
        host, self._host, self._facts = self._host, None, None
        if host is None:
            return
        status = host.close(limits.SHUTDOWN_TIMEOUT_S)
        if status != 0:
            logger.warning("KVFerry's host process ended with %s", status)

    def ask_counters(self) -> dict[str, int]:
        """For tests and tools: waits for the host's own totals."""
        if self._host is not None and self._facts is not None:
            self._host.send({"t": "ping"})
            for message in self._host.wait_for(lambda m: m.get("t") == "pong", self._supervision.answer):
                self._handle(message)
        pid = self._host.pid if self._host is not None and self.facts is not None else 0
        return {**self._host_counters, **self._counters, "hostPid": pid}

    # What vLLM waits for

    def _note(self, event: Event) -> None:
        kind, request_id = event["k"], event.get("id", "")
        if kind == "alloc" and event["external"] > 0:
            self._loads[request_id] = Load(event["fill"], self._now())
        elif kind == "finish":
            if event["delayFree"]:
                self._sends[request_id] = None
            load = self._loads.get(request_id)
            if load is not None:
                load.is_aborted = True

    def _disown(self, events: Iterable[Event]) -> None:
        """Events for a host that is gone. No transfer of theirs was ever begun."""
        for event in events:
            request_id = event.get("id", "")
            if request_id in self._loads:
                self._end_load(request_id, "the host process is gone")
            if event["k"] == "finish" and self._sends.pop(request_id, 0) is None:
                self._output.sent.add(request_id)

    def _end_load(self, request_id: str, failure: str | None) -> None:
        load = self._loads.pop(request_id, None)
        if load is None:
            return
        self._output.received.add(request_id)
        if failure is None or load.is_aborted:
            return
        self._output.failed.add(request_id)
        self._output.invalid_block_ids.update(load.block_ids)
        logger.warning("KV load of %s failed: %s", request_id, failure)

    def _release_overdue_sends(self) -> None:
        for request_id, deadline in list(self._sends.items()):
            if deadline is not None and self._now() >= deadline:
                del self._sends[request_id]
                self._output.sent.add(request_id)

    # What the host says

    def _handle(self, message: Message) -> None:
        self._heard_at = self._now()
        self._pinged_at = None
        kind = message.get("t")
        if kind == "results":
            self._handle_results(message)
        elif kind == "ready":
            rank = decode_rank_metadata(bytes.fromhex(message["metadata"]))
            self._facts = HostFacts(
                epoch=message["incarnation"],
                host=rank.host,
                port=rank.port,
                handoff_key=rank.handoff_key,
                lease_ms=message["leaseMs"],
                recompute_threshold=message["recomputeThreshold"],
            )
            logger.info("KVFerry's host process is ready at %s:%d", rank.host, rank.port)
        elif kind == "pong":
            self._host_counters = message["counters"]
        elif kind == "refused":
            logger.error("KVFerry's host process refuses: %s", message["message"])

    def _handle_results(self, message: Message) -> None:
        failures = {failed["id"]: failed["message"] for failed in message["failed"]}
        for request_id in message["received"]:
            self._end_load(request_id, failures.get(request_id))
        for request_id in message["sent"]:
            # Only what this life of the host was told of: the others are let go by their deadline.
            if self._sends.get(request_id, 0) is None:
                del self._sends[request_id]
                self._output.sent.add(request_id)

    # The host's life

    def _spawn(self) -> HostProcess:
        host = self._start_host()
        self._host = host
        self._host_counters = {}
        self._started_at = self._heard_at = self._now()
        self._pinged_at = None
        host.send(self._start_message)
        return host

    def _watch(self, host: HostProcess) -> None:
        if not host.is_open:
            if host.is_reaped():
                self._lose_host(host.end_reason or "unknown")
            else:
                host.kill("")
            return
        now = self._now()
        if self._facts is None:
            if now - self._started_at > self._supervision.start:
                host.kill("it did not become ready in time")
            return
        if not self._loads and not self._sends:
            self._pinged_at = None
            return
        oldest = min((load.started_at for load in self._loads.values()), default=now)
        if now - oldest > self._supervision.load:
            host.kill(f"a load has had no end for {self._supervision.load} s")
        elif self._pinged_at is not None and now - self._pinged_at > self._supervision.answer:
            host.kill(f"it has not answered for {self._supervision.answer} s")
        elif self._pinged_at is None and now - self._heard_at > limits.PING_INTERVAL_S:
            self._pinged_at = now
            host.send({"t": "ping"})

    def _lose_host(self, reason: str) -> None:
        """The process is reaped: nothing that it began can touch memory any more."""
        lease_ms = 0.0 if self._facts is None else self._facts.lease_ms
        self._host = self._facts = None
        self._counters["hostDeaths"] += 1
        self._counters["loadsFailedByHostDeath"] += len(self._loads)
        logger.error(
            "KVFerry's host process is gone (%s): %d loads fail, %d requests keep their blocks for %.1f s",
            reason, len(self._loads), len(self._sends), lease_ms / 1_000,
        )  # fmt: skip
        for request_id in list(self._loads):
            self._end_load(request_id, "the host process died")
        # A reader that was granted a lease may be reading until it runs out, whoever granted it.
        until = self._now() + lease_ms / 1_000
        for request_id, deadline in self._sends.items():
            self._sends[request_id] = until if deadline is None else deadline
        self._restart()

    def _restart(self) -> None:
        now = self._now()
        while self._restarts and now - self._restarts[0] > limits.RESTART_WINDOW_S:
            self._restarts.popleft()
        if len(self._restarts) >= self._supervision.restart_count_max:
            logger.error(
                "KVFerry's host process died %d times in %.0f s: no more transfers in this engine",
                len(self._restarts) + 1, limits.RESTART_WINDOW_S,
            )  # fmt: skip
            return
        self._restarts.append(now)
        try:
            self._spawn()
        except OSError as error:
            logger.error("KVFerry's host process can't be started: %s", error)
