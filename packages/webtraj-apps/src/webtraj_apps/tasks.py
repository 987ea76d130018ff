"""Tasks in real applications, and how to write one.

A template is a function from the facts of a world to an assignment, registered by decorator::

    @template("shop/add", level=1, split="train")
    def add(facts: Facts, rng: random.Random) -> Assignment:
        product, count = rng.choice(facts["products"]), rng.randint(2, 9)
        return assign(
            f"Put {count} pieces of {product['title']} into the basket.",
            (click(".product a", product["title"]), ...),
            added("basket_line", product_id=product["id"], quantity=count),
            user=facts["user"],
        )

What is the same for every seed may stand in the decorator instead: `user="user"` names the fact
that tells who is logged in; `start` and `allow` are as those of an assignment. A task that cannot
be done says `infeasible=True` there. Changes and steps may be nested.

The episode ends when the agent answers or reports the task as infeasible. It succeeds if the worlds
then differ from their first moment as expected and in nothing else, and if the answer is right.
A template over several applications names them, gets the facts by application, and gives `expect`
and the like by application too. The episode starts in the first one; the goal ends with the
addresses of all.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import datetime
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypeVar

from webtraj import errors
from webtraj.environments import actions as actions_lib
from webtraj.environments import browser
from webtraj.environments import tasks as webtraj_tasks
from webtraj.environments.browser.oracles import PATIENCE, OracleError, PageView, Step
from webtraj.settings.named import nearest
from webtraj_apps import app as app_lib
from webtraj_apps import names as names_lib
from webtraj_apps import state as state_lib
from webtraj_apps.answers import same_answer
from webtraj_apps.company import HELD_OUT
from webtraj_apps.people import DOMAIN
from webtraj_apps.state import (
    Expected,
    added,
    anything,
    changed,
    contains,
    hash_of,
    in_changed,
    in_new,
    on_day,
    optional,
    removed,
    same_text,
)

__all__ = [
    "AppTask",
    "Assignment",
    "Changes",
    "Expected",
    "Facts",
    "Fault",
    "Parts",
    "Row",
    "Statement",
    "Steps",
    "Template",
    "added",
    "anything",
    "assign",
    "changed",
    "changed_row",
    "contains",
    "difficulty_of",
    "draw_best",
    "draw_day",
    "draw_distinct",
    "email_of",
    "find",
    "find_best",
    "find_template",
    "find_templates",
    "format_date",
    "group_rows",
    "hash_of",
    "in_changed",
    "in_new",
    "join_names",
    "next_id",
    "on_day",
    "optional",
    "other_than",
    "removed",
    "same_answer",
    "same_text",
    "template",
]

Facts: TypeAlias = Mapping[str, Any]
"""What a world holds, as far as tasks may mention it."""

Row: TypeAlias = Mapping[str, Any]
"""One of the facts, or of the rows that an application keeps."""

Statement: TypeAlias = tuple[str, tuple[Any, ...]]
"""SQL and its parameters."""

Changes: TypeAlias = "Expected | Iterable[Changes]"
"""An expected change, or several, nested as is handy."""

Steps: TypeAlias = "Step | Iterable[Steps]"
"""A step of an oracle, or several, nested as is handy."""

Parts: TypeAlias = "Expected | Step | Iterable[Parts]"
"""Steps of an oracle and the changes that they make, nested as is handy."""

_Choice = TypeVar("_Choice")

_LEVELS: Final = {1: 25, 2: 40, 3: 60}
"""The step limit by level."""

_MOST_FACTS: Final = 8
_NOTHING_ELSE: Final = "Nothing else was changed."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The assignment of one episode. Fields may be mappings by application; see the module."""

    goal: str
    """The goal."""
    start: str = "/"
    """The path of the first page."""
    user: str = ""
    """Who is logged in; nobody if empty."""
    users: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Who is logged in, by application; `user` in those that are not named."""
    expect: Changes | Mapping[str, Changes] = ()
    """The changes that must have happened. Kept as a tuple."""
    allow: Changes | Mapping[str, Changes] = ()
    """Changes that may happen besides, each any number of times. Kept as a tuple."""
    answer: str | tuple[str, ...] | None = None
    """The right answer, in the form that declares its kind (see `answers`); several, in any order
    unless `ordered`; or None if any answer will do."""
    ordered: bool = False
    """Whether several answers must come in their order, as numbers that only it tells apart."""
    infeasible: bool = False
    """Whether the right thing is to report that it cannot be done; set by the template."""
    prepare: Sequence[Statement] | Mapping[str, Sequence[Statement]] = ()
    """SQL that changes the world before the episode."""
    steps: Steps = ()
    """The oracle, without the answer at its end. Kept as a tuple."""

    def __post_init__(self) -> None:
        for name in ("expect", "allow"):
            given = getattr(self, name)
            flat = (
                {app: _flat(part) for app, part in given.items()}
                if isinstance(given, Mapping)
                else _flat(given)
            )
            object.__setattr__(self, name, flat)
        object.__setattr__(self, "steps", _flat(self.steps))

    def wrong_answer(self, answer: str | None) -> str:
        """Return the problem with an answer; empty if there is none.

        Args:
            answer: The answer; None reports that the task cannot be done.
        """
        if answer is None:
            return "" if self.infeasible else "The task can be done."
        if self.infeasible:
            return "The task cannot be done, and should have been reported as infeasible."
        wanted = self.answer
        if wanted is not None and not same_answer(answer, wanted, ordered=self.ordered):
            return f"The answer {answer!r:.200} is not {wanted!r}."
        return ""

    def wrong_changes(
        self,
        apps: Sequence[app_lib.App],
        before: Mapping[str, state_lib.State],
        after: Mapping[str, state_lib.State],
    ) -> str:
        """Return the differences between the worlds' changes and the expected ones; empty if none.

        Args:
            apps: The task's applications.
            before: The state of each application's world at the start.
            after: The state of each at the end.
        """
        found = []
        for app in apps:
            changes = app.changes(before[app.name], after[app.name])
            expected, allowed = self.expected_changes(app, apps)
            found.append(state_lib.differences(changes, expected, allow=allowed, fills=app.fills))
        return "\n".join(filter(None, found))

    def expected_changes(
        self, app: app_lib.App, apps: Sequence[app_lib.App]
    ) -> tuple[Sequence[Expected], Sequence[Expected]]:
        """Return the expected and the allowed changes of an application's world."""
        return _part_of(self.expect, app, apps), _part_of(self.allow, app, apps)

    def concerns(self, value: Any) -> bool:
        """Return whether the assignment's texts mention a name, or an expected change has an id."""
        if value in (self.user, *self.users.values()):
            return True
        parts = self.expect.values() if isinstance(self.expect, Mapping) else [self.expect]
        expected = [one for part in parts for one in _flat(part)]
        if isinstance(value, str):
            texts = [self.goal, _as_text(self.answer or ""), *map(str, expected)]
            prepared = self.prepare if isinstance(self.prepare, Mapping) else {"": self.prepare}
            texts += [str(values) for part in prepared.values() for _, values in part]
            return any(value.lower() in text.lower() for text in texts)
        return any(wanted == value for one in expected for wanted in (one.where | one.new).values())

    def rubric(self) -> tuple[str, ...]:
        """Return the facts that a judge of the record should find.

        If only an answer is wanted, there are no facts, because the goal and the answer are enough.
        """
        if self.infeasible:
            return ("The agent reported that the task cannot be done.", _NOTHING_ELSE)
        parts = self.expect.values() if isinstance(self.expect, Mapping) else [self.expect]
        facts = [one.fact for part in parts for one in _flat(part) if not one.optional]
        if not facts:
            return ()
        counts = collections.Counter(facts)
        said = [fact if n == 1 else f"{n} times: {fact}" for fact, n in counts.items()]
        if len(said) > _MOST_FACTS:
            more = len(said) - _MOST_FACTS
            said[_MOST_FACTS:] = [f"There were {more} other changes like these, as the goal asks."]
        if self.answer is not None:
            said.append(f"The agent answered: {_as_text(self.answer)}")
        return (*said, _NOTHING_ELSE)


