# mypy: ignore-errors
"""The threads of Northfield's forum: who wrote what, when. Only the standard library is used."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import company
import voices

__all__ = [
    "ADMIN",
    "MODERATORS",
    "SPAMMER",
    "USER",
    "Poll",
    "Reply",
    "Thread",
    "homes",
    "threads",
    "words",
]

USER = 0
"""Who sits in the browser: an ordinary member. Members are numbers of `people.people`."""
MODERATORS = (1, 3)
ADMIN = 2
SPAMMER = 39
"""Whose account posts advertisements."""
_NORMAL = range(3, 39)
_POSITIONS = company.positions()
_SPANS = ("budget", "pages", "price")
"""Keys of a thread that are spans of numbers."""
_AT_HOME = ("For Sale", "Wanted", "Running", "Cooking", "Board Games", "Gardening", "Book Club")
"""Categories in which most write in their free time."""
_NEWS = ("Announcements", "Projects")
_WEEK = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_COMING = re.compile(rf"(?:\b(?:[Oo]n|[Tt]his|[Nn]ext) |^|[.!?] )({'|'.join(_WEEK)})\b")
"""The words with which a thread names a coming weekday."""
_EVERYWHERE = (*_NEWS, "Hardware", "Software")
"""Categories in which people of all sites write; the others are about life in Dundee."""
_BACK = datetime(2026, 1, 7, tzinfo=UTC)
"""When all are back after the holidays."""
_ROOMS = [one["name"] for one in company.COMPANY.rooms if 4 < one["seats"] < 30]
"""Rooms in which a few people meet."""


@dataclasses.dataclass(slots=True)
class Reply:
    """A comment."""

    author: int
    date: datetime
    text: str
    likes: list[int] = dataclasses.field(default_factory=list)
    removed: bool = False
    spam: bool = False


@dataclasses.dataclass(slots=True)
class Poll:
    """A poll in the first comment of a thread."""

    question: str
    options: list[str]
    votes: dict[int, int]
    """The number of the option, by member."""
    closed: bool = False


@dataclasses.dataclass(slots=True)
class Thread:
    """A thread; its first comment is the opening one."""

    title: str
    category: str
    comments: list[Reply]
    details: dict[str, str]
    """What the opening comment tells: prices, dates, places."""
    poll: Poll | None = None
    closed: bool = False
    pinned: bool = False
    globally_pinned: bool = False
    removed: bool = False
    members: list[int] = dataclasses.field(default_factory=list)
    """Who takes part, if it is private."""

    @property
    def author(self) -> int:
        """Who started it."""
        return self.comments[0].author


def words(seed: int) -> Any:
    """Return what the files of texts hold, by key: `content.toml`, `threads.toml`."""
    return company.words(Path(__file__).parent, seed, "content.toml", "threads.toml")


def threads(seed: int, names: Sequence[str]) -> tuple[list[Thread], list[Thread]]:
    """Return the public threads and the private ones, each from the oldest to the newest.

    Args:
        seed: The seed; the same gives the same.
        names: The names of the 40 members.
    """
    rng = random.Random(f"forum {seed}")
    told = words(seed)
    units = told.threads
    writer = _Writer(rng, names, sum(unit["category"] == "Commuting" for unit in units))
    own, answered = _choose_own(rng, units)
    public = [
        writer.thread(unit, number, starts=number in own, answers=number in answered)
        for number, unit in enumerate(units)
    ]
    polls = [t.poll for t in public if t.poll and not t.poll.closed and t.author != USER]
    for poll in rng.sample(polls, 4):
        poll.votes[USER] = rng.randrange(len(poll.options))
    _moderate(rng, public)
    _spam(rng, public, told.spam)
    _like(rng, public)
    private = [writer.private(unit) for unit in told.private]
    for made in (public, private):
        made.sort(key=lambda thread: thread.comments[0].date)
    return public, private


def homes(
    rng: random.Random, public: Sequence[Thread], towns: Mapping[str, list[str]]
) -> list[str]:
    """Return where each member lives: a car pool's people where it starts, others near their work.

    Args:
        rng: The random source.
        public: The public threads.
        towns: The towns near a site, by its key; those near the head office are the company's.
    """
    found = [
        rng.choice(towns.get(one.site, ["Dundee", *company.COMPANY.town["nearby"]]))
        for one in _POSITIONS
    ]
    for thread in public:
        if thread.category == "Commuting":
            for one in thread.comments:
                found[one.author] = thread.details["town"]
    return found


def _choose_own(rng: random.Random, units: Sequence[dict[str, Any]]) -> tuple[set[int], set[int]]:
    """Return the numbers of threads that the user starts, and of others that they answer."""
    own: set[int] = set()
    for category, count in (
        ("Hardware", 2),
        ("For Sale", 2),
        ("Ideas", 2),
        ("Commuting", 1),
        ("Cooking", 1),
        ("Board Games", 1),
        ("Canteen", 1),
    ):
        fit = [
            number
            for number, unit in enumerate(units)
            if unit["category"] == category
            and not (unit.get("long") or "a" in unit.get("who", ()))
            and (category != "Ideas" or ("poll" in unit and number % 5))
        ]
        own.update(rng.sample(fit, count))
    others = [
        number
        for number, unit in enumerate(units)
        if number not in own
        and not unit.get("long")
        and len(unit["posts"]) > 2
        and unit["category"] != "Commuting"
    ]
    return own, set(rng.sample(others, 26))


class _Writer:
    """Fills the threads of a seed."""

    def __init__(self, rng: random.Random, names: Sequence[str], pools: int) -> None:
        self.rng = rng
        self.names = names
        self.prices: set[int] = set()
        near = [n for n in range(1, _NORMAL[-2]) if _POSITIONS[n].site == "dundee"]
        self.drivers = rng.sample(near, pools)
        """Who starts a car pool; nobody has a place in two."""
        passengers = [n for n in near if n not in self.drivers]
        self.passengers = rng.sample(passengers, len(passengers))

    def thread(self, unit: dict[str, Any], number: int, *, starts: bool, answers: bool) -> Thread:
        """Return a thread.

        Args:
            unit: What the file of texts says of it.
            number: Its place among the threads.
            starts: Whether the user starts it.
            answers: Whether one of the replies is the user's.
        """
        rng, category = self.rng, unit["category"]
        begun = self.begin(unit)
        cast = self.cast(unit, begun, starts=starts, answers=answers)
        details = self.details(unit)
        expert = unit.get("who", {}).get(
            "contact", ("IT", "Systems") if "system" in details else ""
        )
        others = [n for n in _NORMAL[:-3] if n not in cast.values()]
        contact = rng.choice([n for n in others if _works(n, expert)] or others)
        slots = {"contact": self.names[contact], "room": self.room()} | details
        if "budget" in slots:
            slots["budget"] = f"{int(slots['budget']):,}"
        texts = [text.format(**slots) for _, text, *_ in unit["posts"]]
        dates = self.dates(begun, unit, _at_home(unit), unit.get("hours", 0.0))
        comments = [
            Reply(cast[who], date, voices.say(cast[who], text))
            for (who, *_), date, text in zip(unit["posts"], dates, texts, strict=True)
        ]
        if details or category == "Lost and Found":
            details |= {key: slots[key] for key in ("contact", "room")}
        poll = None
        if "poll" in unit:
            question, *options = unit["poll"]
            poll = self.poll(question, options, number % 5 == 0)
        title = unit["title"].format(**slots)
        return Thread(title, category, comments, details, poll)

    def private(self, unit: dict[str, Any]) -> Thread:
        """Return a private thread of the user."""
        rng = self.rng
        letters = sorted({who for who, *_ in unit["posts"]} - {"a", "u"})
        others = rng.sample(_NORMAL[:-3], len(letters) + 1)
        cast = dict(zip(letters, others, strict=False)) | {"a": USER, "u": USER}
        other = self.names[others[-1]].split()[0]
        begun = company.moment(
            rng, company.NOW.date() - timedelta(days=40), company.NOW.date() - timedelta(days=5)
        )
        dates = self.dates(begun, unit, False, 2.5)
        comments = [
            Reply(cast[who], date, voices.say(cast[who], text.format(other=other)))
            for (who, text), date in zip(unit["posts"], dates, strict=True)
        ]
        members = [USER, *others[:-1]]
        return Thread(unit["title"].format(other=other), "Private", comments, {}, members=members)

    def begin(self, unit: dict[str, Any]) -> datetime:
        """Return when a thread begins: most are recent, long ones need time."""
        rng, today = self.rng, company.NOW.date()
        if "date" in unit:
            return company.moment(rng, unit["date"], unit["date"])
        if unit.get("long"):
            days = rng.randint(14, 24)
        elif unit["category"] in _NEWS:
            days = rng.randint(5, 24)
        else:
            days = 5 + min(50, int(rng.expovariate(1 / 24)))
        day = today - timedelta(days=days)
        if _at_home(unit) and rng.random() < 0.6:
            return company.evening(rng, day - timedelta(days=3), day)
        if rng.random() < 0.12:
            day = company.workday(rng, day - timedelta(days=3), day)
            return company.evening(rng, day, day)
        return company.moment(rng, day - timedelta(days=3), day)

    def cast(
        self, unit: dict[str, Any], begun: datetime, *, starts: bool, answers: bool
    ) -> dict[str, int]:
        """Return who plays each part of a thread."""
        rng, wanted = self.rng, unit.get("who", {})
        here = [n for n in _NORMAL if _POSITIONS[n].joined < begun.date()]
        parts = sorted({who for who, *_ in unit["posts"]}, key=lambda who: (who not in wanted, who))
        found: dict[str, int] = {}
        if unit["category"] == "Announcements":
            is_technical = unit["title"].startswith("Maintenance")
            found["a"] = ADMIN if is_technical else MODERATORS[1]
        elif starts:
            found["a"] = USER
        elif unit["category"] == "Commuting":
            found["a"] = self.drivers.pop()
        if answers:
            single = [
                who
                for who in parts
                if who not in (*found, *wanted, "a")
                and sum(one == who for one, *_ in unit["posts"]) == 1
            ]
            if single:
                found[rng.choice(single)] = USER
        lengths = _lengths(unit["posts"])
        for who in parts:
            if who not in found:
                usual = "" if unit["category"] in _EVERYWHERE else "dundee"
                place = wanted.get(who, usual)
                fit = [n for n in here if n not in found.values() and _works(n, place)]
                if place:  # Who speaks for a site, a department or a team is not new.
                    fit = [n for n in fit if n in _NORMAL[:-2]] or fit
                fit = [n for n in fit if usual in ("", _POSITIONS[n].site)] or fit
                if unit["category"] == "Commuting" and self.passengers:
                    fit = [self.passengers.pop()]
                fit.sort(key=lambda n: abs(voices.manner(n).words - lengths[who]))
                found[who] = rng.choice(fit[: max(4, len(fit) // 2)])
        return found

    def details(self, unit: dict[str, Any]) -> dict[str, str]:
        """Return what tasks may ask for."""
        rng, found = self.rng, dict(unit.get("details", {}))
        for key in _SPANS:
            if key in unit:
                low, high = unit[key]
                value = rng.randint(low, high)
                if key == "budget":
                    value = round(value, -2)
                if key == "price":
                    free = [n for n in range(low, high + 1) if n not in self.prices]
                    step = 10 if low >= 200 else 5 if high > 30 else 1
                    value = rng.choice([n for n in free if n % step == 0] or free)
                    self.prices.add(value)
                found[key] = str(value)
        if "system" in found:
            first = company.NOW.date() + timedelta(days=7)
            day = company.workday(rng, first, first + timedelta(days=40))
            found |= {
                "day": f"{day.day} {day:%B %Y}",
                "hour": rng.choice(("18:00", "19:30", "20:00", "21:00", "22:30")),
                "hours": str(rng.randint(2, 6)),
            }
        return found

    def room(self) -> str:
        """Return the name of a meeting room."""
        return self.rng.choice(_ROOMS)

    def dates(
        self, begun: datetime, unit: dict[str, Any], private: bool, hours: float
    ) -> list[datetime]:
        """Return when the posts of a thread are written, all before the world begins."""
        rng, pace = self.rng, hours or self.rng.choice((1, 2, 4, 9))
        texts = [text for _, text, *_ in unit["posts"]]
        told = next((n for n, post in enumerate(unit["posts"]) if len(post) > 2), len(texts))
        coming = _COMING.search(texts[0])
        due = _WEEK.index(coming[1]) if coming else None
        if due is not None:  # A late answer would come after the day.
            pace = min(pace, 4)
        tries = 60
        while True:
            dates = [begun]
            for _, _, *day in unit["posts"][1:]:
                late = (private and rng.random() < 0.6) or rng.random() < 0.1
                if day:
                    dates.append(_on(rng, dates[-1], *day, private=private))
                elif late:
                    dates.append(_awake(rng, dates[-1], pace))
                else:
                    dates.append(company.later(rng, dates[-1], pace))
            # Draw again, up to 60 times, until each post fits its day, and what is said about a
            # coming day is said before it.
            ahead = ((due or 0) - begun.weekday() - 1) % 7 + 1 + 7 * ("next week" in texts[0])
            last = begun.date() + timedelta(days=ahead)
            if tries and (
                not all(map(_fits, texts, dates, [private] * len(dates)))
                or (due is not None and dates[told - 1].date() >= last)
            ):
                tries -= 1
                if "date" not in unit and not tries % 3:
                    monday = begun.weekday() == 0
                    begun += timedelta(days=1 if begun < _BACK else -3 if monday else -1)
            elif dates[-1] < company.NOW - timedelta(hours=10):
                return [one.replace(microsecond=0) for one in dates]
            else:
                pace *= 0.7
                begun -= timedelta(days=7 * (pace < 0.3))

    def poll(self, question: str, options: list[str], closed: bool) -> Poll:
        """Return a poll in which one option wins clearly, so that no rounding decides."""
        rng = self.rng
        voters = rng.sample(_NORMAL[:-3], rng.randint(9, 25))
        favourite = rng.randrange(len(options))
        votes = {
            voter: favourite if rng.random() < 0.35 else rng.randrange(len(options))
            for voter in voters
        }
        counts = [list(votes.values()).count(one) for one in range(len(options))]
        while max(counts) - sorted(counts)[-2] < 2:
            favourite = counts.index(max(counts))
            votes[next(v for v in _NORMAL if v not in votes)] = favourite
            counts = [list(votes.values()).count(one) for one in range(len(options))]
        return Poll(question, options, votes, closed=closed)


def _at_home(unit: Mapping[str, Any]) -> bool:
    """Return whether most of a thread is written in people's free time."""
    return unit["category"] in _AT_HOME and not unit.get("office", False)


