"""Push with hosts that die or stop, and requests that are given up, while blocks may be written into.

Where a WRITE has to stay open, it goes over TCP and the consumer's host is stopped: it has to take the bytes.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from contextlib import contextmanager
from typing import Iterator

from checks import Checks, equal
from push import PushEngine, pushed
from router import Oracle, new_id, prompt_of
from scenarios_death import host_pid, restarted, stopped

LENGTH = 1400
#: A prompt of its own for each check: nothing is in anybody's cache.
_seeds = itertools.count(1_000)


def _new_prompt(length: int = LENGTH) -> str:
    return prompt_of(length, seed=next(_seeds))


@contextmanager
def _registered(producer: PushEngine, consumer: PushEngine, prompt: str) -> Iterator[tuple[str, str]]:
    """D's request, whose blocks P may write into from now on, and the transfer's id. P doesn't compute yet."""
    for pair in (producer, consumer):
        host_pid(pair.engine)
    pushed(producer, consumer, _new_prompt(20))  # the two hosts know each other
    accepted = producer.engine.call("describe")["registrationsAccepted"]
    transfer_id = new_id("x")
    asked = consumer.consume(prompt, transfer_id, producer)
    producer.engine.wait_until(
        "D has registered",
        lambda: producer.engine.call("describe").get("registrationsAccepted") == accepted + 1,
    )
    yield asked, transfer_id


@contextmanager
def _open_write(producer: PushEngine, consumer: PushEngine, prompt: str) -> Iterator[str]:
    """D's request, into whose blocks a WRITE is posted that can't end before this context does."""
    with _registered(producer, consumer, prompt) as (asked, transfer_id):
        with stopped(host_pid(consumer.engine)):
            prefilled = producer.produce(prompt, transfer_id)
            producer.engine.wait_until(
                "a WRITE is open", lambda: producer.engine.call("describe").get("transfersOpen") == 1
            )
            yield asked
        producer.engine.wait(prefilled)


def _expect(consumer: PushEngine, asked: str, policy: str, tokens: list[int]) -> None:
    answer = consumer.engine.wait(asked)
    wanted = ("length", tokens) if policy == "recompute" else ("error", [])
    equal((answer.reason, answer.tokens), wanted, "answer")


def _expect_next(producer: PushEngine, consumer: PushEngine, oracle: Oracle) -> None:
    """The engines live, and KV moves again."""
    for pair in (producer, consumer):
        host_pid(pair.engine)
    done = consumer.engine.call("describe").get("loadsDone", 0)
    prompt = _new_prompt(500)
    equal(pushed(producer, consumer, prompt).tokens, oracle(prompt), "tokens of the next one")
    equal(consumer.engine.call("describe")["loadsDone"], done + 1, "loads")


def consumer_host_killed(
    checks: Checks, producer: PushEngine, consumer: PushEngine, policy: str, oracle: Oracle
) -> None:
    engines = (producer.engine, consumer.engine)
    with checks.check(f"push, {policy}: D's host killed while P may write and has not begun", engines):
        prompt = _new_prompt()
        tokens = oracle(prompt)
        before = producer.engine.call("requests")
        host = host_pid(consumer.engine)
        with _registered(producer, consumer, prompt) as (asked, transfer_id):
            os.kill(host, signal.SIGKILL)
            _expect(consumer, asked, policy, tokens)
            producer.engine.wait(producer.produce(prompt, transfer_id))
        producer.engine.wait_until("blocks come back", lambda: producer.engine.call("requests") == before)
        restarted(consumer.engine, host)
        _expect_next(producer, consumer, oracle)
    with checks.check(f"push, {policy}: D's host killed in the middle of a WRITE", engines):
        prompt = _new_prompt()
        tokens = oracle(prompt)
        before = producer.engine.call("requests")
        host = host_pid(consumer.engine)
        with _open_write(producer, consumer, prompt) as asked:
            os.kill(host, signal.SIGKILL)
            _expect(consumer, asked, policy, tokens)
        producer.engine.wait_until("blocks come back", lambda: producer.engine.call("requests") == before)
        restarted(consumer.engine, host)
        _expect_next(producer, consumer, oracle)


def producer_host_killed(
    checks: Checks, producer: PushEngine, consumer: PushEngine, policy: str, oracle: Oracle
) -> None:
    engines = (producer.engine, consumer.engine)
    with checks.check(f"push, {policy}: P's host killed in the middle of a WRITE", engines):
        prompt = _new_prompt()
        tokens = oracle(prompt)
        before = producer.engine.call("requests")
        host = host_pid(producer.engine)
        with _open_write(producer, consumer, prompt) as asked:
            os.kill(host, signal.SIGKILL)
        _expect(consumer, asked, policy, tokens)
        producer.engine.wait_until("blocks come back", lambda: producer.engine.call("requests") == before)
        restarted(producer.engine, host)
        _expect_next(producer, consumer, oracle)


def aborted_load(checks: Checks, producer: PushEngine, consumer: PushEngine) -> None:
    engines = (producer.engine, consumer.engine)
    about = "push: a request aborted while P may write: its blocks stay until P says that it will not"
    with checks.check(about, engines):
        before = consumer.engine.call("requests")
        with _registered(producer, consumer, _new_prompt()) as (asked, _):
            with stopped(host_pid(producer.engine)):
                consumer.engine.abort(asked)
                time.sleep(0.5)  # the engine goes on stepping meanwhile
                equal(consumer.engine.call("requests")["open"], 1, "requests that hold blocks")
        consumer.engine.wait_until("blocks come back", lambda: consumer.engine.call("requests") == before)
    about = "push: a request aborted in the middle of a WRITE: its blocks stay until the WRITE has ended"
    with checks.check(about, engines):
        before = consumer.engine.call("requests")
        with _open_write(producer, consumer, _new_prompt()) as asked:
            consumer.engine.abort(asked)
            time.sleep(0.5)
            equal(consumer.engine.call("requests")["open"], 1, "requests that hold blocks")
        consumer.engine.wait_until("blocks come back", lambda: consumer.engine.call("requests") == before)
