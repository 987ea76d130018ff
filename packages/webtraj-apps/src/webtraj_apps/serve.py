# mypy: ignore-errors
"""Build and serve the worlds of one application: `serve.py build|serve HOST.py ...`.

This script runs in the application's own virtual environment, without webtraj, and uses only the
standard library. `HOST.py` is the application's part, a module with:

* `build(state: Path, seed: int) -> dict`: make a world's state in an empty folder, and return its
  facts: what tasks may mention (products, users, ...) and the cookies of logged-in users, as JSON;
* `open_application(root: Path) -> WSGI application`: called once in the server, with the folder
  of its worlds;
* `enter(state: Path) -> None`: make the following request read and write this state.

A connection starts with a line `WORLD id` that names its world. Requests are served one at a time,
all by one thread, so that an application with one global database setting can serve any number of
worlds, and what it keeps for a thread is there for the next request.

The clock of a world starts at `EPOCH` and goes on by a minute with each page, so that pages are the
same whenever they are played. This takes the package `time-machine`; without it, the clock is the
machine's. The number of pages is in `environ["webtraj.pages"]`.

What an application draws at random, such as ids in URLs, follows from the request and the number of
pages before it. A host that draws in another process finds the seed in `environ["webtraj.seed"]`.
"""

import contextlib
import gc
import hashlib
import importlib.util
import json
import os
import random
import select
import shutil
import signal
import socketserver
import sqlite3
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler

try:
    import time_machine
except ImportError:
    time_machine = None

EPOCH = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
"""When every world begins: a Monday."""
_PAGE = timedelta(minutes=1)
_SOCKET = "host.sock"
_REQUESTS = ".requests"
"""The file in a world's folder with a line for each request, which begins with a dot if it was
for a page: a copy of the world has its clock, and draws nothing twice."""


