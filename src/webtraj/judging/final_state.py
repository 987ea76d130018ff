"""An episode as rules see it: its last observation, actions and answer.

Anything that was not recorded raises `MissingError` instead of giving an empty text, so that rules
do not confuse "not observed" with "not there".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from webtraj.environments.actions import Action
from webtraj.environments.actions.recorded import final_answer, verb_of
from webtraj.environments.browser.recorded_channels import channel_of, last_action_of
from webtraj.judging.masked_fields import find_typed_texts
from webtraj.store.foreign import valid_text
from webtraj.trajectory import EpisodeTrajectory, StepRecord

if TYPE_CHECKING:
    from webtraj.environments.browser.observation import Ref

__all__ = ["Deed", "FinalState", "MissingError"]

_TEXT_FIELDS = ("value", "text", "keys", "url", "reason")


class MissingError(LookupError):
    """Information that a rule needs was not recorded. The message names it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Deed:
    """One action and its target."""

    verb: str
    """The action's verb; empty if unknown."""
    texts: tuple[str, ...]
    """The text that it typed, chose or said."""
    touched: Mapping[str, Any] | None
    """The observation's `last_action`: role and name of the element; None if not observed."""

    def element(self, part: str) -> str:
        """Return the `role` or `name` of the target element; empty if there was none.

        Raises:
            MissingError: The observation does not say.
        """
        value = None if self.touched is None else self.touched.get(part)
        if not isinstance(value, str):
            raise MissingError(
                "the observations have no channel 'last_action', which says what was acted on"
            )
        return value

    @property
    def was_done(self) -> bool:
        """Whether the action succeeded, as far as the observation says."""
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
        """The agent's answer. None means that it gave none, not that data is missing."""
        return final_answer(self.trajectory)

    def before(self) -> FinalState | None:
        """Return the state before the last action; None if there was no action."""
        steps = self.trajectory.steps
        if not steps or steps[-1].first:
            return None
        return FinalState(dataclasses.replace(self.trajectory, steps=steps[:-1]))

    def text(self, channel: str) -> str:
        """Return a text channel of the last observation.

        Raises:
            MissingError: The channel was not observed.
        """
        observation: Any = self.trajectory.steps[-1].observation if self.trajectory.steps else None
        value = channel_of(observation, channel)
        if not isinstance(value, str):
            raise MissingError(f"the last observation has no channel {channel!r}")
        return valid_text(value)

    def elements(self) -> tuple[list[Ref], bool]:
        """Return the elements of the last page, and whether the list is complete.

        Raises:
            MissingError: The page was not observed.
        """
        from webtraj.environments.browser.observation import is_cut, refs_in

        axtree = self.text("axtree")
        return refs_in(axtree), not is_cut(axtree)

    def find_typed(self) -> Mapping[str, str]:
        """Return the content of masked fields, by ref, where the actions show it."""
        known = find_typed_texts(self.trajectory.steps)
        return known[-1] if known else {}

    def captions(self) -> Mapping[str, str]:
        """Return the text right before each field of the last page, by ref.

        Raises:
            MissingError: The page was not observed.
        """
        from webtraj.environments.browser.observation import captions_in

        return captions_in(self.text("axtree"))

    def deeds(self) -> Iterator[Deed]:
        """Yield the actions in order."""
        return (_read_deed(step) for step in self.trajectory.steps if not step.first)


def _read_deed(step: StepRecord) -> Deed:
    action = step.action
    texts: list[Any] = []
    if isinstance(action, Action):
        texts += [getattr(action, field, None) for field in _TEXT_FIELDS]
        texts += getattr(action, "options", ())
    return Deed(
        verb=verb_of(action),
        texts=tuple(text for text in texts if isinstance(text, str)),
        touched=last_action_of(step.observation) or None,
    )
