"""Browser processes: finding a browser, guarded starts, the driver, memory, killing.

A driver is the Node process through which a pool controls all its browsers; both run under the
guard.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import importlib
import importlib.metadata
import inspect
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from webtraj import errors as errors_lib
from webtraj.environments.browser import clipboard as clipboard_lib
from webtraj.environments.browser import guard as guard_lib
from webtraj.environments.browser.lease import CallGuard

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright

__all__ = [
    "BrowserExecutable",
    "Driver",
    "GuardedCommand",
    "RunFolder",
    "RunningBrowser",
    "find_browser",
    "find_headed_browser",
    "kill_group",
    "private_memory",
    "process_alive",
    "process_exists",
    "stop_group",
]

# The browser to run: found once, named in every record.
#
# The order is: the file that `WEBTRAJ_BROWSER` names; Playwright's own download; then the system's
# Chromium, the headless shell first, since it starts faster and uses a quarter of the memory.

ENVIRONMENT_VARIABLE = "WEBTRAJ_BROWSER"

_SYSTEM_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

_NOT_FOUND = (
    "No browser was found: {looked}. Run `python -m playwright install chromium-headless-shell`, "
    "or on Debian `apt-get install chromium-headless-shell`, or set "
    f"{ENVIRONMENT_VARIABLE} to the path of a Chromium."
)

_HEADED_NAMES = ("google-chrome", "google-chrome-stable", "chromium", "chromium-browser", "chrome")
_HEADED_PATHS = (
    Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
    Path("/Applications/Chromium.app/Contents/MacOS/Chromium"),
)
_NO_WINDOW = (
    "No browser that can show a window was found: neither Chrome nor Chromium is installed. "
    "Run `python -m playwright install chromium`, or on Debian `apt-get install chromium`, or set "
    f"{ENVIRONMENT_VARIABLE} to the path of a Chromium."
)

_VERSION_TIMEOUT = 20.0
"""Seconds for `--version`; a cold start of full Chromium from a slow disk takes several."""


@dataclasses.dataclass(frozen=True, slots=True)
class BrowserExecutable:
    """A browser that can be run."""

    path: str | None
    """Path of the program itself, not of a wrapper script; None lets Playwright choose."""
    version: str
    """Its `--version` output, such as `Chromium 156.0.8078.79`."""
    source: Literal["playwright", "system", "WEBTRAJ_BROWSER"]
    """Where it was found."""


def find_browser() -> BrowserExecutable:
    """Return the browser to run.

    Raises:
        BrowserNotFoundError: No browser was found, or the one in `WEBTRAJ_BROWSER` does not run.
    """
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        return _browser_named_by_user(named)
    installed = (Path(found) for name in _SYSTEM_NAMES if (found := shutil.which(name)))
    browser = _first_that_runs(playwright=_playwright_downloads(), system=installed)
    if browser is not None:
        return browser
    looked = f"not in Playwright's downloads, and none of {', '.join(_SYSTEM_NAMES)} runs from PATH"
    if broken := next(_playwright_downloads(), None):
        looked = (
            f"{str(broken)!r} does not start, probably because system libraries are missing; "
            "`python -m playwright install-deps chromium` installs them"
        )
    raise errors_lib.BrowserNotFoundError(_NOT_FOUND.format(looked=looked))


def _first_that_runs(**places: Iterable[Path]) -> BrowserExecutable | None:
    """Return the first browser that runs. Its `source` is the keyword of its path."""
    for source, paths in places.items():
        for path in paths:
            if version := _version_of(path):
                program = _without_wrapper(path) if source == "system" else path
                return BrowserExecutable(str(program), version, source)  # type: ignore[arg-type]
    return None


def find_headed_browser() -> BrowserExecutable:
    """Return a browser that can show a window.

    The order is: the file that `WEBTRAJ_BROWSER` names; an installed Chrome or Chromium, which
    people know; then Playwright's own download.

    Raises:
        BrowserNotFoundError: None was found, or the one in `WEBTRAJ_BROWSER` does not run.
    """
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named and not _is_headless_shell(Path(named)):
        return _browser_named_by_user(named)
    installed = [Path(found) for name in _HEADED_NAMES if (found := shutil.which(name))]
    installed += [path for path in _HEADED_PATHS if path.exists()]
    downloads = (path for path in _playwright_downloads() if not _is_headless_shell(path))
    browser = _first_that_runs(system=installed, playwright=downloads)
    if browser is None:
        raise errors_lib.BrowserNotFoundError(_NO_WINDOW)
    return browser


def _is_headless_shell(path: Path) -> bool:
    return "headless" in path.name


def _browser_named_by_user(named: str) -> BrowserExecutable:
    path = shutil.which(named)
    version = _version_of(Path(path)) if path else ""
    if not path or not version:
        looked = f"{ENVIRONMENT_VARIABLE}={named!r} is not a browser that runs"
        raise errors_lib.BrowserNotFoundError(_NOT_FOUND.format(looked=looked))
    return BrowserExecutable(str(_without_wrapper(Path(path))), version, "WEBTRAJ_BROWSER")


def _playwright_downloads() -> Iterator[Path]:
    """Yield the Chromiums in Playwright's download folder, newest revision first.

    The folder is read directly, because asking Playwright would start its driver.
    """
    folder = _playwright_folder()
    patterns = (
        "chromium_headless_shell-*/*/*headless[-_]shell",
        "chromium-*/*/chrome",
        "chromium-*/*/*.app/Contents/MacOS/*",
    )
    for pattern in patterns:
        found = folder.glob(pattern)
        yield from sorted(found, key=lambda path: _revision(path, folder), reverse=True)


def _playwright_folder() -> Path:
    given = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "")
    if given and given != "0":
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/ms-playwright"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ms-playwright"


def _revision(path: Path, folder: Path) -> int:
    revision = path.relative_to(folder).parts[0].rpartition("-")[2]
    return int(revision) if revision.isdigit() else 0


def _version_of(path: Path) -> str:
    """Return the program's `--version` output; empty if it does not run."""
    try:
        done = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _without_wrapper(path: Path) -> Path:
    """Return the program that a one-line shell wrapper runs, or else the path itself.

    Debian's `chromium-headless-shell` is such a wrapper. It stays alive, so a signal to it would
    not reach the browser.
    """
    try:
        head = path.read_bytes()[:512]
    except OSError:
        return path
    found = re.fullmatch(rb'#!/bin/sh[^\n]*\n\s*(?:exec )?(/[^\s"]+) "\$@"\s*', head)
    if found is None:
        return path
    program = Path(os.fsdecode(found.group(1)))
    return program if os.access(program, os.X_OK) else path


