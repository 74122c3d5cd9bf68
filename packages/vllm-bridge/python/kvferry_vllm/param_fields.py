"""Reads single fields of `kv_transfer_params`, which anybody may have written.

Each reader returns a value of the right type and range, or raises `InvalidField` with the field's name. They
accept what `param-fields.ts` of the TypeScript accepts. Called by handoff.py; pure.
"""

from __future__ import annotations

import math
import re
from typing import Any, Mapping

#: `limits.blocksPerPostMax` of connector-api.
BLOCKS_PER_POST_MAX = 65_536
U32_MAX = 0xFFFF_FFFF

_HEX = re.compile("[0-9a-f]*", re.ASCII)


class InvalidField(Exception):
    """`field` is the one that is wrong."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def flag(params: Mapping[str, Any], field: str) -> bool:
    """@raises InvalidField, as all below. Absent and null mean false."""
    value = params.get(field)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise InvalidField(field)
    return value


def text(params: Mapping[str, Any], field: str, size_max: int) -> str:
    value = params.get(field)
    if not isinstance(value, str) or value == "" or utf8_size(value) > size_max:
        raise InvalidField(field)
    # Two ids that differ here would be one for the other half, and for peers.
    if not is_utf8(value):
        raise InvalidField(field)
    return value


def integer(params: Mapping[str, Any], field: str, minimum: int, maximum: int) -> int:
    value = as_integer(params.get(field))
    if value is None or not minimum <= value <= maximum:
        raise InvalidField(field)
    return value


def instant_ms(params: Mapping[str, Any], field: str) -> float:
    """A reading of the producer's clock."""
    value = params.get(field)
    if not _is_number(value) or not _is_finite(value) or value <= 0:
        raise InvalidField(field)
    return float(value)


def hex_bytes(params: Mapping[str, Any], field: str, size_bytes: int) -> bytes:
    """Lower-case hexadecimal of exactly `size_bytes`."""
    value = params.get(field)
    if not isinstance(value, str) or len(value) != 2 * size_bytes or not _HEX.fullmatch(value):
        raise InvalidField(field)
    return bytes.fromhex(value)


def block_id_list(params: Mapping[str, Any], field: str) -> tuple[int, ...]:
    """Of the only KV group."""
    value = params.get(field)
    if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], list):
        raise InvalidField(field)
    ids = [as_integer(block_id) for block_id in value[0]]
    if not 0 < len(ids) <= BLOCKS_PER_POST_MAX:
        raise InvalidField(field)
    if any(block_id is None or not 0 <= block_id <= U32_MAX for block_id in ids):
        raise InvalidField(field)
    if len(set(ids)) != len(ids):
        raise InvalidField(field)
    return tuple(ids)  # type: ignore[arg-type]


def as_integer(value: Any) -> int | None:
    """`5.0` and `5` are the same number in JSON."""
    if not _is_number(value) or not _is_finite(value) or value != int(value):
        return None
    return int(value)


def utf8_size(value: str) -> int:
    return len(value.encode("utf-8", "surrogatepass"))


def _is_number(value: Any) -> bool:
    """JSON has one kind of number; Python's `bool` is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_finite(value: int | float) -> bool:
    """An integer beyond the range of a double is infinite for the other reader of this JSON."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_utf8(text: str) -> bool:
    """False for half a surrogate pair, which JSON can carry and UTF-8 can't."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
