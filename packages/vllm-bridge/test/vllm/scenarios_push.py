"""Push inside real vLLM: the texts of P + D equal those of one engine, in whatever order both are told."""

from __future__ import annotations

from typing import Callable

from accounts import written
from checks import Checks, equal
from engines import Engine, Params
from push import PushEngine, pushed
from router import LENGTHS, OUTPUT_COUNT, PREFILL, Oracle, expect_answers, new_id, prefill, prompt_of

#: Block size, and how prompts are computed: whole, or in chunks of which each leaves when it is computed.
FORMS: tuple[tuple[int, Params, Params], ...] = (
    (128, {}, {}),
    (32, {"options": {"progressive": True}}, {"max_num_batched_tokens": 256}),
)
AT_ONCE = 8


def equal_texts(checks: Checks, start: Callable[..., Engine], oracle: Oracle) -> None:
    for block_size, push, vllm in FORMS:
        args: Params = {**push, **vllm, "block_size": block_size}
        producer = PushEngine(start, f"push-p-{block_size}", "kv_producer", **args)
        consumer = PushEngine(start, f"push-d-{block_size}", "kv_consumer", block_size=block_size)
        try:
            _equal_texts(checks, producer, consumer, f"push, block size {block_size}", oracle)
        finally:
            producer.engine.stop()
            consumer.engine.stop()


def _equal_texts(
    checks: Checks, producer: PushEngine, consumer: PushEngine, about: str, oracle: Oracle
) -> None:
    engines = (producer.engine, consumer.engine)
    for engine in engines:
        engine.wait_ready()
    empty = [engine.call("requests") for engine in engines]
    for length in LENGTHS:
        prompt = prompt_of(length, seed=20)
        with checks.check(f"{about}: {length} tokens", engines):
            answer = pushed(producer, consumer, prompt)
            equal((answer.reason, answer.tokens), ("length", oracle(prompt)), "answer")
    with checks.check(f"{about}: all of these at once, P hears of them first", engines):
        # Other prompts, or D would have them in its cache.
        _many(producer, consumer, [prompt_of(length, seed=21) for length in LENGTHS], False, oracle)
    with checks.check(f"{about}: {AT_ONCE} at a time, partly in D's prefix cache", engines):
        prompts = [prompt_of(400, seed=22) + prompt_of(10 + 60 * n, seed=23) for n in range(AT_ONCE)]
        _many(producer, consumer, prompts, True, oracle)
    with checks.check(f"{about}: every block was moved by NIXL, and is free again", engines):
        written(producer.engine, consumer.engine, empty, AT_ONCE)


def _many(
    producer: PushEngine, consumer: PushEngine, prompts: list[str], is_consumer_first: bool, oracle: Oracle
) -> None:
    asked = []
    for prompt in prompts:
        transfer_id = new_id("x")
        if is_consumer_first:
            asked.append(consumer.consume(prompt, transfer_id, producer))
            producer.produce(prompt, transfer_id)
        else:
            producer.engine.wait(producer.produce(prompt, transfer_id))
            asked.append(consumer.consume(prompt, transfer_id, producer))
    expect_answers(consumer.engine, asked, prompts, oracle)


def mixed_pair(checks: Checks, puller: Engine, pusher: PushEngine, oracle: Oracle) -> None:
    """One that pulls and one that pushes refuse each other, and what was asked for is computed."""
    engines = (puller, pusher.engine)
    with checks.check("push D, pull P: refused in the handshake with a typed error, computed", engines):
        prompt = prompt_of(300, seed=24)
        place = prefill(puller, prompt_of(20))
        params = {
            **pusher.params("any", new_id("x")),
            **{name: place[name] for name in ("remote_engine_id", "remote_host", "remote_port")},
        }
        failed = pusher.engine.call("describe")["loadsFailed"]
        answer = pusher.engine.ask(new_id("d"), prompt, OUTPUT_COUNT, params)
        equal((answer.reason, answer.tokens), ("length", oracle(prompt)), "answer")
        equal(pusher.engine.call("describe")["loadsFailed"], failed + 1, "loads that failed")
        if "ERR_KV_" not in pusher.engine.log.read_text(errors="replace"):
            raise AssertionError("no typed error in D's log")
    with checks.check("pull D, push P: nothing is handed off or promised, computed", engines):
        prompt = prompt_of(301, seed=24)
        given = pusher.engine.ask(new_id("p"), prompt, 1, dict(PREFILL))
        equal(given.params, None, "the handoff of a transfer without an id")
        answer = puller.ask(new_id("d"), prompt, OUTPUT_COUNT, pusher.params("any", new_id("x")))
        equal(answer.tokens, oracle(prompt), "tokens")
