"""Xavier inside real vLLM: the texts of P + D equal those of one engine, and every ticket comes to its end."""

from __future__ import annotations

from typing import Callable

import scenarios_history as history
from accounts import written
from checks import Checks, equal
from engines import Engine
from router import (
    LENGTHS,
    OUTPUT_COUNT,
    Oracle,
    disaggregated,
    expect_answers,
    new_id,
    prefill,
    prompt_of,
)

#: In one block size; two make more than a hundred texts.
AT_ONCE = 8


def equal_texts(
    checks: Checks, start: Callable[..., Engine], oracle: Oracle, judge_bars: bool
) -> None:
    for block_size in (32, 128):
        is_keeping = block_size == history.BLOCK_SIZE
        options = history.OPTIONS if is_keeping else {"gpuCacheBytes": 0}
        engines = [
            start(
                f"xavier-{role}-{block_size}",
                {"kv_role": f"kv_{role}", "kv_load_failure_policy": "recompute",
                 "kv_connector_extra_config": {
                     "connector": "xavier", "options": options, "bridge": {"restartCountMax": 20}}},
                block_size=block_size,
            )
            for role in ("producer", "consumer")
        ]  # fmt: skip
        try:
            pair = (engines[0], engines[1])
            _equal_texts(checks, *pair, f"xavier, block size {block_size}", oracle)
            if is_keeping:
                history.returning_prompts(checks, *pair, oracle, judge_bars)
                history.wrong_byte(checks, *pair, oracle)
                history.faults(checks, *pair, oracle)
            else:
                history.switched_off(checks, *pair, oracle)
        finally:
            for engine in engines:
                engine.stop()


def _equal_texts(
    checks: Checks, producer: Engine, consumer: Engine, about: str, oracle: Oracle
) -> None:
    engines = (producer, consumer)
    for engine in engines:
        engine.wait_ready()
    empty = [engine.call("requests") for engine in engines]
    for length in LENGTHS:
        prompt = prompt_of(length, seed=30)
        with checks.check(f"{about}: {length} tokens", engines):
            answer = disaggregated(producer, consumer, prompt)
            equal((answer.reason, answer.tokens), ("length", oracle(prompt)), "answer")
    with checks.check(f"{about}: all of these at once, their tickets wait for D", engines):
        # Other prompts, or D would have them in its cache.
        _many(producer, consumer, [prompt_of(length, seed=31) for length in LENGTHS], oracle)
    with checks.check(f"{about}: {AT_ONCE} at a time, partly in D's prefix cache", engines):
        prompts = [prompt_of(400, seed=32) + prompt_of(10 + 60 * n, seed=33) for n in range(AT_ONCE)]
        _many(producer, consumer, prompts, oracle)
    with checks.check(f"{about}: every block was written by NIXL, every ticket ended", engines):
        p = written(producer, consumer, empty, AT_ONCE)
        equal(p["leasesExpired"], 0, "expired")
        equal(p["ticketsFinished"], p["ticketsRegistered"], "tickets that ended")


def _many(producer: Engine, consumer: Engine, prompts: list[str], oracle: Oracle) -> None:
    handoffs = [prefill(producer, prompt) for prompt in prompts]
    asked = []
    for prompt, handoff in zip(prompts, handoffs):
        asked.append(new_id("d"))
        consumer.submit(asked[-1], prompt, OUTPUT_COUNT, handoff)
    expect_answers(consumer, asked, prompts, oracle)