def _works(number: int, where: str | Sequence[str]) -> bool:
    """Return whether a member works in one of these sites, departments or teams; "" is any."""
    one = _POSITIONS[number]
    wanted = [where] if isinstance(where, str) else where
    return where == "" or any(place in (one.site, one.department, one.team) for place in wanted)


def _fits(text: str, when: datetime, private: bool) -> bool:
    """Return whether a post can be written at a moment, by the days that it names."""
    if re.search(rf"(?<!every )(?<!first )(?<!second )(?<!last )\b{when:%A}\b(?! to )", text):
        return False
    if private:
        return True
    if re.search("yesterday|last night", text) and when.weekday() == 0:
        return False
    if "tomorrow" in text and when.weekday() == 4:
        return False
    return when.weekday() < 5


def _lengths(posts: Sequence[Sequence[Any]]) -> dict[str, float]:
    """Return the mean number of words in the posts of each part."""
    found: dict[str, list[int]] = {}
    for who, text, *_ in posts:
        found.setdefault(who, []).append(len(text.split()))
    return {who: sum(counts) / len(counts) for who, counts in found.items()}


def _awake(rng: random.Random, after: datetime, hours: float) -> datetime:
    """Return when somebody answers in their free time: not at night."""
    when = after + timedelta(hours=rng.expovariate(1 / hours), minutes=2)
    if 7 <= when.hour < 23:
        return when
    morning = datetime(when.year, when.month, when.day, 7, 10, tzinfo=UTC)
    return morning + timedelta(days=when.hour >= 23, seconds=rng.randrange(150 * 60))


