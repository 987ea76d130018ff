"""Reads and listings that consist of several requests, and go on where they were cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from webtraj import errors

__all__ = ["Download", "Listing"]

_MIB = 1 << 20


class Download:
    """An object on its way, which goes on after a cut where it was."""

    _WORTHWHILE = _MIB
    """An attempt that got so much further, in bytes, does not count as failed."""

    def __init__(self, what: str, get: Callable[[Any], Any]) -> None:
        """Initializes the download.

        Args:
            what: What could not be done if it fails, and to which object.
            get: Begins a download, given obstore's options.
        """
        self._what = what
        self._get = get
        self._chunks: list[bytes] = []
        self._position = 0
        self._size = 0
        self._e_tag: str | None = None

    @property
    def data(self) -> bytes:
        """What has come so far."""
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)

    def advance(self) -> bool:
        """Reads on; returns whether that was all."""
        start = self._position
        try:
            if start:
                self._go_on()
            else:
                self._begin()
        except Exception:
            if self._e_tag is None:
                self._forget()
            if self._position - start < self._WORTHWHILE:
                raise
            return False
        if self._position != self._size:
            self._forget()
            raise errors.StorageUnavailableError(
                f"{self._what}: it came in another size than announced."
            )
        return True

    def _begin(self) -> None:
        result = self._get(None)
        self._size, self._e_tag = result.meta["size"], result.meta["e_tag"]
        self._take(result)

    def _go_on(self) -> None:
        from obstore.exceptions import PreconditionError

        options = {"range": {"offset": self._position}, "if_match": self._e_tag}
        try:
            result = self._get(options)
        except PreconditionError:
            self._forget()
            raise errors.StorageUnavailableError(
                f"{self._what}: it was replaced meanwhile."
            ) from None
        self._take(result)

    def _take(self, result: Any) -> None:
        for chunk in result.stream(min_chunk_size=_MIB):
            self._chunks.append(bytes(chunk))
            self._position += len(chunk)

    def _forget(self) -> None:
        self._chunks.clear()
        self._position = 0


class Listing:
    """A listing that goes on after a failure where it was: stores list in the order of the keys."""

    def __init__(self, start: Callable[[str | None], Any]) -> None:
        """Initializes the listing.

        Args:
            start: Begins a listing after the key that it is given, if any.
        """
        self._start = start
        self._pages: Iterator[Sequence[Any]] | None = None
        self._last: str | None = None

    def next_page(self) -> Sequence[Any] | None:
        """Returns the next objects; None at the end."""
        if self._pages is None:
            self._pages = iter(self._start(self._last))
        try:
            page = next(self._pages, None)
        except BaseException:
            self._pages = None
            raise
        if page:
            self._last = page[-1]["path"]
        return page
