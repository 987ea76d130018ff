"""Real web applications on this machine, and isolated worlds of them.

An application is installed once: its packages, in a virtual environment for its requirements and
the Python version; and its contents, the initial states of its worlds, for the files that build
them. Other versions stay until `webtraj apps remove --old`, because another checkout may use them.
A world is a copy of such a state, made and thrown away in milliseconds. One server process for each
application serves all worlds of this process. It ends with this process, and is replaced if it dies
or hangs. A request that is lost this way is an infrastructure failure, see `World.failure`.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import dataclasses
import fcntl
import functools
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import venv
import warnings
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from webtraj import errors
from webtraj.environments import browser
from webtraj_apps import forms, names
from webtraj_apps import state as state_lib

__all__ = ["App", "Concerns", "Meanwhile", "World", "WorldCopy", "find_app", "find_apps", "home"]

CONTENTS: Final = 4
"""How many contents each application has; a world's seed chooses one."""

_BUILDS = (".html", ".ini", ".js", ".php", ".py", ".toml", ".txt")
_BUILDS_NOT = ("__init__.py", "state.py", "tasks.py", names.NAMES)
_BUILDS_ALL = (
    "company.py", "company.toml", "django_worlds.py", "people.py", "serve.py", "voices.py",
)  # fmt: skip
"""The files of this package that the hosts of all applications may use."""
_HOME = "WEBTRAJ_APPS"
_COMPLETE = "complete"
"""The file that marks packages as installed."""
_SOCKET = "host.sock"
_START_SECONDS = 60.0
_CONNECT_SECONDS = 20.0
_PING_SECONDS = 4.0
"""Seconds in which a server must close a connection that asks for nothing, in two tries."""
_SILENT_SECONDS = 4
"""Seconds without an answer after which a server is pinged."""
_HUNG_SECONDS = 20
"""Seconds without an answer after which a server is replaced, even if it answers pings."""
_END_SECONDS = 1.0
"""Seconds to wait for the end of a server that closed a connection without an answer."""
_LOG_LINES = 20
CHUNK: Final = 64 * 1024
"""How many bytes of a request are read at first."""
_IDLE_SECONDS = 0.01
_IDLE_TRIES = 500


def home() -> Path:
    """Return the folder of installed applications: `$WEBTRAJ_APPS`, or the user's data folder."""
    if os.environ.get(_HOME):
        return Path(os.environ[_HOME]).resolve()
    if sys.platform == "darwin":
        return Path.home() / "Library/Application Support/webtraj/apps"
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(data) / "webtraj/apps"


@contextlib.contextmanager
def removing(title: str) -> Iterator[None]:
    """Turn file system errors into readable errors, while something is removed.

    Raises:
        InvalidInputError: It cannot be removed.
    """
    try:
        yield
    except OSError as error:
        raise errors.InvalidInputError(
            f"{title} cannot be removed from {home()}: {error}. Remove it as the user who "
            "installed it, or name another folder with WEBTRAJ_APPS."
        ) from error


@dataclasses.dataclass(frozen=True, slots=True)
class Meanwhile:
    """What somebody else does in a world while an agent acts."""

    what: str
    """For people: "oliver replies in the topic “Old bike”"."""
    happen: Callable[[World], Awaitable[None]]
    """Does it. Raises LookupError if it can no longer be done."""

    @classmethod
    def by_sql(cls, what: str, *statements: tuple[str, tuple[Any, ...]]) -> Meanwhile:
        """Return what SQL does. See `World.execute`."""

        async def happen(world: World) -> None:
            world.execute(statements)

        return cls(what, happen)


