"""Push inside real vLLM: the texts of P + D equal those of one engine, in whatever order both are told."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator

from accounts import written
from checks import Checks, equal
from engines import Engine
from push import PushEngine, pushed
from router import LENGTHS, OUTPUT_COUNT, PREFILL, Oracle, expect_answers, new_id, prefill, prompt_of

#: In one pair of engines; two make more than a hundred texts.
AT_ONCE = 8


def equal_texts(
    checks: Checks, producer: PushEngine, consumer: PushEngine, about: str, oracle: Oracle
) -> None:
    """Both are new. `about`: what is special of them."""
    engines = (producer.engine, consumer.engine)
    empty = [engine.call("requests") for engine in engines]
    oracle.texts(prompt_of(length, seed) for seed in (20, 21) for length in LENGTHS)
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
        oracle.texts(prompts)
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


Pushers = tuple[PushEngine, PushEngine]


def mixed_pair(checks: Checks, pullers: tuple[Engine, Engine], pushers: Pushers, oracle: Oracle) -> None:
    """Producer and consumer of either kind: those of different kinds refuse each other. D's of pull has the policy `fail`."""
    (pull_p, pull_d), (push_p, push_d) = pullers, pushers
    with checks.check("push D, pull P: refused in the handshake with a typed error, computed", (pull_p, push_d.engine)):
        prompt = prompt_of(300, seed=24)
        place = prefill(pull_p, prompt_of(20))
        params = {
            **push_d.params("any", new_id("x")),
            **{name: place[name] for name in ("remote_engine_id", "remote_host", "remote_port")},
        }
        failed = push_d.engine.call("describe")["loadsFailed"]
        with _refusing(push_d.engine):
            answer = push_d.engine.ask(new_id("d"), prompt, OUTPUT_COUNT, params)
        equal((answer.reason, answer.tokens), ("length", oracle(prompt)), "answer")
        equal(push_d.engine.call("describe")["loadsFailed"], failed + 1, "loads that failed")
    with checks.check("pull D, push P: refused in the handshake with a typed error, the request fails", (pull_d, push_p.engine)):
        prompt = prompt_of(301, seed=24)
        host = push_p.engine.call("incarnation")
        place = {
            "remote_engine_id": push_p.engine.name, "remote_incarnation": host,
            "remote_host": "127.0.0.1", "remote_port": push_p.port,
        }  # fmt: skip
        with _refusing(pull_d):
            answer = pull_d.ask(new_id("d"), prompt, OUTPUT_COUNT, {**prefill(pull_p, prompt), **place})
        equal((answer.reason, answer.tokens), ("error", []), "answer")
    with checks.check("pull D, push P: nothing is handed off or promised, computed", (pull_d, push_p.engine)):
        prompt = prompt_of(302, seed=24)
        given = push_p.engine.ask(new_id("p"), prompt, 1, dict(PREFILL))
        equal(given.params, None, "the handoff of a transfer without an id")
        answer = pull_d.ask(new_id("d"), prompt, OUTPUT_COUNT, push_p.params("any", new_id("x")))
        equal(answer.tokens, oracle(prompt), "tokens")


@contextmanager
def _refusing(consumer: Engine) -> Iterator[None]:
    """Its log says meanwhile that the connectors differ, in the error for this."""
    before = len(consumer.log.read_bytes())
    yield
    said = consumer.log.read_bytes()[before:].decode(errors="replace")
    for part in ("ERR_KV_PEER_INCOMPATIBLE", " here and another on "):
        if part not in said:
            raise AssertionError(f"no {part!r} in what {consumer.name} logged: {said[-400:]!r}")
