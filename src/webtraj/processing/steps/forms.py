"""`relabel-forms`: a form that was filled in and sent is a task that was done."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from webtraj import errors
from webtraj.environments import actions as actions_lib
from webtraj.environments.browser.observation import Ref, captions_in, refs_in
from webtraj.judging.evaluating import is_masked, typed_texts
from webtraj.processing.base import Changed, Drop
from webtraj.processing.steps import clicks, looking, options
from webtraj.processing.steps.relabel import RELABELLED
from webtraj.trajectory import EpisodeTrajectory

__all__ = ["EXCLUSIVE", "Field", "FormState", "RelabelForms", "checked", "dealt", "form_in"]

# What a form on a page is filled in with, as far as axtree and actions tell.

_CUT = re.compile(r"^ *\.\.\. \d+ more lines$", re.MULTILINE)
_TOGGLES: Final = {
    "checkbox": "checked",
    "radio": "checked",
    "switch": "checked",
    "menuitemcheckbox": "checked",
    "menuitemradio": "checked",
    "option": "selected",
}
"""Roles of what is on or off, and the state that says so."""
_TYPED: Final = ("textbox", "searchbox", "spinbutton", "combobox")
EXCLUSIVE: Final = ("radio", "menuitemradio", "option")
"""Roles of which one goes off when another goes on."""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Field:
    """One element of a form."""

    role: str
    name: str
    after: str = ""
    """The text right before it, if it has no name and is no toggle."""
    place: int = 0
    """Which of those of this role, name and text before it, from 0."""

    @property
    def called(self) -> str:
        """What a person calls it; empty if the page does not say."""
        return self.name or self.after

    @property
    def is_toggle(self) -> bool:
        """Whether it is on or off, and not typed or chosen."""
        return self.role in _TOGGLES

    @property
    def state(self) -> str:
        """The state that says that it is on; empty if it is no toggle."""
        return _TOGGLES.get(self.role, "")


@dataclasses.dataclass(frozen=True, slots=True)
class FormState:
    """All fields of a page, and what they hold."""

    values: Mapping[Field, str]
    """`on` or nothing for toggles; else what was typed or chosen. Bullets are what is not known."""
    shape: tuple[tuple[str, str, str], ...]
    """What every element of the page is called (its role, its name, for a field without one the
    text before it): two pages of one shape are one form."""

    @property
    def key(self) -> tuple[tuple[Field, str], ...]:
        """What is the same for the same fields with the same values."""
        return tuple(sorted(self.values.items()))

    def is_only(self, field: Field) -> bool:
        """Return whether its role and what it is called tell a field from all others."""
        alike = (one for one in self.values if one.role == field.role)
        return sum(one.called == field.called for one in alike) == 1


def form_in(axtree: str, typed: Mapping[str, str] | None = None) -> FormState | None:
    """Return the state of a page's fields; None if the page was cut short, or has none.

    The options of a combobox are left aside: what is chosen is its value.

    Args:
        axtree: The page.
        typed: What fields hold that show bullets, by ref, as `webtraj.judging.evaluating` finds it.
    """
    if _CUT.search(axtree):
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
    # What is neither on nor off stands there as checked=mixed, and is told apart.
    found = next((state for state in states if state.startswith(wanted)), "")
    if field.is_toggle or not found:
        return found
    return str(json.loads(found.removeprefix("value=")))


# Goals that are worded in one way or in several: who trains on them should learn no one phrase.


def checked(step: str, option: str, value: Any, blanks: Iterable[str]) -> tuple[str, ...]:
    """Return an option that is a text with blanks to be filled in, or several of them.

    Raises:
        InvalidInputError: It is none, or one of them lacks one of the blanks.
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


def dealt(texts: Sequence[str], key: str) -> str:
    """Return one of some texts, the same each time for the same key.

    >>> {dealt(["one", "two"], str(key)) for key in range(9)} == {"one", "two"}
    True
    """
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return texts[int.from_bytes(digest[:8], "big") % len(texts)]


