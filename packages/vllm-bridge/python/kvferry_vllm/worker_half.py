"""The worker half of the shim: carries each step to the host and brings back what ended.

It owns the set of what is outstanding: vLLM asserts on an id that it doesn't expect or hears twice, so
only ids in that set are ever reported, once each. When the host is lost (host_keeper.py: reaped), loads
are failed; blocks that were kept for a reader stay kept for as long as a reader may hold a lease on them.
Called by connector.py, which catches what is raised here; never waits, except at start and where
`settle_preempted` says so.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Callable, Iterable, Sequence

from .host_keeper import HostKeeper, Loss, Message, Supervision
from .returning_prompts import Matched
from .step_metadata import Event, HostAnswers, HostFacts, HostNews, Step
from .transfer_stats import TransferStats

if TYPE_CHECKING:
    from .host_process import HostProcess

logger = logging.getLogger("vllm.kvferry")


@dataclass(slots=True)
class Load:
    """A load that vLLM waits for. `block_ids`: those that it fills."""

    block_ids: Sequence[int]
    #: From then on the host's time for it runs: another engine may let it wait first.
    counts_from: float
    #: Out of this engine's own history; else from another engine.
    is_restore: bool
    is_aborted: bool = False


@dataclass
class Output:
    """What one step reports to vLLM. Failed loads are among the received ones; their blocks are invalid."""

    sent: set[str] = field(default_factory=set)
    received: set[str] = field(default_factory=set)
    invalid_block_ids: set[int] = field(default_factory=set)


class WorkerHalf:
    def __init__(
        self,
        start_host: Callable[[], HostProcess],
        start_message: Message,
        supervision: Supervision,
        block_size_bytes: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`block_size_bytes`: of one block in all layers together."""
        self._keeper = HostKeeper(start_host, start_message, supervision, now)
        self._now = now
        self._begun_step_index = -1
        self._loads: dict[str, Load] = {}
        #: Requests whose blocks are kept for a reader; the value is when they're let go without a host.
        self._sends: dict[str, float | None] = {}
        #: Requests that go on while WRITEs may read their blocks: some of their KV has left with a step.
        self._leaving: set[str] = set()
        #: Prompts that vLLM asks about again, for the host is looking them up.
        self._questions: set[str] = set()
        self._matched: list[Matched] = []
        self._output = Output()
        self._loads_failed_by_death = 0
        self._block_size_bytes = block_size_bytes
        self._stats = TransferStats()

    @property
    def facts(self) -> HostFacts | None:
        """Of the host that is ready now."""
        return self._keeper.facts

    def news_for(self, step: Step) -> HostNews | None:
        return self._keeper.news_for(step)

    def start(self) -> HostFacts:
        """Starts the first host and waits until it's ready. @raises HostRefused, OSError."""
        return self._keeper.start_and_wait()

    def settle_preempted(self, step: Step) -> None:
        """vLLM gives these requests' blocks away when this returns: waits if a transfer may touch them."""
        touched = [r for r in step.preempted if r in self._loads or r in self._sends or r in self._leaving]
        if not touched:
            return
        # They begin anew, or end without a transfer.
        self._leaving.difference_update(touched)
        if self._keeper.epoch is None:
            return
        self.begin_step(step, settle=True)
        results, is_settled = self._keeper.wait_for("settled")
        self._take_results(results)
        if is_settled:
            return
        loss = self._keeper.end_and_wait("it did not answer about preempted requests")
        if loss is not None:
            self._on_loss(loss)

    def begin_step(self, step: Step, settle: bool = False) -> None:
        """Takes note of what vLLM will wait for, and passes the step on. Again for the same step: nothing."""
        if step.index < 0 or step.index == self._begun_step_index:
            return
        self._begun_step_index = step.index
        live = self._keeper.epoch
        events: list[Event] = []
        for batch in step.batches:
            for event in batch.events:
                self._note(event)
            if batch.epoch == live:
                events += batch.events
            else:
                self._disown(batch.events)
        is_saved = step.is_saved and step.epoch == live
        if is_saved:
            self._leaving.update(request["id"] for request in step.scheduled)
        if live is None or not (events or step.preempted or is_saved):
            return
        self._keeper.send(
            {"t": "step", "index": step.index, "scheduled": step.scheduled, "preempted": step.preempted,
             "events": events, "settle": settle, "save": is_saved}
        )  # fmt: skip

    def end_forward(self, step: Step) -> None:
        """The forward of this step has ended: what it computed may leave."""
        if step.is_saved and step.epoch == self._keeper.epoch:
            self._keeper.send({"t": "saved", "index": step.index})

    def take_output(self) -> Output:
        """Everything that ended since the last call."""
        loads = self._loads
        oldest = min((load.counts_from for load in loads.values()), default=None) if loads else None
        is_waiting = bool(loads or self._sends or self._questions)
        results, loss = self._keeper.receive(is_waiting, oldest)
        if results:
            self._take_results(results)
        if loss is not None:
            self._on_loss(loss)
        if self._sends:
            self._release_overdue_sends()
        output, self._output = self._output, Output()
        return output

    def take_answers(self) -> HostAnswers | None:
        """What the host has looked up since the last call; None: nothing."""
        epoch = self._keeper.epoch
        if not self._matched or epoch is None:
            return None
        matched, self._matched = self._matched, []
        return HostAnswers(epoch, matched)

    def take_stats(self) -> dict[str, int] | None:
        """What was added to the totals since the last call; None: nothing."""
        return self._stats.take()

    def close(self) -> None:
        """Idempotent. Ends and reaps the host."""
        self._keeper.close()

    def ask_counters(self) -> dict[str, int]:
        """For tests and tools: waits for the host's own totals."""
        self._keeper.send({"t": "ping"})
        results, _ = self._keeper.wait_for("pong")
        self._take_results(results)
        return {
            **self._keeper.host_counters,
            "hostDeaths": self._keeper.deaths,
            "loadsFailedByHostDeath": self._loads_failed_by_death,
            "hostPid": self._keeper.pid,
        }

    def _note(self, event: Event) -> None:
        kind, request_id = event["k"], event.get("id", "")
        if kind == "match":
            if event["answer"] is None:
                self._questions.add(request_id)
            else:
                self._questions.discard(request_id)
        elif kind == "alloc" and event["external"] > 0:
            self._loads[request_id] = self._load_of(event)
        elif kind == "finish":
            self._questions.discard(request_id)
            self._leaving.discard(request_id)
            if event["delayFree"]:
                self._sends[request_id] = None
            load = self._loads.get(request_id)
            if load is not None:
                load.is_aborted = True

    def _load_of(self, event: Event) -> Load:
        is_restore, facts = event.get("isRestore", False), self._keeper.facts
        wait_ms = 0.0 if is_restore or facts is None else facts.registration_timeout_ms
        return Load(event["fill"], self._now() + wait_ms / 1_000, is_restore)

    def _disown(self, events: Iterable[Event]) -> None:
        """Events for a host that is gone. No transfer of theirs was ever begun."""
        for event in events:
            request_id = event.get("id", "")
            self._questions.discard(request_id)
            if request_id in self._loads:
                self._end_load(request_id, "the host process is gone")
            if event["k"] == "finish" and self._sends.get(request_id, 0) is None:
                self._let_go(request_id)

    def _take_results(self, messages: Iterable[Message]) -> None:
        for message in messages:
            failures = {failed["id"]: failed["message"] for failed in message["failed"]}
            for request_id in message["received"]:
                self._end_load(request_id, failures.get(request_id))
            for request_id in message["sent"]:
                # Only what this life of the host was told of: the others are let go by their deadline.
                if self._sends.get(request_id, 0) is None:
                    self._let_go(request_id)
            for answer in message["matched"]:
                self._questions.discard(answer["id"])
                self._matched.append(Matched(answer["id"], answer["question"], answer["blocks"]))

    def _let_go(self, request_id: str) -> None:
        del self._sends[request_id]
        self._output.sent.add(request_id)
        self._stats.add("sends")

    def _end_load(self, request_id: str, failure: str | None) -> None:
        load = self._loads.pop(request_id, None)
        if load is None:
            return
        self._output.received.add(request_id)
        self._count(load, failure is None)
        # Blocks of an aborted request may be another's as soon as vLLM hears of the end.
        if failure is None or load.is_aborted:
            return
        self._output.invalid_block_ids.update(load.block_ids)
        logger.warning("KV load of %s failed: %s", request_id, failure)

    def _count(self, load: Load, is_done: bool) -> None:
        kind = "restores" if load.is_restore else "loads"
        if not is_done:
            self._stats.add(f"{kind}_failed")
            return
        self._stats.add(kind)
        if load.is_restore:
            self._stats.add("restored_blocks", len(load.block_ids))
        else:
            self._stats.add("loaded_bytes", len(load.block_ids) * self._block_size_bytes)

    def _on_loss(self, loss: Loss) -> None:
        self._stats.add("host_deaths")
        self._questions.clear()
        self._leaving.clear()
        self._matched.clear()
        self._loads_failed_by_death += len(self._loads)
        failed = list(self._loads)
        for request_id in failed:
            self._end_load(request_id, "the host process died")
        # A reader that was granted a lease may be reading until it runs out, whoever granted it.
        now = self._now()
        until = now + loss.reader_hold_ms / 1_000
        self._sends = {r: until if deadline is None else deadline for r, deadline in self._sends.items()}
        kept_s = max((deadline for deadline in self._sends.values() if deadline is not None), default=now) - now
        logger.error(
            "KVFerry's host process is gone (%s): %d loads fail, %d requests keep their blocks%s",
            loss.reason, len(failed), len(self._sends), f" for {kept_s:.1f} s" if self._sends else "",
        )  # fmt: skip

    def _release_overdue_sends(self) -> None:
        for request_id, deadline in list(self._sends.items()):
            if deadline is not None and self._now() >= deadline:
                self._let_go(request_id)