def _part_of(given: Any, app: app_lib.App, apps: Sequence[app_lib.App]) -> Sequence[Any]:
    """Return an application's part of an assignment's field."""
    if isinstance(given, Mapping):
        part: Sequence[Any] = given.get(app.name, ())
        return part
    return given if app is apps[0] else ()


def _flat(nested: Any) -> tuple[Any, ...]:
    """Return what is in nested iterables, in its order."""
    if not isinstance(nested, Iterable):
        return (nested,)
    return tuple(leaf for part in nested for leaf in _flat(part))


@dataclasses.dataclass(frozen=True, slots=True)
class Template:
    """A kind of task, of which each seed makes one."""

    name: str
    """Application and name: `shop/add`."""
    apps: tuple[str, ...]
    """The applications it uses."""
    level: int
    """1 (a few actions) to 3 (up to 40)."""
    split: Literal["train", "test"]
    assign: Callable[[Facts, random.Random], Assignment]
    infeasible: bool = False
    """Whether the right thing is to report that it cannot be done."""

    def world_seed(self, seed: int) -> int:
        """Return the seed of an episode's worlds. Only the split `test` has the held-out content.

        Episodes whose seeds differ by a multiple of `app.CONTENTS` have the same content.
        """
        content = seed % app_lib.CONTENTS
        if self.split == "test":
            return seed - content + HELD_OUT
        return seed if content != HELD_OUT else seed - content

    def begin(self, seed: int) -> Assignment:
        """Return the assignment of a seed.

        Raises:
            MissingDependencyError: An application is not installed.
        """
        rng = random.Random(f"{self.name} {seed}")
        apps = [app_lib.find_app(name) for name in self.apps]
        facts = {app.name: app.facts(self.world_seed(seed)) for app in apps}
        if len(apps) == 1:
            return self.assign(facts[self.apps[0]], rng)
        assignment = self.assign(facts, rng)
        places = ", ".join(f"{app.title} at {app.origin}/" for app in apps)
        return dataclasses.replace(assignment, goal=f"{assignment.goal}\n\nSites: {places}")


