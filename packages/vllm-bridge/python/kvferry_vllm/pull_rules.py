"""The pull connector's rules: a finished prefill is leased to a reader, and its handoff is signed here.

See rules.py. The tables decide and sign exactly as the scheduler half of @kvferry/connector-pull does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from .handoff import (
    Handoff,
    Parsed,
    Produce,
    Prompt,
    Remote,
    encode_handoff,
    parse_params,
)
from .request_tables import RequestTables
from .rules import NOTHING, Finish, WithoutHistory, readable_blocks


@dataclass(frozen=True)
class Producer:
    """What a handoff says about this engine, and how it's signed. Comes from the host once it is ready."""

    incarnation: str
    host: str
    port: int
    handoff_key: bytes


#: States of a request whose KV others will read.
ADDED, ANNOUNCED, LEASED = "added", "announced", "leased"


class PullRules(RequestTables, WithoutHistory):
    def __init__(
        self,
        *,
        engine_id: str,
        block_tokens: int,
        recompute_threshold: int,
        producer: Producer | None,
    ) -> None:
        super().__init__(recompute_threshold)
        self._engine_id = engine_id
        self._block_tokens = block_tokens
        self._producer = producer

    def matched_tokens(
        self,
        request_id: str,
        prompt: Prompt,
        params: Mapping[str, Any] | None,
        computed_token_count: int,
        now_ms: float,
    ) -> int:
        self._intake(request_id, prompt, params)
        return self._consumed.matched(request_id, computed_token_count)

    def on_allocated(
        self,
        request_id: str,
        prompt: Prompt,
        params: Mapping[str, Any] | None,
        external_token_count: int,
    ) -> bool:
        self._intake(request_id, prompt, params)
        self._consumed.allocated(request_id, external_token_count)
        if self._produced.get(request_id) == ADDED:
            self._produced[request_id] = ANNOUNCED
        return False

    @property
    def is_following(self) -> bool:
        return False

    def on_step(self, computed_after: Mapping[str, int], preempted: Sequence[str]) -> bool:
        """Nothing leaves before a prefill has ended."""
        return False

    def on_finished(
        self,
        request_id: str,
        prompt: Prompt,
        computed_token_count: int,
        end: str,
        block_ids: Sequence[Sequence[int]],
        lease_deadline_ms: float,
    ) -> Finish:
        self._consumed.finished(request_id)
        state = self._produced.pop(request_id, None)
        if state != ANNOUNCED or self._producer is None:
            return NOTHING
        readable = readable_blocks(
            prompt.token_count, computed_token_count, end, block_ids, self._block_tokens
        )
        if readable is None:
            return NOTHING
        self._produced[request_id] = LEASED
        producer = self._producer
        remote = Remote(
            engine_id=self._engine_id,
            incarnation=producer.incarnation,
            host=producer.host,
            port=producer.port,
            request_id=request_id,
        )
        handoff = Handoff(
            remote=remote,
            block_ids=tuple(readable),
            prompt=prompt,
            block_tokens=self._block_tokens,
            tp_size=1,
            lease_deadline_ms=lease_deadline_ms,
        )
        return Finish(True, encode_handoff(handoff, [producer.handoff_key]))

    def on_output(self, sent: Sequence[str], received: Sequence[str]) -> None:
        for request_id in sent:
            if self._produced.get(request_id) == LEASED:
                del self._produced[request_id]
        for request_id in received:
            self._consumed.received(request_id)

    @property
    def has_pending_block_frees(self) -> bool:
        return self._consumed.is_aborting or LEASED in self._produced.values()

    def _parse(self, prompt: Prompt, params: Mapping[str, Any] | None) -> Parsed:
        return parse_params(
            params,
            engine_id=self._engine_id,
            block_tokens=self._block_tokens,
            prompt=prompt,
        )

    def _produce(self, request_id: str, prompt: Prompt, parsed: Produce) -> bool:
        self._produced[request_id] = ADDED
        return True
