"""Evaluation of predicates at the end of an episode: true, false, or unknown with the reason."""

from __future__ import annotations

import dataclasses
import functools
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from webtraj.environments.browser.recorded_channels import read_string
from webtraj.judging import predicates
from webtraj.judging.final_state import Deed, FinalState, MissingError
from webtraj.judging.masked_fields import is_masked
from webtraj.judging.predicates import DeedTest, ElementTest, Predicate, TextTest, UrlTest
from webtraj.redaction.rules import find_all
from webtraj.trajectory import sum_of_rewards

if TYPE_CHECKING:
    from webtraj.environments.browser.observation import Ref

__all__ = ["Evaluation"]

_REGEX_SECONDS = 2.0
_NUMBER = re.compile(
    r"(?<![\w.])(?<!\d,)([-\u2212+]?(?:\d{1,3}(?:,\d{3})++(?!\d)|\d++)(?:\.\d++)?+)(?![.,]\d)(\w*)"
)
_ORDINALS = frozenset({"st", "nd", "rd", "th"})
_OTHER_NAMES = frozenset({"D", "k", "K", "M", "B", "G", "T", "bn", "mn"})
"""Text after a number that is not a unit: 3D is a name, and 12k is not 12."""
_VALUE = 'value="'
_HIDDEN = "the last observation shows bullets for what a field holds, and no action tells"
_CUT = "the last observation's axtree is cut short, and does not have it up to there"


@dataclasses.dataclass(slots=True)
class Evaluation:
    """An evaluator of predicates at the end of one episode."""

    state: FinalState
    values: Mapping[str, str]
    """The values of the goal template's names."""
    problems: list[str] = dataclasses.field(default_factory=list)
    """The reasons why something is unknown, in the order found."""

    def holds(self, predicate: Predicate) -> bool | None:
        """Return whether a predicate holds; if unknown, add a problem and return None."""
        match predicate.kind:
            case "all_of":
                return _all(self.holds(inner) for inner in predicate.inner)
            case "any_of":
                return _not(_all(_not(self.holds(inner)) for inner in predicate.inner))
            case "not_":
                return _not(self.holds(predicate.inner[0]))
            case "before":
                return self._check_before(predicate.inner[0])
        try:
            return _KINDS[predicate.kind](self, getattr(predicate, predicate.kind))
        except MissingError as missing:
            self.problems.append(str(missing))
            return None

    def _check_before(self, predicate: Predicate) -> bool | None:
        before = self.state.before()
        if before is None:
            self.problems.append("there is nothing before the last action")
            return None
        # Shares the list of problems.
        return Evaluation(before, self.values, self.problems).holds(predicate)

    def _fits(self, test: TextTest | None, text: str) -> bool:
        if test is None:
            return True
        plain = _plain(text)
        fill = functools.partial(predicates.fill_in, values=self.values)
        return (
            (test.equals is None or text == fill(test.equals))
            and (test.like is None or plain == _plain(fill(test.like)))
            and (test.contains is None or _plain(fill(test.contains), ends=False) in plain)
            and (test.one_of is None or plain in {_plain(fill(item)) for item in test.one_of})
            and (test.number is None or self._is_number(test.number, test.within, text))
            and (test.matches is None or _search(test.matches, text))
        )

    def _is_number(self, wanted: float | str, within: float, text: str) -> bool:
        if isinstance(wanted, str):
            given = _numbers(predicates.fill_in(wanted, self.values))
            if len(given) != 1:
                raise MissingError(f"the goal gives no one number for {wanted}")
            (wanted,) = given
        numbers = _numbers(text)
        return len(numbers) == 1 and abs(numbers[0] - wanted) <= within

    def _url(self, test: UrlTest) -> bool:
        url = self.state.text("url")
        parts = urlsplit(url)
        query = parse_qs(parts.query, keep_blank_values=True)
        fill = functools.partial(predicates.fill_in, values=self.values)
        return (
            (test.host is None or _host(parts.hostname or "") == _host(fill(test.host)))
            and (test.path is None or parts.path.rstrip("/") == fill(test.path).rstrip("/"))
            and all(fill(value) in query.get(key, ()) for key, value in (test.query or {}).items())
            and self._fits(test, url)
        )

    def _channel(self, channel: str, test: TextTest) -> bool:
        return self._fits(test, self.state.text(channel))

    def _axtree(self, test: TextTest) -> bool:
        if self._channel("axtree", test):
            return True
        if not self.state.elements()[1]:
            raise MissingError(_CUT)
        return False

    def _answer(self, test: TextTest) -> bool:
        answer = self.state.answer
        return answer is not None and self._fits(test, answer)

    def _element(self, test: ElementTest) -> bool:
        elements, complete = self.state.elements()
        captions = {} if test.after is None else self.state.captions()
        alike = [
            element
            for element in elements
            if (test.role is None or element.role == test.role)
            and self._fits(test.name, element.name)
            and (test.after is None or self._is_after(test.after, captions.get(element.ref)))
            and set(test.states or ()) <= set(element.states)
        ]
        held = [True if test.value is None else self._holds(test.value, one) for one in alike]
        if True in held:
            return True
        if not complete:
            raise MissingError(_CUT)
        if None in held:
            raise MissingError(_HIDDEN)
        return False

    def _is_after(self, test: TextTest, caption: str | None) -> bool:
        return caption is not None and self._fits(test, caption)

    def _holds(self, test: TextTest, element: Ref) -> bool | None:
        """Return whether a field's value passes a test; None if the field is masked."""
        shown = _value_of(element)
        if self._fits(test, shown):
            return True
        if not is_masked(shown):
            return False
        typed = self.state.find_typed().get(element.ref)
        return None if typed is None else self._fits(test, typed)

    def _did(self, test: DeedTest) -> bool:
        return any(self._is_deed(test, deed) for deed in self.state.deeds())

    def _last_action(self, test: DeedTest) -> bool:
        deeds = list(self.state.deeds())
        return bool(deeds) and self._is_deed(test, deeds[-1])

    def _is_deed(self, test: DeedTest, deed: Deed) -> bool:
        verbs = [test.verb] if isinstance(test.verb, str) else test.verb
        return (
            (verbs is None or deed.verb in verbs)
            and deed.was_done
            and (test.text is None or any(self._fits(test.text, text) for text in deed.texts))
            and (test.role is None or deed.element("role") == test.role)
            and (test.name is None or self._fits(test.name, deed.element("name")))
        )

    def _reward(self, wanted: float) -> bool:
        trajectory = self.state.trajectory
        total = sum_of_rewards(step.reward for step in trajectory.steps if not step.first)
        if total is None:
            raise MissingError("no step has a reward")
        if total != total:
            raise MissingError("the total reward is not a number")
        return total >= wanted


