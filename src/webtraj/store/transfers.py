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
            get: Begins a download, given obstore's options; raises storage errors.
        """
        self._what = what
        self._get = get
        self._chunks: list[bytes] = []
        self._position = 0
        self._size = 0
        self.e_tag: str | None = None
        self._goes_on = True

    @property
    def data(self) -> bytes:
        """What has come so far."""
        if len(self._chunks) != 1:
            self._chunks = [b"".join(self._chunks)]
        return self._chunks[0]

    def advance(self) -> bool:
        """Reads on; returns whether that was all."""
        start = self._position
        try:
            self._take(self._go_on() if start else self._begin())
        except Exception:
            if not self._goes_on:
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

    def _begin(self) -> Any:
        result = self._get(None)
        self._size, self.e_tag = result.meta["size"], result.meta["e_tag"]
        self._goes_on = self._goes_on and self.e_tag is not None
        return result

    def _go_on(self) -> Any:
        try:
            return self._get({"range": {"offset": self._position}, "if_match": self.e_tag})
        except errors.StorageUnavailableError:
            raise
        except errors.StorageError as error:
            # It was replaced meanwhile, or this store sends nothing but whole objects.
            self._goes_on = isinstance(error, errors.StorageConflictError)
            self._forget()
            raise errors.StorageUnavailableError(f"{self._what}: it has to be read anew.") from None

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
