"""The handoff (`kv_transfer_params`) as the pull connector defines it, mirrored for answers vLLM needs at once.

A producer returns it, a consumer gets it through a router, so anybody may have written it: `parse_params`
believes nothing, and says what is wrong before any token is promised to the scheduler. Pure; imports
neither vLLM nor torch. It must decide and sign exactly as `handoff.ts` and `handoff-signature.ts` of
@kvferry/connector-pull do; golden vectors made by those files check it.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import struct
from dataclasses import dataclass
from typing import Any, Mapping, Sequence, Union

WIRE_VERSION = 2
#: Bounds of connector-api (`limits`) and connector-pull (`pullLimits`), by the same meaning.
ID_SIZE_BYTES_MAX = 256
HOST_SIZE_BYTES_MAX = 255
BLOCKS_PER_POST_MAX = 65_536
TP_SIZE_MAX = 64
BLOCK_TOKENS_MAX = 65_536
SIGNATURE_SIZE_BYTES = 32
HANDOFF_KEY_SIZE_BYTES = 32
U32_MAX = 0xFFFF_FFFF


@dataclass(frozen=True)
class Remote:
    """The producer's side: where it is, and its own id of the request."""

    engine_id: str
    incarnation: str
    host: str
    port: int
    request_id: str


@dataclass(frozen=True)
class Handoff:
    """Every block of the prompt on the producer, in token order; the last one may be partial."""

    remote: Remote
    block_ids: tuple[int, ...]
    token_count: int
    block_tokens: int
    tp_size: int
    #: A reading of the producer's monotonic clock.
    lease_deadline_ms: float


@dataclass(frozen=True)
class RankMetadata:
    """What a rank's worker half returns from its registration: where the engine listens, and its key."""

    host: str
    port: int
    handoff_key: bytes


@dataclass(frozen=True)
class NoTransfer:
    kind = "none"


@dataclass(frozen=True)
class Produce:
    kind = "produce"


@dataclass(frozen=True)
class Consume:
    handoff: Handoff
    kind = "consume"


@dataclass(frozen=True)
class Malformed:
    """`field` is the first one that is wrong."""

    field: str
    kind = "malformed"


Parsed = Union[NoTransfer, Produce, Consume, Malformed]


_HEX = re.compile("[0-9a-f]*", re.ASCII)


class _Invalid(Exception):
    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def utf8_size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def parse_params(
    params: Mapping[str, Any] | None,
    *,
    engine_id: str,
    block_tokens: int,
    prompt_token_count: int,
    tp_size: int = 1,
) -> Parsed:
    """Never raises for what the params hold. Unknown keys are ignored: routers add their own."""
    if params is None:
        return NoTransfer()
    try:
        is_consumer = _flag(params, "do_remote_prefill")
        is_producer = _flag(params, "do_remote_decode")
        if is_consumer and is_producer:
            raise _Invalid("do_remote_decode")
        if is_producer:
            return Produce()
        if not is_consumer:
            return NoTransfer()
        handoff = _parse_handoff(params, engine_id, block_tokens, prompt_token_count, tp_size)
        return Consume(handoff)
    except _Invalid as invalid:
        return Malformed(invalid.field)


def encode_handoff(handoff: Handoff, keys: Sequence[bytes]) -> dict[str, Any]:
    """The params, signed with the key of each rank."""
    remote = handoff.remote
    return {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_engine_id": remote.engine_id,
        "remote_incarnation": remote.incarnation,
        "remote_request_id": remote.request_id,
        "remote_block_ids": [list(handoff.block_ids)],
        "remote_block_size": handoff.block_tokens,
        "remote_host": remote.host,
        "remote_port": remote.port,
        "remote_num_tokens": handoff.token_count,
        "remote_lease_deadline_ms": handoff.lease_deadline_ms,
        "remote_signature": sign_handoff(handoff, keys).hex(),
        "tp_size": handoff.tp_size,
        "transfer_mode": "pull",
        "wire_version": WIRE_VERSION,
    }


def sign_handoff(handoff: Handoff, keys: Sequence[bytes]) -> bytes:
    """One signature per key, one after the other."""
    claims = handoff_bytes(handoff)
    return b"".join(hmac.digest(key, claims, hashlib.sha256) for key in keys)


def handoff_bytes(handoff: Handoff) -> bytes:
    """What the signature covers; the form is documented in `handoff-signature.ts`."""
    remote = handoff.remote
    ids = handoff.block_ids
    return b"".join(
        (
            _string("kvferry.handoff"),
            struct.pack("<B", WIRE_VERSION),
            _string(remote.engine_id),
            _string(remote.incarnation),
            _string(remote.request_id),
            struct.pack("<IIHB", handoff.token_count, handoff.block_tokens, handoff.tp_size, 1),
            struct.pack(f"<I{len(ids)}I", len(ids), *ids),
            struct.pack("<d", handoff.lease_deadline_ms),
        )
    )


