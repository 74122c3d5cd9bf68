"""Runs scenarios against real vLLM, all without names. Last line: `N passed, N failed, N skipped`.

python run.py MODEL_DIR [--bars] [--seconds-max N] [SCENARIO…]   (with this package's `python` folder on PYTHONPATH; see scripts/vllm-test.mjs)
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Callable

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"

import scenarios_death as death  # noqa: E402
import scenarios_equal  # noqa: E402
import scenarios_preempted  # noqa: E402
import scenarios_push  # noqa: E402
import scenarios_push_death as push_death  # noqa: E402
import scenarios_servers  # noqa: E402
import scenarios_start  # noqa: E402
import scenarios_xavier  # noqa: E402
from checks import Checks, equal  # noqa: E402
from engines import Engine, Params  # noqa: E402
from fleet import Fleet  # noqa: E402
from push import PushEngine  # noqa: E402
from router import Oracle  # noqa: E402

#: In which the hooks' times are judged: nothing else may be started meanwhile.
JUDGED = ("equal", "xavier")
#: The pairs of engines that a scenario shares with others.
SHARED: dict[str, tuple[str, ...]] = {
    "equal": ("pull-32", "pull-128"),
    "malformed": ("pull-32",),
    "host-killed": ("pull-32",),
    "push": ("push-128", "push-32"),
    "mixed": ("pull-128", "push-128"),
}


class StartEngine:
    """Starts engines of one model; their logs lie in one folder."""

    def __init__(self, model: str, logs: Path, judge_bars: bool) -> None:
        self.model, self.logs, self.judge_bars = model, logs, judge_bars
        self.fleet = Fleet(self)
        #: On their way while other engines are tested: they start slowly.
        self.servers: scenarios_servers.Servers | None = None

    def __call__(self, name: str, connector: Params | None, **args: object) -> Engine:
        return Engine(name, self.model, self.logs, connector, **args)


def import_vllm() -> None:
    """Once, before the forks: everything that an engine of the tiny model needs."""
    started = time.monotonic()
    import vllm.model_executor.models.llama
    import vllm.v1.attention.backends.cpu_attn
    import vllm.v1.engine.llm_engine
    import vllm.v1.executor.uniproc_executor
    import vllm.v1.worker.cpu_worker  # noqa: F401

    print(f"vLLM imported in {time.monotonic() - started:.1f} s", file=sys.stderr)


def equal_texts(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    for block_size, transport in ((32, " over TCP"), (128, "")):
        pair = start.fleet.pull(block_size)
        about = f"pull, block size {block_size}{transport}"
        scenarios_equal.equal_texts(checks, *pair, about, oracle, start.judge_bars)
    scenarios_start.known_hooks(checks, *pair)


def malformed(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    scenarios_equal.malformed_params(checks, *start.fleet.pull(32), oracle)


def host_killed(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    """The last one to use these two: it ends them."""
    pair = start.fleet.pull(32)
    death.consumer_host_killed(checks, *pair, "recompute", oracle)
    death.nothing_is_left(checks, *pair)


def servers(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    assert start.servers is not None
    scenarios_servers.smoke(checks, start.servers, start.logs, oracle)


def push_servers(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    with scenarios_servers.servers_starting(start.model, start.logs, "push") as servers:
        scenarios_servers.smoke(checks, servers, start.logs, oracle)


def faults(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    def engine(name: str, role: str, policy: str, answer_ms: int = 60_000) -> Engine:
        """A stopped host of P's must live for as long as a test wants."""
        # Over TCP, UCX ends a producer's host when its reader dies in the middle: that is often here.
        bridge = {"answerTimeoutMs": answer_ms, "restartCountMax": 20}
        extra = {"options": {"leaseDurationMs": death.LEASE_MS}, "bridge": bridge}
        connector = dict(
            kv_role=role, kv_load_failure_policy=policy, kv_connector_extra_config=extra
        )
        return start(name, connector, env=death.TCP, block_size=32, enable_prefix_caching=False)

    producer = engine("fault-p", "kv_producer", "recompute")
    failing = engine("fault-d-fail", "kv_consumer", "fail")
    consumer = engine("fault-d", "kv_consumer", "recompute", answer_ms=4_000)
    try:
        for started in (producer, failing, consumer):
            started.wait_ready()
        scenarios_start.refused(checks, start)
        death.consumer_host_killed(checks, producer, consumer, "recompute", oracle)
        death.consumer_host_killed(checks, producer, failing, "fail", oracle)
        death.consumer_host_stopped(checks, producer, consumer, oracle)
        death.aborted_load(checks, producer, consumer)
        death.producer_host_killed(checks, producer, consumer, death.LEASE_MS / 1_000, oracle)
        death.nothing_is_left(checks, producer, consumer)
    finally:
        for started in (producer, failing, consumer):
            started.stop()


