"""The browser environment: dm_env's contract for a browser session and its task."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import dm_env
from dm_env import specs

import webtraj
from webtraj import errors as errors_lib
from webtraj import redaction as redaction_lib
from webtraj import trajectory as trajectory_lib
from webtraj.environments import actions as actions_lib
from webtraj.environments import base as base_lib
from webtraj.environments.actions import spec as action_spec_lib
from webtraj.environments.browser import access as access_lib
from webtraj.environments.browser import executor as executor_lib
from webtraj.environments.browser import lease as lease_lib
from webtraj.environments.browser import network as network_lib
from webtraj.environments.browser import observation as observation_lib
from webtraj.environments.browser import observer as observer_lib
from webtraj.environments.browser import page_copy as copying_lib
from webtraj.environments.browser import perturbations as perturbations_lib
from webtraj.environments.browser import pool as pool_lib
from webtraj.environments.browser import recorded_channels as reading_lib
from webtraj.environments.browser import secret_keeper as secret_keeper_lib
from webtraj.environments.browser import session as session_lib
from webtraj.environments.browser import settle_policy as settle_policy_lib
from webtraj.environments.browser import tasks as tasks_lib

if TYPE_CHECKING:
    from webtraj.environments.browser import listener as listener_lib

__all__ = ["BrowserEnvironment", "make_web_environment"]


_BUSY = (
    "Another call to this environment has not returned; await it first. An environment runs one "
    "episode at a time: create one environment per concurrent episode."
)
_CLOSED = "This environment is closed; make a new one."
_NEVER_CLOSED = (
    "A browser environment was never closed, so it kept a browser for longer than needed. Use "
    "`async with webtraj.make(...) as env`, or await `env.close()`."
)

_SERVER_ERROR = 500
"""A first page that answers with this status or above means that its site is broken."""

_LOOKS_AT_COPY: Final = 5
"""The most observations of a restored page before it must show what the copied page showed."""
_PAUSE_AT_COPY: Final = 0.1
"""Seconds between these observations."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """A copy of an episode's world."""

    task: str
    kept: Any
    """What the task keeps outside the browser."""
    page: copying_lib.PageCopy
    home: str
    seed: int
    goal: str
    steps: int
    verdict: tasks_lib.Verdict
    action: actions_lib.Action | None
    """The last one; None after the reset."""
    last_action: Mapping[str, Any]
    axtree: str
    next_ref: int
    observer: Any


