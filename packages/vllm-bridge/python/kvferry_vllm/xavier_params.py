"""`kv_transfer_params` of the xavier connector: the ticket that a producer returns and a consumer claims.

They cross HTTP, so anybody may have written them: what is wrong is said before any token is promised. Pure.
It must decide exactly as `handoff.ts`, `ticket-maker.ts` and `rank-metadata.ts` of @kvferry/connector-xavier do;
golden vectors made by them check it.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass
from typing import Any, Mapping, Union

from .handoff import (
    HOST_SIZE_BYTES_MAX,
    ID_SIZE_BYTES_MAX,
    TP_SIZE_MAX,
    WIRE_VERSION,
    Malformed,
    NoTransfer,
    Produce,
    Prompt,
)
from .param_fields import U32_MAX, InvalidField, as_integer, flag, hex_bytes, integer, text

#: `xavierLimits` of connector-xavier.
TICKET_SIZE_BYTES = 16
TICKET_KEY_SIZE_BYTES = 32


@dataclass(frozen=True)
class TicketConsume:
    kind = "consume"


ParsedTicket = Union[NoTransfer, Produce, TicketConsume, Malformed]


class TicketMaker:
    """As the scheduler half makes them, in the order in which it hears of requests."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._count = 0

    def make(self, request_id: str) -> str:
        number = struct.pack("<Q", self._count)
        self._count += 1
        digest = hmac.new(self._key, number + request_id.encode("utf-8"), hashlib.sha256).digest()
        return digest[:TICKET_SIZE_BYTES].hex()


@dataclass(frozen=True)
class TicketRank:
    """What the rank's handshake metadata says, besides its address."""

    keeps_history: bool
    ticket_key: bytes


def decode_ticket_rank(encoded: bytes) -> TicketRank:
    """@raises ValueError for bytes of another version or form."""
    if len(encoded) < 3 or encoded[0] != 3:
        raise ValueError("handshake metadata of another version")
    (host_size,) = struct.unpack_from("<H", encoded, 1)
    if len(encoded) != 6 + host_size + TICKET_KEY_SIZE_BYTES:
        raise ValueError(f"handshake metadata of {len(encoded)} bytes")
    return TicketRank(encoded[5 + host_size] == 1, encoded[6 + host_size :])


def encode_ticket(*, engine_id: str, host: str, port: int, ticket: str, token_count: int) -> dict[str, Any]:
    return {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_engine_id": engine_id,
        "remote_host": host,
        "remote_port": port,
        "remote_ticket": ticket,
        "remote_num_tokens": token_count,
        "tp_size": 1,
        "transfer_mode": "ticket",
        "wire_version": WIRE_VERSION,
    }


def parse_ticket_params(
    params: Mapping[str, Any] | None, *, engine_id: str, prompt: Prompt
) -> ParsedTicket:
    """Never raises for what the params hold. Unknown keys are ignored: routers add their own."""
    if params is None:
        return NoTransfer()
    try:
        is_consumer = flag(params, "do_remote_prefill")
        is_producer = flag(params, "do_remote_decode")
        if is_consumer and is_producer:
            raise InvalidField("do_remote_decode")
        if is_producer:
            return Produce()
        if not is_consumer:
            return NoTransfer()
        _check_ticket(params, engine_id, prompt)
        return TicketConsume()
    except InvalidField as invalid:
        return Malformed(invalid.field)


def _check_ticket(params: Mapping[str, Any], engine_id: str, prompt: Prompt) -> None:
    if params.get("transfer_mode") != "ticket":
        raise InvalidField("transfer_mode")
    if as_integer(params.get("wire_version")) != WIRE_VERSION:
        raise InvalidField("wire_version")
    if integer(params, "tp_size", 1, TP_SIZE_MAX) != 1:
        raise InvalidField("tp_size")
    # An engine that waits for itself would wait for a step that its own wait holds up.
    if text(params, "remote_engine_id", ID_SIZE_BYTES_MAX) == engine_id:
        raise InvalidField("remote_engine_id")
    text(params, "remote_host", HOST_SIZE_BYTES_MAX)
    integer(params, "remote_port", 1, 65_535)
    hex_bytes(params, "remote_ticket", TICKET_SIZE_BYTES)
    if integer(params, "remote_num_tokens", 1, U32_MAX) != prompt.token_count:
        raise InvalidField("remote_num_tokens")
