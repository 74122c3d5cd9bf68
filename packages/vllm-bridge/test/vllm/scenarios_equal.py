"""Texts of P + D equal those of one engine, whatever the length; what is malformed is computed, not loaded."""

from __future__ import annotations

from typing import Any, Callable

from accounts import settled
from checks import Checks, equal
from engines import Engine, Params
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

StartEngine = Callable[..., Engine]
#: The promise of the product: engine-thread time inside our hooks, per step. Judged with `--bars` only: on a
#: machine that does other things too, a limit would measure those.
HOOK_P50_US_MAX = 100.0


def equal_texts(
    checks: Checks, start: StartEngine, block_size: int, oracle: Oracle, judge_bars: bool
) -> None:
    producer = start(f"p-{block_size}", {"kv_role": "kv_producer"}, block_size=block_size)
    consumer = start(f"d-{block_size}", {"kv_role": "kv_consumer"}, block_size=block_size)
    engines = (producer, consumer)
    about = f"block size {block_size}:"
    try:
        for engine in engines:
            engine.wait_ready()
        empty = [engine.call("requests") for engine in engines]
        for length in LENGTHS:
            prompt = prompt_of(length)
            expected = oracle(prompt)
            with checks.check(f"{about} {length} tokens", engines):
                answer = disaggregated(producer, consumer, prompt)
                equal((answer.reason, answer.tokens), ("length", expected), "answer")
        with checks.check(f"{about} eight at a time, partly in D's prefix cache", engines):
            _at_once(producer, consumer, oracle)
        with checks.check(f"{about} every block was moved by NIXL, and is free again", engines):
            _accounts(producer, consumer, empty)
        with checks.check(f"{about} engine thread in hooks is measured in each step", engines):
            medians = hook_times(producer, consumer)
        if judge_bars:
            with checks.check(f"{about} engine thread in hooks, p50 at most {HOOK_P50_US_MAX:.0f} us"):
                equal([p50 for p50 in medians if p50 > HOOK_P50_US_MAX], [], "medians above the limit")
    finally:
        for engine in engines:
            engine.stop()


def _at_once(producer: Engine, consumer: Engine, oracle: Oracle) -> None:
    """Prompts that share a prefix of many blocks, then differ: D loads what it doesn't have."""
    prompts = [prompt_of(400) + prompt_of(10 + 60 * index, seed=1) for index in range(8)]
    prompts[7] = prompts[6]  # all but the last token in D's cache, or in flight
    for prompt in prompts:  # asked before both engines are at work
        oracle(prompt)
    ids = []
    for prompt in prompts:
        handoff = prefill(producer, prompt)
        ids.append(new_id("d"))
        consumer.submit(ids[-1], prompt, OUTPUT_COUNT, handoff)
    expect_answers(consumer, ids, prompts, oracle)


def _accounts(producer: Engine, consumer: Engine, empty: list[Params]) -> None:
    p, d = settled(producer, consumer, empty)
    count = len(LENGTHS) + 8
    equal(p["leasesGranted"], count, "leases")
    equal(p["leasesRead"] + p["leasesReleased"], count, "leases ended by the reader")
    equal(d["loadsDone"] + d["releasesSent"], count, "loads and releases")
    equal(d["transfersDone"], d["loadsDone"], "NIXL transfers")
    if d["bytesMoved"] < 100_000_000 // 8:
        raise AssertionError(f"only {d['bytesMoved']} bytes were moved")


def hook_times(producer: Engine, consumer: Engine) -> list[float]:
    """Medians in us a step: of steps that compute, of steps that only wait."""
    taken = [engine.call("hooks") for engine in (producer, consumer)]
    medians = []
    for kind, what in enumerate(("that compute", "that only wait")):
        us = sorted(sample / 1_000 for samples in taken for sample in samples[kind])
        if not us or us[0] <= 0:
            raise AssertionError(f"no time was measured for {len(us)} steps {what}")
        p50, p90, p99 = (us[int(share * len(us))] for share in (0.5, 0.9, 0.99))
        print(
            f"engine thread inside our hooks, us per step, {len(us)} steps {what}: "
            f"p50 {p50:.1f}, p90 {p90:.1f}, p99 {p99:.1f}, max {us[-1]:.0f}"
        )
        medians.append(p50)
    return medians


def malformed_params(checks: Checks, producer: Engine, consumer: Engine, oracle: Oracle) -> None:
    """Anybody can send params: nothing of them is promised to the scheduler before they're checked."""
    with checks.check("a true handoff of another prompt of this length: computed, not loaded", (consumer,)):
        mine = prompt_of(150, seed=9)
        answer = consumer.ask(new_id("d"), mine, OUTPUT_COUNT, prefill(producer, prompt_of(150, seed=8)))
        equal(answer.tokens, oracle(mine), "tokens")
    prompt = prompt_of(150)
    good = prefill(producer, prompt)
    changes: dict[str, Any] = {
        "a missing engine id": {"remote_engine_id": None},
        "no blocks": {"remote_block_ids": [[]]},
        "blocks of another prompt": {"remote_block_ids": [good["remote_block_ids"][0][:-1]]},
        "two groups": {"remote_block_ids": [[1], [2]]},
        "another wire version": {"wire_version": 1},
        "a port that is none": {"remote_port": 70_000},
        "a number where a flag stands": {"do_remote_prefill": 1},
        "not a number": {"remote_lease_deadline_ms": float("nan")},
        "bytes": {"remote_signature": b"\x00"},
    }
    for name, change in changes.items():
        with checks.check(f"malformed params, {name}: computed, not loaded", (consumer,)):
            answer = consumer.ask(new_id("d"), prompt, OUTPUT_COUNT, {**good, **change})
            equal(answer.tokens, oracle(prompt), "tokens")
    with checks.check("a forged handoff (another block, well-formed): the load fails, the text is right", (consumer,)):
        ids = [block + 1 for block in good["remote_block_ids"][0]]
        answer = consumer.ask(new_id("d"), prompt_of(150), OUTPUT_COUNT, {**good, "remote_block_ids": [ids]})
        equal(answer.tokens, oracle(prompt), "tokens")
