"""Tasks in the webmail, and their oracles."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any, Final

from webtraj import errors
from webtraj.environments import actions as actions_lib
from webtraj.environments.browser.oracles import OracleView, Step, act
from webtraj_apps.state import Expected, Test
from webtraj_apps.tasks import (
    Assignment,
    Facts,
    Statement,
    added,
    assign,
    changed,
    contains,
    find,
    find_best,
    format_date,
    in_changed,
    join_names,
    removed,
    same_text,
    template,
)

task = functools.partial(template, user="user")

READ: Final = (
    changed("read", {}, read=True),
    *(kind("read", mail=in_changed("mail")) for kind in (added, removed)),
)
"""Whoever looks at a mail reads it."""
_PATIENCE: Final = 40
_POLLS: Final = 5
"""How often an oracle looks before it takes the time of a step to wait."""
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
"""Find the first visible element, in frames, with a text or a part of it.

Gives a selector of it, and where and how far to scroll, if it is in a list and hidden there.
"""


def _on(
    make: Callable[[str], actions_lib.Action] | None,
    selector: str,
    text: str | None = None,
    inside: Sequence[str] = (),
    part: bool = False,
) -> Step:
    """Wait for an element, and act on it; only wait if `make` is None."""

    async def step(page: OracleView) -> AsyncIterator[actions_lib.Action]:
        for attempt in range(_PATIENCE):
            found = ref = None
            # A page that is just being left has no elements.
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

_CREATE: Final = tap("#layout-content .header a.create")
_DELETE: Final = tap("#layout-content .header a.delete")
READABLE: Final = await_element(".message-part, .rcmBody", inside=_MESSAGE)
"""The mail that was chosen is there."""


def to_folder(name: str) -> tuple[Step, ...]:
    """Open a folder."""
    return (tap(f'#mailboxlist a[rel="{name}"]'),)


def search(text: str) -> tuple[Step, ...]:
    """Search the open folder."""
    return put("#mailsearchform", text), key("#mailsearchform", "Enter")


def pick(mail: Mapping[str, Any]) -> tuple[Step, ...]:
    """Find a mail and show it beside the list."""
    opened = to_folder(mail["folder"]) if mail["folder"] != "INBOX" else ()
    return (
        *opened,
        *search(mail["subject"]),
        tap("#messagelist span.subject a", mail["subject"]),
        READABLE,
    )


def move_to(folder: str) -> tuple[Step, ...]:
    """Move the chosen mails."""
    return (
        tap("#messagemenulink"),
        tap("#message-menu a.move"),
        tap("#folder-selector a", folder),
        await_element("#messagelist"),
    )


def mark(how: str) -> tuple[Step, ...]:
    """Mark the chosen mails: `read`, `unread`, `flag` or `unflag`."""
    return (
        tap("#markmessagemenulink"),
        tap(f"#markmessage-menu a.{how}"),
        await_element("#messagelist"),
    )


def write(
    *,
    to: Sequence[str] = (),
    cc: Sequence[str] = (),
    bcc: Sequence[str] = (),
    subject: str = "",
    text: str = "",
) -> tuple[Step, ...]:
    """Fill in the form of a new mail, and leave it open."""
    steps: list[Step] = []
    for name, addresses in (("to", to), ("cc", cc), ("bcc", bcc)):
        if not addresses:
            continue
        if name != "to":
            steps.append(tap("#compose_to a[data-popup=headers-menu]"))
            steps.append(tap(f"#headers-menu a[data-target={name}]"))
        steps.append(put(f"#compose_{name} input", ", ".join(addresses) + ","))
    if subject:
        steps.append(put("#compose-subject", subject))
    if text:
        steps.append(put("#composebody", text))
    return tuple(steps)


def put_before(text: str) -> Step:
    """Write above the mail that is answered or forwarded."""

    async def step(page: OracleView) -> AsyncIterator[actions_lib.Action]:
        async for action in await_element("#composebody")(page):
            yield action
        rest = await page.evaluate("() => document.querySelector('#composebody').value")
        async for action in put("#composebody", f"{text}\n\n{rest.lstrip()}")(page):
            yield action

    return step


def reply(text: str, *, to_all: bool = False) -> tuple[Step, ...]:
    """Answer the chosen mail."""
    button = "reply-all" if to_all else "reply"
    return tap(f"#layout-content .header a.{button}"), put_before(text), *send()


def forward(to: str, text: str = "") -> tuple[Step, ...]:
    """Forward the chosen mail."""
    note = (put_before(text),) if text else ()
    return tap("#layout-content .header a.forward"), *write(to=[to]), *note, *send()


def whole_folder(name: str, what: str) -> tuple[Step, ...]:
    """Do something with all mails of a folder: `read` or `purge`."""
    return (
        *to_folder(name),
        tap("#layout-sidebar .sidebar-menu"),
        tap(f"#mailboxoptions-menu a.{what}"),
        confirm(),
        await_element("#messagelist"),
    )


def confirm() -> Step:
    """Say yes to a question."""
    return tap(".ui-dialog-buttonset .mainaction")


def to_contacts() -> Step:
    """Open the address book."""
    return tap("#taskmenu a.contacts")


def pick_contact(name: str) -> tuple[Step, ...]:
    """Find a contact and show it; the address book is open."""
    return (
        put("#searchform", name),
        key("#searchform", "Enter"),
        tap("#contacts-table td.name", name),
        await_element(".formbuttons .edit", inside=_CONTACT),
    )


def pick_member(name: str) -> tuple[Step, ...]:
    """Find a contact in the list that is open. What a search finds cannot be put into groups."""
    return tap("#contacts-table td.name", name), await_element(
        ".formbuttons .edit", inside=_CONTACT
    )


def edit_contact(**fields: str) -> tuple[Step, ...]:
    """Change the contact that is shown."""
    return (
        tap(".formbuttons .edit", inside=_CONTACT),
        *(put(f"[name^=_{name}]", value, inside=_CONTACT) for name, value in fields.items()),
        tap("button.submit", inside=_CONTACT),
        await_element("#layout-content a.print.disabled"),
    )


def new_contact(first: str, last: str, email: str, phone: str = "") -> tuple[Step, ...]:
    """Make a contact; the address book is open."""
    fields = {"firstname": first, "surname": last, "email": email, "phone": phone}
    given = {name: value for name, value in fields.items() if value}
    return (_CREATE, *edit_contact(**given)[1:])


def new_group(name: str) -> tuple[Step, ...]:
    """Make a group of contacts; the address book is open."""
    return (
        tap("#layout-sidebar .sidebar-menu"),
        tap("#groupoptions-menu a.create"),
        put(".ui-dialog input", name),
        confirm(),
        await_element("#directorylist .contactgroup a", name),
    )


def assign_group(group: str) -> tuple[Step, ...]:
    """Put the chosen contact into a group."""
    return (
        tap("#contactmenulink"),
        tap("#contact-menu a.assigngroup"),
        tap("#contactgroup-selector a", group),
        await_element("#contacts-table"),
    )


def to_settings(tab: str) -> tuple[Step, ...]:
    """Open a page of the settings: `Preferences`, `Folders`, `Identities` or `Responses`."""
    return tap("#taskmenu a.settings"), tap("#settings-menu a", tab)


def save(*fields: Step) -> tuple[Step, ...]:
    """Fill in a form of the settings and save it."""
    return (
        *fields,
        tap("button.submit", inside=_FORM),
        await_element("#messagestack .confirmation"),
    )


def new_setting(tab: str, *fields: Step) -> tuple[Step, ...]:
    """Add an entry to a page of the settings."""
    return (*to_settings(tab), _CREATE, *save(*fields))


def preferences(section: str, *fields: Step) -> tuple[Step, ...]:
    """Change a section of the preferences."""
    chosen = tap("#sections-table td.section", section)
    return (*to_settings("Preferences"), chosen, *save(*fields))


def field(name: str, value: str) -> Step:
    """Fill in a field of a form of the settings."""
    return put(f"[name=_{name}]", value, inside=_FORM)


def compose(*options: Step, **fields: Any) -> tuple[Step, ...]:
    """Write a new mail and send it. See `write`."""
    return (tap("a.compose"), *write(**fields), *options, *send())


def write_to_contacts(
    people: Sequence[Mapping[str, Any]], subject: str, text: str
) -> tuple[Step, ...]:
    """Look up contacts in the address book, and write one mail to all of them."""
    return (
        to_contacts(),
        *(step for one in people for step in pick_contact(one["name"])),
        tap("#taskmenu a.mail"),
        *compose(to=[one["email"] for one in people], subject=subject, text=text),
    )


def send() -> tuple[Step, ...]:
    """Send the mail that is being written."""
    return tap("button.send"), await_element("#messagelist")


# What is there.


def find_mail(facts: Facts, number: int) -> Mapping[str, Any]:
    """Return the mail with a number, from 1."""
    found: Mapping[str, Any] = facts["mails"][number - 1]
    return found


def _unique(facts: Facts, *folders: str) -> list[Mapping[str, Any]]:
    """Return the mails of folders whose subject is part of no other."""
    subjects = [mail["subject"] for mail in facts["mails"]]
    return [
        mail
        for mail in facts["mails"]
        if mail["folder"] in folders and sum(mail["subject"] in one for one in subjects) == 1
    ]


def draw_colleague(facts: Facts, rng: random.Random, *others: str) -> Mapping[str, Any]:
    """Return somebody at Northfield, but not the user, and none with these addresses."""
    people = [one for one in facts["people"][1:] if one["email"] not in others]
    found: Mapping[str, Any] = rng.choice(people)
    return found


def _colleagues(facts: Facts, rng: random.Random, count: int) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = rng.sample(facts["people"][1:], count)
    return found


def place_of(mail: Mapping[str, Any]) -> str:
    """Return where goals say that a mail is."""
    return "in the inbox" if mail["folder"] == "INBOX" else f"in the folder {mail['folder']}"


def name_of(mail: Mapping[str, Any]) -> str:
    """Return what goals call a mail."""
    return f"the mail “{mail['subject']}” from {mail['from']}"


def _join(addresses: Iterable[str]) -> str:
    return ", ".join(sorted(addresses))


def long_day(day: str) -> str:
    """Return a day as the mails write it."""
    return f"{date.fromisoformat(day):%A}, {format_date(day)}"


def deliver(
    facts: Facts, request: Mapping[str, Any], *, text: str = "", **values: str
) -> tuple[Statement, ...]:
    """Put one more mail into the inbox, as the newest one; for `Assignment.prepare`.

    Args:
        facts: The facts of the mailbox.
        request: The mail: `email`, `subject` and `text`, the sender's name as `from` or `name`, and
            `moment`, when it comes; by default a quarter of an hour before the world begins.
            One of `facts["requests"]` will do, if it is about the shop.
        text: What it says after a greeting; by default the text of the request.
        **values: What takes the place of `{product}` and the like in the text of the request.
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
    facts: Facts, sender: Mapping[str, Any], subject: str, text: str = "", **values: str
) -> tuple[dict[str, Any], tuple[Statement, ...]]:
    """Let somebody write a mail; return it, and what delivers it. See `deliver`."""
    letter = {
        "id": len(facts["mails"]) + 1,
        "folder": "INBOX",
        "from": sender["name"],
        "email": sender["email"],
        "subject": subject,
    }
    return letter, deliver(facts, {**sender, **letter}, text=text, **values)