def _on(rng: random.Random, after: datetime, day: str | int, *, private: bool) -> datetime:
    """Return a moment on the next such day of the week, or so many days later.

    At work, the days from a number on count until one is a working day.
    """
    days = day if isinstance(day, int) else (_WEEK.index(day) - after.weekday() - 1) % 7 + 1
    date = after.date() + timedelta(days=days)
    if private:
        return company.evening(rng, date, date)
    return company.moment(rng, date, date + timedelta(days=3 * isinstance(day, int)))


def _moderate(rng: random.Random, public: list[Thread]) -> None:
    """Close, pin and delete some threads."""
    fit = [t for t in public if t.author != USER and t.poll is None and len(t.comments) < 19]
    settled = [t for t in fit if t.category in ("Lost and Found", "For Sale", "Wanted", "Network")]
    settled = rng.sample(settled, 14)
    for thread in settled[:10]:
        thread.closed = True
    for thread in settled[10:]:
        thread.removed = True
    news = rng.sample([t for t in fit if t.category in _NEWS], 6)
    for thread in news[:5]:
        thread.pinned = True
    news[5].globally_pinned = True
    rest = [t for t in fit if t not in (*settled, *news) and len(t.comments) > 3]
    for thread in rng.sample(rest, 4):
        thread.comments[-1].removed = True


