"""The form that users run: two vLLM servers behind the router. One smoke test for each connector, with generous
deadlines.

Here scheduler half and worker half live in two processes, steps and news are pickled between them, and
vLLM's processes spin while they wait. On two cores they keep everyone else waiting, for seconds at times:
so deadlines are long, and a load that misses one all the same is computed instead.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from checks import Checks, equal
from engines import Params
from processes import hosts_under, is_alive
from router import OUTPUT_COUNT, Oracle, prompt_of
from servers import Router, Server, answer_of

LENGTHS = (20, 150, 321, 1000, 1400)
PATIENT: Params = {
    "options": {"handshakeTimeoutMs": 40_000},
    "bridge": {"answerTimeoutMs": 60_000},
}


@dataclass(frozen=True)
class Servers:
    connector: str
    prefill: Server
    decode: Server
    #: What was in shared memory before they started.
    files: set[str]


@contextmanager
def servers_starting(model: str, logs: Path, connector: str) -> Iterator[Servers]:
    """Both start while the body runs, and are gone after it, whatever happened."""
    started: list[Server] = []
    files = set(os.listdir("/dev/shm"))
    try:
        for name, role in (("p0", "kv_producer"), ("d0", "kv_consumer")):
            config = {**PATIENT, "connector": connector}
            started.append(Server(f"{connector}-{name}", model, logs, role, config))
        yield Servers(connector, started[0], started[1], files)
    finally:
        for server in started:
            server.kill()


def smoke(checks: Checks, given: Servers, logs: Path, oracle: Oracle) -> None:
    servers = prefill, decode = given.prefill, given.decode
    about = f"two servers, {given.connector}"
    with checks.check(f"{about}: they start", servers):
        for server in servers:
            server.wait_healthy()
    router = Router(logs, prefill, decode, given.connector)
    programs = (*servers, router)
    try:
        for length in LENGTHS:
            with checks.check(f"{about}, and the router: {length} tokens", programs):
                prompt = prompt_of(length, seed=7)
                equal(answer_of(router, prompt, OUTPUT_COUNT), oracle(prompt), "tokens")
        with checks.check(f"{about}: KV was moved, and /metrics says so", programs):
            ended = decode.counter("loads") + decode.counter("loads_failed")
            equal(ended, len(LENGTHS), "loads that ended")
            _expect_more(decode, "loads", 0)
            _expect_more(decode, "loaded_bytes", 1_000_000)
        with checks.check(f"{about}: a host that died while the engine was idle comes back", programs):
            _host_comes_back(router, decode, oracle)
        with checks.check(f"{about}: the router asks each once whether it can describe itself", programs):
            for server in servers:
                asked = server.log.read_text(errors="replace").count("/kvferry/v1/peer")
                equal(asked, 1, f"lines of {server.name}'s log")
        with checks.check(f"{about}: they end in order, and nothing is left", programs):
            _end(router, servers)
            _nothing_is_left(given.files)
    finally:
        router.kill()


def _expect_more(server: Server, counter: str, least: int) -> None:
    count = server.counter(counter)
    if count <= least:
        raise AssertionError(f"{counter} of {server.name} is {count}, not more than {least}")


def _host_comes_back(router: Router, decode: Server, oracle: Oracle) -> None:
    [host] = hosts_under(decode.pid)
    os.kill(host, 9)
    loads = decode.counter("loads")
    deadline = time.monotonic() + 60
    seed = 8
    while decode.counter("loads") == loads:
        if time.monotonic() > deadline:
            raise TimeoutError("no load has ended since the host died")
        prompt = prompt_of(200, seed)
        equal(answer_of(router, prompt, OUTPUT_COUNT), oracle(prompt), f"tokens of prompt {seed}")
        seed += 1
    equal(decode.counter("host_deaths"), 1, "deaths")


def _end(router: Router, servers: tuple[Server, Server]) -> None:
    hosts = [pid for server in servers for pid in hosts_under(server.pid)]
    equal(len(hosts), 2, "hosts")
    equal(router.stop(), 0, "exit status of the router")
    for server in servers:
        status = server.stop()
        if status is None:
            raise AssertionError(f"{server.name} did not end")
    deadline = time.monotonic() + 60
    while any(map(is_alive, hosts)) and time.monotonic() < deadline:
        time.sleep(0.05)
    equal([pid for pid in hosts if is_alive(pid)], [], "hosts that live")


def _nothing_is_left(before: set[str]) -> None:
    """What a process of vLLM's leaves when its parent kills it, Python's resource tracker removes a moment later."""
    deadline = time.monotonic() + 60
    while set(os.listdir("/dev/shm")) - before and time.monotonic() < deadline:
        time.sleep(0.05)
    equal(set(os.listdir("/dev/shm")) - before, set(), "files in shared memory")
