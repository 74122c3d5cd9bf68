"""The `kv_transfer_params` of a request as they came: whether they concern us, and as text for the host.

Whoever reaches the engine wrote them, so anything may be in them. Used by scheduler_half.py.
"""

from __future__ import annotations

import json
from typing import Any, Mapping

from .limits import PARAMS_SIZE_BYTES_MAX

#: Stands for params that can't be JSON: every reader refuses it as malformed.
UNREADABLE_PARAMS: Mapping[str, Any] = {"do_remote_prefill": "unreadable"}
UNREADABLE_PARAMS_TEXT = json.dumps(UNREADABLE_PARAMS)


def names_a_side(params: Mapping[str, Any]) -> bool:
    """False for the params of requests without a transfer; they are no business of ours."""
    return bool(params.get("do_remote_prefill")) or bool(params.get("do_remote_decode"))


def params_text(params: Mapping[str, Any]) -> str | None:
    """The params as ASCII, so that whatever a client sent can be passed on; None: the host couldn't read them."""
    try:
        text = json.dumps(params, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
    return text if len(text) <= PARAMS_SIZE_BYTES_MAX else None
