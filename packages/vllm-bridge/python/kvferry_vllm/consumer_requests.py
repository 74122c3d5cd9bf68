"""The requests whose KV comes from another engine, as the consumer machine of connector-api treats them.

Offered, then loading or settled when vLLM allocates, then gone. A settled request never asks for remote KV
again. Pure; part of the rules of each connector.
"""

from __future__ import annotations

#: States of a request, besides a number: it is offered, with that many tokens to be had.
REFUSED, LOADING, SETTLED, ABORTING = "refused", "loading", "settled", "aborting"


class ConsumerRequests:
    def __init__(self, recompute_threshold: int) -> None:
        self._recompute_threshold = recompute_threshold
        self._states: dict[str, int | str] = {}

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._states

    def __len__(self) -> int:
        return len(self._states)

    @property
    def request_ids(self) -> list[str]:
        return list(self._states)

    @property
    def is_aborting(self) -> bool:
        return ABORTING in self._states.values()

    def offer(self, request_id: str, token_end: int) -> None:
        """`token_end`: of the tokens that the producer has, the prompt's."""
        self._states[request_id] = token_end

    def refuse(self, request_id: str) -> None:
        """Its params are malformed; kept so that they're parsed once."""
        self._states[request_id] = REFUSED

    def matched(self, request_id: str, computed_token_count: int) -> int:
        """Tokens to be had beyond the local hit. Repeatable."""
        token_end = self._states.get(request_id)
        if not isinstance(token_end, int):
            return 0
        missing = token_end - computed_token_count
        return 0 if missing <= 0 or missing < self._recompute_threshold else missing

    def allocated(self, request_id: str, external_token_count: int) -> None:
        if isinstance(self._states.get(request_id), int):
            self._states[request_id] = LOADING if external_token_count > 0 else SETTLED

    def finished(self, request_id: str) -> None:
        """One that ended while it may still be written into is waited for."""
        if self._states.get(request_id) == LOADING:
            self._states[request_id] = ABORTING
        else:
            self._states.pop(request_id, None)

    def received(self, request_id: str) -> None:
        state = self._states.get(request_id)
        if state == LOADING:
            self._states[request_id] = SETTLED
        elif state == ABORTING:
            del self._states[request_id]
