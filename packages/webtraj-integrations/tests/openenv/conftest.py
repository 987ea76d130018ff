"""A server as people start it, for clients to ask."""

import contextlib
import re
import signal
import subprocess
import sys

import pytest

import processes


@contextlib.contextmanager
def serve(out, *arguments):
    """Run the command, and yield its URL and process."""
    command = [sys.executable, "-m", "webtraj", "openenv", "serve", *arguments]
    process = subprocess.Popen(
        [*command, "--port", "0", "--out", out], stdout=subprocess.PIPE, text=True
    )
    try:
        yield re.search(r"http://\S+[0-9]", process.stdout.readline())[0], process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.communicate()


def kill(process):
    processes.kill_browsers(process.pid)


@pytest.fixture(scope="session")
def kill_browsers():
    """Return a function that kills every browser of a process."""
    return kill


@pytest.fixture(scope="session")
def served():
    """Return a context manager that runs the command."""
    return serve


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """Return the folder that `server` records to."""
    return tmp_path_factory.mktemp("served") / "out"


@pytest.fixture(scope="session")
def server(recorded):
    """Return the URL of a server of two tasks."""
    with serve(recorded, "miniwob/click-test", "miniwob/enter-text", "--sessions", "4") as (url, _):
        yield url
