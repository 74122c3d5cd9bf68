"""Prompts that come back to a prefill engine that has dropped them: out of the history, into the same texts.

"Dropped" is vLLM's own reset of its prefix cache, on both engines, so that what D loads is what P restored. The
history's writer has a deadline of its own, so on a busy machine a prompt may have to come several times until all of
it is kept.
"""

from __future__ import annotations

import os
import signal

from checks import Checks, equal
from engines import Answer, Engine
from processes import is_alive
from router import OUTPUT_COUNT, PREFILL, Oracle, new_id, prompt_of
from scenarios_death import host_pid, restarted, stopped
from scenarios_equal import HOOK_P50_US_MAX, hook_times

BLOCK_SIZE = 32
#: Blocks of the device tier, far fewer than a long prompt has; the host tier has room for all.
DEVICE_BLOCKS = 16
BLOCK_BYTES = 4 * 2 * BLOCK_SIZE * 128 * 4
OPTIONS = {"gpuCacheBytes": DEVICE_BLOCKS * BLOCK_BYTES}
#: A prompt that comes so often and isn't kept never will be.
TURN_COUNT_MAX = 30


class Pair:
    def __init__(self, producer: Engine, consumer: Engine, oracle: Oracle) -> None:
        self.producer, self.consumer, self.oracle = producer, consumer, oracle
        self.engines = (producer, consumer)

    def forget(self) -> None:
        """As soon as no block is in use any more."""
        for engine in self.engines:
            engine.wait_until("blocks come back", lambda: engine.call("requests")["open"] == 0)
            engine.wait_until("the cache is dropped", lambda: engine.call("forget"))

    def serve(self, prompt: str) -> Answer:
        """P's answer; the text that D gives with it is right."""
        prefilled = self.producer.ask(new_id("p"), prompt, 1, dict(PREFILL))
        equal(self.decode(prompt, prefilled), self.oracle(prompt), f"text of {len(prompt)}")
        return prefilled

    def decode(self, prompt: str, prefilled: Answer) -> list[int]:
        return self.consumer.ask(new_id("d"), prompt, OUTPUT_COUNT, prefilled.params).tokens

    def keep(self, prompt: str) -> None:
        """Serves it until P computes nothing of it but its last token."""
        for _ in range(TURN_COUNT_MAX):
            self.forget()
            if self.serve(prompt).cached == len(prompt) - 1:
                self.forget()
                return
        raise AssertionError(f"not all of {len(prompt)} tokens are kept after {TURN_COUNT_MAX} turns")

    def counted(self, *names: str) -> tuple[int, ...]:
        counters = self.producer.call("describe")
        return tuple(counters.get(name, 0) for name in names)


