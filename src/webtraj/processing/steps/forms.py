"""`relabel-forms`: makes a task of each form that was filled in and submitted."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from webtraj import errors
from webtraj.environments import actions as actions_lib
from webtraj.environments.browser.observation import Ref, captions_in, is_cut, refs_in
from webtraj.environments.browser.recorded_channels import last_action_of, read_string, text_of
from webtraj.judging.masked_fields import find_typed_texts, is_masked
from webtraj.processing.base import Changed, Drop
from webtraj.processing.steps import clicks, observations, options
from webtraj.processing.steps.relabel import RELABELLED
from webtraj.trajectory import EpisodeTrajectory

__all__ = [
    "EXCLUSIVE",
    "Field",
    "FormState",
    "RelabelForms",
    "check_texts",
    "choose_text",
    "form_in",
]

# The state of a page's form, as far as the axtree and the actions show it.

_TOGGLES: Final = {
    "checkbox": "checked",
    "radio": "checked",
    "switch": "checked",
    "menuitemcheckbox": "checked",
    "menuitemradio": "checked",
    "option": "selected",
}
"""Roles of toggles, and the state of each that means on."""
_TYPED: Final = ("textbox", "searchbox", "spinbutton", "combobox")
EXCLUSIVE: Final = ("radio", "menuitemradio", "option")
"""Roles of exclusive toggles: when one goes on, another goes off."""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Field:
    """One element of a form."""

    role: str
    name: str
    after: str = ""
    """The text right before it, if it has no name and is not a toggle."""
    place: int = 0
    """Its index among fields with the same role, name and text before, from 0."""

    @property
    def called(self) -> str:
        """The name that a person would use; empty if the page shows none."""
        return self.name or self.after

    @property
    def is_toggle(self) -> bool:
        """Whether it is a toggle, as opposed to a typed or chosen value."""
        return self.role in _TOGGLES

    @property
    def state(self) -> str:
        """The state that means on; empty if it is not a toggle."""
        return _TOGGLES.get(self.role, "")


@dataclasses.dataclass(frozen=True, slots=True)
class FormState:
    """All fields of a page and their values."""

    values: Mapping[Field, str]
    """`on` or empty for toggles; otherwise the typed or chosen value. Bullets mean unknown."""
    shape: tuple[tuple[str, str, str], ...]
    """The role and name of every element of the page (for an unnamed field, the text before it):
    two pages of the same shape are one form."""

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that is equal for pages with the same structure and the same field values."""
        return self.shape, *sorted(self.values.items())

    def is_only(self, field: Field) -> bool:
        """Return whether a field's role and name are unique."""
        alike = (one for one in self.values if one.role == field.role)
        return sum(one.called == field.called for one in alike) == 1


def form_in(axtree: str, typed: Mapping[str, str] | None = None) -> FormState | None:
    """Return the state of a page's fields; None if the page was cut short, or has none.

    The options of a combobox are ignored: its value is what was chosen.

    Args:
        axtree: The page.
        typed: The values of masked fields, by ref, as `webtraj.judging.masked_fields` finds them.
    """
    if is_cut(axtree):
        return None
    elements = refs_in(axtree)
    has_list = any(element.role == "combobox" for element in elements)
    captions = captions_in(axtree) if any(map(_wants_caption, elements)) else {}
    counts: collections.Counter[Field] = collections.Counter()
    values: dict[Field, str] = {}
    for element in elements:
        role = element.role
        if role not in _TYPED and (role not in _TOGGLES or (has_list and role == "option")):
            continue
        kind = Field(role, element.name, _after(element, captions))
        field = dataclasses.replace(kind, place=counts[kind])
        counts[kind] += 1
        value = _value_of(field, element.states)
        values[field] = (typed or {}).get(element.ref, value) if is_masked(value) else value
    if not values:
        return None
    shape = tuple((one.role, one.name, _after(one, captions)) for one in elements)
    return FormState(values, shape)


def _wants_caption(element: Ref) -> bool:
    return element.role in _TYPED and not element.name


def _after(element: Ref, captions: Mapping[str, str]) -> str:
    return captions.get(element.ref, "") if _wants_caption(element) else ""


def _value_of(field: Field, states: tuple[str, ...]) -> str:
    wanted = f"{field.state}=" if field.is_toggle else 'value="'
    if field.is_toggle and field.state in states:
        return "on"
    # A toggle that is neither on nor off shows as checked=mixed, which differs.
    found = next((state for state in states if state.startswith(wanted)), "")
    if field.is_toggle or not found:
        return found
    return read_string(found.removeprefix("value="))


# Goals with several wordings, so that a policy does not learn a single phrase.


