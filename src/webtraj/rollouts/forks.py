"""Fork recorded episodes: repeat one up to a step, then let an agent take over.

The repeated part is played again in a fresh world with the recorded seed. `ForkedEnvironment`
compares each of its timesteps with the record and ends the episode at the first difference, so no
agent takes over in a world that differs from the record. Of several forks at a step, one repeats
the record. If its environment can copy its world (`CopiesWorld`), and the copy matches the record,
the others start from the copy and get the timesteps of the first. `ForkAgent` repeats the recorded
decisions and shows them to the agent as its own. Their `metadata["fork"]` names their source.

An observation agrees with a recorded one if it has the same content:

* On a page: the URL, title and goal, and the tree without its refs. Without a tree in both, the
  marks' roles and names; without marks in both, the screenshot. A notice comes and goes by the
  clock: one that both have shown so far does not count. Before the fork's own step, it is enough
  that the page agreed at some moment since the last action, since the record may be from before a
  timer. If it agrees at no later step, it departs at the first step at which it had gone on.
* Elsewhere: the whole observation.

Rewards and the ends of episodes are compared too.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import inspect
import itertools
import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import orjson

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents import base as agents_lib
from webtraj.environments import actions as actions_lib
from webtraj.environments import base as environment_lib
from webtraj.environments.browser.recorded_channels import (
    channel_of,
    last_action_of,
    refs_of,
    text_of,
    texts_of,
    without_refs,
)
from webtraj.environments.tasks import TaskSpec
from webtraj.judging.masked_fields import is_redacted
from webtraj.runs.plan import ForkPoint, PlannedEpisode, check_groups, specs_of_presets
from webtraj.runs.run import Run, options_on_record, run_ids
from webtraj.store import records
from webtraj.store.decoding import decode
from webtraj.store.encoding import dumps

if TYPE_CHECKING:
    from webtraj.datasets import Dataset

__all__ = ["ForkAgent", "ForkedEnvironment", "WorldCopies", "difference", "goes_on", "plan_forks"]

_logger = logging.getLogger(__name__)

_HEAD = ("goal", "url", "title")
_TREES = ("axtree", "aria")
_MARKS = "set_of_marks"
_PICTURE = "screenshot"
_PAGE = (*_TREES, _MARKS, _PICTURE)
_LOOKS, _PAUSE = 20, 0.1
"""Looks at a page before it counts as different, and the seconds between them: a caret blinks, and
animations may end later than on record."""
_LONGEST_PAUSE = 0.5
"""The most seconds that a replay waits before an action, so that it comes as long after the one
before as on record. A page's timers, such as those of menus and suggestions, go on meanwhile."""
_PARENTS = 64
"""Most parents kept in memory. The rows of one parent are played one after another."""
_COPIES = 8
"""Most copies kept of worlds. The rows of one step are played one after another."""
_REF_FIELDS = ("ref", "target_ref")
_NOTICE = re.compile(r"^( *)(?:- |\[[^\]]+\] )?(?:alert|status)\b.*(?:\n\1 +.*)*\n?", re.MULTILINE)
"""A notice in a tree, with all that is in it."""

_PlanOf = Callable[[str], Sequence[PlannedEpisode]]
"""Returns the plan of a run by its id; an empty one if the dataset has no such run."""


