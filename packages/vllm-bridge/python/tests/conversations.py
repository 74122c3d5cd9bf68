"""Plays a golden conversation on the rules of a connector whose producer writes the handoff."""

from __future__ import annotations

import unittest
from typing import Any, Callable

from kvferry_vllm.handoff import Prompt
from kvferry_vllm.returning_prompts import Matched
from kvferry_vllm.rules import Finish, Rules

from . import golden


def play(
    case: unittest.TestCase,
    rules: Rules,
    script: dict[str, Any],
    prompt_of: Callable[[dict[str, Any]], Prompt] = golden.prompt_of_request,
) -> None:
    """Every answer is the connector's, and nothing is remembered at the end."""
    for index, call in enumerate(script["calls"]):
        request = script["requests"].get(call.get("id"), {})
        prompt = prompt_of(request) if request else None
        about: Any = (call.get("id"), prompt, request.get("params"))
        hook = call["hook"]
        if hook == "new":
            rules.on_new_request(*about)
        elif hook == "match":
            answer = rules.matched_tokens(*about, call["computed"], call.get("at", 0.0))
            case.assertEqual(answer, call["tokens"], f"call {index}: {call}")
        elif hook == "alloc":
            rules.on_allocated(*about, call["external"])
        elif hook == "finish":
            ended = (call["computed"], call["end"], [call["blocks"]], call.get("leaseDeadlineMs", 0.0))
            finish = rules.on_finished(*about[:2], *ended)
            case.assertEqual(finish, Finish(call["delayFree"], call["params"]), f"call {index}: {call}")
        else:
            answers = [Matched(a["id"], a["question"], a["blocks"]) for a in call.get("matched", ())]
            rules.on_matched(answers, call.get("at", 0.0))
            rules.on_output(call["sent"], call["received"])
    case.assertEqual(list(rules.request_ids), [], "requests that were never forgotten")
    case.assertFalse(rules.has_pending_block_frees)
