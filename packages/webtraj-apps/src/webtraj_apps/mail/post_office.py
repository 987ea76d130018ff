# mypy: ignore-errors
"""A small IMAP and SMTP server for mailboxes that lie in SQLite files, one for each world.

It speaks what Roundcube needs: IMAP4rev1 (RFC 3501) with UIDPLUS, MOVE, SORT and UNSELECT for one
client at a time, and SMTP with AUTH PLAIN. Nothing is ever sent to anybody: a mail that is handed
in is kept in the table `sent`, and delivered to the mailbox if it is addressed to its owner. The
user name of a login is `key/world/name`: the server's key, the name of the world's folder and the
mailbox's owner. A mail keeps its id when it moves to another folder.

Only the standard library is imported: this module runs without webtraj.
"""

import base64
import binascii
import contextlib
import email
import email.header
import email.message
import email.utils
import functools
import re
import socketserver
import sqlite3
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["DATABASE", "PostOffice", "add_mail", "create"]

DATABASE = "mail.sqlite"
"""The file of a world's mailbox, in its folder."""

_SCHEMA = """
CREATE TABLE owner (name TEXT PRIMARY KEY, address TEXT, password TEXT);
CREATE TABLE folder (name TEXT PRIMARY KEY, uid_next INTEGER, subscribed INTEGER);
CREATE TABLE mail (
    id INTEGER PRIMARY KEY AUTOINCREMENT, folder TEXT, uid INTEGER, flags TEXT, received INTEGER,
    raw BLOB);
CREATE INDEX mail_uid ON mail (folder, uid);
CREATE TABLE sent (id INTEGER PRIMARY KEY AUTOINCREMENT, sender TEXT, recipients TEXT, raw BLOB);
"""
_CAPABILITIES = "IMAP4rev1 LITERAL+ UIDPLUS MOVE SORT UNSELECT NAMESPACE AUTH=LOGIN"
_FLAGS = r"\Answered \Flagged \Deleted \Seen \Draft"
_SECONDS = 60.0
"""How long a connection may be silent."""


def create(file: Path, name: str, address: str, password: str, folders: Iterable[str]) -> None:
    """Make the file of an empty mailbox."""
    database = sqlite3.connect(file)
    database.executescript(_SCHEMA)
    database.execute("INSERT INTO owner VALUES (?, ?, ?)", (name, address, password))
    database.executemany(
        "INSERT INTO folder VALUES (?, 1, 1)", ((folder,) for folder in ("INBOX", *folders))
    )
    database.commit()
    database.close()


def add_mail(
    database: sqlite3.Connection, folder: str, raw: bytes, flags: str, received: datetime
) -> tuple[int, int]:
    """Put a mail into a folder; return its id and its UID."""
    uid = _next_uid(database, folder)
    row = database.execute(
        "INSERT INTO mail (folder, uid, flags, received, raw) VALUES (?, ?, ?, ?, ?)",
        (folder, uid, flags, int(received.timestamp()), raw),
    )
    assert row.lastrowid is not None
    return row.lastrowid, uid


def _next_uid(database: sqlite3.Connection, folder: str) -> int:
    found = database.execute("SELECT uid_next FROM folder WHERE name = ?", (folder,)).fetchone()
    if found is None:
        raise _NoError("[TRYCREATE] No such folder.")
    database.execute("UPDATE folder SET uid_next = uid_next + 1 WHERE name = ?", (folder,))
    return int(found[0])


