"""What a storage is: bytes under keys, whole or not at all.

A key is a relative path with `/` between its parts: `episodes/20261120T130405-9f86.json`. Keys come
from webtraj itself, or were checked; a storage refuses one that leads out of it. No key is another
one's folder: who writes `a` does not write `a/b`, which a folder could not keep.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Protocol

from webtraj import errors

__all__ = ["Entry", "Storage", "check_key", "check_prefix", "is_hidden", "is_key"]

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._=-]{0,254}")
_LONGEST = 800
"""S3 allows 1,024 bytes for key and prefix together."""


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """An object that a storage holds."""

    key: str
    size: int
    """In bytes."""


class Storage(Protocol):
    """Keeps bytes under keys. Safe to share between threads; calls block.

    Each call tries again by itself, within its time limit, what may heal. Every method raises
    `StorageDeniedError`, `StorageUnavailableError` or another `StorageError` if it fails.
    """

    @property
    def url(self) -> str:
        """Names the storage for people, and for `open_storage`; holds no credentials."""

    def read(self, key: str) -> bytes:
        """Returns all of an object.

        Raises:
            StorageMissingError: There is no such object.
        """

    def write(self, key: str, data: bytes, *, overwrite: bool = True) -> None:
        """Writes an object. Nobody ever sees half of it.

        Raises:
            StorageConflictError: It is there already, and was not to be overwritten.
        """

    def size(self, key: str) -> int | None:
        """Returns an object's size in bytes; None if there is no such object."""

    def list(self, prefix: str = "") -> Iterator[Entry]:
        """Yields the objects whose keys begin with `prefix`, in no particular order.

        `prefix` is empty or ends in `/`. Objects that are written or deleted meanwhile may or may
        not be among them. What others put there is, also under names that are no keys, which
        `read` refuses; only what has a part that begins with a dot is not.
        """

    def delete(self, key: str) -> None:
        """Deletes an object. It is no error if there is none."""


def is_key(key: str) -> bool:
    """Returns whether a text is a key.

    >>> is_key("episodes/20261120T130405-9f86.json"), is_key("../secret"), is_key("/etc/passwd")
    (True, False, False)
    """
    return len(key) <= _LONGEST and all(_PART.fullmatch(part) for part in key.split("/"))


def is_hidden(name: str) -> bool:
    """Returns whether a part of a name begins with a dot.

    >>> is_hidden("blobs/.tmp/x"), is_hidden("blobs/x.png")
    (True, False)
    """
    return name.startswith(".") or "/." in name


def check_key(key: str) -> str:
    """Returns a key if it is one.

    Raises:
        InvalidInputError: It could lead out of its storage, or not every storage could keep it.
    """
    if not is_key(key):
        raise errors.InvalidInputError(
            f"{key!r:.300} is no key of an object; expected parts of A-Z a-z 0-9 . _ = -, none of "
            f"them beginning with a dot or dash, / between them, and {_LONGEST} characters at most."
        )
    return key


def check_prefix(prefix: str) -> str:
    """Returns a prefix of keys if it is one: empty, or a key and `/`.

    Raises:
        InvalidInputError: It is none.
    """
    if prefix and not (prefix.endswith("/") and is_key(prefix[:-1])):
        raise errors.InvalidInputError(
            f"{prefix!r:.300} is no prefix of keys; expected nothing, or parts of a key with / "
            "after each."
        )
    return prefix
