"""From vLLM's configuration to what the host process is told at its start.

`kv_connector_extra_config` is KVFerry's own configuration object (`kvferry.yaml`), which the host validates,
plus one key of the shim's, `bridge`. What vLLM knows already is taken from vLLM; saying something else
in the extra config is an error, never a silent choice. Called once per half, at its creation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping

from .host_keeper import Supervision

if TYPE_CHECKING:
    from vllm.config import VllmConfig

#: Keys of `bridge` in milliseconds, with the names of Supervision's fields.
_TIMEOUT_KEYS = {"startTimeoutMs": "start", "answerTimeoutMs": "answer", "loadTimeoutMs": "load"}
_BRIDGE_KEYS = (*_TIMEOUT_KEYS, "restartCountMax", "modelName", "logLevel")
_ROLES = {"kv_producer": "producer", "kv_consumer": "consumer", "kv_both": "both"}


@dataclass(frozen=True)
class Settings:
    engine_id: str
    #: The object that the host's `parseConfig` reads.
    config: dict[str, Any]
    model_name: str
    log_level: str
    supervision: Supervision


def read_settings(vllm_config: VllmConfig) -> Settings:
    """@raises ValueError naming what is wrong, what it is, and what to write."""
    transfer = vllm_config.kv_transfer_config
    assert transfer is not None
    refuse_unsupported(vllm_config)
    extra = dict(transfer.kv_connector_extra_config)
    bridge = extra.pop("bridge", {})
    unknown = [key for key in bridge if key not in _BRIDGE_KEYS]
    if unknown:
        known = ", ".join(_BRIDGE_KEYS)
        raise ValueError(f"kv_connector_extra_config.bridge.{unknown[0]}: unknown key; known: {known}")
    engine_id = str(extra.pop("engineId", transfer.engine_id))
    _agree(extra, "role", _ROLES.get(str(transfer.kv_role), "both"), "kv_role")
    _agree(extra, "loadFailurePolicy", transfer.kv_load_failure_policy, "kv_load_failure_policy")
    supervision = {name: bridge[key] / 1_000 for key, name in _TIMEOUT_KEYS.items() if key in bridge}
    if "restartCountMax" in bridge:
        supervision["restart_count_max"] = int(bridge["restartCountMax"])
    return Settings(
        engine_id=engine_id,
        # Which connectors there are, and their options, is the host's business: it names what is wrong.
        config={"connector": "pull", "engineId": engine_id, **extra},
        model_name=str(bridge.get("modelName", _model_name(vllm_config.model_config))),
        log_level=str(bridge.get("logLevel", "warn")),
        supervision=Supervision(**supervision),
    )


def _model_name(model_config: Any) -> str:
    """With the revision that was asked for: weights of two revisions give KV that doesn't fit together."""
    revision = getattr(model_config, "revision", None)
    return f"{model_config.model}@{revision}" if revision else str(model_config.model)


def refuse_unsupported(vllm_config: VllmConfig) -> None:
    """@raises ValueError for what this bridge does not do, before anything is allocated."""
    parallel = vllm_config.parallel_config
    if parallel.world_size > 1:
        raise ValueError(
            f"ERR_KV_UNSUPPORTED: KVFerry's vLLM bridge serves one rank per engine, not "
            f"{parallel.world_size} (tensor or pipeline parallel)"
        )


def _agree(extra: dict[str, Any], key: str, value: str, vllm_key: str) -> None:
    said = extra.get(key, value)
    said = _ROLES.get(str(said), said)
    if said != value:
        raise ValueError(
            f"kv_connector_extra_config.{key} is {said!r}, but vLLM's {vllm_key} says {value!r}; "
            f"set only {vllm_key}"
        )
    extra[key] = value


def start_message(settings: Settings, caches: Mapping[str, Any]) -> dict[str, Any]:
    """The first message to a host. `caches` is as kv_layout.py made it."""
    return {
        "t": "start",
        "protocol": 4,
        "config": settings.config,
        "logLevel": settings.log_level,
        "caches": {"model": settings.model_name, **caches},
    }
