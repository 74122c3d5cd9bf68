"""What the scheduler half needs to know, taken out of vLLM's objects. Used by connector.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.request import Request

    from .scheduler_half import SchedulerHalf

#: How vLLM says that a request ended, in the contract's words. Every other end is `failed`.
_ENDS = {
    "FINISHED_STOPPED": "stopped",
    "FINISHED_LENGTH_CAPPED": "length-capped",
    "FINISHED_ABORTED": "aborted",
}


def finish_reason_of(request: Request) -> str:
    return _ENDS.get(request.status.name, "failed")


def note_growth(half: SchedulerHalf, output: SchedulerOutput) -> dict[str, int]:
    """Tokens that are computed when the step ends; blocks that came after admission are noted."""
    counts = output.num_scheduled_tokens
    after = {new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs}
    cached = output.scheduled_cached_reqs
    for index, request_id in enumerate(cached.req_ids):
        after[request_id] = cached.num_computed_tokens[index]
        blocks = cached.new_block_ids[index]
        # All blocks of one that was preempted are named anew at its admission.
        if blocks and request_id not in cached.resumed_req_ids:
            half.on_grown(request_id, blocks)
    return {request_id: count + counts.get(request_id, 0) for request_id, count in after.items()}
