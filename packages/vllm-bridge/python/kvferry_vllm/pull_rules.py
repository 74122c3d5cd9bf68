"""The pull connector's rules: a finished prefill is leased to a reader, and its handoff is signed here.

See rules.py. The tables decide and sign exactly as the scheduler half of @kvferry/connector-pull does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from .consumer_requests import ConsumerRequests
from .handoff import (
    ID_SIZE_BYTES_MAX,
    Consume,
    Handoff,
    NoTransfer,
    Produce,
    Prompt,
    Remote,
    encode_handoff,
    parse_params,
)
from .param_fields import utf8_size
from .rules import NOTHING, REQUEST_COUNT_MAX, Finish, WithoutHistory, readable_blocks


@dataclass(frozen=True)
class Producer:
    """What a handoff says about this engine, and how it's signed. Comes from the host once it is ready."""

    incarnation: str
    host: str
    port: int
    handoff_key: bytes


#: States of a request whose KV others will read.
ADDED, ANNOUNCED, LEASED = "added", "announced", "leased"


class PullRules(WithoutHistory):
    def __init__(
        self,
        *,
        engine_id: str,
        block_tokens: int,
        recompute_threshold: int,
        producer: Producer | None,
    ) -> None:
        self._engine_id = engine_id
        self._block_tokens = block_tokens
        self._producer = producer
        self._consumed = ConsumerRequests(recompute_threshold)
        self._produced: dict[str, str] = {}

    @property
    def request_ids(self) -> Sequence[str]:
        return [*self._produced, *self._consumed.request_ids]

    def on_new_request(
        self, request_id: str, prompt: Prompt, params: Mapping[str, Any] | None
    ) -> None:
        self._intake(request_id, prompt, params)

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

    def _intake(
        self, request_id: str, prompt: Prompt, params: Mapping[str, Any] | None
    ) -> None:
        """Idempotent: parsed once per request."""
        if request_id in self._produced or request_id in self._consumed:
            return
        parsed = parse_params(
            params,
            engine_id=self._engine_id,
            block_tokens=self._block_tokens,
            prompt=prompt,
        )
        if isinstance(parsed, NoTransfer) or self._is_full(request_id):
            return
        if isinstance(parsed, Consume):
            self._consumed.offer(request_id, parsed.handoff.prompt.token_count)
        elif isinstance(parsed, Produce):
            self._produced[request_id] = ADDED
        else:
            self._consumed.refuse(request_id)

    def _is_full(self, request_id: str) -> bool:
        count = len(self._produced) + len(self._consumed)
        return count >= REQUEST_COUNT_MAX or utf8_size(request_id) > ID_SIZE_BYTES_MAX
