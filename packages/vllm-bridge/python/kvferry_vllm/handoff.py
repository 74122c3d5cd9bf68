"""The handoff (`kv_transfer_params`) as the pull connector defines it, mirrored for answers vLLM needs at once.

A producer returns it, a consumer gets it through a router, so anybody may have written it: `parse_params`
believes nothing, and says what is wrong before any token is promised to the scheduler. Pure; imports
neither vLLM nor torch. It must decide and sign exactly as `handoff.ts` and `handoff-signature.ts` of
@kvferry/connector-pull do; golden vectors made by those files check it.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass
from typing import Any, Mapping, Sequence, Union

from .param_fields import (
    U32_MAX,
    InvalidField,
    as_integer,
    block_id_list,
    flag,
    hex_bytes,
    instant_ms,
    integer,
    text,
)

WIRE_VERSION = 4
#: Bounds of connector-api (`limits`) and connector-pull (`pullLimits`), by the same meaning.
ID_SIZE_BYTES_MAX = 256
HOST_SIZE_BYTES_MAX = 255
TP_SIZE_MAX = 64
BLOCK_TOKENS_MAX = 65_536
SIGNATURE_SIZE_BYTES = 32
HANDOFF_KEY_SIZE_BYTES = 32
PROMPT_DIGEST_SIZE_BYTES = 32


@dataclass(frozen=True)
class Remote:
    """The producer's side: where it is, and its own id of the request."""

    engine_id: str
    incarnation: str
    host: str
    port: int
    request_id: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What tells one prompt from another: its length, and `digest_tokens` of its token ids."""

    token_count: int
    digest: bytes
    #: Name of its first block's KV, where the connector keeps a history (block_keys.py); empty: it has none.
    first_key: bytes = b""


@dataclass(frozen=True)
class Handoff:
    """Every block of the prompt on the producer, in token order; the last one may be partial."""

    remote: Remote
    block_ids: tuple[int, ...]
    prompt: Prompt
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


def digest_tokens(tokens: Sequence[int]) -> bytes:
    """SHA-256 over the token ids, each a little-endian u32: `digestTokens` of connector-api."""
    return hashlib.sha256(struct.pack(f"<{len(tokens)}I", *tokens)).digest()


def parse_params(
    params: Mapping[str, Any] | None,
    *,
    engine_id: str,
    block_tokens: int,
    prompt: Prompt,
    tp_size: int = 1,
) -> Parsed:
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
        handoff = _parse_handoff(params, engine_id, block_tokens, prompt, tp_size)
        return Consume(handoff)
    except InvalidField as invalid:
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
        "remote_num_tokens": handoff.prompt.token_count,
        "remote_prompt_digest": handoff.prompt.digest.hex(),
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
    remote, prompt = handoff.remote, handoff.prompt
    ids = handoff.block_ids
    return b"".join(
        (
            _string("kvferry.handoff"),
            struct.pack("<B", WIRE_VERSION),
            _string(remote.engine_id),
            _string(remote.incarnation),
            _string(remote.request_id),
            struct.pack("<IIHB", prompt.token_count, handoff.block_tokens, handoff.tp_size, 1),
            struct.pack(f"<I{len(ids)}I", len(ids), *ids),
            struct.pack("<d", handoff.lease_deadline_ms),
            prompt.digest,
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
    prompt: Prompt,
    tp_size: int,
) -> Handoff:
    if params.get("transfer_mode") != "pull":
        raise InvalidField("transfer_mode")
    if as_integer(params.get("wire_version")) != WIRE_VERSION:
        raise InvalidField("wire_version")
    remote_tp_size = integer(params, "tp_size", 1, TP_SIZE_MAX)
    # Whole numbers of one side's ranks must make one of the other's.
    if remote_tp_size % tp_size != 0 and tp_size % remote_tp_size != 0:
        raise InvalidField("tp_size")
    remote = Remote(
        engine_id=text(params, "remote_engine_id", ID_SIZE_BYTES_MAX),
        incarnation=text(params, "remote_incarnation", ID_SIZE_BYTES_MAX),
        host=text(params, "remote_host", HOST_SIZE_BYTES_MAX),
        port=integer(params, "remote_port", 1, 65_535),
        request_id=text(params, "remote_request_id", ID_SIZE_BYTES_MAX),
    )
    # An engine that reads from itself would wait for a lease that its own step loop must release.
    if remote.engine_id == engine_id:
        raise InvalidField("remote_engine_id")
    token_count = integer(params, "remote_num_tokens", 1, U32_MAX)
    if token_count != prompt.token_count:
        raise InvalidField("remote_num_tokens")
    # Whoever reaches the engines' HTTP can send any handoff with any prompt of its length.
    if hex_bytes(params, "remote_prompt_digest", PROMPT_DIGEST_SIZE_BYTES) != prompt.digest:
        raise InvalidField("remote_prompt_digest")
    remote_block_tokens = integer(params, "remote_block_size", 1, BLOCK_TOKENS_MAX)
    # Blocks of one side must be whole numbers of the other's.
    if remote_block_tokens % block_tokens != 0 and block_tokens % remote_block_tokens != 0:
        raise InvalidField("remote_block_size")
    block_ids = block_id_list(params, "remote_block_ids")
    if len(block_ids) != -(-token_count // remote_block_tokens):
        raise InvalidField("remote_block_ids")
    lease_deadline_ms = instant_ms(params, "remote_lease_deadline_ms")
    hex_bytes(params, "remote_signature", remote_tp_size * SIGNATURE_SIZE_BYTES)
    return Handoff(
        remote, block_ids, prompt, remote_block_tokens, remote_tp_size, lease_deadline_ms
    )
