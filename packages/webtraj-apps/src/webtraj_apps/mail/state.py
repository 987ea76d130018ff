"""The state of a mailbox as rows: mails, folders, contacts and settings, apart from their formats.

Reading a mail marks it as read, which hardly any task minds. So that is a table of its own, `read`,
which tasks allow to change as a whole.
"""

from __future__ import annotations

import contextlib
import email
import email.header
import email.message
import functools
import re
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

__all__ = ["read_state"]

Rows: TypeAlias = dict[Any, dict[str, Any]]

_FLAGS: Final = {"flagged": "\\Flagged", "answered": "\\Answered", "forwarded": "$Forwarded"}
_VCARD: Final = {
    "TEL": "phone",
    "ORG": "organization",
    "TITLE": "title",
    "NOTE": "notes",
    "BDAY": "birthday",
    "NICKNAME": "nickname",
}
_NOISE: Final = {
    "addressbook_search_mods",
    "client_hash",
    "collapsed_abooks",
    "collapsed_folders",
    "collected_recipients",
    "collected_senders",
    "date_long",
    "date_short",
    "list_cols",
    "message_sort_col",
    "message_sort_order",
    "search_interval",
    "search_mods",
    "search_scope",
}
"""Settings that change by the way, as one looks around or changes others."""


def read_state(folder: Path) -> dict[str, Rows]:
    """Return a world's rows by table and key.

    Args:
        folder: The folder of its state.
    """
    tables: dict[str, Rows] = {}
    with _opened(folder / "mail.sqlite") as database:
        tables["mail"], tables["read"] = _mails(database)
        tables["sent"] = {
            row["id"]: {
                "sender": row["sender"],
                "recipients": ", ".join(sorted(row["recipients"].split(", "))),
                **_content(row["raw"]),
            }
            for row in database.execute("SELECT * FROM sent")
        }
        tables["folder"] = {
            row["name"]: {
                "name": row["name"].replace("&-", "&"),
                "subscribed": bool(row["subscribed"]),
            }
            for row in database.execute("SELECT * FROM folder")
        }
    with _opened(folder / "roundcube.sqlite") as database:
        tables |= _address_book(database)
        tables |= _settings(database)
    return tables


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
    database.row_factory = sqlite3.Row
    try:
        yield database
    finally:
        database.close()


# Mails.


def _mails(database: sqlite3.Connection) -> tuple[Rows, Rows]:
    mails: Rows = {}
    read: Rows = {}
    for row in database.execute("SELECT * FROM mail"):
        flags = row["flags"].split()
        mails[row["id"]] = {
            "id": row["id"],
            "folder": row["folder"].replace("&-", "&"),
            **{name: flag in flags for name, flag in _FLAGS.items()},
            **_content(row["raw"]),
        }
        read[row["id"]] = {"mail": row["id"], "read": "\\Seen" in flags}
    return mails, read


@functools.lru_cache(4096)
def _content(raw: bytes) -> Mapping[str, Any]:
    message = email.message_from_bytes(raw)
    texts, attachments = [], []
    for part in message.walk():
        name = part.get_filename()
        if name:
            attachments.append(_decode_header(name))
        elif part.get_content_type() == "text/plain":
            texts.append(_text(part))
    body = "\n".join(texts).replace("\r\n", "\n")
    return {
        **{
            name: ", ".join(sorted(re.findall(r"[\w.+-]+@[\w.-]+", message.get(name, "").lower())))
            for name in ("from", "to", "cc", "bcc")
        },
        "reply_to": message.get("Reply-To", ""),
        "subject": _decode_header(message.get("Subject", "")).strip(),
        "body": body,
        "text": _own_words(body),
        "attachments": ", ".join(sorted(attachments)),
        "in_reply_to": message.get("In-Reply-To", ""),
        "priority": message.get("X-Priority", ""),
        "receipt": bool(message.get("Disposition-Notification-To")),
    }


def _decode_header(value: Any) -> str:
    """Return a header's value without its MIME encoding and folding."""
    parts = email.header.decode_header(str(value))
    text = "".join(
        part if isinstance(part, str) else part.decode(charset or "utf-8", "replace")
        for part, charset in parts
    )
    return re.sub(r"\s*\n\s+", " ", text)


def _text(part: email.message.Message) -> str:
    payload = part.get_payload(decode=True)
    assert isinstance(payload, bytes)
    text = payload.decode(part.get_content_charset("utf-8"), "replace").replace("\r\n", "\n")
    if part.get_param("format") != "flowed":
        return text
    # A line that ends with a space goes on (RFC 3676), but for the signature's mark.
    lines = [line.removeprefix(" ") for line in text.split("\n")]
    return "\n".join(lines).replace("-- \n", "--\n").replace(" \n", " ").replace("--\n", "-- \n")