# Browser processes: guarded starts, memory, and killing.

_FOLDER_PREFIX = "webtraj-run-"

_POLL_INTERVAL = 0.01
"""Seconds between checks of an ending process; no portable call waits for a grandchild."""


@dataclasses.dataclass(frozen=True, slots=True)
class GuardedCommand:
    """A command that runs a program under the guard, once."""

    path: Path
    """The command to run instead of the program."""
    pid_file: Path
    """The file with the guard's process id, which is the program's if the guard became it."""

    @property
    def pid(self) -> int:
        """The id of the program's group; known once the program has responded."""
        return int(self.pid_file.read_text())

    def find(self) -> list[int]:
        """Return the command's processes: the program, or the guard that will run it."""
        with contextlib.suppress(FileNotFoundError):
            if pid := self.pid_file.read_text():
                return [int(pid)]
        found = []
        for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # It may end while we read.
                if os.fsencode(self.path) in cmdline.read_bytes():
                    found.append(int(cmdline.parent.name))
        return found

    def abort(self) -> None:
        """Kill what the command started, or keep it from ever starting."""
        # The guard exits if its file exists already.
        with contextlib.suppress(FileNotFoundError):  # The guard also exits if the folder is gone.
            try:
                self.pid_file.touch(exist_ok=False)
            except FileExistsError:
                if pid := self.pid_file.read_text():
                    kill_group(int(pid))


