# mypy: ignore-errors
"""An Otter Wiki as an application of worlds. See `serve.py` for the contract.

A world's folder holds `wiki.db`, with users and settings, and `pages`, a git repository with a file
for each page. `git` must be installed.
"""

import atexit
import contextlib
import functools
import hashlib
import importlib
import mimetypes
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

import content
import serve
from people import PASSWORD, people

DATABASE = "wiki.db"
_SETTINGS = {
    "ATTACHMENT_ACCESS": "REGISTERED",
    "AUTO_APPROVAL": "False",
    "COMMIT_MESSAGE": "OPTIONAL",
    "DISABLE_REGISTRATION": "True",
    "EMAIL_NEEDS_CONFIRMATION": "False",
    "HIDE_LOGO": "True",
    "LOG_LEVEL": "ERROR",
    "MINIFY_HTML": "False",
    "READ_ACCESS": "REGISTERED",
    "RETAIN_PAGE_NAME_CASE": "True",
    "SECRET_KEY": "of a wiki without secrets",
    "SIDEBAR_SHORTCUTS": "home pageindex changelog createpage",
    "SITE_DESCRIPTION": "What Northfield knows",
    "SITE_NAME": "Northfield Wiki",
    "WRITE_ACCESS": "APPROVED",
}
_GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_COMMITTER_NAME": "Northfield Wiki",
    "GIT_COMMITTER_EMAIL": "wiki@northfield.test",
}
_TYPES = {".css": "text/css", ".js": "text/javascript", ".woff2": "font/woff2"}
_STYLE = """
#content_editor { display: block; width: 100%; height: 80vh; font-family: monospace }
.btn-editor, #split_btn, #extranav-attachments { display: none !important }
"""
_REPLACED = {
    "/static/custom/custom.css": _STYLE,
    "/static/js/cm6-bundle.min.js": Path(__file__).with_name("plain_editor.js").read_text("utf-8"),
    # The editor loads them for its preview. No page has formulas or diagrams.
    "/static/js/mermaid@12.2.0.min.js": "window.mermaid = {initialize() {}, run() {}};",
    "/static/mathjax/tex-chtml.js": "",
}


@functools.cache
def _wiki():
    """Return the wiki, imported in front of an empty repository."""
    if not shutil.which("git"):
        raise SystemExit("The wiki keeps its pages in git. Install git, and try again.")
    empty = Path(tempfile.mkdtemp(prefix="webtraj-wiki-empty-"))
    atexit.register(shutil.rmtree, empty, ignore_errors=True)
    os.environ.update(_GIT)
    subprocess.run(["git", "init", "--quiet", str(empty)], check=True)
    (empty / "Home.md").touch()
    os.environ.update(
        _SETTINGS, REPOSITORY=str(empty), SQLALCHEMY_DATABASE_URI=f"sqlite:///{empty}/wiki.db"
    )
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        return _Worlds(importlib.import_module("otterwiki.server"))


class _Worlds:
    """The wiki, whose database and repository are those of the current world."""

    def __init__(self, server) -> None:
        import git
        import gitdb.util
        from sqlalchemy import event

        self.server = server
        self.state = Path(os.devnull)
        self._git = git
        self._collect = gitdb.util.mman.collect
        self._base = dict(server.app.config)
        self._applied: list[tuple[str, str]] = []
        with server.app.app_context():
            self._engine = server.db.engine

        @event.listens_for(self._engine, "do_connect")
        def connect(dialect, record, arguments, options):
            arguments[0] = str(self.state / DATABASE)

        @event.listens_for(self._engine, "connect")
        def hurry(connection, record):
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("PRAGMA journal_mode=MEMORY")

    def enter(self, state: Path) -> None:
        """Make the world in a folder the current one."""
        self._engine.dispose()
        self.state = state
        storage = self.server.storage
        storage.repo.close()
        self._collect()
        storage.path = str((state / "pages").absolute())
        storage.repo = self._git.Repo(storage.path, odbt=self._git.GitDB)
        database = sqlite3.connect(state / DATABASE)
        rows = database.execute("SELECT name, value FROM preferences").fetchall()
        database.close()
        if rows != self._applied:
            self.server.app.config.clear()
            self.server.app.config.update(self._base)
            self.server.update_app_config()
            self._applied = rows


def enter(state: Path) -> None:
    """Make the world in a folder the current one."""
    _wiki().enter(state)


