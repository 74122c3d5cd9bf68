"""Totals of one engine's transfers, taken as what was added since the last time. Pure; vllm_stats.py shows them."""

from __future__ import annotations

#: Name of each count, and what it means. `vllm:kvferry_<name>_total` in Prometheus.
COUNTERS = {
    "loads": "KV loads that ended well.",
    "loaded_bytes": "Bytes of KV in the blocks that these loads filled.",
    "loads_failed": "KV loads that failed; kv_load_failure_policy says what became of the requests.",
    "sends": "Requests whose blocks were kept for another engine and have been let go.",
    "restores": "Prompts that came back and were restored out of the history.",
    "restored_blocks": "Blocks that these restores filled.",
    "restores_failed": "Restores that failed; their prompts were computed.",
    "host_deaths": "Deaths of KVFerry's host process.",
}


class TransferStats:
    def __init__(self) -> None:
        self._added: dict[str, int] = {}

    def add(self, name: str, count: int = 1) -> None:
        if name not in COUNTERS:
            raise KeyError(name)
        self._added[name] = self._added.get(name, 0) + count

    def take(self) -> dict[str, int] | None:
        """What was added since the last call; None: nothing, as in most steps."""
        if not self._added:
            return None
        added, self._added = self._added, {}
        return added