def _own_words(body: str) -> str:
    """Return a text without signature, quotation and forwarded mail."""
    kept: list[str] = []
    signature = False
    for line in body.split("\n"):
        if line.startswith("-------- Original Message"):
            break
        if line.startswith(">"):
            signature = False
        elif line == "-- ":
            signature = True
        elif re.fullmatch(r"On .* wrote:\s*", line):
            signature = False
        elif not signature:
            kept.append(line)
    return "\n".join(kept).strip()


# Contacts and settings.


def _address_book(database: sqlite3.Connection) -> dict[str, Rows]:
    contacts: Rows = {}
    for row in database.execute("SELECT * FROM contacts WHERE del = 0"):
        contacts[row["contact_id"]] = {
            "id": row["contact_id"],
            "name": row["name"],
            "firstname": row["firstname"],
            "surname": row["surname"],
            "email": ", ".join(sorted(filter(None, re.split(r"[,\s]+", row["email"])))),
            **_card(row["vcard"]),
        }
    groups: Rows = {
        row["contactgroup_id"]: {"id": row["contactgroup_id"], "name": row["name"]}
        for row in database.execute("SELECT * FROM contactgroups WHERE del = 0")
    }
    members: Rows = {}
    for row in database.execute("SELECT * FROM contactgroupmembers"):
        key = group, contact = row["contactgroup_id"], row["contact_id"]
        if group in groups and contact in contacts:
            names = {"group": groups[group]["name"], "contact": contacts[contact]["name"]}
            members[key] = names
    return {"contact": contacts, "group": groups, "member": members}


def _card(vcard: str) -> dict[str, str]:
    found = dict.fromkeys([*_VCARD.values(), "more"], "")
    for line in re.sub(r"\r?\n[ \t]", "", vcard).splitlines():
        key, _, value = line.partition(":")
        name = _VCARD.get(key.partition(";")[0].upper(), "")
        if name:
            text = re.sub(r"\\n", "\n", value, flags=re.IGNORECASE).replace("\\", "").strip(";")
            found[name] = ", ".join(filter(None, (found[name], text)))
        elif key.partition(";")[0].upper() in ("ADR", "URL", "X-GENDER", "ROLE"):
            found["more"] += f"{value}\n" if value.strip(";") else ""
    return found


def _settings(database: sqlite3.Connection) -> dict[str, Rows]:
    identities: Rows = {
        row["identity_id"]: {
            "id": row["identity_id"],
            "default": bool(row["standard"]),
            "name": row["name"],
            "email": row["email"],
            "organization": row["organization"] or "",
            "reply_to": row["reply-to"],
            "bcc": row["bcc"],
            "signature": row["signature"].replace("\r\n", "\n").strip(),
        }
        for row in database.execute("SELECT * FROM identities WHERE del = 0")
    }
    responses: Rows = {
        row["response_id"]: {
            "id": row["response_id"],
            "name": row["name"],
            "text": row["data"].replace("\r\n", "\n").strip(),
        }
        for row in database.execute("SELECT * FROM responses WHERE del = 0")
    }
    settings: Rows = {}
    for row in database.execute("SELECT preferences FROM users"):
        preferences = _Serialized(row["preferences"] or "N;").value() or {}
        for name in preferences.keys() - _NOISE:
            value = preferences[name]
            settings[name] = {"name": name, "value": value}
    return {"identity": identities, "response": responses, "setting": settings}


class _Serialized:
    """A value in PHP's `serialize` format."""

    def __init__(self, text: str) -> None:
        self._rest = text.encode()

    def value(self) -> Any:
        """Read the next value; arrays become dictionaries."""
        kind = self._rest[:1]
        if kind == b"N":
            self._take(b";")
            return None
        self._take(b":")
        if kind in b"bid":
            number = self._take(b";")
            value = float(number)
            return number == b"1" if kind == b"b" else int(value) if kind == b"i" else value
        size = int(self._take(b":"))
        if kind == b"s":
            text, self._rest = self._rest[1 : 1 + size], self._rest[size + 3 :]
            return text.decode()
        self._rest = self._rest[1:]
        found = {self.value(): self.value() for _ in range(size)}
        self._rest = self._rest[1:]
        return found

    def _take(self, end: bytes) -> bytes:
        found, _, self._rest = self._rest.partition(end)
        return found
