"""Tasks in the webmail, and their oracles."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from operator import itemgetter
from typing import Any, Final

from webtraj import errors
from webtraj.environments import actions as actions_lib
from webtraj.environments.browser.oracles import OracleView, Step, act
from webtraj_apps.fields import Field, columns_of, set_fields
from webtraj_apps.state import Expected, Test
from webtraj_apps.tasks import (
    Assignment,
    Changes,
    Facts,
    Parts,
    Row,
    Statement,
    Steps,
    added,
    assign,
    changed,
    changed_row,
    contains,
    draw_best,
    email_of,
    find,
    find_best,
    format_date,
    in_changed,
    join_names,
    next_id,
    other_than,
    removed,
    same_text,
    template,
)

task = functools.partial(template, user="user")

READ: Final = (
    changed("read", {}, read=True),
    *(kind("read", mail=in_changed("mail")) for kind in (added, removed)),
)
"""Opening a mail marks it as read."""
_PATIENCE: Final = 40
"""How often an oracle looks for an element before it gives up."""
_POLLS: Final = 5
"""How many looks an oracle takes before it spends a step on waiting."""
_MESSAGE: Final = ("#messagecontframe",)
_FORM: Final = ("#preferences-frame",)
_CONTACT: Final = ("#contact-frame",)

_VISIBLE: Final = """
([path, text, part]) => {
  let roots = [document];
  for (const selector of path.slice(0, -1)) {
    roots = roots.flatMap(root => [...root.querySelectorAll(selector)])
      .map(element => element.contentDocument ?? element);
  }
  // While a page loads, its buttons do not work yet.
  const busy = root => root.readyState !== "complete" || root.defaultView.rcmail?.busy ||
    root.querySelector("#messagestack .loading");
  const frames = [...document.querySelectorAll("iframe")].map(frame => frame.contentDocument);
  if ([document, ...frames].some(root => root && busy(root))) return null;
  const squeezed = element => element.textContent.trim().replace(/\\s+/g, " ");
  const found = roots.flatMap(root => [...root.querySelectorAll(path.at(-1))]).find(element =>
    element.getClientRects().length &&
    (path.at(-1).includes("disabled") || !element.matches(".disabled, :disabled")) &&
    (text === null || (part ? squeezed(element).includes(text) : squeezed(element) === text)));
  if (!found) return null;
  const names = [];
  for (let element = found; element.parentElement; element = element.parentElement) {
    names.unshift(`:nth-child(${[...element.parentElement.children].indexOf(element) + 1})`);
  }
  const middle = box => (box.top + box.bottom) / 2;
  const scroller = path.length === 1 && found.closest(".scroller");
  const area = scroller && scroller.getBoundingClientRect();
  const at = middle(found.getBoundingClientRect());
  const hidden = area && (at < area.top + 10 || at > Math.min(area.bottom, innerHeight) - 10);
  return {
    path: [":root", ...names].join(" > "),
    scroll: hidden ? [area.left + area.width / 2, middle(area), at - middle(area)] : null,
  };
}
"""
"""Find the first visible element, also in frames, that has a text or contains it.

