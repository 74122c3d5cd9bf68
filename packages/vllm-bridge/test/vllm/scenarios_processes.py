"""The form in which vLLM serves: scheduler half and worker half in two processes, steps and news pickled.

And an engine that must not start.
"""

from __future__ import annotations

import time
from typing import Callable

from checks import Checks, equal
from engines import Engine
from processes import hosts_under, is_alive
from router import Oracle, disaggregated, prompt_of

LENGTHS = (20, 321, 1400)
#: In this form vLLM's processes spin while they wait. On two cores they keep everyone else waiting, for seconds at
#: times: so deadlines are long, and a load that misses one all the same is computed instead.
PATIENT = {
    "kv_role": "kv_both",
    "kv_load_failure_policy": "recompute",
    "kv_connector_extra_config": {
        "options": {"handshakeTimeoutMs": 40_000},
        "bridge": {"answerTimeoutMs": 60_000},
    },
}


def two_processes(checks: Checks, start: Callable[..., Engine], oracle: Oracle) -> None:
    """One engine in this form (each of its processes imports vLLM anew), as producer and as consumer."""
    apart = start("apart", dict(PATIENT), in_process=False, block_size=32)
    other = start("other", dict(PATIENT), block_size=32)
    engines = (apart, other)
    try:
        for engine in engines:
            engine.wait_ready()
        for producer, consumer in (engines, engines[::-1]):
            for length in LENGTHS:
                prompt = prompt_of(length)
                about = f"halves in two processes: from {producer.name} to {consumer.name}, {length} tokens"
                with checks.check(about, engines):
                    answer = disaggregated(producer, consumer, prompt)
                    equal(answer.tokens, oracle(prompt), "tokens")
        with checks.check("halves in two processes: its host ends with it", engines):
            hosts = hosts_under(apart.pid)
            equal(len(hosts), 1, "hosts")
            done = other.call("describe")["loadsDone"]
            if done < 1:
                raise AssertionError(f"the other engine loaded nothing: {done} loads of {len(LENGTHS)}")
            equal(apart.stop(), 0, "exit status")
            deadline = time.monotonic() + 10
            while is_alive(hosts[0]) and time.monotonic() < deadline:
                time.sleep(0.05)
            equal(is_alive(hosts[0]), False, "the host lives")
    finally:
        for engine in engines:
            engine.stop()


def refused_at_start(checks: Checks, start: Callable[..., Engine]) -> None:
    with checks.check("a configuration that the host refuses: the engine doesn't start, and says why"):
        extra = {"sidechannel": {"port": 5600}}
        connector = {"kv_role": "kv_both", "kv_connector_extra_config": extra}
        engine = start("refused", connector, block_size=32)
        try:
            engine.wait_ready()
        except RuntimeError as error:
            for part in ("ERR_KV_CONFIG", "sidechannel", "did you mean sideChannel"):
                if part not in str(error):
                    raise AssertionError(f"no {part!r} in {error}") from error
        else:
            raise AssertionError("it started")
        finally:
            engine.stop()