def check_texts(step: str, option: str, value: Any, blanks: Iterable[str]) -> tuple[str, ...]:
    """Check an option that is one or more texts with placeholders, and return them.

    Raises:
        InvalidInputError: It is not text, or a text lacks a placeholder.
    """
    blanks = tuple(blanks)
    texts = options.words(step, option, value)
    if not texts:
        raise errors.InvalidInputError(
            f"{step}: {option} is {value!r:.200}; expected a text or some, with "
            f"{' and '.join(blanks)} in each."
        )
    for text in texts:
        options.check_wording(step, option, text, blanks)
    return texts


def choose_text(texts: Sequence[str], key: str) -> str:
    """Return one of several texts, the same one for the same key.

    >>> {choose_text(["one", "two"], str(key)) for key in range(9)} == {"one", "two"}
    True
    """
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return texts[int.from_bytes(digest[:8], "big") % len(texts)]


_TASK = "hindsight/form"
_TYPED_TASK = "hindsight/typed-form"
_PICKED_TASK = "hindsight/picked-form"
_LONGEST_GOAL = 500
_ON = "on"
_SENDS = ("button",)
_FILLING = (
    actions_lib.Click, actions_lib.ClickAt, actions_lib.Fill, actions_lib.TypeInto,
    actions_lib.TypeAt, actions_lib.SelectOption, actions_lib.Check,
)  # fmt: skip
_MOVING = (actions_lib.Click, actions_lib.ClickAt, actions_lib.Press)
_UNNAMED: Mapping[str, str] = {
    "textbox": "text",
    "searchbox": "search",
    "spinbutton": "number",
    "combobox": "",
}
"""The name of an unnamed field that is the only one of its role."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RelabelForms(options.PlainStep):
    """Makes an episode of each form that was filled in and submitted by clicking a button.

    It needs no model: the axtree shows the fields' values when the button was clicked. A click
    counts if it ended the episode or changed the page, and if the button and each changed field
    have a unique role and name. An unnamed field is named by the text right before it
    (`webtraj.environments.browser.observation`), or by its kind if there is no such text and no
    other such field. The goal does not ask for values that were there from the start. The value of
    a masked field is what was typed into it, if the actions show it
    (`webtraj.judging.masked_fields`); the goal does not ask for redacted text.

    Of the steps before the click, those stay that set a field to its final value, each on the page
    where it happened. Steps that were undone later are left out, and so is everything before them
    if the page would show it: the new episode then begins where the form was right so far. If a box
    had to be unchecked or a field emptied, no episode is made.

    A field may also be filled in by clicks in something that opens on the page and adds no field,
    such as a calendar: the steps that opened it and turned its pages stay too, as few as the
    episode has.

    Goal, outcome, decisions and `metadata["relabelled"]` are as in `relabel-clicks`. The task is
    `hindsight/form`; with one typed text `hindsight/typed-form`, with several
    `hindsight/typed-form-2` and so on; with a field filled in by a click `hindsight/picked-form`.
    The rule requires that the last action was on that button,
    and that all fields of the form had these values, including toggles that were off.
    """

    name: str = dataclasses.field(default="relabel-forms", init=False)
    version: str = dataclasses.field(default="4", init=False)
    wording: str | tuple[str, ...] = "{what} and click {button}."
    """The goal; `{what}` is composed of the following, separated by commas, and capitalized if it
    comes first. This and the following may each be several texts: the episode determines which one
    is used."""
    select: str | tuple[str, ...] = "select {checked}"
    """The wording for checked or selected toggles."""
    choose: str | tuple[str, ...] = 'choose "{value}" from the {name} list'
    """The wording for a choice from a list. An unnamed list is just "the list"."""
    enter: str | tuple[str, ...] = 'enter "{value}" into the {name} field'
    """The wording for typed text."""
    pick: str | tuple[str, ...] = "select {value} as the {name}"
    """The wording for a text that a click put into a field."""
    most: int = 20
    """The most episodes made from one; the first forms count."""
    keep_original: bool = True
    """Whether to keep the original episode too."""

    def __post_init__(self) -> None:
        options.check_number(self.name, "most", self.most, least=1)
        options.check_flags(self)
        for option, blanks in (
            ("wording", ("{what}", "{button}")),
            ("select", ("{checked}",)),
            ("choose", ("{value}", "{name}")),
            ("enter", ("{value}", "{name}")),
            ("pick", ("{value}", "{name}")),
        ):
            texts = check_texts(self.name, option, getattr(self, option), blanks)
            options.put(self, **{option: texts})

    def __call__(self, trajectory: EpisodeTrajectory) -> EpisodeTrajectory | Changed | Drop:
        """Return the episode and those made from its forms."""
        made: list[EpisodeTrajectory] = []
        if not clicks.is_derived(trajectory) and trajectory.end is not None:
            made = list(itertools.islice(self._relabel(trajectory), self.most))
        if not made:
            return trajectory if self.keep_original else Drop("no form to ask for")
        steps = [one.info.metadata[RELABELLED]["steps"] for one in made]
        originals = (trajectory,) if self.keep_original else ()
        return Changed((*originals, *made), {"forms": steps})

    def _relabel(self, trajectory: EpisodeTrajectory) -> Iterator[EpisodeTrajectory]:
        states = _states_of(trajectory)
        for sending, button in _sendings(trajectory, states):
            begin = _begin_of(trajectory, states, sending)
            final = states[sending - 1]
            path = _way_to(trajectory, states, begin, sending - 1)
            if final is None or not path:
                continue
            first = states[begin]
            assert first is not None  # `final` has the same shape.
            asked = _find_changed(first, final) | _find_changed(states[path[0] - 1], final)
            suffix = f".form{trajectory.steps[sending].index}"
            words = self._words_for(f"{trajectory.episode_id}{suffix}")
            picked = _find_picked(trajectory, states, path) & asked
            goal = _goal(words, asked, picked, final, button)
            if goal:
                made = clicks.derive(
                    trajectory,
                    [*path, sending],
                    suffix=suffix,
                    task=_PICKED_TASK if picked else _task_of(asked),
                    goal=goal,
                    rule=_rule(asked, final, button),
                )
                # For masked fields, the remaining steps must show as much as all steps do.
                sent = _states_of(made)[-2]
                if sent is not None and not _find_changed(sent, final) & asked:
                    yield made

    def _words_for(self, episode_id: str) -> dict[str, str]:
        """Return the wordings for one episode, by option."""
        return {
            option: choose_text(getattr(self, option), f"{option}/{episode_id}")
            for option in ("wording", "select", "choose", "enter", "pick")
        }


def _goal(
    words: Mapping[str, str],
    asked: set[Field],
    picked: set[Field],
    final: FormState,
    button: str,
) -> str:
    """Return the goal; empty if it cannot be worded."""
    # In the order of the page, as a person would say it.
    fields = [field for field in final.values if field in asked]
    if not all(_is_sayable(field, final) for field in fields):
        return ""
    checked = [f.name for f in fields if f.is_toggle and final.values[f] == _ON]
    parts = []
    if checked:
        parts.append(options.fill_in(words["select"], {"checked": ", ".join(checked)}))
    for field in fields:
        if not field.is_toggle:
            listed = field.role == "combobox"
            wording = words["choose" if listed else "pick" if field in picked else "enter"]
            name = field.called or _UNNAMED[field.role]
            if not name:
                wording = wording.replace(" {name}", "")
            parts.append(options.fill_in(wording, {"value": final.values[field], "name": name}))
    goal = options.fill_in(words["wording"], {"what": ", ".join(parts), "button": button})
    if words["wording"].startswith("{what}"):
        goal = goal[:1].upper() + goal[1:]
    return goal if parts and len(goal) <= _LONGEST_GOAL else ""


def _states_of(trajectory: EpisodeTrajectory) -> list[FormState | None]:
    return [
        form_in(text_of(step.observation, "axtree"), typed)
        for step, typed in zip(trajectory.steps, find_typed_texts(trajectory.steps), strict=True)
    ]


def _sendings(
    trajectory: EpisodeTrajectory, states: list[FormState | None]
) -> Iterator[tuple[int, str]]:
    """Yield the position of each click that submitted a form, with the button's name."""
    for position, (before, step) in enumerate(itertools.pairwise(trajectory.steps), 1):
        if states[position - 1] is None or not clicks.is_plain_click(step):
            continue
        element = clicks.find_unique_name(before, step)
        if element is None or element[0] not in _SENDS:
            continue
        if step.last or not _is_same_page(trajectory, states, position - 1, position):
            yield position, element[1]