def load(path: str) -> ModuleType:
    """Import the application's host module from its file."""
    spec = importlib.util.spec_from_file_location("application_host", path)
    assert spec is not None
    assert spec.loader is not None
    sys.path.insert(0, str(Path(path).parent))
    sys.path.insert(1, str(Path(__file__).parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def at(moment: datetime) -> contextlib.AbstractContextManager[Any]:
    """Stop the clock at a moment, for this process."""
    return (
        contextlib.nullcontext()
        if time_machine is None
        else time_machine.travel(moment, tick=False)
    )


def seed_random(seed: str) -> None:
    """Make what this process draws at random follow from a seed."""
    source = random.Random(seed)
    # `secrets` and `uuid` draw from these.
    os.urandom = random._urandom = source.randbytes
    random.seed(seed)


def build(host_file: str, state: str, seed: str) -> None:
    """Build a world's initial state in a folder, and write its facts beside it as JSON."""
    host = load(host_file)
    folder = Path(state)
    folder.mkdir(parents=True)
    seed_random(seed)
    with at(EPOCH):
        facts = host.build(folder, int(seed))
    Path(f"{state}.json").write_text(json.dumps(facts, indent=1, sort_keys=True), "utf-8")


def compact(file: Path) -> None:
    """Make a SQLite file of a host as small as can be."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=DELETE")
        database.execute("VACUUM")


class _Worlds:
    """The application, and the worlds it serves, one request at a time."""

    def __init__(self, host: ModuleType, root: Path) -> None:
        self._host = host
        self._root = root
        self._thread = ThreadPoolExecutor(1)
        self._application = self._thread.submit(host.open_application, root).result()
        # What is loaded by now stays: no search for garbage need go through it.
        gc.collect()
        gc.freeze()

    def answer(self, world: str, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        """Answer a request to a world, as a WSGI application."""
        return self._thread.submit(self._answer, world, environ, start_response).result()

    def _answer(self, world: str, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        state = self._root / world
        if not state.is_dir():
            start_response("410 Gone", [("Content-Type", "text/plain")])
            return [b"This world is over.\n"]
        pages, seed = _note(state / _REQUESTS, environ)
        environ |= {"webtraj.pages": pages, "webtraj.seed": seed}
        seed_random(seed)
        with at(EPOCH + _PAGE * pages):
            self._host.enter(state)
            body = self._application(environ, start_response)
            try:
                return list(body)
            finally:
                if hasattr(body, "close"):
                    body.close()


def _note(file: Path, environ: dict[str, Any]) -> tuple[int, str]:
    """Count a request to a world; return the number of its pages so far, and a random source."""
    is_page = "text/html" in environ.get("HTTP_ACCEPT", "")
    with file.open("a+b") as noted:
        noted.seek(0)
        before = noted.read()
        pages = before.count(b".") + is_page
        asked = [environ.get(name, "") for name in ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING")]
        digest = hashlib.sha256(" ".join([str(pages), *asked]).encode()).hexdigest()[:16]
        noted.write(f"{'.' if is_page else ''}{digest}\n".encode())
    return pages, f"{digest} {before.count(digest.encode())}"


class _Handler(WSGIRequestHandler):
    """One connection, which carries one request (HTTP/1.0)."""

    worlds: _Worlds

    def handle(self) -> None:
        world = self.rfile.readline(65537).removeprefix(b"WORLD ").strip().decode("ascii")
        self.raw_requestline = line = self.rfile.readline(65537)
        if not line or len(line) > 65536 or not self.parse_request():
            return

        def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
            def without_expiry(status: str, headers: Any, exc_info: Any = None) -> Any:
                return start_response(status, [_strip_expiry(*pair) for pair in headers], exc_info)

            return self.worlds.answer(world, environ, without_expiry)

        handler = ServerHandler(
            self.rfile, self.wfile, self.get_stderr(), self.get_environ(), multithread=False
        )
        handler.request_handler = self  # type: ignore[attr-defined]
        handler.run(application)

    def address_string(self) -> str:
        return "127.0.0.1"

    def get_environ(self) -> dict[str, Any]:
        name, _, port = self.headers.get("host", "localhost").partition(":")
        self.server.base_environ = {  # type: ignore[attr-defined]
            "SERVER_NAME": name,
            "GATEWAY_INTERFACE": "CGI/1.1",
            "SERVER_PORT": port or "80",
            "REMOTE_HOST": "",
            "CONTENT_LENGTH": "",
            "SCRIPT_NAME": "",
        }
        self.client_address = ("127.0.0.1", 0)
        return super().get_environ()

    def log_message(self, *args: Any) -> None:
        pass


def _strip_expiry(name: str, value: str) -> tuple[str, str]:
    """Return a header. A cookie loses its expiry, which is in the past for the browser's clock.

    A cookie that is being deleted has `Max-Age=0` or expires in 1970, and stays unchanged.
    """
    if name.lower() == "set-cookie" and "1970" not in value and "max-age=0" not in value.lower():
        parts = [
            part for part in value.split(";") if not part.strip().lower().startswith("expires")
        ]
        value = ";".join(parts)
    return name, value


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 1024  # 32 browsers begin with six connections each, at once.


def serve(host_file: str, root: str, megabytes: str) -> None:
    """Serve the worlds in a folder at its socket until SIGTERM. Then remove the folder.

    Args:
        host_file: The application's host module.
        root: The folder of worlds, one folder each.
        megabytes: The maximum memory of the server.
    """
    folder = Path(root)
    _limit_memory(int(megabytes))

    def stop(*_: object) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=_stop_with_owner, args=(stop,), daemon=True).start()
    handler = type("Handler", (_Handler,), {"worlds": _Worlds(load(host_file), folder)})
    # Under a name that nobody connects to yet: who finds the socket finds it listening.
    starting = folder / f"{_SOCKET}.new"
    server = _UnixServer(str(starting), handler)
    starting.rename(folder / _SOCKET)
    server.serve_forever()


def _stop_with_owner(stop: Callable[[], None]) -> None:
    """Wait until standard input closes or the parent dies, whose forks may hold the input open."""
    parent = os.getppid()
    while os.getppid() == parent:
        ready, _, _ = select.select([sys.stdin], [], [], 1.0)
        if ready and not os.read(0, 1024):
            break
    stop()


def _limit_memory(megabytes: int) -> None:
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, megabytes << 20))


if __name__ == "__main__":
    {"build": build, "serve": serve}[sys.argv[1]](*sys.argv[2:])