Concerns: TypeAlias = Callable[[Any], bool]
"""Whether a task is about a name or an id."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """An application. Its folder holds `host.py`, `requirements.txt` and `tasks.py`."""

    name: str
    """Its name: `shop`. Browsers see it at `http://shop.test/`."""
    title: str
    """What it is: "Online shop"."""
    package: str
    """The software and its version: `django-oscar 4.2.1`."""
    license: str
    """Its licence, by SPDX."""
    folder: Path
    """The folder of its files."""
    database: str = "db.sqlite3"
    """The SQLite file of a world's state."""
    ignored: frozenset[str] = frozenset()
    """Tables whose changes never count: sessions, caches."""
    columns: Mapping[str, Iterable[str]] = dataclasses.field(default_factory=dict)
    """Columns whose changes never count, by table (`*` for all): when a user was last seen."""
    fills: state_lib.Fills = dataclasses.field(default_factory=dict)
    """What it fills into new rows itself, by table (`*` for all) and column: times, slugs. What
    neither a task nor this names must be empty in a new row, apart from `id`."""
    read_state: Callable[[Path], state_lib.State] | None = None
    """Reads a world's state, if it is more than its database."""
    meanwhile: Callable[[Mapping[str, Any], random.Random, Concerns], Meanwhile] | None = None
    """Draws what somebody else does meanwhile, from the facts of a world. It must be nothing that
    the task is about, and must not change what other tasks count, list or compare. None if nobody
    else acts there."""
    debian: tuple[str, ...] = ()
    """Debian packages that it needs; none for what pip installs alone."""
    megabytes: int = 2048
    """The most memory of its server."""

    @property
    def host(self) -> str:
        """The host name that browsers see."""
        return f"{self.name}.test"

    @property
    def origin(self) -> str:
        """The origin that browsers see."""
        return f"http://{self.host}"

    # Installing.

    @property
    def has_requirements(self) -> bool:
        """Whether it needs packages from an index."""
        return bool(self._requirements.strip())

    @property
    def _requirements(self) -> bytes:
        file = self.folder / "requirements.txt"
        return file.read_bytes() if file.exists() else b""

    @property
    def packages(self) -> Path:
        """The folder of its packages, which depends on its requirements and the Python version."""
        python = f"{sys.version}\0{sys.base_prefix}\0".encode()
        return home() / self.name / f"packages-{_digest(python, self._requirements)}"

    @property
    def contents(self) -> Path:
        """The folder of its contents, which depends on its packages and the files that build it."""
        common = (Path(__file__).with_name(name) for name in _BUILDS_ALL)
        own = (
            file
            for file in sorted(self.folder.iterdir())
            if file.suffix in _BUILDS and file.name not in _BUILDS_NOT
        )
        files = (file.read_bytes() for file in (*common, *own))
        digest = _digest(self.packages.name.encode(), str(CONTENTS).encode(), *files)
        return home() / self.name / f"contents-{digest}"

    @property
    def installed(self) -> bool:
        """Whether it is installed."""
        return self.contents.exists() and self._has_packages

    @property
    def _has_packages(self) -> bool:
        return (self.packages / _COMPLETE).exists()

    def install(self, say: Callable[[str], None] = lambda _: None) -> None:
        """Install the missing parts of the application. Its other versions stay.

        Raises:
            InvalidInputError: A step failed; the message has its last output.
        """
        if self.installed:
            return
        try:
            with self._locked():
                if not self.installed:  # Another process may have done it.
                    self._install(say)
        except (OSError, subprocess.CalledProcessError) as error:  # A full disk, no permission.
            raise errors.InvalidInputError(
                f"{self.title} cannot be installed in {home()}: {error}. WEBTRAJ_APPS names "
                "another folder."
            ) from error

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        folder = home() / self.name
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _install(self, say: Callable[[str], None]) -> None:
        say(f"Installing {self.title} ({self.package}).")
        if not self._has_packages:
            self._install_debian(say)
            self._install_packages()
        if not self.contents.exists():
            self._build()

    @property
    def size(self) -> int:
        """The bytes of its packages and contents on disk. Shared files count once."""
        files = (
            file.lstat()
            for folder in (self.packages, self.contents)
            for file in folder.rglob("*")
            if not file.is_symlink()
        )
        return sum({one.st_ino: one.st_blocks * 512 for one in files}.values())

    def remove(self, *, old: bool = False) -> None:
        """Remove the installed application.

        Args:
            old: Whether to remove instead its other versions, which this webtraj does not use.

        Raises:
            InvalidInputError: The folder cannot be written.
        """
        with removing(self.title), self._locked():
            for folder in (home() / self.name).glob("*-*"):
                if (folder in (self.contents, self.packages)) != old:
                    shutil.rmtree(folder)

    def _install_packages(self) -> None:
        shutil.rmtree(self.packages, ignore_errors=True)
        uv = _find_uv()
        venv.create(self.packages, with_pip=self.has_requirements and uv is None, symlinks=True)
        if self.has_requirements:
            wanted = ("--requirement", str(self.folder / "requirements.txt"))
            what = "install its packages"
            if uv is not None:  # Several times as fast, and packages share files.
                self._run(what, uv, "pip", "install", "--quiet", "--python", self._python, *wanted)
            else:
                pip = (self._python, "-m", "pip")
                self._run(what, *pip, "install", "--quiet", "--disable-pip-version-check", *wanted)
                self._run("remove pip", *pip, "uninstall", "--quiet", "--yes", "pip")
        (self.packages / _COMPLETE).touch()

    def _build(self) -> None:
        contents = self.contents
        building = contents.with_suffix(".new")
        shutil.rmtree(building, ignore_errors=True)
        for content in range(CONTENTS):
            made = str(building / str(content))
            self._run("fill its worlds", *self._serve("build", made, str(content)))
        if self.contents != contents:
            raise errors.InvalidInputError(
                f"Files of {self.title} changed while its worlds were filled. Install it again."
            )
        building.rename(contents)

    def _install_debian(self, say: Callable[[str], None]) -> None:
        missing = (
            [
                name
                for name in self.debian
                if subprocess.run(["dpkg", "-s", name], capture_output=True, check=False).returncode
            ]
            if shutil.which("dpkg")
            else list(self.debian)
        )
        if not missing:
            return
        command = "apt-get install --no-install-recommends " + " ".join(missing)
        if not shutil.which("apt-get") or os.geteuid() != 0:
            raise errors.InvalidInputError(
                f"{self.title} needs Debian packages. Install them with: sudo {command}"
            )
        say(f"Installing {' '.join(missing)} with apt-get.")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for arguments in (["update", "-qq"], [*command.split()[1:], "-y", "-qq"]):
            done = subprocess.run(
                ["apt-get", "-o", "DPkg::Lock::Timeout=600", *arguments],
                env=environment,
                capture_output=True,
                check=False,
            )
        if done.returncode:
            raise errors.InvalidInputError(
                f"apt-get could not install {' '.join(missing)}:\n{_tail(done.stderr)}"
            )

    def _serve(self, command: str, *arguments: str) -> tuple[str, ...]:
        script = str(Path(__file__).with_name("serve.py"))
        return self._python, script, command, str(self.folder / "host.py"), *arguments

    def _run(self, what: str, *arguments: str) -> None:
        done = subprocess.run(arguments, capture_output=True, check=False, env=_environment())
        if done.returncode:
            output = _tail(done.stdout + done.stderr)
            raise errors.InvalidInputError(f"Cannot {what} for {self.title}:\n{output}")

    @property
    def _python(self) -> str:
        return str(self.packages / "bin/python")

    # Worlds.

    def facts(self, seed: int) -> Mapping[str, Any]:
        """Return the facts of a seed's worlds that tasks may mention.

        Raises:
            MissingDependencyError: The application is not installed.
        """
        return _facts(self._content(seed))

    def require(self) -> None:
        """Check that the application is installed.

        Raises:
            MissingDependencyError: It is not.
        """
        if not self.installed:
            raise errors.MissingDependencyError(
                f"The application {self.name!r} is not installed. Install it with: "
                f"webtraj apps install {self.name}"
            )

    def _content(self, seed: int) -> Path:
        self.require()
        return self.contents / str(seed % CONTENTS)

    async def world(self, seed: int = 0, *, copy: WorldCopy | None = None) -> World:
        """Return a new world. Its server is started if it does not run, and replaced if it hangs.

        Args:
            seed: The seed that chooses its state.
            copy: The world to start from, instead of the initial state.

        Raises:
            MissingDependencyError: The application is not installed.
            BrowserError: The server does not start.
        """
        content = self._content(seed)
        host = _host_of(self)
        await host.ready()
        return World(self, host, content, seed, copy)

    def changes(self, before: state_lib.State, after: state_lib.State) -> list[state_lib.Change]:
        """Return the changes of a world's state, except those that never count."""
        return state_lib.changes(before, after, ignored=self.ignored, columns=self.columns)

    def read(self, folder: Path) -> state_lib.State:
        """Return the state of a world as rows."""
        if self.read_state is not None:
            return self.read_state(folder)
        return state_lib.read_sqlite(folder / self.database)