def template(
    name: str,
    *,
    level: Literal[1, 2, 3],
    split: Literal["train", "test"],
    apps: Sequence[str] = (),
    user: str = "",
    start: str = "/",
    allow: Changes | Mapping[str, Changes] = (),
    infeasible: bool = False,
) -> Callable[[Callable[[Any, random.Random], Assignment]], Template]:
    """Register a template.

    Args:
        name: Application and name, or `across/` and a name.
        level: 1 (a few actions) to 3 (up to 40).
        split: The split it belongs to.
        apps: The applications, if there are several. Episodes start in the first.
        user: The fact of the first application that names the logged-in user, such as `user`. This
            and the next two arguments are defaults for the assignment's fields of the same name.
        start: The path of the first page.
        allow: Changes that may happen besides, each any number of times.
        infeasible: Whether the right thing is to report that it cannot be done.

    Raises:
        ValueError: It is registered twice.
    """
    if name in names_lib.TEMPLATES:
        raise ValueError(f"The template {name!r} is registered twice.")

    def register(assign: Callable[[Any, random.Random], Assignment]) -> Template:
        used = tuple(apps) or (name.partition("/")[0],)

        def make_assignment(facts: Any, rng: random.Random) -> Assignment:
            made = assign(facts, rng)
            known = facts if len(used) == 1 else facts[used[0]]
            return dataclasses.replace(
                made,
                user=made.user or (known[user] if user else ""),
                start=start if made.start == "/" else made.start,
                allow=made.allow or allow,
                infeasible=infeasible,
            )

        made = names_lib.TEMPLATES[name] = Template(
            name, used, level, split, make_assignment, infeasible
        )
        return made

    return register