_NEWEST: Final = datetime(2026, 3, 2, 8, 45, tzinfo=UTC)
"""When the newest mail came: a quarter of an hour before a world begins."""


# What is expected.


def expect_sent(
    to: Sequence[str],
    subject: str,
    cc: Sequence[str] = (),
    bcc: Sequence[str] = (),
    **columns: Any,
) -> tuple[Expected, ...]:
    """Expect a mail to be sent, with its copy in the folder Sent."""
    shown = {"to": _join(to), "cc": _join(cc), "subject": same_text(subject), **columns}
    return (
        added("sent", recipients=_join([*to, *cc, *bcc]), **shown),
        added("mail", folder="Sent", bcc=_join(bcc), **shown),
    )


def expect_answer(
    facts: Facts, mail: Mapping[str, Any], text: str, *, to_all: bool = False
) -> tuple[Expected, ...]:
    """Expect an answer to a mail."""
    subject = mail["subject"] if mail["subject"].startswith("Re: ") else f"Re: {mail['subject']}"
    others = {*mail["to"], *mail["cc"]} - {facts["email"], mail["email"]} if to_all else set()
    # An answer to all has the other recipients among either.
    recipients = _join({mail["email"], *others})
    shown = {"subject": same_text(subject), "text": same_text(text)}
    return (
        added("sent", recipients=recipients, **shown),
        added("mail", folder="Sent", **shown),
        changed("mail", {"id": mail["id"]}, answered=True),
    )


def _forwarded(
    mail: Mapping[str, Any], to: str, *texts: str, subject: Any = None
) -> tuple[Expected, ...]:
    """Expect a mail to be forwarded as a whole, with its attachments."""
    shown = {
        "to": to,
        "subject": subject or contains(mail["subject"]),
        "text": same_text("\n".join(texts)),
        "body": contains(*texts, max(mail["text"].splitlines(), key=len), more=5_000),
        "attachments": ", ".join(sorted(mail["attachments"])),
    }
    return (
        added("sent", recipients=to, **shown),
        added("mail", folder="Sent", **shown),
        changed("mail", {"id": mail["id"]}, forwarded=True),
    )


def expect_moved(
    mails: Iterable[Mapping[str, Any]], folder: str, **more: Any
) -> tuple[Expected, ...]:
    """Expect mails to be moved to a folder."""
    return tuple(changed("mail", {"id": mail["id"]}, folder=folder, **more) for mail in mails)


# What people write.