def open_application(root: Path):
    """Return the WSGI application."""
    pages = _wiki().server.app

    def application(environ, start_response):
        path = environ["PATH_INFO"]
        if path.startswith("/static/"):
            kind, found = _static(path)
            lasting = ("Cache-Control", "public, max-age=31536000")
            size = ("Content-Length", str(len(found)))
            start_response("200 OK", [("Content-Type", kind), size, lasting])
            return [found]
        if path.endswith("/draft"):
            # A draft is kept after some seconds, so that pages would depend on the time.
            start_response("200 OK", [("Content-Type", "application/json")])
            return [b'{"status": "draft saved"}']
        return pages(environ, start_response)

    return application


def _static(path: str) -> tuple[str, bytes]:
    if path in _REPLACED:
        return _TYPES[Path(path).suffix], _REPLACED[path].encode()
    folder = Path(_wiki().server.app.root_path, "static").resolve()
    file = (folder / unquote(path).removeprefix("/static/")).resolve()
    kind = _TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "text/plain"
    inside = file.is_relative_to(folder) and file.is_file()
    return kind, file.read_bytes() if inside else b""


def build(state: Path, seed: int) -> dict:
    """Make a world's state in an empty folder, and return its facts."""
    worlds = _wiki()
    made = content.make(seed, people(seed))
    _commit(state / "pages", made)
    sqlite3.connect(state / DATABASE).close()
    worlds._engine.dispose()
    worlds.state = state
    with worlds.server.app.app_context():
        worlds.server.db.create_all()
        facts = _fill(worlds.server, made)
    worlds._engine.dispose()
    serve.compact(state / DATABASE)
    return facts


def _fill(server, made: dict) -> dict:
    """Store the users, and return the facts with their cookies."""
    from otterwiki.models import User

    signer = server.app.session_interface.get_signing_serializer(server.app)
    salt = "northfield"
    digest = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), salt.encode(), 1).hex()
    made["cookies"] = {}
    for number, user in enumerate(made["users"], 1):
        joined = datetime.fromisoformat(user["joined"])
        server.db.session.add(
            User(
                id=number,
                name=user["name"],
                email=user["email"],
                password_hash=f"pbkdf2:sha256:1${salt}${digest}",
                first_seen=joined,
                last_seen=joined,
                email_confirmed=True,
                is_approved=user["approved"],
                is_admin=user["admin"],
                allow_read=user["approved"],
                allow_write=user["approved"],
                allow_upload=user["approved"],
            )
        )
        cookie = signer.dumps({"_user_id": str(number), "_fresh": True})
        made["cookies"][user["username"]] = {"session": cookie}
    server.db.session.commit()
    return made


def _commit(pages: Path, made: dict) -> None:
    """Make the repository, and note the names of the commits."""
    stream: list[bytes] = []

    def say(line: str) -> None:
        stream.append(line.encode() + b"\n")

    def data(text: str) -> None:
        stream.append(b"data %d\n" % len(text.encode()) + text.encode() + b"\n")

    for mark, one in enumerate(made["revisions"], 1):
        when = int(datetime.fromisoformat(one["when"]).timestamp())
        say("commit refs/heads/main")
        say(f"mark :{mark}")
        say(f"author {one['author']} <{one['email']}> {when} +0000")
        say(f"committer {one['author']} <{one['email']}> {when} +0000")
        data(one["message"])
        for path, text in one["files"].items():
            say(f'M 100644 inline "{path}.md"')
            data(text)
    pages.mkdir()

    def git(*arguments: str, **options) -> str:
        done = subprocess.run(
            ["git", "-C", str(pages), *arguments], check=True, capture_output=True, **options
        )
        return done.stdout.decode()

    git("init", "--quiet", "--template=", "--initial-branch=main")
    for name, value in {
        "core.fsync": "none",
        "core.logAllRefUpdates": "false",
        "gc.auto": "0",
        "user.name": _GIT["GIT_COMMITTER_NAME"],
        "user.email": _GIT["GIT_COMMITTER_EMAIL"],
    }.items():
        git("config", name, value)
    git("fast-import", "--quiet", input=b"".join(stream))
    git("checkout", "--quiet", "--force", "main")
    git("-c", "pack.writeReverseIndex=false", "repack", "-a", "-d", "--quiet")
    git("pack-refs", "--all")
    names = git("log", "--reverse", "--format=%H").split()
    for one, name in zip(made["revisions"], names, strict=True):
        one["name"] = name
    for needless in ("FETCH_HEAD", "COMMIT_EDITMSG", "logs", "info", "hooks", "branches"):
        file = pages / ".git" / needless
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
    for empty in sorted((pages / ".git/objects").iterdir()):
        if re.fullmatch("[0-9a-f]{2}|info", empty.name):
            shutil.rmtree(empty)
