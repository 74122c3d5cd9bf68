"""Which rules belong to which connector, and what they are made of once a host is ready."""

from __future__ import annotations

from .pull_rules import Producer, PullRules
from .push_rules import PushRules
from .rules import Rules
from .step_metadata import HostFacts
from .xavier_rules import XavierRules


def rules_for(facts: HostFacts, *, engine_id: str, block_tokens: int) -> Rules:
    """@raises ValueError for a connector that has none; its host should have refused to start."""
    if facts.connector == "pull":
        return PullRules(
            engine_id=engine_id,
            block_tokens=block_tokens,
            recompute_threshold=facts.recompute_threshold,
            producer=Producer(facts.epoch, facts.host, facts.port, facts.handoff_key),
        )
    if facts.connector == "push":
        return PushRules(
            engine_id=engine_id,
            recompute_threshold=facts.recompute_threshold,
            is_progressive=facts.is_progressive,
        )
    if facts.connector == "xavier":
        return XavierRules(
            engine_id=engine_id,
            host=facts.host,
            port=facts.port,
            block_tokens=block_tokens,
            recompute_threshold=facts.recompute_threshold,
            ticket_key=facts.handoff_key,
            keeps_history=facts.kv_identity is not None,
        )
    raise ValueError(f"no rules for the connector {facts.connector!r}")
