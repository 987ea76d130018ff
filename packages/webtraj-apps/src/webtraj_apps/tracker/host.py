# mypy: ignore-errors
"""Trac as an application of worlds. See `serve.py` for the contract.

One Trac environment serves all worlds. A world's folder holds `trac.db`, with its configuration in
the table `setting`, and attachments in `files`. Nothing else of a Trac environment is needed.
"""

import base64
import binascii
import copy
import functools
import hashlib
import io
import mimetypes
import sqlite3
import time
import types
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

import company
import content
import pkg_resources
import serve
import trac.web.main
import voices
from people import PASSWORD, people
from trac.cache import CacheManager
from trac.config import Configuration, UnicodeConfigParser
from trac.core import ComponentManager
from trac.db.api import DatabaseManager
from trac.env import Environment
from trac.loader import load_components
from trac.perm import DefaultPermissionPolicy, PermissionSystem
from trac.web.chrome import Chrome
from trac.web.href import Href

DATABASE = "trac.db"
_PERMISSIONS = {
    "anonymous": (
        "MILESTONE_VIEW",
        "REPORT_VIEW",
        "ROADMAP_VIEW",
        "SEARCH_VIEW",
        "TICKET_VIEW",
        "TIMELINE_VIEW",
    ),
    "authenticated": ("TICKET_APPEND", "TICKET_CREATE"),
    "support": ("TICKET_MODIFY",),
    "developers": ("MILESTONE_MODIFY", "REPORT_CREATE", "TICKET_MODIFY"),
    "leads": (
        "MILESTONE_ADMIN",
        "PERMISSION_ADMIN",
        "REPORT_ADMIN",
        "REPORT_SQL_VIEW",
        "TICKET_ADMIN",
        "TICKET_BATCH_MODIFY",
    ),
}
_FIELDS = (
    "billable",
    "cc",
    "component",
    "customer",
    "description",
    "estimate",
    "keywords",
    "reporter",
    "summary",
    "type",
    "version",
)
_PACKAGES = {"common": "trac", "ticketopt": "tracopt.ticket"}
# Trac's guide is a wiki of its own, and its home page is outside. Buttons of comments are seen
# only under the mouse.
_STYLE = b"""
.trac-ticket-buttons { visibility: visible !important }
#help, #tracpowered, #footer .left, :has(> a[href^="/wiki/"]) { display: none !important }
"""
_TYPES = {".css": "text/css", ".js": "text/javascript"}


def _settings() -> UnicodeConfigParser:
    parser = UnicodeConfigParser()
    parser.read(Path(__file__).with_name("trac.ini"), "utf-8")
    customers = [one["name"] for one in company.COMPANY.customers]
    parser.set("ticket-custom", "customer.options", "|".join(["", *customers]))
    return parser


class _Settings(Configuration):
    """Trac's configuration: `trac.ini`, and the table `setting` of the current world."""

    def __init__(self):
        self.world = None
        super().__init__("")

    def parse_if_needed(self, force=False):
        """Read the settings of the current world."""
        self.parser = _settings()
        if self.world:
            with sqlite3.connect(self.world) as database:
                for section, name, value in database.execute("SELECT * FROM setting"):
                    if not self.parser.has_section(section):
                        self.parser.add_section(section)
                    self.parser.set(section, name, value)
            database.close()
        self._pristine_parser = copy.deepcopy(self.parser)
        self._sections = {}
        return False

    def save(self):
        """Store what differs from `trac.ini`."""
        unchanged = _settings()
        rows = [
            (section, name, value)
            for section in self.parser.sections()
            for name, value in self.parser.items(section)
            if unchanged.get(section, name, fallback=None) != value
        ]
        with sqlite3.connect(self.world) as database:
            database.execute("DELETE FROM setting")
            database.executemany("INSERT INTO setting VALUES (?, ?, ?)", rows)
        database.close()


class _Worlds(Environment):
    """A Trac environment whose folder is that of the current world."""

    abstract = True
    required = False
    href = Href("/")

    def __init__(self):
        ComponentManager.__init__(self)
        self.path = "/nowhere"
        self.log = None
        self.config = _Settings()
        self.setup_log()
        load_components(self)

    @property
    def attachments_dir(self):
        """The folder of the current world's attachments."""
        return str(Path(self.path) / "files" / "attachments")

    def enter(self, state: Path) -> None:
        """Make the world in a folder the current one."""
        database = DatabaseManager(self)
        database.shutdown()
        database._cnx_pool = None
        self.path = str(state)
        self.abs_href = Href("")  # Trac takes that of the request.
        self.config.world = state / DATABASE
        self.config.parse_if_needed()
        CacheManager(self)._cache.clear()
        CacheManager(self).reset_metadata()
        DefaultPermissionPolicy(self).permission_cache.clear()
        PermissionSystem(self).permission_cache.clear()


@functools.cache
def _environment() -> _Worlds:
    trac.web.main.open_environment = lambda path, use_cache: _environment()
    # Trac collects garbage after each request, which takes longer than most pages.
    trac.web.main.gc = types.SimpleNamespace(collect=lambda: 0)
    # The calendars of date fields begin with today's date, and take back what is typed elsewhere.
    Chrome.add_jquery_ui = lambda self, req: None
    return _Worlds()


def enter(state: Path) -> None:
    """Make the world in a folder the current one."""
    _environment().enter(state)


