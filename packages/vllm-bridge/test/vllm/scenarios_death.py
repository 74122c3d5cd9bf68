"""Hosts that die or stop in the middle of a load: the request fails or is computed, and the engine lives.

"The middle" is made, not hoped for: over TCP a READ needs the producer's host, so while that one is
stopped (SIGSTOP) the consumer's READ stays open for as long as the test wants.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from typing import Iterator

from checks import Checks, equal
from engines import Engine
from processes import is_alive
from router import OUTPUT_COUNT, Oracle, disaggregated, new_id, prefill, prompt_of

LENGTH = 700
#: Of blocks kept for a reader. One check waits for its end; the others must get their READs done before it, also on
#: a busy machine.
LEASE_MS = 8_000
#: Environment of an engine whose READs need both hosts.
TCP = {"UCX_TLS": "tcp"}


def host_pid(engine: Engine) -> int:
    """Of a host that is ready. Over TCP, UCX may end a producer's host whose reader died; it comes back."""
    engine.ask(new_id("x"), "x", 1)  # an idle engine hears of nothing
    engine.wait_until("a host is ready", lambda: engine.call("describe")["hostPid"] != 0)
    return int(engine.call("describe")["hostPid"])


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


def is_idle(engine: Engine) -> None:
    """Nothing holds blocks any more: no request, no lease, no transfer."""
    engine.wait_until("blocks come back", lambda: engine.call("requests")["open"] == 0)


@contextmanager
def _open_read(producer: Engine, consumer: Engine, prompt: str) -> Iterator[str]:
    """A request of D whose READ is posted and can't end before this context does."""
    host_pid(producer)
    host_pid(consumer)
    warm = prompt_of(20)  # the two hosts know each other: a stopped one would answer no handshake
    consumer.ask(new_id("d"), warm, 1, prefill(producer, warm))
    handoff = prefill(producer, prompt)
    done = consumer.call("describe").get("transfersDone")
    with stopped(host_pid(producer)):
        request_id = new_id("d")
        consumer.submit(request_id, prompt, OUTPUT_COUNT, handoff)
        consumer.wait_until(
            "a READ is open",
            lambda: consumer.call("describe").get("transfersOpen") == 1,
        )
        equal(consumer.call("describe")["transfersDone"], done, "READs that ended")
        yield request_id


def restarted(engine: Engine, old_pid: int) -> None:
    engine.wait_until("another host is ready", lambda: engine.call("describe")["hostPid"] not in (0, old_pid))


def consumer_host_killed(checks: Checks, producer: Engine, consumer: Engine, policy: str, oracle: Oracle) -> None:
    """Its prompts are nobody else's, so in nobody's cache."""
    engines = (producer, consumer)
    with checks.check(f"control, {policy}: a load over TCP without a fault", engines):
        host_pid(producer)
        prompt = prompt_of(LENGTH, seed=50)
        equal(disaggregated(producer, consumer, prompt).tokens, oracle(prompt), "tokens")
    for engine in engines:
        is_idle(engine)
    before = [engine.call("requests") for engine in engines]
    with checks.check(f"D's host killed in the middle of a READ, {policy}", engines):
        prompt = prompt_of(1400, seed=50)
        host = host_pid(consumer)
        with _open_read(producer, consumer, prompt) as request_id:
            os.kill(host, signal.SIGKILL)
            answer = consumer.wait(request_id)
        if policy == "recompute":
            equal((answer.reason, answer.tokens), ("length", oracle(prompt)), "answer")
        else:
            equal((answer.reason, answer.tokens), ("error", []), "answer")
    with checks.check(f"D's engine lives on after it, {policy}: the next request has the right text", engines):
        prompt = prompt_of(1000, seed=50)
        equal(consumer.ask(new_id("d"), prompt, OUTPUT_COUNT).tokens, oracle(prompt), "tokens alone")
        restarted(consumer, host)
        host_pid(producer)
        prompt = prompt_of(500, seed=50)
        equal(disaggregated(producer, consumer, prompt).tokens, oracle(prompt), "tokens")
        described = consumer.call("describe")
        equal((described["hostDeaths"], described["loadsDone"]), (1, 1), "deaths, loads of the new host")
    with checks.check(f"after it, {policy}: every block of both engines is free again", engines):
        for engine, was in zip(engines, before):
            is_idle(engine)
            equal(engine.call("requests"), was, engine.name)


def consumer_host_stopped(checks: Checks, producer: Engine, consumer: Engine, oracle: Oracle) -> None:
    with checks.check("D's host stopped in the middle of a READ: it's killed, reaped, and the prompt computed", (producer, consumer)):
        prompt = prompt_of(1400, seed=2)
        alone = oracle(prompt)
        host = host_pid(consumer)
        with _open_read(producer, consumer, prompt) as request_id, stopped(host):
            answer = consumer.wait(request_id)
        equal((answer.reason, answer.tokens), ("length", alone), "answer")
        equal(is_alive(host), False, "the stopped host lives")
        restarted(consumer, host)


def aborted_load(checks: Checks, producer: Engine, consumer: Engine) -> None:
    with checks.check("a request aborted in the middle of its READ: its blocks stay until the READ has ended", (producer, consumer)):
        is_idle(consumer)
        before = consumer.call("requests")
        prompt = prompt_of(1400, seed=3)
        with _open_read(producer, consumer, prompt) as request_id:
            consumer.abort(request_id)
            time.sleep(0.3)  # the engine goes on stepping meanwhile
            equal(consumer.call("requests")["open"], 1, "requests that hold blocks")
        consumer.wait_until("blocks come back", lambda: consumer.call("requests") == before)


def producer_host_killed(checks: Checks, producer: Engine, consumer: Engine, lease_s: float, oracle: Oracle) -> None:
    engines = (producer, consumer)
    with checks.check("P's host killed while it holds a lease: D computes, P keeps the blocks for the lease's time", engines):
        is_idle(producer)
        host_pid(producer)
        before = producer.call("requests")
        prompt = prompt_of(321)
        handoff = prefill(producer, prompt)
        host = host_pid(producer)
        os.kill(host, signal.SIGKILL)
        killed_at = time.monotonic()
        answer = consumer.ask(new_id("d"), prompt, OUTPUT_COUNT, handoff)
        equal((answer.reason, answer.tokens), ("length", oracle(prompt)), "answer")
        producer.wait_until("blocks come back", lambda: producer.call("requests") == before)
        if time.monotonic() - killed_at < lease_s:
            raise AssertionError("the blocks were free before a reader's lease could have ended")
    with checks.check("P's engine lives on after it", engines):
        restarted(producer, host)
        prompt = prompt_of(200)
        equal(disaggregated(producer, consumer, prompt).tokens, oracle(prompt), "tokens")


def nothing_is_left(checks: Checks, producer: Engine, consumer: Engine) -> None:
    """Ends both engines: one in order, one by force."""
    hosts = [host_pid(producer), host_pid(consumer)]
    with checks.check("no hook failed, and shim and connector agreed on every answer", (producer, consumer)):
        for engine in (producer, consumer):
            described = engine.call("describe")
            equal((described["hookFailures"], described["divergences"]), (0, 0), engine.name)
    with checks.check("an engine that ends takes its host with it", (producer,)):
        equal(producer.stop(), 0, "exit status of P")
        equal(is_alive(hosts[0]), False, "P's host lives")
    with checks.check("so does an engine that is killed", (consumer,)):
        consumer.kill()
        consumer.wait_until("the host ends", lambda: not is_alive(hosts[1]))
