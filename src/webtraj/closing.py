"""`with` and `async with` for what is closed in the end, however the body was left."""

from __future__ import annotations

import abc
from types import TracebackType
from typing import Self

__all__ = ["AsyncClosing", "Closing"]


class AsyncClosing(abc.ABC):
    """Leaving `async with` calls `aclose`."""

    @abc.abstractmethod
    async def aclose(self) -> None:
        """Lets go of everything."""

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
    """Leaving `with` calls `close`."""

    @abc.abstractmethod
    def close(self) -> None:
        """Lets go of everything."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