SUBJECTS: Final = (
    "Lunch on Tuesday", "Key of the archive", "Question about the catalogue",
    "Projector for Friday",
    "New badge", "Visit next week", "Numbers for March", "Broken chair", "Train tickets",
    "Coffee order", "Spare monitor", "Labels for the shelves",
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
def _flag(facts: Facts, rng: random.Random) -> Assignment:
    mail = rng.choice([one for one in _unique(facts, "INBOX", "Team") if not one["flagged"]])
    return assign(
        f"Flag {name_of(mail)} {place_of(mail)}.",
        (pick(mail), mark("flag")),
        changed("mail", {"id": mail["id"]}, flagged=True),
    )


@task("mail/move", level=1, split="train", allow=READ)
def _move(facts: Facts, rng: random.Random) -> Assignment:
    mail = rng.choice(_unique(facts, "INBOX"))
    folder = rng.choice(TARGETS)
    return assign(
        f"Move {name_of(mail)} from the inbox to the folder {folder}.",
        (pick(mail), move_to(folder)),
        expect_moved([mail], folder),
    )


@task("mail/delete", level=1, split="train", allow=READ)
def _delete(facts: Facts, rng: random.Random) -> Assignment:
    mail = rng.choice(_unique(facts, "INBOX", "Team", "Archive"))
    return assign(
        f"Delete {name_of(mail)} {place_of(mail)}; leave it in the trash.",
        (pick(mail), _DELETE, await_element("#messagelist")),
        expect_moved([mail], "Trash"),
    )


@task("mail/mark-unread", level=1, split="train", allow=READ)
def _mark_unread(facts: Facts, rng: random.Random) -> Assignment:
    mail = rng.choice([one for one in _unique(facts, "INBOX") if one["read"]])
    return assign(
        f"Mark {name_of(mail)} in the inbox as unread, so that you come back to it later.",
        (pick(mail), mark("unread")),
        changed("read", {"mail": mail["id"]}, read=False),
    )


@task("mail/mark-folder-read", level=1, split="test", allow=READ)
def _mark_folder_read(facts: Facts, rng: random.Random) -> Assignment:
    unread = {mail["folder"] for mail in facts["mails"] if not mail["read"]}
    folder = rng.choice(sorted(unread - {"INBOX"}))
    mails = [one for one in facts["mails"] if one["folder"] == folder and not one["read"]]
    return assign(
        f"Mark all mails in the folder {folder} as read.",
        whole_folder(folder, "read"),
        [changed("read", {"mail": mail["id"]}, read=True) for mail in mails],
    )


@task("mail/contact-phone", level=1, split="train")
def _contact_phone(facts: Facts, rng: random.Random) -> Assignment:
    contact = rng.choice(facts["contacts"])
    return assign(
        f"What phone number does the address book have for {contact['name']}? Answer with the "
        f"number as it is written there.",
        (to_contacts(), pick_contact(contact["name"])),
        answer=contact["phone"],
    )


@task("mail/add-contact", level=1, split="train")
def _add_contact(facts: Facts, rng: random.Random) -> Assignment:
    known = {contact["email"] for contact in facts["contacts"]}
    person = draw_colleague(facts, rng, *known)
    first, last = person["name"].split()
    phone = f"+44 1632 960{rng.randint(100, 999)}"
    return assign(
        f"Add {person['name']} to the address book, with the mail address {person['email']} "
        f"and the phone number {phone}.",
        (to_contacts(), new_contact(first, last, person["email"], phone)),
        added(
            "contact",
            name=person["name"],
            firstname=first,
            surname=last,
            email=person["email"],
            phone=_same(phone),
        ),
    )


@task("mail/create-folder", level=1, split="test")
def _create_folder(facts: Facts, rng: random.Random) -> Assignment:
    name, parent = rng.choice(_FOLDERS), rng.choice(("", "Projects", "Team", "Archive"))
    path = f"{parent}/{name}" if parent else name
    place = f"as a subfolder of {parent}" if parent else "at the top level"
    return assign(
        f"Create a mail folder named {name} {place}.",
        new_setting(
            "Folders",
            field("name", name),
            *([choose("[name=_parent]", parent, inside=_FORM)] if parent else []),
        ),
        added("folder", name=path),
    )


@task("mail/trip-reference", level=1, split="train", allow=READ)
def _trip_reference(facts: Facts, rng: random.Random) -> Assignment:
    trip = rng.choice(facts["trips"])
    what, answer = rng.choice(
        (
            ("reference", trip["reference"]),
            ("hotel", trip["hotel"]),
            ("price in GBP", f"{trip['price']} GBP"),
        )
    )
    return assign(
        f"A trip to {trip['city']} has been booked for you; the confirmation is in the inbox "
        f"or in the folder Travel. What is the {what} of this booking? Answer "
        "with nothing else.",
        pick(find_mail(facts, trip["mail"])),
        answer=answer,
    )


@task("mail/invoice-due", level=1, split="test", allow=READ)
def _invoice_due(facts: Facts, rng: random.Random) -> Assignment:
    invoice = rng.choice(facts["invoices"])
    mail = find_mail(facts, invoice["mail"])
    return assign(
        f"By which day must the invoice {invoice['number']} be paid? It is {place_of(mail)}. "
        f"Answer with the date as YYYY-MM-DD.",
        pick(mail),
        answer=invoice["due"],
    )


@task("mail/parcel", level=1, split="train", allow=READ)
def _parcel(facts: Facts, rng: random.Random) -> Assignment:
    parcel = rng.choice(facts["parcels"])
    what, kind, answer = rng.choice(
        (
            ("What is the tracking number of", "number", parcel["number"]),
            ("For whom is", "name", parcel["person"]),
        )
    )
    return assign(
        f"{what} the parcel with {parcel['thing']}? Merlin Couriers has written about it. "
        f"Answer with the {kind}.",
        pick(find_mail(facts, parcel["mail"])),
        answer=answer,
    )


@task("mail/compose", level=1, split="train", allow=READ)
def _compose(facts: Facts, rng: random.Random) -> Assignment:
    person = draw_colleague(facts, rng)
    subject, text = rng.choice(SUBJECTS), rng.choice(TEXTS)
    return assign(
        f"Send a mail to {person['name']} ({person['email']}) with the subject “{subject}” "
        f"and the text “{text}”",
        compose(to=[person["email"]], subject=subject, text=text),
        expect_sent([person["email"]], subject, text=same_text(text)),
    )


@task("mail/reply", level=1, split="train", allow=READ)
def _reply(facts: Facts, rng: random.Random) -> Assignment:
    mails = [mail for mail in _unique(facts, "INBOX") if _from_colleague(facts, mail)]
    mail, text = rng.choice(mails), rng.choice(_ANSWERS)
    return assign(
        f"Answer {name_of(mail)} in the inbox, only to the sender, with the text “{text}”",
        (pick(mail), reply(text)),
        expect_answer(facts, mail, text),
    )


@task("mail/empty-folder", level=1, split="test", allow=READ)
def _empty_folder(facts: Facts, rng: random.Random) -> Assignment:
    folder = rng.choice(("Trash", "Junk"))
    mails = [mail for mail in facts["mails"] if mail["folder"] == folder]
    how = "" if folder == "Trash" else " Leave its mails in the trash."
    return assign(
        f"Empty the mail folder {folder}.{how}",
        whole_folder(folder, "purge"),
        [removed("mail", id=mail["id"]) for mail in mails]
        if folder == "Trash"
        else expect_moved(mails, "Trash"),
    )


@task("mail/unread-count", level=1, split="train", allow=READ)
def _unread_count(facts: Facts, rng: random.Random) -> Assignment:
    newsletter = rng.choice(facts["newsletters"])
    unread = [number for number in newsletter["mails"] if not find_mail(facts, number)["read"]]
    return assign(
        f"How many unread mails from {newsletter['name']} are in the inbox? "
        "Answer with the number.",
        search(newsletter["name"]),
        answer=str(len(unread)),
    )


@task("mail/new-response", level=1, split="test")
def _new_response(facts: Facts, rng: random.Random) -> Assignment:
    name, text = rng.choice(SUBJECTS), rng.choice(_ANSWERS)
    return assign(
        f"Add a response in the settings, for later use in mails. Its name is “{name}”, and "
        f"its text is “{text}”",
        new_setting("Responses", field("name", name), field("text", text)),
        added("response", name=same_text(name), text=same_text(text)),
    )


@task("mail/delete-contact", level=1, split="train")
def _delete_contact(facts: Facts, rng: random.Random) -> Assignment:
    contact = rng.choice(facts["contacts"])
    groups = [group for group in facts["groups"] if contact["name"] in group["members"]]
    return assign(
        f"Delete {contact['name']} from the address book.",
        (to_contacts(), pick_contact(contact["name"]), _DELETE, confirm()),
        await_element("#contacts-table"),
        removed("contact", name=contact["name"]),
        [removed("member", group=one["name"], contact=contact["name"]) for one in groups],
    )


# Level 2.


@task("mail/compose-copies", level=2, split="train", allow=READ)
def _compose_copies(facts: Facts, rng: random.Random) -> Assignment:
    first, second, third = _colleagues(facts, rng, 3)
    subject, text = rng.choice(SUBJECTS), rng.choice(TEXTS)
    return assign(
        f"Send a mail to {first['name']} with a copy (Cc) to {second['name']} and a blind copy "
        f"(Bcc) to {third['name']}. Their addresses are {first['email']}, {second['email']} "
        f"and {third['email']}. The subject is “{subject}”, the text “{text}”",
        compose(
            to=[first["email"]],
            cc=[second["email"]],
            bcc=[third["email"]],
            subject=subject,
            text=text,
        ),
        expect_sent(
            [first["email"]], subject, [second["email"]], [third["email"]], text=same_text(text)
        ),
    )


@task("mail/compose-options", level=2, split="test", allow=READ)
def _compose_options(facts: Facts, rng: random.Random) -> Assignment:
    person = draw_colleague(facts, rng)
    subject, text = rng.choice(SUBJECTS), rng.choice(TEXTS)
    name, value = rng.choice((("High", "2"), ("Highest", "1"), ("Low", "4")))
    folder = rng.choice(TARGETS)
    shown = {"subject": subject, "text": same_text(text), "priority": contains(value, more=12)}
    return assign(
        f"Send a mail to {person['email']} with the subject “{subject}”, the text “{text}” and "
        f"the priority “{name}”. Save its copy in the folder {folder}, not in Sent.",
        compose(
            choose("#compose-priority", value),
            choose("#compose-store-target", folder),
            to=[person["email"]],
            subject=subject,
            text=text,
        ),
        added("sent", recipients=person["email"], **shown),
        added("mail", folder=folder, to=person["email"], **shown),
    )


@task("mail/office-sender", level=2, split="train", allow=READ)
def _office_sender(facts: Facts, rng: random.Random) -> Assignment:
    person, office = draw_colleague(facts, rng), facts["identities"][1]
    subject, text = rng.choice(SUBJECTS), rng.choice(TEXTS)
    return assign(
        f"Send a mail to {person['email']} in the name of {office['name']} "
        f"({office['email']}), not in your own. Subject: “{subject}”. Text: “{text}”",
        (tap("a.compose"), choose("#_from", str(office["id"]))),
        (write(to=[person["email"]], subject=subject, text=text), send()),
        expect_sent([person["email"]], subject, text=same_text(text), **{"from": office["email"]}),
    )


@task("mail/forward", level=2, split="train", allow=READ)
def _forward(facts: Facts, rng: random.Random) -> Assignment:
    mail = rng.choice(_unique(facts, "INBOX"))
    person, note = draw_colleague(facts, rng, mail["email"]), rng.choice(_NOTES)
    return assign(
        f"Forward {name_of(mail)} in the inbox to {person['name']} ({person['email']}), with "
        f"the note “{note}”",
        (pick(mail), forward(person["email"], note)),
        _forwarded(mail, person["email"], note),
    )


@task("mail/reply-all", level=2, split="train", allow=READ)
def _reply_all(facts: Facts, rng: random.Random) -> Assignment:
    meeting = rng.choice(facts["meetings"])
    mail = find_mail(facts, meeting["mail"])
    text = rng.choice(("I will be there.", "I cannot come, sorry.", "I will come a bit later."))
    return assign(
        f"Answer {name_of(mail)} in the inbox with the text “{text}” The organiser and "
        f"everybody else who was invited should get your answer.",
        (pick(mail), reply(text, to_all=True)),
        expect_answer(facts, mail, text, to_all=True),
    )


@task("mail/reply-response", level=2, split="test", allow=READ)
def _reply_response(facts: Facts, rng: random.Random) -> Assignment:
    invoice = rng.choice(facts["invoices"])
    mail, response = find_mail(facts, invoice["mail"]), rng.choice(facts["responses"])
    return assign(
        f"Answer {name_of(mail)} {place_of(mail)} with the saved response "
        f"“{response['name']}”, and with nothing else.",
        (pick(mail), tap("#layout-content .header a.reply")),
        (tap("#layout-content .header a.responses"), tap("#responseslist a", response["name"])),
        send(),
        expect_answer(facts, mail, response["text"]),
    )


@task("mail/rename-folder", level=2, split="train")
def _rename_folder(facts: Facts, rng: random.Random) -> Assignment:
    folder, name = rng.choice(("Hiring", "Newsletters", "Travel", "Invoices")), rng.choice(_FOLDERS)
    mails = [mail for mail in facts["mails"] if mail["folder"] == folder]
    return assign(
        f"Rename the mail folder {folder} to {name}.",
        (to_settings("Folders"), tap("#subscription-table a", folder), save(field("name", name))),
        (removed("folder", name=folder), added("folder", name=name), expect_moved(mails, name)),
    )


@task("mail/delete-folder", level=2, split="train", allow=READ)
def _delete_folder(facts: Facts, rng: random.Random) -> Assignment:
    folder = "Newsletters"
    newsletter = rng.choice(facts["newsletters"])
    mails = [find_mail(facts, number) for number in newsletter["mails"]]
    return assign(
        f"The folder {folder} is empty: delete it. Then move all mails from "
        f"{newsletter['name']} from the inbox to the folder Archive.",
        (to_settings("Folders"), tap("#subscription-table a", folder), _DELETE, confirm()),
        (await_element("#subscription-table"), tap("#taskmenu a.mail")),
        (_select_all(newsletter["name"]), move_to("Archive")),
        (removed("folder", name=folder), expect_moved(mails, "Archive")),
    )


def _select_all(text: str) -> tuple[Step, ...]:
    """Search the open folder, and choose all that is found."""
    return (
        *search(text),
        await_element("#messagelist tr.message"),
        tap("#messagelist-header a.select"),
        tap("#listselect-menu a.select.all"),
    )


@task("mail/signature", level=2, split="train")
def _signature(facts: Facts, rng: random.Random) -> Assignment:
    identity = rng.choice(facts["identities"])
    room, phone = rng.choice(ROOMS), f"+44 1632 960{rng.randint(100, 999)}"
    text = f"{identity['name']}, room {room}, {phone}"
    return assign(
        f"Change the signature of the identity {identity['email']} to this one line: {text}",
        to_settings("Identities"),
        tap("#identities-table td.mail", f"{identity['name']} <{identity['email']}>"),
        save(field("signature", text)),
        changed("identity", {"id": identity["id"]}, signature=same_text(text)),
    )


@task("mail/new-identity", level=2, split="test")
def _new_identity(facts: Facts, rng: random.Random) -> Assignment:
    team = rng.choice(("Events", "Press", "Purchasing", "Training", "Visitors"))
    name, address = f"Northfield {team}", f"{team.lower()}@northfield.test"
    return assign(
        f"Add a sender identity with the display name “{name}”, the mail address {address} "
        f"and the organization “Northfield”. {facts['email']} stays the default.",
        (to_settings("Identities"), tap("a.create")),
        save(field("name", name), field("email", address), field("organization", "Northfield")),
        added(
            "identity",
            name=name,
            email=address,
            organization="Northfield",
            default=False,
            signature="",
        ),
    )


@task("mail/preferences", level=2, split="train")
def _preferences(facts: Facts, rng: random.Random) -> Assignment:
    rows = rng.choice((20, 25, 30, 40, 75, 100))
    when, seconds = rng.choice(
        (("never", -1), ("after 5 seconds", 5), ("after 10 seconds", 10), ("after 20 seconds", 20))
    )
    return assign(
        f"Change your preferences: the mail list shows {rows} rows per page, and messages are "
        f"marked as read {when}.",
        preferences(
            "Mailbox View",
            choose("[name=_mail_read_time]", str(seconds), inside=_FORM),
            field("mail_pagesize", str(rows)),
        ),
        added("setting", name="mail_pagesize", value=rows),
        added("setting", name="mail_read_time", value=seconds),
    )


@task("mail/date-format", level=2, split="test")
def _date_format(facts: Facts, rng: random.Random) -> Assignment:
    example, pattern = rng.choice(
        (("24.07.2026", "d.m.Y"), ("2026/07/24", "Y/m/d"), ("24-07-2026", "d-m-Y"))
    )
    time, clock = rng.choice((("07:30 AM", "h:i A"), ("7:30", "G:i")))
    return assign(
        f"Change how the webmail shows times and dates: half past seven in the morning as "
        f"“{time}”, and 24 July 2026 as “{example}”.",
        preferences(
            "User Interface",
            choose("[name=_time_format]", clock, inside=_FORM),
            choose("[name=_date_format]", pattern, inside=_FORM),
        ),
        added("setting", name="date_format", value=pattern),
        added("setting", name="time_format", value=clock),
    )


@task("mail/update-phone", level=2, split="train", allow=READ)
def _update_phone(facts: Facts, rng: random.Random) -> Assignment:
    news = rng.choice(facts["numbers"])
    mail = find_mail(facts, news["mail"])
    return assign(
        f"{news['person']} has written to you about a new phone number. Change it in the "
        f"address book.",
        (search(mail["subject"]), tap("#messagelist span.adr", news["person"]), to_contacts()),
        (pick_contact(news["person"]), edit_contact(phone=news["phone"])),
        changed("contact", {"name": news["person"]}, phone=_same(news["phone"])),
    )


@task("mail/update-contact", level=2, split="train")
def _update_contact(facts: Facts, rng: random.Random) -> Assignment:
    contact = rng.choice(facts["contacts"])
    title = rng.choice(("Team Lead", "Consultant", "Head of Purchasing", "Trainee", "Director"))
    company = rng.choice(("Northfield East", "Northfield Services", "Harbour Logistics"))
    return assign(
        f"{contact['name']} has a new job. Change the entry in the address book: the "
        f"organization is now “{company}”, and the job title is “{title}”.",
        (to_contacts(), pick_contact(contact["name"])),
        edit_contact(organization=company, jobtitle=title),
        changed("contact", {"name": contact["name"]}, organization=company, title=title),
    )


@task("mail/new-group", level=2, split="train")
def _new_group(facts: Facts, rng: random.Random) -> Assignment:
    name, members = rng.choice(_GROUPS), rng.sample(facts["contacts"], 2)
    names = [member["name"] for member in members]
    return assign(
        f"Make a group of contacts named “{name}” with {join_names(names)} in it.",
        (to_contacts(), new_group(name), _all_contacts()),
        [(pick_member(member), assign_group(name)) for member in names],
        added("group", name=name),
        [added("member", group=name, contact=member) for member in names],
    )


def _all_contacts() -> Step:
    return tap("#directorylist .addressbook > a, #directorylist li > a", "Personal Addresses")


@task("mail/group-members", level=2, split="test")
def _group_members(facts: Facts, rng: random.Random) -> Assignment:
    group = rng.choice(facts["groups"])
    gone = rng.choice(group["members"])
    come = rng.choice([one for one in facts["contacts"] if one["name"] not in group["members"]])
    return assign(
        f"In the address book, {come['name']} takes the place of {gone} in the group "
        f"“{group['name']}”: take {gone} out of the group (the contact itself stays) and put "
        f"{come['name']} into it.",
        (to_contacts(), pick_member(come["name"]), assign_group(group["name"])),
        tap("#directorylist .contactgroup a", group["name"]),
        (tap("#contacts-table td.name", gone), tap("#contactmenulink")),
        (tap("#contact-menu a.removegroup"), await_element("#contacts-table")),
        removed("member", group=group["name"], contact=gone),
        added("member", group=group["name"], contact=come["name"]),
    )


@task("mail/file-newsletter", level=2, split="train", allow=READ)
def _file_newsletter(facts: Facts, rng: random.Random) -> Assignment:
    newsletter = rng.choice(facts["newsletters"])
    mails = [find_mail(facts, number) for number in newsletter["mails"]]
    return assign(
        f"Move all mails from {newsletter['name']} from the inbox to the folder Newsletters.",
        (_select_all(newsletter["name"]), move_to("Newsletters")),
        expect_moved(mails, "Newsletters"),
    )


@task("mail/delete-notifications", level=2, split="test", allow=READ)
def _delete_notifications(facts: Facts, rng: random.Random) -> Assignment:
    name = rng.choice(("Tracker", "Forum", "Wiki", "Shop"))
    sender = f"Northfield {name}"
    mails = [mail for mail in facts["mails"] if mail["from"] == sender]
    return assign(
        f"Delete all automatic mails of {sender} from the inbox; leave them in the trash.",
        (_select_all(sender), _DELETE, await_element("#messagelist")),
        expect_moved(mails, "Trash"),
    )


@task("mail/not-junk", level=2, split="train", allow=READ)
def _not_junk(facts: Facts, rng: random.Random) -> Assignment:
    found = rng.choice(facts["junk"])
    mail, text = find_mail(facts, found["mail"]), rng.choice(_ANSWERS)
    return assign(
        f"A mail from {found['from']} has landed in the folder Junk by mistake. Move it to the "
        f"inbox, and answer it with the text “{text}”",
        (pick(mail), move_to("Inbox"), to_folder("INBOX"), pick({**mail, "folder": "INBOX"})),
        reply(text),
        expect_answer(facts, mail, text)[:2],
        changed("mail", {"id": mail["id"]}, folder="INBOX", answered=True),
    )


@task("mail/draft", level=2, split="train", allow=READ)
def _draft(facts: Facts, rng: random.Random) -> Assignment:
    person = draw_colleague(facts, rng)
    subject, text = rng.choice(SUBJECTS), rng.choice(TEXTS)
    return assign(
        f"Write a mail to {person['email']} with the subject “{subject}” and the text "
        f"“{text}”, but do not send it: save it as a draft.",
        (tap("a.compose"), write(to=[person["email"]], subject=subject, text=text)),
        (tap("#layout-content .header a.save"), await_element("#composebody")),
        added(
            "mail",
            folder="Drafts",
            to=person["email"],
            subject=same_text(subject),
            text=same_text(text),
        ),
    )


@task("mail/finish-draft", level=2, split="test", allow=READ)
def _finish_draft(facts: Facts, rng: random.Random) -> Assignment:
    draft, line = rng.choice(facts["drafts"]), rng.choice(TEXTS)
    mail, copy = find_mail(facts, draft["mail"]), draw_colleague(facts, rng, draft["email"])
    return assign(
        f"There is a draft with the subject “{draft['subject']}”. Add the sentence “{line}” to "
        f"it, put {copy['email']} into Cc, and send it.",
        (pick(mail), tap(".message-buttons, .btn, a.button", "Edit", part=True, inside=_MESSAGE)),
        (write(cc=[copy["email"]]), put_before(line), send()),
        expect_sent(
            [draft["email"]],
            draft["subject"],
            [copy["email"]],
            text=contains(*mail["text"].splitlines(), line),
        ),
        removed("mail", id=mail["id"]),
    )


@task("mail/forward-attachment", level=2, split="train", allow=READ)
def _forward_attachment(facts: Facts, rng: random.Random) -> Assignment:
    mails = [mail for mail in _unique(facts, "INBOX", "Archive") if mail["attachments"]]
    mail = rng.choice(mails)
    (file,) = mail["attachments"]
    person, note = draw_colleague(facts, rng, mail["email"]), rng.choice(_NOTES)
    kind = "Archive" if mail["folder"] == "Archive" else "inbox"
    return assign(
        f"{mail['from']} has sent you the file {file}; the mail is in the {kind}. Forward this "
        f"mail with its attachment to {person['email']}, with the note “{note}”",
        (pick(mail), forward(person["email"], note)),
        _forwarded(mail, person["email"], note),
    )


@task("mail/meeting", level=2, split="train", allow=READ)
def _meeting(facts: Facts, rng: random.Random) -> Assignment:
    meeting = rng.choice([one for one in facts["meetings"] if one["moved"]])
    return assign(
        f"You have been invited to the {meeting['title'].lower()}. In which room does it take "
        f"place now, and on which day? Answer with room, comma and date as YYYY-MM-DD.",
        (pick(find_mail(facts, meeting["invitation"])), pick(find_mail(facts, meeting["mail"]))),
        answer=(meeting["room"], meeting["day"]),
    )


# Level 3.


@task("mail/largest-invoice", level=3, split="train", allow=READ)
def _largest_invoice(facts: Facts, rng: random.Random) -> Assignment:
    folder = "INBOX"
    found = [one for one in facts["invoices"] if find_mail(facts, one["mail"])["folder"] == folder]
    months = Counter(one["due"][:7] for one in found)
    highest = {
        month: find_best(
            [one for one in found if one["due"].startswith(month)], lambda one: one["cents"]
        )
        for month, count in months.items()
        if count >= 2
    }
    best = highest[rng.choice(sorted(month for month, one in highest.items() if one))]
    mail, person = find_mail(facts, best["mail"]), draw_colleague(facts, rng)
    name = f"{date.fromisoformat(best['due']):%B %Y}"
    return assign(
        f"Look at all invoices in the inbox. Of those that are payable in {name}, forward the "
        f"one with the highest amount to {person['name']} ({person['email']}), without a note.",
        (search("Invoice"), _look(found, facts), pick(mail), forward(person["email"])),
        _forwarded(mail, person["email"]),
    )


def _look(rows: Sequence[Mapping[str, Any]], facts: Facts) -> tuple[Step, ...]:
    """Read mails that a search has found."""
    return tuple(
        step
        for row in rows
        for step in (
            tap("#messagelist span.subject a", find_mail(facts, row["mail"])["subject"]),
            READABLE,
        )
    )


def _choose(mails: Sequence[Mapping[str, Any]]) -> tuple[Step, ...]:
    """Choose several mails of the list."""
    first, *others = (mail["subject"] for mail in mails)
    row = "#messagelist span.subject a"
    control = functools.partial(actions_lib.Click, modifiers=("Control",))
    return tap(row, first), *(_on(control, row, subject) for subject in others)


@task("mail/expenses-total", level=3, split="train", allow=READ)
def _expenses_total(facts: Facts, rng: random.Random) -> Assignment:
    chosen = rng.sample(facts["expenses"], rng.randint(3, 4))
    total = sum(one["cents"] for one in chosen)
    person = draw_colleague(facts, rng, *(one["email"] for one in chosen))
    amount = f"{total // 100}.{total % 100:02d}"
    names = [one["person"] for one in chosen]
    subject = "Expenses February, total"
    return assign(
        f"Add up the February expenses of {join_names(names)}; their mails are in the inbox. "
        f"Send the total to {person['email']}, with the subject “{subject}” and the text "
        f"“Total: N GBP”, where N is the amount with two decimals and without any other sign, "
        f"such as 1234.50.",
        (search("Expenses February"), _look(chosen, facts)),
        compose(to=[person["email"]], subject=subject, text=f"Total: {amount} GBP"),
        expect_sent([person["email"]], subject, text=same_text(f"Total: {amount} GBP")),
    )


@task("mail/vote", level=3, split="test", allow=READ)
def _vote(facts: Facts, rng: random.Random) -> Assignment:
    vote = rng.choice(facts["votes"])
    mail = find_mail(facts, vote["mail"])
    wins = vote["counts"][vote["winner"]]
    answers = [
        one
        for one in facts["mails"]
        if one["folder"] == "Team" and one["subject"] == f"Re: {mail['subject']}"
    ]
    text = f"{vote['winner']}: {wins}"
    return assign(
        f"In the folder Team there is a vote, “{mail['subject']}”. Count the votes in the "
        f"answers. Then answer the first mail of the vote, only to its sender, with the option "
        f"that won and its number of votes, written like “{vote['options'][0]}: 9”.",
        (to_folder("Team"), search(vote["title"]), [read_nth(i) for i in range(len(answers))]),
        (pick(mail), reply(text)),
        expect_answer(facts, mail, text),
    )


def read_nth(position: int) -> Step:
    """Read a mail of the list by its position from 0."""
    return tap(f"#messagelist tbody tr:nth-child({position + 1}) span.subject a")


@task("mail/approve-leave", level=3, split="train", allow=READ)
def _approve_leave(facts: Facts, rng: random.Random) -> Assignment:
    months = Counter(one["start"][:7] for one in facts["leaves"])
    month = rng.choice(sorted(months))
    chosen = [one for one in facts["leaves"] if one["start"].startswith(month)]
    text = rng.choice(("Approved, have a good time.", "That is fine.", "Granted, enjoy your days."))
    name = f"{date.fromisoformat(month + '-01'):%B %Y}"
    mails = [find_mail(facts, one["mail"]) for one in chosen]
    return assign(
        f"Colleagues have sent leave requests, which are in the inbox. Answer each request "
        f"whose leave begins in {name}, only to the sender, with the text “{text}” Do not "
        f"answer the others.",
        (search("Leave request"), _look(facts["leaves"], facts)),
        [(pick(mail), reply(text)) for mail in mails],
        [expect_answer(facts, mail, text) for mail in mails],
    )


@task("mail/triage-invoices", level=3, split="test", allow=READ)
def _triage_invoices(facts: Facts, rng: random.Random) -> Assignment:
    found = [one for one in facts["invoices"] if find_mail(facts, one["mail"])["folder"] == "INBOX"]
    dues = sorted({one["due"] for one in found})
    last = rng.choice(dues[1:3])
    chosen = [one for one in found if one["due"] <= last]
    mails = [find_mail(facts, one["mail"]) for one in chosen]
    return assign(
        f"Look at all invoices in the inbox. Flag those that are payable by {long_day(last)} "
        f"or earlier, and move them to the folder Invoices. Leave the others where they are.",
        (search("Invoice"), _look(found, facts), _choose(mails), mark("flag"), move_to("Invoices")),
        expect_moved(mails, "Invoices", flagged=True),
    )


@task("mail/best-application", level=3, split="test", allow=READ)
def _best_application(facts: Facts, rng: random.Random) -> Assignment:
    position = rng.choice(facts["applications"])["position"]
    found = [one for one in facts["applications"] if one["position"] == position]
    firsts = (
        ("who can start first", find_best(found, lambda one: one["start"], min)),
        ("who names the lowest salary", find_best(found, lambda one: one["salary"], min)),
        ("who names the highest salary", find_best(found, lambda one: one["salary"])),
    )
    what, best = rng.choice([(what, best) for what, best in firsts if best])
    mail, person, note = (
        find_mail(facts, best["mail"]),
        draw_colleague(facts, rng),
        rng.choice(_NOTES),
    )
    subject = mail["subject"]
    return assign(
        f"In the folder Hiring there are applications. Of the people who apply as {position}, "
        f"forward the application of the one {what} to {person['name']} ({person['email']}), "
        f"with the note “{note}”",
        (
            to_folder("Hiring"),
            search(subject),
            map(read_nth, range(len(found))),
            act(actions_lib.Wait(1.0)),  # A second click at once would be a double click.
            tap("#messagelist span.adr", best["name"]),
            READABLE,
            forward(person["email"], note),
        ),
        _forwarded(mail, person["email"], note),
    )


@task("mail/thread-decision", level=3, split="train", allow=READ)
def _thread_decision(facts: Facts, rng: random.Random) -> Assignment:
    thread = rng.choice(facts["threads"])
    mail, person = find_mail(facts, thread["mail"]), draw_colleague(facts, rng)
    asked = {
        "budget": "the amount that may be spent, as in “£4,000”",
        "deadline": "the day by which it has to be ready, as in “Monday 2 March”",
        "supplier": "the name of the company that gets the order",
    }[thread["topic"]]
    subject = f"About {thread['what']}"
    return assign(
        f"In the folder Projects/{thread['project']} your colleagues write about "
        f"“{mail['subject']}”. Find out what was decided; one answer was corrected. "
        f"Send {person['name']} ({person['email']}) a mail with the subject “{subject}” and "
        f"with nothing but {asked}, as the text.",
        (to_folder(mail["folder"]), search(mail["subject"]), [read_nth(i) for i in (2, 1, 0)]),
        (READABLE, compose(to=[person["email"]], subject=subject, text=thread["value"])),
        expect_sent([person["email"]], subject, text=same_text(thread["value"])),
    )


@task("mail/candidates", level=3, split="train", allow=READ)
def _candidates(facts: Facts, rng: random.Random) -> Assignment:
    position = rng.choice(facts["applications"])["position"]
    found = [one for one in facts["applications"] if one["position"] == position]
    group = rng.choice(("Candidates", "Applicants", "Interviews"))
    steps: list[Step] = [
        *to_folder("Hiring"),
        *search(find_mail(facts, found[0]["mail"])["subject"]),
        *(read_nth(i) for i in range(len(found))),
        to_contacts(),
        *new_group(group),
        _all_contacts(),
    ]
    for one in found:
        first, last = one["name"].split()
        steps += new_contact(first, last, one["email"])
        steps += [*pick_member(one["name"]), *assign_group(group)]
    return assign(
        f"In the folder Hiring there are applications. Add everybody who applies as {position} "
        f"to the address book, with first name, last name and mail address, and put them into "
        f"a new group named “{group}”.",
        tuple(steps),
        added("group", name=group),
        [
            added(
                "contact",
                name=one["name"],
                firstname=one["name"].split()[0],
                surname=one["name"].split()[1],
                email=one["email"],
            )
            for one in found
        ],
        [added("member", group=group, contact=one["name"]) for one in found],
    )


@task("mail/new-folder-for", level=3, split="train", allow=READ)
def _new_folder_for(facts: Facts, rng: random.Random) -> Assignment:
    kind, text, mails = rng.choice(
        (
            ("mails of Merlin Couriers about parcels", "Your parcel", facts["parcels"]),
            ("expense reports of colleagues", "Expenses February", facts["expenses"]),
            ("leave requests of colleagues", "Leave request", facts["leaves"]),
        )
    )
    name, chosen = rng.choice(_FOLDERS), [find_mail(facts, one["mail"]) for one in mails]
    parent = rng.choice(("Team", "Archive"))
    return assign(
        f"Create a folder named {name} as a subfolder of {parent}, and move all {kind} "
        f"from the inbox to it.",
        new_setting("Folders", field("name", name), choose("[name=_parent]", parent, inside=_FORM)),
        (tap("#taskmenu a.mail"), _select_all(text), move_to(name)),
        (added("folder", name=f"{parent}/{name}"), expect_moved(chosen, f"{parent}/{name}")),
    )


@task("mail/stand-in", level=3, split="test", allow=READ)
def _stand_in(facts: Facts, rng: random.Random) -> Assignment:
    leave = rng.choice(facts["leaves"])
    mail = find_mail(facts, leave["mail"])
    note = f"You stand in for {leave['person']}."
    return assign(
        f"{leave['person']} has sent you a leave request. Find out who stands in, and forward "
        f"the request to that person with the note “{note}” Then move the request to the "
        f"folder Team.",
        (pick(mail), forward(leave["stand_in_email"], note), pick(mail), move_to("Team")),
        _forwarded(mail, leave["stand_in_email"], note)[:2],
        changed("mail", {"id": mail["id"]}, forwarded=True, folder="Team"),
    )


@task("mail/pay-supplier", level=3, split="train", allow=READ)
def _pay_supplier(facts: Facts, rng: random.Random) -> Assignment:
    invoice = rng.choice(facts["invoices"])
    mail = find_mail(facts, invoice["mail"])
    contact = find(facts["contacts"], email=invoice["email"])
    customer = contact["notes"].split()[-1].rstrip(".")
    text = f"Customer {customer}: we have paid {invoice['amount']} GBP."
    return assign(
        f"Answer the mail with the invoice {invoice['number']} ({place_of(mail)}), only to the "
        f"sender, with the text “Customer C: we have paid A GBP.” C is our customer number, "
        f"which is in the notes of the sender's entry in the address book; A is the amount of "
        f"the invoice, with two decimals and without a comma for thousands.",
        (pick(mail), to_contacts(), pick_contact(contact["name"])),
        (tap("a.nav-link", "Notes", inside=_CONTACT), tap("#taskmenu a.mail"), pick(mail)),
        reply(text),
        expect_answer(facts, mail, text),
    )


@task("mail/do-as-asked", level=3, split="train", allow=READ)
def _do_as_asked(facts: Facts, rng: random.Random) -> Assignment:
    person = draw_colleague(facts, rng)
    mail = rng.choice(_unique(facts, "INBOX"))
    contact = rng.choice([one for one in facts["contacts"] if one["email"] != person["email"]])
    folder = rng.choice(TARGETS)
    text = (
        f"could you please do two things for me while I am away?\n\n"
        f"1. Move the mail “{mail['subject']}” from your inbox to the folder {folder}.\n"
        f"2. Look up the phone number of {contact['name']} in your address book, and answer this "
        f"mail with nothing but the number."
    )
    subject = rng.choice(("Please help", "Two things", "While I am away"))
    request, delivery = write_mail(facts, person, subject, text)
    number = contact["phone"]
    shown = {"subject": same_text(f"Re: {subject}"), "text": _same(number)}
    return assign(
        f"{person['name']} has asked you for something in the newest mail in the inbox, "
        f"“{subject}”. Do what it says.",
        (pick(request), pick(mail), move_to(folder), to_contacts(), pick_contact(contact["name"])),
        (tap("#taskmenu a.mail"), pick(request), reply(number)),
        (expect_moved([mail], folder), added("sent", recipients=person["email"], **shown)),
        added("mail", folder="Sent", **shown),
        changed("mail", {"id": request["id"]}, answered=True),
        prepare=delivery,
    )


@task("mail/circular", level=3, split="test", allow=READ)
def _circular(facts: Facts, rng: random.Random) -> Assignment:
    group, sender = rng.choice(facts["groups"]), draw_colleague(facts, rng)
    members = [one for one in facts["contacts"] if one["name"] in group["members"]]
    news = rng.choice(TEXTS)
    subject = rng.choice(SUBJECTS)
    text = (
        f"could you please send just this sentence, and no other text, to everybody in your group "
        f"“{group['name']}”, in one mail with the subject “{subject}”?\n\n{news}"
    )
    request, delivery = write_mail(facts, sender, f"For the group {group['name']}", text)
    addresses = _join(one["email"] for one in members)
    shown = {"subject": same_text(subject), "text": same_text(news)}
    return assign(
        f"{sender['name']} has sent you the mail “{request['subject']}”. Do what it says.",
        (pick(request), to_contacts(), tap("#directorylist .contactgroup a", group["name"])),
        await_element("#contacts-table td.name", members[0]["name"]),
        [pick_member(one["name"]) for one in members],
        compose(to=[one["email"] for one in members], subject=subject, text=news),
        (added("sent", recipients=addresses, **shown), added("mail", folder="Sent", **shown)),
        prepare=delivery,
    )


# What cannot be done.


@task("mail/impossible-file", level=1, split="train", allow=READ, infeasible=True)
def _impossible_file(facts: Facts, rng: random.Random) -> Assignment:
    person, other = _colleagues(facts, rng, 2)
    file = rng.choice(("budget", "org-chart", "roadmap", "contract-draft", "logo"))
    year = rng.randint(2027, 2031)
    return assign(
        f"Forward the mail in which {person['name']} sent you the file {file}-{year}.pdf to "
        f"{other['email']}.",
        (search(person["name"]), await_element("#messagelist")),
    )


@task("mail/impossible-restore", level=1, split="train", allow=READ, infeasible=True)
def _impossible_restore(facts: Facts, rng: random.Random) -> Assignment:
    person = draw_colleague(facts, rng)
    thing = rng.choice(("Guest list", "Menu", "Rota", "Song list", "Floor plan of the fair"))
    return assign(
        f"The mail “{thing}” from {person['name']} was deleted by mistake. Move it from the "
        f"trash back to the inbox.",
        (to_folder("Trash"), await_element("#messagelist")),
    )


@task("mail/impossible-filter", level=2, split="train", allow=READ, infeasible=True)
def _impossible_filter(facts: Facts, rng: random.Random) -> Assignment:
    newsletter, folder = rng.choice(facts["newsletters"]), rng.choice(TARGETS)
    return assign(
        f"Set up a filter rule in the settings of the webmail that moves every future mail "
        f"from {newsletter['name']} to the folder {folder} as it arrives.",
        (to_settings("Preferences"), await_element("#sections-table")),
    )


@task("mail/impossible-contact", level=1, split="train", allow=READ, infeasible=True)
def _impossible_contact(facts: Facts, rng: random.Random) -> Assignment:
    known = {contact["email"] for contact in facts["contacts"]}
    person = draw_colleague(facts, rng, *known)
    return assign(
        f"{person['name']} has a new phone number. Change the entry in the address book: the "
        "number is now +44 1632 960555.",
        (to_contacts(), put("#searchform", person["name"]), key("#searchform", "Enter")),
    )


# Small things.


def _from_colleague(facts: Facts, mail: Mapping[str, Any]) -> bool:
    return any(mail["email"] == person["email"] for person in facts["people"][1:])


def _same(number: str) -> Test:
    """Test that a phone number is this one, however it is written."""
    digits = re.sub(r"\D", "", number)
    return lambda value: re.sub(r"\D", "", str(value)) == digits
