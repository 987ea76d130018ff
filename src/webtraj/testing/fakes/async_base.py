"""What the asynchronous fakes have in common."""

from __future__ import annotations

from types import TracebackType
from typing import Self

__all__ = ["AsyncBase"]


class AsyncBase:
    """The parts of the environment contract that the fakes here have in common."""

    async def close(self) -> None:
        """Does nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        del exc_type, exc, traceback  # Unused.
        await self.close()
