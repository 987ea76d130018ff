"""Pruning: `prune-loops` cuts detours; `drop-no-effect` removes steps that changed nothing."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.environments.actions.recorded import is_invalid
from webtraj.environments.browser.recorded_channels import last_action_of, text_of
from webtraj.processing.base import Changed
from webtraj.processing.steps import observations, options
from webtraj.trajectory import StepRecord

__all__ = ["COMPARED", "DropNoEffect", "PruneLoops", "is_neutral", "renumber", "without"]

# Removing steps so that the rest is still a valid episode.


def is_neutral(step: trajectory_lib.StepRecord) -> bool:
    """Return whether a step can be removed without changing the rewards, return, start or end."""
    if step.first or step.last:
        return False
    if trajectory_lib.reward_value(step.reward) != 0:  # NaN is not 0 either.
        return False
    return step.discount is None or _is_one(step.discount)


def without(
    trajectory: trajectory_lib.EpisodeTrajectory, dropped: Collection[int]
) -> trajectory_lib.EpisodeTrajectory:
    """Return an episode without the steps at some positions, renumbered from 0."""
    gone = frozenset(dropped)
    kept = [step for position, step in enumerate(trajectory.steps) if position not in gone]
    return dataclasses.replace(trajectory, steps=renumber(kept))


def renumber(
    steps: Collection[trajectory_lib.StepRecord],
) -> tuple[trajectory_lib.StepRecord, ...]:
    """Return steps numbered from 0. Steps that have the right number stay the same objects."""
    return tuple(
        step if step.index == index else dataclasses.replace(step, index=index)
        for index, step in enumerate(steps)
    )


def _is_one(discount: Any) -> bool:
    try:
        return float(discount) == 1.0
    except (TypeError, ValueError):
        return False


# `prune-loops`: cuts detours that end where they started.

_HARMLESS = (
    "wait", "screenshot", "cursor_position", "hover", "move_mouse", "scroll", "scroll_at", "focus",
    "goto", "go_back", "go_forward", "reload", "new_tab", "close_tab", "focus_tab",
)  # fmt: skip
"""Verbs that only look around and are assumed to change nothing on the server."""
_VIEW = ("scroll", "scroll_at")
_CLICKS = ("click", "click_at")
_LOOKED_AT = ("link", "tab")
"""Roles that may be clicked to look around."""
_TELLING = ("answer", "send_message", "report_infeasible")
_SAID = ("text", "reason", "value", "url", "options")
"""The fields of actions that hold what is said or typed."""
_WORD = re.compile(r"[^\W_]{2,}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PruneLoops(options.PlainStep):
    """Cuts the steps between two identical states of a page.

    Two states are identical if they have the same URL, tabs, scroll position, page lines (ignoring
    refs and focus) and, if recorded, picture. A detour is only cut if all its steps look around:
    history, addresses, tabs, scrolling, waiting, and clicks on links. Clicks on anything else,
    typing, dialogs, downloads and rewards may change hidden state, so such a detour stays. (A link
    that logs out or buys something counts as a link.) A detour also stays if a later action says or
    types a word that first appeared on it, or if its pages have no text. The last step stays.

    After the cut, the step before the detour leads straight to the step after it. If the page was
    reopened, and so has other refs, the later observation is used, so that the next action's ref
    exists. Decisions, thoughts and prompts stay as recorded: a prompt with a history still mentions
    the detour, and a thought may refer to it. Train on such steps by their observations, not by
    recorded prompts.
    """

    name: str = dataclasses.field(default="prune-loops", init=False)
    version: str = dataclasses.field(default="3", init=False)
    cut_side_effects: bool = False
    """Whether to also cut detours with typing, clicks or submitted forms."""
    compare_screenshots: bool = True
    """Whether pictures must be the same too. A blinking cursor or a banner often makes them differ,
    and then the detour stays."""

    def __post_init__(self) -> None:
        options.check_flags(self)

    def __call__(
        self, trajectory: trajectory_lib.EpisodeTrajectory
    ) -> trajectory_lib.EpisodeTrajectory | Changed:
        """Return the episode without its detours."""
        made = trajectory
        left = list(range(len(trajectory.steps)))  # Their positions in the given episode.
        # A cut may make another one possible: a word is no longer said, say.
        while cuts := [cut for cut in self._cuts(made.steps) if not _is_used(made, *cut)]:
            ends = dict(cuts)
            kept: list[StepRecord] = []
            places: list[int] = []
            position = 0
            while position < len(made.steps):
                end = ends.get(position, position)
                kept.append(_arrive_at(made.steps[position], made.steps[end]))
                places.append(left[position])
                position = end + 1
            made, left = dataclasses.replace(made, steps=renumber(kept)), places
        if made is trajectory:
            return trajectory
        following = [*left[1:], len(trajectory.steps)]
        changes = [
            {"first": here + 1, "last": there - 1}
            for here, there in zip(left, following, strict=True)
            if there > here + 1
        ]
        return Changed((made,), {"cut": changes})

    def _cuts(self, steps: tuple[StepRecord, ...]) -> list[tuple[int, int]]:
        """Return the positions of the two steps with equal state around each detour."""
        states = [
            observations.fingerprint(step.observation, screenshot=self.compare_screenshots)
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
        verb = observations.verb_of(step.action)
        if not is_neutral(step) or verb in _TELLING:
            return False
        if self.cut_side_effects:
            return True
        if set(observations.events_in(step.observation)) - {"console"}:
            return False
        if is_invalid(step):
            return True  # The page was left alone.
        if verb in _VIEW:
            return _view_is_known(step.observation, self.compare_screenshots)
        if verb in _CLICKS:
            return observations.element_of(before.observation, step).role in _LOOKED_AT
        return verb in _HARMLESS


def _is_used(trajectory: trajectory_lib.EpisodeTrajectory, begin: int, end: int) -> bool:
    """Return whether a later action uses a word that was first seen between two steps."""
    steps = trajectory.steps
    said = {word for step in steps[end + 1 :] for word in _words_of_action(step.action)}
    if not said:
        return False
    before = {word for step in steps[: begin + 1] for word in _words_of_page(step.observation)}
    during = [_words_of_page(step.observation) for step in steps[begin + 1 : end]]
    if not all(during):
        return True  # A page without text: what was read there is unknown.
    return bool(said.intersection(*[set().union(*during)]) - before - _words(trajectory.info.goal))


def _words_of_action(action: Any) -> set[str]:
    """Return the words that an action says or types."""
    found = observations.action_of(action)
    if found is None or not dataclasses.is_dataclass(found):
        return set()
    values = [getattr(found, name, ()) for name in _SAID]
    texts = [[value] if isinstance(value, str) else value for value in values]
    return _words(" ".join(itertools.chain.from_iterable(texts)))


def _words_of_page(observation: Any) -> set[str]:
    return _words(" ".join(text_of(observation, name) for name in ("axtree", "text")))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _view_is_known(observation: Any, compare_screenshots: bool) -> bool:
    if observations.channel(observation, "scroll") is not None:
        return True
    return compare_screenshots and observations.channel(observation, "screenshot") is not None


def _arrive_at(step: StepRecord, end: StepRecord) -> StepRecord:
    """Return a step with the observation of a later step in the same state."""
    before, after = step.observation, end.observation
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return step
    if observations.content_of(before.get("axtree")) == observations.content_of(
        after.get("axtree")
    ):
        return step
    page = {name: after[name] for name in observations.OF_THE_PAGE if name in after}
    observation = {
        name: value for name, value in before.items() if name not in observations.OF_THE_PAGE
    }
    return dataclasses.replace(step, observation={**observation, **page})


# `drop-no-effect`: removes steps that left the page unchanged.

COMPARED: Final = (
    "url",
    "title",
    "axtree",
    "changes",
    "text",
    "screenshot",
    "set_of_marks",
    "focused",
    "scroll",
    "tabs",
    "active_tab",
    "boxes",
)
"""The channels that show whether the page changed, if observed."""

_FOCUS_ONLY = ("focused",)
_KEYS = ("press", "press_key", "focus")
_TYPED_INTO = ("textbox", "searchbox", "combobox", "spinbutton")
_MOVES_VIEW = ("scroll", "scroll_at", "hover", "move_mouse")
"""Verbs whose effect shows only in the picture or the scroll position."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DropNoEffect(options.PlainStep):
    """Drops steps without an observed change, unless they may have had a hidden effect.

    Pages have hidden state: if two buttons must be clicked in turn, the first click may show
    nothing. WebGym's rule, which drops every step with an unchanged picture, makes such tasks
    unlearnable. So a step is kept if it

    * changed any compared channel, or came with a dialog, a download, a blocked request or a
      console error;
    * acted on an interactive element, or inside one;
    * carries a reward, or a discount other than 1, so that the return stays the same;
    * is the first or last step, or sends a message to the user;
    * cannot be compared: neither the picture nor the text of the page was recorded.

    A click that only removed the focus has no effect. So waiting, looking, moving, clicks outside
    controls and (unless `keep_errors`) failed actions are dropped.

    Each step is compared with the last kept one, so running this twice changes nothing.
    Prompts of later steps stay as recorded, and may mention removed steps.
    """

    name: str = dataclasses.field(default="drop-no-effect", init=False)
    version: str = dataclasses.field(default="2", init=False)
    channels: tuple[str, ...] = COMPARED
    """The channels to compare. `screenshot` alone is WebGym's rule, apart from the exceptions
    above."""
    keep_interactive: bool = True
    """Whether to keep all steps on interactive elements."""
    keep_errors: bool = False
    """Whether to keep steps that could not be parsed or executed: recovering is worth learning, the
    mistakes may not be."""
    except_tasks: tuple[str, ...] = ()
    """Glob patterns of tasks to leave unchanged."""
    except_environments: tuple[str, ...] = ()
    """Glob patterns of environments to leave unchanged."""

    def __post_init__(self) -> None:
        options.read_words(self, "channels", "except_tasks", "except_environments")
        options.check_flags(self)
        unknown = sorted(set(self.channels) - set(COMPARED))
        if unknown or not self.channels:
            raise errors.InvalidInputError(
                f"{self.name}: channels is {list(self.channels)}; expected some of "
                f"{', '.join(COMPARED)}."
            )

    def __call__(
        self, trajectory: trajectory_lib.EpisodeTrajectory
    ) -> trajectory_lib.EpisodeTrajectory | Changed:
        """Return the episode without steps that had no effect."""
        info = trajectory.info
        if options.matches(info.task, self.except_tasks) or options.matches(
            info.environment, self.except_environments
        ):
            return trajectory
        dropped = self._find_dropped(trajectory.steps)
        if not dropped:
            return trajectory
        verbs = (observations.verb_of(trajectory.steps[index].action) for index in dropped)
        counts = collections.Counter(verb or "unknown" for verb in verbs)
        return Changed(
            (without(trajectory, dropped),),
            {"dropped": dropped, "actions": dict(sorted(counts.items()))},
        )

    def _find_dropped(self, steps: tuple[StepRecord, ...]) -> list[int]:
        dropped: list[int] = []
        kept = 0
        for position in range(1, len(steps) - 1):
            if self._goes(steps[kept], steps[position]):
                dropped.append(position)
            else:
                kept = position
        return dropped

    def _goes(self, before: StepRecord, step: StepRecord) -> bool:
        if not is_neutral(step) or observations.verb_of(step.action) in _TELLING:
            return False
        if observations.events_in(step.observation):
            return False
        changed = self._find_changed(before.observation, step.observation)
        if changed is None or changed.difference(_FOCUS_ONLY):
            return False
        if not _can_tell(step) or _took_focus(before.observation, step):
            return False
        if is_invalid(step) or last_action_of(step.observation).get("error"):
            return not self.keep_errors and not changed
        element = observations.element_of(before.observation, step)
        return not (self.keep_interactive and element.is_interactive)

    def _find_changed(self, before: Any, after: Any) -> set[str] | None:
        """Return the channels that differ; None if none shows the page."""
        if not isinstance(before, Mapping) or not isinstance(after, Mapping):
            return None
        changed: set[str] = set()
        shown = False
        for name in self.channels:
            different = _differs(before, after, name)
            if different is not None:
                shown = shown or name in ("axtree", "changes", "text", "screenshot", "set_of_marks")
                changed.update([name] if different else [])
            if shown and changed.difference(_FOCUS_ONLY):
                break  # A difference is enough; comparing pages is slow.
        return changed if shown else None