class PostOffice:
    """Both servers, each with a port of 127.0.0.1.

    Args:
        root: The folder of the worlds' folders.
        key: The start of every user name, so that only our own web mail can log in.
        now: Returns the time at which mails are delivered.
    """

    def __init__(self, root: Path, key: str, now: Callable[[], datetime]) -> None:
        self.root = root
        self.key = key
        self.now = now
        self.imap_port = self._listen(_Imap)
        self.smtp_port = self._listen(_Smtp)

    def _listen(self, handler: type["_Connection"]) -> int:
        server = _Server(("127.0.0.1", 0), type(handler.__name__, (handler,), {"office": self}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return int(server.server_address[1])

    def open(self, login: str, password: str) -> sqlite3.Connection | None:
        """Open the mailbox that a login names; None if it does not fit."""
        key, _, rest = login.partition("/")
        world, _, name = rest.partition("/")
        file = self.root / world / DATABASE
        if key != self.key or "/" in name or world in ("", ".", "..") or not file.exists():
            return None
        database = sqlite3.connect(file, isolation_level=None)
        database.execute("PRAGMA journal_mode = MEMORY")
        database.execute("PRAGMA synchronous = OFF")
        wanted = database.execute(
            "SELECT 1 FROM owner WHERE name = ? AND password = ?", (name.lower(), password)
        )
        if wanted.fetchone() is None:
            database.close()
            return None
        return database


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64


class _Connection(socketserver.StreamRequestHandler):
    office: PostOffice
    timeout = _SECONDS
    disable_nagle_algorithm = True
    wbufsize = -1
    database: sqlite3.Connection | None = None

    def finish(self) -> None:
        if self.database is not None:
            self.database.close()
        with contextlib.suppress(OSError):
            super().finish()

    def send(self, text: str | bytes) -> None:
        self.wfile.write((text if isinstance(text, bytes) else _bytes(text)) + b"\r\n")


class _Smtp(_Connection):
    def handle(self) -> None:
        self.reply("220 mail.test ESMTP")
        sender, recipients = "", []
        while line := self.rfile.readline(65537):
            text = line.decode("utf-8", "replace").strip()
            verb = text[:4].upper()
            if verb == "EHLO":
                self.reply("250-mail.test\r\n250-8BITMIME\r\n250 AUTH PLAIN")
            elif verb == "AUTH":
                given = text.partition(" ")[2].partition(" ")[2]
                if not given:
                    self.reply("334 ")
                    given = self.rfile.readline(65537).decode("ascii", "replace")
                _, login, password = _plain(given)
                self.database = self.office.open(login, password)
                self.reply("235 OK" if self.database else "535 No")
            elif verb == "QUIT":
                self.reply("221 Bye")
                return
            elif self.database is None and verb in ("MAIL", "RCPT", "DATA"):
                self.reply("530 Authentication required")
            elif verb == "MAIL":
                sender, recipients = _address(text), []
                self.reply("250 OK")
            elif verb == "RCPT":
                recipients.append(_address(text))
                self.reply("250 OK")
            elif verb == "DATA":
                self.reply("354 Go ahead")
                self.accept(sender, recipients, b"".join(self.data()))
                self.reply("250 OK")
            else:
                self.reply("250 OK")

    def reply(self, text: str) -> None:
        self.send(text)
        self.wfile.flush()

    def data(self) -> Iterator[bytes]:
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            yield line[1:] if line.startswith(b".") else line

    def accept(self, sender: str, recipients: list[str], raw: bytes) -> None:
        assert self.database is not None
        self.database.execute(
            "INSERT INTO sent (sender, recipients, raw) VALUES (?, ?, ?)",
            (sender, ", ".join(recipients), raw),
        )
        (own,) = self.database.execute("SELECT address FROM owner").fetchone()
        if own in (recipient.lower() for recipient in recipients):
            add_mail(self.database, "INBOX", raw, "", self.office.now())


def _plain(text: str) -> tuple[str, str, str]:
    try:
        first, second, third = base64.b64decode(text).decode().split("\0")
    except (binascii.Error, ValueError):
        return "", "", ""
    return first, second, third


def _address(text: str) -> str:
    found = re.search(r"<([^>]*)>", text)
    return found[1] if found else ""


class _NoError(Exception):
    """The command cannot be carried out; the message says why."""


class _Row(NamedTuple):
    """A mail of the selected folder."""

    id: int
    uid: int
    flags: str
    received: int
    raw: bytes


class _Imap(_Connection):
    selected = ""

    def handle(self) -> None:
        self.send(f"* OK [CAPABILITY {_CAPABILITIES}] ready")
        self.wfile.flush()
        while command := self.read():
            tag, verb, *rest = command
            verb = verb.upper()
            uid = verb == "UID"
            if uid:
                verb, *rest = rest[0].upper(), *rest[1:]
            try:
                status = self.perform(verb, rest, uid)
            except _NoError as error:
                status = f"NO {error}"
            except (ValueError, LookupError, TypeError) as error:
                status = f"BAD {verb}: {error!r}"
            self.send(f"{tag} {status}")
            self.wfile.flush()
            if verb == "LOGOUT":
                return

    def read(self) -> list[Any]:
        """Return the next command: tag, verb and arguments, which are texts and lists."""
        tokens: list[Any] = []
        stack = [tokens]
        while True:
            line = self.rfile.readline().decode("utf-8", "surrogateescape")
            if not line:
                return []
            text, size, plus = _literal(line)
            _tokenize(text, stack)
            if size is None:
                return tokens
            if not plus:
                self.send("+ go ahead")
                self.wfile.flush()
            stack[-1].append(self.rfile.read(size).decode("utf-8", "surrogateescape"))

    def perform(self, verb: str, rest: list[Any], uid: bool) -> str:
        if verb == "LOGIN":
            self.database = self.office.open(rest[0], rest[1])
            if self.database is None:
                raise _NoError("[AUTHENTICATIONFAILED] Wrong name or password.")
            return f"OK [CAPABILITY {_CAPABILITIES}] Logged in."
        if verb == "LOGOUT":
            self.send("* BYE")
            return "OK"
        if verb == "CAPABILITY":
            self.send(f"* CAPABILITY {_CAPABILITIES}")
            return "OK"
        if verb in ("NOOP", "CHECK"):
            return "OK"
        if self.database is None:
            raise _NoError("Log in first.")
        method = getattr(self, f"do_{verb.lower()}", None)
        if method is None:
            return f"BAD Unknown command {verb}."
        self.database.execute("BEGIN")
        try:
            done = method(*rest, uid=uid) if verb in _WITH_UID else method(*rest)
            self.database.execute("COMMIT")
        except BaseException:
            self.database.execute("ROLLBACK")
            raise
        return done or "OK"

    def query(self, sql: str, *values: Any) -> list[Any]:
        assert self.database is not None
        return self.database.execute(sql, values).fetchall()

    # Folders.

    def do_namespace(self) -> None:
        self.send('* NAMESPACE (("" "/")) NIL NIL')

    def do_list(self, reference: str, pattern: str, verb: str = "LIST") -> None:
        if not pattern:
            self.send(f'* {verb} (\\Noselect) "/" ""')
            return
        fitting = re.compile(
            re.escape(reference + pattern).replace(r"\*", ".*").replace("%", "[^/]*")
        )
        folders = self.query("SELECT name, subscribed FROM folder ORDER BY name")
        for name, subscribed in folders:
            if fitting.fullmatch(name) and (verb == "LIST" or subscribed):
                parent = any(other.startswith(f"{name}/") for other, _ in folders)
                mark = "\\HasChildren" if parent else "\\HasNoChildren"
                self.send(f'* {verb} ({mark}) "/" {_quote(name)}')

    def do_lsub(self, reference: str, pattern: str) -> None:
        self.do_list(reference, pattern, "LSUB")

    def do_create(self, name: str) -> None:
        name = name.rstrip("/")
        if self.exists(name):
            raise _NoError("[ALREADYEXISTS] The folder exists.")
        self.query("INSERT INTO folder VALUES (?, 1, 0)", name)

    def do_delete(self, name: str) -> None:
        if not self.exists(name) or name == "INBOX":
            raise _NoError("No such folder.")
        self.query("DELETE FROM mail WHERE folder = ?", name)
        self.query("DELETE FROM folder WHERE name = ?", name)

    def do_rename(self, name: str, new: str) -> None:
        if not self.exists(name) or name == "INBOX":
            raise _NoError("No such folder.")
        if self.exists(new):
            raise _NoError("[ALREADYEXISTS] The folder exists.")
        for (old,) in self.query(
            "SELECT name FROM folder WHERE name = ? OR substr(name, 1, ?) = ?",
            name,
            len(name) + 1,
            f"{name}/",
        ):
            moved = new + old[len(name) :]
            self.query("UPDATE folder SET name = ? WHERE name = ?", moved, old)
            self.query("UPDATE mail SET folder = ? WHERE folder = ?", moved, old)

    def do_subscribe(self, name: str) -> None:
        self.query("UPDATE folder SET subscribed = 1 WHERE name = ?", name)

    def do_unsubscribe(self, name: str) -> None:
        self.query("UPDATE folder SET subscribed = 0 WHERE name = ?", name)

    def do_status(self, name: str, items: list[str]) -> None:
        if not self.exists(name):
            raise _NoError("No such folder.")
        (uid_next,) = self.query("SELECT uid_next FROM folder WHERE name = ?", name)[0]
        flags = [row[0].split() for row in self.query(_OF_FOLDER.format("flags"), name)]
        values = {
            "MESSAGES": len(flags),
            "UNSEEN": sum("\\Seen" not in one for one in flags),
            "RECENT": 0,
            "UIDNEXT": uid_next,
            "UIDVALIDITY": 1,
        }
        shown = " ".join(f"{item.upper()} {values[item.upper()]}" for item in items)
        self.send(f"* STATUS {_quote(name)} ({shown})")

    def do_select(self, name: str, *_: Any) -> str:
        if not self.exists(name):
            self.selected = ""
            raise _NoError("[NONEXISTENT] No such folder.")
        self.selected = name
        (uid_next,) = self.query("SELECT uid_next FROM folder WHERE name = ?", name)[0]
        self.send(f"* FLAGS ({_FLAGS} $Forwarded)")
        self.send(f"* OK [PERMANENTFLAGS ({_FLAGS} $Forwarded \\*)]")
        self.send(f"* {len(self.rows())} EXISTS")
        self.send("* 0 RECENT")
        self.send("* OK [UIDVALIDITY 1]")
        self.send(f"* OK [UIDNEXT {uid_next}]")
        return "OK [READ-WRITE]"

    do_examine = do_select

    def do_unselect(self) -> None:
        self.selected = ""

    def do_close(self) -> None:
        self.query("DELETE FROM mail WHERE folder = ? AND flags LIKE '%\\Deleted%'", self.selected)
        self.selected = ""

    def exists(self, name: str) -> bool:
        return bool(self.query("SELECT 1 FROM folder WHERE name = ?", name))

    # Mails.

    def rows(self) -> list[_Row]:
        """Return the mails of the selected folder; a mail's number is its position from 1."""
        found = self.query(_OF_FOLDER.format("id, uid, flags, received, raw"), self.selected)
        return [_Row(*row) for row in found]

    def find_by_number(self, numbers: str, uid: bool) -> list[tuple[int, _Row]]:
        """Return the mails of a set such as `1:3,7`, with their numbers."""
        rows = list(enumerate(self.rows(), 1))
        last = max((row.uid if uid else i for i, row in rows), default=0)
        wanted = _ranges(numbers, last)
        return [
            (i, row)
            for i, row in rows
            if any(low <= (row.uid if uid else i) <= high for low, high in wanted)
        ]

    def do_fetch(self, numbers: str, items: Any, *, uid: bool) -> None:
        items = items if isinstance(items, list) else [items]
        items = [item.upper() for item in items]
        if uid and "UID" not in items:
            items = ["UID", *items]
        for i, row in self.find_by_number(numbers, uid):
            if any(item.startswith("BODY[") for item in items):
                row = self.change_flags(row, "+FLAGS", ["\\Seen"])
            self.send(b"* %d FETCH (%b)" % (i, b" ".join(_item(row, item) for item in items)))

    def do_store(self, numbers: str, how: str, flags: Any, *, uid: bool) -> None:
        how = how.upper()
        for i, row in self.find_by_number(numbers, uid):
            new = self.change_flags(row, how, flags if isinstance(flags, list) else [flags])
            if not how.endswith(".SILENT"):
                self.send(f"* {i} FETCH (UID {row.uid} FLAGS ({new.flags}))")

    def change_flags(self, row: _Row, how: str, flags: list[str]) -> _Row:
        old, given = set(row.flags.split()), set(flags)
        new = old | given if how[0] == "+" else old - given if how[0] == "-" else given
        text = " ".join(sorted(new))
        if new != old:
            self.query("UPDATE mail SET flags = ? WHERE id = ?", text, row.id)
        return row._replace(flags=text)

    def do_copy(self, numbers: str, to: str, *, uid: bool) -> str:
        assert self.database is not None
        rows = [row for _, row in self.find_by_number(numbers, uid)]
        new = [
            add_mail(self.database, to, row.raw, row.flags, _moment(row.received))[1]
            for row in rows
        ]
        return f"OK [COPYUID 1 {_set([row.uid for row in rows])} {_set(new)}]"

    def do_move(self, numbers: str, to: str, *, uid: bool) -> None:
        assert self.database is not None
        moved = self.find_by_number(numbers, uid)
        new = []
        for _, row in moved:
            new.append(_next_uid(self.database, to))
            self.query("UPDATE mail SET folder = ?, uid = ? WHERE id = ?", to, new[-1], row.id)
        self.send(f"* OK [COPYUID 1 {_set([row.uid for _, row in moved])} {_set(new)}]")
        for i, _ in reversed(moved):
            self.send(f"* {i} EXPUNGE")

    def do_expunge(self, numbers: str = "1:*", *, uid: bool) -> None:
        for i, row in reversed(self.find_by_number(numbers, uid)):
            if "\\Deleted" in row.flags.split():
                self.query("DELETE FROM mail WHERE id = ?", row.id)
                self.send(f"* {i} EXPUNGE")

    def do_append(self, name: str, *rest: Any) -> str:
        assert self.database is not None
        *options, raw = rest
        flags = next((one for one in options if isinstance(one, list)), [])
        date = next((one for one in options if isinstance(one, str)), "")
        received = _parse_date(date) if date else self.office.now()
        _, uid = add_mail(self.database, name, _bytes(raw), " ".join(sorted(flags)), received)
        return f"OK [APPENDUID 1 {uid}]"

    def do_search(self, *criteria: Any, uid: bool) -> None:
        found = [row.uid if uid else i for i, row in self.find_by_criteria(list(criteria))]
        self.send(" ".join(["* SEARCH", *map(str, found)]))

    def do_sort(self, fields: list[str], charset: str, *criteria: Any, uid: bool) -> None:
        found = self.find_by_criteria(list(criteria))
        backwards = fields[0].upper() == "REVERSE"
        key = _SORT_KEYS[fields[-1].upper()]
        found.sort(key=lambda one: key(one[1]), reverse=backwards)
        numbers = [row.uid if uid else i for i, row in found]
        self.send(" ".join(["* SORT", *map(str, numbers)]))

    def find_by_criteria(self, criteria: list[Any]) -> list[tuple[int, _Row]]:
        if criteria and str(criteria[0]).upper() == "CHARSET":
            criteria = criteria[2:]
        rows = list(enumerate(self.rows(), 1))
        last = (len(rows), rows[-1][1].uid if rows else 0)
        test = _all_of(criteria, last)
        return [one for one in rows if test(one)]


_WITH_UID = ("FETCH", "STORE", "COPY", "MOVE", "EXPUNGE", "SEARCH", "SORT")
_OF_FOLDER = "SELECT {} FROM mail WHERE folder = ? ORDER BY uid"


# The grammar.

_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|([()])|((?:\[[^\]]*\]|[^\s()"\[])+)')


def _literal(line: str) -> tuple[str, int | None, bool]:
    """Split a line into its text, the size of an announced literal, and whether to wait."""
    text = line.rstrip("\r\n")
    found = re.search(r"\{(\d+)(\+?)\}$", text)
    if not found:
        return text, None, True
    return text[: found.start()], int(found[1]), bool(found[2])


def _tokenize(text: str, stack: list[list[Any]]) -> None:
    for quoted, bracket, atom in _TOKEN.findall(text):
        if bracket == "(":
            inner: list[Any] = []
            stack[-1].append(inner)
            stack.append(inner)
        elif bracket == ")":
            stack.pop()
        else:
            stack[-1].append(atom or re.sub(r"\\(.)", r"\1", quoted))


def _ranges(numbers: str, last: int) -> list[tuple[int, int]]:
    found = []
    for part in numbers.split(","):
        ends = sorted(last if end == "*" else int(end) for end in part.split(":"))
        found.append((ends[0], ends[-1]))
    return found


def _set(numbers: list[int]) -> str:
    return ",".join(map(str, numbers)) or "0"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _string(text: str | None) -> str:
    """Return a text of a mail's structure."""
    if text is None:
        return "NIL"
    return _quote(str(text).replace("\r", "").replace("\n", "").encode("ascii", "replace").decode())


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _parse_date(text: str) -> datetime:
    return datetime.strptime(text.strip(), "%d-%b-%Y %H:%M:%S %z")


# What FETCH returns.


@functools.lru_cache(4096)
def _parse(raw: bytes) -> email.message.Message:
    return email.message_from_bytes(raw)


def _item(row: _Row, item: str) -> bytes:
    if item == "UID":
        return b"UID %d" % row.uid
    if item == "FLAGS":
        return f"FLAGS ({row.flags})".encode()
    if item == "INTERNALDATE":
        return f'INTERNALDATE "{_moment(row.received):%d-%b-%Y %H:%M:%S +0000}"'.encode()
    if item == "RFC822.SIZE":
        return b"RFC822.SIZE %d" % len(row.raw)
    if item == "BODYSTRUCTURE":
        return b"BODYSTRUCTURE " + _structure(row.raw)
    _, section, partial = _SECTION.fullmatch(item).groups()
    value = _section(row.raw, section)
    shown = f"BODY[{section}]".encode()
    if partial:
        start, _, size = partial.partition(".")
        value = value[int(start) :][: int(size)]
        shown += b"<%b>" % start.encode()
    return b"%b {%d}\r\n%b" % (shown, len(value), value)


_SECTION = re.compile(r"(BODY(?:\.PEEK)?)\[(.*)\](?:<([\d.]+)>)?")


def _section(raw: bytes, section: str) -> bytes:
    head, _, body = raw.partition(b"\r\n\r\n")
    if not section:
        return raw
    if section == "HEADER":
        return head + b"\r\n\r\n"
    if section == "TEXT":
        return body
    if section.startswith("HEADER.FIELDS"):
        wanted = section.partition("(")[2].rstrip(")").lower().split()
        fields = re.split(rb"\r\n(?![ \t])", head)
        kept = [one for one in fields if one.partition(b":")[0].decode().lower() in wanted]
        return b"".join(one + b"\r\n" for one in kept) + b"\r\n"
    numbers = re.match(r"[\d.]*", section)[0].strip(".")
    rest = section[len(numbers) :].strip(".")
    part = _part(_parse(raw), [int(number) for number in numbers.split(".")])
    if rest in ("MIME", "HEADER"):
        if rest == "HEADER" and part.get_content_type() == "message/rfc822":
            part = part.get_payload(0)
        return _raw_header(part)
    return _payload(part)


def _part(message: email.message.Message, path: list[int]) -> email.message.Message:
    for number in path:
        if message.get_content_type() == "message/rfc822":
            message = message.get_payload(0)
        if message.is_multipart():
            message = message.get_payload(number - 1)
        elif number != 1:
            raise _NoError("No such part.")
    return message


def _raw_header(part: email.message.Message) -> bytes:
    lines = (f"{name}: {value}\r\n" for name, value in part.raw_items())
    return _bytes("".join(lines)) + b"\r\n"


def _payload(part: email.message.Message) -> bytes:
    if part.get_content_type() == "message/rfc822":
        return _raw(part.get_payload(0))
    if part.is_multipart():
        return b""
    return _bytes(str(part.get_payload()))


def _raw(message: email.message.Message) -> bytes:
    return message.as_bytes(policy=message.policy.clone(linesep="\r\n"))


@functools.lru_cache(4096)
def _structure(raw: bytes) -> bytes:
    return _bytes(_structure_of(_parse(raw)))


def _structure_of(part: email.message.Message) -> str:
    kind, subtype = part.get_content_maintype(), part.get_content_subtype()
    parameters = part.get_params([], unquote=True)[1:]
    inner = " ".join(f"{_string(name)} {_string(value)}" for name, value in parameters)
    shown = f"({inner})" if inner else "NIL"
    disposition = _disposition(part)
    if part.is_multipart() and kind == "multipart":
        parts = "".join(map(_structure_of, part.get_payload()))
        return f"({parts} {_string(subtype)} {shown} {disposition} NIL NIL)"
    payload = _payload(part)
    encoding = part.get("Content-Transfer-Encoding", "7bit")
    fields = [_string(kind), _string(subtype), shown, _string(part.get("Content-ID")), "NIL"]
    fields += [_string(encoding), str(len(payload))]
    if kind == "message" and subtype == "rfc822":
        fields += [f"({' '.join(['NIL'] * 10)})", _structure_of(part.get_payload(0))]
    if kind == "text" or subtype == "rfc822":
        fields.append(str(payload.count(b"\n")))
    return f"({' '.join(fields)} NIL {disposition} NIL NIL)"


def _disposition(part: email.message.Message) -> str:
    if part.get_content_disposition() is None:
        return "NIL"
    name = part.get_filename()
    shown = f'("filename" {_string(name)})' if name else "NIL"
    return f"({_string(part.get_content_disposition())} {shown})"


# What SEARCH and SORT ask.

_Test = Callable[[tuple[int, _Row]], bool]
_KEYS = ("ANSWERED", "DELETED", "DRAFT", "FLAGGED", "SEEN")


def _all_of(criteria: list[Any], last: tuple[int, int]) -> _Test:
    left, tests = list(criteria), []
    while left:
        tests.append(_one_of(left, last))
    return lambda one: all(test(one) for test in tests)


def _one_of(left: list[Any], last: tuple[int, int]) -> _Test:
    """Take one criterion off the front of a list."""
    key = left.pop(0)
    if isinstance(key, list):
        return _all_of(key, last)
    name = key.upper()
    if name == "ALL":
        return lambda one: True
    if name == "NOT":
        test = _one_of(left, last)
        return lambda one: not test(one)
    if name == "OR":
        first, second = _one_of(left, last), _one_of(left, last)
        return lambda one: first(one) or second(one)
    if name in ("NEW", "RECENT", "OLD"):
        return lambda one: name == "OLD"
    if name.removeprefix("UN") in _KEYS:
        flag = "\\" + name.removeprefix("UN").capitalize()
        return lambda one: (flag in one[1].flags.split()) != name.startswith("UN")
    if name in ("KEYWORD", "UNKEYWORD"):
        word = left.pop(0).lower()
        return lambda one: (word in one[1].flags.lower().split()) != name.startswith("UN")
    if name in ("LARGER", "SMALLER"):
        size = int(left.pop(0))
        return lambda one: len(one[1].raw) > size if name == "LARGER" else len(one[1].raw) < size
    if name == "UID":
        wanted = _ranges(left.pop(0), last[1])
        return lambda one: any(low <= one[1].uid <= high for low, high in wanted)
    if name in _DAYS:
        compare = _DAYS[name]
        day = datetime.strptime(left.pop(0), "%d-%b-%Y").date()
        return lambda one: compare(_date_of(one[1], name.startswith("SENT")).date(), day)
    if name in ("BODY", "TEXT"):
        text = _fold(left.pop(0))
        return lambda one: text in _text(one[1].raw, name == "TEXT")
    if name == "HEADER" or name in _HEADERS:
        header = left.pop(0) if name == "HEADER" else name
        text = _fold(left.pop(0))
        return lambda one: (
            text in _header(one[1].raw, header) and (bool(text) or header in _parse(one[1].raw))
        )
    wanted = _ranges(key, last[0])
    return lambda one: any(low <= one[0] <= high for low, high in wanted)


_HEADERS = ("FROM", "TO", "CC", "BCC", "SUBJECT")
_DAYS: dict[str, Callable[[Any, Any], bool]] = {
    f"{sent}{name}": compare
    for sent in ("", "SENT")
    for name, compare in (
        ("SINCE", lambda a, b: a >= b),
        ("BEFORE", lambda a, b: a < b),
        ("ON", lambda a, b: a == b),
    )
}


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


@functools.lru_cache(16384)
def _header(raw: bytes, name: str) -> str:
    values = _parse(raw).get_all(name, [])
    return _fold(" ".join(map(_decode_header, values)))


def _decode_header(value: Any) -> str:
    """Return a header's value without its MIME encoding."""
    parts = email.header.decode_header(str(value))
    return "".join(
        part if isinstance(part, str) else part.decode(charset or "utf-8", "replace")
        for part, charset in parts
    )


@functools.lru_cache(4096)
def _text(raw: bytes, with_header: bool) -> str:
    message = _parse(raw)
    texts = [_decode_header(value) for value in message.values()] if with_header else []
    for part in message.walk():
        if part.get_content_maintype() == "text":
            payload = part.get_payload(decode=True)
            texts.append(payload.decode("utf-8", "replace"))
    return re.sub(r"\s+", " ", _fold("\n".join(texts)))


def _date_of(row: _Row, sent: bool) -> datetime:
    date = _parse(row.raw)["Date"]
    return email.utils.parsedate_to_datetime(date) if sent and date else _moment(row.received)


def _first_name(header: str) -> Callable[[_Row], tuple[str, int]]:
    def key(row: _Row) -> tuple[str, int]:
        addresses = email.utils.getaddresses([_header(row.raw, header)])
        return (addresses[0][1].partition("@")[0] if addresses else "", row.uid)

    return key


def _subject(row: _Row) -> tuple[str, int]:
    return re.sub(r"^((re|fwd?): *)+", "", _header(row.raw, "SUBJECT")), row.uid


_SORT_KEYS: dict[str, Callable[[_Row], Any]] = {
    "ARRIVAL": lambda row: (row.received, row.uid),
    "DATE": lambda row: (_date_of(row, True), row.uid),
    "SIZE": lambda row: (len(row.raw), row.uid),
    "FROM": _first_name("FROM"),
    "TO": _first_name("TO"),
    "CC": _first_name("CC"),
    "SUBJECT": _subject,
}