def _is_same_page(
    trajectory: EpisodeTrajectory, states: list[FormState | None], one: int, other: int
) -> bool:
    """Return whether two steps show the same form, with any values."""
    first, second = states[one], states[other]
    urls = {text_of(trajectory.steps[n].observation, "url") for n in (one, other)}
    return (
        first is not None and second is not None and first.shape == second.shape and len(urls) < 2
    )


def _begin_of(trajectory: EpisodeTrajectory, states: list[FormState | None], sending: int) -> int:
    """Return the position from which the form stayed on the page until it was submitted."""
    begin = at = sending - 1
    while at and _has_same_fields(trajectory, states, at - 1, at):
        at -= 1
        if _is_same_page(trajectory, states, at, sending - 1):
            begin = at
    return begin


def _has_same_fields(
    trajectory: EpisodeTrajectory, states: list[FormState | None], one: int, other: int
) -> bool:
    """Return whether two steps show the same fields at the same address."""
    first, second = states[one], states[other]
    urls = {text_of(trajectory.steps[n].observation, "url") for n in (one, other)}
    if first is None or second is None or len(urls) > 1:
        return False
    return first.values.keys() == second.values.keys()


def _way_to(
    trajectory: EpisodeTrajectory, states: list[FormState | None], begin: int, end: int
) -> list[int]:
    """Return the positions of the steps that filled in the form, in order.

    Each step starts with the page as the previous step left it. It sets fields to their final
    values, or changes only the page around them. Of several such sequences, the one in which most
    steps set fields is used, then the shortest, then the earliest.
    """
    final = states[end]
    assert final is not None
    ways: dict[Any, tuple[int, list[int]]] = {final.key: (0, [])}
    for position in range(end, begin, -1):
        before, after = states[position - 1], states[position]
        assert before is not None
        assert after is not None
        if after.key not in ways or not _advances(trajectory, position, before, after, final):
            continue
        filled, way = ways[after.key]
        filled, way = filled + bool(_find_changed(before, after)), [position, *way]
        known = ways.get(before.key)
        if known is None or (filled, -len(way)) >= (known[0], -len(known[1])):
            ways[before.key] = filled, way
    # It begins with the form as it was sent, so that what was opened is opened in the episode.
    whole = [(way, filled) for key, (filled, way) in ways.items() if key[0] == final.shape]
    return max(whole, key=lambda one: (one[1], -len(one[0]), -one[0][0] if one[0] else 0))[0]


