"""Prompts that the producer's host may have in its history, as xavier's scheduler half treats them.

The index is in the host: a prompt whose first block was offered before is asked about in the step's events, vLLM
hears "ask again" until the answer is there or its time is over, and then how many tokens the host has reserved. It
must decide exactly as `returning-state.ts`, `returning-requests.ts` and `offered-prompts.ts` of
@kvferry/connector-xavier do; golden conversations made by them check it. Times are the caller's, so that the host
can repeat each decision at its moment. Pure; part of the xavier rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

#: `xavierLimits` of connector-xavier.
OFFERED_PROMPT_COUNT_MAX = 65_536
RESERVATION_RENEW_MS = 60_000.0
ANSWER_TIMEOUT_MS = 5_000.0

NEW, ASKED, ANSWERED, RESTORING, SETTLED, ABORTING = (
    "new", "asked", "answered", "restoring", "settled", "aborting",
)  # fmt: skip


class Matched(NamedTuple):
    """The host's answer: it has reserved so many blocks in a row, from the one that was asked for on."""

    request_id: str
    question: int
    block_count: int


@dataclass(slots=True)
class _Returning:
    #: Of the prompt without its last token: more is never kept.
    token_count: int
    first_key: bytes
    state: str = NEW
    #: Of the question, while it is open and once it's answered.
    question: int = 0
    first_block: int = 0
    block_count: int = 0
    #: Asked: nobody waits after this. Answered: what was reserved is asked for anew.
    until_ms: float = 0.0


class ReturningPrompts:
    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._records: dict[str, _Returning] = {}
        #: First blocks that were offered to the history, the one that wasn't for longest first.
        self._offered: dict[bytes, None] = {}
        self._question = 0

    @property
    def request_ids(self) -> list[str]:
        return list(self._records)

    @property
    def is_aborting(self) -> bool:
        return any(record.state == ABORTING for record in self._records.values())

    def add(self, request_id: str, token_count: int, first_key: bytes) -> None:
        """`first_key`: empty for a prompt of one token."""
        self._records[request_id] = _Returning(token_count, first_key)

    def matched(self, request_id: str, computed_token_count: int, now_ms: float) -> int | None:
        """Tokens that the history has beyond the local hit; None: ask again."""
        record = self._records.get(request_id)
        if record is None or record.state in (SETTLED, RESTORING, ABORTING):
            return 0
        if record.state == ASKED:
            if now_ms < record.until_ms:
                return None
            record.state = SETTLED
            return 0
        # Less than a block is cheaper to compute than to look for.
        is_tail = record.token_count - computed_token_count < self._block_tokens
        first_block = computed_token_count // self._block_tokens
        if record.state == ANSWERED:
            is_fresh = record.block_count == 0 or now_ms < record.until_ms
            if is_tail:
                return 0
            if first_block >= record.first_block and is_fresh:
                return max(0, self._end_of(record) - first_block * self._block_tokens)
        elif is_tail or record.first_key not in self._offered:
            return 0
        self._question = (self._question + 1) & 0xFFFF_FFFF
        record.state, record.question, record.first_block = ASKED, self._question, first_block
        record.until_ms = now_ms + ANSWER_TIMEOUT_MS
        return None

    def answered(self, answer: Matched, now_ms: float) -> None:
        record = self._records.get(answer.request_id)
        # Of an earlier question, or of a request whose id this one took over.
        if record is None or record.state != ASKED or record.question != answer.question:
            return
        record.state, record.block_count = ANSWERED, answer.block_count
        record.until_ms = now_ms + RESERVATION_RENEW_MS

    def allocated(self, request_id: str, external_token_count: int) -> bool:
        """Whether what it gets comes out of the history."""
        record = self._records.get(request_id)
        if record is None or record.state in (RESTORING, ABORTING):
            return False
        record.state = RESTORING if external_token_count > 0 else SETTLED
        return record.state == RESTORING

    def received(self, request_id: str) -> None:
        record = self._records.get(request_id)
        if record is None:
            return
        if record.state == RESTORING:
            record.state = SETTLED
        elif record.state == ABORTING:
            del self._records[request_id]

    def offer(self, request_id: str) -> None:
        """It ended with KV that its ticket holds: the history may get it."""
        record = self._records.get(request_id)
        if record is None or not record.first_key:
            return
        self._offered.pop(record.first_key, None)
        self._offered[record.first_key] = None
        if len(self._offered) > OFFERED_PROMPT_COUNT_MAX:
            del self._offered[next(iter(self._offered))]

    def finished(self, request_id: str) -> None:
        """One that ended while it is being restored is waited for."""
        record = self._records.get(request_id)
        if record is None:
            return
        if record.state == RESTORING:
            record.state = ABORTING
        else:
            del self._records[request_id]

    def _end_of(self, record: _Returning) -> int:
        end_block = record.first_block + record.block_count
        return min(end_block * self._block_tokens, record.token_count)