def _spam(rng: random.Random, public: list[Thread], adverts: list[str]) -> None:
    """Let one account, taken over a few days ago, advertise in some threads, most in long ones."""
    begun = company.NOW - timedelta(days=4)
    texts = rng.sample(adverts, len(adverts))
    usable = [t for t in public if not (t.removed or t.closed)]
    short = [t for t in usable if 3 <= len(t.comments) < 12]
    long = [t for t in usable if len(t.comments) > 20]
    places = [(t, 1) for t in rng.sample(short, 6)] + [(t, 3) for t in rng.sample(long, 2)]
    for thread, count in places:
        for _ in range(count):
            when = begun + (company.NOW - begun) * rng.uniform(0, 0.8)
            spam = Reply(SPAMMER, _awake(rng, when, 0.2).replace(microsecond=0), texts.pop())
            spam.spam = True
            thread.comments.append(spam)
        thread.comments.sort(key=lambda one: one.date)


def _like(rng: random.Random, public: list[Thread]) -> None:
    """Let members like comments: in each thread a long one most, the more the longer the thread."""
    for thread in public:
        usable = [c for c in thread.comments if not (c.spam or c.removed)]
        here = [n for n in _NORMAL if _POSITIONS[n].joined < thread.comments[0].date.date()]
        usable.sort(key=lambda one: -len(one.text.split()))
        best = rng.choice(usable[: max(1, len(usable) // 3)])
        most = min(11, rng.randint(1, 2 + len(usable) // 2) + len(usable) // 4)
        for comment in usable:
            fans = [one for one in here if one != comment.author]
            share = rng.random() ** 2 if comment is not best else 1
            comment.likes = rng.sample(fans, int(share * most))
        liked = rng.choice(usable)
        is_less = len(liked.likes) + 1 < most
        if rng.random() < 0.25 and is_less and liked.author != USER and len(thread.comments) < 19:
            liked.likes.append(USER)