def open_application(root: Path):
    """Return the WSGI application."""
    _environment()

    def application(environ, start_response):
        path = environ["PATH_INFO"]
        if path.startswith("/chrome/"):
            kind, found = _static(path)
            status = "200 OK" if found else "404 Not Found"
            lasting = ("Cache-Control", "public, max-age=31536000")
            size = ("Content-Length", str(len(found)))
            start_response(status, [("Content-Type", kind), size, lasting])
            return [found]
        if path == "/login":
            name = _login(environ)
            if not name:
                challenge = ("WWW-Authenticate", 'Basic realm="Northfield tickets"')
                start_response("401 Unauthorized", [challenge, ("Content-Type", "text/plain")])
                return [b"Log in with your user name and password.\n"]
            environ["REMOTE_USER"] = name
        environ["trac.env_path"] = "world"
        environ["trac.locale"] = "C"
        return trac.web.main.dispatch_request(environ, start_response)

    return application


@functools.cache
def _static(path: str) -> tuple[str, bytes]:
    name, _, rest = unquote(path).removeprefix("/chrome/").partition("/")
    folder = Path(pkg_resources.resource_filename(_PACKAGES.get(name, "trac"), "htdocs")).resolve()
    file = (folder / rest).resolve()
    kind = _TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "text/plain"
    inside = name in _PACKAGES and file.is_relative_to(folder) and file.is_file()
    more = _STYLE if path == "/chrome/common/css/trac.css" else b""
    return kind, file.read_bytes() + more if inside else b""


def _login(environ) -> str:
    """Return who logs in by a name and password."""
    kind, _, sent = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    try:
        name, _, password = base64.b64decode(sent).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    known = _environment().db_query(
        "SELECT 1 FROM session WHERE authenticated=1 AND sid=%s", (name,)
    )
    return name if kind == "Basic" and password == PASSWORD and known else ""


def build(state: Path, seed: int) -> dict:
    """Make a world's state in an empty folder, and return its facts."""
    env = _environment()
    with sqlite3.connect(state / DATABASE) as database:
        database.execute(
            "CREATE TABLE setting "
            "(section TEXT, name TEXT, value TEXT, PRIMARY KEY (section, name))"
        )
    database.close()
    env.path, env.config.world = str(state), state / DATABASE
    _create_tables(env)
    enter(state)
    facts = content.make(seed, people(seed), company, voices.say)
    _fill(env, facts)
    facts["cookies"] = {}
    with env.db_transaction as db:
        for person in people(seed):
            cookie = hashlib.sha256(f"{seed} {person.username}".encode()).hexdigest()[:32]
            db(
                "INSERT INTO auth_cookie (cookie, name, ipnr, time) VALUES (%s, %s, '', 0)",
                (cookie, person.username),
            )
            token = hashlib.sha256(f"token {cookie}".encode()).hexdigest()[:24]
            facts["cookies"][person.username] = {"trac_auth": cookie, "trac_form_token": token}
    DatabaseManager(env).shutdown()
    serve.compact(state / DATABASE)
    return facts


def _create_tables(env: Environment) -> None:
    from trac import db_default

    manager = DatabaseManager(env)
    manager._cnx_pool = None
    manager.create_tables(db_default.schema)
    manager.set_database_version(db_default.db_version, "initial_database_version")
    manager.set_database_version(db_default.db_version)


def _fill(env: Environment, made: dict) -> None:
    """Write the content with Trac's models."""
    from trac.attachment import Attachment
    from trac.ticket.model import (
        Component,
        Milestone,
        Priority,
        Report,
        Resolution,
        Ticket,
        Type,
        Version,
    )

    def store(model, **values):
        row = model(env)
        for name, value in values.items():
            setattr(row, name, value)
        row.insert()

    with env.db_transaction as db:
        for kind, names in (
            (Priority, content.WORDS.priorities),
            (Resolution, content.WORDS.resolutions),
            (Type, content.WORDS.types),
        ):
            for name in names:
                store(kind, name=name)
        for one in made["components"]:
            store(Component, **one)
        for name, due, completed, about in content.WORDS.milestones:
            due, completed = content.day(due), content.day(completed)
            store(Milestone, name=name, due=due, completed=completed, description=about)
        for name, when, about in content.WORDS.versions:
            store(Version, name=name, time=content.day(when), description=about)
        for title, about, query in content.REPORTS:
            store(Report, title=title, description=about, query=query)
        for person in made["people"]:
            sid = person["username"]
            db(
                "INSERT INTO session (sid, authenticated, last_visit) VALUES (%s, 1, %s)",
                (sid, int(time.time())),
            )
            for name in ("name", "email"):
                db(
                    "INSERT INTO session_attribute VALUES (%s, 1, %s, %s)",
                    (sid, name, person[name]),
                )
        permissions = PermissionSystem(env)
        for group, actions in _PERMISSIONS.items():
            for action in actions:
                permissions.grant_permission(group, action)
        for name in made["developers"]:
            permissions.grant_permission(name, "developers")
        for name in made["support"]:
            permissions.grant_permission(name, "support")
        permissions.grant_permission(made["user"], "leads")
    enter(Path(env.path))
    with env.db_transaction:
        for one in made["tickets"]:
            ticket = Ticket(env)
            ticket.populate({name: one[name] for name in _FIELDS} | one["first"])
            ticket["description"] = one["description"].replace("\n", "\r\n")  # As forms send it.
            ticket["status"] = "new"
            ticket.insert(when=datetime.fromisoformat(one["created"]))
            assert ticket.id == one["id"]
            for event in one["events"]:
                ticket.populate(event["new"])
                ticket.save_changes(
                    event["author"], event["comment"], when=datetime.fromisoformat(event["when"])
                )
        for one in made["attachments"]:
            attachment = Attachment(env, "ticket", one["ticket"])
            attachment.author, attachment.description = one["author"], one["description"]
            data = one["text"].encode()
            attachment.insert(
                one["filename"], io.BytesIO(data), len(data), datetime.fromisoformat(one["when"])
            )