def push(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    for block_size, form in ((128, ""), (32, ", progressive")):
        pair = start.fleet.push(block_size)
        scenarios_push.equal_texts(checks, *pair, f"push, block size {block_size}{form}", oracle)


def mixed(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    scenarios_push.mixed_pair(checks, start.fleet.pull(128), start.fleet.push(128), oracle)


def xavier(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    scenarios_xavier.equal_texts(checks, start, oracle, start.judge_bars)
    scenarios_start.history_refused(checks, start)


def push_faults(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    def engine(name: str, role: str, policy: str) -> PushEngine:
        bridge = {"answerTimeoutMs": 60_000, "restartCountMax": 20}
        return PushEngine(
            start, name, role, policy=policy, bridge=bridge, options={"leaseDurationMs": death.LEASE_MS},
            env=death.TCP, block_size=32, enable_prefix_caching=False,
        )  # fmt: skip

    producer = engine("push-fault-p", "kv_producer", "recompute")
    consumer = engine("push-fault-d", "kv_consumer", "recompute")
    failing = engine("push-fault-d-fail", "kv_consumer", "fail")
    engines = [pair.engine for pair in (producer, consumer, failing)]
    try:
        for started in engines:
            started.wait_ready()
        for policy, pair in (("recompute", consumer), ("fail", failing)):
            push_death.consumer_host_killed(checks, producer, pair, policy, oracle)
            push_death.producer_host_killed(checks, producer, pair, policy, oracle)
        push_death.aborted_load(checks, producer, consumer)
        death.nothing_is_left(checks, producer.engine, consumer.engine)
    finally:
        for started in engines:
            started.stop()


def preempted(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    scenarios_preempted.while_written(checks, start, oracle)
    scenarios_preempted.while_others_load(checks, start, oracle)


#: In the order in which they run.
SCENARIOS: dict[str, Callable[[Checks, StartEngine, Oracle], None]] = {
    "equal": equal_texts,
    "malformed": malformed,
    "host-killed": host_killed,
    "xavier": xavier,
    "push": push,
    "mixed": mixed,
    "servers": servers,
    "push-servers": push_servers,
    "faults": faults,
    "push-faults": push_faults,
    "preempted": preempted,
}


def run_scenarios(checks: Checks, start: StartEngine, names: list[str]) -> None:
    alone = start("alone", None, block_size=32)
    try:
        alone.wait_ready()
        oracle = Oracle(alone)
        with ExitStack() as stack:
            for index, name in enumerate(names):
                later = names[index + 1 :]
                is_quiet_wanted = any(judged in JUDGED for judged in (name, *later))
                if "servers" in names and start.servers is None and not is_quiet_wanted:
                    starting = scenarios_servers.servers_starting(start.model, start.logs, "pull")
                    start.servers = stack.enter_context(starting)
                with checks.check(f"{name}: the engines start and end"):
                    SCENARIOS[name](checks, start, oracle)
                start.fleet.end_all_but(pair for each in later for pair in SHARED.get(each, ()))
    finally:
        start.fleet.end_all_but(())
        alone.stop()


def main() -> int:
    started = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("names", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--bars", action="store_true", help="judge times: on a machine that does nothing else")
    parser.add_argument("--seconds-max", type=float, help="one more check: all of it takes no longer")
    args = parser.parse_intermixed_args()
    unknown = [name for name in args.names if name not in SCENARIOS]
    if unknown:
        parser.error(f"no scenario {unknown[0]!r}; there are {', '.join(SCENARIOS)}")
    names = [name for name in SCENARIOS if name in args.names or not args.names]
    import_vllm()
    logs = Path(tempfile.mkdtemp(prefix="kvferry-vllm-"))
    files = set(os.listdir("/dev/shm"))
    checks = Checks()
    try:
        run_scenarios(checks, StartEngine(args.model, logs, args.bars), names)
    finally:
        shutil.rmtree(logs, ignore_errors=True)
    with checks.check("nothing is left in shared memory"):
        equal(set(os.listdir("/dev/shm")) - files, set(), "files")
    if args.seconds_max is not None:
        with checks.check(f"the scenarios take at most {args.seconds_max:.0f} s"):
            seconds = time.monotonic() - started
            if seconds > args.seconds_max:
                raise AssertionError(f"{seconds:.0f} s")
    print(checks.summary())
    return 0 if checks.failed == 0 else 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
