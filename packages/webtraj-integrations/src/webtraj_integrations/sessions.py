"""Episodes that another program drives: it resets, gets a page, and sends a model's reply.

A trainer that samples by itself brings the model; webtraj brings the tasks, the browsers, the
dialect and the record. `Sessions` holds what all episodes share: tasks, a pool of browsers, a
dataset. A `Session` plays one episode at a time:

    async with Sessions("miniwob/click-test", sessions=8, out="runs/rl") as sessions:
        session = sessions.session()
        turn = await session.reset(seed=3)
        turn = await session.step("Action: click('4')")

A reward is the task's own, or None if the task has no judge. An episode that the browser or the
machine ended has no reward either: `step` raises, so that no caller takes it for a score of 0.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

from webtraj import errors
from webtraj.agents import contexts as contexts_lib
from webtraj.agents import screens
from webtraj.agents.models.messages import without_markup
from webtraj.agents.reply_parser import Reply, parse_reply
from webtraj.environments.actions import Action
from webtraj.environments.actions.dialects import (
    DIALECTS,
    TOOL_DIALECTS,
    Dialect,
    make_dialect,
)
from webtraj.environments.base import outcome_of
from webtraj.environments.collecting_environment import (
    TrajectoryCollectingEnvironment,
    outcome_of_error,
)
from webtraj.environments.tasks import TaskSpec
from webtraj.rollouts import episode_environment
from webtraj.rollouts import recording as recording_lib
from webtraj.rollouts.episode import FATAL
from webtraj.runs.plan import PlannedEpisode, episode_seed, plan_tasks, specs_of_presets
from webtraj.settings.named import class_at, find_offered, make_of, nearest
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeInfo,
    Outcome,
    Phase,
    is_scored,
    reward_value,
)

if TYPE_CHECKING:
    from webtraj.collectors.base import TrajectoryCollector
    from webtraj.environments.base import Environment
    from webtraj.environments.browser.pool import BrowserPool

__all__ = [
    "ENTRY_POINT_GROUP",
    "EpisodeFailedError",
    "PageDialect",
    "Session",
    "Sessions",
    "Turn",
]

ENTRY_POINT_GROUP = "webtraj.dialects"

_LOGGER = logging.getLogger(__name__)

_TRIES = 3
"""How often `reset` tries to begin an episode: the browser may have died since the last one."""

_CLOSED = "This session is closed: its client left or was silent for too long. Begin another."


class EpisodeFailedError(errors.WebtrajError):
    """The browser, the machine or the model's server ended an episode.

    It has no reward; `reset` begins another.
    """

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome
        """The episode's outcome: ENV_ERROR, MODEL_ERROR or TIMEOUT."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a policy sees after a reset or a step, and the step's result."""

    task: str
    """The task's name: `click-test`."""
    goal: str
    """The task in words."""
    seed: int
    """The page's seed."""
    episode_id: str
    """The episode's id in the dataset; empty if nothing is recorded."""
    step: int
    """Steps taken so far."""
    heading: str
    """The page's title and URL."""
    page: str
    """The page as text, a line for each element; empty in the mode `coordinates`."""
    instructions: str = ""
    """How to write actions, for a system message; only on the first turn, and only of a built-in
    dialect."""
    notices: tuple[str, ...] = ()
    """What has happened since the last step, a line each: why an action failed, a dialog."""
    error: str = ""
    """Why the last action was not carried out; empty if it was. The first notice says it too."""
    image: bytes = b""
    """The page as a JPEG; empty if the mode shows no picture, or after `Sessions.pictures`."""
    reward: float | None = None
    """The step's reward; None on the first turn, and if the task has no judge."""
    done: bool = False
    """Whether the episode is over."""
    outcome: Outcome = Outcome.UNKNOWN
    """The episode's outcome, once it is over."""
    judged: bool = False
    """Whether the task has a judge."""


