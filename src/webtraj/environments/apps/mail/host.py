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
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import content
import people
import post_office
from serve import EPOCH

FROZEN = False
"""The clock is that of PHP, which libfaketime sets."""

_ROUNDCUBE = Path("/usr/share/roundcube")
_STATIC = {
    "skins": _ROUNDCUBE / "skins",
    "plugins": Path("/var/lib/roundcube/plugins"),
    "program": _ROUNDCUBE / "program",
}
_START_SECONDS = 20.0

_CONFIG = r"""<?php
$config = [];
$config['db_dsnw'] = 'world:///' . MAIL_STATE . '/roundcube.sqlite?mode=0600';
$config['imap_host'] = '127.0.0.1:' . getenv('MAIL_IMAP_PORT');
$config['smtp_host'] = '127.0.0.1:' . getenv('MAIL_SMTP_PORT');
$config['smtp_auth_type'] = 'PLAIN';
$config['imap_cache'] = null;
$config['messages_cache'] = false;
$config['des_key'] = 'rcmail-24-characters-key';
$config['plugins'] = [];
$config['product_name'] = 'Northfield Mail';
$config['skin'] = 'elastic';
$config['skin_logo'] = ['*' => ''];
$config['support_url'] = '';
$config['log_driver'] = 'stdout';
$config['temp_dir'] = MAIL_STATE . '/temp';
$config['mail_domain'] = 'northfield.test';
$config['username_domain'] = '';
$config['language'] = 'en_US';
$config['timezone'] = 'UTC';
$config['date_format'] = 'Y-m-d';
$config['prettydate'] = false;
$config['message_sort_col'] = 'date';
$config['message_sort_order'] = 'DESC';
$config['session_lifetime'] = 10080;
$config['refresh_interval'] = 0;
$config['draft_autosave'] = 0;
$config['enable_spellcheck'] = false;
$config['htmleditor'] = 0;
$config['prefer_html'] = false;
$config['reply_mode'] = 1;
$config['sig_below'] = true;
$config['mime_param_folding'] = 0;
$config['mail_pagesize'] = 50;
$config['addressbook_pagesize'] = 50;
$config['layout'] = 'widescreen';
$config['collected_recipients'] = null;
$config['collected_senders'] = null;
$config['mdn_requests'] = 2;
$config['check_all_folders'] = false;
$config['dont_override'] = ['skin', 'language', 'timezone', 'htmleditor', 'refresh_interval',
    'draft_autosave', 'collected_recipients', 'collected_senders', 'layout'];
"""

_ROUTER = r"""<?php
if (!hash_equals((string) getenv('MAIL_KEY'), $_SERVER['HTTP_X_MAIL_KEY'] ?? '')) {
    http_response_code(403);
    exit;
}
define('MAIL_WORLD', $_SERVER['HTTP_X_MAIL_WORLD']);
define('MAIL_STATE', getenv('MAIL_ROOT') . '/' . MAIL_WORLD);
$_SERVER['SCRIPT_NAME'] = $_SERVER['PHP_SELF'] = '/index.php';
define('INSTALL_PATH', '/var/lib/roundcube/');
$_SERVER['SCRIPT_FILENAME'] = '/var/lib/roundcube/index.php';
chdir(INSTALL_PATH);
require_once 'program/include/iniset.php';

/** Roundcube's SQLite, without a log beside the file: nobody else uses it meanwhile. */
class rcube_db_world extends rcube_db_sqlite
{
    public $db_provider = 'sqlite';

    protected function dsn_string($dsn)
    {
        return 'sqlite:' . $dsn['database'];
    }

    protected function conn_configure($dsn, $dbh)
    {
        $dbh->query('PRAGMA journal_mode = MEMORY');
        $dbh->query('PRAGMA synchronous = OFF');
        $dbh->query('PRAGMA foreign_keys = ON');
    }
}

$mail = rcmail::get_instance(0, $GLOBALS['env'] ?? null);
$mail->plugins->register_hook('startup', function ($request) {
    $user = $_COOKIE['mail_user'] ?? '';
    if ($user !== '' && empty($_SESSION['user_id']) && $request['task'] !== 'logout'
            && empty($_POST['_user'])) {
        $request['task'] = 'login';
        $request['action'] = 'login';
    }
    return $request;
});
$mail->plugins->register_hook('authenticate', function ($login) {
    if (empty($_POST['_user']) && !empty($_COOKIE['mail_user'])) {
        $login['user'] = $_COOKIE['mail_user'];
        $login['pass'] = getenv('MAIL_PASSWORD');
        $login['valid'] = true;
        $login['cookiecheck'] = false;
    }
    return $login;
});
$mail->plugins->register_hook('login_after', function ($arguments) {
    // A page that was asked for before the login.
    parse_str(empty($_POST['_user']) ? ($_SERVER['QUERY_STRING'] ?? '') : '', $asked);
    return $asked + $arguments;
});
$mail->plugins->register_hook('storage_connect', function ($options) {
    $options['user'] = getenv('MAIL_KEY') . '/' . MAIL_WORLD . '/' . $options['user'];
    return $options;
});
$mail->plugins->register_hook('smtp_connect', function ($options) {
    $options['smtp_user'] = getenv('MAIL_KEY') . '/' . MAIL_WORLD . '/' . $_SESSION['username'];
    return $options;
});
require INSTALL_PATH . 'index.php';
"""


def build(state: Path, seed: int) -> dict[str, Any]:
    """Make the mailbox, contacts and settings of a seed. See `serve.py`."""
    (state / "temp").mkdir()
    writer = content.Writer(people.people(seed), seed)
    writer.write()
    me = writer.people[0]
    file = state / post_office.DATABASE
    post_office.create(file, me.username, me.email, people.PASSWORD, content.FOLDERS)
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
        "folders": ["INBOX", *content.FOLDERS],
        "mails": [mail.facts() for mail in writer.mails],
        **content.named(writer.facts),
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
        self._pages: dict[str, int] = {}
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
        (self._own / "router.php").write_text(_ROUTER, "utf-8")
        (self._own / "config.inc.php").write_text(_CONFIG, "utf-8")
        for name in ("defaults.inc.php", "mimetypes.php"):
            with contextlib.suppress(FileExistsError):
                (self._own / name).symlink_to(Path("/etc/roundcube") / name)

    def _command(self) -> list[str]:
        settings = {
            "opcache.enable": 1,
            "opcache.enable_cli": 1,
            "opcache.validate_timestamps": 0,
            "opcache.file_update_protection": 0,
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
        self._set_clock(EPOCH + timedelta(minutes=self._page(environ)))
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

    def _page(self, environ: dict[str, Any]) -> int:
        """Count the world's pages, which set its clock."""
        world = self.state.name
        if len(self._pages) > 1000:
            exists = self.state.parent.joinpath
            self._pages = {name: n for name, n in self._pages.items() if exists(name).is_dir()}
        html = "text/html" in environ.get("HTTP_ACCEPT", "")
        self._pages[world] = self._pages.get(world, 0) + html
        return self._pages[world]

    def _headers(self, environ: dict[str, Any]) -> dict[str, str]:
        given = {
            name[5:].replace("_", "-").title(): value
            for name, value in environ.items()
            if name.startswith("HTTP_") and not name.startswith("HTTP_X_MAIL_")
        }
        if environ.get("CONTENT_TYPE"):
            given["Content-Type"] = environ["CONTENT_TYPE"]
        own = {"X-Mail-Key": self._key, "X-Mail-World": self.state.name, "Connection": "close"}
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
