"""`prune-loops`: cuts detours that led back to where they began."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from webtraj import trajectory as trajectory_lib
from webtraj.processing.base import Changed
from webtraj.processing.steps import cutting, looking, options
from webtraj.trajectory import StepRecord

__all__ = ["PruneLoops"]

_HARMLESS = (
    "wait", "screenshot", "cursor_position", "hover", "move_mouse", "scroll", "scroll_at", "focus",
    "goto", "go_back", "go_forward", "reload", "new_tab", "close_tab", "focus_tab",
)  # fmt: skip
"""Verbs that look around: they are taken not to change anything at the server."""
_VIEW = ("scroll", "scroll_at")
_CLICKS = ("click", "click_at")
_LOOKED_AT = ("link", "tab")
"""What may be clicked to look around."""
_TELLING = ("answer", "send_message", "report_infeasible")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PruneLoops:
    """Cuts the steps between two states of a page that are the same.

    States are the same if URL, tabs, scroll position and the page's lines are, refs and focus
    aside, and the picture where there is one. A detour is only cut if all its steps look around:
    history, addresses, tabs, scrolling, waiting, and clicks on links. A click on anything else,
    typing, dialogs, downloads, rewards: the state that does not show may be another one afterwards,
    so the detour stays. (A link that logs out, or buys, is taken for a link.) The last step stays.

    What cutting means: the step before the detour now leads straight to the step after it. Where
    the page was opened anew, and so has other refs, it is shown as it looked when the agent went
    on, so that the next action's ref is there. Decisions, thoughts and prompts stay as they were
    recorded: a prompt with a history still tells of the detour, and a thought may refer to what was
    seen there. Train on such a step by its observation, or leave recorded prompts aside.
    """

    name: str = dataclasses.field(default="prune-loops", init=False)
    version: str = dataclasses.field(default="1", init=False)
    needs_model: ClassVar[bool] = False
    cut_side_effects: bool = False
    """Whether detours are cut in which something was typed, clicked or sent."""
    compare_screenshots: bool = True
    """Whether pictures must be the same too. They often are not, by a blinking cursor or a banner,
    and then a detour stays."""

    def __post_init__(self) -> None:
        options.check_flags(
            self.name,
            cut_side_effects=self.cut_side_effects,
            compare_screenshots=self.compare_screenshots,
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was told."""
        return options.settings_of(self)

    def __call__(
        self, trajectory: trajectory_lib.EpisodeTrajectory
    ) -> trajectory_lib.EpisodeTrajectory | Changed:
        """Returns the episode without its detours."""
        steps = trajectory.steps
        cuts = self._cuts(steps)
        if not cuts:
            return trajectory
        ends = dict(cuts)
        kept: list[StepRecord] = []
        position = 0
        while position < len(steps):
            end = ends.get(position, position)
            kept.append(_arrived_at(steps[position], steps[end]))
            position = end + 1
        made = dataclasses.replace(trajectory, steps=cutting.renumbered(kept))
        changes = [{"first": begin + 1, "last": end} for begin, end in cuts]
        return Changed((made,), {"cut": changes})

    def _cuts(self, steps: tuple[StepRecord, ...]) -> list[tuple[int, int]]:
        """Returns where detours begin and end: positions of two steps with the same state."""
        states = [
            looking.fingerprint(step.observation, screenshot=self.compare_screenshots)
            for step in steps
        ]
        cuts = []
        position = 0
        while position < len(steps):
            end = self._end_of_detour(steps, states, position)
            if end > position:
                cuts.append((position, end))
            position = end + 1
        return cuts

    def _end_of_detour(
        self, steps: tuple[StepRecord, ...], states: list[str | None], begin: int
    ) -> int:
        end = begin
        if states[begin] is None:
            return end
        for position in range(begin + 1, len(steps) - 1):
            if not self._may_go(steps[position - 1], steps[position]):
                break
            if states[position] == states[begin]:
                end = position
        return end

    def _may_go(self, before: StepRecord, step: StepRecord) -> bool:
        verb = looking.verb_of(step.action)
        if not cutting.is_neutral(step) or verb in _TELLING:
            return False
        if self.cut_side_effects:
            return True
        if set(looking.events_in(step.observation)) - {"console"}:
            return False
        if looking.is_invalid(step):
            return True  # The page was left alone.
        if verb in _VIEW:
            return _view_is_known(step.observation, self.compare_screenshots)
        if verb in _CLICKS:
            return looking.element_of(before.observation, step).role in _LOOKED_AT
        return verb in _HARMLESS


def _view_is_known(observation: Any, compare_screenshots: bool) -> bool:
    if looking.channel(observation, "scroll") is not None:
        return True
    return compare_screenshots and looking.channel(observation, "screenshot") is not None


def _arrived_at(step: StepRecord, end: StepRecord) -> StepRecord:
    """Returns a step that shows the page as it was at a later one of the same state."""
    before, after = step.observation, end.observation
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return step
    if looking.content_of(before.get("axtree")) == looking.content_of(after.get("axtree")):
        return step
    page = {name: after[name] for name in looking.OF_THE_PAGE if name in after}
    observation = {name: value for name, value in before.items() if name not in looking.OF_THE_PAGE}
    return dataclasses.replace(step, observation={**observation, **page})
