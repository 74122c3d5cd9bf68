"""What the scheduler half sends to the worker half inside vLLM's own step metadata, and back.

Plain data, since vLLM pickles it when the halves live in two processes. Events are dictionaries in the
form in which they go on to the host (`messages.ts` there says what each means).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .block_keys import KvIdentity
from .returning_prompts import Matched

Event = dict[str, Any]


@dataclass
class Batch:
    """Events in order, all meant for one life of the host."""

    epoch: str
    events: list[Event] = field(default_factory=list)


@dataclass
class Step:
    """One engine step as the scheduler saw it."""

    #: -1: the step tells the connector nothing.
    index: int
    #: What the requests that take part in transfers get in it.
    scheduled: list[Event]
    preempted: list[str]
    batches: list[Batch]
    #: What the scheduler half believes of the host: its life (None: there is none), and whether one is coming.
    epoch: str | None
    is_host_starting: bool
    #: Its forward computes what leaves with it: the host must hear of it before, and of the forward's end.
    is_saved: bool = False

    @classmethod
    def nothing(cls, epoch: str | None, is_host_starting: bool) -> Step:
        """A step without news. Most are: those that only compute, and those of an engine that only waits."""
        return cls(-1, [], [], [], epoch, is_host_starting)


@dataclass(frozen=True)
class HostFacts:
    """What the scheduler half must know of a host that is ready: enough to answer in its place.

    It stays inside the engine: the key must never reach a log, a client or a router.
    """

    epoch: str
    #: pull, push, xavier: whose rules it answers by.
    connector: str
    host: str
    port: int
    #: Of pull: signs handoffs. Of xavier: makes tickets.
    handoff_key: bytes = field(repr=False)
    lease_ms: float
    recompute_threshold: int
    #: Of push: KV leaves as chunks of a prompt are computed.
    is_progressive: bool = False
    #: Of push and xavier: how long a load may wait for its producer.
    registration_timeout_ms: float = 0.0
    #: Of xavier: it keeps KV by content, under keys that commit to this. None: no history.
    kv_identity: KvIdentity | None = None

    @property
    def reader_hold_ms(self) -> float:
        """For how long others may go on reading what was kept for them when this host is reaped.

        In push and xavier it was the host itself that read: nobody does any more.
        """
        return self.lease_ms if self.connector == "pull" else 0.0


@dataclass(frozen=True)
class HostNews:
    """The worker half's word about its host, when it differs from what the scheduler half believes."""

    facts: HostFacts | None
    #: There is none, but one is coming: an idle engine goes on stepping, or it would not hear of it.
    is_starting: bool


@dataclass(frozen=True)
class HostAnswers:
    """What a life of the host has in its history of the prompts that it was asked about."""

    epoch: str
    matched: list[Matched]
