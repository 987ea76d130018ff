"""Recorded steps as pointing prompts, for any policy and any kind of observation."""

from __future__ import annotations

import dataclasses
import os
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from two_cores.pointing import ELEMENTS, Item, Prompt, check_elements, cut, items_of, make_prompt
from webtraj.agents.models.base import Message
from webtraj.datasets.dataset import open_dataset
from webtraj.environments.actions import Action, Click, InvalidAction
from webtraj.training.replay.cutter import Rendered, action_of, load_blob
from webtraj.trajectory import EpisodeTrajectory

__all__ = ["Decided", "PointingRenderer", "Reach", "decisions_of", "reach_of", "texts_of"]

_ELEMENT = re.compile(r"(<e\d+>)")


@dataclasses.dataclass(frozen=True, slots=True)
class Decided:
    """A step's decision and its context."""

    step: int
    goal: str
    items: tuple[Item, ...]
    done: tuple[tuple[str, str], ...]
    action: Action

    def prompt(self, names: random.Random) -> tuple[Prompt, str] | None:
        """Return the prompt with assigned names and the reply; None if they cannot be expressed."""
        prompt = make_prompt(self.goal, self.items, self.done, names=names)
        reply = prompt.reply_for(self.action)
        return None if reply is None else (prompt, reply)


def decisions_of(
    trajectory: EpisodeTrajectory, *, elements: int = len(ELEMENTS)
) -> Iterator[Decided]:
    """Yield the decisions of an episode that a pointing agent could have made.

    Decisions that it could not have made (they type text that is neither in the goal nor on the
    page, or act on nothing shown) are also left out of the history of later prompts.

    Args:
        trajectory: The episode.
        elements: The most elements to show of a page.
    """
    done: list[tuple[str, str]] = []
    for step in range(1, len(trajectory.steps)):
        before = trajectory.steps[step - 1].observation
        if not isinstance(before, Mapping):
            return
        tree, goal = load_blob(before.get("axtree")), load_blob(before.get("goal"))
        action = action_of(trajectory, step)
        if not isinstance(tree, str) or not isinstance(action, Action):
            continue
        if isinstance(action, InvalidAction):
            continue
        boxes = load_blob(before.get("boxes"))
        goal = goal if isinstance(goal, str) and goal else trajectory.info.goal
        page = items_of(tree, boxes if isinstance(boxes, Mapping) else None)
        items = tuple(cut(page, goal, elements))
        decided = _shown(Decided(step, goal, items, tuple(done), action), trajectory)
        if (asked := decided.prompt(random.Random(0))) is not None:
            yield decided
            if (said := asked[0].done_as(action)) is not None:
                done.append(said)


def _shown(decided: Decided, trajectory: EpisodeTrajectory) -> Decided:
    """Return the decision with a click on the element that is shown where it clicked.

    Scripts click elements that the page's description leaves out, as what they hold says it all.
    """
    action = decided.action
    if not isinstance(action, Click) or action != Click(action.ref):
        return decided
    after = trajectory.steps[decided.step].observation
    done = load_blob(after.get("last_action")) if isinstance(after, Mapping) else None
    if not isinstance(done, Mapping) or done.get("ref") != action.ref:
        return decided
    prompt = make_prompt(decided.goal, decided.items, names=random.Random(0))
    if prompt.reply_for(action) is not None:
        return decided
    x, y, width, height = done["box"]
    item = prompt.at(x + width / 2, y + height / 2)
    if item is None or not width or item.chosen_from:
        return decided
    return dataclasses.replace(decided, action=Click(item.ref))


@dataclasses.dataclass(frozen=True, slots=True)
class Reach:
    """How much of an episode a pointing agent could have done."""

    steps: int
    expressed: int
    """Steps whose action has a reply."""
    told_apart: int
    """Of those, steps whose element the prompt describes or places unlike all others. In the other
    steps only the order of the elements identifies it."""


def reach_of(trajectory: EpisodeTrajectory, *, elements: int = len(ELEMENTS)) -> Reach:
    """Return how much of an episode a pointing agent could have done: see `decisions_of`."""
    expressed = told_apart = 0
    for decided in decisions_of(trajectory, elements=elements):
        asked = decided.prompt(random.Random(0))
        assert asked is not None
        expressed += 1
        told_apart += _is_told_apart(asked[0], asked[1])
    return Reach(len(trajectory.steps) - 1, expressed, told_apart)


def _is_told_apart(prompt: Prompt, reply: str) -> bool:
    parts = _ELEMENT.split(prompt.text.partition("<page>")[2])
    told = dict(zip(parts[1::2], map(str.strip, parts[::2]), strict=False))
    named = _ELEMENT.search(reply)
    return named is None or list(told.values()).count(told[named[1]]) == 1


@dataclasses.dataclass(frozen=True, slots=True)
class PointingRenderer:
    """A renderer of a pointing agent's prompts: see `webtraj.training.replay.Renderer`."""

    seed: int = 0
    """Seed of the names."""
    elements: int = len(ELEMENTS)
    """The most elements to show of a page."""

    def __post_init__(self) -> None:
        check_elements(self.elements)

    @property
    def reference(self) -> Mapping[str, Any]:
        """See `Renderer.reference`."""
        return {"renderer": "pointing", "seed": self.seed, "elements": self.elements}

    def render(self, trajectory: EpisodeTrajectory) -> Mapping[int, Rendered]:
        """See `Renderer.render`."""
        found: dict[int, Rendered] = {}
        for decided in decisions_of(trajectory, elements=self.elements):
            names = random.Random(f"{self.seed}/{trajectory.episode_id}/{decided.step}")
            asked = decided.prompt(names)
            assert asked is not None
            found[decided.step] = Rendered((Message.of("user", asked[0].text),), asked[1])
        return found


def texts_of(
    places: Iterable[str | os.PathLike[str]],
    *,
    episodes: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """Yield the texts of goals and pages as pointing prompts show them, each page once per episode.

    Args:
        places: Folders or URLs of datasets.
        episodes: The most episodes to read from each.
        storage_options: Options for buckets.

    Raises:
        NotADatasetError: There is no dataset.
        CorruptDataError: An episode is damaged.
    """
    for place in places:
        dataset = open_dataset(place, storage_options=storage_options)
        for number, trajectory in enumerate(dataset):
            if episodes is not None and number >= episodes:
                break
            seen: set[str] = set()
            yield trajectory.info.goal
            for step in trajectory.steps:
                observed = step.observation if isinstance(step.observation, Mapping) else {}
                tree = load_blob(observed.get("axtree"))
                if isinstance(tree, str) and tree not in seen:
                    seen.add(tree)
                    yield " ".join(item.words for item in items_of(tree))
