"""What a storage is: bytes under keys, whole or not at all.

A key is a relative path with `/` between its parts: `episodes/20261120T130405-9f86.json`. Keys come
from webtraj itself, or were checked; a storage refuses one that leads out of it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Protocol

from webtraj import errors

__all__ = ["Entry", "Storage", "check_key"]

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._=-]{0,254}")


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
        not be among them.
        """

    def delete(self, key: str) -> None:
        """Deletes an object. It is no error if there is none."""


def check_key(key: str) -> str:
    """Returns a key if it is one.

    Raises:
        InvalidInputError: It could lead out of its storage, or not every storage could keep it.
    """
    if not all(_PART.fullmatch(part) for part in key.split("/")):
        raise errors.InvalidInputError(
            f"{key!r:.300} is no key of an object; expected parts of A-Z a-z 0-9 . _ = -, none of "
            "them beginning with a dot, and / between them."
        )
    return key
