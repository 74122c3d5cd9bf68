"""`kv_transfer_params` of the push connector, which a router writes for both engines of a transfer at once.

They cross HTTP, so anybody may have written them: what is wrong is said before any token is promised. Pure.
It must decide exactly as `params.ts` of @kvferry/connector-push does; golden vectors made by it check it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Union

from .handoff import HOST_SIZE_BYTES_MAX, ID_SIZE_BYTES_MAX, TP_SIZE_MAX, Malformed, NoTransfer
from .param_fields import InvalidField, flag, integer, text


@dataclass(frozen=True)
class PushProduce:
    transfer_id: str
    kind = "produce"


@dataclass(frozen=True)
class PushConsume:
    transfer_id: str
    kind = "consume"


ParsedPush = Union[NoTransfer, PushProduce, PushConsume, Malformed]


def parse_push_params(params: Mapping[str, Any] | None, *, engine_id: str) -> ParsedPush:
    """Never raises for what the params hold. Unknown keys are ignored: routers add their own."""
    if params is None:
        return NoTransfer()
    try:
        is_consumer = flag(params, "do_remote_prefill")
        is_producer = flag(params, "do_remote_decode")
        if is_consumer and is_producer:
            raise InvalidField("do_remote_decode")
        if not is_consumer and not is_producer:
            return NoTransfer()
        transfer_id = text(params, "transfer_id", ID_SIZE_BYTES_MAX)
        if is_producer:
            return PushProduce(transfer_id)
        _check_producer(params, engine_id)
        return PushConsume(transfer_id)
    except InvalidField as invalid:
        return Malformed(invalid.field)


def _check_producer(params: Mapping[str, Any], engine_id: str) -> None:
    # An engine that waits for itself would wait for a step that its own wait holds up.
    if text(params, "remote_engine_id", ID_SIZE_BYTES_MAX) == engine_id:
        raise InvalidField("remote_engine_id")
    pp_size = params.get("pp_size")
    if pp_size is not None and (isinstance(pp_size, bool) or pp_size != 1):
        raise InvalidField("pp_size")
    text(params, "remote_host", HOST_SIZE_BYTES_MAX)
    integer(params, "remote_port", 1, 65_535)
    integer(params, "tp_size", 1, TP_SIZE_MAX)
