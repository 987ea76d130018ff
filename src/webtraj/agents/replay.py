"""The replay agent: it repeats a recorded episode.

A recorded action names its element by a ref, and refs may differ in another run. So the element is
found by its recorded role and name, and by its position among equal ones. If the match is
ambiguous, the agent gives up the episode instead of acting on another element.

Each decision's `metadata["replay"]` has the recorded step, the changed refs, and where the page
first differed from the recorded one.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.environments import actions as actions_lib
from webtraj.environments import base as environment_lib
from webtraj.environments.browser.observation import Ref, refs_in
from webtraj.environments.browser.recorded_channels import (
    channel_of,
    last_action_of,
    text_of,
    texts_of,
)

__all__ = ["Recording", "ReplayActor", "ReplayAgent", "Step"]

_REF_FIELDS = ("ref", "target_ref")
_MOST_SHOWN = 5


def _identify(element: Ref) -> tuple[str, str]:
    """Return the role and name that identify an element."""
    return element.role, element.name


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A recorded action, and the page on which it was taken."""

    index: int
    action: Any
    thought: str
    elements: tuple[Ref, ...]
    """The elements of the page."""
    acted_on: Ref | None
    """The action's element, as the observation after it describes it."""

    @property
    def element(self) -> Ref | None:
        """The action's element, if it has one that is known."""
        ref = getattr(self.action, "ref", None)
        return next((one for one in self.elements if one.ref == ref), self.acted_on)


@dataclasses.dataclass(frozen=True, slots=True)
class Recording:
    """The parts of a recorded episode needed to replay it."""

    episode_id: str
    task: str
    seed: int | None
    steps: tuple[Step, ...]
    start: str = ""
    """The URL of the first page."""

    @classmethod
    def of(cls, trajectory: trajectory_lib.EpisodeTrajectory) -> Recording:
        """Return the recording of an episode."""
        steps = []
        for before, after in zip(trajectory.steps, trajectory.steps[1:], strict=False):
            thought = after.decision.thought if after.decision else ""
            steps.append(
                Step(
                    index=after.index,
                    action=actions_lib.read_action(after.action),
                    thought=thought,
                    elements=_elements_of(before.observation),
                    acted_on=_find_acted_on(after.observation),
                )
            )
        info = trajectory.info
        first = trajectory.steps[0].observation if trajectory.steps else None
        start = first.get("url", "") if isinstance(first, Mapping) else ""
        return cls(info.episode_id, info.task, info.seed, tuple(steps), start)


@dataclasses.dataclass(frozen=True, slots=True)
class ReplayAgent:
    """Replays recorded episodes, each in an episode of its task.

    An episode gets the recording of the same task and seed. If there is none, it gets the only
    recording of the task, or the only recording at all.
    """

    recordings: Sequence[Recording]
    name: str = "replay"

    @classmethod
    def of(cls, trajectories: Iterable[trajectory_lib.EpisodeTrajectory]) -> ReplayAgent:
        """Return an agent for these episodes.

        Raises:
            InvalidInputError: There are no episodes.
        """
        recordings = tuple(map(Recording.of, trajectories))
        if not recordings:
            raise errors.InvalidInputError(
                "A replay needs at least one recorded episode, but the dataset has none."
            )
        return cls(recordings)

    def begin_episode(self, environment: environment_lib.Environment) -> ReplayActor:
        """Return an actor at the start of the matching recording.

        Raises:
            InvalidInputError: No recording matches, or several do.
        """
        return ReplayActor(self.find(environment))

    def find(self, environment: environment_lib.Environment) -> Recording:
        """Return the recording that matches the environment's episode.

        Raises:
            InvalidInputError: No recording matches, or several do.
        """
        episode = environment_lib.description_of(environment)
        task, seed = episode.get("task", ""), episode.get("seed")
        of_task = [recording for recording in self.recordings if recording.task == task]
        same = [recording for recording in of_task if recording.seed == seed]
        if same:
            return same[0]
        for fitting in (of_task, self.recordings):
            if len(fitting) == 1:
                return fitting[0]
        raise errors.InvalidInputError(
            f"None of the {len(self.recordings)} recordings has the task {task!r} and the seed "
            f"{seed}, and the choice among the others is ambiguous. Pass only the "
            "recording to replay."
        )


