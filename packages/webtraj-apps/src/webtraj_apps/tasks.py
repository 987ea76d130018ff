"""Tasks in real applications, and how to write one.

A template is a function from the facts of a world to an assignment, registered by decorator::

    @template("shop/add", level=1, split="train")
    def add(facts: Facts, rng: random.Random) -> Assignment:
        product, count = rng.choice(facts["products"]), rng.randint(2, 9)
        return Assignment(
            goal=f"Put {count} pieces of {product['title']} into the basket.",
            user=facts["user"],
            expect=(added("basket_line", product_id=product["id"], quantity=count),),
            steps=(click(".product a", product["title"]), ...),
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
from typing import Any, Final, Literal, TypeAlias

from webtraj import errors
from webtraj.environments import actions as actions_lib
from webtraj.environments import browser
from webtraj.environments import tasks as webtraj_tasks
from webtraj.environments.browser.oracles import OracleError, PageView, Step
from webtraj_apps import app as app_lib
from webtraj_apps import names as names_lib
from webtraj_apps import state as state_lib
from webtraj_apps.answers import same_answer
from webtraj_apps.state import (
    Expected,
    added,
    changed,
    contains,
    hash_of,
    in_new,
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
    "Steps",
    "Template",
    "added",
    "changed",
    "contains",
    "difficulty_of",
    "find",
    "find_template",
    "find_templates",
    "hash_of",
    "in_new",
    "listed",
    "optional",
    "other_than",
    "removed",
    "same_answer",
    "same_text",
    "spoken",
    "template",
]

Facts: TypeAlias = Mapping[str, Any]
"""What a world holds, as far as tasks may mention it."""

Statement: TypeAlias = tuple[str, tuple[Any, ...]]
"""SQL and its parameters."""

Changes: TypeAlias = "Expected | Iterable[Changes]"
"""An expected change, or several, nested as is handy."""

Steps: TypeAlias = "Step | Iterable[Steps]"
"""A step of an oracle, or several, nested as is handy."""

_LEVELS: Final = {1: 25, 2: 40, 3: 60}
"""The step limit by level."""

_MOST_FACTS: Final = 8
_NOTHING_ELSE: Final = "Nothing else was changed."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The assignment of one episode. Mappings by application are for several; see the module."""

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
    allow: Sequence[str] | Mapping[str, Sequence[str]] = ()
    """Tables that may change besides."""
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
        expect = self.expect
        flat = (
            {app: _flat(part) for app, part in expect.items()}
            if isinstance(expect, Mapping)
            else _flat(expect)
        )
        object.__setattr__(self, "expect", flat)
        object.__setattr__(self, "steps", _flat(self.steps))

    def rubric(self) -> tuple[str, ...]:
        """Return the facts that a judge of the record should find.

        If only an answer is wanted, there are none: the goal and the answer are enough.
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
        """Return the seed of an episode's worlds: only the split `test` has the held-out content.

        Episodes whose seeds differ by a multiple of `app.CONTENTS` have the same content.
        """
        content = seed % app_lib.CONTENTS
        if self.split == "test":
            return seed - content + app_lib.HELD_OUT
        return seed if content != app_lib.HELD_OUT else seed - content

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
    allow: Sequence[str] | Mapping[str, Sequence[str]] = (),
    infeasible: bool = False,
) -> Callable[[Callable[[Any, random.Random], Assignment]], Template]:
    """Register a template.

    Args:
        name: Application and name, or `across/` and a name.
        level: 1 (a few actions) to 3 (up to 40).
        split: The split it belongs to.
        apps: The applications, if there are several; the first is where episodes start.
        user: The fact of the first application that tells who is logged in, such as `user`. This
            and the next two are for assignments that leave the field of that name as it is.
        start: The path of the first page.
        allow: Tables that may change besides.
        infeasible: Whether the right thing is to report that it cannot be done.

    Raises:
        ValueError: It is registered twice.
    """
    if name in names_lib.TEMPLATES:
        raise ValueError(f"The template {name!r} is registered twice.")

    def register(assign: Callable[[Any, random.Random], Assignment]) -> Template:
        used = tuple(apps) or (name.partition("/")[0],)

        def assigned(facts: Any, rng: random.Random) -> Assignment:
            made = assign(facts, rng)
            known = facts if len(used) == 1 else facts[used[0]]
            return dataclasses.replace(
                made,
                user=made.user or (known[user] if user else ""),
                start=start if made.start == "/" else made.start,
                allow=made.allow or allow,
                infeasible=infeasible,
            )

        made = names_lib.TEMPLATES[name] = Template(name, used, level, split, assigned, infeasible)
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
            found += names_lib.registered(name)
        else:
            found.append(find_template(name).name)
    return tuple(found)


def difficulty_of(level: int) -> int:
    """Return the difficulty that a level has in WebGym's bands: easy, medium or hard.

    >>> [difficulty_of(level) for level in (1, 2, 3)]
    [2, 5, 8]
    """
    return 3 * level - 1


# What templates share.


def find(rows: Iterable[Any], **values: Any) -> dict[str, Any]:
    """Return the first of some facts that has these values."""
    found: dict[str, Any] = next(
        one for one in rows if all(one[name] == value for name, value in values.items())
    )
    return found


def other_than(rng: random.Random, choices: Iterable[str], *but: str) -> str:
    """Choose one, but none of some."""
    return rng.choice([choice for choice in choices if choice not in but])


def listed(names: Sequence[str]) -> str:
    """Return names as goals list them.

    >>> listed(["Emma", "Noah", "Priya"])
    'Emma, Noah and Priya'
    """
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def spoken(day: str) -> str:
    """Return a date as goals tell it.

    >>> spoken("2026-03-02")
    '2 March 2026'
    """
    date = datetime.date.fromisoformat(day)
    return f"{date.day} {date:%B %Y}"


# Episodes.


@dataclasses.dataclass(frozen=True, slots=True)
class _Moment:
    """A copy of an episode's worlds, with what its end is judged by."""

    worlds: Mapping[str, app_lib.WorldCopy]
    assignment: Assignment
    before: Mapping[str, state_lib.State]
    turns: int