_TASK = "hindsight/form"
_TYPED_TASK = "hindsight/typed-form"
_LONGEST_GOAL = 500
_ON = "on"
_SENDS = ("button",)
_FILLING = (
    actions_lib.Click, actions_lib.ClickAt, actions_lib.Fill, actions_lib.TypeInto,
    actions_lib.TypeAt, actions_lib.SelectOption, actions_lib.Check,
)  # fmt: skip
_UNNAMED: Mapping[str, str] = {
    "textbox": "text",
    "searchbox": "search",
    "spinbutton": "number",
    "combobox": "",
}
"""What a field without a name is called, if there is no other of its role."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RelabelForms:
    """Makes an episode of each form that was filled in and sent by a click on a button.

    No model is asked: what the fields held when the button was clicked is in the page's axtree. A
    click counts if it ended the episode or changed the page, and if goal and rule can tell the
    button and each field that was changed from all others by role and name. A field without a name
    is called by the text right before it (`webtraj.environments.browser.observation`), and by its
    kind if there is none and no other such field. What was there before and stayed is not asked
    for. What a field holds that shows bullets is what was typed into it, where the actions tell
    (`webtraj.judging.evaluating`); a text that was redacted is not asked for.

    Of the steps before the click those stay that brought a field to what it held in the end, each
    on the very page that it was done on. What was undone later is left out, and so is everything
    before it where the page would show it: the new episode then begins where the form was right
    so far. Where a box had to be unchecked, or a field emptied, there is no episode.

    Goal, outcome, decisions and `metadata["relabelled"]` are as `relabel-clicks` has them. The
    task is `hindsight/form`; where a text was typed `hindsight/typed-form`, where several were
    `hindsight/typed-form-2` and so on. The rule says that the last action was on that button, and
    that all fields of the form held what they held, those that are off included.
    """

    name: str = dataclasses.field(default="relabel-forms", init=False)
    version: str = dataclasses.field(default="3", init=False)
    needs_model: ClassVar[bool] = False
    wording: str | tuple[str, ...] = "{what} and click {button}."
    """The goal; `{what}` is made of the following, with commas between, and begins with a capital
    if the goal does. This and the following may be several texts each: then it depends on the
    episode which one is taken."""
    select: str | tuple[str, ...] = "select {checked}"
    """What was checked or selected, by their names."""
    choose: str | tuple[str, ...] = 'choose "{value}" from the {name} list'
    """What was chosen from a list. A list without a name is just the list."""
    enter: str | tuple[str, ...] = 'enter "{value}" into the {name} field'
    """What was typed."""
    most: int = 20
    """The most episodes that are made of one; the first forms count."""
    keep_original: bool = True
    """Whether the episode itself goes on, too."""

    def __post_init__(self) -> None:
        options.check_number(self.name, "most", self.most, least=1)
        options.check_flags(self.name, keep_original=self.keep_original)
        for option, blanks in (
            ("wording", ("{what}", "{button}")),
            ("select", ("{checked}",)),
            ("choose", ("{value}", "{name}")),
            ("enter", ("{value}", "{name}")),
        ):
            texts = checked(self.name, option, getattr(self, option), blanks)
            object.__setattr__(self, option, texts)

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was told."""
        return options.settings_of(self)

    def __call__(self, trajectory: EpisodeTrajectory) -> EpisodeTrajectory | Changed | Drop:
        """Return the episode and those that were made of its forms."""
        made: list[EpisodeTrajectory] = []
        if not clicks.is_derived(trajectory) and trajectory.end is not None:
            made = list(itertools.islice(self._made_of(trajectory), self.most))
        if not made:
            return trajectory if self.keep_original else Drop("no form to ask for")
        steps = [one.info.metadata[RELABELLED]["steps"] for one in made]
        originals = (trajectory,) if self.keep_original else ()
        return Changed((*originals, *made), {"forms": steps})

    def _made_of(self, trajectory: EpisodeTrajectory) -> Iterator[EpisodeTrajectory]:
        states = _states_of(trajectory)
        for sending, button in _sendings(trajectory, states):
            begin = _begin_of(trajectory, states, sending)
            final = states[sending - 1]
            path = _way_to(trajectory, states, begin, sending - 1)
            if final is None or not path:
                continue
            first = states[begin]
            assert first is not None  # As `final`, which has its shape.
            asked = _changed(first, final) | _changed(states[path[0] - 1], final)
            suffix = f".form{trajectory.steps[sending].index}"
            words = self._words_for(f"{trajectory.episode_id}{suffix}")
            goal = _goal(words, asked, final, button)
            if goal:
                made = clicks.derived(
                    trajectory,
                    [*path, sending],
                    suffix=suffix,
                    task=_task_of(asked),
                    goal=goal,
                    rule=_rule(asked, final, button),
                )
                # Of what shows bullets, the steps that stay must tell as much as all of them.
                sent = _states_of(made)[-2]
                if sent is not None and not _changed(sent, final) & asked:
                    yield made

    def _words_for(self, episode_id: str) -> dict[str, str]:
        """Return the wordings that one episode gets, by option."""
        return {
            option: dealt(getattr(self, option), f"{option}/{episode_id}")
            for option in ("wording", "select", "choose", "enter")
        }


def _goal(words: Mapping[str, str], asked: set[Field], final: FormState, button: str) -> str:
    """Return the goal; empty if there are no words for it."""
    # In the order of the page, as somebody would say it.
    fields = [field for field in final.values if field in asked]
    if not all(_is_sayable(field, final) for field in fields):
        return ""
    checked = [f.name for f in fields if f.is_toggle and final.values[f] == _ON]
    parts = []
    if checked:
        parts.append(options.worded(words["select"], {"checked": ", ".join(checked)}))
    for field in fields:
        if not field.is_toggle:
            wording = words["choose" if field.role == "combobox" else "enter"]
            name = field.called or _UNNAMED[field.role]
            if not name:
                wording = wording.replace(" {name}", "")
            parts.append(options.worded(wording, {"value": final.values[field], "name": name}))
    goal = options.worded(words["wording"], {"what": ", ".join(parts), "button": button})
    if words["wording"].startswith("{what}"):
        goal = goal[:1].upper() + goal[1:]
    return goal if parts and len(goal) <= _LONGEST_GOAL else ""


