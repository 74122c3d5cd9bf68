"""An engine that must not start."""

from __future__ import annotations

from typing import Callable

from checks import Checks
from engines import Engine


def refused(checks: Checks, start: Callable[..., Engine]) -> None:
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
