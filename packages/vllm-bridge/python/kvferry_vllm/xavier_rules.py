"""The xavier connector's rules: a finished prefill is kept for whoever has its ticket, which is made here.

See rules.py. The tables decide and make tickets exactly as the scheduler half of @kvferry/connector-xavier does,
with a history or without one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from .handoff import Produce, Prompt
from .request_tables import RequestTables
from .returning_prompts import Matched, ReturningPrompts
from .rules import NOTHING, Finish, readable_blocks
from .xavier_params import ParsedTicket, TicketMaker, encode_ticket, parse_ticket_params

#: States of a request whose KV others may have.
ADDED, ANNOUNCED, HELD = "added", "announced", "held"


@dataclass
class _Source:
    ticket: str
    state: str = ADDED


class XavierRules(RequestTables):
    def __init__(
        self,
        *,
        engine_id: str,
        host: str,
        port: int,
        block_tokens: int,
        recompute_threshold: int,
        ticket_key: bytes,
        keeps_history: bool = False,
    ) -> None:
        super().__init__(recompute_threshold)
        self._engine_id = engine_id
        self._place = (host, port)
        self._block_tokens = block_tokens
        self._tickets = TicketMaker(ticket_key)
        #: Those of `_produced` that may come out of the history, and those that are being restored.
        self._returning = ReturningPrompts(block_tokens)
        self._keeps_history = keeps_history

    @property
    def request_ids(self) -> Sequence[str]:
        return [*super().request_ids, *self._returning.request_ids]

    @property
    def keeps_history(self) -> bool:
        return self._keeps_history

    def matched_tokens(
        self,
        request_id: str,
        prompt: Prompt,
        params: Mapping[str, Any] | None,
        computed_token_count: int,
        now_ms: float,
    ) -> int | None:
        self._intake(request_id, prompt, params)
        if request_id in self._produced:
            return self._returning.matched(request_id, computed_token_count, now_ms)
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
        source = self._produced.get(request_id)
        if source is not None and source.state == ADDED:
            source.state = ANNOUNCED
        return self._returning.allocated(request_id, external_token_count)

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
        source = self._produced.pop(request_id, None)
        readable = readable_blocks(
            prompt.token_count, computed_token_count, end, block_ids, self._block_tokens
        )
        is_held = source is not None and source.state == ANNOUNCED and readable is not None
        if is_held:
            self._returning.offer(request_id)
        self._returning.finished(request_id)
        if source is None or not is_held:
            return NOTHING
        source.state = HELD
        self._produced[request_id] = source
        host, port = self._place
        params = encode_ticket(
            engine_id=self._engine_id,
            host=host,
            port=port,
            ticket=source.ticket,
            token_count=prompt.token_count,
        )
        return Finish(True, params)

    def on_output(self, sent: Sequence[str], received: Sequence[str]) -> None:
        for request_id in sent:
            source = self._produced.get(request_id)
            if source is not None and source.state == HELD:
                del self._produced[request_id]
        for request_id in received:
            self._consumed.received(request_id)
            self._returning.received(request_id)

    def on_matched(self, answers: Sequence[Matched], now_ms: float) -> None:
        for answer in answers:
            self._returning.answered(answer, now_ms)

    @property
    def has_pending_block_frees(self) -> bool:
        if self._consumed.is_aborting or self._returning.is_aborting:
            return True
        return any(source.state == HELD for source in self._produced.values())

    def _parse(self, prompt: Prompt, params: Mapping[str, Any] | None) -> ParsedTicket:
        return parse_ticket_params(params, engine_id=self._engine_id, prompt=prompt)

    def _produce(self, request_id: str, prompt: Prompt, parsed: Produce) -> bool:
        self._produced[request_id] = _Source(self._tickets.make(request_id))
        if self._keeps_history:
            self._returning.add(request_id, prompt.token_count - 1, prompt.first_key)
        return True
