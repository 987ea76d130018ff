"""Finding the browser, and its processes: guarded starts, memory, killing."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from webtraj import errors as errors_lib
from webtraj.environments.browser import guard as guard_lib

__all__ = [
    "BrowserExecutable",
    "GuardedCommand",
    "RunFolder",
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
    broken = None
    for path in _playwright_downloads():
        version = _version_of(path)
        if version:
            return BrowserExecutable(str(path), version, "playwright")
        broken = broken or path
    for name in _SYSTEM_NAMES:
        found = shutil.which(name)
        version = _version_of(Path(found)) if found else ""
        if found and version:
            return BrowserExecutable(str(_without_wrapper(Path(found))), version, "system")
    looked = f"not in Playwright's downloads, and none of {', '.join(_SYSTEM_NAMES)} runs from PATH"
    if broken:
        looked = (
            f"{str(broken)!r} does not start, probably because system libraries are missing; "
            "`python -m playwright install-deps chromium` installs them"
        )
    raise errors_lib.BrowserNotFoundError(_NOT_FOUND.format(looked=looked))


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
    downloads = [path for path in _playwright_downloads() if not _is_headless_shell(path)]
    for source, paths in (("system", installed), ("playwright", downloads)):
        for path in paths:
            if version := _version_of(path):
                program = _without_wrapper(path) if source == "system" else path
                return BrowserExecutable(str(program), version, source)  # type: ignore[arg-type]
    raise errors_lib.BrowserNotFoundError(_NO_WINDOW)


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
    """The file with the guard's process id, which becomes the program's."""

    @property
    def pid(self) -> int:
        """The program's process id; known once the program has responded."""
        return int(self.pid_file.read_text())

    def find(self) -> list[int]:
        """Return the command's processes: the program, or the guard before it."""
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

    def guarded(self, program: str) -> GuardedCommand:
        """Write a command that runs `program` under the guard."""
        name = f"{Path(program).name}-{next(self._numbers)}"
        command = GuardedCommand(self.path / name, self.path / f"{name}.pid")
        guard = [sys.executable, "-I", "-S", guard_lib.__file__, str(command.pid_file), program]
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
    """Signal the process group that `pid` leads; does nothing if it is gone."""
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
    """Kill what a folder's commands started, and remove it, unless in a fork of its owner."""
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
