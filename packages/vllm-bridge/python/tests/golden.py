"""Reads the golden vectors that the TypeScript side writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvferry_vllm.handoff import Prompt

_PACKAGES = Path(__file__).resolve().parents[3]
_HOOK_SCRIPTS = _PACKAGES / "vllm-bridge" / "test" / "golden" / "hook-scripts.jsonl"
_PUSH_SCRIPTS = _PACKAGES / "vllm-bridge" / "test" / "golden" / "push-scripts.jsonl"
_XAVIER_SCRIPTS = _PACKAGES / "vllm-bridge" / "test" / "golden" / "xavier-scripts.jsonl"
_RETURNING_SCRIPTS = _PACKAGES / "vllm-bridge" / "test" / "golden" / "returning-scripts.jsonl"
_BLOCK_KEYS = _PACKAGES / "connector-api" / "test" / "vectors" / "block-keys.json"
_HANDOFFS = _PACKAGES / "connector-pull" / "test" / "golden" / "handoff.json"


def prompt_of(token_count: int, digest: str) -> Prompt:
    return Prompt(token_count, bytes.fromhex(digest))


def prompt_of_request(request: dict[str, Any]) -> Prompt:
    return prompt_of(request["prompt"], request["digest"])


def hook_scripts() -> list[dict[str, Any]]:
    """Of pull; each with its `requests` by id and its `calls` in order."""
    return _read_scripts(_HOOK_SCRIPTS)


def push_scripts() -> list[dict[str, Any]]:
    return _read_scripts(_PUSH_SCRIPTS)


def xavier_scripts() -> list[dict[str, Any]]:
    return _read_scripts(_XAVIER_SCRIPTS)


def returning_scripts() -> list[dict[str, Any]]:
    """Of xavier with a history: prompts that come back."""
    return _read_scripts(_RETURNING_SCRIPTS)


def block_keys() -> list[dict[str, Any]]:
    return json.loads(_BLOCK_KEYS.read_text(encoding="utf-8"))


def _read_scripts(file: Path) -> list[dict[str, Any]]:
    scripts: list[dict[str, Any]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "script" in record:
            scripts.append({**record["script"], "requests": {}, "calls": []})
        elif "request" in record:
            scripts[-1]["requests"][record["request"]] = record
        else:
            scripts[-1]["calls"].append(record)
    return scripts


def handoffs() -> dict[str, Any]:
    return json.loads(_HANDOFFS.read_text(encoding="utf-8"))