class RunFolder:
    """A pool's temporary folder: guarded commands, process ids, browser profiles.

    Its name holds our process id. A killed process leaves its folder behind; the machine's next
    pool removes it.
    """

    def __init__(self) -> None:
        _sweep_dead_folders(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{os.getpid()}-"))
        self._numbers = itertools.count()
        # For a pool that was never closed: its event loop is gone, or Python exits.
        self._forget = weakref.finalize(self, _kill_all_in, self.path, os.getpid())

    def guard(self, program: str, *, by_thread: bool = False) -> GuardedCommand:
        """Write a command that runs `program` under the guard.

        Args:
            program: The path of the program.
            by_thread: Whether the thread that starts the program may end before the program.
        """
        name = f"{Path(program).name}-{next(self._numbers)}"
        command = GuardedCommand(self.path / name, self.path / f"{name}.pid")
        guard = [sys.executable, "-I", "-S", guard_lib.__file__, str(command.pid_file)]
        guard += ["thread" if by_thread else "process", program]
        # TMPDIR: browser profiles go into this folder, to be removed with it.
        command.path.write_text(
            f'#!/bin/sh\nTMPDIR={shlex.quote(str(self.path))} exec {shlex.join(guard)} "$@"\n'
        )
        command.path.chmod(0o700)
        return command

    def remove(self) -> None:
        """Remove the folder; later writes of a dying browser are left to the next sweep."""
        self._forget.detach()
        shutil.rmtree(self.path, ignore_errors=True)


def process_exists(pid: int) -> bool:
    """Return whether the process exists, even as a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def process_alive(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    if not process_exists(pid):
        return False
    with contextlib.suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] != "Z"
    return True


def kill_group(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Signal the process group that `pid` leads. Do nothing if it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


async def stop_group(pid: int, *, patience: float) -> None:
    """End a process group: wait `patience` seconds, send SIGTERM, wait again, send SIGKILL.

    Returns when its leader is gone.
    """
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            kill_group(pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while process_alive(pid):  # noqa: ASYNC110 (no event tells of a grandchild)
                    await asyncio.sleep(_POLL_INTERVAL)
                break
    kill_group(pid)  # Children that outlived their leader.


def private_memory(group: int) -> int | None:
    """Return the private memory of a process group in bytes; None if /proc cannot tell."""
    if sys.platform != "linux":
        return None
    page_size = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):  # The process may end while we read.
            if os.getpgid(int(entry.name)) == group:
                _, resident, shared, *_ = Path(entry.path, "statm").read_text().split()
                total += (int(resident) - int(shared)) * page_size
    return total


def _kill_all_in(folder: Path, owner: int) -> None:
    """Kill what a folder's commands started, and remove the folder; do nothing in a fork."""
    if os.getpid() != owner:
        return
    ours = b"TMPDIR=" + os.fsencode(folder)
    for pid_file in folder.glob("*.pid"):
        with contextlib.suppress(OSError):  # It has ended, or there is no /proc to ask.
            pid = pid_file.read_text()
            # By now its number may be another process's.
            if ours in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                kill_group(int(pid))
    shutil.rmtree(folder, ignore_errors=True)


def _sweep_dead_folders(parent: Path) -> None:
    for folder in parent.glob(f"{_FOLDER_PREFIX}*-*"):
        owner = folder.name.removeprefix(_FOLDER_PREFIX).partition("-")[0]
        if owner.isdigit() and not process_alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


# One Playwright driver, and one browser under it: start, watch, stop.

_START_GRACE = 5.0
"""Seconds for an abandoned start to end; it takes less than one."""

_DRIVER_ENDED = (
    "Playwright's driver ended during startup; it was run by {node!r}. Its own message is on "
    "stderr; `webtraj doctor` lists what is missing on this machine."
)
_UNKNOWN_PLAYWRIGHT = (
    "webtraj cannot guard the driver of Playwright {version}, which could outlive this process, so "
    "it did not start it. Run `pip install 'playwright>=1.59,<1.66'`, or upgrade webtraj."
)

_TRANSPORTS = ("playwright._impl.transport", "playwright._impl._transport")
"""The module of Playwright that starts the driver: the current one, and that of 1.59."""

_guard_node: ContextVar[Callable[[str], str] | None] = ContextVar("_guard_node", default=None)
"""The command to run in place of Node, set in tasks that start our driver."""

_patching = threading.Lock()

_ARGUMENTS = (
    # Renders identically on every machine, so that screenshots can be compared.
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--disable-lcd-text",
)


async def _await_start(start: Awaitable[Playwright]) -> Playwright:
    """Await Playwright's start; raise a `BrowserCrashedError` if Ctrl-C interrupts it.

    Ctrl-C raises KeyboardInterrupt in one of Playwright's tasks and stops the event loop. Awaiting
    that task would raise it a second time: in a notebook, in the next cell.
    """
    try:
        return await start
    except KeyboardInterrupt as error:
        message = (
            "The start of Playwright's driver was interrupted. Reset the environment to continue."
        )
        raise errors_lib.BrowserCrashedError(message) from error


class Driver:
    """Playwright's driver process."""

    def __init__(self, folder: RunFolder, playwright: Playwright, pid: int) -> None:
        self.playwright = playwright
        self._folder = folder
        self.pid = pid
        """The driver's process id."""

    @classmethod
    async def start(cls, folder: RunFolder, *, seconds: float) -> Driver:
        """Start the driver.

        Raises:
            MissingDependencyError: Playwright is not installed.
            BrowserCrashedError: It exited at once.
            BrowserTimeoutError: It did not start in `seconds`.
        """
        try:
            from playwright.async_api import async_playwright
        except ImportError as error:
            raise errors_lib.missing_dependency(
                "The browser environment needs Playwright", "web"
            ) from error
        _let_playwright_ask_for_node()
        start = _Start(folder)
        asked = _guard_node.set(start.guard)
        try:
            starting = asyncio.ensure_future(_await_start(async_playwright().start()))
        finally:
            _guard_node.reset(asked)
        try:
            playwright = await CallGuard().run(
                asyncio.shield(starting), what="start its driver", seconds=seconds
            )
        except BaseException as error:
            wanted = not isinstance(error, asyncio.CancelledError)
            await start.end(starting, patience=0.0 if wanted else _START_GRACE)
            if _is_cancelled(asyncio.current_task()):
                raise asyncio.CancelledError from None
            if isinstance(error, errors_lib.WebtrajError) or not isinstance(error, Exception):
                raise
            # Playwright raises a bare Exception if its driver exits.
            raise errors_lib.BrowserCrashedError(_DRIVER_ENDED.format(node=start.node)) from error
        if start.command is None:
            await playwright.stop()
            raise _unknown_playwright()
        return cls(folder, playwright, start.command.pid)

    @property
    def alive(self) -> bool:
        """Whether the driver's process runs."""
        return process_alive(self.pid)

    async def answers(self, *, seconds: float) -> bool:
        """Return whether the driver itself answers within `seconds`."""
        try:
            await CallGuard().run(self._ping(), what="answer", seconds=seconds)
        except errors_lib.BrowserError:
            return False
        return True

    async def _ping(self) -> None:
        # The driver's cheapest call that needs no browser.
        context = await self.playwright.request.new_context()
        await context.dispose()

    async def launch(
        self, executable: str, *, headless: bool, arguments: Sequence[str], seconds: float
    ) -> RunningBrowser:
        """Launche a browser under this driver."""
        command = self._folder.guard(executable)
        with _aborting(command):
            browser = await CallGuard().run(
                self.playwright.chromium.launch(
                    executable_path=command.path,
                    headless=headless,
                    args=[*_ARGUMENTS, *arguments],
                    # webtraj handles Ctrl-C: it seals episodes before it closes browsers.
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                    timeout=seconds * 1000,
                ),
                what="start",
                seconds=seconds,
            )
        return RunningBrowser(browser, command.pid)

    async def connect(
        self, endpoint: str, *, seconds: float, untouched: bool = False
    ) -> RunningBrowser:
        """Connect to a browser that runs elsewhere.

        Args:
            endpoint: A CDP endpoint (`http://host:9222`, `ws://host:9222/devtools/browser/...`), or
                a Playwright server (any other `ws://` or `wss://` address).
            seconds: The deadline.
            untouched: Whether to keep the settings of the browser's own context. Only for CDP.
        """
        chromium = self.playwright.chromium
        is_cdp = endpoint.startswith("http") or "/devtools/" in endpoint
        call: Awaitable[Browser]
        if untouched:
            takes = inspect.signature(chromium.connect_over_cdp).parameters
            options: dict[str, Any] = {"no_defaults": True} if "no_defaults" in takes else {}
            call = chromium.connect_over_cdp(endpoint, **options)
        else:
            call = chromium.connect_over_cdp(endpoint) if is_cdp else chromium.connect(endpoint)
        what = f"accept a connection at {endpoint}, which a hanging tab prevents,"
        browser = await CallGuard().run(call, what=what, seconds=seconds)
        return RunningBrowser(browser, None)

    async def stop(self, *, patience: float) -> None:
        """Stop the driver, by force if it does not stop in `patience` seconds."""
        try:
            await CallGuard().run(self.playwright.stop(), what="stop its driver", seconds=patience)
        except errors_lib.BrowserError:
            await stop_group(self.pid, patience=patience)
        except asyncio.CancelledError:
            self.kill()
            await _wait_until_reaped(self.pid)
            raise
        else:
            # A driver that still runs was never asked to stop: its event loop ended and cancelled
            # the task that talks to it.
            self.kill()
        await _wait_until_reaped(self.pid)

    def kill(self) -> None:
        """Kill the driver at once."""
        kill_group(self.pid)


class RunningBrowser:
    """A browser and the call guards of its leases.

    Args:
        browser: Playwright's browser.
        pid: Its process id; None if webtraj did not start it and so must not kill it.
    """

    def __init__(self, browser: Browser, pid: int | None) -> None:
        self._browser = browser
        self._call_guards: set[CallGuard] = set()
        self._lost = False
        self.pid = pid
        self.clipboard = clipboard_lib.Clipboard(browser)
        self.contexts_made = 0
        self.failures_in_a_row = 0
        """The number of failed leases since the last good one."""
        browser.on("disconnected", lambda _: self.lose("The browser process died"))

    @property
    def version(self) -> str:
        """The version that the browser reports."""
        return self._browser.version

    @property
    def usable(self) -> bool:
        """Whether it can open new contexts."""
        return not self._lost and self._browser.is_connected()

    @property
    def leases(self) -> int:
        """The number of contexts in use."""
        return len(self._call_guards)

    def private_memory(self) -> int | None:
        """Return the bytes held by the browser's processes; None if unknown."""
        return None if self.pid is None else private_memory(self.pid)

    def lose(self, reason: str) -> None:
        """Fail everything that runs in this browser."""
        self._lost = True
        for call_guard in self._call_guards:
            call_guard.cut(reason)

    def borrow_context(self, call_guard: CallGuard) -> BrowserContext:
        """Return the browser's own context. If the browser dies, `call_guard` is cut."""
        if not self._browser.contexts:
            raise errors_lib.BrowserError("The browser has no context of its own.")
        self._call_guards.add(call_guard)
        return self._browser.contexts[0]

    async def new_context(
        self, call_guard: CallGuard, options: Mapping[str, Any], *, seconds: float
    ) -> BrowserContext:
        """Open a context; if the browser dies, `call_guard` is cut."""
        self._call_guards.add(call_guard)
        self.contexts_made += 1
        try:
            return await call_guard.run(
                self._browser.new_context(**options), what="open a context", seconds=seconds
            )
        except BaseException:
            self._call_guards.discard(call_guard)
            raise

    def forget(self, call_guard: CallGuard) -> None:
        """Stop tracking a released context."""
        self._call_guards.discard(call_guard)

    async def close(self, *, patience: float) -> None:
        """Close the browser, by force if it does not close in `patience` seconds."""
        self.lose("The browser was closed")
        try:
            await CallGuard().run(self._browser.close(), what="close", seconds=patience)
        except errors_lib.BrowserCrashedError:
            self.kill()  # Without a driver, the browser cannot be asked to close.
        except errors_lib.BrowserError:
            pass
        if self.pid is not None:
            await stop_group(self.pid, patience=patience)

    def kill(self) -> None:
        """Kill the browser at once."""
        self.lose("The browser was killed")
        if self.pid is not None:
            kill_group(self.pid)


class _Start:
    """The start of one driver, until it runs or has been cleaned up."""

    def __init__(self, folder: RunFolder) -> None:
        self.node = ""
        self.command: GuardedCommand | None = None
        self._folder = folder
        self._ended = False

    def guard(self, node: str) -> str:
        """Return the command that runs Node under the guard."""
        if self._ended:
            raise errors_lib.BrowserCrashedError("The start of this driver was abandoned.")
        self.node = node
        here = threading.current_thread()
        self.command = self._folder.guard(node, by_thread=here is not threading.main_thread())
        return str(self.command.path)

    async def end(self, starting: asyncio.Future[Playwright], *, patience: float) -> None:
        """End the start, within a few times `_START_GRACE` seconds.

        Args:
            starting: Playwright's part of the start.
            patience: Seconds to let it succeed first: a running driver can be stopped cleanly, with
                its pipes closed.
        """
        if patience and not _is_cancelled(starting):
            await _wait_until_done(starting, seconds=patience)
        self._ended = True
        running = starting.done() and not starting.cancelled() and starting.exception() is None
        if running:
            stopping = asyncio.ensure_future(starting.result().stop())
            await _wait_until_done(stopping, seconds=_START_GRACE)
            stopping.cancel()
        if self.command is not None:
            started = self.command.find()
            self.command.abort()
            for pid in started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)  # It may not lead a group yet.
                await _wait_until_reaped(pid)
        if not _is_cancelled(starting):  # Playwright notices that its driver has ended.
            await _wait_until_done(starting, seconds=_START_GRACE)
        starting.cancel()  # Again if needed: asyncio's own process start may hang.
        await _wait_until_done(starting, seconds=_START_GRACE)


