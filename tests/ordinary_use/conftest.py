"""What the programs of several tests need: a run that cannot hang, and a look at what it left."""

import asyncio
import concurrent.futures
import gc
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import warnings
from pathlib import Path

import psutil
import pytest

_HANG = 240
"""Seconds after which a program hangs, on a busy machine too."""


def _lives(child):
    try:
        # multiprocessing keeps its tracker until Python exits.
        tracks = "resource_tracker" in str(child.cmdline())
        return child.status() != psutil.STATUS_ZOMBIE and not tracks
    except psutil.Error:
        return False


def _ours():
    """Returns the processes and folders that this process has."""
    children = [child for child in psutil.Process().children(recursive=True) if _lives(child)]
    folders = Path(tempfile.gettempdir()).glob(f"webtraj-run-{os.getpid()}-*")
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("as_")]
    return {*children, *folders, *threads}


@pytest.fixture
def nothing_left():
    """Fails if a test leaves a process, a temporary folder or a bridge's thread."""
    before = _ours()
    yield
    deadline = time.monotonic() + 30
    while left := _ours() - before:
        if time.monotonic() > deadline:
            pytest.fail(f"left behind: {sorted(map(str, left))}")
        time.sleep(0.05)


@pytest.fixture
def run(nothing_left):
    """Returns a function like `asyncio.run` that fails if it hangs or leaves a pipe open."""

    def run(main):
        result = concurrent.futures.Future()

        def call():
            try:
                result.set_result(asyncio.run(main))
            except BaseException as error:
                result.set_exception(error)

        with warnings.catch_warnings(action="ignore"):
            gc.collect()  # What earlier tests left is not this one's.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ResourceWarning)
            # A daemon: a loop that hangs must not keep pytest from ending.
            threading.Thread(target=call, daemon=True).start()
            try:
                return result.result(timeout=_HANG)
            finally:
                gc.collect()
                unclosed = [
                    str(warning.message)
                    for warning in caught
                    if warning.category is ResourceWarning
                    # asyncio forgets the pipes of a process whose start is cancelled before they
                    # are connected, and Python closes them when it collects them. A pipe that
                    # asyncio opened has a number for its name; a file has a path.
                    and not re.search(
                        r"unclosed file <_io\.FileIO name=\d+ mode='[rw]b'", str(warning.message)
                    )
                ]
                assert not unclosed, unclosed

    return run


@pytest.fixture
def run_script(tmp_path):
    """Returns a function that runs a program in a Python of its own, which leaves no folder."""

    def run_script(source, *options, expect=0, **environment):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(source))
        # A temporary folder of its own: processes of other tests, killed on purpose, leave theirs
        # in the common one. Its path is short, as those of sockets must be.
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, *options, path],
                capture_output=True,
                text=True,
                timeout=_HANG,
                check=False,
                env={**os.environ, "TMPDIR": folder, **environment},
            )
            assert done.returncode == expect, done.stderr
            left = list(Path(folder).glob("webtraj-run-*"))
            assert not left, f"left behind: {left}"
        return done

    return run_script
