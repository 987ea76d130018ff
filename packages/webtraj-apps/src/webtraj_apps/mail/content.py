"""The mails, contacts and settings of a world, and the facts that tasks draw from.

Everything is made from word lists and the seed. Only the standard library is imported.
"""

import dataclasses
import random
import re
import sqlite3
import textwrap
from calendar import monthrange
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import company
import voices

__all__ = ["Writer", "replace_mails", "settings"]

EPOCH: datetime = company.NOW
"""When every world begins: where the calendar of the mails ends."""
_DOMAIN = "northfield.test"


_PER_PROJECT = 3
_POSITIONS = company.positions()
_SEEN = "\\Seen"


@dataclasses.dataclass(frozen=True)
class Sender:
    """Somebody who writes."""

    name: str
    email: str

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>"


_ALL = Sender("All at Northfield", f"all@{_DOMAIN}")


@dataclasses.dataclass(eq=False)
class Mail:
    """A mail to be."""

    sender: Sender
    subject: str
    text: str
    date: datetime
    folder: str = "INBOX"
    to: Sequence[Sender] = ()
    cc: Sequence[Sender] = ()
    flags: set[str] = dataclasses.field(default_factory=lambda: {_SEEN})
    attachments: Sequence[str] = ()
    parent: "Mail | None" = None
    number: int = 0
    id: int = 0

    @property
    def message_id(self) -> str:
        """Its Message-ID, after it got its number."""
        return f"<{self.date:%Y%m%d}.{self.number:04d}@{self.sender.email.partition('@')[2]}>"

    def raw(self) -> bytes:
        """Return the mail as it lies in the mailbox."""
        message = EmailMessage(policy=SMTP)
        message["Date"] = format_datetime(self.date)
        message["From"] = str(self.sender)
        message["To"] = ", ".join(map(str, self.to))
        if self.cc:
            message["Cc"] = ", ".join(map(str, self.cc))
        message["Subject"] = self.subject
        message["Message-ID"] = self.message_id
        if self.parent:
            message["In-Reply-To"] = self.parent.message_id
            message["References"] = self.parent.message_id
        message.set_content(self.text, charset="utf-8", cte="8bit")
        for name in self.attachments:
            _attach(message, name, self.text)
        if self.attachments:
            message.set_boundary(f"=_part_{self.number:04d}")
        return message.as_bytes()

    def facts(self) -> dict[str, Any]:
        """Return what tasks may mention of it."""
        return {
            "id": self.id,
            "folder": self.folder,
            "from": self.sender.name,
            "email": self.sender.email,
            "to": [one.email for one in self.to],
            "cc": [one.email for one in self.cc],
            "subject": self.subject,
            "text": self.text,
            "date": self.date.isoformat(),
            "read": _SEEN in self.flags,
            "flagged": "\\Flagged" in self.flags,
            "attachments": list(self.attachments),
            "thread": self.parent is not None,
        }


def _attach(message: EmailMessage, name: str, text: str) -> None:
    """Attach a file: a table of figures, or a page with a text."""
    if name.endswith(".csv"):
        message.add_attachment(_table(name), maintype="text", subtype="csv", filename=name)
    else:
        data = _page(name, text)
        message.add_attachment(data, maintype="application", subtype="pdf", filename=name)


def _table(name: str) -> bytes:
    """Return a month's figures; the file's name ends with the month."""
    rng, month = random.Random(name), name[-11:-4]
    if name.startswith("stock-count"):
        lines = ["shelf;article;expected;counted"]
        for _ in range(rng.randint(240, 420)):
            shelf = f"{rng.randint(1, 40):02}-{rng.randint(100, 180)}-{rng.randint(1, 9)}"
            expected = rng.randint(4, 180)
            counted = expected + (rng.randint(-3, 3) if rng.random() < 0.06 else 0)
            lines.append(f"{shelf};{rng.randint(100000, 499999)};{expected};{counted}")
    else:
        last = monthrange(int(month[:4]), int(month[5:]))[1]
        lines = ["day;hour;count"] + [
            f"{month}-{day:02};{hour}:00;{rng.randint(0, 60)}"
            for day in range(1, last + 1)
            for hour in range(7, 20)
        ]
    return "\r\n".join([*lines, ""]).encode()


def _page(name: str, text: str) -> bytes:
    """Return a page as PDF, with as many bytes as a font, a logo or a scan take."""
    rng = random.Random(name)
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, 84) or [""]]
    lines = [re.sub(r"([()\\])", r"\\\1", line) for line in lines]
    shown = "".join(f"({line}) Tj T*\n" for line in lines)
    least = 7_000 if name.startswith(("invoice", "ticket")) else 18_000
    filling = rng.randbytes(rng.randint(least, 2 * least))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources 6 0 R >>",
        _stream(f"BT /F1 11 Tf 15 TL 60 780 Td\n{shown}ET\n".encode("cp1252", "replace")),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Font << /F1 5 0 R >> >>",
        _stream(filling),
    ]
    file = bytearray(b"%PDF-1.4\n")
    places: list[int] = []
    for number, one in enumerate(objects, 1):
        places.append(len(file))
        file += b"%d 0 obj\n%b\nendobj\n" % (number, one)
    count, start = len(objects) + 1, len(file)
    file += b"xref\n0 %d\n0000000000 65535 f \n" % count
    file += b"".join(b"%010d 00000 n \n" % place for place in places)
    file += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (count, start)
    return bytes(file)