def plan_forks(
    dataset: Dataset,
    points: Sequence[ForkPoint],
    *,
    group_size: int = 1,
    options: Mapping[str, Any] | None = None,
) -> tuple[PlannedEpisode, ...]:
    """Plan forks of recorded episodes. The forks at one point are a group.

    A fork has the preset options with which the episode was recorded.

    Args:
        dataset: The dataset with the recorded episodes.
        points: Where to fork.
        group_size: The number of forks at each point.
        options: Options that override the recorded ones. A warning lists what they change.

    Raises:
        InvalidInputError: There is no point, or an episode cannot be forked at its step.
        UnknownEpisodeError: The dataset has no such episode.
    """
    if not points:
        raise errors.InvalidInputError("A fork needs an episode and a step; got none.")
    check_groups(None, group_size)
    plan: list[PlannedEpisode] = []
    specs: dict[str, tuple[TaskSpec, int, int]] = {}
    recorded: dict[str, dict[str, Any]] = {}
    storage = dataset.place.storage

    @functools.cache
    def plan_of(run_id: str) -> tuple[PlannedEpisode, ...]:
        return Run(storage, run_id).read_plan() if run_id in run_ids(storage) else ()

    for number, point in enumerate(points):
        if point.episode_id not in specs:
            parent = dataset[point.episode_id]
            specs[point.episode_id] = _find_task(parent, plan_of)
            recorded[point.episode_id] = _options_of(parent.info)
        spec, seed, last = specs[point.episode_id]
        if last < 0:
            raise errors.InvalidInputError(
                f"The episode {point.episode_id!r} cannot be forked: it has no step after which "
                "its world goes on."
            )
        if not 0 <= point.step <= last:
            raise errors.InvalidInputError(
                f"The episode {point.episode_id!r} can be forked at the steps 0 to {last}; got "
                f"{point.step}."
            )
        first = len(plan)
        plan += [
            PlannedEpisode(
                row=first + member,
                spec=spec,
                attempt=member,
                seed=seed,
                group=number,
                fork=point,
                options=_without(recorded[point.episode_id], options or {}),
            )
            for member in range(group_size)
        ]
    _warn_of_changes(recorded.values(), options or {})
    return tuple(plan)


def _options_of(info: trajectory_lib.EpisodeInfo) -> dict[str, Any]:
    """Return the recorded options of an episode's preset, except `har`, which only records more."""
    place = info.metadata.get("rollout")
    options = place.get("options") if isinstance(place, Mapping) else None
    return _without(options, ("har",)) if isinstance(options, Mapping) else {}


def _without(options: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}


def _warn_of_changes(recorded: Iterable[Mapping[str, Any]], options: Mapping[str, Any]) -> None:
    """Warn if options differ from the recorded ones, as forks may then depart from the record."""
    now = options_on_record(options)
    changes = {
        f"{name}={now[name]} instead of {then[name]}": None
        for then in recorded
        for name in now.keys() & then.keys()
        if now[name] != then[name]
    }
    if changes:
        _logger.warning(
            "The forks have other options than were recorded: %s.", ", ".join(sorted(changes))
        )


def _find_task(
    parent: trajectory_lib.EpisodeTrajectory, plan_of: _PlanOf
) -> tuple[TaskSpec, int, int]:
    """Return the task, the seed and the last step to fork at of a recorded episode.

    Raises:
        InvalidInputError: It cannot be played again.
    """
    info = parent.info
    if info.seed is None:
        raise errors.InvalidInputError(
            f"The episode {info.episode_id!r} was recorded without a seed, so its world cannot be "
            "made again."
        )
    return _spec_of(info, plan_of), info.seed, len(parent.steps) - 2 + goes_on(parent)


def goes_on(episode: trajectory_lib.EpisodeTrajectory) -> bool:
    """Return whether an episode's world continues after its last recorded step."""
    return bool(episode.steps) and episode.steps[-1].step_type is not trajectory_lib.StepType.LAST


def _spec_of(info: trajectory_lib.EpisodeInfo, plan_of: _PlanOf) -> TaskSpec:
    """Return the task from the plan of its run, or else from the episode's description.

    A description without a start page is only for judges. Then the preset with the task's name is
    played.
    """
    place = info.metadata.get("rollout")
    if isinstance(place, Mapping):
        plan, row = plan_of(str(place.get("run"))), place.get("row")
        if isinstance(row, int) and 0 <= row < len(plan):
            return plan[row].spec
    described = info.metadata.get("task")
    if isinstance(described, Mapping) and {"preset", "start_url"} & described.keys():
        try:
            return TaskSpec.from_data(described)
        except records.WrongFieldError as error:
            raise errors.InvalidInputError(
                f"The task of the episode {info.episode_id!r} cannot be read: {error}."
            ) from error
    return specs_of_presets([info.task])[0]