class AppTask(browser.BrowserTask):
    """A template as a `BrowserTask`: one pair of worlds after another.

    Args:
        template: The template.
        fault: What goes wrong while an agent acts; for tests of agents.
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
        self._before: Mapping[str, state_lib.State] = {}
        self._fault = fault or Fault()
        self._turns = 0
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
                if not await self._fault.strikes(self._turns, writer) and name in self.worlds:
                    await self.worlds[name].serve(reader, writer)

            return answer

        return {(app.host, 80): serve(app.name) for app in self._apps}

    @property
    def assignment(self) -> Assignment:
        """The assignment of the last episode."""
        assert self._assignment is not None, "There is no assignment before the first episode."
        return self._assignment

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The episode's task as its record keeps it: a judge finds the rubric there."""
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
        return {"task": spec.to_data()}

    async def begin(self, seed: int) -> None:
        """Make the worlds of an episode and its assignment.

        Raises:
            MissingDependencyError: An application is not installed.
            BrowserError: A server does not start.
        """
        self.discard()
        self._turns, self.reason = 0, ""
        self._assignment = assignment = self.template.begin(seed)
        for app in self._apps:
            world = self.worlds[app.name] = await app.world(self.template.world_seed(seed))
            world.execute(self._by_app(assignment.prepare, app.name))
        self._before = {name: world.read() for name, world in self.worlds.items()}

    def cookies_of(self, app: str) -> Mapping[str, str]:
        """Return the cookies of the task's user in an application; none if nobody is logged in."""
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
        if answer is None:
            return browser.Verdict()
        return self._verdict(await self.wrong_with(answer))

    async def validate_refusal(
        self, session: browser.BrowserSession, reason: str
    ) -> browser.Verdict:
        """See `BrowserTask.validate_refusal`.

        Raises:
            BrowserError: A server failed, which is not the agent's fault.
        """
        self._raise_failures()
        if not self.assignment.infeasible:
            return self._verdict("The task can be done.")
        return self._verdict(await self.wrong_state())

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
        return _Moment(copies, self.assignment, self._before, self._turns)

    @contextlib.asynccontextmanager
    async def restoring(
        self, session: browser.BrowserSession, snapshot: Any
    ) -> AsyncIterator[None]:
        """See `BrowserTask.restoring`.

        Raises:
            BrowserError: A server does not start.
        """
        self.discard()
        self._turns, self.reason = snapshot.turns, ""
        self._assignment, self._before = snapshot.assignment, snapshot.before
        for app in self._apps:
            copy = snapshot.worlds[app.name]
            self.worlds[app.name] = await app.world(copy.seed, copy=copy)
        yield
        for world in self.worlds.values():
            await world.rewind()

    def solve(self, session: browser.BrowserSession, goal: str) -> browser.ScriptedSolution:
        """See `BrowserTask.solve`."""
        return browser.ScriptedSolution(solution(self.assignment, session))

    async def wrong_with(self, answer: str) -> str:
        """Return what is wrong with the answer or the worlds; empty if the task is solved."""
        if self.assignment.infeasible:
            return "The task cannot be done, and should have been reported as infeasible."
        wanted = self.assignment.answer
        if wanted is not None and not same_answer(answer, wanted, ordered=self.assignment.ordered):
            return f"The answer {answer!r:.200} is not {wanted!r}."
        return await self.wrong_state()

    async def wrong_state(self) -> str:
        """Return how the worlds differ from what was expected; empty if they do not."""
        found = []
        for app in self._apps:
            await self.worlds[app.name].idle()
            changes = state_lib.changes(
                self._before[app.name],
                self.worlds[app.name].read(),
                ignored=app.ignored.union(self._by_app(self.assignment.allow, app.name)),
                columns=app.columns,
            )
            expected = self._by_app(self.assignment.expect, app.name)
            found.append(state_lib.differences(changes, expected))
        return "\n".join(filter(None, found))

    def _by_app(self, given: Any, app: str) -> Sequence[Any]:
        """Return an application's part of what an assignment says of one or several."""
        if isinstance(given, Mapping):
            part: Sequence[Any] = given.get(app, ())
            return part
        return given if app == self._apps[0].name else ()

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
        self._before = {}


async def solution(
    assignment: Assignment, session: browser.BrowserSession
) -> AsyncGenerator[actions_lib.Action, None]:
    """Yield the actions of an assignment's oracle, the answer last.

    Raises:
        OracleError: The page is not as the oracle expects.
    """
    view = PageView(session, goal=assignment.goal)
    for step in _flat(assignment.steps):
        try:
            async for action in step(view):
                yield action
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
    """What goes wrong with the applications of an episode."""

    slow: float = 0.0
    """Seconds that every response takes longer."""
    fails_after: int | None = None
    """After how many steps pages answer with status 500; None for never."""
    logs_out_after: int | None = None
    """After how many steps the user's session ends; None for never."""

    async def strikes(self, turns: int, writer: asyncio.StreamWriter) -> bool:
        """Strike one connection; return whether it is answered."""
        if self.slow:
            await asyncio.sleep(self.slow)
        if self.fails_after is None or turns < self.fails_after:
            return False
        body = b"<h1>Internal Server Error</h1>"
        writer.write(
            b"HTTP/1.0 500 Internal Server Error\r\nContent-Type: text/html\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        await writer.drain()
        return True
