# mypy: ignore-errors
"""Roundcube's part in its own environment; see `serve.py` for the contract.

Roundcube is Debian's, with PHP's own web server; a second server of ours keeps the mails (see
`post_office.py`). A world's state is two SQLite files: its mailbox, and Roundcube's contacts and
settings. Each request to PHP names the world in a header, and a cookie `mail_user` logs in.
"""

import contextlib
import ctypes
import http.client
import mimetypes
import os
import secrets
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import content
import people
import post_office
from serve import EPOCH

_ROUNDCUBE = Path("/usr/share/roundcube")
_STATIC = {
    "skins": _ROUNDCUBE / "skins",
    "plugins": Path("/var/lib/roundcube/plugins"),
    "program": _ROUNDCUBE / "program",
}
_START_SECONDS = 20.0


def build(state: Path, seed: int) -> dict[str, Any]:
    """Make the mailbox, contacts and settings of a seed. See `serve.py`."""
    (state / "temp").mkdir()
    writer = content.Writer(people.people(seed), seed)
    writer.write()
    me = writer.people[0]
    file = state / post_office.DATABASE
    post_office.create(file, me.username, me.email, people.PASSWORD, writer.words.folders)
    with contextlib.closing(sqlite3.connect(file)) as database:
        for mail in writer.mails:
            flags = " ".join(sorted(mail.flags))
            mail.id, _ = post_office.add_mail(database, mail.folder, mail.raw(), flags, mail.date)
        database.commit()
        database.execute("VACUUM")
    schema = (_ROUNDCUBE / "SQL/sqlite.initial.sql").read_text("utf-8")
    return {
        "user": me.username,
        "name": me.name,
        "email": me.email,
        "cookies": {me.username: {"mail_user": me.username}},
        "people": [
            {"name": one.name, "email": one.email, "username": one.username}
            for one in writer.people
        ],
        "folders": ["INBOX", *writer.words.folders],
        "mails": [mail.facts() for mail in writer.mails],
        **content.replace_mails(writer.facts),
        **content.settings(state / "roundcube.sqlite", schema, writer),
    }


def enter(state: Path) -> None:
    """Serve this world next. See `serve.py`."""
    _server().state = state