class ForkAgent:
    """Repeats a recorded episode up to a step; then another agent takes over.

    In an episode that is not a fork, the other agent decides from the start.

    Args:
        agent: The agent that takes over. Its actors get the repeated steps by
            `remember(observation, decision)` if they have that method. Others start at the fork
            without a history.
        dataset: The dataset with the recorded episodes.
        copies: Whether forks may start from copies of worlds. If not, each repeats the record.
    """

    def __init__(self, agent: Any, dataset: Dataset, *, copies: bool = True) -> None:
        self._agent = agents_lib.as_agent(agent)
        self._dataset = dataset
        self.copies = copies
        """Whether forks may start from copies of worlds."""
        self._loaded: dict[str, trajectory_lib.EpisodeTrajectory] = {}

    @property
    def name(self) -> str:
        """The other agent's name."""
        return self._agent.name

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that the other agent needs, and a tree for the comparison."""
        channels: tuple[str, ...] = tuple(getattr(self._agent, "channels", ()))
        needed = channels and not set(_TREES) & set(channels)
        return (*channels, "axtree") if needed else channels

    def parent(self, point: ForkPoint) -> trajectory_lib.EpisodeTrajectory:
        """Return the episode that is forked at a point."""
        if point.episode_id not in self._loaded:
            if len(self._loaded) >= _PARENTS:
                self._loaded.pop(next(iter(self._loaded)))
            self._loaded[point.episode_id] = self._dataset[point.episode_id]
        return self._loaded[point.episode_id]

    def begin_episode(self, environment: environment_lib.Environment) -> Any:
        """Return an actor that repeats the record first.

        Raises:
            InvalidInputError: The other agent cannot play in this environment.
        """
        actor = self._agent.begin_episode(environment)
        point = environment_lib.description_of(environment).get("fork")
        if point is None:
            return actor
        repetition = _Repetition(self.parent(point), point, actor, environment)
        return repetition.then(agents_lib.act_of(actor))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_agent":
            raise AttributeError(name)
        return getattr(self._agent, name)


class _Repetition:
    """Repeats the decisions of one record up to a step, and shows them to another actor."""

    def __init__(
        self,
        parent: trajectory_lib.EpisodeTrajectory,
        point: ForkPoint,
        actor: Any,
        environment: environment_lib.Environment,
    ) -> None:
        self._parent = parent
        self._point = point
        self._environment = environment
        self._remember = getattr(actor, "remember", None)
        self._done = 0
        self._began: float | None = None
        """When the last action was returned."""

    def then(self, act: agents_lib.Act) -> agents_lib.Act:
        """Return a function that repeats the record, and then decides as `act` does."""

        def sync(observation: Any) -> Any:
            return self._again(observation) if self._repeats else act(observation)

        async def on_loop(observation: Any) -> Any:
            return await (self._again if self._repeats else act)(observation)

        return on_loop if agents_lib.is_async(act) else sync

    @property
    def _repeats(self) -> bool:
        return self._done < self._point.step

    async def _again(self, observation: Any) -> trajectory_lib.Decision:
        """Return the next recorded decision, with the current refs of its elements."""
        before, self._done = self._parent.steps[self._done], self._done + 1
        recorded = self._parent.steps[self._done]
        is_in_copy = getattr(self._environment, "is_in_copy", False)
        if not is_in_copy:
            await asyncio.sleep(self._pause(before, recorded))
        self._began = time.monotonic()
        action = actions_lib.read_action(recorded.action)
        current = _current_refs(before.observation, observation)
        refs = {}
        for name in _REF_FIELDS:
            ref = getattr(action, name, None)
            if isinstance(ref, str):
                found = current.get(ref)
                if found is None and not is_in_copy:  # The page is further on there.
                    found = await self._find_ref(recorded.observation)
                refs[name] = found or ref
        if refs and isinstance(action, actions_lib.Action):
            action = dataclasses.replace(cast("Any", action), **refs)
        if is_redacted(repr(action)):
            raise errors.ForkDepartedError(
                f"Step {self._done} cannot be repeated: part of its action was not recorded."
            )
        decision = recorded.decision or trajectory_lib.Decision()
        decision = dataclasses.replace(decision, action=action)
        if callable(self._remember):
            self._remember(observation, decision)
        source = {**dataclasses.asdict(self._point), "repeats": self._done}
        return dataclasses.replace(
            decision,
            model_calls=(),  # They are the parent's, and counted there.
            metadata={**decision.metadata, "fork": source},
        )

    def _pause(
        self, before: trajectory_lib.StepRecord, recorded: trajectory_lib.StepRecord
    ) -> float:
        """Return the seconds to wait before an action."""
        since = before.end_time if self._began is None else before.start_time
        if since is None or recorded.start_time is None:
            return 0.0
        passed = 0.0 if self._began is None else time.monotonic() - self._began
        return min(max(recorded.start_time - since - passed, 0.0), _LONGEST_PAUSE)

    async def _find_ref(self, result: Any) -> str | None:
        """Return the ref of an element outside the tree, which an oracle may act on."""
        last = last_action_of(result)
        find = getattr(self._environment, "ref_of", None)
        if not last.get("selector") or last.get("frame") or not callable(find):
            return None
        found: str | None = await find(last["selector"])
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class _Copy:
    """A copy of the world at a step."""

    snapshot: Any
    timesteps: Sequence[Any]
    """Those before the step, as the fork that repeated the record got them."""


class WorldCopies:
    """Copies of worlds, in which a run's forks start.

    The first fork at a step repeats the record and makes a copy. Later forks wait for it.
    """

    def __init__(self) -> None:
        self._by_point: dict[ForkPoint, asyncio.Future[_Copy | None]] = {}

    async def take(self, point: ForkPoint) -> tuple[_Copy | None, bool]:
        """Return the copy at a step, if there is one, and whether the caller must make it."""
        found = self._by_point.get(point)
        if found is not None:
            return await asyncio.shield(found), False
        done = [point for point, copy in self._by_point.items() if copy.done()]
        for oldest in done[: max(len(self._by_point) + 1 - _COPIES, 0)]:
            del self._by_point[oldest]
        self._by_point[point] = asyncio.get_running_loop().create_future()
        return None, True

    def give(self, point: ForkPoint, copy: _Copy | None) -> None:
        """Give a copy, or None to have each fork repeat the record."""
        found = self._by_point[point]
        if not found.done():
            found.set_result(copy)

    def drop(self, point: ForkPoint) -> None:
        """Use a copy no longer: it does not show what the record does."""
        found = self._by_point[point] = asyncio.get_running_loop().create_future()
        found.set_result(None)


class ForkedEnvironment:
    """Compares the repeated part of a fork with the record.

    Args:
        environment: The environment that plays it.
        parent: The recorded episode.
        step: The number of recorded actions to repeat.
        copies: The copies of worlds from which forks may start. A caller that passes them must call
            `settle` at the end of the episode.
    """

    def __init__(
        self,
        environment: environment_lib.Environment,
        parent: trajectory_lib.EpisodeTrajectory,
        step: int,
        *,
        copies: WorldCopies | None = None,
    ) -> None:
        self._environment = environment
        self._parent = parent
        self._step = step
        self._point = ForkPoint(parent.info.episode_id, step)
        # A world at its first moment is no more than what `reset` makes.
        methods = (getattr(environment, name, None) for name in ("snapshot", "restore"))
        can_copy = step > 0 and all(map(callable, methods))
        can_copy = can_copy and getattr(environment, "can_copy", True)
        self._copies = copies if can_copy else None
        self._is_to_give = False
        self._timesteps: list[Any] = []
        self._from_copy: Sequence[Any] = ()
        self._index = 0
        # The notices so far, on record and in this world.
        self._recorded_notices: set[str] = set()
        self._notices: set[str] = set()
        self._passed: tuple[int, str] | None = None
        """The first step at which the page had shown what is on record and gone on, and how it
        differed then; None once the page agrees again."""

    @property
    def is_in_copy(self) -> bool:
        """Whether the world is a copy, and so at the step already."""
        return bool(self._from_copy)

    async def reset(self) -> Any:
        """Start the episode.

        Raises:
            ForkDepartedError: The first observation differs from the recorded one.
        """
        self.settle()
        self._index, self._timesteps, self._passed = 0, [], None
        self._recorded_notices, self._notices = set(), set()
        self._keep_moments(True)
        self._from_copy = await self._start_copy()
        if self._from_copy:
            return self._from_copy[0]
        return await self._check(await self._environment.reset())

    async def step(self, action: Any) -> Any:
        """Take a step.

        Raises:
            ForkDepartedError: It belongs to the repeated part, and its timestep differs from the
                recorded one.
        """
        self._index += 1
        if self._index < len(self._from_copy):
            return self._from_copy[self._index]
        timestep = await self._check(await self._environment.step(action))
        if self._index == self._step and self._is_to_give:
            await self._give()
        return timestep

    def settle(self) -> None:
        """Tell waiting forks that this one will not make a copy."""
        if self._is_to_give and self._copies is not None:
            self._copies.give(self._point, None)
        self._is_to_give = False

    async def _give(self) -> None:
        """Give a copy of the world to the other forks at this step."""
        with contextlib.suppress(errors.BrowserError):  # The next step shows what is wrong.
            snapshot = await _await_value(self._environment.snapshot())  # type: ignore[attr-defined]
            if snapshot is not None and self._copies is not None:
                self._copies.give(self._point, _Copy(snapshot, self._timesteps[:-1]))
        self.settle()

    async def _start_copy(self) -> Sequence[Any]:
        """Start from a copy, and return the timesteps up to the step; empty if there is no copy."""
        if self._copies is None:
            return ()
        copy, self._is_to_give = await self._copies.take(self._point)
        if copy is None:
            return ()
        environment: Any = self._environment
        with contextlib.suppress(errors.BrowserError):
            timestep = await _await_value(environment.restore(copy.snapshot))
            if timestep is not None and not self._difference(timestep, self._step):
                return (*copy.timesteps, timestep)
        self._copies.drop(self._point)
        if callable(set_seed := getattr(environment, "set_seed", None)):
            set_seed(self._parent.info.seed)
        return ()

    async def _check(self, timestep: Any) -> Any:
        """Return the timestep if it agrees with the record. A page gets some time until it does."""
        if self._index > self._step:
            return timestep
        if self._index == self._step:
            self._keep_moments(False)
        again: Any = getattr(self._environment, "look_again", None)
        looks = _LOOKS if callable(again) else 0
        self._recorded_notices |= _find_notices(self._parent.steps[self._index].observation)
        while differs := self._difference(timestep, self._index):
            agreed = [
                one for one in self._moments(timestep) if not self._difference(one, self._index)
            ]
            if agreed and self._index < self._step:
                self._passed = self._passed or (self._index, differs)
                timestep = agreed[-1]
                break
            if not looks:
                index, differs = self._passed or (self._index, differs)
                raise errors.ForkDepartedError(
                    f"The fork of {self._parent.info.episode_id!r} at step {self._step} departs "
                    f"from the record at step {index}: {differs}."
                )
            await asyncio.sleep(_PAUSE)
            timestep, looks = await again(), looks - 1
        else:
            self._passed = None
        self._timesteps.append(timestep)
        return timestep

    def _keep_moments(self, kept: bool) -> None:
        """Switch whether the environment notes what its page shows between observations."""
        if callable(keep := getattr(self._environment, "keep_moments", None)):
            keep(kept)

    def _moments(self, timestep: Any) -> Iterator[Any]:
        """Yield the timestep for each state of the page since the last action."""
        observation = timestep.observation
        for moment in getattr(self._environment, "moments", ()):
            shown = {name: value for name, value in moment.items() if name in observation}
            yield timestep._replace(observation={**observation, **shown})

    def _difference(self, timestep: Any, index: int) -> str:
        recorded = self._parent.steps[index]
        is_last = recorded.step_type is trajectory_lib.StepType.LAST
        if timestep.last() and not is_last:
            return "the episode ends here, but the recorded one goes on"
        if is_last and not timestep.last():
            return "the recorded episode ends here"
        if index and not _same(recorded.reward, timestep.reward):
            return f"the reward is {timestep.reward}, but {recorded.reward} on record"
        self._notices |= _find_notices(timestep.observation)
        notices = self._notices & self._recorded_notices
        return difference(recorded.observation, timestep.observation, notices=notices)

    async def __aenter__(self) -> ForkedEnvironment:
        if hasattr(self._environment, "__aenter__"):
            await self._environment.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        if hasattr(self._environment, "__aexit__"):
            await self._environment.__aexit__(*exc_info)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._environment, name)


def difference(recorded: Any, observed: Any, *, notices: Collection[str] = ()) -> str:
    """Return how an observation differs in content from a recorded one; empty if it does not.

    Args:
        recorded: The recorded observation.
        observed: The new observation.
        notices: Notices that may be in either observation, as parts of a tree without refs.
    """
    if not any(name in recorded for name in _PAGE if isinstance(recorded, Mapping)):
        return "" if _same(recorded, observed) else "the observation differs"
    for name in _HEAD:
        then, now = text_of(recorded, name), text_of(observed, name)
        if then != now and name in recorded and name in observed:
            return f"the {name} is {now!r:.200}, but {then!r:.200} on record"
    for name in _TREES:
        if name in recorded and name in observed:
            trees = (without_refs(text_of(each, name)) for each in (recorded, observed))
            return _first_line(*(_leave_out(tree, notices) for tree in trees))
    if _MARKS in recorded and _MARKS in observed:
        return _first_line(*("\n".join(_marks_of(each)) for each in (recorded, observed)))
    if _PICTURE in recorded and _PICTURE in observed:
        same = channel_of(recorded, _PICTURE) == channel_of(observed, _PICTURE)
        return "" if same else "the screenshot differs"
    return (
        "no channel that shows the page is in both; observe one of the recorded: "
        f"{', '.join(name for name in _PAGE if name in recorded)}"
    )


def _first_line(then: str, now: str) -> str:
    """Return the first difference between two trees."""
    for a, b in itertools.zip_longest(then.splitlines(), now.splitlines(), fillvalue="(no line)"):
        if a != b:
            return f"the page has the line {b.strip()!r:.200}, but {a.strip()!r:.200} on record"
    return ""


def _find_notices(observation: Any) -> set[str]:
    """Return the notices in an observation's trees, without refs."""
    trees = (without_refs(text_of(observation, name)) for name in _TREES)
    return {found[0].rstrip() for tree in trees for found in _NOTICE.finditer(tree)}


