"""What a connector's scheduler half would answer, mirrored so that vLLM needs no round trip: the interface.

vLLM wants some answers at once (how many tokens can be had, must the blocks stay, what the response
carries), and the real scheduler half lives in the host process. So each connector has its rules here, in
a few tables, and everything that they were told and answered travels to the host, which compares. Called
by scheduler_half.py; pure, without clock or I/O; none of them imports vLLM or torch. Golden vectors made
by the TypeScript check them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Protocol, Sequence

from .handoff import Prompt
from .param_fields import BLOCKS_PER_POST_MAX
from .returning_prompts import Matched

#: `limits.requestCountMax` of connector-api: a request beyond it is served without KV transfer.
REQUEST_COUNT_MAX = 8_192
#: The ends that leave complete KV behind.
READABLE_ENDS = ("stopped", "length-capped")


@dataclass(frozen=True)
class Finish:
    """Whether the engine keeps the blocks, and the response's `kv_transfer_params`."""

    delay_free: bool
    params: dict[str, Any] | None


NOTHING = Finish(False, None)


class Rules(Protocol):
    """One record per request that takes part in a transfer, for one life of the host."""

    @property
    def request_ids(self) -> Sequence[str]: ...

    @property
    def keeps_history(self) -> bool:
        """Prompts come with their keys, and answers depend on the time."""

    def on_new_request(
        self, request_id: str, prompt: Prompt, params: Mapping[str, Any] | None
    ) -> None: ...

    def matched_tokens(
        self,
        request_id: str,
        prompt: Prompt,
        params: Mapping[str, Any] | None,
        computed_token_count: int,
        now_ms: float,
    ) -> int | None:
        """Tokens to be had beyond the local hit, from the producer or out of the history. Repeatable; None: ask again."""

    def on_allocated(
        self,
        request_id: str,
        prompt: Prompt,
        params: Mapping[str, Any] | None,
        external_token_count: int,
    ) -> bool:
        """Whether its tokens come out of the history."""

    @property
    def is_following(self) -> bool:
        """Some request's KV leaves as steps compute it: what each of them gets in a step has to be known."""

    def on_step(self, computed_after: Mapping[str, int], preempted: Sequence[str]) -> bool:
        """Whether the connector must hear of this step's tokens before its forward, and of their end after it."""

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

    def on_output(self, sent: Sequence[str], received: Sequence[str]) -> None: ...

    def on_matched(self, answers: Sequence[Matched], now_ms: float) -> None:
        """What the history has of prompts that vLLM was told to ask again about."""

    @property
    def has_pending_block_frees(self) -> bool: ...


class WithoutHistory:
    """What the rules of connectors have in common that keep no history."""

    keeps_history = False

    def on_matched(self, answers: Sequence[Matched], now_ms: float) -> None:
        """Nothing was asked."""


def block_count_of(token_count: int, block_tokens: int) -> int:
    return -(-token_count // block_tokens)


def blocks_to_fill(
    computed_token_count: int, external_token_count: int, block_ids: Sequence[int], block_tokens: int
) -> list[int]:
    """The blocks after the local hit that take the next `external_token_count` tokens."""
    end = block_count_of(computed_token_count + external_token_count, block_tokens)
    return list(block_ids[computed_token_count // block_tokens : end])


def readable_blocks(
    prompt_token_count: int,
    computed_token_count: int,
    end: str,
    block_ids: Sequence[Sequence[int]],
    block_tokens: int,
) -> Sequence[int] | None:
    """The blocks of a finished request that hold its prompt's KV; None: they don't all."""
    if end not in READABLE_ENDS:
        return None
    if prompt_token_count == 0 or computed_token_count < prompt_token_count:
        return None
    count = block_count_of(prompt_token_count, block_tokens)
    if len(block_ids) != 1 or len(block_ids[0]) < count or count > BLOCKS_PER_POST_MAX:
        return None
    return block_ids[0][:count]
