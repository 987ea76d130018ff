"""Base classes that close at the end of a `with` or `async with` block, and `aclose`."""

from __future__ import annotations

import abc
from types import TracebackType
from typing import Self

__all__ = ["AsyncClosing", "Closing", "aclose"]


class AsyncClosing(abc.ABC):
    """Closed by `aclose` at the end of `async with`."""

    @abc.abstractmethod
    async def aclose(self) -> None:
        """Release everything."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class Closing(abc.ABC):
    """Closed by `close` at the end of `with`."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release everything."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


async def aclose(thing: object) -> None:
    """Close an agent, judge or proposer. Without `aclose`, it holds nothing to close."""
    if (close := getattr(thing, "aclose", None)) is not None:
        await close()
