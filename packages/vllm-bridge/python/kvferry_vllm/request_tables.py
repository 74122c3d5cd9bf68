"""Which requests take part in transfers, and on which side: what the rules of all connectors begin with.

A request is parsed once, when its first hook names it. One whose KV others may have goes into the rules' own table,
one that gets KV from another engine into the consumer's. Bounded: what would exceed it is served without transfer.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from .consumer_requests import ConsumerRequests
from .handoff import ID_SIZE_BYTES_MAX, Prompt
from .param_fields import utf8_size
from .rules import REQUEST_COUNT_MAX


class RequestTables:
    def __init__(self, recompute_threshold: int) -> None:
        self._consumed = ConsumerRequests(recompute_threshold)
        #: As the rules of the connector see fit.
        self._produced: dict[str, Any] = {}

    @property
    def request_ids(self) -> Sequence[str]:
        return [*self._produced, *self._consumed.request_ids]

    def on_new_request(
        self, request_id: str, prompt: Prompt, params: Mapping[str, Any] | None
    ) -> None:
        self._intake(request_id, prompt, params)

    def _parse(self, prompt: Prompt, params: Mapping[str, Any] | None) -> Any:
        """What the params say, by `kind`: none, produce, consume, malformed."""
        raise NotImplementedError

    def _produce(self, request_id: str, prompt: Prompt, parsed: Any) -> bool:
        """Takes it into `_produced`. False: it can't be served like this."""
        raise NotImplementedError

    def _intake(
        self, request_id: str, prompt: Prompt, params: Mapping[str, Any] | None
    ) -> None:
        """Idempotent: parsed once per request."""
        if request_id in self._produced or request_id in self._consumed:
            return
        parsed = self._parse(prompt, params)
        if parsed.kind == "none" or self._is_full(request_id):
            return
        if parsed.kind == "consume":
            self._consumed.offer(request_id, prompt.token_count)
        elif parsed.kind != "produce" or not self._produce(request_id, prompt, parsed):
            self._consumed.refuse(request_id)

    def _is_full(self, request_id: str) -> bool:
        count = len(self._produced) + len(self._consumed)
        return count >= REQUEST_COUNT_MAX or utf8_size(request_id) > ID_SIZE_BYTES_MAX
