"""Runs every scenario against real vLLM. Last line: `N passed, N failed, N skipped`.

python run.py MODEL_DIR   (with this package's `python` folder on PYTHONPATH; see scripts/vllm-test.mjs)
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"

from checks import Checks  # noqa: E402
from engines import Engine, Params  # noqa: E402

LEASE_MS = 3_000
BLOCK_SIZES = [int(size) for size in os.environ.get("KVFERRY_TEST_BLOCK_SIZES", "32,128").split(",")]


def import_vllm() -> None:
    """Once, before the forks: everything that an engine of the tiny model needs."""
    started = time.monotonic()
    import vllm.model_executor.models.llama
    import vllm.v1.attention.backends.cpu_attn
    import vllm.v1.engine.llm_engine
    import vllm.v1.executor.uniproc_executor
    import vllm.v1.worker.cpu_worker  # noqa: F401

    print(f"vLLM imported in {time.monotonic() - started:.1f} s", file=sys.stderr)


def with_faults(checks: Checks, model: str, logs: Path, expected: dict[str, list[int]]) -> None:
    import scenarios_death as death
    import scenarios_equal

    files = set(os.listdir("/dev/shm"))
    os.environ["UCX_TLS"] = "tcp"
    def start(name: str, role: str, policy: str, answer_ms: int = 60_000) -> Engine:
        """A stopped host of P's must live for as long as a test wants."""
        # Over TCP, UCX ends a producer's host when its reader dies in the middle: that is often here.
        bridge = {"answerTimeoutMs": answer_ms, "restartCountMax": 20}
        extra = {"options": {"leaseDurationMs": LEASE_MS}, "bridge": bridge}
        connector = dict(
            kv_role=role, kv_load_failure_policy=policy, kv_connector_extra_config=extra
        )
        return Engine(name, model, logs, connector, block_size=32, enable_prefix_caching=False)

    producer = start("fault-p", "kv_producer", "recompute")
    failing = start("fault-d-fail", "kv_consumer", "fail")
    consumer = start("fault-d", "kv_consumer", "recompute", answer_ms=4_000)
    try:
        for engine in (producer, failing, consumer):
            engine.wait_ready()
        scenarios_equal.malformed_params(checks, producer, consumer, expected)
        death.consumer_host_killed(checks, producer, consumer, "recompute", expected)
        death.consumer_host_killed(checks, producer, failing, "fail", expected)
        death.consumer_host_stopped(checks, producer, consumer)
        death.aborted_load(checks, producer, consumer)
        death.producer_host_killed(checks, producer, consumer, LEASE_MS / 1_000, expected)
        death.nothing_is_left(checks, producer, consumer, files)
    finally:
        for engine in (producer, failing, consumer):
            engine.stop()


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    import_vllm()
    import scenarios_equal
    import scenarios_processes

    model = sys.argv[1]
    logs = Path(tempfile.mkdtemp(prefix="kvferry-vllm-"))
    checks = Checks()
    expected: dict[str, list[int]] = {}
    try:
        for block_size in BLOCK_SIZES:

            def start(name: str, connector: Params | None, **args: object) -> Engine:
                return Engine(f"{name}-{block_size}", model, logs, connector, **args)

            with checks.check(f"block size {block_size}: the engines start and end"):
                scenarios_equal.equal_texts(checks, start, block_size, expected)
        with checks.check("the engines of several processes start and end"):

            def start_processes(name: str, connector: Params, **args: object) -> Engine:
                return Engine(name, model, logs, connector, **args)

            scenarios_processes.two_processes(checks, start_processes, expected)
        with checks.check("the engines with faults start and end"):
            with_faults(checks, model, logs, expected)
    finally:
        shutil.rmtree(logs, ignore_errors=True)
    print(checks.summary())
    return 0 if checks.failed == 0 else 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