def decode_rank_metadata(encoded: bytes) -> RankMetadata:
    """@raises ValueError for bytes of another version or form."""
    if len(encoded) < 3 or encoded[0] != 2:
        raise ValueError("handshake metadata of another version")
    (host_size,) = struct.unpack_from("<H", encoded, 1)
    if len(encoded) != 5 + host_size + HANDOFF_KEY_SIZE_BYTES:
        raise ValueError(f"handshake metadata of {len(encoded)} bytes")
    host = encoded[3 : 3 + host_size].decode("utf-8")
    (port,) = struct.unpack_from("<H", encoded, 3 + host_size)
    return RankMetadata(host, port, encoded[5 + host_size :])


def _string(text: str) -> bytes:
    encoded = text.encode("utf-8")
    return struct.pack("<H", len(encoded)) + encoded


def _parse_handoff(
    params: Mapping[str, Any],
    engine_id: str,
    block_tokens: int,
    prompt_token_count: int,
    tp_size: int,
) -> Handoff:
    if params.get("transfer_mode") != "pull":
        raise _Invalid("transfer_mode")
    if _as_integer(params.get("wire_version")) != WIRE_VERSION:
        raise _Invalid("wire_version")
    if _integer(params, "tp_size", 1, TP_SIZE_MAX) != tp_size:
        raise _Invalid("tp_size")
    remote = Remote(
        engine_id=_text(params, "remote_engine_id", ID_SIZE_BYTES_MAX),
        incarnation=_text(params, "remote_incarnation", ID_SIZE_BYTES_MAX),
        host=_text(params, "remote_host", HOST_SIZE_BYTES_MAX),
        port=_integer(params, "remote_port", 1, 65_535),
        request_id=_text(params, "remote_request_id", ID_SIZE_BYTES_MAX),
    )
    # An engine that reads from itself would wait for a lease that its own step loop must release.
    if remote.engine_id == engine_id:
        raise _Invalid("remote_engine_id")
    token_count = _integer(params, "remote_num_tokens", 1, U32_MAX)
    if token_count != prompt_token_count:
        raise _Invalid("remote_num_tokens")
    remote_block_tokens = _integer(params, "remote_block_size", 1, BLOCK_TOKENS_MAX)
    # Blocks of one side must be whole numbers of the other's.
    if remote_block_tokens % block_tokens != 0 and block_tokens % remote_block_tokens != 0:
        raise _Invalid("remote_block_size")
    block_ids = _parse_block_ids(params.get("remote_block_ids"))
    if len(block_ids) != -(-token_count // remote_block_tokens):
        raise _Invalid("remote_block_ids")
    lease_deadline_ms = params.get("remote_lease_deadline_ms")
    if not _is_number(lease_deadline_ms) or not _is_finite(lease_deadline_ms):
        raise _Invalid("remote_lease_deadline_ms")
    if lease_deadline_ms <= 0:
        raise _Invalid("remote_lease_deadline_ms")
    signature = params.get("remote_signature")
    if not isinstance(signature, str) or len(signature) != 2 * tp_size * SIGNATURE_SIZE_BYTES:
        raise _Invalid("remote_signature")
    if not _HEX.fullmatch(signature):
        raise _Invalid("remote_signature")
    return Handoff(
        remote, block_ids, token_count, remote_block_tokens, tp_size, float(lease_deadline_ms)
    )


def _parse_block_ids(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], list):
        raise _Invalid("remote_block_ids")
    ids = [_as_integer(block_id) for block_id in value[0]]
    if not 0 < len(ids) <= BLOCKS_PER_POST_MAX:
        raise _Invalid("remote_block_ids")
    if any(block_id is None or not 0 <= block_id <= U32_MAX for block_id in ids):
        raise _Invalid("remote_block_ids")
    if len(set(ids)) != len(ids):
        raise _Invalid("remote_block_ids")
    return tuple(ids)  # type: ignore[arg-type]


def _flag(params: Mapping[str, Any], field: str) -> bool:
    value = params.get(field)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise _Invalid(field)
    return value


def _text(params: Mapping[str, Any], field: str, size_max: int) -> str:
    value = params.get(field)
    if not isinstance(value, str) or value == "" or utf8_size(value) > size_max:
        raise _Invalid(field)
    return value


def _integer(params: Mapping[str, Any], field: str, minimum: int, maximum: int) -> int:
    value = _as_integer(params.get(field))
    if value is None or not minimum <= value <= maximum:
        raise _Invalid(field)
    return value


def _is_number(value: Any) -> bool:
    """JSON has one kind of number; Python's `bool` is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_finite(value: int | float) -> bool:
    """An integer beyond the range of a double is infinite for the other reader of this JSON."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _as_integer(value: Any) -> int | None:
    """`5.0` and `5` are the same number in JSON."""
    if not _is_number(value) or not _is_finite(value) or value != int(value):
        return None
    return int(value)
