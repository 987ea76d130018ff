"""The threads of Northfield's forum: who wrote what, when. Only the standard library is used."""

from __future__ import annotations

import dataclasses
import random
import tomllib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

__all__ = [
    "ADMIN",
    "MODERATORS",
    "SPAMMER",
    "USER",
    "WORDS",
    "Poll",
    "Reply",
    "Thread",
    "threads",
]

WORDS = SimpleNamespace(**tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")))
"""What `content.toml` holds."""
USER = 0
"""Who sits in the browser: an ordinary member. Members are numbers of `people.people`."""
MODERATORS = (1, 3)
ADMIN = 2
SPAMMER = 39
"""Whose account posts advertisements."""
_LAST = datetime(2026, 3, 1, 20, 0, tzinfo=UTC)
_NORMAL = range(3, 39)


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


class _Writer:
    """Makes the threads of a seed."""

    def __init__(self, rng: random.Random, names: Sequence[str]) -> None:
        self.rng = rng
        self.names = names

    def filled(self, text: str) -> str:
        rng = self.rng
        return text.format(
            room=rng.choice(WORDS.rooms),
            town=rng.choice(WORDS.towns),
            day=rng.choice(WORDS.days),
            floor=rng.choice(WORDS.floors),
            fix=rng.choice(WORDS.fixes),
            hour=rng.choice(WORDS.hours),
            number=rng.randint(3, 9),
            project=rng.choice(WORDS.projects),
            name=rng.choice(self.names[3:39]).split()[0],
        )

    def author(self) -> int:
        return self.rng.choice(_NORMAL)

    def thread(
        self,
        title: str,
        category: str,
        opening: str,
        kind: str,
        *,
        author: int | None = None,
        poll: Poll | None = None,
        **details: str,
    ) -> Thread:
        rng = self.rng
        begun = _LAST - timedelta(minutes=rng.randint(600, 60 * 24 * 420))
        author = self.author() if author is None else author
        comments = [Reply(author, begun, opening)]
        count = min(int(rng.expovariate(1 / 6)), 18)
        self.discuss(comments, kind, count)
        return Thread(title, category, comments, details, poll)

    def discuss(self, comments: list[Reply], kind: str, count: int) -> None:
        """Add replies, each by somebody else than the one before."""
        rng = self.rng
        pool = [*WORDS.replies[kind], *WORDS.general, *WORDS.replies[kind]]
        rng.shuffle(pool)
        regulars = rng.sample(_NORMAL, min(12, 3 + count // 2))
        date = comments[-1].date
        for number in range(count):
            left = (_LAST - date) / max(count - number, 1)
            date += min(left * 0.8, timedelta(minutes=rng.randint(7, 3000)))
            date = date.replace(second=0, microsecond=0) + timedelta(seconds=number % 60)
            asker = comments[0].author
            choice = [one for one in (*regulars, asker) if one != comments[-1].author]
            text = self.filled(pool[number % len(pool)])
            comments.append(Reply(rng.choice(choice), date, text))

    def sample(self, of: Sequence[str], count: int) -> list[str]:
        return self.rng.sample(of, count)

    def pairs(
        self, first: Sequence[str], second: Sequence[str], count: int
    ) -> list[tuple[str, str]]:
        every = [(one, two) for one in first for two in second]
        return self.rng.sample(every, count)

    def day(self) -> str:
        """Return a date in March or April 2026, in words."""
        day = datetime(2026, 3, 9, tzinfo=UTC) + timedelta(days=self.rng.randint(0, 45))
        return f"{day.day} {day:%B} 2026"

    # The kinds of threads.

    def help(self) -> Iterator[Thread]:
        rng = self.rng
        for first, second, category, count in (
            (WORDS.devices, WORDS.defects, "Hardware", 26),
            (WORDS.programs, WORDS.bugs, "Software", 24),
        ):
            for thing, symptom in self.pairs(first, second, count):
                room, tried = rng.choice(WORDS.rooms), rng.choice(WORDS.tried)
                yield self.thread(
                    f"{thing} {symptom}",
                    category,
                    f"Since {rng.choice(WORDS.days)} my {thing.lower()} {symptom}. I sit in the "
                    f"{room} room. I have {tried}, without success. Any ideas?",
                    "help",
                    room=room,
                )
        for pattern in WORDS.links:
            for room in self.sample(WORDS.rooms, 4):
                hour = rng.choice(WORDS.hours)
                yield self.thread(
                    pattern.format(room=room),
                    "Network",
                    f"It is about the {room} room. We need it for a meeting at {hour}. I have "
                    f"{rng.choice(WORDS.tried)}. Who can help?",
                    "help",
                    room=room,
                    hour=hour,
                )

    def office(self) -> Iterator[Thread]:
        rng = self.rng
        for meal in self.sample(WORDS.meals, 8):
            yield self.thread(
                f"Canteen wish: {meal.lower()}",
                "Canteen",
                f"Could the canteen offer {meal.lower()} once a month? I would come on "
                f"{rng.choice(WORDS.days)}s, even at {rng.choice(('11:30', '12:15', '13:00'))}.",
                "idea",
            )
        for town in self.sample(WORDS.towns, 12):
            seats, hour = (
                rng.randint(1, 4),
                rng.choice(("06:40", "07:05", "07:20", "07:45", "08:10")),
            )
            yield self.thread(
                f"Car pool from {town}",
                "Commuting",
                f"I drive from {town} every day and leave at {hour}. "
                f"Free seats: {seats}. Back at {rng.choice(('16:30', '17:00', '17:45'))}.",
                "ride",
                town=town,
                seats=str(seats),
                hour=hour,
            )
        for thing in self.sample(WORDS.objects, 16):
            place, room = rng.choice(WORDS.places), rng.choice(WORDS.rooms)
            if rng.random() < 0.6:
                yield self.thread(
                    f"Found: {thing}",
                    "Lost and Found",
                    f"I found this in or near {place}: a {thing}. You can fetch it from me in the "
                    f"{room} room.",
                    "lost",
                    thing=thing,
                    room=room,
                )
            else:
                yield self.thread(
                    f"Lost: {thing}",
                    "Lost and Found",
                    f"I lost my {thing}, probably near {place}. If you find it, please bring it to "
                    f"the {room} room.",
                    "lost",
                    thing=thing,
                    room=room,
                )

    def market(self) -> Iterator[Thread]:
        rng = self.rng
        prices: set[int] = set()
        for item, about in WORDS.items:
            price = next(
                one
                for one in (round(about * rng.uniform(0.8, 1.25)) for _ in range(99))
                if one not in prices
            )
            prices.add(price)
            room, condition = rng.choice(WORDS.rooms), rng.choice(WORDS.conditions)
            yield self.thread(
                f"For sale: {item}",
                "For Sale",
                f"I sell my {item}. Price: {price} EUR. Condition: {condition}. "
                f"You can collect it in the {room} room.",
                "sale",
                item=item,
                price=str(price),
                condition=condition,
                room=room,
            )
        for thing in self.sample(WORDS.searched, 12):
            most = rng.randint(2, 30) * 5
            yield self.thread(
                f"Wanted: {thing}",
                "Wanted",
                f"I am looking for this: {thing}. I would pay up to {most} EUR. "
                f"Offers until {rng.choice(WORDS.days)}, please.",
                "sale",
                thing=thing,
                price=str(most),
            )

    def ideas(self) -> Iterator[Thread]:
        rng = self.rng
        for number, (title, question, options) in enumerate(WORDS.ideas):
            poll = None
            if number < 14:
                voters = rng.sample(_NORMAL, rng.randint(9, 25))
                # One option wins clearly, so that the result is not a matter of rounding.
                favourite = rng.randrange(len(options))
                votes = {
                    voter: favourite if rng.random() < 0.35 else rng.randrange(len(options))
                    for voter in voters
                }
                counts = [list(votes.values()).count(one) for one in range(len(options))]
                while max(counts) - sorted(counts)[-2] < 2:
                    votes[next(v for v in _NORMAL if v not in votes)] = favourite
                    counts = [list(votes.values()).count(one) for one in range(len(options))]
                    favourite = counts.index(max(counts))
                poll = Poll(question, list(options), votes, closed=number % 5 == 4)
            yield self.thread(
                title,
                "Ideas",
                f"What do you think of this: {title[0].lower() + title[1:]}? "
                f"I would bring it up in the next meeting in the {rng.choice(WORDS.rooms)} room.",
                "idea",
                poll=poll,
            )

    def projects(self) -> Iterator[Thread]:
        rng = self.rng
        for name in WORDS.projects:
            for stage in rng.sample(WORDS.stages, 3):
                day, budget = self.day(), rng.randint(12, 98) * 500
                lead = self.names[rng.choice(_NORMAL)]
                yield self.thread(
                    f"Project {name}: {stage}",
                    "Projects",
                    f"Notes on project {name}.\n\n* Lead: {lead}\n* Deadline: {day}\n"
                    f"* Budget: {budget} EUR\n\nPlease correct me where I am wrong.",
                    "project",
                    lead=lead,
                    deadline=day,
                    budget=str(budget),
                )

    def clubs(self) -> Iterator[Thread]:
        rng = self.rng
        for month, book in zip(
            WORDS.months, rng.sample(WORDS.books, len(WORDS.books)), strict=True
        ):
            room, pages = rng.choice(WORDS.rooms), rng.randint(140, 620)
            yield self.thread(
                f"Book club {month}: {book}",
                "Book Club",
                f"Our book is *{book}*. It has {pages} pages. We meet in the {room} room at "
                f"{rng.choice(WORDS.hours)}.",
                "club",
                book=book,
                room=room,
                pages=str(pages),
            )
        for route in rng.sample(WORDS.routes, 9):
            day, length = rng.choice(WORDS.days), rng.randint(3, 16)
            yield self.thread(
                f"{day} run: {route}",
                "Running",
                f"We run the {route} on {day}: {length} km, starting at "
                f"{rng.choice(WORDS.places)}. Everybody is welcome.",
                "club",
                length=str(length),
            )
        for meal in rng.sample(WORDS.meals, 12):
            minutes, eaters = rng.randint(4, 24) * 5, rng.randint(2, 8)
            yield self.thread(
                f"Recipe: {meal.lower()}",
                "Cooking",
                f"{meal} for {eaters} people. It takes {minutes} minutes.\n\n1. Cut everything.\n"
                f"2. Cook it slowly.\n3. Eat it on a {rng.choice(WORDS.days)}.",
                "cook",
                minutes=str(minutes),
                people=str(eaters),
            )
        for game in rng.sample(WORDS.games, 9):
            room, players = rng.choice(WORDS.rooms), rng.randint(3, 8)
            yield self.thread(
                f"Games night: {game}",
                "Board Games",
                f"Who wants to play {game}? At most {players} players, on "
                f"{rng.choice(WORDS.days)} in the {room} room.",
                "club",
                game=game,
                room=room,
                players=str(players),
            )
        for thing in rng.sample(WORDS.garden, 9):
            yield self.thread(
                thing,
                "Gardening",
                f"I would like to talk about this: {thing[0].lower() + thing[1:]}. Next work day: "
                f"{rng.choice(WORDS.days)} at {rng.choice(WORDS.hours)}.",
                "club",
            )

    def announcements(self) -> Iterator[Thread]:
        rng = self.rng
        for system in WORDS.systems:
            day, hour, hours = self.day(), rng.choice(WORDS.hours), rng.randint(2, 6)
            contact = self.names[rng.choice(_NORMAL)]
            yield self.thread(
                f"Maintenance: {system}",
                "Announcements",
                f"There is maintenance work on this: {system}.\n\n* Date: {day}\n* Start: {hour}\n"
                f"* Duration: {hours} hours\n* Contact: {contact}",
                "news",
                author=rng.choice((ADMIN, *MODERATORS)),
                system=system,
                day=day,
                hour=hour,
                hours=str(hours),
                contact=contact,
            )
        for title in WORDS.news:
            yield self.thread(
                title,
                "Announcements",
                f"{title}: the details are on the notice board on the {rng.choice(WORDS.floors)} "
                "and in the intranet. Please ask your questions here.",
                "news",
                author=rng.choice((ADMIN, *MODERATORS)),
            )


def threads(seed: int, names: Sequence[str]) -> tuple[list[Thread], list[Thread]]:
    """Return the public threads and the private ones, each from the oldest to the newest.

    Args:
        seed: The seed; the same gives the same.
        names: The names of the 40 members.
    """
    rng = random.Random(f"forum {seed}")
    writer = _Writer(rng, names)
    makers = (
        writer.help,
        writer.office,
        writer.market,
        writer.ideas,
        writer.projects,
        writer.clubs,
        writer.announcements,
    )
    public = [thread for make in makers for thread in make()]
    _make_long(writer, public)
    _let_user_write(rng, public)
    _moderate(rng, public)
    _spam(writer, public)
    _like(rng, public)
    private = _private(writer)
    for made in (public, private):
        made.sort(key=lambda thread: thread.comments[0].date)
    return public, private


def _make_long(writer: _Writer, public: list[Thread]) -> None:
    """Make ten discussions long: two or three pages."""
    rng = writer.rng
    chosen = [thread for thread in public if thread.category in WORDS.kinds]
    for thread in rng.sample(chosen, 10):
        first = thread.comments[0]
        first.date = min(first.date, _LAST - timedelta(days=60))
        thread.comments = [first]
        writer.discuss(thread.comments, WORDS.kinds[thread.category], rng.randint(24, 48))


def _let_user_write(rng: random.Random, public: list[Thread]) -> None:
    """Make the user the author of some threads and comments."""
    fit = ("Hardware", "For Sale", "Ideas", "Commuting", "Cooking", "Board Games", "Canteen")
    for category in fit:
        own = [t for t in public if t.category == category and len(t.comments) < 15]
        if category == "Ideas":
            own = [t for t in own if t.poll and not t.poll.closed]
        for thread in rng.sample(own, 2):
            before = thread.author
            for comment in thread.comments:
                if comment.author == before:
                    comment.author = USER
    others = [t for t in public if t.author != USER and 3 <= len(t.comments) < 19]
    for thread in rng.sample(others, 30):
        rng.choice(thread.comments[1:]).author = USER
    polls = [t.poll for t in public if t.poll and not t.poll.closed and t.author != USER]
    for poll in rng.sample(polls, 4):
        poll.votes[USER] = rng.randrange(len(poll.options))


def _moderate(rng: random.Random, public: list[Thread]) -> None:
    """Close, pin and delete some threads."""
    plain = [t for t in public if t.author != USER and t.poll is None and len(t.comments) < 19]
    chosen = rng.sample(plain, 36)
    for thread in chosen[:16]:
        thread.closed = True
    for thread in chosen[16:24]:
        thread.pinned = True
    for thread in chosen[24:26]:
        thread.globally_pinned = True
    for thread in chosen[26:32]:
        thread.removed = True
    for thread in chosen[32:]:
        if len(thread.comments) > 2:
            thread.comments[-1].removed = True


def _spam(writer: _Writer, public: list[Thread]) -> None:
    """Let one account advertise in a few threads, most often in one."""
    rng = writer.rng
    usable = [t for t in public if not (t.removed or t.closed) and 4 <= len(t.comments) < 19]
    long = [t for t in public if not (t.removed or t.closed) and 24 <= len(t.comments) < 45]
    places = [(thread, 1) for thread in rng.sample(usable, 6)]
    places += [(thread, rng.randint(3, 5)) for thread in rng.sample(long, 3)]
    for thread, count in places:
        for _ in range(count):
            at = rng.randint(2, len(thread.comments))
            before = thread.comments[at - 1].date
            after = thread.comments[at].date if at < len(thread.comments) else _LAST
            spam = Reply(
                SPAMMER, before + (after - before) / 2, writer.filled(rng.choice(WORDS.spam))
            )
            spam.spam = True
            thread.comments.insert(at, spam)


def _like(rng: random.Random, public: list[Thread]) -> None:
    """Let members like comments. In each thread one comment is liked most."""
    for thread in public:
        usable = [c for c in thread.comments if not (c.spam or c.removed)]
        for comment in usable:
            if rng.random() < 0.3:
                fans = [one for one in _NORMAL if one != comment.author]
                comment.likes = rng.sample(fans, rng.randint(1, 4))
        best = rng.choice(usable)
        best.likes = rng.sample([one for one in _NORMAL if one != best.author], rng.randint(6, 11))
        if rng.random() < 0.08:
            liked = rng.choice(usable)
            if liked.author != USER and liked is not best and len(thread.comments) < 19:
                liked.likes.append(USER)


def _private(writer: _Writer) -> list[Thread]:
    """Return the user's private threads: half of them by the user."""
    rng = writer.rng
    made: list[Thread] = []
    for number, pattern in enumerate(WORDS.private):
        title = writer.filled(pattern)
        others = rng.sample(_NORMAL, rng.randint(2, 4))
        author = USER if number % 2 else others[0]
        members = [USER, *others]
        date = _LAST - timedelta(minutes=rng.randint(2000, 60 * 24 * 90))
        comments = [
            Reply(
                author,
                date,
                f"Hello! It is about this: {title[0].lower() + title[1:]}. "
                f"Can you answer by {rng.choice(WORDS.days)}?",
            )
        ]
        for answer in rng.sample(
            (
                "Yes, I can.",
                "Give me one more day, please.",
                "Fine with me.",
                "Shall we talk about it at lunch?",
                "I have no time this week, sorry.",
                "Great idea. I am in.",
            ),
            rng.randint(1, 4),
        ):
            date += timedelta(minutes=rng.randint(9, 400))
            writers = [one for one in members if one != comments[-1].author]
            comments.append(Reply(rng.choice(writers), date, answer))
        made.append(Thread(title, "Private", comments, {}, members=members))
    return made
