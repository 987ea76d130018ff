"""The broken agent: it repeats recorded successes, each with one named fault.

Its failures look like work: the pages are the right ones, and the agent says that it is done. So
they measure judges, and whatever else must tell a failure from a success. The environment decides
what an episode is worth: a fault may do no harm.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.agents.replay import Recording, ReplayActor, ReplayAgent, Step
from webtraj.environments import actions as actions_lib
from webtraj.environments import base as environment_lib
from webtraj.environments.browser import network_policy

__all__ = ["FAULTS", "BrokenAgent", "mistype"]

SIDE_EFFECT: Final = "side-effect"
_MOST_OTHERS: Final = 3
_ENDS: Final = (actions_lib.Answer, actions_lib.ReportInfeasible)
_LOOKS: Final = (
    actions_lib.GoBack,
    actions_lib.GoForward,
    actions_lib.Goto,
    actions_lib.Hover,
    actions_lib.Reload,
    actions_lib.Screenshot,
    actions_lib.Scroll,
    actions_lib.Wait,
)
"""Actions that change nothing of their own."""
_TYPED: Final = {
    actions_lib.Fill: "value",
    actions_lib.InsertText: "text",
    actions_lib.TypeAt: "text",
    actions_lib.TypeInto: "text",
    actions_lib.TypeText: "text",
}
_SEARCH: Final = re.compile(r"search|filter|find|jump", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True)
class BrokenAgent:
    """Replays recorded successes with a fault. It answers when the page is not as recorded.

    Attributes:
        replay: The agent that replays them unchanged.
        fault: A key of `FAULTS`.
    """

    replay: ReplayAgent
    fault: str

    def __post_init__(self) -> None:
        if self.fault not in FAULTS:
            raise errors.InvalidInputError(
                f"The agent 'broken' has no fault {self.fault!r:.60}. Choose one of: "
                f"{', '.join(FAULTS)}."
            )

    @classmethod
    def of(
        cls, trajectories: Iterable[trajectory_lib.EpisodeTrajectory], fault: str
    ) -> BrokenAgent:
        """Return an agent for the successes among these episodes.

        Raises:
            InvalidInputError: There are no successes, or there is no such fault.
        """
        succeeded = [one for one in trajectories if one.outcome is trajectory_lib.Outcome.SUCCESS]
        if not succeeded:
            raise errors.InvalidInputError(
                "The agent 'broken' needs at least one recorded success, but the dataset has none. "
                "Record some first, such as by the agent 'oracle'."
            )
        return cls(ReplayAgent.of(succeeded), fault)

    @property
    def name(self) -> str:
        """The policy name: `broken/wrong-value`."""
        return f"broken/{self.fault}"

    def begin_episode(self, environment: environment_lib.Environment) -> _BrokenActor:
        """Return an actor at the start of the matching recording.

        Raises:
            InvalidInputError: No recording matches, several do, or it ends without an answer.
        """
        recording = self.replay.find(environment)
        *deeds, last = recording.steps or (None,)
        if last is None or not isinstance(last.action, _ENDS):
            raise errors.InvalidInputError(
                f"The recording {recording.episode_id} does not end with an answer."
            )
        steps, end = FAULTS[self.fault](deeds, last)
        others = self._others(recording) if self.fault == SIDE_EFFECT else []
        return _BrokenActor(_replay(recording, steps), [_replay(*one) for one in others], end)

    def _others(self, recording: Recording) -> list[tuple[Recording, list[Step]]]:
        """Return recordings of other tasks on the site, each with its steps up to the first effect.

        Recordings that type a value come first, because others may only read. A recording without
            the channel `url` is skipped, since its site is unknown.
        """
        site = network_policy.origin_of(recording.start)
        others = [
            one
            for one in self.replay.recordings
            if one.start
            and network_policy.origin_of(one.start) == site
            and one.task != recording.task
            and one.steps
            and isinstance(one.steps[-1].action, actions_lib.Answer)
        ]
        # Each recording begins with the next one, so that they are all used.
        begin = sum(one.episode_id < recording.episode_id for one in others)
        others = others[begin:] + others[:begin]
        others.sort(key=lambda one: _find_typed(one.steps) is None)
        return [
            (one, [Step(0, actions_lib.Goto(one.start), "", (), None), *one.steps[:-1]])
            for one in others[:_MOST_OTHERS]
        ]


def _replay(recording: Recording, steps: Sequence[Step]) -> ReplayActor:
    return ReplayActor(dataclasses.replace(recording, steps=tuple(steps)))


@dataclasses.dataclass(slots=True)
class _BrokenActor:
    """Plays the planned actions, then one other recording that fits the page, then answers."""

    deeds: ReplayActor | None
    others: list[ReplayActor]
    end: Step

    async def act(self, observation: Any) -> trajectory_lib.Decision:
        if self.deeds is not None:
            with contextlib.suppress(errors.EpisodeGivenUpError):
                return await self.deeds.act(observation)
            self.deeds = None  # They are done, or the fault leads to another page.
        while self.others:
            with contextlib.suppress(errors.EpisodeGivenUpError):
                return await self.others[0].act(observation)
            self.others = [] if self.others[0].is_over else self.others[1:]
        return trajectory_lib.Decision(action=self.end.action)


_Broken = tuple[Sequence[Step], Step]
"""The steps before the answer, and the answer."""


def _wrong_value(deeds: list[Step], last: Step) -> _Broken:
    """Make a typing error in the last value that is typed, or else in the answer."""
    at = _find_typed(deeds)
    if at is not None:
        return [*deeds[:at], _mistype_step(deeds[at]), *deeds[at + 1 :]], last
    if isinstance(last.action, actions_lib.Answer):
        return deeds, _mistype_step(last)
    return deeds, dataclasses.replace(last, action=actions_lib.Answer("done"))


def _stops_early(deeds: list[Step], last: Step) -> _Broken:
    """Leave out the last deed, such as the click on "Save"."""
    for at in reversed(range(len(deeds))):
        if not isinstance(deeds[at].action, _LOOKS):
            return deeds[:at], last
    return [], last


def _answer_only(deeds: list[Step], last: Step) -> _Broken:
    """Give the right answer at once."""
    return [], last


def _side_effect(deeds: list[Step], last: Step) -> _Broken:
    """Return the actions unchanged; the actor also does another task of the site."""
    return deeds, last


FAULTS: Final[Mapping[str, Callable[[list[Step], Step], _Broken]]] = {
    "wrong-value": _wrong_value,
    SIDE_EFFECT: _side_effect,
    "stops-early": _stops_early,
    "answer-only": _answer_only,
}
"""The faults by name."""


def _find_typed(steps: Sequence[Step]) -> int | None:
    """Return the position of the last step that types a value; searches do not count."""
    typed = (
        at
        for at in reversed(range(len(steps)))
        if type(steps[at].action) in _TYPED and not _is_search(steps[at])
    )
    return next(typed, None)


def _is_search(step: Step) -> bool:
    element = step.element
    return element is not None and (
        element.role == "searchbox" or _SEARCH.search(element.name) is not None
    )


def _mistype_step(step: Step) -> Step:
    field = _TYPED.get(type(step.action), "text")
    changed = {field: mistype(getattr(step.action, field))}
    return dataclasses.replace(step, action=dataclasses.replace(step.action, **changed))


def mistype(text: str) -> str:
    """Return a text with a typing error: another last digit, or one letter too few.

    >>> mistype("Room 41b"), mistype("Emma"), mistype("")
    ('Room 42b', 'Emm', 'x')
    """
    digits = list(re.finditer(r"\d", text))
    if digits:
        at = digits[-1].start()
        return f"{text[:at]}{(int(text[at]) + 1) % 10}{text[at + 1 :]}"
    return text[:-1] or "x"