def find_template(name: str) -> Template:
    """Return a template by name.

    Raises:
        InvalidInputError: There is none.
    """
    if name not in names_lib.TEMPLATES and (source := names_lib.find(name.partition("/")[0])):
        source.load_tasks()
    if name not in names_lib.TEMPLATES:
        raise errors.InvalidInputError(
            f"No application task {name!r:.80}; `webtraj presets` lists them."
        )
    return names_lib.TEMPLATES[name]


def find_templates(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the templates of applications, or templates, by name; None for all installed ones.

    Raises:
        InvalidInputError: A name is unknown.
    """
    if names is None:
        for source in names_lib.sources().values():
            source.load_tasks()
        ready = {app.name for app in app_lib.find_apps() if app.installed}
        return tuple(
            name for name, one in names_lib.TEMPLATES.items() if ready.issuperset(one.apps)
        )
    found: list[str] = []
    for name in names:
        if known := names_lib.find(name):
            known.load_tasks()
            found += names_lib.list_registered(name)
        else:
            found.append(find_template(name).name)
    return tuple(found)


def difficulty_of(level: int) -> int:
    """Return a level's difficulty in WebGym's bands: easy, medium or hard.

    >>> [difficulty_of(level) for level in (1, 2, 3)]
    [2, 5, 8]
    """
    return 3 * level - 1


# What templates share.


def assign(goal: str, *parts: Parts, **more: Any) -> Assignment:
    """Return an assignment whose steps stand beside the changes that they make.

    Args:
        goal: The goal.
        *parts: The steps of the oracle in their order, and the expected changes among them.
        **more: Other fields of the assignment, such as `answer`.
    """
    flat = _flat(parts)
    return Assignment(
        goal=goal,
        expect=tuple(part for part in flat if isinstance(part, Expected)),
        steps=tuple(part for part in flat if not isinstance(part, Expected)),
        **more,
    )


def find(rows: Iterable[Any], **values: Any) -> dict[str, Any]:
    """Return the first of some facts that has these values."""
    found: dict[str, Any] = next(
        one for one in rows if all(one[name] == value for name, value in values.items())
    )
    return found


def find_best(
    rows: Iterable[Any],
    value: Callable[[Any], Any],
    choose: Callable[..., Any] = max,
) -> Any:
    """Return the row with the highest value, or the lowest with `min`; None if there is a tie.

    >>> find_best([{"n": 3}, {"n": 5}], lambda one: one["n"]), find_best("aa", str)
    ({'n': 5}, None)
    """
    rows = list(rows)
    best = choose(map(value, rows), default=None)
    found = [row for row in rows if value(row) == best]
    return found[0] if len(found) == 1 else None


def group_rows(rows: Iterable[Row], *names: str, least: int = 2, most: int = 99) -> list[list[Row]]:
    """Return the groups of rows with the same values of these columns, by how many are in them.

    >>> group_rows([{"n": 1}, {"n": 2}, {"n": 1}], "n")
    [[{'n': 1}, {'n': 1}]]
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return [group for group in groups.values() if least <= len(group) <= most]


def next_id(*tables: Iterable[Row]) -> int:
    """Return the lowest id above those of all rows.

    >>> next_id([{"id": 3}, {"id": 5}])
    6
    """
    return 1 + max((int(row["id"]) for rows in tables for row in rows), default=0)


def changed_row(table: str, row: Row, **new: Any) -> Expected:
    """Expect new values of a row with an id. See `changed`."""
    return changed(table, {"id": row["id"]}, **new)


def draw_best(
    rng: random.Random,
    choices: Iterable[_Choice],
    rows: Callable[[_Choice], Iterable[Any]],
    value: Callable[[Any], Any],
    choose: Callable[..., Any] = max,
) -> tuple[_Choice, Any]:
    """Choose one with a single best row, and return it with this row. See `find_best`."""
    found = [(choice, find_best(rows(choice), value, choose)) for choice in choices]
    return rng.choice([(choice, best) for choice, best in found if best])


def other_than(
    rng: random.Random, choices: Iterable[_Choice], *but: object, **values: object
) -> _Choice:
    """Choose one, but none of some, and no row that has one of these values.

    >>> other_than(random.Random(), [1, 2], 1)
    2
    """

    def fits(choice: Any) -> bool:
        return choice not in but and all(choice[name] != values[name] for name in values)

    return rng.choice([choice for choice in choices if fits(choice)])


def draw_distinct(
    rng: random.Random, choices: Sequence[_Choice], count: int, value: Callable[[_Choice], Any]
) -> list[_Choice]:
    """Draw some of which no two have the same value, so that one is first.

    Raises:
        LookupError: There are not so many.
    """
    if len(set(map(value, choices))) < count:
        raise LookupError(f"There are no {count} of {len(choices)} with values of their own.")
    while True:
        drawn = rng.sample(choices, count)
        if len(set(map(value, drawn))) == count:
            return drawn


def draw_day(
    rng: random.Random,
    first: int,
    last: int = 0,
    *,
    days: tuple[int, int] = (1, 28),
    year: int = 2026,
) -> str:
    """Draw a day, as YYYY-MM-DD, of one month, or of several up to the last one."""
    month = rng.randint(first, last) if last else first
    return f"{year}-{month:02}-{rng.randint(*days):02}"


def email_of(username: str) -> str:
    """Return the mail address of somebody at Northfield, or of a mailbox there."""
    return f"{username}@{DOMAIN}"


def join_names(names: Sequence[str], last: Literal["and", "or"] = "and") -> str:
    """Return names as a list in a sentence, for goals.

    >>> join_names(["Emma", "Noah", "Priya"])
    'Emma, Noah and Priya'
    """
    return f"{', '.join(names[:-1])} {last} {names[-1]}" if len(names) > 1 else names[0]


def format_date(day: str) -> str:
    """Return a date in words, for goals.

    >>> format_date("2026-03-02")
    '2 March 2026'
    """
    date = datetime.date.fromisoformat(day)
    return f"{date.day} {date:%B %Y}"


# Episodes.


@dataclasses.dataclass(frozen=True, slots=True)
class _Moment:
    """A copy of an episode's worlds, with the data by which its end is judged."""

    worlds: Mapping[str, app_lib.WorldCopy]
    assignment: Assignment
    before: Mapping[str, state_lib.State]
    turns: int
    seed: int
    failed: frozenset[tuple[str, str]]


class AppTask(browser.BrowserTask):
    """A template as a `BrowserTask`, with new worlds in each episode.

    Args:
        template: The template.
        fault: The fault that occurs while an agent acts, for tests of agents.
    """

    has_solution = True
    judges_refusals = True
    context_options = MappingProxyType({"locale": "en-GB", "timezone_id": "UTC"})

    def __init__(self, template: Template, fault: Fault | None = None) -> None:
        self.template = template
        self.worlds: dict[str, app_lib.World] = {}
        """The worlds of the episode, by application."""
        self._apps = [app_lib.find_app(name) for name in template.apps]
        self._assignment: Assignment | None = None
        self.before: Mapping[str, state_lib.State] = {}
        """The state of each application's world at the start of the episode."""
        self.after: Mapping[str, state_lib.State] = {}
        """The state of each when the episode was judged; empty before, and if its answer is wrong.
        Kept until the next episode."""
        self._fault = fault or Fault()
        self._turns = self._seed = 0
        self._failed: set[tuple[str, str]] = set()
        """The pages that have failed once, each with its application."""
        self._others: Mapping[int, tuple[str, app_lib.Meanwhile]] = {}
        """What others do in which application, by the number of steps before."""
        self.reason = ""
        """Why the last episode failed; empty if it did not, or has not ended."""

    @property
    def name(self) -> str:
        """See `BrowserTask.name`."""
        return f"apps/{self.template.name}"

    @property
    def site(self) -> str:
        """See `BrowserTask.site`."""
        return self._apps[0].host

    @property
    def max_steps(self) -> int:
        """The default step limit."""
        return _LEVELS[self.template.level]

    @property
    def local_sites(self) -> browser.LocalSites:
        """The applications. See `BrowserTask`."""

        def serve(name: str) -> browser.Serve:
            async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                begun = await reader.read(app_lib.CHUNK)
                if self._fault.slow:
                    await asyncio.sleep(self._fault.slow)
                if status := self._failure_of(name, begun):
                    writer.write(_failed_page(status, app_lib.page_asked_for(begun)))
                    await writer.drain()
                elif begun and name in self.worlds:
                    await self.worlds[name].serve(reader, writer, begun)

            return answer

        return {(app.host, 80): serve(app.name) for app in self._apps}

    def _failure_of(self, app: str, request: bytes) -> str:
        """Return the status with which a request fails; empty if it is answered."""
        fault, page = self._fault, (app, app_lib.page_asked_for(request))
        if fault.fails_after is not None and self._turns >= fault.fails_after:
            return "500 Internal Server Error"
        if self._turns and all(page) and page not in self._failed:
            rng = random.Random(f"{self._seed} {page}")
            if rng.random() < fault.fails:
                self._failed.add(page)
                return _UNAVAILABLE
        return ""

    @property
    def assignment(self) -> Assignment:
        """The assignment of the last episode."""
        assert self._assignment is not None, "There is no assignment before the first episode."
        return self._assignment

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The episode's task for the record's metadata, with the rubric for a judge."""
        assignment = self.assignment
        spec = webtraj_tasks.TaskSpec(
            name=self.name,
            preset=self.name,
            goal=assignment.goal,
            difficulty=difficulty_of(self.template.level),
            facts=tuple(
                webtraj_tasks.FactGroup((webtraj_tasks.Fact(fact),)) for fact in assignment.rubric()
            ),
            reference_answer=_as_text(assignment.answer or ""),
            metadata={"split": self.template.split, "apps": list(self.template.apps)},
        )
        faults = {
            field.name: value
            for field in dataclasses.fields(Fault)
            if (value := getattr(self._fault, field.name)) != field.default
        }
        meanwhile = [
            {"after_steps": steps, "app": app, "what": one.what}
            for steps, (app, one) in self._others.items()
        ]
        return {
            "task": spec.to_data(),
            **({"fault": faults} if faults else {}),
            **({"meanwhile": meanwhile} if meanwhile else {}),
        }

    async def begin(self, seed: int) -> None:
        """Make the worlds of an episode and its assignment.

        Raises:
            MissingDependencyError: An application is not installed.
            BrowserError: A server does not start.
        """
        self.discard()
        self._turns, self.reason, self.after = 0, "", {}
        self._seed, self._failed = seed, set()
        self._assignment = assignment = self.template.begin(seed)
        self._others = self._plan_others()
        for app in self._apps:
            world = self.worlds[app.name] = await app.world(self.template.world_seed(seed))
            world.execute(_part_of(assignment.prepare, app, self._apps))
        self.before = {name: world.read() for name, world in self.worlds.items()}

    def _plan_others(self) -> Mapping[int, tuple[str, app_lib.Meanwhile]]:
        """Return what others will do, by the number of steps before it. It depends on the seed."""
        rng = random.Random(f"{self._seed} others")
        steps = [step for step in range(self.max_steps) if rng.random() < self._fault.others]
        plan: dict[int, tuple[str, app_lib.Meanwhile]] = {}
        for step in steps:
            app = rng.choice(self._apps)
            if app.meanwhile is not None:
                facts = app.facts(self.template.world_seed(self._seed))
                plan[step] = app.name, app.meanwhile(facts, rng, self.assignment.concerns)
        return plan

    async def _let_others_act(self, app: str, deed: app_lib.Meanwhile) -> None:
        """Let somebody else change a world. The change does not count as the agent's."""
        world = self.worlds[app]
        async with world.closed():
            before = world.read()
            with contextlib.suppress(LookupError):
                await deed.happen(world)
            self.before = {
                **self.before, app: state_lib.rebase(self.before[app], before, world.read())
            }  # fmt: skip

    def cookies_of(self, app: str) -> Mapping[str, str]:
        """Return the cookies of the task's user in an application; empty if nobody is logged in."""
        user = self.assignment.users.get(app, self.assignment.user)
        jar: Mapping[str, str] = self.worlds[app].facts["cookies"][user] if user else {}
        return jar

    async def setup(self, session: browser.BrowserSession, seed: int) -> None:
        """See `BrowserTask.setup`."""
        await self.begin(seed)
        cookies: list[Any] = [
            {"name": name, "value": value, "url": app.origin}
            for app in self._apps
            for name, value in self.cookies_of(app.name).items()
        ]
        if cookies:
            await session.run(session.page.context.add_cookies(cookies), what="log in")
        await session.open(self._apps[0].origin + self.assignment.start)

    def goal_of(self, begun: Any) -> str:
        """See `BrowserTask.goal_of`."""
        return self.assignment.goal

    async def validate(
        self, session: browser.BrowserSession, state: Any, answer: str | None
    ) -> browser.Verdict:
        """See `BrowserTask.validate`. Nothing is judged before the agent answers.

        Raises:
            BrowserError: A server failed, which is not the agent's fault.
        """
        self._turns += 1
        self._raise_failures()
        if self._fault.logs_out_after == self._turns:
            await session.run(session.page.context.clear_cookies(), what="end the session")
        if answer is not None:
            return self._verdict(await self.wrong_with(answer))
        if planned := self._others.get(self._turns - 1):
            await self._let_others_act(*planned)
        return browser.Verdict()

    async def validate_refusal(
        self, session: browser.BrowserSession, reason: str
    ) -> browser.Verdict:
        """See `BrowserTask.validate_refusal`.

        Raises:
            BrowserError: A server failed, which is not the agent's fault.
        """
        self._raise_failures()
        return self._verdict(await self.wrong_with(None))

    def _raise_failures(self) -> None:
        for world in self.worlds.values():
            if world.failure is not None:
                raise world.failure

    async def teardown(self, session: browser.BrowserSession) -> None:
        """See `BrowserTask.teardown`."""
        self.discard()

    async def snapshot(self, session: browser.BrowserSession) -> Any:
        """See `BrowserTask.snapshot`."""
        copies = {name: await world.copy() for name, world in self.worlds.items()}
        failed = frozenset(self._failed)
        return _Moment(copies, self.assignment, self.before, self._turns, self._seed, failed)

    @contextlib.asynccontextmanager
    async def restoring(
        self, session: browser.BrowserSession, snapshot: Any
    ) -> AsyncIterator[None]:
        """See `BrowserTask.restoring`.

        Raises:
            BrowserError: A server does not start.
        """
        self.discard()
        self._turns, self.reason, self.after = snapshot.turns, "", {}
        self._seed, self._failed = snapshot.seed, set(snapshot.failed)
        self._assignment, self.before = snapshot.assignment, snapshot.before
        self._others = self._plan_others()
        for app in self._apps:
            copy = snapshot.worlds[app.name]
            self.worlds[app.name] = await app.world(copy.seed, copy=copy)
        yield
        for world in self.worlds.values():
            await world.rewind()

    def solve(self, session: browser.BrowserSession, goal: str) -> browser.ScriptedSolution:
        """See `BrowserTask.solve`."""
        waits = self._fault.fails > 0
        return browser.ScriptedSolution(solution(self.assignment, session, waits=waits))

    async def wrong_with(self, answer: str | None) -> str:
        """Return the problem with the answer or the worlds; empty if the task is solved.

        Args:
            answer: The answer; None reports that the task cannot be done.
        """
        return self.assignment.wrong_answer(answer) or await self.wrong_state()

    async def wrong_state(self) -> str:
        """Return how the worlds differ from the expected state; empty if they do not."""
        for world in self.worlds.values():
            await world.idle()
        self.after = {name: world.read() for name, world in self.worlds.items()}
        return self.assignment.wrong_changes(self._apps, self.before, self.after)

    def _verdict(self, wrong: str) -> browser.Verdict:
        self.reason, reward = wrong, float(not wrong)
        return browser.Verdict(
            done=True,
            reward=reward,
            success=not wrong,
            raw_reward=reward,
            scaled_reward=reward,
            reason=wrong,
        )

    def discard(self) -> None:
        """Throw the worlds of the last episode away. Idempotent."""
        for world in self.worlds.values():
            world.discard()
        self.worlds = {}


_UNAVAILABLE: Final = "503 Service Unavailable"

_IS_UNAVAILABLE: Final = """title => {
  const unavailable = tab => {
    try {
      return tab.document.title === title || [...tab.frames].some(unavailable);
    } catch {
      return false;
    }
  };
  return unavailable(window);
}"""
"""Whether the page or a frame of it has failed and is about to be loaded again."""


async def _is_unavailable(view: PageView) -> bool:
    """Return whether a page has failed and will be loaded again, or is loading now."""
    try:
        return bool(await view.evaluate(_IS_UNAVAILABLE, _UNAVAILABLE))
    except errors.BrowserError:
        return True


async def solution(
    assignment: Assignment, session: browser.BrowserSession, *, waits: bool = False
) -> AsyncGenerator[actions_lib.Action, None]:
    """Yield the actions of an assignment's oracle, the answer last.

    Args:
        assignment: The assignment.
        session: The session of the episode.
        waits: Whether to wait while a page that has failed loads again.

    Raises:
        OracleError: The page is not as the oracle expects.
    """
    view = PageView(session, goal=assignment.goal)
    for step in _flat(assignment.steps):
        try:
            async for action in step(view):
                yield action
                for seconds in PATIENCE if waits else ():
                    if not await _is_unavailable(view):
                        break
                    yield actions_lib.Wait(seconds)
        except (LookupError, ValueError) as error:
            raise OracleError(f"The page is not as expected: {error!r}.") from error
    if assignment.infeasible:
        yield actions_lib.ReportInfeasible("It cannot be done here.")
        return
    yield actions_lib.Answer(_as_text(assignment.answer or "done"))


def _as_text(answer: str | tuple[str, ...]) -> str:
    return ", ".join(answer) if isinstance(answer, tuple) else answer


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Failures in the applications of an episode, and actions of other people there."""

    slow: float = 0.0
    """Seconds that every response takes longer."""
    fails: float = 0.0
    """The share of pages that answer with status 503 when they are asked for the first time, and
    load again by themselves after a second. The seed chooses them; the first page always loads."""
    fails_after: int | None = None
    """After how many steps pages answer with status 500; None for never."""
    logs_out_after: int | None = None
    """After how many steps the user's session ends; None for never."""
    others: float = 0.0
    """The share of steps after which somebody else changes something that the task is not about, in
    one of the applications. The seed chooses the steps, and the episode's metadata lists them."""

    @classmethod
    def of(cls, given: str | Fault | None) -> Fault:
        """Return the fault of this name, or no fault for an empty name.

        Raises:
            InvalidInputError: There is no such fault.
        """
        if isinstance(given, Fault):
            return given
        if given is None:
            return Fault()
        if not isinstance(given, str) or given not in FAULTS:
            hint = nearest(str(given), FAULTS)
            raise errors.InvalidInputError(
                f"Unknown fault {given!r:.60}; expected one of {', '.join(FAULTS)}, or a Fault. "
                f"{hint}".rstrip()
            )
        return FAULTS[given]


FAULTS: Final[Mapping[str, Fault]] = {
    "slow": Fault(slow=1.0),
    "fails": Fault(fails=0.2),
    "logs-out": Fault(logs_out_after=3),
    "others": Fault(others=0.3),
}
"""The built-in faults, by name. Under `logs-out`, oracles fail: they do not log in."""


def _failed_page(status: str, page: str) -> bytes:
    """Return the response of a server that has failed to answer with a page."""
    # Without its address a page whose address ends in a fragment would only scroll.
    again = f"Refresh: 1; url={page}\r\n" if status == _UNAVAILABLE else ""
    reason = status.partition(" ")[2]
    body = f"<title>{status}</title><h1>{reason}</h1>"
    return (
        f"HTTP/1.0 {status}\r\nContent-Type: text/html\r\n{again}"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()
