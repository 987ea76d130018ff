"""What rules see of an episode: its last observation, what was done, what was answered.

Something that is not on record is a `MissingError`, never an empty text: rules must not take what
was not observed for what was not there.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from webtraj.environments.actions.recorded import final_answer, verb_of
from webtraj.store.blobs import LazyBlob
from webtraj.trajectory import EpisodeTrajectory, StepRecord

if TYPE_CHECKING:
    from webtraj.environments.browser.observation import Ref

__all__ = ["Deed", "FinalState", "MissingError"]

_CUT = re.compile(r"^ *\.\.\. \d+ more lines$", re.MULTILINE)
_TEXT_FIELDS = ("value", "text", "keys", "url", "reason")


class MissingError(LookupError):
    """Something is not on record that would have to be known. Its message says what."""


@dataclasses.dataclass(frozen=True, slots=True)
class Deed:
    """One action and what it was done to."""

    verb: str
    """The action's verb; empty if it is none that is known."""
    texts: tuple[str, ...]
    """What it typed, chose or said."""
    touched: Mapping[str, Any] | None
    """The observation's `last_action`: role and name of the element; None if not observed."""

    def element(self, part: str) -> str:
        """Return `role` or `name` of the element that it was done to; empty if there was none.

        Raises:
            MissingError: The observation did not say.
        """
        value = None if self.touched is None else self.touched.get(part)
        if not isinstance(value, str):
            raise MissingError(
                "the observations have no channel 'last_action', which says what was acted on"
            )
        return value

    @property
    def was_done(self) -> bool:
        """Whether the page took it, as far as the observation says."""
        return self.touched is None or not self.touched.get("error")


class FinalState:
    """The end of one episode.

    Args:
        trajectory: The episode, with at least one step.
    """

    def __init__(self, trajectory: EpisodeTrajectory) -> None:
        self.trajectory = trajectory

    @property
    def answer(self) -> str | None:
        """What the agent answered; None if it gave no answer, which is no lack of the record."""
        return final_answer(self.trajectory)

    def before(self) -> FinalState | None:
        """Return what would be the end without the last action; None if there was no action."""
        steps = self.trajectory.steps
        if not steps or steps[-1].first:
            return None
        return FinalState(dataclasses.replace(self.trajectory, steps=steps[:-1]))

    def text(self, channel: str) -> str:
        """Return a channel of text of the last observation.

        Raises:
            MissingError: It was not observed.
        """
        observation: Any = self.trajectory.steps[-1].observation if self.trajectory.steps else None
        value = observation.get(channel) if isinstance(observation, Mapping) else None
        if isinstance(value, LazyBlob):
            value = value.load()
        if not isinstance(value, str):
            raise MissingError(f"the last observation has no channel {channel!r}")
        return value

    def elements(self) -> tuple[list[Ref], bool]:
        """Return the elements of the last page, and whether those are all.

        Raises:
            MissingError: The page was not observed.
        """
        from webtraj.environments.browser.observation import refs_in

        axtree = self.text("axtree")
        return refs_in(axtree), _CUT.search(axtree) is None

    def typed(self) -> Mapping[str, str]:
        """Return what fields hold that do not show it, by ref, as far as the actions tell."""
        from webtraj.judging.evaluating import typed_texts

        known = typed_texts(self.trajectory.steps)
        return known[-1] if known else {}

    def captions(self) -> Mapping[str, str]:
        """Return the texts right before the fields of the last page, by ref.

        Raises:
            MissingError: The page was not observed.
        """
        from webtraj.environments.browser.observation import captions_in

        return captions_in(self.text("axtree"))

    def deeds(self) -> Iterator[Deed]:
        """Yield what was done, in order."""
        return (_deed(step) for step in self.trajectory.steps if not step.first)


def _deed(step: StepRecord) -> Deed:
    observation = step.observation
    touched = observation.get("last_action") if isinstance(observation, Mapping) else None
    action = step.action
    texts = [getattr(action, field, None) for field in _TEXT_FIELDS]
    texts += getattr(action, "options", ())
    return Deed(
        verb=verb_of(action),
        texts=tuple(text for text in texts if isinstance(text, str)),
        touched=touched if isinstance(touched, Mapping) else None,
    )