_KINDS: Mapping[str, Callable[[Evaluation, Any], bool]] = {
    "url": Evaluation._url,
    "title": lambda evaluation, test: evaluation._channel("title", test),
    "text": lambda evaluation, test: evaluation._channel("text", test),
    "axtree": Evaluation._axtree,
    "answer": Evaluation._answer,
    "answered": lambda evaluation, wanted: (evaluation.state.answer is not None) is wanted,
    "element": Evaluation._element,
    "did": Evaluation._did,
    "last_action": Evaluation._last_action,
    "reward_at_least": Evaluation._reward,
    "steps_at_most": lambda evaluation, most: evaluation.state.trajectory.num_steps <= most,
}


def _all(truths: Iterable[bool | None]) -> bool | None:
    """Return whether all hold. Stop at the first that does not."""
    known = True
    for truth in truths:
        if truth is False:
            return False
        known = known and truth is not None
    return True if known else None


def _not(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _plain(text: str, *, ends: bool = True) -> str:
    """Return a text in lower case with single spaces; with `ends`, without a final full stop."""
    plain = " ".join(text.casefold().split())
    return plain.removesuffix(".").rstrip() if ends else plain


def _host(host: str) -> str:
    return host.casefold().removeprefix("www.")


def _numbers(text: str) -> list[float]:
    """Return the complete numbers in a text, without their units.

    >>> _numbers("1,234.5m of 5% and 12 km\u00b2")
    [1234.5, 5.0, 12.0]
    >>> _numbers("the 1st, 3D, v2, 0x1F, 12k, 1.2.3 or 12,5kg")
    []
    """
    found = _NUMBER.findall(text)
    whole = [number for number, behind in found if not behind or _is_unit(behind)]
    return [float(number.replace(",", "").replace("\u2212", "-")) for number in whole]


def _is_unit(word: str) -> bool:
    is_name = word.casefold() in _ORDINALS or word in _OTHER_NAMES
    return word.rstrip("\u00b2\u00b3").isalpha() and not is_name


def _value_of(element: Ref) -> str:
    for state in element.states:
        if state.startswith(_VALUE):
            return read_string(state.removeprefix("value="))
    return ""


def _search(regex: str, text: str) -> bool:
    try:
        return bool(find_all(regex, text, until=time.monotonic() + _REGEX_SECONDS))
    except TimeoutError as error:
        raise MissingError(f"the regex {regex!r:.100} is too slow: {error}") from error
