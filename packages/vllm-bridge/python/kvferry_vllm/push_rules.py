"""The push connector's rules: what a step computed may leave with it, and its blocks stay until they have left.

See rules.py. The tables decide exactly as the scheduler half of @kvferry/connector-push does. No handoff is
written: the router has told both engines of the transfer at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from .handoff import Prompt
from .push_params import ParsedPush, PushProduce, parse_push_params
from .request_tables import RequestTables
from .rules import NOTHING, Finish, WithoutHistory

#: States of a request whose KV is written to another engine.
NEW, ANNOUNCED, PARTIAL, COMPLETE, HELD = "new", "announced", "partial", "complete", "held"
#: Steps that compute these are news.
FOLLOWED = (NEW, ANNOUNCED, PARTIAL)


@dataclass
class _Source:
    transfer_id: str
    prompt_token_count: int
    state: str = NEW
    #: Some of its KV left, perhaps before it was preempted: WRITEs may read its blocks.
    was_handed_over: bool = False


class PushRules(RequestTables, WithoutHistory):
    def __init__(self, *, engine_id: str, recompute_threshold: int, is_progressive: bool) -> None:
        super().__init__(recompute_threshold)
        self._engine_id = engine_id
        self._is_progressive = is_progressive
        self._transfer_ids: set[str] = set()

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
        source = self._produced.get(request_id)
        if source is not None and source.state == NEW:
            source.state = ANNOUNCED
        return False

    @property
    def is_following(self) -> bool:
        """Until its prompt is complete; one that is preempted begins again."""
        return any(source.state in FOLLOWED for source in self._produced.values())

    def on_step(self, computed_after: Mapping[str, int], preempted: Sequence[str]) -> bool:
        for request_id in preempted:
            source = self._produced.get(request_id)
            if source is not None and source.state in (PARTIAL, COMPLETE):
                source.state = ANNOUNCED
        is_news = False
        for request_id, computed in computed_after.items():
            source = self._produced.get(request_id)
            if source is not None and source.state in (ANNOUNCED, PARTIAL):
                is_news |= self._note_computed(source, computed)
        return is_news

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
        source = self._produced.get(request_id)
        if source is None:
            return NOTHING
        if source.state == NEW or not source.was_handed_over:
            self._forget(request_id, source)
            return NOTHING
        source.state = HELD
        return Finish(True, None)

    def on_output(self, sent: Sequence[str], received: Sequence[str]) -> None:
        for request_id in sent:
            source = self._produced.get(request_id)
            if source is not None and source.state == HELD:
                self._forget(request_id, source)
        for request_id in received:
            self._consumed.received(request_id)

    @property
    def has_pending_block_frees(self) -> bool:
        if self._consumed.is_aborting:
            return True
        return any(source.state == HELD for source in self._produced.values())

    def _note_computed(self, source: _Source, computed: int) -> bool:
        """Whether tokens leave with this step."""
        if computed >= source.prompt_token_count:
            source.state = COMPLETE
        elif self._is_progressive:
            source.state = PARTIAL
        else:
            return False
        source.was_handed_over = True
        return True

    def _parse(self, prompt: Prompt, params: Mapping[str, Any] | None) -> ParsedPush:
        return parse_push_params(params, engine_id=self._engine_id)

    def _produce(self, request_id: str, prompt: Prompt, parsed: PushProduce) -> bool:
        # A transfer has one producer: a second request of the same id would be taken for it.
        if parsed.transfer_id in self._transfer_ids:
            return False
        self._transfer_ids.add(parsed.transfer_id)
        self._produced[request_id] = _Source(parsed.transfer_id, prompt.token_count)
        return True

    def _forget(self, request_id: str, source: _Source) -> None:
        del self._produced[request_id]
        self._transfer_ids.discard(source.transfer_id)
