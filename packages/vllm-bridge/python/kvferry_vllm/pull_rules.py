"""What the pull connector's scheduler half would answer, in a few tables, without asking it.

vLLM wants some answers at once (how many tokens can be had, must the blocks stay, what the response carries),
and the real scheduler half lives in the host process. So these rules are mirrored here, and everything
that they were told and answered travels to the host, which compares. Called by scheduler_half.py; pure,
without clock or I/O; imports neither vLLM nor torch. Golden vectors made by the TypeScript check it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from .handoff import (
    ID_SIZE_BYTES_MAX,
    Consume,
    Handoff,
    NoTransfer,
    Parsed,
    Produce,
    Prompt,
    Remote,
    encode_handoff,
    parse_params,
)
from .param_fields import BLOCKS_PER_POST_MAX, utf8_size

#: `limits.requestCountMax` of connector-api: a request beyond it is served without KV transfer.
REQUEST_COUNT_MAX = 8_192
#: The ends that leave complete KV behind.
READABLE_ENDS = ("stopped", "length-capped")


@dataclass(frozen=True)
class Producer:
    """What a handoff says about this engine, and how it's signed. Comes from the host once it is ready."""

    incarnation: str
    host: str
    port: int
    handoff_key: bytes


@dataclass(frozen=True)
class Finish:
    """Whether the engine keeps the blocks, and the response's `kv_transfer_params`."""

    delay_free: bool
    params: dict[str, Any] | None


NOTHING = Finish(False, None)

#: States of a request. `offered` carries its handoff; the others are only names.
OFFERED, REFUSED, LOADING, SETTLED, ABORTING = (
    "offered",
    "refused",
    "loading",
    "settled",
    "aborting",
)
ADDED, ANNOUNCED, LEASED = "added", "announced", "leased"


class PullRules:
    """One record per request that takes part in a transfer, for one life of the host."""

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
        self._recompute_threshold = recompute_threshold
        self._producer = producer
        self._states: dict[str, str] = {}
        self._handoffs: dict[str, Handoff] = {}

    @property
    def request_ids(self) -> Sequence[str]:
        return list(self._states)

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
    ) -> int:
        """Tokens to be had from the producer beyond the local hit. Repeatable."""
        if self._intake(request_id, prompt, params) != OFFERED:
            return 0
        missing = self._handoffs[request_id].prompt.token_count - computed_token_count
        return 0 if missing <= 0 or missing < self._recompute_threshold else missing

    def on_allocated(
        self,
        request_id: str,
        prompt: Prompt,
        params: Mapping[str, Any] | None,
        external_token_count: int,
    ) -> None:
        state = self._intake(request_id, prompt, params)
        if state == OFFERED:
            self._set(request_id, LOADING if external_token_count > 0 else SETTLED)
        elif state == ADDED:
            self._set(request_id, ANNOUNCED)

    def blocks_to_fill(
        self, prompt_token_count: int, external_token_count: int, block_ids: Sequence[int]
    ) -> list[int]:
        """The prompt's blocks after the local hit: they take the last `external_token_count` tokens."""
        hit = (prompt_token_count - external_token_count) // self._block_tokens
        return list(block_ids[hit : self._block_count(prompt_token_count)])

    def on_finished(
        self,
        request_id: str,
        prompt: Prompt,
        computed_token_count: int,
        end: str,
        block_ids: Sequence[Sequence[int]],
        lease_deadline_ms: float,
    ) -> Finish:
        """`lease_deadline_ms`: a reading of the machine's monotonic clock, `lease_ms` from now."""
        state = self._states.get(request_id)
        if state is None:
            return NOTHING
        if state == LOADING:
            self._set(request_id, ABORTING)
            return NOTHING
        if state != ANNOUNCED:
            self._drop(request_id)
            return NOTHING
        readable = self._readable(prompt.token_count, computed_token_count, end, block_ids)
        if readable is None or self._producer is None:
            self._drop(request_id)
            return NOTHING
        self._set(request_id, LEASED)
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
            if self._states.get(request_id) == LEASED:
                self._drop(request_id)
        for request_id in received:
            state = self._states.get(request_id)
            if state == LOADING:
                self._set(request_id, SETTLED)
            elif state == ABORTING:
                self._drop(request_id)

    @property
    def has_pending_block_frees(self) -> bool:
        return any(state in (LEASED, ABORTING) for state in self._states.values())

    def _parse(self, prompt: Prompt, params: Mapping[str, Any] | None) -> Parsed:
        return parse_params(
            params,
            engine_id=self._engine_id,
            block_tokens=self._block_tokens,
            prompt=prompt,
        )

    def _intake(
        self, request_id: str, prompt: Prompt, params: Mapping[str, Any] | None
    ) -> str | None:
        """The state of a request that takes part. Idempotent: parsed once per request."""
        state = self._states.get(request_id)
        if state is not None:
            return state
        parsed = self._parse(prompt, params)
        if isinstance(parsed, NoTransfer) or self._is_full(request_id):
            return None
        if isinstance(parsed, Consume):
            self._handoffs[request_id] = parsed.handoff
            self._states[request_id] = OFFERED
        else:
            self._states[request_id] = ADDED if isinstance(parsed, Produce) else REFUSED
        return self._states[request_id]

    def _readable(
        self,
        prompt_token_count: int,
        computed_token_count: int,
        end: str,
        block_ids: Sequence[Sequence[int]],
    ) -> Sequence[int] | None:
        if end not in READABLE_ENDS:
            return None
        if prompt_token_count == 0 or computed_token_count < prompt_token_count:
            return None
        count = self._block_count(prompt_token_count)
        if len(block_ids) != 1 or len(block_ids[0]) < count or count > BLOCKS_PER_POST_MAX:
            return None
        return block_ids[0][:count]

    def _block_count(self, token_count: int) -> int:
        return -(-token_count // self._block_tokens)

    def _is_full(self, request_id: str) -> bool:
        return len(self._states) >= REQUEST_COUNT_MAX or utf8_size(request_id) > ID_SIZE_BYTES_MAX

    def _set(self, request_id: str, state: str) -> None:
        self._states[request_id] = state
        self._handoffs.pop(request_id, None)

    def _drop(self, request_id: str) -> None:
        self._states.pop(request_id, None)
        self._handoffs.pop(request_id, None)
