"""One server process under its guard: started, awaited, ended with all that descends from it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from webtraj.serving import guard as guard_lib

__all__ = ["GuardedProcess"]

_GUARD_PATIENCE = 10.0
"""Seconds that the guard may take over the server's patience until it is killed itself."""


class GuardedProcess:
    """A running server. It ends with `stop`, by itself, or when our process dies.

    Args:
        command: What to run.
        variables: All its environment variables.
        log_file: Gets what it prints, at the end of what is in there.
        patience: Seconds between asking it to end and killing it.

    Raises:
        OSError: The log cannot be written, or the guard cannot be run.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        variables: Mapping[str, str],
        log_file: Path,
        patience: float,
    ) -> None:
        self._patience = patience
        self._pid: int | None = None
        guard = [sys.executable, "-I", "-S", guard_lib.__file__, str(patience)]
        with log_file.open("ab") as log:
            # Not asyncio's: that kills the guard, and so loses the server's children, if the event
            # loop is closed first.
            self._guard = subprocess.Popen(
                [*guard, *command],
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C in a terminal is ours alone.
            )
        self._watch = asyncio.ensure_future(self._watch_guard())

    @property
    def pid(self) -> int | None:
        """The server's process id; None until it is known."""
        return self._pid

    @property
    def ended(self) -> bool:
        """Whether it and its children are gone."""
        return self._watch.done()

    async def wait(self) -> int:
        """Waits until it and its children are gone; returns its exit status, 128 + n for signal n.

        Being cancelled does not end it.
        """
        return await asyncio.shield(self._watch)

    async def stop(self) -> None:
        """Ends it and its children. Idempotent; if this is cancelled, the guard goes on alone."""
        self._let_go()
        try:
            async with asyncio.timeout(self._patience + _GUARD_PATIENCE):
                await self.wait()
        except TimeoutError:
            self._guard.kill()
            await self.wait()

    def kill(self) -> None:
        """Kills the server; the guard does the same to its children."""
        if self._pid is not None and not self.ended:
            _kill_group(self._pid)

    async def _watch_guard(self) -> int:
        stdout = self._guard.stdout
        assert stdout is not None
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), stdout
        )
        try:
            if line := await reader.readline():
                self._pid = int(line)
            await reader.read()  # The guard alone holds the other end.
        finally:
            transport.close()
            self._let_go()
        status = self._guard.wait()
        if status < 0 and self._pid is not None:  # Killed, it left the work to us.
            _kill_group(self._pid)
        return status if status >= 0 else 128 - status

    def _let_go(self) -> None:
        stdin = self._guard.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):
            stdin.close()


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