class PageDialect(Protocol):
    """A model's own dialect: how it is shown the pages of one episode, and how it replies.

    Installed packages offer such classes by name, in the entry-point group `webtraj.dialects`. An
    object is made for each episode, with the page's seed as argument.
    """

    channels: tuple[str, ...]
    """The channels of a browser environment's observations that it shows; read from the class."""

    def show(self, observation: Any) -> str:
        """Return the prompt for an observation."""

    def read(self, reply: str) -> Action:
        """Return the action in a reply to the last prompt; an `InvalidAction` if it has none."""


class Sessions:
    """Tasks, browsers and a dataset shared by sessions. Use as `async with`, on one event loop.

    Args:
        presets: One selector of tasks or several, of presets that use a browser; or tasks, such as
            one of the preset `web` with its start URL.
        sessions: How many sessions can have a page at the same time.
        out: The dataset: a folder, or a bucket's URL. None records nothing.
        dialect: The dialect of actions in replies (see `webtraj.environments.actions.dialects`), or
            the name of an installed `PageDialect`.
        context: How a page is shown: as text, with marks or by coordinates, with a picture or not;
            also as a mapping, such as `{"mode": "coordinates"}`. Settings about a page's history
            have no effect, so the limit of pictures is `pictures`; none has with a `PageDialect`.
        pictures: The most pictures of an episode, for callers that keep every one of them: later
            turns have no image. An episode in the mode `coordinates`, whose pages are nothing else,
            is truncated after as many steps. None for no limit.
        max_steps: Truncate an episode after this many steps; None leaves it to the task.
        seed: The base seed of resets that give none.
        policy: The policy's name in the records.
        reward: What a trainer learns from: "outcome", 1 for a success and 0 for a failure, or
            "environment", the sum of the environment's rewards. Shaped rewards, such as raw ones of
            MiniWoB++, differ between attempts that all failed, which teaches nothing.
        options: Options of the presets.
        storage_options: Options of a bucket.
        browsers: Settings of the browsers.

    Raises:
        InvalidInputError: An argument is invalid, a preset does not use a browser, or the context
            lacks the picture that the dialect's actions refer to.
        UnknownPresetError: No preset has that name.
    """

    def __init__(
        self,
        presets: str | Sequence[str | TaskSpec],
        *,
        sessions: int = 8,
        out: str | os.PathLike[str] | None = None,
        dialect: str = "webtraj",
        context: contexts_lib.ContextSettings | Mapping[str, Any] | None = None,
        pictures: int | None = None,
        max_steps: int | None = None,
        seed: int = 0,
        policy: str = "",
        reward: Literal["outcome", "environment"] = "outcome",
        options: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        browsers: episode_environment.Browsers | None = None,
    ) -> None:
        check_whole("sessions", sessions, 1)
        check_whole("seed", seed, 0)
        for name, limit in (("pictures", pictures), ("max_steps", max_steps)):
            if limit is not None:
                check_whole(name, limit, 1)
        _check_type("presets", presets, str | Sequence, "'miniwob/all' or a list of selectors")
        _check_type("out", out, str | os.PathLike | None, "a folder, or a bucket's URL")
        _check_type("dialect", dialect, str, "a dialect's name, such as 'webtraj'")
        self.dialect = dialect
        """The dialect of actions in replies."""
        self.context = _context_of(context)
        """How a page is shown."""
        self.pictures = pictures
        """The most pictures of an episode; None for no limit."""
        self.page_dialect = _page_dialect(dialect)
        """What makes the `PageDialect` of an episode from its seed; None for a built-in dialect."""
        if self.page_dialect is None:
            _check_pictures(self.dialect, self.context)
        self.policy = policy
        """The policy's name in the records."""
        if reward not in ("outcome", "environment"):
            raise errors.InvalidInputError(
                f"Unknown reward={reward!r:.60}; expected 'outcome' or 'environment'."
            )
        self.reward = reward
        """What a trainer learns from."""
        self.size = sessions
        """How many sessions can have a page at the same time."""
        self.outcomes: collections.Counter[Outcome] = collections.Counter()
        """Number of finished episodes by outcome."""
        self.open: set[Session] = set()
        """The sessions that have a page."""
        self.failure: errors.CollectorError | None = None
        """An episode that could not be recorded when no caller waited: raised at the end."""
        given = [presets] if isinstance(presets, str) else presets
        self._plan = plan_tasks(spec for one in given for spec in _specs(one))
        if not self._plan:
            raise errors.InvalidInputError("Sessions need at least one preset; got none.")
        without = [one.task for one in self._plan if not one.selection.uses_browser]
        if without:
            raise errors.InvalidInputError(
                f"The task {without[0]!r} is not played in a browser, so there is no page to show. "
                "Use presets with a browser; `webtraj presets` lists them."
            )
        self._by_name = {one.task: one for one in self._plan}
        self._max_steps = max_steps
        self._seed = seed
        shown = self.context if self.page_dialect is None else self.page_dialect
        channels = (*shown.channels, "timings", "info")
        self._options = episode_environment.environment_options(self._plan, options or {}, channels)
        self._out, self._storage_options = out, storage_options
        self._collector: TrajectoryCollector | None = None
        self._browsers = browsers or episode_environment.Browsers()
        self.wait_timeout = self._browsers.wait_timeout
        """Seconds that a reset waits for a free page."""
        self._pool: BrowserPool | None = None
        self._number = 0
        self._stack = contextlib.AsyncExitStack()

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks' names, in order."""
        return tuple(self._by_name)

    async def __aenter__(self) -> Self:
        """Open the dataset and the pool. No browser starts before the first reset.

        Raises:
            BrowserNotFoundError: No browser is installed.
            WebtrajError: The dataset cannot be opened.
        """
        await episode_environment.check_environments(self._plan, self._options)
        executable = await asyncio.to_thread(self._browsers.find)
        if self._out is not None:
            written = recording_lib.settle_format(None, self._out, self._storage_options)
            opened = recording_lib.open_collector(self._out, self._storage_options, written)
            self._collector = await self._stack.enter_async_context(opened)
        pool = self._browsers.open(self.size, executable)
        self._pool = await self._stack.enter_async_context(pool)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.close_open()
        finally:  # A second signal cancels the line above; what is recorded is sealed all the same.
            await self._stack.aclose()
        if self.failure is not None and not isinstance(exc, Exception):
            raise self.failure

    async def close_open(self) -> None:
        """Close the sessions that have a page.

        Raises:
            CollectorError: An episode could not be recorded.
        """
        closing = (session.close() for session in list(self.open))
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(error, BaseException):
                raise error

    def session(self) -> Session:
        """Return a new session. Its first reset takes a page."""
        return Session(self)

    def choose(
        self, task: str | None, seed: int | None, goal: str = ""
    ) -> tuple[PlannedEpisode, int]:
        """Return an episode's task and seed.

        Args:
            task: The task's name. None lets the seed choose; without a seed, it takes each task in
                turn.
            seed: The page's seed; None for a new seed.
            goal: The goal, for a task without one.

        Raises:
            InvalidInputError: No task has that name, it has a goal of its own, or the seed is not a
                whole number from 0.
        """
        if seed is not None:
            check_whole("seed", seed, 0)
        if task is not None:
            task = self._resolve_name(str(task))
        place = self._number if seed is None else seed
        chosen = self._plan[place % len(self._plan)] if task is None else self._by_name[task]
        if goal:
            if chosen.spec.preset != "web" or chosen.spec.goal:
                raise errors.InvalidInputError(
                    f"The task {chosen.task!r} has a goal of its own; leave the goal out."
                )
            chosen = dataclasses.replace(chosen, spec=dataclasses.replace(chosen.spec, goal=goal))
        if seed is None:
            seed = episode_seed(self._seed, chosen.task, place)
            self._number += 1
        return chosen, seed

    def _resolve_name(self, task: str) -> str:
        """Return a task's name, which may be given with its preset: `miniwob/click-test`."""
        name = task
        while name not in self._by_name and "/" in name:
            name = name.partition("/")[2]
        if name not in self._by_name:
            some = ", ".join(self.tasks[:10]) + (", ..." if len(self.tasks) > 10 else "")
            raise errors.InvalidInputError(
                f"There is no task {task!r:.60}; expected one of {some}."
            )
        return name

    def make(self, chosen: PlannedEpisode, info: EpisodeInfo) -> Environment:
        """Make a recorded environment of one task."""
        environment = episode_environment.make_environment(chosen, self._options, self._pool)
        most = self._max_steps
        if self.pictures is not None and self.context.mode == "coordinates":
            own = most or getattr(environment, "max_steps", None)
            most = min(own or self.pictures, self.pictures)
        set_max_steps = getattr(environment, "set_max_steps", None)
        if most is not None and callable(set_max_steps):
            set_max_steps(most)
        if self._collector is None:
            return environment
        return TrajectoryCollectingEnvironment(environment, self._collector, episode_info=info)


