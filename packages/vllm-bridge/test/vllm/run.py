"""Runs every scenario against real vLLM. Last line: `N passed, N failed, N skipped`.

python run.py MODEL_DIR [--bars] [equal] [push] [xavier] [servers] [push-servers] [faults] [push-faults]   (with this package's `python` folder on PYTHONPATH; see scripts/vllm-test.mjs)
`--bars` judges times too: on a machine that does nothing else.
"""

from __future__ import annotations

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
import scenarios_push  # noqa: E402
import scenarios_push_death as push_death  # noqa: E402
import scenarios_servers  # noqa: E402
import scenarios_start  # noqa: E402
import scenarios_xavier  # noqa: E402
from checks import Checks  # noqa: E402
from engines import Engine, Params  # noqa: E402
from push import PushEngine  # noqa: E402
from router import Oracle  # noqa: E402

#: One check waits for its end; the others must get their READs done before it, also on a busy machine.
LEASE_MS = 8_000


class StartEngine:
    """Starts engines of one model; their logs lie in one folder."""

    def __init__(self, model: str, logs: Path, judge_bars: bool) -> None:
        self.model, self.logs, self.judge_bars = model, logs, judge_bars
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
    for block_size in (32, 128):
        scenarios_equal.equal_texts(checks, start, block_size, oracle, start.judge_bars)


def servers(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    assert start.servers is not None
    scenarios_servers.smoke(checks, start.servers, start.logs, oracle)


def push_servers(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    with scenarios_servers.servers_starting(start.model, start.logs, "push") as servers:
        scenarios_servers.smoke(checks, servers, start.logs, oracle)


def faults(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    files = set(os.listdir("/dev/shm"))
    os.environ["UCX_TLS"] = "tcp"

    def engine(name: str, role: str, policy: str, answer_ms: int = 60_000) -> Engine:
        """A stopped host of P's must live for as long as a test wants."""
        # Over TCP, UCX ends a producer's host when its reader dies in the middle: that is often here.
        bridge = {"answerTimeoutMs": answer_ms, "restartCountMax": 20}
        extra = {"options": {"leaseDurationMs": LEASE_MS}, "bridge": bridge}
        connector = dict(
            kv_role=role, kv_load_failure_policy=policy, kv_connector_extra_config=extra
        )
        return start(name, connector, block_size=32, enable_prefix_caching=False)

    producer = engine("fault-p", "kv_producer", "recompute")
    failing = engine("fault-d-fail", "kv_consumer", "fail")
    consumer = engine("fault-d", "kv_consumer", "recompute", answer_ms=4_000)
    try:
        for started in (producer, failing, consumer):
            started.wait_ready()
        scenarios_equal.malformed_params(checks, producer, consumer, oracle)
        scenarios_start.refused(checks, start)
        death.consumer_host_killed(checks, producer, consumer, "recompute", oracle)
        death.consumer_host_killed(checks, producer, failing, "fail", oracle)
        death.consumer_host_stopped(checks, producer, consumer, oracle)
        death.aborted_load(checks, producer, consumer)
        death.producer_host_killed(checks, producer, consumer, LEASE_MS / 1_000, oracle)
        death.nothing_is_left(checks, producer, consumer, files)
    finally:
        for started in (producer, failing, consumer):
            started.stop()


def push(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    scenarios_push.equal_texts(checks, start, oracle)


def xavier(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    scenarios_xavier.equal_texts(checks, start, oracle, start.judge_bars)
    scenarios_start.history_refused(checks, start)


def push_faults(checks: Checks, start: StartEngine, oracle: Oracle) -> None:
    files = set(os.listdir("/dev/shm"))
    os.environ["UCX_TLS"] = "tcp"

    def engine(name: str, role: str, policy: str) -> PushEngine:
        bridge = {"answerTimeoutMs": 60_000, "restartCountMax": 20}
        return PushEngine(
            start, name, role, policy=policy, bridge=bridge, options={"leaseDurationMs": LEASE_MS},
            block_size=32, enable_prefix_caching=False,
        )  # fmt: skip

    producer = engine("push-fault-p", "kv_producer", "recompute")
    consumer = engine("push-fault-d", "kv_consumer", "recompute")
    failing = engine("push-fault-d-fail", "kv_consumer", "fail")
    puller = start("mixed", {"kv_role": "kv_both"}, block_size=32)
    engines = [*(pair.engine for pair in (producer, consumer, failing)), puller]
    try:
        for started in engines:
            started.wait_ready()
        scenarios_push.mixed_pair(checks, puller, consumer, oracle)
        puller.stop()
        for policy, pair in (("recompute", consumer), ("fail", failing)):
            push_death.consumer_host_killed(checks, producer, pair, policy, oracle)
            push_death.producer_host_killed(checks, producer, pair, policy, oracle)
        push_death.aborted_load(checks, producer, consumer)
        death.nothing_is_left(checks, producer.engine, consumer.engine, files)
    finally:
        for started in engines:
            started.stop()


SCENARIOS: dict[str, Callable[[Checks, StartEngine, Oracle], None]] = {
    "equal": equal_texts,
    "push": push,
    "xavier": xavier,
    "servers": servers,
    "push-servers": push_servers,
    "faults": faults,
    "push-faults": push_faults,
}


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    import_vllm()
    model, *rest = sys.argv[1:]
    names = [arg for arg in rest if arg != "--bars"] or list(SCENARIOS)
    logs = Path(tempfile.mkdtemp(prefix="kvferry-vllm-"))
    checks = Checks()

    start = StartEngine(model, logs, "--bars" in rest)
    try:
        alone = start("alone", None, block_size=32)
        try:
            alone.wait_ready()
            oracle = Oracle(alone)
            with ExitStack() as stack:
                for name in names:
                    # Not earlier: they would be in the way of the hooks' times.
                    if name != "equal" and "servers" in names and start.servers is None:
                        starting = scenarios_servers.servers_starting(model, logs, "pull")
                        start.servers = stack.enter_context(starting)
                    with checks.check(f"{name}: the engines start and end"):
                        SCENARIOS[name](checks, start, oracle)
        finally:
            alone.stop()
    finally:
        shutil.rmtree(logs, ignore_errors=True)
    print(checks.summary())
    return 0 if checks.failed == 0 else 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
