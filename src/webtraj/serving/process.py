"""One server process under its guard: start it, wait for it, end it with all its descendants."""

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
from webtraj.settings import credentials

__all__ = ["GuardedProcess", "RestartPolicy", "ServerLaunch", "ServerLog", "claim", "tail"]

# The launch: a command for a host and a port, and the name of the served model.


class ServerLaunch(Protocol):
    """Instructions for `ModelServer` to start a server with an OpenAI-compatible API.

    The server answers `GET /health` with 200 when it is ready, and lists its model under
    `GET /v1/models`.
    """

    @property
    def served_name(self) -> str:
        """The model's name in requests."""

    @property
    def api_key(self) -> str:
        """The key that requests under `/v1` need; empty for none."""

    def command(self, host: str, port: int) -> Sequence[str]:
        """Return the program and its arguments.

        Raises:
            InvalidInputError: A setting is invalid.
            MissingDependencyError: A required package is not installed.
        """

    def variables(self) -> Mapping[str, str]:
        """Return environment variables to add to our own."""

    def with_weights(self, path: str | os.PathLike[str], version: str) -> ServerLaunch:
        """Return a launch of the same name with other weights.

        The server must answer `GET /weight_info` with this version from the start.

        Args:
            path: The folder of a saved model.
            version: The version of its weights.
        """


# Restarts of a server that died.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """Bounded restarts with growing pauses.

    >>> [RestartPolicy().pause(restart) for restart in range(4)]
    [1.0, 2.0, 4.0, 8.0]
    """

    limit: int = 5
    """Most restarts in a row; 0 for none."""
    first_pause: float = 1.0
    """Seconds before the first restart; doubled for each further one."""
    longest_pause: float = 60.0
    """Upper limit of the pause, in seconds."""
    stable_after: float = 300.0
    """Seconds of good health after which earlier restarts no longer count."""

    def pause(self, restart: int) -> float:
        """Return the seconds to wait before a restart, counted from 0."""
        return float(min(self.first_pause * 2.0**restart, self.longest_pause))


# Finding a port for a server.


def claim(host: str, port: int) -> int:
    """Return a free port to listen on.

    The check is needed because vLLM shares its port, so two servers on one port would go unnoticed.

    Args:
        host: The address to listen on.
        port: The port; 0 for any free one.

    Raises:
        InvalidInputError: The address is not this machine's, or the port is taken.
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
            f"The model server cannot listen on {host}, port {port}: {error.strerror}. Use port 0 "
            "for any free port."
        ) from error


# A server's log file, its last lines for messages, and whether it is kept.

_MAX_LINES = 30
_MAX_LINE = 1000
_MAX_BYTES = 64 * 1024


def tail(log_file: Path, start: int = 0) -> str:
    """Return the last lines written after `start`, indented, with long ones cut."""
    try:
        with log_file.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(start, end - _MAX_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"  (cannot be read: {error.strerror})"
    # Progress bars overwrite themselves.
    shown = (line.rstrip().rpartition("\r")[2] for line in text.split("\n"))
    lines = [line[:_MAX_LINE] for line in shown if line.strip()]
    return "\n".join(f"  {line}" for line in lines[-_MAX_LINES:]) or "  (empty)"


class ServerLog:
    """The file that receives a server's output.

    Args:
        path: The file, which is appended to; None for a temporary one.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.keep = path is not None
        """Whether to keep the file; a temporary one is kept only after an error."""
        self.path = None if path is None else Path(path)
        """The file; None before `open` if it is temporary."""
        self._start = 0

    def open(self) -> Path:
        """Create the file if needed, and remember its end, where `tail` starts."""
        if self.path is None:
            handle, name = tempfile.mkstemp(prefix="webtraj-server-", suffix=".log")
            os.close(handle)
            self.path = Path(name)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._start = self.path.stat().st_size if self.path.exists() else 0
        return self.path

    def tail(self) -> str:
        """Return a sentence with the last lines, for the end of a message."""
        assert self.path is not None
        end = credentials.conceal(tail(self.path, self._start))
        return f" The end of its log, {self.path}:\n{end}"

    def close(self) -> None:
        """Remove the file unless it is to be kept."""
        if not self.keep and self.path is not None:
            self.path.unlink(missing_ok=True)


_GUARD_PATIENCE = 10.0
"""Extra seconds for the guard, beyond the server's patience, before the guard itself is killed."""


class GuardedProcess:
    """A running server. It ends with `stop`, by itself, or when this process dies.

    Args:
        command: The command to run.
        variables: All its environment variables.
        log_file: Receives the output, appended.
        patience: Seconds between asking the server to end and killing it.

    Raises:
        OSError: The log cannot be written, or the guard cannot run.
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
        self.pid: int | None = None
        """The server's process id; None until it is known."""
        guard = [sys.executable, "-I", "-S", guard_lib.__file__, str(patience)]
        with log_file.open("ab") as log:
            # Not asyncio's subprocess, which kills the guard if the event loop closes first, and
            # so loses the server's children.
            self._guard = subprocess.Popen(
                [*guard, *command],
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Keeps Ctrl-C in a terminal from reaching it.
            )
        self._watch = asyncio.ensure_future(self._watch_guard())

    @property
    def ended(self) -> bool:
        """Whether the server and its children have ended."""
        return self._watch.done()

    async def wait(self) -> int:
        """Wait until the server and its children have ended; return the exit status.

        It is 128 + n for signal n. Cancelling the wait does not end the server.
        """
        return await asyncio.shield(self._watch)

    async def stop(self) -> None:
        """End the server and its children. Idempotent; if cancelled, the guard finishes alone."""
        self._let_go()
        try:
            async with asyncio.timeout(self._patience + _GUARD_PATIENCE):
                await self.wait()
        except TimeoutError:
            self._guard.kill()
            await self.wait()

    def kill(self) -> None:
        """Kill the server; the guard kills its children."""
        if self.pid is not None and not self.ended:
            _kill_group(self.pid)

    async def _watch_guard(self) -> int:
        stdout = self._guard.stdout
        assert stdout is not None
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), stdout
        )
        try:
            if line := await reader.readline():
                self.pid = int(line)
            await reader.read()  # Only the guard holds the other end.
        finally:
            transport.close()
            self._let_go()
        status = self._guard.wait()
        if status < 0 and self.pid is not None:  # The guard was killed first.
            _kill_group(self.pid)
        return status if status >= 0 else 128 - status

    def _let_go(self) -> None:
        stdin = self._guard.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):
            stdin.close()


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