def _stream(data: bytes) -> bytes:
    return b"<< /Length %d >>\nstream\n%b\nendstream" % (len(data), data)


def _money(cents: int) -> str:
    return f"£{cents // 100:,}.{cents % 100:02d}"


def _plain_money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"


def _day(day: date) -> str:
    return f"{day:%A}, {day.day} {day:%B %Y}"


def _is_open(day: date) -> bool:
    """Return whether the offices are open on a day."""
    try:
        company.workday(random.Random(0), day, day)
    except ValueError:
        return False
    return True


def _fits(text: str, when: datetime) -> bool:
    """Return whether a text can be sent at a moment, by the days that it names."""
    named = {f"{when:%A}": True, "yesterday": when.weekday() == 0, "tomorrow": when.weekday() == 4}
    return not any(wrong and day in text for day, wrong in named.items())


def _short_day(day: date) -> str:
    """Return a day as colleagues write it."""
    return f"{day:%A} {day.day} {day:%B}"


class Writer:
    """Writes the mails of a seed.

    Args:
        people: Who works at Northfield; the first one owns the mailbox.
        seed: The seed.
    """

    def __init__(self, people: Sequence[Any], seed: int) -> None:
        self.rng = random.Random(f"mail {seed}")
        self.words = company.words(Path(__file__).parent, seed, "content.toml")
        self.people = people
        self.me = Sender(self.people[0].name, self.people[0].email)
        self.colleagues = [Sender(one.name, one.email) for one in self.people[1:]]
        self.number_of = {one.email: number for number, one in enumerate(people)}
        """Each colleague's number in `people.people`, by address."""
        self.mails: list[Mail] = []
        self.facts: dict[str, Any] = {}
        self.phones: set[int] = set()
        clerks = self.rng.sample(self.words.clerks, len(self.words.clerks))
        self.suppliers = [
            (one, Sender(clerk, f"{clerk.split()[0].lower()}@{one['domain']}.test"))
            for one, clerk in zip(company.COMPANY.suppliers, clerks, strict=True)
        ]

    def moment(self, first: int = 1, last: int = 45, text: str = "") -> datetime:
        """Return a moment of a working day so many days before the end, on which a text fits."""
        today = EPOCH.date()
        if last - first < 3:  # There may be no working day among so few.
            last += 3
        span = today - timedelta(last), today - timedelta(first)
        moments: list[datetime] = [company.moment(self.rng, *span) for _ in range(12)]
        return next((one for one in moments if _fits(text, one)), moments[0])

    def some(self, count: int, site: str = "", department: str = "") -> list[Sender]:
        """Return colleagues who work at a site and in a department, the newcomers left out."""
        fit = [
            one
            for one in self.colleagues[:36]
            if site in ("", self.position(one).site)
            and department in ("", self.position(one).department)
        ]
        return self.rng.sample(fit, count)

    def position(self, colleague: Sender) -> Any:
        """Return what a colleague does."""
        return _POSITIONS[self.number_of[colleague.email]]

    def few(self, texts: Sequence[Any], count: int) -> list[Any]:
        """Return `count` texts. No text is repeated before all others have been used."""
        drawn: list[Any] = []
        while len(drawn) < count:
            drawn += self.rng.sample(texts, len(texts))
        return drawn[:count]

    def future(self, first: int = 3, last: int = 40) -> date:
        """Return a working day to come."""
        while True:
            day = (EPOCH + timedelta(days=self.rng.randint(first, last))).date()
            if _is_open(day):
                return day

    def days(self, first: int, last: int) -> list[date]:
        """Return the working days to come, shuffled."""
        found = [(EPOCH + timedelta(days=days)).date() for days in range(first, last + 1)]
        found = [day for day in found if _is_open(day)]
        self.rng.shuffle(found)
        return found

    def add(self, sender: Sender, subject: str, text: str, moment: datetime, **more: Any) -> Mail:
        """Write a mail; to the owner of the mailbox, unless told otherwise."""
        more.setdefault("to", (self.me,))
        moment = min(moment, EPOCH - timedelta(minutes=5)).replace(microsecond=0)
        mail = Mail(sender, subject, text, moment, **more)
        self.mails.append(mail)
        return mail

    def letter(
        self, text: str, sender: Sender, *, to_all: bool = False, as_is: bool = False
    ) -> str:
        """Put a greeting before a text and a name below.

        Args:
            text: What the letter says.
            sender: Who writes it: a colleague in their own manner, a stranger always the same way.
            to_all: Whether it goes to several.
            as_is: Whether the words must stay, because a task quotes them.
        """
        first, text = self.people[0].first, text[0].upper() + text[1:]
        number = self.number_of.get(sender.email)
        if number is None:
            rng = random.Random(sender.email)
            styles = self.words.strangers_all if to_all else self.words.strangers
            hello, bye = rng.choice(styles)
            return f"{hello.format(first=first)}\n\n{text}\n\n{bye}\n{sender.name}\n"
        said = text if as_is else voices.say(number, text)
        return f"{voices.letter(number, said, '' if to_all else first, sender.name)}\n"

    def unread(self, chance: float = 0.3) -> set[str]:
        """Return the flags of a mail that may be unread."""
        return set() if self.rng.random() < chance else {_SEEN}

    def answer(self, mail: Mail, sender: Sender, text: str, moment: datetime, **more: Any) -> Mail:
        """Write an answer to all."""
        others = {one.email: one for one in (mail.sender, *mail.to) if one != sender}
        quoted = "\n".join(f"> {line}".rstrip() for line in mail.text.strip().splitlines())
        said = f"On {mail.date:%Y-%m-%d %H:%M}, {mail.sender.name} wrote:"
        subject = mail.subject if mail.subject.startswith("Re: ") else f"Re: {mail.subject}"
        number = self.number_of[sender.email]
        below = voices.signature(number, sender.name)
        text = voices.say(number, text) + (f"\n\n{below}" if below else "")
        return self.add(
            sender, subject, f"{text}\n\n{said}\n{quoted}\n", moment, to=tuple(others.values()),
            parent=mail, **more,
        )  # fmt: skip

    # The kinds of mails. Each adds its facts under its own name.

    def invoices(self) -> Iterator[dict[str, Any]]:
        """Suppliers send invoices."""
        kinds = (self.words.invoice, self.words.payment, self.words.layouts)
        manners = zip(*(self.few(texts, len(self.suppliers)) for texts in kinds), strict=True)
        for (supplier, clerk), (intro, payment, layout) in zip(
            self.suppliers, manners, strict=True
        ):
            name, code = supplier["name"], supplier["prefix"]
            low, high = supplier["invoice"]
            weeks = self.rng.choice((2, 4))
            for thing in filter(None, (supplier["sells"], supplier.get("also"))):
                cents = self.rng.randrange(low * 100, high * 100, 5)
                number = f"{code}-{self.rng.randint(1000, 9899)}"
                sent = self.moment(1, 24)
                due = sent.date() + timedelta(weeks=weeks)
                text = layout.format(
                    intro=intro.format(number=number, thing=thing), money=_money(cents),
                    day=_day(due), payment=payment.format(number=number),
                )  # fmt: skip
                file = f"invoice-{number}.pdf"
                mail = self.add(
                    clerk, f"Invoice {number} from {name}",
                    self.letter(text, clerk).rstrip() + f"\n{name}\n",
                    sent, flags=self.unread(), attachments=(file,),
                    folder="INBOX" if self.rng.random() < 0.6 else "Invoices",
                )  # fmt: skip
                yield {
                    "mail": mail, "supplier": name, "number": number, "thing": thing,
                    "amount": _plain_money(cents), "cents": cents, "due": due.isoformat(),
                    "clerk": clerk.name, "email": clerk.email, "file": file,
                }  # fmt: skip

    def meetings(self) -> Iterator[dict[str, Any]]:
        """Colleagues invite to meetings, and move every second one."""
        organisers: list[Sender] = []
        for *_, department in self.words.meetings:
            fit = self.some(2, department=department)
            organisers.append(next(one for one in fit if one not in organisers))
        invites = self.few(self.words.invites, len(organisers))
        moves = self.few(self.words.moves, len(organisers))
        for i, ((title, about, why, _), organiser) in enumerate(
            zip(self.words.meetings, organisers, strict=True)
        ):
            moved = i % 2 == 0
            sent = self.moment(5 if moved else 1, 20)
            room, new_room = self.rng.sample(self.words.rooms, 2)
            day, new_day = sorted((self.future(2, 20), self.future(21, 30)))
            hour, new_hour = self.rng.sample(range(9, 17), 2)
            others = [one for one in self.colleagues if one != organiser]
            guests = (self.me, *self.rng.sample(others, 3))
            text = invites[i].format(
                title=title[0].lower() + title[1:], day=_short_day(day), hour=f"{hour:02d}:00",
                room=room, about=about,
            )  # fmt: skip
            first = self.add(
                organiser, f"Invitation: {title}", self.letter(text, organiser, to_all=True),
                sent, to=guests, flags=self.unread(0.2),
            )  # fmt: skip
            last = first
            if moved:
                text = moves[i].format(
                    title=title[0].lower() + title[1:], why=why, day=_short_day(new_day),
                    hour=f"{new_hour:02d}:00", room=new_room, old=room,
                )  # fmt: skip
                last = self.add(
                    organiser, f"Moved: {title}", self.letter(text, organiser, to_all=True),
                    company.later(self.rng, sent + timedelta(hours=12), 6), to=guests,
                    flags=self.unread(0.5),
                )  # fmt: skip
                room, day, hour = new_room, new_day, new_hour
            yield {
                "mail": last, "invitation": first, "title": title, "organiser": organiser.name,
                "email": organiser.email, "room": room, "day": day.isoformat(), "hour": hour,
                "moved": moved, "guests": [guest.email for guest in guests[1:]],
            }  # fmt: skip

    def trips(self) -> Iterator[dict[str, Any]]:
        """Trips are confirmed."""
        away: set[date] = set()  # Nobody is on two trips at once.
        for i, (city, hotel, hint, (low, high)) in enumerate(self.few(self.words.journeys, 7)):
            desk = Sender("Rail & Road Travel", "bookings@railandroad.test")
            nights = self.rng.choice((1, 1, 2, 2, 3))
            spans = [
                [day + timedelta(n) for n in range(most + 1)]
                for most in (nights, 1)
                for day in self.days(5, 70)
            ]
            span = next(span for span in spans if all(map(_is_open, span)) and not away & {*span})
            there, back = span[0], span[-1]
            away.update(span)
            reference = "".join(self.rng.choices("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=6))
            cents = self.rng.randrange(low * 100, high * 100, 50)
            text = (
                f"your trip to {city} is booked.\n\nReference: {reference}\n"
                f"There: {_day(there)}\nBack: {_day(back)}\nHotel: {hotel}\n"
                f"Price: {_money(cents)}\n\n{hint} Have a good journey!"
            )
            mail = self.add(
                desk, f"Your trip to {city}", self.letter(text, desk), self.moment(2, 40),
                folder="Travel" if i % 2 else "INBOX", attachments=(f"ticket-{reference}.pdf",),
                flags=self.unread(0.2),
            )  # fmt: skip
            yield {
                "mail": mail, "city": city, "reference": reference, "there": there.isoformat(),
                "back": back.isoformat(), "hotel": hotel, "price": _plain_money(cents),
                "nights": (back - there).days,
            }  # fmt: skip

    def parcels(self) -> Iterator[dict[str, Any]]:
        """Parcels are announced."""
        people = self.rng.sample(self.colleagues, len(self.words.parcels))
        for (thing, hint), person in zip(self.words.parcels, people, strict=True):
            sender = Sender("Merlin Couriers", "tracking@merlin.test")
            number = f"MR{self.rng.randrange(10**8, 10**9)}"
            day = self.future(1, 4)
            text = (
                f"a parcel is on its way to Northfield.\n\nContents: {thing}\n"
                f"Tracking number: {number}\nDelivery: {_day(day)}\nFor: {person.name}\n\n{hint}"
            )
            mail = self.add(
                sender, f"Your parcel {number}", self.letter(text, sender), self.moment(1, 5),
                flags=self.unread(0.5),
            )  # fmt: skip
            yield {
                "mail": mail, "thing": thing, "number": number, "day": day.isoformat(),
                "person": person.name,
            }  # fmt: skip

    def expenses(self) -> Iterator[dict[str, Any]]:
        """Colleagues list what they spent."""
        texts = self.few(self.words.expenses, 7)
        for person, (begins, ends) in zip(self.some(7), texts, strict=True):
            home = company.site(self.position(person).site)["town"]
            elsewhere = [one for one in self.words.purposes if home not in one[0]]
            items = [
                (purpose, self.rng.randrange(low * 100, high * 100, 10))
                for purpose, low, high in self.few(elsewhere, self.rng.randint(2, 4))
            ]
            lines = "\n".join(f"- {purpose}: {_money(cents)}" for purpose, cents in items)
            total = sum(cents for _, cents in items)
            text = f"{begins}\n\n{lines}\n\n{ends}"
            mail = self.add(
                person, f"Expenses February: {person.name}", self.letter(text, person),
                self.moment(1, 4), flags=self.unread(0.4),
                attachments=(f"receipts-{person.name.split()[1].lower()}.pdf",),
            )  # fmt: skip
            yield {
                "mail": mail, "person": person.name, "email": person.email, "cents": total,
                "total": _plain_money(total),
                "items": [{"purpose": purpose, "cents": cents} for purpose, cents in items],
            }  # fmt: skip

    def votes(self) -> Iterator[dict[str, Any]]:
        """Colleagues vote, each in an answer."""
        phrases = iter(self.few(self.words.ballots, 24))
        for title, question, options in self.words.asked:
            asker, *voters = self.some(self.rng.choice((6, 7)))
            sent = self.moment(6, 20)
            first = self.add(
                asker, f"Vote: {title}", self.letter(question, asker, to_all=True), sent,
                to=(self.me, *voters), folder="Team",
            )  # fmt: skip
            # One option wins with a clear majority.
            winner, second, third = self.rng.sample(options, 3)
            count = len(voters)
            wins = count // 2 + 1
            given = [winner] * wins + [second] * (count - wins - 1) + [third]
            self.rng.shuffle(given)
            for voter, option in zip(voters, given, strict=True):
                text = next(phrases).format(option)
                moment = company.later(self.rng, sent, 5)
                self.answer(first, voter, text[0].upper() + text[1:], moment, folder="Team")
            yield {
                "mail": first, "title": title, "asker": asker.name, "email": asker.email,
                "winner": winner, "options": list(options), "voters": count,
                "counts": {option: given.count(option) for option in options},
            }  # fmt: skip

    def leaves(self) -> Iterator[dict[str, Any]]:
        """Colleagues ask for leave."""
        texts = self.few(self.words.leave, 6)
        for person, (asks, ends) in zip(self.some(6), texts, strict=True):
            start = self.future(10, 90)
            lasts = [n for n in range(2, 13) if _is_open(start + timedelta(days=n))]
            days = self.rng.choice(lasts)
            end = start + timedelta(days=days)
            # Somebody of the same department covers; its head does if there is nobody else.
            same = self.some(2, department=self.position(person).department)
            same.sort(key=lambda one: self.position(one).title.startswith("Head"))
            stand_in = next(one for one in same if one != person)
            asks = asks.format(start=_short_day(start), end=_short_day(end), stand_in=stand_in.name)
            text = f"{asks}\n\n{ends}"
            mail = self.add(
                person, f"Leave request {person.name}", self.letter(text, person),
                self.moment(1, 9, text), flags=self.unread(0.5),
            )  # fmt: skip
            yield {
                "mail": mail, "person": person.name, "email": person.email,
                "start": start.isoformat(), "end": end.isoformat(), "stand_in": stand_in.name,
                "stand_in_email": stand_in.email, "days": days,
            }  # fmt: skip

    def applications(self) -> Iterator[dict[str, Any]]:
        """Strangers apply for a job."""
        salaries = self.rng.sample(range(23, 38), len(self.words.applicants))
        starts = self.days(15, 120)
        letters = self.few(self.words.application, 9)
        for i, name in enumerate(
            self.rng.sample(self.words.applicants, len(self.words.applicants))
        ):
            first, last = name.lower().split()
            person = Sender(name, f"{first}.{last}@postbox.test")
            start, position = starts[i], self.words.positions[i % len(self.words.positions)]
            salary = salaries[i] * 1000
            text = letters[i].format(
                position=position, start=f"{start.day} {start:%B}", salary=f"£{salary:,}"
            )
            mail = self.add(
                person, f"Application: {position}", self.letter(text, person, to_all=True),
                self.moment(2, 25), folder="Hiring", attachments=(f"cv-{last}.pdf",),
                flags=self.unread(0.3),
            )  # fmt: skip
            yield {
                "mail": mail, "name": name, "email": person.email, "position": position,
                "start": start.isoformat(), "salary": salary, "file": f"cv-{last}.pdf",
            }  # fmt: skip

    def numbers(self) -> Iterator[dict[str, Any]]:
        """Colleagues, who are among the contacts, have new phone numbers."""
        here = [one for one in self.colleagues[:18] if self.position(one).site == "dundee"]
        writers = self.rng.sample(here, 4)
        for person, said in zip(writers, self.few(self.words.moved, 4), strict=True):
            phone = self.phone()
            text = said.format(phone=phone)
            mail = self.add(
                person, "My new phone number", self.letter(text, person), self.moment(1, 6),
                flags=self.unread(0.4),
            )  # fmt: skip
            yield {"mail": mail, "person": person.name, "email": person.email, "phone": phone}

    def phone(self) -> str:
        """Return a phone number that belongs to nobody."""
        number = self.rng.choice([n for n in range(100, 1000) if n not in self.phones])
        self.phones.add(number)
        return f"+44 1632 960{number}"

    def threads(self) -> Iterator[dict[str, Any]]:
        """Questions and answers about projects; the last answer holds."""
        firms = {one["name"]: one["firms"] for one in company.COMPANY.projects}
        asked = iter(self.rng.sample(self.words.exchanges, 2 * _PER_PROJECT))
        for project, things in self.words.things.items():
            folder = f"Projects/{project}"
            for what in self.rng.sample(things, _PER_PROJECT):
                topic, question, *replies = next(asked)
                replies, rest = replies[:2], replies[2:]
                asker, other, third = self.some(3)
                sent = self.moment(8, 30)
                thing = what.removeprefix("the ")
                first = self.add(
                    asker, f"{thing[0].upper()}{thing[1:]}: {topic}",
                    self.letter(question.format(what=what), asker, to_all=True),
                    sent, to=(self.me, other, third), folder=folder,
                )  # fmt: skip
                days = [self.days(10, 30)[0], self.days(38, 60)[0]]
                amount = self.rng.randrange(14, 82)
                amounts = amount, amount + self.rng.choice((-6, -4, -3, 3, 5, 8))
                values = [
                    {"money": f"£{amount * 100:,}", "day": _short_day(day), "firm": firm}
                    for amount, day, firm in zip(
                        amounts, days,
                        self.rng.sample(firms[project], 2), strict=True,
                    )
                ]  # fmt: skip
                texts = [
                    reply.format(**value) for reply, value in zip(replies, values, strict=True)
                ]
                second = self.answer(
                    first, other, texts[0], company.later(self.rng, sent, 3), folder=folder
                )
                final = self.answer(
                    second, third, texts[1],
                    company.later(self.rng, second.date + timedelta(hours=15), 4), folder=folder,
                )  # fmt: skip
                final.cc = ()
                for text in rest:
                    moment = company.later(self.rng, final.date, 3)
                    self.answer(final, asker, text, moment, folder=folder)
                key = {"budget": "money", "deadline": "day", "supplier": "firm"}[topic]
                yield {
                    "mail": first, "last": final, "project": project, "topic": topic, "what": what,
                    "asker": asker.name, "email": asker.email, "by": third.name,
                    "value": values[1][key], "first_value": values[0][key],
                }  # fmt: skip

    def newsletters(self) -> Iterator[dict[str, Any]]:
        """Newsletters, many of them unread."""
        # Each has another number of unread mails.
        counts = self.rng.sample(range(1, 5), len(self.words.newsletters))
        for (name, domain, subjects), count in zip(self.words.newsletters, counts, strict=True):
            sender = Sender(name, f"news@{domain}.test")
            sent = []
            unread = self.rng.sample(range(len(subjects)), count)
            for i, (subject, body) in enumerate(subjects):
                text = f"{body}\n\nYou get this mail because you subscribed to {name}."
                sent.append(
                    self.add(
                        sender,
                        subject,
                        text + "\n",
                        self.moment(2 + 7 * i, 6 + 7 * i),
                        flags=set() if i in unread else {_SEEN},
                    )
                )
            yield {"name": name, "email": sender.email, "mails": sent}

    def junk(self) -> Iterator[dict[str, Any]]:
        """Junk, and mails that are there by mistake."""
        for name, domain, subject, text in self.words.junk:
            sender = Sender(name, f"info@{domain}.test")
            self.add(sender, subject, f"{text}\n", self.moment(1, 20), folder="Junk", flags=set())
        writers = self.rng.sample(self.colleagues, 3)
        for person, (thing, subject, text) in zip(writers, self.words.misplaced, strict=True):
            mail = self.add(
                person, subject,
                self.letter(text, person),
                self.moment(2, 15), folder="Junk", flags=set(),
                attachments=(f"{thing.replace(' ', '-')}.pdf",),
            )  # fmt: skip
            yield {"mail": mail, "from": person.name, "email": person.email}

    def chatter(self) -> None:
        """What goes on in an office."""
        for subject, text, *department in self.words.chat:
            filled = {
                "room": self.rng.choice(self.words.rooms),
                "day": _short_day(self.future(2, 12)),
            }
            (person,) = self.some(1, "dundee", *department)
            last = 14 if "{day}" in subject + text else 45
            text = self.letter(text.format(**filled), person, to_all=True)
            self.add(
                person, subject.format(**filled), text, self.moment(1, last, text),
                flags=self.unread(), folder=self.rng.choice(("INBOX", "Team")), to=(_ALL,),
            )  # fmt: skip
        for name, account, subject, text in self.words.notes:
            sender = Sender(f"Northfield {name}", f"{account}@{_DOMAIN}")
            for n in self.rng.sample(range(3, 120 if "#{n}" in subject else 24), 3):
                self.add(
                    sender, subject.format(n=n) if "{n}" in subject else f"{subject} ({n})",
                    text.format(n=n) + "\n\nThis mail was sent automatically.\n",
                    self.moment(1, 20), flags=self.unread(0.5),
                )  # fmt: skip
        reports = ("Stock count", "Visitor numbers", "Returns", "Web traffic")
        remarks, forms = self.few(self.words.figures, 20), self.few(self.words.reports, 20)
        for i, report in enumerate(reports * 5):
            month, remark = date(2025, 8 + i // 4, 1), remarks[i]
            after = (month + timedelta(32)).replace(day=1)
            person = self.colleagues[20 + i % 4]
            name = report.lower().replace(" ", "-")
            self.add(
                person, f"{report} {month:%B %Y}",
                self.letter(
                    forms[i].format(
                        report=report[0].lower() + report[1:], month=f"{month:%B}", remark=remark,
                        Remark=remark[0].upper() + remark[1:],
                    ),
                    person,
                ),
                company.moment(self.rng, after + timedelta(1), after + timedelta(8)),
                folder="Archive", attachments=(f"{name}-{month:%Y-%m}.csv",),
            )  # fmt: skip
        for i, (subject, text) in enumerate(self.words.deleted):
            person = self.colleagues[24 + i]
            self.add(
                person, subject, self.letter(text, person),
                self.moment(5, 30), folder="Trash",
            )  # fmt: skip

    def drafts(self) -> Iterator[dict[str, Any]]:
        """Write the mails that the owner has sent or begun. The facts describe those begun."""
        for subject, text in self.few(self.words.sent, 18):
            person = self.rng.choice(self.colleagues)
            text = text[0].upper() + text[1:]
            text = f"Hi {person.name.split()[0]},\n\n{text}\n\n{self.people[0].first}\n"
            moment = self.moment(text=text)
            self.add(self.me, subject, text, moment, to=(person,), folder="Sent")
        people = self.rng.sample(self.colleagues, 3)
        for person, (topic, text) in zip(people, self.words.drafts, strict=True):
            text = f"Hi {person.name.split()[0]},\n\n{text[0].upper()}{text[1:]}\n"
            mail = self.add(
                self.me, topic, text, self.moment(1, 8), to=(person,), folder="Drafts",
                flags={_SEEN, "\\Draft"},
            )  # fmt: skip
            yield {"mail": mail, "subject": topic, "to": person.name, "email": person.email}

    def requests(self) -> Iterator[dict[str, Any]]:
        """What colleagues want done in other applications. Orders are delivered by tasks."""
        askers = iter(self.rng.sample(self.colleagues, 12))
        for purpose, asked in self.words.orders:
            person, quantity = next(askers), self.rng.randint(2, 6)
            text = asked.format(line=f"{quantity} x {{product}}")
            yield {
                "app": "shop", "mail": None, "product": self.rng.randrange(40),
                "quantity": quantity, "from": person.name, "email": person.email,
                "subject": f"Order for {purpose}", "text": self.letter(text, person, as_is=True),
                "date": self.moment(1, 3).isoformat(),
            }  # fmt: skip
        asks = self.few(self.words.asks, 8)
        for summary, description in self.rng.sample(self.words.tickets, 4):
            person = next(askers)
            asked = asks.pop().format(what="file a ticket in the tracker")
            text = f"{asked}\n\nSummary: {summary}\nDescription: {description}"
            mail = self.add(
                person, f"Bug: {summary}", self.letter(text, person, as_is=True), self.moment(1, 5),
                flags=self.unread(0.6),
            )  # fmt: skip
            yield {
                "app": "tracker", "mail": mail, "summary": summary, "description": description,
                "component": self.rng.randrange(4), "priority": self.rng.randrange(3),
                "from": person.name, "email": person.email,
            }  # fmt: skip
        for title, text in self.rng.sample(self.words.threads, 2):
            ask = asks.pop().format(what="start a thread in the forum")
            yield self._article("forum", next(askers), title, text, self.rng.randrange(4), ask)
        for title, text in self.rng.sample(self.words.pages, 2):
            ask = asks.pop().format(what="make a page in the wiki")
            yield self._article("wiki", next(askers), title, text, 0, ask)

    def _article(
        self, app: str, person: Sender, title: str, text: str, place: int, ask: str
    ) -> dict[str, Any]:
        letter = self.letter(f"{ask}\n\nTitle: {title}\nText: {text}", person, as_is=True)
        subject = f"For the {app}: {title}"
        mail = self.add(person, subject, letter, self.moment(1, 5), flags=self.unread(0.6))
        return {
            "app": app, "mail": mail, "title": title, "text": text, "place": place,
            "from": person.name, "email": person.email,
        }  # fmt: skip

    def write(self) -> None:
        """Write all mails."""
        kinds = (
            self.invoices, self.meetings, self.trips, self.parcels, self.expenses, self.votes,
            self.leaves, self.applications, self.numbers, self.threads, self.newsletters,
            self.junk, self.drafts, self.requests,
        )  # fmt: skip
        for kind in kinds:
            self.facts[kind.__name__] = list(kind())
        self.chatter()
        for mail in self.rng.sample([one for one in self.mails if one.folder == "INBOX"], 5):
            mail.flags.add("\\Flagged")
        self.mails.sort(key=lambda mail: mail.date)
        for number, mail in enumerate(self.mails, 1):
            mail.number = number


# The address book and the settings.


def _contacts(writer: Writer) -> list[dict[str, Any]]:
    """Return half of the colleagues, and the suppliers' clerks."""
    rng, positions = writer.rng, company.positions()
    found = []
    colleagues = writer.people[1:23]
    floors = {team["name"]: team["floor"] for team in company.COMPANY.teams}
    notes = [
        *writer.words.contact_notes,
        *[""] * (len(colleagues) - len(writer.words.contact_notes)),
    ]
    rng.shuffle(notes)
    for i, person in enumerate(colleagues):
        position = positions[i + 1]
        site = company.site(position.site)
        floor = site["floors"][floors[position.team] if position.site == "dundee" else -1]
        found.append(
            {
                "name": person.name, "first": person.first, "last": person.last,
                "email": person.email, "phone": writer.phone(), "organization": "Northfield",
                "title": position.title,
                "notes": notes[i].format(town=site["town"], floor=floor, team=position.team),
            }
        )  # fmt: skip
    for supplier, clerk in writer.suppliers:
        first, last = clerk.name.split()
        found.append(
            {
                "name": clerk.name, "first": first, "last": last, "email": clerk.email,
                "phone": writer.phone(), "organization": supplier["name"], "title": "Accounts",
                "notes": f"Customer number {rng.randint(10000, 99999)}.",
            }
        )  # fmt: skip
    return found


def _vcard(contact: dict[str, Any]) -> str:
    lines = (
        "BEGIN:VCARD", "VERSION:3.0", f"N:{contact['last']};{contact['first']};;;",
        f"FN:{contact['name']}", f"EMAIL;TYPE=INTERNET;TYPE=WORK:{contact['email']}",
        f"TEL;TYPE=work:{contact['phone']}", f"ORG:{contact['organization']}",
        f"TITLE:{contact['title']}",
        *([f"NOTE:{contact['notes']}"] if contact["notes"] else []), "END:VCARD",
    )  # fmt: skip
    return "\r\n".join(lines)


_LONG_AGO = "2025-01-07 08:00:00"
_USER = 1


def settings(file: Path, schema: str, writer: Writer) -> dict[str, Any]:
    """Fill Roundcube's own database; return its facts.

    Args:
        file: Its file.
        schema: Roundcube's own schema for SQLite.
        writer: Who wrote the mails.
    """
    me, rng = writer.people[0], writer.rng
    database = sqlite3.connect(file)
    database.executescript(schema)
    database.execute(
        "INSERT INTO users (user_id, username, mail_host, created, language, preferences)"
        " VALUES (?, ?, '127.0.0.1', ?, 'en_US', '')",
        (_USER, me.username, _LONG_AGO),
    )
    identities = [
        {"name": me.name, "email": me.email, "organization": "Northfield",
         "signature": f"{me.name}\nNorthfield, {company.site('dundee')['address']}"},
        {"name": "Northfield Office", "email": f"office@{_DOMAIN}",
         "organization": "Northfield",
         "signature": "Northfield Office\nMonday to Friday, 8:30 to 17:30"},
    ]  # fmt: skip
    for i, one in enumerate(identities):
        one["id"] = i + 1
        database.execute(
            "INSERT INTO identities (identity_id, user_id, changed, standard, name, organization,"
            " email, signature) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (i + 1, _USER, _LONG_AGO, int(i == 0), one["name"], one["organization"], one["email"],
             one["signature"]),
        )  # fmt: skip
    contacts = _contacts(writer)
    for i, one in enumerate(contacts):
        one["id"] = i + 1
        words = " ".join(
            str(one[key]).lower() for key in ("name", "email", "organization", "title")
        )
        database.execute(
            "INSERT INTO contacts (contact_id, user_id, changed, name, email, firstname, surname,"
            " vcard, words) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (i + 1, _USER, _LONG_AGO, one["name"], one["email"], one["first"], one["last"],
             _vcard(one), f" {words} "),
        )  # fmt: skip
    groups = []
    for i, (name, low, high) in enumerate(
        (("Harbour project", 0, 16), ("Lantern project", 0, 16), ("Lunch club", 0, 22),
         ("Suppliers", 22, 36))
    ):  # fmt: skip
        members = sorted(rng.sample(range(low, high), 5))
        groups.append(
            {"id": i + 1, "name": name, "members": [contacts[m]["name"] for m in members]}
        )
        database.execute(
            "INSERT INTO contactgroups (contactgroup_id, user_id, changed, name)"
            " VALUES (?, ?, ?, ?)",
            (i + 1, _USER, _LONG_AGO, name),
        )
        database.executemany(
            "INSERT INTO contactgroupmembers VALUES (?, ?, ?)",
            [(i + 1, member + 1, _LONG_AGO) for member in members],
        )
    responses = [
        {"id": 1, "name": "Received", "text": "Thank you for your mail, we will answer soon."},
        {"id": 2, "name": "Out of office", "text": "I am out of the office and back on Monday."},
        {"id": 3, "name": "Invoice passed on", "text": "I have passed your invoice on."},
    ]  # fmt: skip
    database.executemany(
        "INSERT INTO responses (response_id, user_id, changed, name, data) VALUES (?, ?, ?, ?, ?)",
        [(one["id"], _USER, _LONG_AGO, one["name"], one["text"]) for one in responses],
    )
    database.commit()
    database.execute("VACUUM")
    database.close()
    return {
        "identities": identities, "contacts": contacts, "groups": groups, "responses": responses
    }  # fmt: skip


def replace_mails(facts: Any) -> Any:
    """Return facts with the mails' ids instead of the mails."""
    if isinstance(facts, Mail):
        return facts.id
    if isinstance(facts, dict):
        return {key: replace_mails(value) for key, value in facts.items()}
    if isinstance(facts, list):
        return [replace_mails(one) for one in facts]
    return facts
