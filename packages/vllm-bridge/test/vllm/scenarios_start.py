"""What vLLM makes of the connector at its start, and engines that must not start."""

from __future__ import annotations

from typing import Callable

from checks import Checks, equal
from engines import Engine, Params


def known_hooks(checks: Checks, producer: Engine, consumer: Engine) -> None:
    with checks.check("every hook of ours is one that this vLLM calls", (producer,)):
        for engine in (producer, consumer):
            equal(engine.call("unknown_hooks"), ["describe"], f"public methods that {engine.name} never calls")


def refused(checks: Checks, start: Callable[..., Engine]) -> None:
    with checks.check("a configuration that the host refuses: the engine doesn't start, and says why"):
        extra = {"sidechannel": {"port": 5600}}
        connector = {"kv_role": "kv_both", "kv_connector_extra_config": extra}
        _does_not_start(start, connector, "ERR_KV_CONFIG", "sidechannel", "did you mean sideChannel")


def history_refused(checks: Checks, start: Callable[..., Engine]) -> None:
    with checks.check("a history where failed loads fail their requests: the engine doesn't start, and says why"):
        connector = {
            "kv_role": "kv_producer", "kv_load_failure_policy": "fail",
            "kv_connector_extra_config": {"connector": "xavier"},
        }  # fmt: skip
        said = ("ERR_KV_CONFIG", "kv_load_failure_policy", "fail", "use recompute, or options.gpuCacheBytes: 0")
        _does_not_start(start, connector, *said)


def _does_not_start(start: Callable[..., Engine], connector: Params, *parts: str) -> None:
    engine = start("refused", connector, block_size=32)
    try:
        engine.wait_ready()
    except RuntimeError as error:
        for part in parts:
            if part not in str(error):
                raise AssertionError(f"no {part!r} in {error}") from error
    else:
        raise AssertionError("it started")
    finally:
        engine.stop()