def _leave_out(tree: str, notices: Collection[str]) -> str:
    """Return a tree without some notices."""
    return _NOTICE.sub(lambda found: "" if found[0].rstrip() in notices else found[0], tree)


def _current_refs(then: Any, now: Any) -> dict[str, str]:
    """Return the current ref for each recorded ref, paired by order in the same channel.

    Notices that differ between the two trees are left out.
    """
    both = isinstance(then, Mapping) and isinstance(now, Mapping)
    for name in _TREES:
        if both and name in then and name in now:
            trees = [text_of(then, name), text_of(now, name)]
            if without_refs(trees[0]) != without_refs(trees[1]):
                trees = [_NOTICE.sub("", tree) for tree in trees]
            return dict(zip(*map(refs_of, trees), strict=False))
    if both and _MARKS in then and _MARKS in now:
        refs = (texts_of(channel_of(each, _MARKS), "refs") or [] for each in (then, now))
        return dict(zip(*refs, strict=False))
    return {}


def _marks_of(observation: Any) -> Iterator[str]:
    marks = channel_of(observation, _MARKS)
    columns = [texts_of(marks, name) or [] for name in ("roles", "names")]
    return (f"{role} {name!r}" for role, name in zip(*columns, strict=False))


async def _await_value(value: Any) -> Any:
    """Return the result of a coroutine, or a value that is none."""
    return await value if inspect.isawaitable(value) else value


def _same(recorded: Any, observed: Any) -> bool:
    """Return whether two values would be recorded alike."""
    return _encode(recorded) == _encode(observed)


def _encode(value: Any) -> bytes:
    once, _ = dumps(value)
    return dumps(decode(orjson.loads(once)))[0]
