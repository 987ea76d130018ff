"""Digests of what samples hold: equal for equal contents, whether those were loaded or not.

A lazy blob's name is the SHA-256 of its bytes, so what lies beside an episode need not be read to
tell whether two prompts are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from webtraj.store.blobs import LazyBlob
from webtraj.training.replay.recorded import Turn

__all__ = ["content_sha256", "page_digest", "prompt_digest", "sample_digest", "unit_digest"]

_PAGE = ("url", "axtree", "text", "screenshot")
_SIZE = 16


def prompt_digest(turns: Iterable[Turn]) -> bytes:
    """Returns 16 bytes that tell a prompt from all others."""
    digest = hashlib.blake2b(digest_size=_SIZE)
    for turn in turns:
        digest.update(b"\1" + turn.role.encode())
        for leaf in turn.leaves:
            digest.update(b"\3" if leaf.is_image else b"\2")
            digest.update(content_sha256(leaf.value))
    return digest.digest()


def sample_digest(prompt: bytes, completion: str | LazyBlob) -> bytes:
    """Returns 16 bytes that tell a prompt with its completion from all others."""
    return hashlib.blake2b(prompt + content_sha256(completion), digest_size=_SIZE).digest()


def page_digest(goal: Any, observation: Any) -> bytes:
    """Returns 8 bytes that tell a goal on a page from all others; empty if no page is observed."""
    if not isinstance(observation, Mapping):
        return b""
    shown = [(name, observation[name]) for name in _PAGE if _is_content(observation.get(name))]
    if not any(name != "url" and value for name, value in shown):
        return b""
    digest = hashlib.blake2b(content_sha256(goal), digest_size=8)
    for name, value in shown:
        digest.update(name.encode() + content_sha256(value))
    return digest.digest()


def unit_digest(*parts: object) -> int:
    """Returns a number below 2**64 that follows from the parts alone, anywhere and any time."""
    text = "\0".join(map(str, parts)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def content_sha256(value: Any) -> bytes:
    """Returns the SHA-256 of text or bytes, as blobs are named."""
    if isinstance(value, LazyBlob):
        return bytes.fromhex(value.blob.sha256)
    data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).digest()


def _is_content(value: Any) -> bool:
    return isinstance(value, (str, bytes, LazyBlob))
