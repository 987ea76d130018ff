"""What a model is told of an episode: its task, its steps, its pages, in words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from webtraj import trajectory as trajectory_lib
from webtraj.agents.contexts.cutting import cut_lines
from webtraj.environments.browser.observation import changes_between
from webtraj.processing.steps import looking
from webtraj.trajectory import EpisodeTrajectory, StepRecord

__all__ = ["changes_text", "goal_of", "page_text", "picture_of", "step_lines"]

_LONGEST_LINE = 300


def goal_of(trajectory: EpisodeTrajectory) -> str:
    """Returns what the agent was asked to do, from the episode or from what it saw."""
    if trajectory.info.goal:
        return trajectory.info.goal
    goals = (looking.text_channel(step.observation, "goal") for step in trajectory.steps)
    return next(filter(None, goals), "")


def step_lines(steps: Sequence[StepRecord]) -> list[str]:
    """Returns a line for each action: what was done to what, and what went wrong."""
    lines = []
    before: Any = None
    for step in steps:
        if not step.first:
            lines.append(f"Step {step.index}: {_line(_done(before, step))}")
        before = step.observation
    return lines


def page_text(observation: Any, characters: int) -> str:
    """Returns a page in words, as far as it fits: where it is, and its lines."""
    url = looking.text_channel(observation, "url")
    title = looking.text_channel(observation, "title")
    head = " ".join(filter(None, [_line(title), f"<{_line(url)}>" if url else ""]))
    tree = looking.text_channel(observation, "axtree") or looking.text_channel(observation, "text")
    body, _ = cut_lines(tree, characters, len)
    return "\n".join(filter(None, [head, body])) or "There is no text of the page."


def changes_text(before: Any, after: Any, characters: int) -> str:
    """Returns what is another on a page than before, in words, as far as it fits."""
    old, new = (looking.text_channel(one, "axtree") for one in (before, after))
    lines = changes_between(old, new) if old or new else []
    urls = [looking.text_channel(one, "url") for one in (before, after)]
    if urls[0] != urls[1]:
        lines.insert(0, f"The page is now <{_line(urls[1])}>.")
    last = looking.channel(after, "last_action")
    if isinstance(last, Mapping) and last.get("error"):
        lines.insert(0, f"The action was not done: {_line(str(last['error']))}")
    text, _ = cut_lines("\n".join(lines), characters, len)
    return text or "Nothing that is seen."


def picture_of(observation: Any) -> bytes:
    """Returns the page's picture; empty if there is none."""
    for found in (
        looking.channel(observation, "screenshot"),
        looking.channel(looking.channel(observation, "set_of_marks"), "image"),
    ):
        if isinstance(found, bytes):
            return found
    return b""


def _done(before: Any, step: trajectory_lib.StepRecord) -> str:
    element = looking.element_of(before, step)
    on = (
        f" on {element.role} {json.dumps(element.name, ensure_ascii=False)}" if element.role else ""
    )
    last = looking.channel(step.observation, "last_action")
    error = str(last.get("error") or "") if isinstance(last, Mapping) else ""
    return f"{looking.said(step.action)}{on}{f'; not done: {error}' if error else ''}"


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."
