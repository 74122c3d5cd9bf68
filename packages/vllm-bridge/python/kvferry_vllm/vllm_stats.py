"""KVFerry's counts where vLLM shows those of every connector: its log, and `/metrics` of its server.

The worker half's counts travel in the step's output to the process that logs. Used by connector.py.
"""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics, KVConnectorStats
from vllm.v1.metrics.utils import create_metric_per_engine

from .transfer_stats import COUNTERS


class KVFerryStats(KVConnectorStats):
    """`data`: what was added since the stats before it, by the names of COUNTERS."""

    def reset(self) -> None:
        self.data = {}

    def aggregate(self, other: KVConnectorStats) -> KVConnectorStats:
        for name, count in other.data.items():
            self.data[name] = self.data.get(name, 0) + count
        return self

    def reduce(self) -> dict[str, int | float]:
        return {f"kvferry {name.replace('_', ' ')}": count for name, count in self.data.items()}

    def is_empty(self) -> bool:
        return not self.data


class KVFerryPromMetrics(KVConnectorPromMetrics):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._counters = {
            name: create_metric_per_engine(
                self._counter_cls(
                    name=f"vllm:kvferry_{name}", documentation=meaning, labelnames=self._labelnames
                ),
                self.per_engine_labelvalues,
            )
            for name, meaning in COUNTERS.items()
        }

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        for name, count in transfer_stats_data.items():
            self._counters[name][engine_idx].inc(count)
