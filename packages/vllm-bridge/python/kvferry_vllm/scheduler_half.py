"""The scheduler half of the shim: answers vLLM at once from the connector's rules, and records what happened.

It does no I/O. What it recorded leaves with the step's metadata, and the real scheduler half, in the
host, hears the same calls in the same order. While there is no host it answers that nothing can be
transferred. Requests without `kv_transfer_params` cost one comparison. Called by connector.py, which
catches what is raised here.
"""

from __future__ import annotations

import logging
import time
from base64 import b64encode
from dataclasses import dataclass
from typing import Any, Iterable, Mapping, Sequence

from .block_keys import BLOCK_KEY_SIZE_BYTES, PromptKeys
from .connector_rules import rules_for
from .handoff import Prompt, digest_tokens
from .param_fields import is_utf8
from .request_params import UNREADABLE_PARAMS, UNREADABLE_PARAMS_TEXT, names_a_side, params_text
from .rules import NOTHING, Finish, Rules, blocks_to_fill
from .step_metadata import Batch, Event, HostAnswers, HostNews, Step

logger = logging.getLogger("vllm.kvferry")


@dataclass(slots=True)
class _Known:
    """A request that the host of this epoch was told of."""

    prompt: Prompt
    params: Mapping[str, Any]
    #: The last question that was recorded, with its answer; None also once the host answered what it was asked.
    question: tuple[int, int | None] | None = None
    #: Blocks that it got after admission and that no step has told, per group.
    new_blocks: list[list[int]] | None = None