class Session:
    """One episode at a time. Made by `Sessions.session`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._environment: Environment | None = None
        self._turn: Turn | None = None
        self._marks: tuple[str, ...] | None = None
        self._dialect: Dialect | None = None
        self._page_dialect: PageDialect | None = None
        self._total = 0.0
        self._failed = ""
        self._closed = False
        self._lock = asyncio.Lock()

    @property
    def total_reward(self) -> float | None:
        """The sum of the episode's rewards; None while it is running, or if it was not scored."""
        turn = self._turn
        if turn is None or not turn.done or turn.reward is None:
            return None
        return self._total if is_scored(turn.outcome, EndReason.TERMINATED) else None

    @property
    def training_reward(self) -> float | None:
        """The finished episode's reward for training, by `Sessions.reward`."""
        total = self.total_reward
        if total is None or self._turn is None or self._sessions.reward == "environment":
            return total
        return float(self._turn.outcome is Outcome.SUCCESS)

    @property
    def busy(self) -> bool:
        """Whether a reset, a step or the closing is under way."""
        return self._lock.locked()

    async def reset(
        self,
        *,
        task: str | None = None,
        seed: int | None = None,
        goal: str = "",
        group_id: str = "",
        attempt: int = 0,
        metadata: Mapping[str, Any] | None = None,
    ) -> Turn:
        """Begin an episode. An open episode ends as CLOSED.

        Args:
            task: The task's name. None lets the seed choose; without a seed, it takes each task in
                turn.
            seed: The page's seed. The same seed gives the same page. None means a new seed.
            goal: The goal, for a task of the preset `web` without one.
            group_id: Shared by attempts that are compared with each other, as in GRPO.
            attempt: The number of this attempt in its group.
            metadata: Recorded with the episode.

        Raises:
            InvalidInputError: No task has that name, or a number is not a whole number from 0.
            CollectorError: The episode that was open could not be recorded.
            EpisodeFailedError: Three tries got no page, or none became free in time.
            EnvironmentMisuseError: The session is closed.
        """
        async with self._lock:
            if self._closed:
                raise errors.EnvironmentMisuseError(_CLOSED)
            check_whole("attempt", attempt, 0)
            chosen, seed = self._sessions.choose(task, seed, goal)
            self._turn, self._total, self._failed = None, 0.0, ""
            info = EpisodeInfo(
                policy=self._sessions.policy,
                group_id=str(group_id),
                attempt=attempt,
                metadata=dict(metadata or {}),
            )
            begun = asyncio.get_running_loop().time()
            for tries_left in reversed(range(_TRIES)):
                await self._leave(None)
                self._environment = self._sessions.make(chosen, info)
                self._sessions.open.add(self)
                set_seed = getattr(self._environment, "set_seed", None)
                if callable(set_seed):
                    set_seed(seed)
                try:
                    timestep = await self._environment.reset()
                except BaseException as error:
                    await self._leave(error)
                    if not isinstance(error, Exception) or isinstance(error, FATAL):
                        raise
                    self._sessions.outcomes[outcome_of_error(error, Phase.RESET)] += 1
                    waited = asyncio.get_running_loop().time() - begun
                    if not tries_left or waited >= self._sessions.wait_timeout:
                        raise self._failure(error, Phase.RESET) from error
                else:
                    break
            self._turn = self._make_turn(timestep, chosen.task, seed, step=0)
            return self._turn

    async def step(self, reply: Any) -> Turn:
        """Carry out a reply. A reply without a valid action counts as a step and changes nothing.

        Args:
            reply: A model's reply: text, or the JSON that the dialect reads.

        Raises:
            EpisodeFailedError: The browser or the machine ended the episode.
            EnvironmentMisuseError: No episode is running.
        """
        if self._page_dialect is not None:
            read = Reply(self._page_dialect.read(str(reply)))
        elif self._dialect is not None:
            read = parse_reply(reply, self._dialect, marks=self._marks)
        else:  # No page was shown yet, which `act` refuses.
            return await self.act(Decision())
        return await self.act(
            Decision(
                action=read.action,
                thought=read.thought,
                memory=read.memory,
                parse_error=read.parse_error,
                metadata={"reply": reply},
            )
        )

    async def act(self, decision: Decision) -> Turn:
        """Carry out a decision that has been read already. See `step`."""
        async with self._lock:
            if self._closed:
                raise errors.EnvironmentMisuseError(_CLOSED)
            before, environment = self._turn, self._environment
            if environment is None or before is None or before.done:
                why = self._failed or ("it is over" if before is not None else "")
                raise errors.EnvironmentMisuseError(
                    f"No episode is running{': ' + why if why else ''}. Reset first."
                )
            try:
                timestep = await environment.step(decision)
            except BaseException as error:
                self._turn = None
                await self._leave(error)
                if not isinstance(error, Exception) or isinstance(error, FATAL):
                    raise
                self._sessions.outcomes[outcome_of_error(error, Phase.STEP)] += 1
                raise self._failure(error, Phase.STEP) from error
            self._turn = self._make_turn(
                timestep,
                before.task,
                before.seed,
                step=before.step + 1,
                why_not=decision.parse_error,
            )
            self._total += self._turn.reward or 0.0
            if self._turn.done:
                self._sessions.outcomes[self._turn.outcome] += 1
            return self._turn

    async def close(self) -> None:
        """Give the page back; an open episode ends as CLOSED. Idempotent.

        Raises:
            CollectorError: The episode could not be recorded.
        """
        async with self._lock:
            self._closed = True
            await self._leave(None)

    async def leave(self) -> None:
        """Close without a caller that waits. The end of `Sessions` raises any CollectorError."""
        try:
            await self.close()
        except errors.CollectorError as error:
            self._sessions.failure = error

    def _make_turn(
        self, timestep: Any, task: str, seed: int, *, step: int, why_not: str = ""
    ) -> Turn:
        environment, settings = self._environment, self._sessions.context
        last_action = timestep.observation.get("last_action") or {}
        make_own = self._sessions.page_dialect
        if make_own is not None:
            if not step or self._page_dialect is None:
                self._page_dialect = make_own(seed)
            page = contexts_lib.Page(text=self._page_dialect.show(timestep.observation))
            text = page.text
        else:
            page = contexts_lib.page_of({**timestep.observation, "last_action": {}}, settings)
            text, _ = contexts_lib.cut_lines(
                page.text, settings.page_tokens, contexts_lib.estimate_tokens
            )
            if not step:
                viewport = getattr(environment, "viewport", None)
                viewport = viewport or screens.viewport_of(timestep.observation)
                self._dialect = screens.dialect_for(self._sessions.dialect, viewport, page.image)
        self._marks = page.marks
        most = self._sessions.pictures
        error = without_markup(why_not or last_action.get("error", ""))
        said = error and make_own is None
        notice = (f"Your last action was not carried out. {error}",) if said else ()
        outcome = outcome_of(environment)
        judged = outcome is not Outcome.UNKNOWN
        done = bool(timestep.last())
        return Turn(
            task=task,
            goal=without_markup(str(timestep.observation.get("goal", ""))),
            seed=seed,
            episode_id=(self._turn.episode_id if step and self._turn else self._id()),
            step=step,
            heading=page.heading,
            page=text,
            instructions="" if step or self._dialect is None else self._dialect.prompt(),
            notices=notice + page.notices,
            error=error,
            image=page.image if most is None or step < most else b"",
            reward=float(reward_value(timestep.reward)) if judged and step else None,
            done=done,
            outcome=outcome if done else Outcome.UNKNOWN,
            judged=judged,
        )

    def _id(self) -> str:
        return getattr(self._environment, "episode_id", None) or ""

    def _failure(self, error: Exception, phase: Phase) -> EpisodeFailedError:
        self._failed = f"{type(error).__name__}: {error}"
        return EpisodeFailedError(
            f"The episode ended without a reward: {self._failed} (reset begins another)",
            outcome_of_error(error, phase),
        )

    async def _leave(self, error: BaseException | None) -> None:
        """Give the page back, as if the error had ended an `async with` block."""
        environment, self._environment = self._environment, None
        if environment is None:
            return
        self._sessions.open.discard(self)
        try:
            if error is None:
                await environment.close()
            else:
                await environment.__aexit__(type(error), error, error.__traceback__)
        except errors.CollectorError:
            raise
        except Exception:
            _LOGGER.warning("An environment could not be closed.", exc_info=True)