def _took_focus(before: Any, step: StepRecord) -> bool:
    """Return whether a key moved the focus, or anything moved it into a field."""
    after = observations.focus_in(step.observation)
    if after is None or after == observations.focus_in(before):
        return False
    return observations.verb_of(step.action) in _KEYS or after.role in _TYPED_INTO


def _differs(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> bool | None:
    """Return whether a channel differs; None if it was not observed both times."""
    if name == "changes":
        return _has_changes(after)
    one, other = _comparable(before, name), _comparable(after, name)
    return None if one is None or other is None else bool(one != other)


def _comparable(observation: Mapping[str, Any], name: str) -> Any:
    """Return a channel's comparable content; None if it was not observed."""
    if name not in observation:
        return None
    if name == "axtree":
        return observations.tree_without(text_of(observation, name), focus=True)
    if name == "set_of_marks":
        marks = observations.channel(observation, name)
        return observations.content_of(marks.get("image")) if isinstance(marks, Mapping) else None
    value = observation[name]
    if name == "screenshot" and observations.is_empty(value):
        return None  # This step has no picture: `screenshot_stride`, or pictures not shared.
    return value if isinstance(value, (str, bytes)) else observations.content_of(value)


def _has_changes(observation: Mapping[str, Any]) -> bool | None:
    """Return whether the page's lines changed, ignoring the focus."""
    if "changes" not in observation:
        return None
    gone: collections.Counter[str] = collections.Counter()
    lines = observations.channel(observation, "changes")
    for line in () if lines is None else map(str, lines):
        sign, _, rest = line.partition(" ")
        gone[observations.tree_without(rest, focus=True)] += 1 if sign == "+" else -1
    return any(gone.values())


def _can_tell(step: StepRecord) -> bool:
    if observations.verb_of(step.action) not in _MOVES_VIEW:
        return True
    return any(
        observations.channel(step.observation, name) is not None
        for name in ("screenshot", "scroll", "boxes")
    )