def find_apps() -> tuple[App, ...]:
    """Return all applications, webtraj-apps' own first. A broken application gives a warning."""
    found = []
    for source in names.sources().values():
        if source.app is not None:
            try:
                found.append(source.load_app())
            except errors.WebtrajError as error:  # One package must not stop the others.
                warnings.warn(str(error), stacklevel=2)
    return tuple(found)


def find_app(name: str) -> App:
    """Return an application by name.

    Raises:
        InvalidInputError: No application has that name, or it cannot be imported.
    """
    source = names.find(name)
    if source is None or source.app is None:
        known = [name for name, one in names.sources().items() if one.app is not None]
        raise errors.InvalidInputError(
            f"No application {name!r:.60}. Choose one of {', '.join(known)}."
        )
    return source.load_app()


class WorldCopy:
    """A copy of a world at some moment, kept as long as something refers to it.

    Args:
        folder: The folder of its state, which belongs to the copy.
        documents: See `World.documents`.
        seed: The world's seed.
    """

    def __init__(self, folder: Path, documents: Mapping[str, bytes], seed: int) -> None:
        self.folder, self.documents, self.seed = folder, documents, seed
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True).atexit = False


class World:
    """An isolated copy of an application's state, from the same first moment.

    Args:
        app: The application.
        host: Its server.
        content: The folder of the state to copy.
        seed: The seed that chose it.
        copy: The copied world to start from instead. Until `rewind`, requests for pages get the
            same bytes that the copied world sent, so that a browser can load the pages again.
    """

    def __init__(
        self, app: App, host: _Host, content: Path, seed: int, copy: WorldCopy | None = None
    ) -> None:
        self.app = app
        self.seed = seed
        self.facts = app.facts(seed)
        self._host = host
        self._answering = 0
        self._open = asyncio.Event()
        self._open.set()
        self._copied = copy
        self.failure: errors.BrowserError | None = None
        """Why its server did not answer a request; None if it always did."""
        self.folder = host.new_world(content if copy is None else copy.folder)
        """The folder of its state."""
        self.documents = {} if copy is None else dict(copy.documents)
        """The last answer to each request for a page, by its path: what browsers keep, too."""

    async def copy(self) -> WorldCopy:
        """Return a copy of the world as it is, once every request is answered."""
        await self.idle()
        folder = self._host.new_world(self.folder)
        return WorldCopy(folder, dict(self.documents), self.seed)

    async def rewind(self) -> None:
        """Undo all changes since the world was made from a copy, and answer requests normally."""
        copy, self._copied = self._copied, None
        if copy is not None:
            await self.idle()
            self.discard()
            self.folder = self._host.new_world(copy.folder)
            self.documents = dict(copy.documents)

    @property
    def name(self) -> str:
        """Its name, unique among all worlds of the server."""
        return self.folder.name

    def read(self) -> state_lib.State:
        """Return its state as rows."""
        return self.app.read(self.folder)

    def execute(self, statements: Iterable[tuple[str, tuple[Any, ...]]]) -> None:
        """Change its database directly."""
        file = self.folder / self.app.database
        with contextlib.closing(sqlite3.connect(file)) as database, database:
            for statement, values in statements:
                database.execute(statement, values)

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, begun: bytes = b""
    ) -> None:
        """Answer a browser's connection to the application. See `network.Serve`.

        If the server dies or hangs, the connection ends, and `failure` says why.

        Args:
            reader: The stream from the browser.
            writer: The stream to the browser.
            begun: The part of the request that was read already.
        """
        begun = begun or await reader.read(CHUNK)  # Browsers open connections they may not use.
        if not begun:
            return
        page = page_asked_for(begun)
        await self._open.wait()
        if self._copied is not None and page in self.documents:
            writer.write(self.documents[page])
            await writer.drain()
            return
        self._answering += 1
        noting = _Noting(writer) if page else None
        try:
            request = f"WORLD {self.name}\n".encode() + begun
            answer = writer if noting is None else cast(asyncio.StreamWriter, noting)
            await self._host.answer((reader, answer), request)
            if noting is not None and not noting.written.startswith(_NOT_MODIFIED):
                self.documents[page] = bytes(noting.written)
        except errors.BrowserError as error:
            self.failure = error
        finally:
            self._answering -= 1

    @contextlib.asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """Hold back all requests within the context."""
        await self.idle()
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    async def submit(self, user: str, path: str, **fields: str) -> None:
        """Fill in a form of a page as a logged-in user, and send it. See `forms.submit`.

        Raises:
            LookupError: There is no such user, page or form, or the application refuses it.
            BrowserError: The server does not answer.
        """
        cookies = self.facts["cookies"][user]
        await forms.submit(self._ask, self.app.origin, path, fields, cookies)

    async def _ask(self, request: bytes) -> bytes:
        reader, writer = await self._host.connect()
        try:
            writer.write(f"WORLD {self.name}\n".encode() + request)
            async with asyncio.timeout(_HUNG_SECONDS):
                return await reader.read()
        except OSError as error:  # TimeoutError is one.
            raise errors.BrowserError(
                f"The server of {self.app.title} does not answer: {error!r}"
            ) from error
        finally:
            writer.close()

    async def idle(self) -> None:
        """Wait until every request is answered, but not for ever."""
        for _ in range(_IDLE_TRIES):
            if not self._answering:
                return
            await asyncio.sleep(_IDLE_SECONDS)

    def discard(self) -> None:
        """Throw the world away. Idempotent."""
        shutil.rmtree(self.folder, ignore_errors=True)


