"""An episode's steps in words: what was done, why, where that led, what went wrong."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping
from typing import Any

from webtraj import errors
from webtraj.judging.model.settings import JudgeSettings
from webtraj.trajectory import Decision, EndReason, EpisodeTrajectory, StepRecord

__all__ = ["action_text", "one_line", "step_list"]


def step_list(trajectory: EpisodeTrajectory, settings: JudgeSettings) -> str:
    """Returns a line for each step, with further lines below it; then how the episode ended."""
    told = ["\n".join(_told(step, settings)) for step in trajectory.steps]
    if (left_out := len(told) - settings.max_steps) > 0:
        first = (settings.max_steps + 1) // 2
        told[first : first + left_out] = [f"[... {left_out} steps left out]"]
    return "\n".join([*told, _end(trajectory, settings)])


def action_text(action: Any) -> str:
    """Returns an action as text, in whichever form it was recorded.

    >>> from webtraj.environments import actions
    >>> action_text(actions.Click("12")), action_text("scroll(0, 100)"), action_text(None)
    ("click('12')", 'scroll(0, 100)', 'nothing')
    """
    from webtraj.environments import actions

    if isinstance(action, Decision):
        action = action.action
    if isinstance(action, actions.InvalidAction):
        return f"a reply that was no action: {action.reason}"
    if isinstance(action, actions.Action):
        try:
            return actions.format_action(action)
        except errors.UnsupportedActionError:
            return repr(action)
    if action is None:
        return "nothing"
    return action if isinstance(action, str) else repr(action)


def one_line(text: Any, longest: int) -> str:
    """Returns a text as one line of bounded length.

    >>> one_line("a long  text", 8)
    'a long t...'
    """
    line = " ".join(str(text).split())
    return line if len(line) <= longest else f"{line[:longest]}..."


def _told(step: StepRecord, settings: JudgeSettings) -> Iterator[str]:
    longest = settings.step_characters
    seen = step.observation if isinstance(step.observation, Mapping) else {}
    last = seen.get("last_action")
    last = last if isinstance(last, Mapping) else {}
    if step.first:
        yield f"Step {step.index}: the episode begins"
    else:
        done = one_line(action_text(step.action), longest)
        yield f"Step {step.index}: {done}{_element(last, longest)}"
    decision = step.decision
    if decision is not None and decision.thought and settings.thoughts:
        yield f"  thought: {one_line(decision.thought, longest)}"
    if decision is not None and decision.parse_error:
        yield f"  not understood: {one_line(decision.parse_error, longest)}"
    if error := _text(last.get("error"), longest):
        yield f"  not done: {error}"
    url, title = (_text(seen.get(name), longest) for name in ("url", "title"))
    if url or title:
        yield f"  page: {' '.join(filter(None, [title, url and f'<{url}>']))}"
    status = seen.get("http_status")
    if isinstance(status, numbers.Integral) and int(status) >= 400:
        yield f"  the site answered with the HTTP status {status}"
    yield from (f"  dialog: {one_line(dialog, longest)}" for dialog in _texts(seen.get("dialogs")))


def _element(last: Mapping[str, Any], longest: int) -> str:
    role, name = (_text(last.get(field), longest) for field in ("role", "name"))
    if not role and not name:
        return ""
    return f" on {' '.join(filter(None, [role, name and f'{name!r}']))}"


def _text(value: Any, longest: int) -> str:
    """Returns a channel's text as one line; empty if it is none."""
    return one_line(value, longest) if isinstance(value, str) else ""


def _texts(values: Any) -> list[str]:
    if isinstance(values, (str, bytes)):
        return []
    try:
        return [str(value) for value in values][:10]
    except TypeError:
        return []


def _end(trajectory: EpisodeTrajectory, settings: JudgeSettings) -> str:
    if trajectory.end_reason is EndReason.TRUNCATED:
        detail = trajectory.end.detail if trajectory.end else ""
        why = f": {one_line(detail, settings.step_characters)}" if detail else ""
        return f"Then the episode was cut off{why}"
    return "Then the episode was over"