def _states_of(trajectory: EpisodeTrajectory) -> list[FormState | None]:
    return [
        form_in(looking.text_channel(step.observation, "axtree"), typed)
        for step, typed in zip(trajectory.steps, typed_texts(trajectory.steps), strict=True)
    ]


def _sendings(
    trajectory: EpisodeTrajectory, states: list[FormState | None]
) -> Iterator[tuple[int, str]]:
    """Yield the position of each click that sent a form, and the button's name."""
    for position, (before, step) in enumerate(itertools.pairwise(trajectory.steps), 1):
        if states[position - 1] is None or not clicks.is_plain_click(step):
            continue
        element = clicks.named_once(before, step)
        if element is None or element[0] not in _SENDS:
            continue
        if step.last or not _is_same_page(trajectory, states, position - 1, position):
            yield position, element[1]


def _is_same_page(
    trajectory: EpisodeTrajectory, states: list[FormState | None], one: int, other: int
) -> bool:
    """Return whether two steps show one form, filled in or not."""
    first, second = states[one], states[other]
    urls = {looking.text_channel(trajectory.steps[n].observation, "url") for n in (one, other)}
    return (
        first is not None and second is not None and first.shape == second.shape and len(urls) < 2
    )


def _begin_of(trajectory: EpisodeTrajectory, states: list[FormState | None], sending: int) -> int:
    """Return the position of the first step from which the form was on the page to the end."""
    begin = sending - 1
    while begin and _is_same_page(trajectory, states, begin - 1, begin):
        begin -= 1
    return begin


def _way_to(
    trajectory: EpisodeTrajectory, states: list[FormState | None], begin: int, end: int
) -> list[int]:
    """Return the positions of the steps that filled the form in, one after the other.

    Each begins with the fields as the one before has left them, and brings fields to what they
    hold in the end. Of several ways the longest is taken, and of those the earliest.
    """
    final = states[end]
    assert final is not None
    ways: dict[Any, list[int]] = {final.key: []}
    for position in range(end, begin, -1):
        before, after = states[position - 1], states[position]
        assert before is not None
        assert after is not None
        if after.key not in ways or not _advances(trajectory, position, before, after, final):
            continue
        way = [position, *ways[after.key]]
        if len(way) >= len(ways.get(before.key, ())):
            ways[before.key] = way
    return max(ways.values(), key=lambda way: (len(way), -way[0] if way else 0))


def _advances(
    trajectory: EpisodeTrajectory,
    position: int,
    before: FormState,
    after: FormState,
    final: FormState,
) -> bool:
    """Return whether a step brought fields to their last values, and did nothing else to them."""
    step = trajectory.steps[position]
    last = looking.channel(step.observation, "last_action")
    changed = _changed(before, after)
    return (
        bool(changed)
        and isinstance(looking.action_of(step.action), _FILLING)
        and isinstance(last, Mapping)
        and not last.get("error")
        and all(after.values[field] == final.values[field] for field in changed)
        and all(_is_wordable(field, after.values[field]) for field in changed)
    )


def _changed(before: FormState | None, after: FormState) -> set[Field]:
    """Return the fields that hold something else."""
    values = {} if before is None else before.values
    return {field for field, value in after.values.items() if values.get(field) != value}


def _task_of(asked: set[Field]) -> str:
    # By how many texts, so that a cap by task leaves the few with several beside the many with one.
    typed = sum(map(_is_typed, asked))
    return _TASK if not typed else _TYPED_TASK if typed == 1 else f"{_TYPED_TASK}-{typed}"


def _is_typed(field: Field) -> bool:
    return not field.is_toggle and field.role != "combobox"


def _is_wordable(field: Field, value: str) -> bool:
    """Return whether a goal can ask for a value. What another puts out need not be asked for."""
    if field.is_toggle:
        return value == _ON or (field.role in EXCLUSIVE and not value)
    return clicks.is_sayable(value) and '"' not in value and not is_masked(value)


def _is_sayable(field: Field, final: FormState) -> bool:
    """Return whether a goal and a rule can tell a field, and ask for what it holds."""
    if not final.is_only(field) or not _is_wordable(field, final.values[field]):
        return False
    if field.called:
        return clicks.is_sayable(field.called)
    return field.role in _UNNAMED and sum(one.role == field.role for one in final.values) == 1


def _rule(asked: set[Field], final: FormState, button: str) -> dict[str, Any]:
    """Return a rule that holds if the button was clicked with the fields as they were."""
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