def _advances(
    trajectory: EpisodeTrajectory,
    position: int,
    before: FormState,
    after: FormState,
    final: FormState,
) -> bool:
    """Return whether a step set fields to final values, or changed only the page around them."""
    step = trajectory.steps[position]
    last = last_action_of(step.observation)
    changed = _find_changed(before, after)
    return (
        (bool(changed) or before.shape != after.shape)
        and isinstance(observations.action_of(step.action), _FILLING if changed else _MOVING)
        and bool(last)
        and not last.get("error")
        and all(after.values[field] == final.values[field] for field in changed)
        and all(_is_wordable(field, after.values[field]) for field in changed)
    )


def _find_picked(
    trajectory: EpisodeTrajectory, states: list[FormState | None], path: Iterable[int]
) -> set[Field]:
    """Return the fields for a text that clicks filled in."""
    picked: set[Field] = set()
    for position in path:
        before, after = states[position - 1], states[position]
        action = observations.action_of(trajectory.steps[position].action)
        if after is not None and isinstance(action, actions_lib.Click | actions_lib.ClickAt):
            picked |= set(filter(_is_typed, _find_changed(before, after)))
    return picked


def _find_changed(before: FormState | None, after: FormState) -> set[Field]:
    """Return the fields whose value changed."""
    values = {} if before is None else before.values
    return {field for field, value in after.values.items() if values.get(field) != value}


def _task_of(asked: set[Field]) -> str:
    # By number of texts, so that a cap per task keeps the rare forms with several.
    typed = sum(map(_is_typed, asked))
    return _TASK if not typed else _TYPED_TASK if typed == 1 else f"{_TYPED_TASK}-{typed}"


def _is_typed(field: Field) -> bool:
    return not field.is_toggle and field.role != "combobox"


def _is_wordable(field: Field, value: str) -> bool:
    """Return whether a goal can ask for a value, or need not, because another toggle unsets it."""
    if field.is_toggle:
        return value == _ON or (field.role in EXCLUSIVE and not value)
    return clicks.is_sayable(value) and '"' not in value and not is_masked(value)


def _is_sayable(field: Field, final: FormState) -> bool:
    """Return whether a goal and a rule can identify a field and ask for its value."""
    if not final.is_only(field) or not _is_wordable(field, final.values[field]):
        return False
    if field.called:
        return clicks.is_sayable(field.called)
    return field.role in _UNNAMED and sum(one.role == field.role for one in final.values) == 1


def _rule(asked: set[Field], final: FormState, button: str) -> dict[str, Any]:
    """Return a rule that holds if the button was clicked with these values in the fields."""
    held: list[dict[str, Any]] = []
    for field, value in final.values.items():
        element: dict[str, Any] = {"role": field.role, "name": {"equals": field.name}}
        if field.after:
            element["after"] = {"equals": field.after}
        if field in asked and not field.is_toggle:
            held.append({"element": {**element, "value": {"equals": value}}})
        elif field.is_toggle and final.is_only(field) and clicks.is_sayable(field.name):
            on = {"element": {**element, "states": [field.state]}}
            held.append(on if value == _ON else {"not": on})
    last = {"last_action": {"role": _SENDS[0], "name": {"equals": button}}}
    return {"success": {"all": [last, {"before": {"all": held}}]}}