class _Noting:
    """A stream writer that notes what it writes."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.written = bytearray()

    def write(self, data: bytes) -> None:
        self.written += data
        self._writer.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)


_NOT_MODIFIED = (b"HTTP/1.0 304", b"HTTP/1.1 304")


def page_asked_for(request: bytes) -> str:
    """Return the path of a request by which a browser opens a page; empty for other requests."""
    first, _, rest = request.partition(b"\r\n")
    opens = b"\r\nupgrade-insecure-requests:" in b"\r\n" + rest.lower()
    return first.split(b" ")[1].decode("latin-1") if opens and first.startswith(b"GET ") else ""


_Stream: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Host:
    """The server of an application's worlds, in this process's name."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._made = 0
        self._answered = 0
        """How many requests were answered, by any process."""
        # Short: the path of a socket may have 104 characters at the most.
        self.root = Path(tempfile.mkdtemp(prefix=f"webtraj-{app.name}-"))
        self._log = self.root / "log"

    def new_world(self, content: Path) -> Path:
        with self._lock:
            self._made += 1
            folder = self.root / f"w{self._made}"
        shutil.copytree(content, folder, copy_function=shutil.copyfile)
        return folder

    def start(self) -> subprocess.Popen[bytes]:
        """Start the server unless it runs; wait until it listens.

        Raises:
            BrowserError: It does not start.
        """
        try:
            return self._start()
        except OSError as error:
            raise errors.BrowserError(
                f"The server of {self._app.title} cannot be started: {error}"
            ) from error

    def _start(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self._process
            self._close_input()
            (self.root / _SOCKET).unlink(missing_ok=True)
            arguments = (str(self.root), str(self._app.megabytes))
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._app._serve("serve", *arguments),
                    stdin=subprocess.PIPE,  # Its end tells the server that we are gone.
                    stdout=log,
                    stderr=log,
                    env=_environment(),
                    process_group=0,  # Ctrl-C is for us.
                )
            ended = time.monotonic() + _START_SECONDS
            while not (self.root / _SOCKET).exists():
                if self._process.poll() is not None or time.monotonic() > ended:
                    self._process.kill()
                    raise errors.BrowserError(
                        f"The server of {self._app.title} did not start. Its last output:\n"
                        f"{_tail(self._log.read_bytes())}"
                    )
                time.sleep(0.01)
            return self._process

    def _close_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def ready(self) -> None:
        """Start the server unless it runs, and replace it if it hangs.

        Raises:
            BrowserError: It does not start.
        """
        process = await asyncio.to_thread(self.start)
        if not await self._pings():
            _kill(process)
            await asyncio.to_thread(self.start)

    async def answer(self, near: _Stream, request: bytes) -> None:
        """Pass a request to the server, and its answer to the browser.

        Raises:
            BrowserError: The server died or hung before it had answered, or does not start.
        """
        far = await self.connect()
        process = self._process
        talk = asyncio.ensure_future(browser.pipe_both(near, far))
        silent, answered = 0, self._answered
        has_answered = False
        try:
            far[1].write(request)
            while not (await asyncio.wait({talk}, timeout=1.0))[0]:
                # Count turns, not time: while this process is stopped, no server is silent.
                silent = silent + 1 if answered == self._answered else 0
                answered = self._answered
                if silent >= _HUNG_SECONDS or (
                    silent >= _SILENT_SECONDS and not await self._pings()
                ):
                    _kill(process)
                    break
            else:
                self._answered += 1
                has_answered = talk.exception() is not None or talk.result()
        finally:
            talk.cancel()
            await asyncio.gather(talk, return_exceptions=True)
            far[1].close()
        if has_answered and (process is None or process.poll() is None):
            return
        did = "ended while it answered"
        if not await asyncio.to_thread(_ends, process):
            did = "closed a connection without an answer"
        raise errors.BrowserError(
            f"The server of {self._app.title} {did}. Its last output:\n"
            f"{_tail(self._log.read_bytes())}"
        )

    async def _pings(self) -> bool:
        """Return whether the server closes a connection that asks for nothing."""
        for _ in range(2):
            with contextlib.suppress(OSError):  # TimeoutError is one.
                async with asyncio.timeout(_PING_SECONDS):
                    reader, writer = await self._connect()
                    try:
                        writer.write_eof()
                        await reader.read()
                        return True
                    finally:
                        writer.close()
        return False

    async def connect(self) -> _Stream:
        """Return a connection to the server, which is restarted if it died.

        Raises:
            BrowserError: It does not start, or accepts no connections.
        """
        try:
            return await self._connect()
        except OSError:
            await asyncio.to_thread(self.start)
        try:
            return await self._connect()
        except OSError as error:
            raise errors.BrowserError(
                f"The server of {self._app.title} accepts no connections: {error}"
            ) from error

    async def _connect(self) -> _Stream:
        ended = time.monotonic() + _CONNECT_SECONDS
        while True:
            reader, writer = await asyncio.open_unix_connection(self.root / _SOCKET)
            # If too many wait already (EAGAIN), asyncio takes the socket for connected. It is not.
            if writer.get_extra_info("peername") is not None:
                return reader, writer
            writer.close()
            if time.monotonic() > ended:
                raise ConnectionRefusedError(f"{self._app.title} has too many requests waiting.")
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        """End the server and throw all worlds away. Idempotent."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._close_input()
        shutil.rmtree(self.root, ignore_errors=True)


def _ends(process: subprocess.Popen[bytes] | None) -> bool:
    """Return whether a server has ended, or ends shortly after its connections were closed."""
    try:
        return process is not None and process.wait(_END_SECONDS) is not None
    except subprocess.TimeoutExpired:
        return False


def _kill(process: subprocess.Popen[bytes] | None) -> None:
    """Kill a server that hangs, and the processes that it started."""
    if process is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


_hosts: dict[tuple[str, int], _Host] = {}
_hosts_lock = threading.Lock()


def _host_of(app: App) -> _Host:
    """Return the application's server in this process. A forked process gets its own."""
    with _hosts_lock:
        key = (str(app.contents), os.getpid())
        if key not in _hosts:
            _hosts[key] = _Host(app)
            atexit.register(_stop, key)
        return _hosts[key]


def _stop(key: tuple[str, int]) -> None:
    if key[1] == os.getpid():
        _hosts[key].stop()


@functools.lru_cache
def _facts(content: Path) -> Mapping[str, Any]:
    facts: Mapping[str, Any] = json.loads(content.with_suffix(".json").read_text("utf-8"))
    return facts


def _environment() -> dict[str, str]:
    """Return an application's environment variables: ours, without those for our Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "", "LC_ALL": "C.UTF-8"}


def _find_uv() -> str | None:
    """Return the path of uv; None if there is none, or `WEBTRAJ_INSTALLER` is `pip`."""
    if os.environ.get("WEBTRAJ_INSTALLER") == "pip":
        return None
    return shutil.which("uv", path=f"{sys.prefix}/bin{os.pathsep}{os.environ.get('PATH', '')}")


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:12]


def _tail(output: bytes) -> str:
    return "\n".join(output.decode(errors="replace").splitlines()[-_LOG_LINES:])