class ReplayActor:
    """Replays one recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._done = 0
        self.first_difference = ""
        """Where the page first differed from the recorded one; empty if it did not."""

    @property
    def is_over(self) -> bool:
        """Whether every recorded action was returned."""
        return self._done == len(self._recording.steps)

    async def act(self, observation: Any) -> trajectory_lib.Decision:
        """Return the next recorded action, with its refs updated.

        Raises:
            EpisodeGivenUpError: The recording is over, or its element was not found.
        """
        steps = self._recording.steps
        if self.is_over:
            raise self._give_up(f"the recording ends after {len(steps)} actions")
        step = steps[self._done]
        elements = _elements_of(observation)
        self._compare(step, elements)
        action, moved = self._fit(step, elements)
        self._done += 1
        metadata: dict[str, Any] = {"episode_id": self._recording.episode_id, "step": step.index}
        if moved:
            metadata["moved"] = moved
        if self.first_difference:
            metadata["first_difference"] = self.first_difference
        return trajectory_lib.Decision(
            action=action, thought=step.thought, metadata={"replay": metadata}
        )

    def _compare(self, step: Step, elements: Sequence[Ref]) -> None:
        if self.first_difference:
            return
        then = collections.Counter(map(_identify, step.elements))
        now = collections.Counter(map(_identify, elements))
        if then == now:
            return
        gone, new = _list_elements(then - now), _list_elements(now - then)
        self.first_difference = f"before step {step.index}: gone {gone}, new {new}"

    def _fit(self, step: Step, elements: Sequence[Ref]) -> tuple[Any, dict[str, str]]:
        """Return the action with its elements' current refs, and the refs that changed."""
        moved: dict[str, str] = {}
        found: dict[str, str] = {}
        for field in _REF_FIELDS:
            ref = getattr(step.action, field, None)
            if isinstance(ref, str) and isinstance(step.action, actions_lib.Action):
                acted_on = step.acted_on if field == "ref" else None
                found[field] = self._find(ref, acted_on, step, elements)
                if found[field] != ref:
                    moved[ref] = found[field]
        action = step.action if not moved else dataclasses.replace(step.action, **found)
        return action, moved

    def _find(
        self,
        ref: str,
        acted_on: Ref | None,
        step: Step,
        elements: Sequence[Ref],
    ) -> str:
        recorded = next((element for element in step.elements if element.ref == ref), acted_on)
        if recorded is None or not elements:
            return ref  # Only the ref is known.
        same = _identify(recorded)
        alike = [element for element in elements if _identify(element) == same]
        then = [element.ref for element in step.elements if _identify(element) == same]
        if ref in then and len(alike) == len(then):
            return alike[then.index(ref)].ref
        if len(alike) == 1 or any(element.ref == ref for element in alike):
            return ref if any(element.ref == ref for element in alike) else alike[0].ref
        what = f"{recorded.role} {recorded.name!r}"
        if not alike:
            raise self._give_up(f"the page has no {what}, which step {step.index} acts on")
        raise self._give_up(
            f"the page has {len(alike)} of {what}, of which step {step.index} acts on one of "
            f"{max(len(then), 1)}"
        )

    def _give_up(self, reason: str) -> errors.EpisodeGivenUpError:
        where = f"; the page first differed {self.first_difference}" * bool(self.first_difference)
        return errors.EpisodeGivenUpError(f"{reason}{where}")


def _elements_of(observation: Any) -> tuple[Ref, ...]:
    if not isinstance(observation, Mapping):
        return ()
    if "axtree" in observation:
        return tuple(refs_in(text_of(observation, "axtree")))
    marks = channel_of(observation, "set_of_marks")
    columns = [texts_of(marks, name) or [] for name in ("refs", "roles", "names")]
    return tuple(Ref(*row) for row in zip(*columns, strict=False))


def _find_acted_on(observation: Any) -> Ref | None:
    """Return the last action's element, as the observation describes it."""
    last = last_action_of(observation)
    if not last.get("ref"):
        return None
    return Ref(last["ref"], last.get("role", ""), last.get("name", ""))


def _list_elements(descriptions: collections.Counter[tuple[str, str]]) -> str:
    named = [f"{role} {name!r}" for role, name in descriptions.elements()]
    more = f" and {len(named) - _MOST_SHOWN} more" if len(named) > _MOST_SHOWN else ""
    return (", ".join(named[:_MOST_SHOWN]) or "nothing") + more