def returning_prompts(
    checks: Checks, producer: Engine, consumer: Engine, oracle: Oracle, judge_bars: bool
) -> None:
    pair = Pair(producer, consumer, oracle)
    prompt = prompt_of(1400, seed=40)
    count = -(-(len(prompt) - 1) // BLOCK_SIZE)
    for engine in pair.engines:
        engine.call("hooks")
    with checks.check("a prompt that vLLM dropped comes back out of the history, and only its last token is computed", pair.engines):
        pair.forget()
        equal(pair.serve(prompt).cached, 0, "tokens that P did not compute the first time")
        pair.keep(prompt)
        names = ("historyHitBlocks", "historyDeviceHitBlocks", "historyHostHitBlocks", "historyLoadedRequests")
        before = pair.counted(*names)
        equal(pair.serve(prompt).cached, len(prompt) - 1, "tokens that P did not compute")
        hits, device, host, loaded = (now - then for now, then in zip(pair.counted(*names), before))
        equal((hits, device + host, loaded), (count, count, 1), "restored blocks, of both tiers, requests")
        if not 0 < device <= DEVICE_BLOCKS:
            raise AssertionError(f"{device} blocks out of the device tier of {DEVICE_BLOCKS}, {host} of the host's")
        print(f"restored {hits} blocks, {device} of the device tier (a second arena in host memory) and {host} of the host tier")
    with checks.check("what vLLM's own cache has is not restored", pair.engines):
        pair.forget()
        pair.serve(prompt[:160])
        (before,) = pair.counted("historyHitBlocks")
        equal(pair.serve(prompt).cached, len(prompt) - 1, "tokens that P did not compute")
        equal(pair.counted("historyHitBlocks"), (before + count - 160 // BLOCK_SIZE,), "restored blocks")
    with checks.check("several that come back at once, and others", pair.engines):
        prompts = [prompt_of(length, seed=41) for length in (33, 150, 321, 500)]
        for again in prompts:
            pair.keep(again)
        prompts += [prompt_of(200, seed=42), prompt[:700], "x"]
        (before,) = pair.counted("historyLoadedRequests")
        ids = [new_id("p") for _ in prompts]
        for request_id, again in zip(ids, prompts):
            producer.submit(request_id, again, 1, dict(PREFILL))
        for request_id, again in zip(ids, prompts):
            equal(pair.decode(again, producer.wait(request_id)), oracle(again), f"text of {len(again)}")
        if pair.counted("historyLoadedRequests")[0] - before < 5:
            raise AssertionError("fewer were restored than are kept")
    with checks.check("after a reset of all caches nothing that was kept is restored", pair.engines):
        pair.keep(prompts[1])
        producer.wait_until("all caches are dropped", lambda: producer.call("reset"))
        equal(pair.serve(prompts[1]).cached, 0, "tokens that P did not compute")
        pair.keep(prompts[1])
    with checks.check("the time of the hooks while prompts come back is measured", pair.engines):
        medians = hook_times(producer, consumer)
        if judge_bars:
            equal([p50 for p50 in medians if p50 > HOOK_P50_US_MAX], [], "medians above the limit")
    with checks.check("no hook failed, and shim and connector agreed on every answer", pair.engines):
        wrong = ("divergences", "hookFailures", "historyFailedLoads", "historyLeasesOpen")
        equal(pair.counted(*wrong), (0,) * len(wrong), f"{wrong}")


def wrong_byte(checks: Checks, producer: Engine, consumer: Engine, oracle: Oracle) -> None:
    with checks.check("control: one wrong byte in the history, and the text is another one", (producer, consumer)):
        pair = Pair(producer, consumer, oracle)
        prompt = prompt_of(500, seed=43)
        pair.keep(prompt)
        prefilled = producer.ask(new_id("p"), prompt, 1, dict(PREFILL))
        [held] = producer.call("blocks").values()
        found = producer.call("spoil", host_pid(producer), held[2])
        if found == 0:
            raise AssertionError("the history's copy of the block was not found")
        equal(pair.decode(prompt, prefilled), oracle(prompt), "text of P's own blocks")
        pair.forget()
        prefilled = producer.ask(new_id("p"), prompt, 1, dict(PREFILL))
        equal(prefilled.cached, len(prompt) - 1, "tokens that P did not compute")
        if pair.decode(prompt, prefilled) == oracle(prompt):
            raise AssertionError("the byte made no difference: the history was not read")


def faults(checks: Checks, producer: Engine, consumer: Engine, oracle: Oracle) -> None:
    pair = Pair(producer, consumer, oracle)
    prompt = prompt_of(700, seed=44)
    with checks.check("the host does not answer: vLLM waits no longer than the deadline, and computes", pair.engines):
        pair.keep(prompt)
        with stopped(host_pid(producer)):
            answer = producer.ask(new_id("p"), prompt, 1, dict(PREFILL))
        equal((answer.reason, answer.cached), ("length", 0), "reason, tokens that P did not compute")
        equal(pair.decode(prompt, answer), oracle(prompt), "text")
        equal(pair.counted("hostDeaths", "divergences"), (0, 0), "deaths, divergences")
        producer.wait_until("its reservation is given back", lambda: pair.counted("historyLeasesOpen") == (0,))
    for what in ("while it is asked", "in the middle of a restore"):
        with checks.check(f"kill -9 of P's host {what}: the prompt is computed, and the engine lives", pair.engines):
            pair.keep(prompt)
            host = host_pid(producer)
            deaths, failed = pair.counted("hostDeaths", "loadsFailedByHostDeath")
            request_id = new_id("p")
            if what == "while it is asked":
                os.kill(host, signal.SIGSTOP)
                producer.submit(request_id, prompt, 1, dict(PREFILL))
            else:
                producer.call("arm", host)
                producer.submit(request_id, prompt, 1, dict(PREFILL))
                producer.wait_until("a restore is open", lambda: producer.call("loading") == 1)
            os.kill(host, signal.SIGKILL)
            answer = producer.wait(request_id)
            equal(answer.reason, "length", "reason")
            equal(pair.decode(prompt, answer), oracle(prompt), "text")
            restarted(producer, host)
            equal(is_alive(host), False, "the host lives")
            lost = int(what != "while it is asked")
            equal(pair.counted("hostDeaths", "loadsFailedByHostDeath"), (deaths + 1, failed + lost), "deaths, loads")
    with checks.check("the new host's history begins empty, and keeps what comes then", pair.engines):
        pair.forget()
        equal(pair.serve(prompt).cached, 0, "tokens that P did not compute")
        pair.keep(prompt)
        equal(pair.counted("divergences", "hookFailures"), (0, 0), "divergences, hook failures")


def switched_off(checks: Checks, producer: Engine, consumer: Engine, oracle: Oracle) -> None:
    with checks.check("with gpuCacheBytes 0 a prompt that vLLM dropped is computed again", (producer, consumer)):
        pair = Pair(producer, consumer, oracle)
        prompt = prompt_of(500, seed=45)
        for _ in range(3):
            pair.forget()
            equal(pair.serve(prompt).cached, 0, "tokens that P did not compute")
        counted = [name for name in producer.call("describe") if name.startswith("history")]
        equal(counted, [], "counters of a history")