def _is_cancelled(task: asyncio.Future[Any] | None) -> bool:
    """Return whether the task was cancelled, as all are when their event loop ends."""
    return isinstance(task, asyncio.Task) and (task.cancelled() or task.cancelling() > 0)


async def _wait_until_done(future: asyncio.Future[Any], *, seconds: float) -> None:
    """Wait until a future is done, at most `seconds`, even when cancelled (see `_is_cancelled`)."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not future.done() and loop.time() < deadline:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([future], timeout=deadline - loop.time())


async def _wait_until_reaped(pid: int) -> None:
    """Wait until asyncio has noticed a child's end and closed its pipes.

    Wait at most `_START_GRACE` seconds, even when cancelled: only the loop can close the pipes, and
    it may be about to end.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _START_GRACE
    turns = 5  # The callbacks take a few turns; they come from asyncio's waiting thread.
    while turns and loop.time() < deadline:
        turns -= not process_exists(pid)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)


def _let_playwright_ask_for_node() -> None:
    """Make Playwright run Node under the guard, in tasks that have set `_guard_node`.

    The public way, the environment variable PLAYWRIGHT_NODEJS_PATH, would affect all threads and
    tasks of this process and all its children.

    Raises:
        MissingDependencyError: This version of Playwright finds its driver differently.
    """
    with _patching:
        for name in _TRANSPORTS:
            with contextlib.suppress(ImportError):
                transport: Any = importlib.import_module(name)
                break
        else:
            raise _unknown_playwright()
        find = getattr(transport, "compute_driver_executable", None)
        if find is None:
            raise _unknown_playwright()
        if hasattr(find, "__wrapped__"):
            return

        @functools.wraps(find)
        def find_guarded() -> tuple[str, str]:
            node, script = find()
            guard = _guard_node.get()
            return (node if guard is None else guard(node)), script

        transport.compute_driver_executable = find_guarded


def _unknown_playwright() -> errors_lib.MissingDependencyError:
    version = importlib.metadata.version("playwright")
    return errors_lib.MissingDependencyError(_UNKNOWN_PLAYWRIGHT.format(version=version))


@contextlib.contextmanager
def _aborting(command: GuardedCommand) -> Iterator[None]:
    """Clean up after a start that fails or is cancelled, because a process may have started."""
    try:
        yield
    except BaseException:
        command.abort()
        raise