class BrowserEnvironment(base_lib.Environment):
    """An environment for tasks in a browser; each `reset` starts the next task.

    `step` takes an `Action`, a `Decision` that holds one, or a string in BrowserGym's dialect. An
    action that cannot be done (a dead ref, a covered element, a reply without an action) leaves
    the page alone and is reported in the observation's `last_action`. A failure of the browser
    raises a `BrowserError`; the next `reset` then starts on a fresh page.

    Args:
        tasks: A task, or several to play in turn.
        seed: Episode k, counted over all resets, uses the seed `seed + k`.
        pool: The browser pool. None shares one among all environments of the event loop that were
            given none; it closes with the last of them.
        observe: Channels to observe, or an `Observe` or its fields; None for the default channels.
        max_steps: The step limit, after which an episode is truncated; None for no limit. By
            default the task's own limit, or else `default_max_steps`.
        default_max_steps: The limit for tasks without their own.
        settle: When a page counts as settled after an action.
        policy: What the agent may reach beyond the first page; by default nothing.
        secrets: Values by name that must not be recorded: each is recorded as `<secret:name>` and
            painted over in screenshots. The agent sees the original values.
        redact_passwords: Whether to redact the contents of password fields in the same way.
        redaction: What else must not be recorded (see `RedactionRules`), by its form or its place
            in a page. The tasks' own rules apply too.
        viewport: Width and height in CSS pixels.
        context_options: More options for Playwright's `Browser.new_context`.
        perturbation: A change of the tasks' surroundings: one of `PERTURBATIONS`, or your own.

    Raises:
        InvalidInputError: An argument is invalid.
    """

    shares_event_loop = True
    """Makes `as_sync` run all browser environments on one loop, where they share browsers."""

    def __init__(
        self,
        tasks: tasks_lib.BrowserTask | Sequence[tasks_lib.BrowserTask],
        *,
        seed: int = 0,
        pool: pool_lib.BrowserPool | None = None,
        observe: observation_lib.Observe | Mapping[str, Any] | Iterable[str] | None = None,
        max_steps: int | Literal["task"] | None = "task",
        default_max_steps: int | None = None,
        settle: settle_policy_lib.SettlePolicy = settle_policy_lib.LOCAL_PAGE,
        policy: access_lib.AccessPolicy | None = None,
        secrets: Mapping[str, str] | None = None,
        redact_passwords: bool = True,
        redaction: redaction_lib.RedactionRules | Mapping[str, Any] | Iterable[str] | None = None,
        viewport: tuple[int, int] = (1280, 720),
        context_options: Mapping[str, Any] | None = None,
        perturbation: perturbations_lib.Perturbation | str | None = None,
    ) -> None:
        several = tuple(tasks) if isinstance(tasks, Sequence) else (tasks,)
        if not several:
            raise errors_lib.InvalidInputError("A browser environment needs at least one task.")
        for task in several:
            if not isinstance(task, tasks_lib.BrowserTask):
                raise errors_lib.InvalidInputError(
                    f"A browser environment takes tasks, such as a WebTask; got {task!r:.200}. A "
                    "task of your own inherits from webtraj.environments.browser.tasks.BrowserTask."
                )
        self._tasks = several
        self._seed = seed
        self._next_seed: int | None = None
        self._episode = -1
        self._episode_seed = seed
        self._observe = observation_lib.Observe.of(observe)
        self._default_max_steps = default_max_steps
        self.set_max_steps(max_steps)
        self._policy = policy or access_lib.NoAccess()
        confined = access_lib.network_of(self._policy) is not None
        pages = pool or pool_lib.SharedPool(confined=confined)
        self._share = pages if isinstance(pages, pool_lib.SharedPool) else None
        self._keeper = secret_keeper_lib.SecretKeeper(
            secrets, passwords=redact_passwords, rules=_rules(redaction, several)
        )
        self._context_options = {
            "viewport": {"width": viewport[0], "height": viewport[1]},
            **(context_options or {}),
        }
        self._perturbation = perturbations_lib.Perturbation.of(perturbation)
        self._sessions = _Sessions(
            pool=pages,
            policy=self._policy,
            observe=self._observe,
            settle=settle,
            keeper=self._keeper,
            context_options=self._context_options,
            perturbation=self._perturbation,
        )
        self._home = lease_lib.LoopAffinity("This environment")
        self._active = False
        self._busy = False
        self._closed = False
        self._closing = asyncio.Lock()
        self._abandoned = weakref.finalize(
            self, _give_back, self._sessions, self._share, self._home
        )
        self._abandoned.atexit = False
        self._goal = ""
        self._observer = observer_lib.Observer(self._observe, self._keeper)
        self._steps = 0
        self._verdict = tasks_lib.Verdict()
        self._task_to_tear_down: tasks_lib.BrowserTask | None = None
        self._solution: tasks_lib.ScriptedSolution | None = None
        self._executor: executor_lib.ActionExecutor | None = None
        self._outcome = trajectory_lib.Outcome.UNKNOWN
        self._end: dm_env.TimeStep | None = None
        """The last timestep of an episode that has ended."""
        self._last_step: tuple[actions_lib.Action | None, observation_lib.LastAction, float, float]
        """The arguments of `_result` for the last step; the reset has no action."""
        self._keeps_moments = False
        self.moments: list[Mapping[str, str]] = []
        """The page's `url`, `title` and `axtree` after each change since the last action, if they
        are kept (`keep_moments`). Frames of another origin are left out."""

    @property
    def secret_keeper(self) -> secret_keeper_lib.SecretKeeper:
        """The secrets of the episodes, and their redaction."""
        return self._keeper

    @property
    def viewport(self) -> tuple[int, int] | None:
        """Width and height in CSS pixels; None if the window decides."""
        size = self._perturbation.options(self._context_options)["viewport"]
        return (size["width"], size["height"]) if size else None

    # The contract.

    async def reset(self) -> dm_env.TimeStep:
        """Begin the next episode. See `Environment.reset`.

        Raises:
            PageLoadError: The first page did not load, or its site answered 5xx.
            BrowserError: The browser failed.
            ConcurrentCallError: Another call has not returned yet.
            EnvironmentMisuseError: The environment is closed.
        """
        with self._exclusively():
            return await self._begin_episode()

    async def step(self, action: Any) -> dm_env.TimeStep:
        """Acts, waits until the page has settled, and observes. See `Environment.step`.

        Raises:
            InvalidInputError: `action` is not an action of this environment.
            BrowserError: The browser failed.
            ConcurrentCallError: Another call has not returned yet.
            EnvironmentMisuseError: The environment is closed.
        """
        with self._exclusively():
            if not self._active:
                return await self._begin_episode()
            return await self._act(action_spec_lib.to_action(action))

    async def close(self) -> None:
        """Return the page to the pool. Idempotent; a second call waits for the first.

        The last environment that shares a pool closes it.

        Raises:
            EnvironmentMisuseError: Another running event loop uses the environment.
        """
        if self._home.gone:  # The page and browser are gone with it.
            self._closed = True
            self._abandoned.detach()
            return
        self._home.enter()
        self._closed = True
        self._active = False
        async with self._closing:
            try:
                await self._end_task()
                try:
                    await self._sessions.park(self._executor)
                finally:
                    await self._sessions.close()
            finally:
                if self._share is not None:
                    await self._share.close()
            self._abandoned.detach()

    @property
    def can_copy(self) -> bool:
        """Whether `snapshot` may return a copy; False if no episode of the task can be copied."""
        copies = type(self.task).snapshot is not tasks_lib.BrowserTask.snapshot
        return copies and not self.task.shares_context

    async def snapshot(self) -> Any:
        """Return a copy of the episode's world. See `CopiesWorld`.

        None if the task cannot copy its own state, the page cannot be copied (see `PageCopy`), the
        page may show secrets, or no tree is observed by which to compare the copy.

        Raises:
            BrowserError: The browser failed.
            ConcurrentCallError: Another call has not returned yet.
            EnvironmentMisuseError: No episode is running.
        """
        with self._one_at_a_time():
            session, task = self.session, self.task
            if not self.can_copy or self._keeper.covers or not self._observer.axtree:
                return None
            page = await copying_lib.PageCopy.of(session)
            kept = None if page is None else await task.snapshot(session)
            if page is None or kept is None:
                return None
            action, last_action, *_ = self._last_step
            return _Snapshot(
                task=task.name,
                kept=kept,
                page=page,
                home=session.boundary.home,
                seed=self._episode_seed,
                goal=self._goal,
                steps=self._steps,
                verdict=self._verdict,
                action=action,
                last_action=last_action,
                axtree=self._observer.axtree,
                next_ref=session.next_ref,
                observer=self._observer.snapshot(),
            )

    async def restore(self, snapshot: Any) -> dm_env.TimeStep | None:
        """Begin the next episode in a copy of a world. See `CopiesWorld`.

        None if the restored page shows something else than the copied one.

        Raises:
            InvalidInputError: It is not a copy of the next episode's task.
            BrowserError: The browser failed.
            ConcurrentCallError: Another call has not returned yet.
            EnvironmentMisuseError: The environment is closed.
        """
        with self._exclusively():
            task = self._tasks[(self._episode + 1) % len(self._tasks)]
            if not isinstance(snapshot, _Snapshot) or snapshot.task != task.name:
                raise errors_lib.InvalidInputError(
                    f"{snapshot!r:.100} is not a copy of the task {task.name!r}."
                )
            return await self._begin_in_copy(snapshot)

    def observation_spec(self) -> dict[str, Any]:
        """See `Environment.observation_spec`."""
        return observation_lib.observation_spec(self._observe)

    def action_spec(self) -> specs.Array:
        """See `Environment.action_spec`."""
        return action_spec_lib.ActionSpec()

    def reward_spec(self) -> specs.Array:
        """See `Environment.reward_spec`."""
        return specs.Array(shape=(), dtype=float, name="reward")

    def discount_spec(self) -> specs.BoundedArray:
        """See `Environment.discount_spec`."""
        return specs.BoundedArray(shape=(), dtype=float, minimum=0.0, maximum=1.0, name="discount")

    async def ref_of(self, selector: str) -> str | None:
        """Return the ref of the first element that matches a CSS selector; None if none does."""
        with self._one_at_a_time():
            found = await self.session.call("find", [observation_lib.selector_path(selector), None])
        return None if found is None else str(found)

    def keep_moments(self, kept: bool) -> None:
        """Begin, or stop, to note in `moments` what the page shows."""
        self._keeps_moments = kept

    async def look_again(self) -> dm_env.TimeStep:
        """Observe the page again, without an action or a step, and return a new last timestep.

        After an episode's end, only the observation is new. Reward and outcome stay.

        Raises:
            BrowserError: The browser failed.
            ConcurrentCallError: Another call has not returned yet.
            EnvironmentMisuseError: No episode has begun.
        """
        with self._exclusively():
            session = self._sessions.last
            if session is None or not (self._active or self._end):
                raise errors_lib.EnvironmentMisuseError("No episode has begun; call reset() first.")
            action, last_action, begun, acted = self._last_step
            seen = await self._look(session)
            if self._end and not self._active:
                observation = await self._observation(
                    session, seen, last_action, begun, acted, again=True
                )
                return self._end._replace(observation=observation)
            return await self._result(
                session, action, seen, last_action, begun=begun, acted=acted, again=True
            )

    @property
    def truncates(self) -> bool:
        """Whether the step limit has been reached."""
        return self.max_steps is not None and self._steps >= self.max_steps

    # Episodes.

    @property
    def task(self) -> tasks_lib.BrowserTask:
        """The task of the current episode. Before the first episode, its task."""
        return self._tasks[max(self._episode, 0) % len(self._tasks)]

    @property
    def has_judge(self) -> bool:
        """Whether the task decides about success itself."""
        return self.task.has_judge

    def set_seed(self, seed: int) -> None:
        """Set the next episode's seed, overriding `seed + k`."""
        self._next_seed = seed

    def set_max_steps(self, max_steps: int | Literal["task"] | None) -> None:
        """Change the step limit from now on; see the constructor.

        Raises:
            InvalidInputError: The limit is invalid.
        """
        if max_steps not in (None, "task") and not (isinstance(max_steps, int) and max_steps >= 1):
            raise errors_lib.InvalidInputError(
                f"max_steps must be at least 1, None for no limit, or 'task' for the task's own; "
                f"got {max_steps!r}."
            )
        self._max_steps = max_steps

    @property
    def max_steps(self) -> int | None:
        """The step limit of the current episode. Before the first episode, its limit."""
        if self._max_steps == "task":
            own = self.task.max_steps
            return self._default_max_steps if own is None else own
        return self._max_steps

    def describe_episode(self) -> Mapping[str, Any]:
        """Return the current or next episode's description. See `DescribesEpisode`."""
        coming = self._episode if self._active else self._episode + 1
        metadata = dict(self.task.metadata) if self._active else {}
        if self._perturbation.name:
            metadata["perturbation"] = self._perturbation.name
        return {
            "task": self._tasks[coming % len(self._tasks)].name,
            "goal": self._goal if self._active else "",
            "site": self._tasks[coming % len(self._tasks)].site,
            "seed": self._episode_seed if self._active else self._seed_of(coming),
            "environment": type(self).__name__,
            "versions": self._versions(),
            **({"metadata": metadata} if metadata else {}),
        }

    def episode_outcome(self) -> trajectory_lib.Outcome:
        """Return the episode's outcome, so far or final. See `JudgesEpisode`.

        UNKNOWN if the task has no judge.
        """
        return self._judge_outcome() if self._active else self._outcome

    def redact_action(self, action: Any) -> Any:
        """Return the recordable form of an action. See `Redacts`."""
        return self._keeper.redact_action(action)

    def redact(self, value: Any) -> Any:
        """Return the recordable form of a value. See `Redacts`."""
        return self._keeper.redact(value)

    def take_redactions(self) -> Mapping[str, int]:
        """Return the number of redactions since the last call, by name. See `Redacts`."""
        return self._keeper.take_redactions()

    @property
    def has_oracle(self) -> bool:
        """Whether every task has a scripted solution."""
        return all(task.has_solution for task in self._tasks)

    async def cheat(self) -> actions_lib.Action | None:
        """Return the scripted solution's next action, to be passed to `step`.

        None if the task has no solution, or if the solution is finished.

        Raises:
            EnvironmentMisuseError: No episode is running.
            BrowserError: The browser failed.
        """
        session = self.session
        task = self.task
        if self._solution is None:
            if not task.has_solution:
                return None
            self._solution = task.solve(session, self._goal)
        if self._perturbation.dismiss:
            ref = await session.call("find", [[self._perturbation.dismiss], None])
            if ref is not None:
                return actions_lib.Click(str(ref))
        return await self._solution.next_action()

    @property
    def session(self) -> session_lib.BrowserSession:
        """The session of the current episode.

        Raises:
            EnvironmentMisuseError: No episode is running.
        """
        if not self._active or self._sessions.last is None:
            raise errors_lib.EnvironmentMisuseError("No episode is running; call reset() first.")
        return self._sessions.last

    async def _begin_episode(self) -> dm_env.TimeStep:
        await self._turn_to_next(self._seed_of(self._episode + 1))
        try:
            observation = await self._set_up(self.task)
        except errors_lib.BrowserError:
            if not self._sessions.reused:
                raise
            # Retry on a fresh page, which the last episode cannot have broken.
            await self._sessions.drop()
            observation = await self._set_up(self.task)
        self._active = True
        return dm_env.restart(observation)

    async def _turn_to_next(self, seed: int) -> None:
        """End the last episode, and turn to the next one."""
        self._active = False
        self._end = None
        await self._end_task()
        self._keeper.begin_episode()
        self._episode += 1
        self._episode_seed = seed
        self._next_seed = None

    async def _begin_in_copy(self, copy: _Snapshot) -> dm_env.TimeStep | None:
        await self._turn_to_next(copy.seed)
        session, _ = await self._session_for(self.task)
        async with self.task.restoring(session, copy.kept):
            if not await self._reaches(copy, session):
                self._sessions.suspect()
                self._episode -= 1
                return None
        session.boundary.home = copy.home
        self._goal, self._steps, self._verdict = copy.goal, copy.steps, copy.verdict
        self._outcome = trajectory_lib.Outcome.UNKNOWN
        session.forget_events()
        self._observer.restore(copy.observer)
        begun = time.perf_counter()
        last_action: Any = dict(copy.last_action)
        self._last_step = (copy.action, last_action, begun, begun)
        seen = await self._look(session)
        observation = await self._observation(session, seen, last_action, begun, begun, again=True)
        self._active = True
        if copy.action is None:
            return dm_env.restart(observation)
        return dm_env.transition(copy.verdict.reward, observation, 1.0)

    async def _reaches(self, copy: _Snapshot, session: session_lib.BrowserSession) -> bool:
        """Bring the session to the copied page; return whether it shows the same, including refs.

        Elements keep the refs that the agent knows.
        """
        then, refs = reading_lib.without_refs(copy.axtree), reading_lib.refs_of(copy.axtree)
        if not await copy.page.open(session):
            return False
        for left in reversed(range(_LOOKS_AT_COPY)):
            await self._look(session)
            if await copy.page.finish(session):
                now = (await self._look(session))["axtree"]
                found = reading_lib.refs_of(now)
                if reading_lib.without_refs(now) == then and len(found) == len(refs):
                    await session.rename_refs(zip(found, refs, strict=True), copy.next_ref)
                    return True
            if left:
                await asyncio.sleep(_PAUSE_AT_COPY)
        return False

    async def _session_for(
        self, task: tasks_lib.BrowserTask
    ) -> tuple[session_lib.BrowserSession, executor_lib.ActionExecutor]:
        """Return a session that is ready for an episode of the task, and its action executor."""
        self._observer.camera.asked = False
        session, executor = await self._sessions.session_for(task), self._executor
        if executor is None or executor.session is not session:
            policy = access_lib.at_home(self._policy, task.start_url)
            executor = self._executor = executor_lib.ActionExecutor(session, policy)
        await executor.rest()
        self._task_to_tear_down = task
        await session.begin_episode()
        return session, executor

    async def _set_up(self, task: tasks_lib.BrowserTask) -> dict[str, Any]:
        """Set up a session for the episode; return the first observation."""
        self.moments = []
        begun = time.perf_counter()
        session, executor = await self._session_for(task)
        begin = await task.setup(session, self._episode_seed)
        if self._sessions.reused and not session.lease.borrowed:
            await asyncio.gather(session.forget_history(), executor.place_mouse())
        seen = await self._look(session, begin=begin)
        failure = session.take_failure(session.page)
        if failure is not None:
            raise errors_lib.PageLoadError(str(failure))
        if session.http_status >= _SERVER_ERROR:
            raise errors_lib.PageLoadError(
                f"{session.page.url:.1000} answered with status {session.http_status}."
            )
        session.boundary.home = session.page.url
        self._goal = task.goal_of(seen.get("begun"))
        self._steps = 0
        self._verdict = await task.validate(session, seen["task"], None)
        self._outcome = trajectory_lib.Outcome.UNKNOWN
        nothing = observer_lib.describe_action()
        self._last_step = (None, nothing, begun, begun)
        return await self._observation(session, seen, nothing, begun, begun)

    async def _observation(
        self,
        session: session_lib.BrowserSession,
        seen: Mapping[str, Any],
        last_action: observation_lib.LastAction,
        begun: float,
        acted: float,
        *,
        again: bool = False,
    ) -> dict[str, Any]:
        return await self._observer.observation(
            session,
            seen,
            blocked=session.boundary.take_blocked(),
            step=self._steps,
            goal=self._goal,
            hidden=self.task.hidden,
            verdict=self._verdict,
            last_action=last_action,
            begun=begun,
            acted=acted,
            again=again,
        )

    async def _look(
        self, session: session_lib.BrowserSession, *, begin: Mapping[str, Any] | None = None
    ) -> Any:
        capture = begin is None and self._observer.camera.may_shoot_early(self._steps + 1)
        moments = self._keeps_moments
        seen = await session.look(
            hidden=self.task.hidden, begin=begin, capture=capture, moments=moments
        )
        self.moments += seen["moments"]
        self._note_secrets(seen)
        return seen

    def _note_secrets(self, seen: Mapping[str, Any]) -> None:
        if "passwords" in seen:
            self._keeper.saw_passwords(seen["passwords"])
        if "private" in seen:
            self._keeper.saw_private(seen["private"])

    async def _act(self, action: actions_lib.Action) -> dm_env.TimeStep:
        session, executor = self.session, self._executor
        assert executor is not None
        self.moments = []
        begun = time.perf_counter()
        error = error_kind = ""
        self._observer.camera.asked = isinstance(action, actions_lib.Screenshot)
        try:
            try:
                await executor.perform(action)
            except executor_lib.ActionRefused as refusal:
                error, error_kind = str(refusal), refusal.kind
            acted = time.perf_counter()
            seen = await self._look(session)
        except errors_lib.BrowserError as failure:
            # The page hangs, never stays, or crashed: that is the episode's business.
            if session.lease.borrowed or not session.lease.mend():
                raise
            await session.replace_page()
            self._sessions.suspect()
            acted = time.perf_counter()
            seen = await self._look(session)
            crashed = isinstance(failure, errors_lib.BrowserCrashedError)
            error = _PAGE_CRASHED if crashed else _PAGE_BROKE.format(failure=failure)
            error_kind = "page_broke"
        refused = error_kind == "navigation_failed"
        found, kind = await session.boundary.enforce(session, refused=refused)
        if kind == "blocked":
            seen = await self._look(session)
        if found and (refused or not error):
            error, error_kind = found, kind
        if session.chooser_opened and not error:
            error, error_kind = _FILES_WANTED, "file_chooser"
        if session.lost_tab and not error:
            error, error_kind = _TAB_CRASHED, "tab_crashed"
        session.chooser_opened = session.lost_tab = False
        last_action = observer_lib.describe_action(
            executor.touched, error=error, error_kind=error_kind
        )
        self._steps += 1
        self._last_step = (action, last_action, begun, acted)
        return await self._result(session, action, seen, last_action, begun=begun, acted=acted)

    async def _result(
        self,
        session: session_lib.BrowserSession,
        action: actions_lib.Action | None,
        seen: Mapping[str, Any],
        last_action: observation_lib.LastAction,
        *,
        begun: float,
        acted: float,
        again: bool = False,
        judged: bool = True,
    ) -> dm_env.TimeStep:
        """Return the timestep of an action's result, or of the reset if `action` is None."""
        task, answer = self.task, None
        # BrowserGym's agents answer in a message. Only a judge can tell it from one on the way.
        if isinstance(action, actions_lib.Answer) or (
            isinstance(action, actions_lib.SendMessage) and not task.has_judge
        ):
            answer = action.text
        said_so = answer is not None or isinstance(action, actions_lib.ReportInfeasible)
        if not judged:
            verdict = tasks_lib.Verdict()
        elif task.judges_refusals and isinstance(action, actions_lib.ReportInfeasible):
            verdict = await task.validate_refusal(session, action.reason)
        else:
            verdict = await task.validate(session, seen["task"], answer)
        self._verdict = verdict
        observation = await self._observation(session, seen, last_action, begun, acted, again=again)
        if action is None:
            return dm_env.restart(observation)
        if verdict.done or said_so:
            return self._last(dm_env.termination(verdict.reward, observation))
        if self.truncates:
            return self._last(dm_env.truncation(verdict.reward, observation, 1.0))
        return dm_env.transition(verdict.reward, observation, 1.0)

    def _last(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
        self._active = False
        self._end = timestep
        self._outcome = self._judge_outcome()
        return timestep

    def _judge_outcome(self) -> trajectory_lib.Outcome:
        outcomes = trajectory_lib.Outcome
        if not self.has_judge:
            return outcomes.UNKNOWN
        return outcomes.SUCCESS if self._verdict.success else outcomes.FAILURE

    def _seed_of(self, episode: int) -> int:
        return self._seed + episode if self._next_seed is None else self._next_seed

    async def _end_task(self) -> None:
        """End the solution and tear the task down, if an episode was begun."""
        solution, self._solution = self._solution, None
        if solution is not None:
            await solution.close()
        task, self._task_to_tear_down = self._task_to_tear_down, None
        session = self._sessions.last
        if task is not None and session is not None:
            with contextlib.suppress(errors_lib.BrowserError):  # A dead page has nothing to undo.
                await task.teardown(session)

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        with self._one_at_a_time():
            try:
                yield
            except errors_lib.InvalidInputError:
                raise  # Refused before anything was touched.
            except BaseException:
                # Failed or cancelled half way: the page's state is unknown.
                self._active = False
                self._sessions.suspect()
                raise

    @contextlib.contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        if self._closed:
            raise errors_lib.EnvironmentMisuseError(_CLOSED)
        self._home.enter()
        if self._busy:
            raise errors_lib.ConcurrentCallError(_BUSY)
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def _versions(self) -> dict[str, str]:
        versions = {"webtraj": webtraj.__version__}
        if self._sessions.browser_version:
            versions["browser"] = self._sessions.browser_version
        return versions


_PAGE_CRASHED: Final = "The page crashed and was closed."
_TAB_CRASHED: Final = "Another tab crashed and was closed."
_PAGE_BROKE: Final = "The page did not answer and was closed. {failure}"

_FILES_WANTED: Final = (
    "The page asks for files. Give them with upload_file on the element that was clicked."
)

# The session of an environment's episodes, reused from one to the next.

_CLOSED_MEANWHILE = "The environment was closed while an episode began."


@dataclasses.dataclass(eq=False, repr=False, kw_only=True)
class _Sessions:
    """A factory of episode sessions that reuses the last one if possible.

    A session can be reused if the task shares its context, has the same script and options, and the
    session is not marked as suspect. Closing parks such a session in the pool for the next
    environment with the same settings, because starting an episode in a new context takes three
    times the CPU.

    """

    pool: pool_lib.BrowserPool | pool_lib.SharedPool
    policy: access_lib.AccessPolicy
    """What the agent may reach beyond the page."""
    observe: observation_lib.Observe
    settle: settle_policy_lib.SettlePolicy
    keeper: secret_keeper_lib.SecretKeeper
    """The environment's secrets."""
    context_options: Mapping[str, Any]
    """For each context; a task's own come on top."""
    perturbation: perturbations_lib.Perturbation
    """Its options and script come on top of everything."""
    listener: listener_lib.Listener | None = None
    """What listens to new sessions, if somebody else acts in them."""
    last: session_lib.BrowserSession | None = None
    """The last session; None if there was none or it was dropped."""
    reused: bool = False
    """Whether the last session had been used before, here or by another environment."""
    browser_version: str = ""
    """The browser version of the last session; empty before the first."""
    _key: Any = None
    _suspect: bool = False
    _waited: float = 0.0
    _closed: bool = False

    def suspect(self) -> None:
        """Do not reuse the session, because its page's state is unknown."""
        self._suspect = True

    async def session_for(self, task: tasks_lib.BrowserTask) -> session_lib.BrowserSession:
        """Return a session for an episode of the task.

        Raises:
            BrowserError: The browser failed.
            EnvironmentMisuseError: The sessions were closed meanwhile.
        """
        key = (
            task.shares_context, type(task), task.script, dict(task.context_options),
            dict(task.local_sites),
        )  # fmt: skip
        if self.last is not None and not (self._is_reusable and key == self._key):
            await self.drop()
        if self.last is None:
            self._key = key
            self._suspect = False
            self.last = await self._take_parked(task)
        self.reused = self.last is not None
        if self.last is None:
            self.last = await self._make(task)
            await self.last.start()
        if self.last is None:
            raise errors_lib.EnvironmentMisuseError(_CLOSED_MEANWHILE)
        return self.last

    async def close(self) -> None:
        """Release the page, including one that is being opened. Idempotent."""
        self._closed = True
        await self.drop()

    async def drop(self) -> None:
        """Release the page, if there is one."""
        session, self.last = self.last, None
        if session is not None:
            await session.close()
            self._waited += session.lease.turns.take_waited()

    @property
    def _is_reusable(self) -> bool:
        """Whether another episode may use the page."""
        # The answer to a cookie dialog must not outlive its episode.
        shared = bool(self._key and self._key[0]) and not self.perturbation.consent
        return shared and not self._suspect and self.last is not None and self.last.lease.healthy

    async def park(self, executor: executor_lib.ActionExecutor | None) -> None:
        """Leave the page in the pool for another environment, if it is fit for reuse.

        Args:
            executor: The executor of the actions in the page.
        """
        session = self.last
        if (
            session is None
            or not self._is_reusable
            or self.listener is not None
            or self.keeper.covers  # The next environment would not know what is secret here.
            or not isinstance(self.pool, pool_lib.BrowserPool)
        ):
            return
        if executor is not None and executor.session is session:
            try:
                await executor.rest()
            except errors_lib.BrowserError:
                return
        session.lease.turns.take_waited()
        if self.pool.park(self._parking_key, session):
            self.last = None

    async def _take_parked(self, task: tasks_lib.BrowserTask) -> session_lib.BrowserSession | None:
        if self.listener is not None or not isinstance(self.pool, pool_lib.BrowserPool):
            return None
        session = await self.pool.take_parked(self._parking_key)
        if session is None:
            return None
        if self._closed:
            await session.close()
            raise errors_lib.EnvironmentMisuseError(_CLOSED_MEANWHILE)
        assert isinstance(session, session_lib.BrowserSession)
        session.serve(task.name, self.keeper)
        self.browser_version = session.lease.browser.version
        return session

    @property
    def _parking_key(self) -> Any:
        """What environments must have in common to pass a page on."""
        return (
            self._key, self.policy, self.observe, self.settle, self.context_options,
            self.perturbation,
        )  # fmt: skip

    async def _make(self, task: tasks_lib.BrowserTask) -> session_lib.BrowserSession:
        boundary = network_lib.Boundary(
            access_lib.network_of(self.policy), task.start_url, task.local_sites
        )
        lease = await self._lease(task, boundary)
        self.browser_version = lease.browser.version
        session = session_lib.BrowserSession(
            lease,
            boundary,
            observe=self.observe,
            settle=self.settle,
            keeper=self.keeper,
            listener=self.listener,
            script=task.script,
            hidden=task.hidden,
            surroundings=self.perturbation.script,
        )
        boundary.watch(session)
        return session

    async def _lease(
        self, task: tasks_lib.BrowserTask, boundary: network_lib.Boundary
    ) -> lease_lib.Lease:
        """Return a lease within an open boundary."""
        await boundary.gateway.open()
        try:
            options = {
                "accept_downloads": "downloads" in self.observe.channels,
                **self.context_options,
                **task.context_options,
            }
            options = self.perturbation.options(options)
            lease = await self.pool.lease(owner=task.name, **boundary.context_options(options))
            if self._closed:
                await lease.release()
                raise errors_lib.EnvironmentMisuseError(_CLOSED_MEANWHILE)
        except BaseException:
            await boundary.gateway.close()
            raise
        lease.turns.waited += self._waited
        self._waited = 0.0
        return lease


def _give_back(
    sessions: _Sessions, share: pool_lib.SharedPool | None, home: lease_lib.LoopAffinity
) -> None:
    """Release the resources of an environment that was garbage-collected without `close`."""
    if sessions.last is None and (share is None or not share.used):
        return

    async def close() -> None:
        await sessions.close()
        if share is not None:
            await share.close()

    home.begin(close)
    warnings.warn(_NEVER_CLOSED, ResourceWarning, stacklevel=2)  # Last: it may raise.


def _rules(given: Any, tasks: Sequence[tasks_lib.BrowserTask]) -> redaction_lib.RedactionRules:
    """Return an environment's redaction rules: its own and those of all its tasks."""
    rules = redaction_lib.RedactionRules.of(given)
    merged = {id(rules)}
    for task in tasks:
        own = task.redaction
        if own is not None and id(own) not in merged:
            merged.add(id(own))
            rules = rules.merge(redaction_lib.RedactionRules.of(own))
    return rules


# The preset `web`: one task, or several, on any site.

_MAX_STEPS: Final = 30
_OWN: Final = {"tasks", "default_max_steps"}


def make_web_environment(
    *,
    task: tasks_lib.BrowserTask | Iterable[tasks_lib.BrowserTask],
    pool: pool_lib.BrowserPool | None = None,
    max_steps: int | Literal["task"] | None = "task",
    settle: settle_policy_lib.SettlePolicy = settle_policy_lib.LIVE_SITE,
    policy: access_lib.AccessPolicy | None = None,
    **options: Any,
) -> BrowserEnvironment:
    """Create an environment for tasks on any site.

    Args:
        task: A `webtraj.WebTask`, or several, run one after the other.
        pool: The browser pool; None shares one (see `BrowserEnvironment`).
        max_steps: The step limit, after which an episode is truncated, with discount 1. By default
            the task's own limit, or 30.
        settle: When a page counts as settled after an action.
        policy: What pages and the agent may reach. Default: the public web and the origin of the
            task's `start_url`, but nothing private and no files.
        **options: For `BrowserEnvironment`.

    Raises:
        InvalidInputError: An option is unknown.
    """
    known = inspect.signature(BrowserEnvironment).parameters
    unknown = sorted(options.keys() - (known.keys() - _OWN))
    if unknown:
        raise errors_lib.InvalidInputError(
            f"The preset 'web' does not take {unknown[0]!r:.60}; its options: "
            f"{', '.join(name for name in known if name not in _OWN)}."
        )
    return BrowserEnvironment(
        (task,) if isinstance(task, tasks_lib.BrowserTask) else tuple(task),
        pool=pool,
        max_steps=max_steps,
        default_max_steps=_MAX_STEPS,
        settle=settle,
        policy=policy or access_lib.WebAccess(),
        **options,
    )
