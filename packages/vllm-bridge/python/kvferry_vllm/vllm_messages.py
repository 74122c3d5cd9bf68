"""What the halves exchange, in the classes in which vLLM carries it between its processes."""

from __future__ import annotations

from dataclasses import dataclass

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorHandshakeMetadata,
    KVConnectorMetadata,
    KVConnectorWorkerMetadata,
)

from .step_metadata import HostAnswers, HostFacts, HostNews, Step


@dataclass
class KVFerryMetadata(KVConnectorMetadata):
    step: Step


@dataclass
class KVFerryHandshake(KVConnectorHandshakeMetadata):
    facts: HostFacts


@dataclass
class KVFerryWorkerNews(KVConnectorWorkerMetadata):
    #: None: nothing new.
    news: HostNews | None
    answers: HostAnswers | None

    def aggregate(self, other: KVConnectorWorkerMetadata) -> KVConnectorWorkerMetadata:
        return other