class SchedulerHalf:
    def __init__(self, *, engine_id: str, block_tokens: int) -> None:
        self._engine_id = engine_id
        self._block_tokens = block_tokens
        self._rules: Rules | None = None
        self._keys = PromptKeys(block_tokens)
        self._epoch: str | None = None
        self._is_host_starting = False
        self._quiet_step = Step.nothing(None, False)
        self._lease_ms = 0.0
        self._batches: list[Batch] = []
        self._step_index = 0
        self._known: dict[str, _Known] = {}
        #: Requests of an earlier epoch, or whose tokens don't say what they are. They go on without transfers.
        self._ignored: set[str] = set()

    @property
    def epoch(self) -> str | None:
        return self._epoch

    def set_host(self, news: HostNews) -> None:
        """A host became ready, or there is none any more. Repeating the same is harmless."""
        self._is_host_starting = news.is_starting
        facts = news.facts
        epoch = None if facts is None else facts.epoch
        self._quiet_step = Step.nothing(epoch, news.is_starting)
        if epoch == self._epoch:
            return
        self._ignored.update(self._known)
        self._known = {}
        self._epoch = epoch
        self._keys.set_identity(None if facts is None else facts.kv_identity)
        if facts is None:
            self._rules = None
            return
        self._lease_ms = facts.lease_ms
        self._rules = rules_for(facts, engine_id=self._engine_id, block_tokens=self._block_tokens)

    def on_new_request(
        self,
        request_id: str,
        tokens: Sequence[int] | None,
        params: Mapping[str, Any] | None,
        salt: str | None = None,
    ) -> None:
        """`tokens`: the prompt's ids, here as below; None where they don't say which prompt it is. `salt` keeps its KV apart."""
        if params:
            self._introduce(request_id, tokens, params, salt)

    def matched_tokens(
        self,
        request_id: str,
        tokens: Sequence[int] | None,
        params: Mapping[str, Any] | None,
        computed_token_count: int,
        salt: str | None = None,
    ) -> int | None:
        """None: ask again."""
        known = self._introduce(request_id, tokens, params, salt) if params else None
        if known is None or self._rules is None:
            return 0
        now_ms = _now_ms()
        answer = self._rules.matched_tokens(
            request_id, known.prompt, known.params, computed_token_count, now_ms
        )
        question = (computed_token_count, answer)
        # A waiting request is asked about in every step; the same answer is told once.
        if known.question != question:
            known.question = question
            event: Event = dict(k="match", id=request_id, computed=computed_token_count, answer=answer)
            if self._keys.are_made:
                event["at"] = now_ms
            self._record(**event)
        return answer

    def on_allocated(
        self,
        request_id: str,
        tokens: Sequence[int] | None,
        params: Mapping[str, Any] | None,
        computed_token_count: int,
        block_ids: Sequence[Sequence[int]],
        external_token_count: int,
        salt: str | None = None,
    ) -> None:
        known = self._introduce(request_id, tokens, params, salt) if params else None
        if known is None or self._rules is None:
            return
        is_restore = self._rules.on_allocated(
            request_id, known.prompt, known.params, external_token_count
        )
        # All of its blocks are named here; what it had before a preemption is gone.
        known.new_blocks = None
        event: Event = dict(
            k="alloc",
            id=request_id,
            computed=computed_token_count,
            blocks=[list(ids) for ids in block_ids],
            external=external_token_count,
        )
        if external_token_count > 0:
            # vLLM says what it has computed by itself when it asks, and takes what it was promised then.
            hit = 0 if known.question is None else known.question[0]
            event["fill"] = blocks_to_fill(hit, external_token_count, block_ids[0], self._block_tokens)
        if is_restore:
            event["isRestore"] = True
        self._record(**event)

    def on_finished(
        self,
        request_id: str,
        computed_token_count: int,
        end: str,
        block_ids: Sequence[Sequence[int]],
    ) -> Finish:
        self._ignored.discard(request_id)
        known = self._known.pop(request_id, None)
        if known is None or self._rules is None:
            return NOTHING
        lease_deadline_ms = _now_ms() + self._lease_ms
        answer = self._rules.on_finished(
            request_id, known.prompt, computed_token_count, end, block_ids, lease_deadline_ms
        )
        self._record(
            k="finish",
            id=request_id,
            computed=computed_token_count,
            end=end,
            blocks=[list(ids) for ids in block_ids],
            delayFree=answer.delay_free,
            # A copy: vLLM adds keys of its own to the dictionary that it's given.
            params=None if answer.params is None else dict(answer.params),
        )
        return answer

    def on_output(self, sent: Iterable[str], received: Iterable[str]) -> None:
        if self._rules is None:
            return
        sent_ids, received_ids = sorted(sent), sorted(received)
        if sent_ids or received_ids:
            self._rules.on_output(sent_ids, received_ids)
            self._record(k="output", sent=sent_ids, received=received_ids)

    def on_answers(self, answers: HostAnswers) -> None:
        """What the host's history has of prompts that vLLM was told to ask again about."""
        if self._rules is None or answers.epoch != self._epoch:
            return
        open_ones = [answer for answer in answers.matched if answer.request_id in self._known]
        if not open_ones:
            return
        now_ms = _now_ms()
        self._rules.on_matched(open_ones, now_ms)
        for answer in open_ones:
            self._known[answer.request_id].question = None
        told = [dict(id=a.request_id, question=a.question, blocks=a.block_count) for a in open_ones]
        self._record(k="output", sent=[], received=[], matched=told, at=now_ms)

    def reset_history(self) -> bool:
        """Nothing that is kept may be found again: other weights, say. False while requests are open: theirs might be."""
        if self._keys.are_made and self._known:
            return False
        self._keys.renew()
        return True

    def on_grown(self, request_id: str, new_block_ids: Sequence[Sequence[int]]) -> None:
        """A running request got blocks for its next tokens."""
        known = self._known.get(request_id)
        if known is None:
            return
        if known.new_blocks is None:
            known.new_blocks = [[] for _ in new_block_ids]
        for group, ids in zip(known.new_blocks, new_block_ids):
            group.extend(ids)

    @property
    def is_following(self) -> bool:
        """Whether `on_grown` and `computed_after` of this step can make a difference."""
        return self._rules is not None and self._rules.is_following

    def build_step(
        self, computed_after: Mapping[str, int], preempted: Iterable[str] | None
    ) -> Step:
        """Drains: nothing is told twice. A step without news is the same object as the one before it.

        `computed_after`: of each scheduled request, the tokens whose KV is valid when the step ends.
        """
        gone = sorted(preempted or ())
        after = {r: computed for r, computed in computed_after.items() if r in self._known}
        is_saved = self._rules is not None and bool(after or gone) and self._rules.on_step(after, gone)
        if not self._batches and not gone and not is_saved:
            return self._quiet_step
        batches, self._batches = self._batches, []
        scheduled = [self._take_scheduled(request_id, computed) for request_id, computed in after.items()]
        step = Step(
            self._step_index, scheduled, gone, batches, self._epoch, self._is_host_starting, is_saved
        )
        self._step_index += 1
        return step

    @property
    def has_pending(self) -> bool:
        """An idle engine must go on stepping: events or a host's start wait for a step, or blocks for a report."""
        if self._batches or self._is_host_starting:
            return True
        return self._rules is not None and self._rules.has_pending_block_frees

    def _introduce(
        self,
        request_id: str,
        tokens: Sequence[int] | None,
        params: Mapping[str, Any],
        salt: str | None,
    ) -> _Known | None:
        """What is known of a request that takes part in a transfer. Tells the host of it once."""
        known = self._known.get(request_id)
        if known is not None:
            return known
        if self._rules is None or request_id in self._ignored or not names_a_side(params):
            return None
        if not is_utf8(request_id):
            return None
        if tokens is None:
            self._ignored.add(request_id)
            logger.warning("%s is served without KV transfer: token ids alone don't say its prompt", request_id)
            return None
        keys = self._keys.keys_of(tokens, params, salt)
        first_key = b"" if keys is None else keys[:BLOCK_KEY_SIZE_BYTES]
        known = _Known(Prompt(len(tokens), digest_tokens(tokens), first_key), params)
        text = params_text(params)
        if text is None:
            known.params, text = UNREADABLE_PARAMS, UNREADABLE_PARAMS_TEXT
        self._known[request_id] = known
        self._rules.on_new_request(request_id, known.prompt, known.params)
        event: Event = dict(k="new", id=request_id, prompt=len(tokens), digest=known.prompt.digest.hex(), params=text)
        if keys is not None:
            event["keys"] = b64encode(keys).decode("ascii")
        self._record(**event)
        return known

    def _take_scheduled(self, request_id: str, computed: int) -> Event:
        known = self._known[request_id]
        blocks, known.new_blocks = known.new_blocks or [[]], None
        return dict(id=request_id, computed=computed, blocks=blocks)

    def _record(self, **event: Any) -> None:
        assert self._epoch is not None
        if not self._batches or self._batches[-1].epoch != self._epoch:
            self._batches.append(Batch(self._epoch))
        self._batches[-1].events.append(event)


def _now_ms() -> float:
    """Of the machine's monotonic clock, which the host reads, too: all of a machine has one origin."""
    return 1_000 * time.monotonic()