class _Php:
    """PHP's web server with Roundcube, and our mail server, as one WSGI application."""

    state: Path

    def __init__(self, root: Path) -> None:
        self._own = root / ".php"
        self._own.mkdir(exist_ok=True)
        self._key = secrets.token_hex(16)
        self._now = EPOCH
        self._clock = self._own / "clock"
        self._set_clock(EPOCH)
        office = post_office.PostOffice(root, self._key, lambda: self._now)
        self._port = _free_port()
        self._write_files()
        start = (self._command(), self._environment(root, office))
        threading.Thread(target=self._keep, args=start, daemon=True).start()
        self._wait()

    def _write_files(self) -> None:
        for name in ("router.php", "config.inc.php"):
            shutil.copyfile(Path(__file__).with_name(name), self._own / name)
        for name in ("defaults.inc.php", "mimetypes.php"):
            with contextlib.suppress(FileExistsError):
                (self._own / name).symlink_to(Path("/etc/roundcube") / name)

    def _command(self) -> list[str]:
        settings = {
            "opcache.enable": 1,
            "opcache.enable_cli": 1,
            "opcache.validate_timestamps": 0,
            "opcache.file_update_protection": 0,
            "disable_functions": "uniqid",  # `router.php` has another.
            "memory_limit": "256M",
            "session.gc_probability": 0,
            "upload_tmp_dir": self._own,
            "upload_max_filesize": "8M",
            "display_errors": 0,
            "log_errors": 1,
            "error_reporting": 1,
            "error_log": self._own / "errors",
        }
        options = [part for name, value in settings.items() for part in ("-d", f"{name}={value}")]
        where = f"127.0.0.1:{self._port}"
        return ["php", *options, "-S", where, "-t", str(self._own), str(self._own / "router.php")]

    def _environment(self, root: Path, office: post_office.PostOffice) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", "/usr/bin"),
            "TZ": "UTC",
            "LD_PRELOAD": str(next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))),
            "FAKETIME_TIMESTAMP_FILE": str(self._clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
            "ROUNDCUBE_CONFIG_DIR": str(self._own),
            "MAIL_ROOT": str(root),
            "MAIL_KEY": self._key,
            "MAIL_PASSWORD": people.PASSWORD,
            "MAIL_IMAP_PORT": str(office.imap_port),
            "MAIL_SMTP_PORT": str(office.smtp_port),
        }

    def _keep(self, command: list[str], environment: dict[str, str]) -> None:
        """Run PHP's web server for ever. A child dies with the thread that started it."""
        while True:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                preexec_fn=_die_with_parent,
            )
            with contextlib.suppress(TimeoutError):
                self._wait()
            # libfaketime leaves these behind if a process is killed.
            for name in ("faketime_shm_", "sem.faketime_sem_"):
                Path(f"/dev/shm/{name}{process.pid}").unlink(missing_ok=True)
            process.wait()

    def _wait(self) -> None:
        """Wait until PHP's web server listens.

        Raises:
            TimeoutError: It does not.
        """
        ended = time.monotonic() + _START_SECONDS
        while time.monotonic() < ended:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self._port), 1),
            ):
                return
            time.sleep(0.01)
        raise TimeoutError("PHP's web server did not start.")

    def _set_clock(self, now: datetime) -> None:
        # An offset, so that the clock goes on: Roundcube waits until it has.
        self._now = now
        self._clock.write_text(f"{now.timestamp() - time.time():+.6f}\n", "ascii")

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        if found := _static(environ["PATH_INFO"]):
            start_response("200 OK", _static_headers(found))
            return [found.read_bytes()]
        self._set_clock(EPOCH + timedelta(minutes=environ["webtraj.pages"]))
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length) if length else None
        try:
            status, headers, text = self._ask(environ, body)
        except ConnectionRefusedError:
            self._wait()
            status, headers, text = self._ask(environ, body)
        start_response(status, headers)
        return [text]

    def _ask(
        self, environ: dict[str, Any], body: bytes | None
    ) -> tuple[str, list[tuple[str, str]], bytes]:
        """Hand a request on to PHP; return status, headers and body of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        with contextlib.closing(connection):
            url = f"/?{environ.get('QUERY_STRING', '')}"
            connection.request(environ["REQUEST_METHOD"], url, body, self._headers(environ))
            answer = connection.getresponse()
            kept = [pair for pair in answer.getheaders() if pair[0].lower() not in _OF_CONNECTION]
            return f"{answer.status} {answer.reason}", kept, answer.read()

    def _headers(self, environ: dict[str, Any]) -> dict[str, str]:
        given = {
            name[5:].replace("_", "-").title(): value
            for name, value in environ.items()
            if name.startswith("HTTP_") and not name.startswith("HTTP_X_MAIL_")
        }
        if environ.get("CONTENT_TYPE"):
            given["Content-Type"] = environ["CONTENT_TYPE"]
        own = {
            "X-Mail-Key": self._key,
            "X-Mail-World": self.state.name,
            "X-Mail-Seed": str(zlib.crc32(environ["webtraj.seed"].encode())),
            "Connection": "close",
        }
        return {**given, **own, "Accept-Encoding": "identity"}


_OF_CONNECTION = ("connection", "transfer-encoding", "host", "x-powered-by", "keep-alive", "date")
_php: _Php | None = None


def open_application(root: Path) -> _Php:
    """Start PHP and the mail server for the worlds in a folder. See `serve.py`."""
    global _php
    _php = _Php(root.resolve())
    return _php


def _server() -> _Php:
    assert _php is not None
    return _php


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


_TYPES = frozenset(
    [".css", ".js", ".png", ".svg", ".gif", ".jpg", ".ico", ".woff", ".woff2", ".ttf", ".html"]
)


def _static(path: str) -> Path | None:
    """Return the file of a path, if it is one that never changes."""
    first, _, rest = path.lstrip("/").partition("/")
    if first not in _STATIC or ".." in rest.split("/"):
        return None
    file = _STATIC[first] / rest
    return file if file.suffix in _TYPES and file.is_file() else None


def _static_headers(file: Path) -> list[tuple[str, str]]:
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return [
        ("Content-Type", f"{kind}; charset=utf-8" if kind.startswith("text/") else kind),
        ("Cache-Control", "public, max-age=31536000"),
    ]