def _specs(one: Any) -> list[TaskSpec]:
    if isinstance(one, TaskSpec):
        return [one]
    _check_type("presets", one, str, "selectors or tasks")
    return specs_of_presets([one])


def _page_dialect(name: str) -> Any:
    """Return the class of an installed dialect; None for a built-in one."""
    if name.partition(":")[0] in DIALECTS:
        return None
    homes = find_offered(ENTRY_POINT_GROUP, DIALECTS)
    if name not in homes:
        known = (*DIALECTS, *homes)
        raise errors.InvalidInputError(
            f"Unknown dialect {name!r:.60}. {nearest(name, known)}"
            f"Choose one of: {', '.join(known)}."
        )
    return class_at(homes[name])


def _context_of(given: Any) -> contexts_lib.ContextSettings:
    settings = contexts_lib.ContextSettings
    if isinstance(given, Mapping):
        given = make_of(settings, "context", given, kind="setting")
    _check_type("context", given, settings | None, "ContextSettings, or a mapping of its fields")
    return given or settings()


def _check_pictures(dialect: str, context: contexts_lib.ContextSettings) -> None:
    """Raise if the dialect's actions refer to a picture that the context does not show."""
    make_dialect(dialect)
    name = dialect.partition(":")[0]
    if name == "webgym_marks":
        missing = "" if context.mode == "marks" else "needs the mode 'marks'"
    else:
        points = name in ("webgym", *TOOL_DIALECTS)
        missing = "needs pictures" if points and not context.with_images else ""
    if missing:
        raise errors.InvalidInputError(
            f"The dialect {dialect!r} {missing}, but the mode is {context.mode!r}"
            f"{'' if context.with_images else ' without pictures'}. Choose another mode, such as "
            f"{'marks' if name == 'webgym_marks' else 'coordinates'!r}, or the dialect 'webtraj'."
        )


def _check_type(name: str, value: Any, expected: Any, words: str) -> None:
    if not isinstance(value, expected):
        raise errors.InvalidInputError(f"{name} takes {words}; got {value!r:.60}.")


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise InvalidInputError unless a value is a whole number from `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
        raise errors.InvalidInputError(f"{name} is a whole number from {least}; got {value!r:.60}.")