Returns its selector, and where and how far to scroll if a list hides it.
"""


def _on(
    make: Callable[[str], actions_lib.Action] | None,
    selector: str,
    text: str | None = None,
    inside: Sequence[str] = (),
    part: bool = False,
) -> Step:
    """Wait for an element, and act on it unless `make` is None."""

    async def step(page: OracleView) -> AsyncIterator[actions_lib.Action]:
        for attempt in range(_PATIENCE):
            found = ref = None
            # A page that is being left has no elements.
            with contextlib.suppress(errors.BrowserError):
                found = await page.evaluate(_VISIBLE, [[*inside, selector], text, part])
                ref = await page.find((*inside, found["path"])) if found else None
            if found and ref is not None:
                if make is None:
                    return
                if found["scroll"]:
                    x, y, down = found["scroll"]
                    yield actions_lib.ScrollAt(x, y, 0, down)
                    continue
                yield make(ref)
                return
            if (attempt + 1) % _POLLS:
                await asyncio.sleep(0.1)
            else:
                yield actions_lib.Wait(0.3)
        raise LookupError(f"The page has no {selector!r} with the text {text!r}.")

    return step


def tap(selector: str, text: str | None = None, **more: Any) -> Step:
    """Click an element as soon as it is there."""
    return _on(actions_lib.Click, selector, text, **more)


def put(selector: str, value: str, **more: Any) -> Step:
    """Fill in a field as soon as it is there."""
    return _on(lambda ref: actions_lib.Fill(ref, value), selector, **more)


def choose(selector: str, option: str, **more: Any) -> Step:
    """Choose an option of a list."""
    return _on(lambda ref: actions_lib.SelectOption(ref, (option,)), selector, **more)


def key(selector: str, keys: str, **more: Any) -> Step:
    """Press keys in an element."""
    return _on(lambda ref: actions_lib.Press(ref, keys), selector, **more)


def await_element(selector: str, text: str | None = None, **more: Any) -> Step:
    """Wait for an element."""
    return _on(None, selector, text, **more)


# Steps through the webmail.

_SUBJECT: Final = "#messagelist span.subject a"
_CREATE: Final = tap("#layout-content .header a.create")
_DELETE: Final = tap("#layout-content .header a.delete")
_CONFIRM: Final = tap(".ui-dialog-buttonset .mainaction")
_LISTED: Final = await_element("#messagelist")
_SEND: Final = (tap("button.send"), _LISTED)
_TO_MAILS: Final = tap("#taskmenu a.mail")
_TO_CONTACTS: Final = tap("#taskmenu a.contacts")
_CONTACT_SHOWN: Final = await_element(".formbuttons .edit", inside=_CONTACT)
READABLE: Final = await_element(".message-part, .rcmBody", inside=_MESSAGE)
"""Wait until the chosen mail is shown."""


def to_folder(name: str) -> Step:
    """Open a folder."""
    return tap(f'#mailboxlist a[rel="{name}"]')


def search(text: str) -> tuple[Step, ...]:
    """Search the open folder."""
    return put("#mailsearchform", text), key("#mailsearchform", "Enter")


def pick(mail: Row) -> tuple[Step, ...]:
    """Find a mail and show it beside the list."""
    opened = (to_folder(mail["folder"]),) if mail["folder"] != "INBOX" else ()
    return (*opened, *search(mail["subject"]), tap(_SUBJECT, mail["subject"]), READABLE)


def read_nth(position: int) -> Step:
    """Read a mail of the list by its position from 0."""
    return tap(f"#messagelist tbody tr:nth-child({position + 1}) span.subject a")


def _read(mails: Iterable[Row]) -> Steps:
    """Read mails that a search has found."""
    return [(tap(_SUBJECT, mail["subject"]), READABLE) for mail in mails]


def _choose(mails: Sequence[Row]) -> Steps:
    """Choose several mails of the list."""
    first, *others = (mail["subject"] for mail in mails)
    control = functools.partial(actions_lib.Click, modifiers=("Control",))
    return tap(_SUBJECT, first), [_on(control, _SUBJECT, subject) for subject in others]


def _choose_all(text: str) -> Steps:
    """Search the open folder, and choose all results."""
    menu = tap("#messagelist-header a.select"), tap("#listselect-menu a.select.all")
    return search(text), await_element("#messagelist tr.message"), menu


def _move_to(folder: str) -> Steps:
    """Move the chosen mails."""
    menu = tap("#messagemenulink"), tap("#message-menu a.move")
    return menu, tap("#folder-selector a", folder), _LISTED


def _mark(how: str) -> Steps:
    """Mark the chosen mails: `unread` or `flag`."""
    return tap("#markmessagemenulink"), tap(f"#markmessage-menu a.{how}"), _LISTED


def _write(subject: str = "", text: str = "", **recipients: Sequence[str]) -> Iterator[Step]:
    """Fill in the form of a mail; the addresses are `to`, `cc` and `bcc`."""
    for name, addresses in recipients.items():
        if name != "to":
            yield tap("#compose_to a[data-popup=headers-menu]")
            yield tap(f"#headers-menu a[data-target={name}]")
        yield put(f"#compose_{name} input", ", ".join(addresses) + ",")
    if subject:
        yield put("#compose-subject", subject)
    if text:
        yield put("#composebody", text)


def _put_before(text: str) -> Step:
    """Write above the text that is already there."""

    async def step(page: OracleView) -> AsyncIterator[actions_lib.Action]:
        async for action in await_element("#composebody")(page):
            yield action
        rest = await page.evaluate("() => document.querySelector('#composebody').value")
        async for action in put("#composebody", f"{text}\n\n{rest.lstrip()}")(page):
            yield action

    return step


def _compose(*options: Step, **fields: Any) -> Steps:
    """Write a mail and send it. See `_write`."""
    return tap("a.compose"), _write(**fields), options, _SEND


def _whole_folder(name: str, what: str) -> Steps:
    """Do something with all mails of a folder: `read` or `purge`."""
    menu = tap("#layout-sidebar .sidebar-menu"), tap(f"#mailboxoptions-menu a.{what}")
    return to_folder(name), menu, _CONFIRM, _LISTED


def _pick_contact(name: str) -> Steps:
    """Find a contact and show it; the address book is open."""
    return put("#searchform", name), key("#searchform", "Enter"), _pick_listed(name)


def _pick_listed(name: str) -> Steps:
    """Show a contact of the list. Contacts found by a search cannot be put into groups."""
    return tap("#contacts-table td.name", name), _CONTACT_SHOWN


def _to_settings(tab: str) -> Steps:
    """Open a page of the settings: `Preferences`, `Folders`, `Identities` or `Responses`."""
    return tap("#taskmenu a.settings"), tap("#settings-menu a", tab)


def _field(name: str, value: str) -> Step:
    """Fill in a field of a form of the settings."""
    return put(f"[name=_{name}]", value, inside=_FORM)


def _option(name: str, value: str) -> Step:
    """Choose an option in a form of the settings."""
    return choose(f"[name=_{name}]", value, inside=_FORM)


_SAVE: Final = (tap("button.submit", inside=_FORM), await_element("#messagestack .confirmation"))


# Facts.


def find_mail(facts: Facts, number: int) -> Row:
    """Return the mail with a number, from 1."""
    found: Row = facts["mails"][number - 1]
    return found


def _mails_of(facts: Facts, rows: Iterable[Row]) -> list[Row]:
    """Return the mails that these facts come from."""
    return [find_mail(facts, row["mail"]) for row in rows]


def _draw(facts: Facts, rng: random.Random, kind: str) -> tuple[Any, Row]:
    """Draw a fact of a kind, such as `invoices`, and return it with its mail."""
    row = rng.choice(facts[kind])
    return row, find_mail(facts, row["mail"])


def _invoices_in_inbox(facts: Facts) -> list[Any]:
    rows = facts["invoices"]
    return [row for row in rows if find_mail(facts, row["mail"])["folder"] == "INBOX"]


def _draw_newsletter(facts: Facts, rng: random.Random) -> tuple[str, list[Row]]:
    """Draw a newsletter, and return its name and its mails."""
    newsletter = rng.choice(facts["newsletters"])
    return newsletter["name"], [find_mail(facts, number) for number in newsletter["mails"]]


def _draw_position(facts: Facts, rng: random.Random) -> tuple[str, list[Any]]:
    """Draw a position, and return it with the applications for it."""
    position = rng.choice(facts["applications"])["position"]
    return position, [one for one in facts["applications"] if one["position"] == position]


def _in_folder(facts: Facts, folder: str) -> list[Row]:
    return [mail for mail in facts["mails"] if mail["folder"] == folder]


def _unique(facts: Facts, *folders: str) -> list[Row]:
    """Return the mails in these folders whose subject appears in no other subject."""
    subjects = [mail["subject"] for mail in facts["mails"]]
    return [
        mail
        for mail in facts["mails"]
        if mail["folder"] in folders and sum(mail["subject"] in one for one in subjects) == 1
    ]


def draw_colleague(facts: Facts, rng: random.Random, *others: str) -> Row:
    """Draw somebody at Northfield, but not the user or anybody with these addresses."""
    people = [one for one in facts["people"][1:] if one["email"] not in others]
    found: Row = rng.choice(people)
    return found


def _draw_stranger(facts: Facts, rng: random.Random) -> Row:
    """Draw a colleague who is not in the address book."""
    return draw_colleague(facts, rng, *(contact["email"] for contact in facts["contacts"]))


def place_of(mail: Row) -> str:
    """Return the place of a mail, for goals."""
    return "in the inbox" if mail["folder"] == "INBOX" else f"in the folder {mail['folder']}"


def name_of(mail: Row) -> str:
    """Return the subject and sender of a mail, for goals."""
    return f"the mail “{mail['subject']}” from {mail['from']}"


def _join(addresses: Iterable[str]) -> str:
    return ", ".join(sorted(addresses))


def long_day(day: str) -> str:
    """Return a day as the mails write it."""
    return f"{date.fromisoformat(day):%A}, {format_date(day)}"


def deliver(facts: Facts, request: Row, *, text: str = "", **values: str) -> tuple[Statement, ...]:
    """Return the SQL that adds a mail to the inbox, for `Assignment.prepare`.

    Args:
        facts: The facts of the mailbox.
        request: The mail: `email`, `subject` and `text`, the sender's name as `from` or `name`, and
            `moment`, when it arrives; by default it is the newest mail. One of
            `facts["requests"]` will do, if it is about the shop.
        text: The text after a greeting; by default the text of the request.
        **values: Values for placeholders such as `{product}` in the text of the request.
    """
    name = request.get("from") or request["name"]
    moment = request.get("moment", _NEWEST)
    message = EmailMessage(policy=SMTP)
    message["Date"] = format_datetime(moment)
    message["From"] = f"{name} <{request['email']}>"
    message["To"] = f"{facts['name']} <{facts['email']}>"
    message["Subject"] = request["subject"]
    message["Message-ID"] = f"<delivered.{moment:%Y%m%d%H%M%S}@northfield.test>"
    greeting, bye = f"Hi {facts['name'].split()[0]},", f"Thanks\n{name.split()[0]}"
    said = f"{greeting}\n\n{text}\n\n{bye}\n" if text else request["text"].format(**values)
    message.set_content(said, charset="utf-8", cte="8bit")
    insert = (
        "INSERT INTO mail (folder, uid, flags, received, raw)"
        " SELECT name, uid_next, '', ?, ? FROM folder WHERE name = 'INBOX'"
    )
    return (
        (insert, (int(moment.timestamp()), message.as_bytes())),
        ("UPDATE folder SET uid_next = uid_next + 1 WHERE name = 'INBOX'", ()),
    )


def write_mail(
    facts: Facts, sender: Row, subject: str, text: str = "", **values: str
) -> tuple[dict[str, Any], tuple[Statement, ...]]:
    """Return a new mail, and the SQL that delivers it. See `deliver`."""
    mail = {"id": next_id(facts["mails"]), "folder": "INBOX", "subject": subject}
    mail |= {"from": sender["name"], "email": sender["email"]}
    return mail, deliver(facts, {**sender, **mail}, text=text, **values)


_NEWEST: Final = datetime(2026, 3, 2, 8, 45, tzinfo=UTC)
"""When the newest mail came: a quarter of an hour before a world begins."""


# Expectations.


def _expect_mail(recipients: str, **shown: Any) -> tuple[Expected, ...]:
    """Expect a mail to be sent, with its copy in the folder Sent."""
    return added("sent", recipients=recipients, **shown), added("mail", folder="Sent", **shown)


def _expect_sent(
    to: Sequence[str], subject: str, cc: Sequence[str] = (), bcc: Sequence[str] = (), **columns: Any
) -> Changes:
    """Expect a new mail to be sent, with its copy in the folder Sent."""
    shown = {"to": _join(to), "cc": _join(cc), "subject": same_text(subject), **columns}
    return (
        added("sent", recipients=_join([*to, *cc, *bcc]), **shown),
        added("mail", folder="Sent", bcc=_join(bcc), **shown),
    )


def _expect_answer(
    facts: Facts, mail: Row, text: Test, *, to_all: bool = False, **more: Any
) -> Changes:
    """Expect an answer to a mail, and `more` changes of that mail."""
    subject = mail["subject"] if mail["subject"].startswith("Re: ") else f"Re: {mail['subject']}"
    others = {*mail["to"], *mail["cc"]} - {facts["email"], mail["email"]} if to_all else set()
    # The other recipients may be in To or in Cc, so neither is checked.
    recipients = _join({mail["email"], *others})
    return (
        _expect_mail(recipients, subject=same_text(subject), text=text),
        changed_row("mail", mail, answered=True, **more),
    )


def _expect_moved(mails: Iterable[Row], folder: str, **more: Any) -> Changes:
    """Expect mails to be moved to a folder."""
    return [changed_row("mail", mail, folder=folder, **more) for mail in mails]


def _same_number(number: str) -> Test:
    """Return a test for a phone number that compares only the digits."""
    digits = re.sub(r"\D", "", number)
    return lambda value: re.sub(r"\D", "", str(value)) == digits


# Steps with the changes that they make.


def move(mails: Iterable[Row], folder: str, **more: Any) -> Parts:
    """Move the chosen mails; `more` are other changes of them."""
    return _move_to(folder), _expect_moved(mails, folder, **more)


def _send_mail(to: Sequence[str], subject: str, text: str, **copies: Sequence[str]) -> Parts:
    """Write a mail and send it; `copies` are the addresses of `cc` and `bcc`."""
    return (
        _compose(to=to, **copies, subject=subject, text=text),
        _expect_sent(to, subject, **copies, text=same_text(text)),
    )


def write_to_contacts(people: Sequence[Row], subject: str, text: str) -> Parts:
    """Look up contacts in the address book, and write one mail to all of them."""
    found, to = [_pick_contact(one["name"]) for one in people], [one["email"] for one in people]
    return _TO_CONTACTS, found, _TO_MAILS, _send_mail(to, subject, text)


def answer(
    facts: Facts,
    mail: Row,
    text: str,
    *,
    to_all: bool = False,
    kept: Callable[[str], Test] = same_text,
    **more: Any,
) -> Parts:
    """Answer the chosen mail; `more` are other changes of it, `kept` makes a test of the text."""
    button = "reply-all" if to_all else "reply"
    return (
        (tap(f"#layout-content .header a.{button}"), _put_before(text), _SEND),
        _expect_answer(facts, mail, kept(text), to_all=to_all, **more),
    )


def _forward(mail: Row, to: str, *note: str, **more: Any) -> Parts:
    """Forward the chosen mail with its attachments; `more` are other changes of it."""
    text = contains(*note, max(mail["text"].splitlines(), key=len), more=5_000)
    files = ", ".join(sorted(mail["attachments"]))
    subject, start = contains(mail["subject"]), same_text("\n".join(note))
    return (
        (tap("#layout-content .header a.forward"), _write(to=[to])),
        (map(_put_before, note), _SEND),
        _expect_mail(to, to=to, subject=subject, text=start, body=text, attachments=files),
        changed_row("mail", mail, forwarded=True, **more),
    )


_put_contact = functools.partial(put, inside=_CONTACT)
_CONTACT_FIELDS: Final[Mapping[str, Field]] = {
    "firstname": Field(_put_contact, "[name^=_firstname]"),
    "surname": Field(_put_contact, "[name^=_surname]"),
    "email": Field(_put_contact, "[name^=_email]"),
    "phone": Field(_put_contact, "[name^=_phone]", kept=_same_number),
    "organization": Field(_put_contact, "[name^=_organization]"),
    "jobtitle": Field(_put_contact, "[name^=_jobtitle]", "title"),
}


def _fill_contact(**fields: str) -> Steps:
    saved = await_element("#layout-content a.print.disabled")
    return set_fields(_CONTACT_FIELDS, fields), tap("button.submit", inside=_CONTACT), saved


def _edit_contact(name: str, **fields: str) -> Parts:
    """Find a contact and change it; the address book is open."""
    return (
        (_pick_contact(name), tap(".formbuttons .edit", inside=_CONTACT), _fill_contact(**fields)),
        changed("contact", {"name": name}, **columns_of(_CONTACT_FIELDS, fields)),
    )


def _create_contact(name: str, **fields: str) -> Parts:
    """Make a contact; the address book is open."""
    first, last = name.split()
    fields = {"firstname": first, "surname": last, **fields}
    columns = columns_of(_CONTACT_FIELDS, fields)
    return _CREATE, _fill_contact(**fields), added("contact", name=name, **columns)


def _create_group(name: str) -> Parts:
    """Make a group of contacts, and show all contacts; the address book is open."""
    return (
        (tap("#layout-sidebar .sidebar-menu"), tap("#groupoptions-menu a.create")),
        (put(".ui-dialog input", name), _CONFIRM),
        await_element("#directorylist .contactgroup a", name),
        tap("#directorylist .addressbook > a, #directorylist li > a", "Personal Addresses"),
        added("group", name=name),
    )


def _put_into(group: str, member: str) -> Parts:
    """Put a contact of the list into a group."""
    return (
        (_pick_listed(member), tap("#contactmenulink"), tap("#contact-menu a.assigngroup")),
        (tap("#contactgroup-selector a", group), await_element("#contacts-table")),
        added("member", group=group, contact=member),
    )


def _create_folder(name: str, parent: str = "") -> Parts:
    """Make a mail folder at the top level or in another."""
    place = _option("parent", parent) if parent else ()
    return (
        (_to_settings("Folders"), _CREATE, _field("name", name), place, _SAVE),
        added("folder", name=f"{parent}/{name}" if parent else name),
    )


def _prefer(put_value: Callable[[str, str], Step], name: str, value: str | int) -> Parts:
    """Set a preference in the form that is open."""
    return put_value(name, str(value)), added("setting", name=name, value=value)


# What people write.

SUBJECTS: Final = (
    "Lunch on Tuesday", "Key of the archive", "Question about the catalogue",
    "Projector for Friday", "New badge", "Visit next week", "Numbers for March", "Broken chair",
    "Train tickets", "Coffee order", "Spare monitor", "Labels for the shelves",
)  # fmt: skip
TEXTS: Final = (
    "Could you call me back this afternoon?",
    "I will bring the documents along tomorrow.",
    "Please have a look at this before Thursday.",
    "We still need one more person for this.",
    "The front desk has everything you need.",
    "Let us talk about it after the weekly meeting.",
    "I have put a copy on your desk.",
    "Do you know who is in charge of this now?",
)
_ANSWERS: Final = (
    "Thank you, I will take care of it.",
    "Yes, that is fine with me.",
    "Sorry, I cannot do that this week.",
    "Please ask me again next Monday.",
    "Could you send me more details?",
    "I have passed this on.",
)
_NOTES: Final = (
    "Please take care of this.",
    "For your information.",
    "Can you check this, please?",
    "This one is for you.",
)
ROOMS: Final = ("Birch", "Cedar", "Elm", "Juniper", "Larch", "Maple", "Rowan", "Willow")
TARGETS: Final = ("Archive", "Invoices", "Newsletters", "Team", "Travel", "Hiring")
_FOLDERS: Final = (
    "Contracts", "Customers", "Events", "Facilities", "Ideas", "Later", "Press", "Receipts",
    "Reports", "Training", "Waiting", "Workshops",
)  # fmt: skip
_GROUPS: Final = (
    "Choir", "Editors", "First aiders", "Football", "Interviewers", "Night shift", "Photographers",
    "Testers", "Visitors", "Volunteers",
)  # fmt: skip


# Level 1.


@task("mail/flag", level=1, split="train", allow=READ)
def _flag_mail(facts: Facts, rng: random.Random) -> Assignment:
    mail = rng.choice([one for one in _unique(facts, "INBOX", "Team") if not one["flagged"]])
    return assign(
        f"Flag {name_of(mail)} {place_of(mail)}.",
        (pick(mail), _mark("flag")),
        changed_row("mail", mail, flagged=True),
    )


@task("mail/move", level=1, split="train", allow=READ)
def _move_mail(facts: Facts, rng: random.Random) -> Assignment:
    mail, folder = rng.choice(_unique(facts, "INBOX")), rng.choice(TARGETS)
    return assign(
        f"Move {name_of(mail)} from the inbox to the folder {folder}.",
        (pick(mail), move([mail], folder)),
    )


@task("mail/delete", level=1, split="train", allow=READ)
def _delete_mail(facts: Facts, rng: random.Random) -> Assignment:
    mail = rng.choice(_unique(facts, "INBOX", "Team", "Archive"))
    return assign(
        f"Delete {name_of(mail)} {place_of(mail)}; leave it in the trash.",
        (pick(mail), _DELETE, _LISTED, _expect_moved([mail], "Trash")),
    )


@task("mail/mark-unread", level=1, split="train", allow=READ)
def _mark_unread(facts: Facts, rng: random.Random) -> Assignment:
    mail = rng.choice([one for one in _unique(facts, "INBOX") if one["read"]])
    return assign(
        f"Mark {name_of(mail)} in the inbox as unread, so that you come back to it later.",
        (pick(mail), _mark("unread")),
        changed("read", {"mail": mail["id"]}, read=False),
    )


@task("mail/mark-folder-read", level=1, split="test", allow=READ)
def _mark_folder_read(facts: Facts, rng: random.Random) -> Assignment:
    unread = [mail for mail in facts["mails"] if not mail["read"]]
    folder = rng.choice(sorted({mail["folder"] for mail in unread} - {"INBOX"}))
    mails = [mail for mail in unread if mail["folder"] == folder]
    return assign(
        f"Mark all mails in the folder {folder} as read.",
        _whole_folder(folder, "read"),
        [changed("read", {"mail": mail["id"]}, read=True) for mail in mails],
    )


@task("mail/contact-phone", level=1, split="train")
def _contact_phone(facts: Facts, rng: random.Random) -> Assignment:
    contact = rng.choice(facts["contacts"])
    return assign(
        f"What phone number does the address book have for {contact['name']}? Answer with the "
        "number as it is written there.",
        (_TO_CONTACTS, _pick_contact(contact["name"])),
        answer=contact["phone"],
    )


@task("mail/add-contact", level=1, split="train")
def _add_contact(facts: Facts, rng: random.Random) -> Assignment:
    person, phone = _draw_stranger(facts, rng), f"+44 1632 960{rng.randint(100, 999)}"
    return assign(
        f"Add {person['name']} to the address book, with the mail address {person['email']} "
        f"and the phone number {phone}.",
        (_TO_CONTACTS, _create_contact(person["name"], email=person["email"], phone=phone)),
    )


@task("mail/create-folder", level=1, split="test")
def _new_folder(facts: Facts, rng: random.Random) -> Assignment:
    name, parent = rng.choice(_FOLDERS), rng.choice(("", "Projects", "Team", "Archive"))
    place = f"as a subfolder of {parent}" if parent else "at the top level"
    return assign(f"Create a mail folder named {name} {place}.", _create_folder(name, parent))


@task("mail/trip-reference", level=1, split="train", allow=READ)
def _trip_reference(facts: Facts, rng: random.Random) -> Assignment:
    trip, mail = _draw(facts, rng, "trips")
    known = {name: trip[name] for name in ("reference", "hotel")}
    what, answer = rng.choice([*known.items(), ("price in GBP", f"{trip['price']} GBP")])
    return assign(
        f"A trip to {trip['city']} has been booked for you; the confirmation is in the inbox "
        f"or in the folder Travel. What is the {what} of this booking? Answer "
        "with nothing else.",
        pick(mail),
        answer=answer,
    )


@task("mail/invoice-due", level=1, split="test", allow=READ)
def _invoice_due(facts: Facts, rng: random.Random) -> Assignment:
    invoice, mail = _draw(facts, rng, "invoices")
    return assign(
        f"By which day must the invoice {invoice['number']} be paid? It is {place_of(mail)}. "
        "Answer with the date as YYYY-MM-DD.",
        pick(mail),
        answer=invoice["due"],
    )


@task("mail/parcel", level=1, split="train", allow=READ)
def _parcel(facts: Facts, rng: random.Random) -> Assignment:
    parcel, mail = _draw(facts, rng, "parcels")
    number = "What is the tracking number of", "number", parcel["number"]
    what, kind, answer = rng.choice((number, ("For whom is", "name", parcel["person"])))
    return assign(
        f"{what} the parcel with {parcel['thing']}? Merlin Couriers has written about it. "
        f"Answer with the {kind}.",
        pick(mail),
        answer=answer,
    )


@task("mail/compose", level=1, split="train", allow=READ)
def _compose_mail(facts: Facts, rng: random.Random) -> Assignment:
    person = draw_colleague(facts, rng)
    subject, text = rng.choice(SUBJECTS), rng.choice(TEXTS)
    return assign(
        f"Send a mail to {person['name']} ({person['email']}) with the subject “{subject}” "
        f"and the text “{text}”",
        _send_mail([person["email"]], subject, text),
    )


@task("mail/reply", level=1, split="train", allow=READ)
def _reply(facts: Facts, rng: random.Random) -> Assignment:
    colleagues = {person["email"] for person in facts["people"][1:]}
    mail = rng.choice([one for one in _unique(facts, "INBOX") if one["email"] in colleagues])
    text = rng.choice(_ANSWERS)
    return assign(
        f"Answer {name_of(mail)} in the inbox, only to the sender, with the text “{text}”",
        (pick(mail), answer(facts, mail, text)),
    )


@task("mail/empty-folder", level=1, split="test", allow=READ)
def _empty_folder(facts: Facts, rng: random.Random) -> Assignment:
    folder = rng.choice(("Trash", "Junk"))
    mails, goal = _in_folder(facts, folder), f"Empty the mail folder {folder}."
    if folder == "Junk":
        goal += " Leave its mails in the trash."
        changes = _expect_moved(mails, "Trash")
    else:
        changes = [removed("mail", id=mail["id"]) for mail in mails]
    return assign(goal, _whole_folder(folder, "purge"), changes)


@task("mail/unread-count", level=1, split="train", allow=READ)
def _unread_count(facts: Facts, rng: random.Random) -> Assignment:
    name, mails = _draw_newsletter(facts, rng)
    return assign(
        f"How many unread mails from {name} are in the inbox? Answer with the number.",
        search(name),
        answer=str(sum(not mail["read"] for mail in mails)),
    )


@task("mail/new-response", level=1, split="test")
def _new_response(facts: Facts, rng: random.Random) -> Assignment:
    name, text = rng.choice(SUBJECTS), rng.choice(_ANSWERS)
    return assign(
        f"Add a response in the settings, for later use in mails. Its name is “{name}”, and "
        f"its text is “{text}”",
        (_to_settings("Responses"), _CREATE, _field("name", name), _field("text", text), _SAVE),
        added("response", name=same_text(name), text=same_text(text)),
    )


@task("mail/delete-contact", level=1, split="train")
def _delete_contact(facts: Facts, rng: random.Random) -> Assignment:
    name = rng.choice(facts["contacts"])["name"]
    groups = [group["name"] for group in facts["groups"] if name in group["members"]]
    return assign(
        f"Delete {name} from the address book.",
        (_TO_CONTACTS, _pick_contact(name), _DELETE, _CONFIRM, await_element("#contacts-table")),
        removed("contact", name=name),
        [removed("member", group=group, contact=name) for group in groups],
    )


# Level 2.


@task("mail/compose-copies", level=2, split="train", allow=READ)
def _compose_copies(facts: Facts, rng: random.Random) -> Assignment:
    people = rng.sample(facts["people"][1:], 3)
    first, second, third = (one["name"] for one in people)
    to, cc, bcc = (one["email"] for one in people)
    subject, text = rng.choice(SUBJECTS), rng.choice(TEXTS)
    return assign(
        f"Send a mail to {first} with a copy (Cc) to {second} and a blind copy "
        f"(Bcc) to {third}. Their addresses are {to}, {cc} "
        f"and {bcc}. The subject is “{subject}”, the text “{text}”",
        _send_mail([to], subject, text, cc=[cc], bcc=[bcc]),
    )


@task("mail/compose-options", level=2, split="test", allow=READ)
def _compose_options(facts: Facts, rng: random.Random) -> Assignment:
    to = draw_colleague(facts, rng)["email"]
    subject, text = rng.choice(SUBJECTS), rng.choice(TEXTS)
    name, value = rng.choice((("High", "2"), ("Highest", "1"), ("Low", "4")))
    folder = rng.choice(TARGETS)
    options = choose("#compose-priority", value), choose("#compose-store-target", folder)
    shown = {"subject": subject, "text": same_text(text), "priority": contains(value, more=12)}
    return assign(
        f"Send a mail to {to} with the subject “{subject}”, the text “{text}” and "
        f"the priority “{name}”. Save its copy in the folder {folder}, not in Sent.",
        _compose(*options, to=[to], subject=subject, text=text),
        (added("sent", recipients=to, **shown), added("mail", folder=folder, to=to, **shown)),
    )


@task("mail/office-sender", level=2, split="train", allow=READ)
def _office_sender(facts: Facts, rng: random.Random) -> Assignment:
    to, office = draw_colleague(facts, rng)["email"], facts["identities"][1]
    subject, text = rng.choice(SUBJECTS), rng.choice(TEXTS)
    return assign(
        f"Send a mail to {to} in the name of {office['name']} "
        f"({office['email']}), not in your own. Subject: “{subject}”. Text: “{text}”",
        (tap("a.compose"), choose("#_from", str(office["id"]))),
        (_write(to=[to], subject=subject, text=text), _SEND),
        _expect_sent([to], subject, text=same_text(text), **{"from": office["email"]}),
    )


@task("mail/forward", level=2, split="train", allow=READ)
def _forward_mail(facts: Facts, rng: random.Random) -> Assignment:
    mail = rng.choice(_unique(facts, "INBOX"))
    person, note = draw_colleague(facts, rng, mail["email"]), rng.choice(_NOTES)
    return assign(
        f"Forward {name_of(mail)} in the inbox to {person['name']} ({person['email']}), with "
        f"the note “{note}”",
        (pick(mail), _forward(mail, person["email"], note)),
    )


@task("mail/reply-all", level=2, split="train", allow=READ)
def _reply_all(facts: Facts, rng: random.Random) -> Assignment:
    _, mail = _draw(facts, rng, "meetings")
    text = rng.choice(("I will be there.", "I cannot come, sorry.", "I will come a bit later."))
    return assign(
        f"Answer {name_of(mail)} in the inbox with the text “{text}” The organiser and "
        "everybody else who was invited should get your answer.",
        (pick(mail), answer(facts, mail, text, to_all=True)),
    )


@task("mail/reply-response", level=2, split="test", allow=READ)
def _reply_response(facts: Facts, rng: random.Random) -> Assignment:
    _, mail = _draw(facts, rng, "invoices")
    response = rng.choice(facts["responses"])
    return assign(
        f"Answer {name_of(mail)} {place_of(mail)} with the saved response "
        f"“{response['name']}”, and with nothing else.",
        (pick(mail), tap("#layout-content .header a.reply")),
        (tap("#layout-content .header a.responses"), tap("#responseslist a", response["name"])),
        (_SEND, _expect_answer(facts, mail, same_text(response["text"]))),
    )


@task("mail/rename-folder", level=2, split="train")
def _rename_folder(facts: Facts, rng: random.Random) -> Assignment:
    folder, name = rng.choice(("Hiring", "Newsletters", "Travel", "Invoices")), rng.choice(_FOLDERS)
    return assign(
        f"Rename the mail folder {folder} to {name}.",
        (_to_settings("Folders"), tap("#subscription-table a", folder)),
        (_field("name", name), _SAVE),
        (removed("folder", name=folder), added("folder", name=name)),
        _expect_moved(_in_folder(facts, folder), name),
    )


@task("mail/delete-folder", level=2, split="train", allow=READ)
def _delete_folder(facts: Facts, rng: random.Random) -> Assignment:
    name, mails = _draw_newsletter(facts, rng)
    return assign(
        "The folder Newsletters is empty: delete it. Then move all mails from "
        f"{name} from the inbox to the folder Archive.",
        (_to_settings("Folders"), tap("#subscription-table a", "Newsletters"), _DELETE, _CONFIRM),
        (await_element("#subscription-table"), removed("folder", name="Newsletters")),
        (_TO_MAILS, _choose_all(name), move(mails, "Archive")),
    )


@task("mail/signature", level=2, split="train")
def _signature(facts: Facts, rng: random.Random) -> Assignment:
    identity = rng.choice(facts["identities"])
    room, phone = rng.choice(ROOMS), f"+44 1632 960{rng.randint(100, 999)}"
    text = f"{identity['name']}, room {room}, {phone}"
    return assign(
        f"Change the signature of the identity {identity['email']} to this one line: {text}",
        _to_settings("Identities"),
        tap("#identities-table td.mail", f"{identity['name']} <{identity['email']}>"),
        (_field("signature", text), _SAVE),
        changed_row("identity", identity, signature=same_text(text)),
    )


@task("mail/new-identity", level=2, split="test")
def _new_identity(facts: Facts, rng: random.Random) -> Assignment:
    team = rng.choice(("Events", "Press", "Purchasing", "Training", "Visitors"))
    name, address = f"Northfield {team}", email_of(team.lower())
    fields = {"name": name, "email": address, "organization": "Northfield"}
    return assign(
        f"Add a sender identity with the display name “{name}”, the mail address {address} "
        f"and the organization “Northfield”. {facts['email']} stays the default.",
        (_to_settings("Identities"), tap("a.create")),
        ([_field(*field) for field in fields.items()], _SAVE),
        added("identity", **fields, default=False, signature=""),
    )


@task("mail/preferences", level=2, split="train")
def _preferences(facts: Facts, rng: random.Random) -> Assignment:
    rows = rng.choice((20, 25, 30, 40, 75, 100))
    seconds = rng.choice((-1, 5, 10, 20))
    when = "never" if seconds < 0 else f"after {seconds} seconds"
    return assign(
        f"Change your preferences: the mail list shows {rows} rows per page, and messages are "
        f"marked as read {when}.",
        (_to_settings("Preferences"), tap("#sections-table td.section", "Mailbox View")),
        _prefer(_option, "mail_read_time", seconds),
        (_prefer(_field, "mail_pagesize", rows), _SAVE),
    )


@task("mail/date-format", level=2, split="test")
def _date_format(facts: Facts, rng: random.Random) -> Assignment:
    days = (("24.07.2026", "d.m.Y"), ("2026/07/24", "Y/m/d"), ("24-07-2026", "d-m-Y"))
    example, pattern = rng.choice(days)
    time, clock = rng.choice((("07:30 AM", "h:i A"), ("7:30", "G:i")))
    return assign(
        f"Change how the webmail shows times and dates: half past seven in the morning as "
        f"“{time}”, and 24 July 2026 as “{example}”.",
        (_to_settings("Preferences"), tap("#sections-table td.section", "User Interface")),
        _prefer(_option, "time_format", clock),
        (_prefer(_option, "date_format", pattern), _SAVE),
    )


@task("mail/update-phone", level=2, split="train", allow=READ)
def _update_phone(facts: Facts, rng: random.Random) -> Assignment:
    news, mail = _draw(facts, rng, "numbers")
    name = news["person"]
    return assign(
        f"{name} has written to you about a new phone number. Change it in the address book.",
        (search(mail["subject"]), tap("#messagelist span.adr", name)),
        (_TO_CONTACTS, _edit_contact(name, phone=news["phone"])),
    )


@task("mail/update-contact", level=2, split="train")
def _update_contact(facts: Facts, rng: random.Random) -> Assignment:
    name = rng.choice(facts["contacts"])["name"]
    title = rng.choice(("Team Lead", "Consultant", "Head of Purchasing", "Trainee", "Director"))
    company = rng.choice(("Northfield East", "Northfield Services", "Harbour Logistics"))
    return assign(
        f"{name} has a new job. Change the entry in the address book: the "
        f"organization is now “{company}”, and the job title is “{title}”.",
        (_TO_CONTACTS, _edit_contact(name, organization=company, jobtitle=title)),
    )


@task("mail/new-group", level=2, split="train")
def _new_group(facts: Facts, rng: random.Random) -> Assignment:
    group = rng.choice(_GROUPS)
    names = [member["name"] for member in rng.sample(facts["contacts"], 2)]
    return assign(
        f"Make a group of contacts named “{group}” with {join_names(names)} in it.",
        (_TO_CONTACTS, _create_group(group)),
        [_put_into(group, name) for name in names],
    )


@task("mail/group-members", level=2, split="test")
def _group_members(facts: Facts, rng: random.Random) -> Assignment:
    group = rng.choice(facts["groups"])
    name, gone = group["name"], rng.choice(group["members"])
    come = other_than(rng, [one["name"] for one in facts["contacts"]], *group["members"])
    return assign(
        f"In the address book, {come} takes the place of {gone} in the group "
        f"“{name}”: take {gone} out of the group (the contact itself stays) and put "
        f"{come} into it.",
        (_TO_CONTACTS, _put_into(name, come), tap("#directorylist .contactgroup a", name)),
        (tap("#contacts-table td.name", gone), tap("#contactmenulink")),
        (tap("#contact-menu a.removegroup"), await_element("#contacts-table")),
        removed("member", group=name, contact=gone),
    )


@task("mail/file-newsletter", level=2, split="train", allow=READ)
def _file_newsletter(facts: Facts, rng: random.Random) -> Assignment:
    name, mails = _draw_newsletter(facts, rng)
    return assign(
        f"Move all mails from {name} from the inbox to the folder Newsletters.",
        (_choose_all(name), move(mails, "Newsletters")),
    )


@task("mail/delete-notifications", level=2, split="test", allow=READ)
def _delete_notifications(facts: Facts, rng: random.Random) -> Assignment:
    sender = f"Northfield {rng.choice(('Tracker', 'Forum', 'Wiki', 'Shop'))}"
    mails = [mail for mail in facts["mails"] if mail["from"] == sender]
    return assign(
        f"Delete all automatic mails of {sender} from the inbox; leave them in the trash.",
        (_choose_all(sender), _DELETE, _LISTED, _expect_moved(mails, "Trash")),
    )


@task("mail/not-junk", level=2, split="train", allow=READ)
def _not_junk(facts: Facts, rng: random.Random) -> Assignment:
    found, mail = _draw(facts, rng, "junk")
    text = rng.choice(_ANSWERS)
    return assign(
        f"A mail from {found['from']} has landed in the folder Junk by mistake. Move it to the "
        f"inbox, and answer it with the text “{text}”",
        (pick(mail), _move_to("Inbox"), to_folder("INBOX"), pick({**mail, "folder": "INBOX"})),
        answer(facts, mail, text, folder="INBOX"),
    )


@task("mail/draft", level=2, split="train", allow=READ)
def _draft(facts: Facts, rng: random.Random) -> Assignment:
    to = draw_colleague(facts, rng)["email"]
    subject, text = rng.choice(SUBJECTS), rng.choice(TEXTS)
    shown = {"subject": same_text(subject), "text": same_text(text)}
    return assign(
        f"Write a mail to {to} with the subject “{subject}” and the text "
        f"“{text}”, but do not send it: save it as a draft.",
        (tap("a.compose"), _write(to=[to], subject=subject, text=text)),
        (tap("#layout-content .header a.save"), await_element("#composebody")),
        added("mail", folder="Drafts", to=to, **shown),
    )


@task("mail/finish-draft", level=2, split="test", allow=READ)
def _finish_draft(facts: Facts, rng: random.Random) -> Assignment:
    draft, mail = _draw(facts, rng, "drafts")
    line, copy = rng.choice(TEXTS), draw_colleague(facts, rng, draft["email"])["email"]
    text = contains(*mail["text"].splitlines(), line)
    return assign(
        f"There is a draft with the subject “{draft['subject']}”. Add the sentence “{line}” to "
        f"it, put {copy} into Cc, and send it.",
        (pick(mail), tap(".message-buttons, .btn, a.button", "Edit", part=True, inside=_MESSAGE)),
        (_write(cc=[copy]), _put_before(line), _SEND),
        _expect_sent([draft["email"]], draft["subject"], [copy], text=text),
        removed("mail", id=mail["id"]),
    )


@task("mail/forward-attachment", level=2, split="train", allow=READ)
def _forward_attachment(facts: Facts, rng: random.Random) -> Assignment:
    mail = rng.choice([one for one in _unique(facts, "INBOX", "Archive") if one["attachments"]])
    (file,), place = mail["attachments"], "Archive" if mail["folder"] == "Archive" else "inbox"
    to, note = draw_colleague(facts, rng, mail["email"])["email"], rng.choice(_NOTES)
    return assign(
        f"{mail['from']} has sent you the file {file}; the mail is in the {place}. Forward this "
        f"mail with its attachment to {to}, with the note “{note}”",
        (pick(mail), _forward(mail, to, note)),
    )


@task("mail/meeting", level=2, split="train", allow=READ)
def _meeting(facts: Facts, rng: random.Random) -> Assignment:
    meeting = rng.choice([one for one in facts["meetings"] if one["moved"]])
    return assign(
        f"You have been invited to the {meeting['title'].lower()}. In which room does it take "
        "place now, and on which day? Answer with room, comma and date as YYYY-MM-DD.",
        [pick(find_mail(facts, meeting[name])) for name in ("invitation", "mail")],
        answer=(meeting["room"], meeting["day"]),
    )


# Level 3.


@task("mail/largest-invoice", level=3, split="train", allow=READ)
def _largest_invoice(facts: Facts, rng: random.Random) -> Assignment:
    found = _invoices_in_inbox(facts)

    def find_due(month: str) -> list[Any]:
        return [one for one in found if one["due"].startswith(month)]

    months = sorted({one["due"][:7] for one in found})
    several = [month for month in months if len(find_due(month)) >= 2]
    _, best = draw_best(rng, several, find_due, itemgetter("cents"))
    mail, person = find_mail(facts, best["mail"]), draw_colleague(facts, rng)
    month = f"{date.fromisoformat(best['due']):%B %Y}"
    return assign(
        f"Look at all invoices in the inbox. Of those that are payable in {month}, forward the "
        f"one with the highest amount to {person['name']} ({person['email']}), without a note.",
        (search("Invoice"), _read(_mails_of(facts, found))),
        (pick(mail), _forward(mail, person["email"])),
    )


@task("mail/expenses-total", level=3, split="train", allow=READ)
def _expenses_total(facts: Facts, rng: random.Random) -> Assignment:
    chosen = rng.sample(facts["expenses"], rng.randint(3, 4))
    total = sum(one["cents"] for one in chosen)
    to = draw_colleague(facts, rng, *(one["email"] for one in chosen))["email"]
    names = join_names([one["person"] for one in chosen])
    subject = "Expenses February, total"
    return assign(
        f"Add up the February expenses of {names}; their mails are in the inbox. "
        f"Send the total to {to}, with the subject “{subject}” and the text "
        "“Total: N GBP”, where N is the amount with two decimals and without any other sign, "
        "such as 1234.50.",
        (search("Expenses February"), _read(_mails_of(facts, chosen))),
        _send_mail([to], subject, f"Total: {total // 100}.{total % 100:02d} GBP"),
    )


@task("mail/vote", level=3, split="test", allow=READ)
def _vote(facts: Facts, rng: random.Random) -> Assignment:
    vote, mail = _draw(facts, rng, "votes")
    winner, subject = vote["winner"], f"Re: {mail['subject']}"
    answers = [one for one in _in_folder(facts, "Team") if one["subject"] == subject]
    return assign(
        f"In the folder Team there is a vote, “{mail['subject']}”. Count the votes in the "
        "answers. Then answer the first mail of the vote, only to its sender, with the option "
        f"that won and its number of votes, written like “{vote['options'][0]}: 9”.",
        (to_folder("Team"), search(vote["title"]), map(read_nth, range(len(answers)))),
        (pick(mail), answer(facts, mail, f"{winner}: {vote['counts'][winner]}")),
    )


@task("mail/approve-leave", level=3, split="train", allow=READ)
def _approve_leave(facts: Facts, rng: random.Random) -> Assignment:
    month = rng.choice(sorted({one["start"][:7] for one in facts["leaves"]}))
    chosen = [one for one in facts["leaves"] if one["start"].startswith(month)]
    text = rng.choice(("Approved, have a good time.", "That is fine.", "Granted, enjoy your days."))
    return assign(
        "Colleagues have sent leave requests, which are in the inbox. Answer each request "
        f"whose leave begins in {date.fromisoformat(month + '-01'):%B %Y}, only to the sender, "
        f"with the text “{text}” Do not answer the others.",
        (search("Leave request"), _read(_mails_of(facts, facts["leaves"]))),
        [(pick(mail), answer(facts, mail, text)) for mail in _mails_of(facts, chosen)],
    )


@task("mail/triage-invoices", level=3, split="test", allow=READ)
def _triage_invoices(facts: Facts, rng: random.Random) -> Assignment:
    found = _invoices_in_inbox(facts)
    last = rng.choice(sorted({one["due"] for one in found})[1:3])
    mails = _mails_of(facts, [one for one in found if one["due"] <= last])
    return assign(
        f"Look at all invoices in the inbox. Flag those that are payable by {long_day(last)} "
        "or earlier, and move them to the folder Invoices. Leave the others where they are.",
        (search("Invoice"), _read(_mails_of(facts, found)), _choose(mails)),
        (_mark("flag"), move(mails, "Invoices", flagged=True)),
    )


@task("mail/best-application", level=3, split="test", allow=READ)
def _best_application(facts: Facts, rng: random.Random) -> Assignment:
    position, found = _draw_position(facts, rng)
    firsts = (
        ("who can start first", find_best(found, lambda one: one["start"], min)),
        ("who names the lowest salary", find_best(found, lambda one: one["salary"], min)),
        ("who names the highest salary", find_best(found, lambda one: one["salary"])),
    )
    what, best = rng.choice([(what, best) for what, best in firsts if best])
    mail, person = find_mail(facts, best["mail"]), draw_colleague(facts, rng)
    note = rng.choice(_NOTES)
    return assign(
        f"In the folder Hiring there are applications. Of the people who apply as {position}, "
        f"forward the application of the one {what} to {person['name']} ({person['email']}), "
        f"with the note “{note}”",
        (to_folder("Hiring"), search(mail["subject"]), map(read_nth, range(len(found)))),
        act(actions_lib.Wait(1.0)),  # A second click at once would be a double click.
        (tap("#messagelist span.adr", best["name"]), READABLE),
        _forward(mail, person["email"], note),
    )


_DECISIONS: Final = {
    "budget": "the amount that may be spent, as in “£4,000”",
    "deadline": "the day by which it has to be ready, as in “Monday 2 March”",
    "supplier": "the name of the company that gets the order",
}


@task("mail/thread-decision", level=3, split="train", allow=READ)
def _thread_decision(facts: Facts, rng: random.Random) -> Assignment:
    thread, mail = _draw(facts, rng, "threads")
    person, subject = draw_colleague(facts, rng), f"About {thread['what']}"
    return assign(
        f"In the folder Projects/{thread['project']} your colleagues write about "
        f"“{mail['subject']}”. Find out what was decided; one answer was corrected. "
        f"Send {person['name']} ({person['email']}) a mail with the subject “{subject}” and "
        f"with nothing but {_DECISIONS[thread['topic']]}, as the text.",
        (to_folder(mail["folder"]), search(mail["subject"]), map(read_nth, (2, 1, 0))),
        (READABLE, _send_mail([person["email"]], subject, thread["value"])),
    )


@task("mail/candidates", level=3, split="train", allow=READ)
def _candidates(facts: Facts, rng: random.Random) -> Assignment:
    position, found = _draw_position(facts, rng)
    group = rng.choice(("Candidates", "Applicants", "Interviews"))
    subject = find_mail(facts, found[0]["mail"])["subject"]
    return assign(
        f"In the folder Hiring there are applications. Add everybody who applies as {position} "
        "to the address book, with first name, last name and mail address, and put them into "
        f"a new group named “{group}”.",
        (to_folder("Hiring"), search(subject), map(read_nth, range(len(found)))),
        (_TO_CONTACTS, _create_group(group)),
        [
            (_create_contact(one["name"], email=one["email"]), _put_into(group, one["name"]))
            for one in found
        ],
    )


@task("mail/new-folder-for", level=3, split="train", allow=READ)
def _new_folder_for(facts: Facts, rng: random.Random) -> Assignment:
    kinds = (
        ("mails of Merlin Couriers about parcels", "Your parcel", "parcels"),
        ("expense reports of colleagues", "Expenses February", "expenses"),
        ("leave requests of colleagues", "Leave request", "leaves"),
    )
    what, text, kind = rng.choice(kinds)
    name, parent = rng.choice(_FOLDERS), rng.choice(("Team", "Archive"))
    return assign(
        f"Create a folder named {name} as a subfolder of {parent}, and move all {what} "
        "from the inbox to it.",
        (_create_folder(name, parent), _TO_MAILS, _choose_all(text), _move_to(name)),
        _expect_moved(_mails_of(facts, facts[kind]), f"{parent}/{name}"),
    )


@task("mail/stand-in", level=3, split="test", allow=READ)
def _stand_in(facts: Facts, rng: random.Random) -> Assignment:
    leave, mail = _draw(facts, rng, "leaves")
    note = f"You stand in for {leave['person']}."
    return assign(
        f"{leave['person']} has sent you a leave request. Find out who stands in, and forward "
        f"the request to that person with the note “{note}” Then move the request to the "
        "folder Team.",
        (pick(mail), _forward(mail, leave["stand_in_email"], note, folder="Team")),
        (pick(mail), _move_to("Team")),
    )


@task("mail/pay-supplier", level=3, split="train", allow=READ)
def _pay_supplier(facts: Facts, rng: random.Random) -> Assignment:
    invoice, mail = _draw(facts, rng, "invoices")
    contact = find(facts["contacts"], email=invoice["email"])
    customer = contact["notes"].split()[-1].rstrip(".")
    text = f"Customer {customer}: we have paid {invoice['amount']} GBP."
    return assign(
        f"Answer the mail with the invoice {invoice['number']} ({place_of(mail)}), only to the "
        "sender, with the text “Customer C: we have paid A GBP.” C is our customer number, "
        "which is in the notes of the sender's entry in the address book; A is the amount of "
        "the invoice, with two decimals and without a comma for thousands.",
        (pick(mail), _TO_CONTACTS, _pick_contact(contact["name"])),
        (tap("a.nav-link", "Notes", inside=_CONTACT), _TO_MAILS, pick(mail)),
        answer(facts, mail, text),
    )


@task("mail/do-as-asked", level=3, split="train", allow=READ)
def _do_as_asked(facts: Facts, rng: random.Random) -> Assignment:
    person, mail = draw_colleague(facts, rng), rng.choice(_unique(facts, "INBOX"))
    contact = other_than(rng, facts["contacts"], email=person["email"])
    folder, number = rng.choice(TARGETS), contact["phone"]
    text = (
        f"could you please do two things for me while I am away?\n\n"
        f"1. Move the mail “{mail['subject']}” from your inbox to the folder {folder}.\n"
        f"2. Look up the phone number of {contact['name']} in your address book, and answer this "
        f"mail with nothing but the number."
    )
    subject = rng.choice(("Please help", "Two things", "While I am away"))
    request, delivery = write_mail(facts, person, subject, text)
    return assign(
        f"{person['name']} has asked you for something in the newest mail in the inbox, "
        f"“{subject}”. Do what it says.",
        (pick(request), pick(mail), move([mail], folder)),
        (_TO_CONTACTS, _pick_contact(contact["name"]), _TO_MAILS, pick(request)),
        answer(facts, request, number, kept=_same_number),
        prepare=delivery,
    )


@task("mail/circular", level=3, split="test", allow=READ)
def _circular(facts: Facts, rng: random.Random) -> Assignment:
    group, sender = rng.choice(facts["groups"]), draw_colleague(facts, rng)
    members = [one for one in facts["contacts"] if one["name"] in group["members"]]
    news, subject = rng.choice(TEXTS), rng.choice(SUBJECTS)
    text = (
        f"could you please send just this sentence, and no other text, to everybody in your group "
        f"“{group['name']}”, in one mail with the subject “{subject}”?\n\n{news}"
    )
    request, delivery = write_mail(facts, sender, f"For the group {group['name']}", text)
    to = [one["email"] for one in members]
    return assign(
        f"{sender['name']} has sent you the mail “{request['subject']}”. Do what it says.",
        (pick(request), _TO_CONTACTS, tap("#directorylist .contactgroup a", group["name"])),
        await_element("#contacts-table td.name", members[0]["name"]),
        [_pick_listed(one["name"]) for one in members],
        _compose(to=to, subject=subject, text=news),
        _expect_mail(_join(to), subject=same_text(subject), text=same_text(news)),
        prepare=delivery,
    )


# What cannot be done.


@task("mail/impossible-restore", level=1, split="train", allow=READ, infeasible=True)
def _impossible_restore(facts: Facts, rng: random.Random) -> Assignment:
    person = draw_colleague(facts, rng)
    thing = rng.choice(("Guest list", "Menu", "Rota", "Song list", "Floor plan of the fair"))
    return assign(
        f"The mail “{thing}” from {person['name']} was deleted by mistake. Move it from the "
        "trash back to the inbox.",
        (to_folder("Trash"), _LISTED),
    )


@task("mail/impossible-filter", level=2, split="train", allow=READ, infeasible=True)
def _impossible_filter(facts: Facts, rng: random.Random) -> Assignment:
    newsletter, folder = rng.choice(facts["newsletters"]), rng.choice(TARGETS)
    return assign(
        "Set up a filter rule in the settings of the webmail that moves every future mail "
        f"from {newsletter['name']} to the folder {folder} as it arrives.",
        (_to_settings("Preferences"), await_element("#sections-table")),
    )
