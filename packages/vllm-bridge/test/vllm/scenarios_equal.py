"""Texts of P + D equal those of one engine, whatever the length; what is malformed is computed, not loaded."""

from __future__ import annotations

import itertools
from typing import Callable

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

#: The promise of the product: engine-thread time inside our hooks, per step. Judged with `--bars` only: on a
#: machine that does other things too, a limit would measure those.
HOOK_P50_US_MAX = 100.0


def equal_texts(
    checks: Checks, producer: Engine, consumer: Engine, about: str, oracle: Oracle, judge_bars: bool
) -> None:
    """Both are new. `about`: what is special of them."""
    engines = (producer, consumer)
    empty = [engine.call("requests") for engine in engines]
    prompts = [prompt_of(length) for length in LENGTHS]
    for prompt, expected in zip(prompts, oracle.texts(prompts)):
        with checks.check(f"{about}: {len(prompt)} tokens", engines):
            answer = disaggregated(producer, consumer, prompt)
            equal((answer.reason, answer.tokens), ("length", expected), "answer")
    with checks.check(f"{about}: eight at a time, partly in D's prefix cache", engines):
        _at_once(producer, consumer, oracle)
    with checks.check(f"{about}: every block was moved by NIXL, and is free again", engines):
        _accounts(producer, consumer, empty)
    with checks.check(f"{about}: engine thread in hooks is measured in each step", engines):
        medians = hook_times(producer, consumer)
    if judge_bars:
        with checks.check(f"{about}: engine thread in hooks, p50 at most {HOOK_P50_US_MAX:.0f} us"):
            equal([p50 for p50 in medians if p50 > HOOK_P50_US_MAX], [], "medians above the limit")


def _at_once(producer: Engine, consumer: Engine, oracle: Oracle) -> None:
    """Prompts that share a prefix of many blocks, then differ: D loads what it doesn't have."""
    prompts = [prompt_of(400) + prompt_of(10 + 60 * index, seed=1) for index in range(8)]
    prompts[7] = prompts[6]  # all but the last token in D's cache, or in flight
    oracle.texts(prompts)  # asked before both engines are at work
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
    """Anybody can send params: nothing of them is promised to the scheduler before they're checked.

    Each prompt is new, or D would have it in its cache.
    """
    seeds = itertools.count(70)

    def expect(name: str, change: Callable[[Params], Params], loads: tuple[int, int] = (0, 0)) -> None:
        """`loads`: that end well, that fail."""
        with checks.check(name, (consumer,)):
            prompt = prompt_of(150, next(seeds))
            done, failed = _loads(consumer)
            answer = consumer.ask(new_id("d"), prompt, OUTPUT_COUNT, change(prefill(producer, prompt)))
            equal(answer.tokens, oracle(prompt), "tokens")
            equal(_loads(consumer), (done + loads[0], failed + loads[1]), "loads that ended well, that failed")

    expect("control, true params: loaded", lambda good: good, (1, 0))
    other = prefill(producer, prompt_of(150, next(seeds)))
    expect("a true handoff of another prompt of this length: computed, not loaded", lambda good: other)
    changes: dict[str, Callable[[Params], Params]] = {
        "a missing engine id": lambda good: {"remote_engine_id": None},
        "no blocks": lambda good: {"remote_block_ids": [[]]},
        "blocks of another prompt": lambda good: {"remote_block_ids": [good["remote_block_ids"][0][:-1]]},
        "two groups": lambda good: {"remote_block_ids": [[1], [2]]},
        "another wire version": lambda good: {"wire_version": 1},
        "a port that is none": lambda good: {"remote_port": 70_000},
        "a number where a flag stands": lambda good: {"do_remote_prefill": 1},
        "not a number": lambda good: {"remote_lease_deadline_ms": float("nan")},
        "bytes": lambda good: {"remote_signature": b"\x00"},
    }
    for name, change in changes.items():
        expect(f"malformed params, {name}: computed, not loaded", lambda good: {**good, **change(good)})
    expect(
        "a forged handoff (another block, well-formed): the load fails, the text is right",
        lambda good: {**good, "remote_block_ids": [[block + 1 for block in good["remote_block_ids"][0]]]},
        (0, 1),
    )


def _loads(consumer: Engine) -> tuple[int, int]:
    counters = consumer.call("describe")
    return counters.get("loadsDone", 0), counters.get("loadsFailed", 0)
