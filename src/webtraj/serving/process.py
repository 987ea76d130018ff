"""One server process under its guard: started, awaited, ended with all that descends from it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from webtraj import errors
from webtraj.serving import guard as guard_lib

__all__ = ["GuardedProcess", "RestartPolicy", "ServerLaunch", "ServerLog", "claim", "tail"]

# What to start: a command for a host and a port, and the name under which it serves its model.


class ServerLaunch(Protocol):
    """A server with OpenAI's API, as `ModelServer` starts it.

    It answers `GET /health` with 200 when it can be used, and lists its model under
    `GET /v1/models`.
    """

    @property
    def served_name(self) -> str:
        """The model's name in requests."""

    def command(self, host: str, port: int) -> Sequence[str]:
        """Returns the program and its arguments.

        Raises:
            InvalidInputError: A setting is wrong.
            MissingDependencyError: What it needs is not installed.
        """

    def variables(self) -> Mapping[str, str]:
        """Returns environment variables to set beside our own."""

    def with_weights(self, path: str | os.PathLike[str], version: str) -> ServerLaunch:
        """Returns how to start a server of the same name with other weights.

        It is to answer `GET /weight_info` with that version from the first moment on.

        Args:
            path: The folder of a saved model.
            version: What its weights are called.
        """


# How often a server that died is started again, and after how long.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """Bounded restarts with growing pauses.

    >>> [RestartPolicy().pause(restart) for restart in range(4)]
    [1.0, 2.0, 4.0, 8.0]
    """

    limit: int = 5
    """How many restarts in a row; 0 for none at all."""
    first_pause: float = 1.0
    """Seconds before the first; each next waits twice as long."""
    longest_pause: float = 60.0
    """Seconds that no pause exceeds."""
    stable_after: float = 300.0
    """Seconds of good health after which the restarts are no longer counted."""

    def pause(self, restart: int) -> float:
        """Returns the seconds to wait before a restart, counted from 0."""
        return float(min(self.first_pause * 2.0**restart, self.longest_pause))


# Finding a port for a server.


def claim(host: str, port: int) -> int:
    """Returns a port that nobody listens at.

    vLLM shares a port with whoever else allows it, so that two servers on one would go unnoticed.

    Args:
        host: The address to listen at.
        port: The port; 0 for one that is free.

    Raises:
        InvalidInputError: The address is not this machine's, or somebody listens at the port.
    """
    try:
        ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            return int(probe.getsockname()[1])
    except OSError as error:
        raise errors.InvalidInputError(
            f"The model server cannot listen at {host}, port {port}: {error.strerror}. Give port 0 "
            "for one that is free."
        ) from error


# A server's log: where it goes, its end for messages, and whether it is kept.

_MAX_LINES = 25
_MAX_LINE = 300
_MAX_BYTES = 64 * 1024


def tail(log_file: Path, start: int = 0) -> str:
    """Returns the last lines that were written after `start`, indented, long ones cut."""
    try:
        with log_file.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(start, end - _MAX_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"  (it cannot be read: {error.strerror})"
    lines = [line.rstrip()[:_MAX_LINE] for line in text.splitlines() if line.strip()]
    return "\n".join(f"  {line}" for line in lines[-_MAX_LINES:]) or "  (it is empty)"


class ServerLog:
    """The file that a server's output goes to.

    Args:
        path: The file, which is appended to; a temporary one if None.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.keep = path is not None
        """Whether it is left where it is; a temporary one is, if something went wrong."""
        self._path = None if path is None else Path(path)
        self._start = 0

    @property
    def path(self) -> Path | None:
        """The file; None while it has no name yet."""
        return self._path

    def open(self) -> Path:
        """Makes sure of the file, and remembers its end: there begins what `tail` quotes."""
        if self._path is None:
            handle, name = tempfile.mkstemp(prefix="webtraj-server-", suffix=".log")
            os.close(handle)
            self._path = Path(name)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._start = self._path.stat().st_size if self._path.exists() else 0
        return self._path

    def tail(self) -> str:
        """Returns a sentence with the last lines, to put at the end of a message."""
        assert self._path is not None
        return f" The end of its log, {self._path}:\n{tail(self._path, self._start)}"

    def close(self) -> None:
        """Removes it, unless it is to be kept."""
        if not self.keep and self._path is not None:
            self._path.unlink(missing_ok=True)


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
