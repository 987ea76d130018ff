"""`relabel-clicks`: each click on something that has a name solves a task of its own."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from webtraj.processing.base import Changed, Drop
from webtraj.processing.steps import deriving, options
from webtraj.processing.steps.relabel import RELABELLED
from webtraj.trajectory import EpisodeTrajectory

__all__ = ["RelabelClicks"]

_TASK = "hindsight/click"
_SEQUENCE = "hindsight/click-sequence"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RelabelClicks:
    """Makes an episode of one step of each click whose element one can ask for by role and name.

    No model is asked: that something was clicked is on record. Whatever the episode was worth, what
    it clicked on the way teaches to find things on pages. A click counts if it was done, and if
    no other element of the page had the same role and name.

    With `sequences`, two such clicks in a row make an episode of two steps as well: that they were
    done in this order.

    The new episode shows the page before, its goal is `wording`, and its outcome is UNKNOWN, as it
    is of all that was relabelled. It brings a rule that the judge `rules` checks: the last action
    was on an element of that role and name. The agent's decision, which was for another goal, is
    not taken along. `metadata["relabelled"]` says which step of which episode it was.
    """

    name: str = dataclasses.field(default="relabel-clicks", init=False)
    version: str = dataclasses.field(default="2", init=False)
    needs_model: ClassVar[bool] = False
    wording: str = 'Click on the {role} "{name}".'
    """The goal; `{role}` and `{name}` are filled in."""
    sequences: bool = False
    """Whether two clicks in a row make an episode, too."""
    sequence_wording: str = 'Click on the {role} "{name}", then on the {role2} "{name2}".'
    """Its goal; `{role2}` and `{name2}` are the second click's."""
    most: int = 20
    """The most episodes that are made of one by single clicks, and by two; the first count."""
    keep_original: bool = True
    """Whether the episode itself goes on, too."""

    def __post_init__(self) -> None:
        options.check_number(self.name, "most", self.most, least=1)
        options.check_flags(self.name, keep_original=self.keep_original, sequences=self.sequences)
        options.check_wording(self.name, "wording", self.wording, ("{role}", "{name}"))
        options.check_wording(
            self.name,
            "sequence_wording",
            self.sequence_wording,
            ("{role}", "{name}", "{role2}", "{name2}"),
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was told."""
        return options.settings_of(self)

    def __call__(self, trajectory: EpisodeTrajectory) -> EpisodeTrajectory | Changed | Drop:
        """Returns the episode and those that were made of its clicks."""
        made: list[EpisodeTrajectory] = []
        if not deriving.is_derived(trajectory) and trajectory.end is not None:
            clicks = dict(_clicks_in(trajectory))
            made = [
                self._of_one(trajectory, position, element)
                for position, element in itertools.islice(clicks.items(), self.most)
            ]
            if self.sequences:
                pairs = ((one, one + 1) for one in clicks if one + 1 in clicks)
                made += [
                    self._of_two(trajectory, pair, clicks)
                    for pair in itertools.islice(pairs, self.most)
                ]
        if not made:
            return trajectory if self.keep_original else Drop("no click to ask for")
        clicked = [one.info.metadata[RELABELLED]["step"] for one in made if one.num_steps == 1]
        pairs_made = [one.info.metadata[RELABELLED]["steps"] for one in made if one.num_steps > 1]
        changes: dict[str, Any] = {"clicks": clicked}
        if pairs_made:
            changes["sequences"] = pairs_made
        originals = (trajectory,) if self.keep_original else ()
        return Changed((*originals, *made), changes)

    def _of_one(
        self, trajectory: EpisodeTrajectory, position: int, element: tuple[str, str]
    ) -> EpisodeTrajectory:
        role, name = element
        return deriving.derived(
            trajectory,
            [position],
            suffix=f".click{trajectory.steps[position].index}",
            task=_TASK,
            goal=options.worded(self.wording, {"role": role, "name": name}),
            rule={"success": {"last_action": _acted_on(element)}},
        )

    def _of_two(
        self,
        trajectory: EpisodeTrajectory,
        pair: tuple[int, int],
        clicks: Mapping[int, tuple[str, str]],
    ) -> EpisodeTrajectory:
        first, second = (clicks[position] for position in pair)
        words = {"role": first[0], "name": first[1], "role2": second[0], "name2": second[1]}
        in_order = [
            {"last_action": _acted_on(second)},
            {"before": {"last_action": _acted_on(first)}},
        ]
        return deriving.derived(
            trajectory,
            pair,
            suffix=f".clicks{trajectory.steps[pair[0]].index}",
            task=_SEQUENCE,
            goal=options.worded(self.sequence_wording, words),
            rule={"success": {"all": in_order}},
        )


def _acted_on(element: tuple[str, str]) -> dict[str, Any]:
    return {"role": element[0], "name": {"equals": element[1]}}


def _clicks_in(trajectory: EpisodeTrajectory) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yields the position of each click that counts, and role and name of what was clicked."""
    for position, (before, step) in enumerate(itertools.pairwise(trajectory.steps), 1):
        if not step.first and deriving.is_plain_click(step):
            element = deriving.named_once(before, step)
            if element is not None:
                yield position, element
