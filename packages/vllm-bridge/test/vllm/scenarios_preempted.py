"""Engines whose cache is too small for what they run, so that they preempt: the texts are those of one engine all the same.

"While a WRITE is open" is made, not hoped for: over TCP a WRITE needs the consumer's host, so while that one is
stopped (SIGSTOP) no WRITE ends. An engine that waits for one answers nothing, so its log says how far it is.
"""

from __future__ import annotations

import time
from typing import Callable

from checks import Checks, equal
from engines import Engine, Params
from inside import PREEMPTION_BEGINS, PREEMPTION_ENDS
from push import PushEngine, pushed
from router import OUTPUT_COUNT, Oracle, new_id, prefill, prompt_of
from scenarios_death import TCP, host_pid, is_idle, stopped

BLOCK_SIZE = 32
#: With vLLM's null block; one block is 128 KiB of the tiny model.
BLOCK_COUNT = 66
SMALL: Params = dict(
    block_size=BLOCK_SIZE, kv_cache_memory_bytes=BLOCK_COUNT << 17, max_model_len=1536,
    enable_prefix_caching=False,
)  # fmt: skip
#: Two of them don't fit; both are computed at once, a few blocks a step, and only what a step needs is asked for.
LENGTH = 1400
IN_PIECES: Params = dict(
    max_num_batched_tokens=256, long_prefill_token_threshold=64, scheduler_reserve_full_isl=False
)
#: Prompts of just eight blocks, which fit eight at a time: the first tokens of their answers don't.
GROWING_LENGTH, GROWING_COUNT = 256, 12
#: An engine that doesn't wait has long gone on by then; the connector gives up the parts of a prompt after 5 s.
HELD_S = 1.0


def while_written(checks: Checks, start: Callable[..., Engine], oracle: Oracle) -> None:
    about = "push: a prompt preempted while WRITEs read its blocks: the engine waits for them, the texts are right"
    producer = PushEngine(
        start, "preempted-p", "kv_producer", env=TCP, options={"progressive": True}, **SMALL, **IN_PIECES
    )
    consumer = PushEngine(start, "preempted-push-d", "kv_consumer", env=TCP, block_size=BLOCK_SIZE)
    engines = (producer.engine, consumer.engine)
    try:
        with checks.check(about, engines):
            for engine in engines:
                engine.wait_ready()
            producer.engine.call("watch_preemptions")
            prompts = [prompt_of(LENGTH, seed) for seed in (60, 61)]
            expected = oracle.texts(prompts)
            pushed(producer, consumer, prompt_of(20, seed=60))  # the two hosts know each other
            for engine in engines:
                is_idle(engine)
            before = [engine.call("requests") for engine in engines]
            transfers = [new_id("x") for _ in prompts]
            asked = [consumer.consume(*told, producer) for told in zip(prompts, transfers)]
            producer.engine.wait_until(
                "D has registered",
                lambda: producer.engine.call("describe")["registrationsAccepted"] == 1 + len(prompts),
            )
            with stopped(host_pid(consumer.engine)):
                prefilled = [producer.produce(*told) for told in zip(prompts, transfers)]
                _wait_for_preemption(producer.engine)
                time.sleep(HELD_S)
                equal(_said(producer.engine, PREEMPTION_ENDS), 0, "preemptions that did not wait")
            for request_id in prefilled:
                producer.engine.wait(request_id)
            equal([consumer.engine.wait(one).tokens for one in asked], expected, "tokens")
            equal(_said(producer.engine, PREEMPTION_ENDS), _said(producer.engine, PREEMPTION_BEGINS), "ends")
            _are_as_before(engines, before)
    finally:
        for engine in engines:
            engine.stop()


def while_others_load(checks: Checks, start: Callable[..., Engine], oracle: Oracle) -> None:
    about = "pull: requests preempted while they decode and others load: the texts are right"
    producer = start("preempted-pull-p", {"kv_role": "kv_producer"}, block_size=BLOCK_SIZE)
    consumer = start("preempted-d", {"kv_role": "kv_consumer"}, **SMALL)
    engines = (producer, consumer)
    try:
        with checks.check(about, engines):
            for engine in engines:
                engine.wait_ready()
            consumer.call("watch_preemptions")
            before = [engine.call("requests") for engine in engines]
            prompts = [prompt_of(GROWING_LENGTH, seed=62 + index) for index in range(GROWING_COUNT)]
            expected = oracle.texts(prompts)
            handoffs = [prefill(producer, prompt) for prompt in prompts]
            asked = [new_id("d") for _ in prompts]
            for request_id, prompt, handoff in zip(asked, prompts, handoffs):
                consumer.submit(request_id, prompt, OUTPUT_COUNT, handoff)
            equal([consumer.wait(one).tokens for one in asked], expected, "tokens")
            count = len(consumer.call("preempted"))
            if count == 0:
                raise AssertionError("nothing was preempted")
            equal(consumer.call("describe")["loadsDone"], GROWING_COUNT, "loads")
            _are_as_before(engines, before)
    finally:
        for engine in engines:
            engine.stop()


def _wait_for_preemption(engine: Engine) -> None:
    engine.wait_until("a preemption begins", lambda: _said(engine, PREEMPTION_BEGINS) > 0)


def _said(engine: Engine, line: str) -> int:
    return engine.log.read_text(errors="replace").count(line)


def _are_as_before(engines: tuple[Engine, Engine], before: list[Params]) -> None:
    for engine, was in zip(engines, before):
        is_idle(engine)
        equal(engine.call("requests"), was, f"requests and blocks of {engine.name}")
        described = engine.call("describe")
        wrong = ("divergences", "hookFailures", "hostDeaths", "messagesRefused")
        equal({name: described[name] for name in wrong}, dict.fromkeys(wrong, 0), engine.name)
