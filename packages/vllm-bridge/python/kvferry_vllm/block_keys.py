"""Names for the content of KV blocks: `chainBlockKeys` of connector-api, worked out where the tokens are.

Key i = SHA-256(key i-1, token count, tokens), 32 bytes each, and before the first one a digest of what else
shapes KV. vLLM's own block hashes would not do: they leave out a prompt's last block unless it is full, and an
operator may choose a hash with collisions, which would serve another prompt's KV (architecture §8). Pure; golden
vectors that both languages share check it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Mapping, Sequence

BLOCK_KEY_SIZE_BYTES = 32
#: Changes with the definition, so that keys of two definitions never meet.
_DOMAIN = "kvferry block key 1"


@dataclass(frozen=True)
class KvIdentity:
    """What an engine's KV depends on besides the tokens: values compared as texts."""

    model: str
    layout: str


def identity_of(caches: Mapping[str, Any]) -> KvIdentity:
    """`caches`: as the host is told of them at its start."""
    shape = (caches["dtype"], caches["layout"], len(caches["regions"]), caches["kvHeadCount"], caches["headSize"])
    return KvIdentity(caches["model"], " ".join(map(str, shape)))


class BlockKeyer:
    """Makes the keys of one engine's prompts."""

    def __init__(self, identity: KvIdentity, block_tokens: int) -> None:
        self._identity = identity
        self._block_tokens = block_tokens
        self._pack_block = struct.Struct(f"<I{block_tokens}I").pack
        #: Nearly all prompts have no salt.
        self._unsalted = self._digest(None, None)

    def keys_of(self, tokens: Sequence[int], salt: str | None = None, lora: str | None = None) -> bytes:
        """One key after the other. `salt`: the request's `cache_salt`. @raises struct.error for an id that is no u32."""
        size = self._block_tokens
        key = self._unsalted if salt is None and lora is None else self._digest(salt, lora)
        keys = []
        full_end = len(tokens) - len(tokens) % size
        for start in range(0, full_end, size):
            key = sha256(key + self._pack_block(size, *tokens[start : start + size])).digest()
            keys.append(key)
        tail = tokens[full_end:]
        if tail:
            keys.append(sha256(key + struct.pack(f"<I{len(tail)}I", len(tail), *tail)).digest())
        return b"".join(keys)

    def _digest(self, salt: str | None, lora: str | None) -> bytes:
        digest = sha256()
        for field in (_DOMAIN, self._identity.model, self._identity.layout, lora, salt):
            encoded = b"" if field is None else field.encode("utf-8")
            # 1 more than the length: an absent value (0) differs from an empty one.
            digest.update(struct.pack("<I", 0 if field is None else len(encoded) + 1) + encoded)
        digest.update(struct.pack("<I", self._block_tokens))
        return digest.digest()


class PromptKeys:
    """Of the prompts whose KV one life of the host may keep; none without a history, which so costs nothing."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._identity: KvIdentity | None = None
        self._keyer: BlockKeyer | None = None
        self._generation = 0

    @property
    def are_made(self) -> bool:
        return self._keyer is not None

    def set_identity(self, identity: KvIdentity | None) -> None:
        """None: there is no history."""
        self._identity = identity
        if identity is None:
            self._keyer = None
            return
        if self._generation > 0:
            identity = replace(identity, model=f"{identity.model} #{self._generation}")
        self._keyer = BlockKeyer(identity, self._block_tokens)

    def renew(self) -> None:
        """From now on all prompts have other keys: what is kept is never found again, and makes room in time."""
        self._generation += 1
        self.set_identity(self._identity)

    def keys_of(
        self, tokens: Sequence[int], params: Mapping[str, Any], salt: str | None
    ) -> bytes | None:
        """Of what is kept of a prompt whose KV others may have: all but its last token. None: nothing is kept."""
        if self._keyer is None or not params.get("do_remote_decode"):
            return None
        return self._keyer.keys_of(tokens[:-1], salt)
