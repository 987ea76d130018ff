"""Predicates over the end of an episode, as written in a rules file.

A predicate has exactly one key::

    {url: TEST}         also host, path and query: {url: {path: /cart, query: {page: "2"}}}
    {title: TEST} {text: TEST} {axtree: TEST}      the last observation's channels
    {answer: TEST}      what the agent answered last; no answer passes no test
    {answered: true}    whether it answered at all
    {element: {role: ROLE, name: TEST, after: TEST, states: [checked], value: TEST}}
                        one on the last page
    {did: {verb: VERB, role: ROLE, name: TEST, text: TEST}}     an action that was done, with words
    {last_action: ...}  the same of the last action
    {before: PREDICATE}         it held before the last action, as if the episode ended there
    {reward_at_least: 1} {steps_at_most: 5}
    {all: [...]} {any: [...]} {not: ...}

A TEST is a text, compared without case, white space and a final full stop; or a mapping whose
entries must all hold: `equals` (exactly), `like` (as a bare text), `contains` (as `like`,
anywhere), `one_of` (a list of texts, as `like`), `matches` (a regex, found anywhere), and `number`
with `within` (the text contains exactly one number, and it is this one). A unit may follow a number
(`12.5kg`, `5%`); `1st`, `3D`, `12k`, `1.2.3` and `12,5` are not numbers.

A predicate is true, false, or unknown if a channel is missing. `not` of unknown is unknown; `all`
is false if any part is false, and `any` is true if any part is true, whatever the others are.
"""

from __future__ import annotations

import difflib
import math
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Self

import pydantic

from webtraj import errors

__all__ = [
    "DeedTest",
    "ElementTest",
    "Predicate",
    "TextTest",
    "UrlTest",
    "fill_in",
    "match_goal",
    "names_in",
    "describe_errors",
]

# Goal templates: the common text of a task's goals, with names for the words that differ.
# `Log in as "{user}".` matches `Log in as "anna".` and sets `user` to `anna`. A name matches the
# shortest text up to what follows it; `{_}` matches any text and sets nothing. Templates are not
# regexes: matching takes linear time.

_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def names_in(text: str) -> list[str]:
    """Return the names in a template, in order.

    >>> names_in('Log in as "{user}" with {_} "{password}".')
    ['user', 'password']
    """
    return [name for name in _NAME.findall(text) if name != "_"]


def match_goal(template: str, goal: str) -> dict[str, str] | None:
    """Return the value of each of a template's names in a goal; None if the goal does not match.

    In both texts, a run of white space counts as one space.

    >>> match_goal('Enter "{text}" and press {button}.', 'Enter "Ada" and press Submit.')
    {'text': 'Ada', 'button': 'Submit'}

    Raises:
        InvalidInputError: Two names are adjacent, so their boundary is ambiguous.
    """
    pieces = _NAME.split(" ".join(template.split()))
    literals, names = pieces[::2], pieces[1::2]
    if "" in literals[1:-1]:
        raise errors.InvalidInputError(
            f"The goal {template!r:.200} has two names side by side; put some text between them."
        )
    goal = " ".join(goal.split())
    if not names:
        return {} if goal == literals[0] else None
    if not goal.startswith(literals[0]):
        return None
    found: dict[str, str] = {}
    place = len(literals[0])
    for name, literal in zip(names, literals[1:], strict=True):
        if literal is literals[-1] and name is names[-1]:
            end = len(goal) - len(literal) if goal.endswith(literal) else -1
        else:
            end = goal.find(literal, place)
        if end < place:
            return None
        value = goal[place:end]
        if name != "_" and found.setdefault(name, value) != value:
            return None  # One name cannot have two values.
        place = end + len(literal)
    return found


def fill_in(text: str, values: Mapping[str, str]) -> str:
    """Return a text with each name replaced by its value. Other words in braces stay.

    >>> fill_in("{user} is {here}", {"user": "anna"})
    'anna is {here}'
    """
    return _NAME.sub(lambda found: values.get(found[1], found[0]), text)


_MAX_DEPTH = 20
_MAX_REGEX = 1000
_STRICT = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


class _Test(pydantic.BaseModel):
    model_config = _STRICT

    @pydantic.model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError(f"expected one of {', '.join(type(self).model_fields)}")
        return self


class TextTest(_Test):
    """A test of a text; all given fields must hold."""

    equals: str | None = None
    like: str | None = None
    contains: str | None = None
    one_of: list[str] | None = pydantic.Field(default=None, min_length=1)
    matches: str | None = pydantic.Field(default=None, max_length=_MAX_REGEX)
    number: float | str | None = None
    """The number, or a name from the goal: `{total}`."""
    within: float = pydantic.Field(default=0.0, ge=0, allow_inf_nan=False)

    @pydantic.field_validator("matches")
    @classmethod
    def _is_regex(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                re.compile(value)
            except (re.error, RecursionError, OverflowError) as error:
                raise ValueError(f"invalid regex: {error}") from None
        return value

    @pydantic.field_validator("contains", "like")
    @classmethod
    def _is_not_blank(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError("the text is blank; give the text to find")
        return value

    @pydantic.model_validator(mode="after")
    def _is_whole(self) -> Self:
        if isinstance(self.number, float) and not math.isfinite(self.number):
            raise ValueError("number must be finite")
        if isinstance(self.number, str) and not names_in(self.number):
            raise ValueError("number must be a number, or a name from the goal such as {total}")
        if self.within and self.number is None:
            raise ValueError("within needs number; give both")
        return self


def _as_test(value: Any) -> Any:
    return {"like": value} if isinstance(value, str) else value


_Text = Annotated[TextTest, pydantic.BeforeValidator(_as_test)]


class UrlTest(TextTest):
    """A test of a URL: as a text, and by its parts."""

    host: str | None = None
    """Its host, without port; a leading `www.` is ignored."""
    path: str | None = None
    """Its path; a trailing slash is ignored."""
    query: dict[str, str] | None = None
    """Query parameters that it must have; others are allowed."""


_Url = Annotated[
    UrlTest,
    pydantic.BeforeValidator(lambda value: {"equals": value} if isinstance(value, str) else value),
]


class ElementTest(_Test):
    """A test of an element of the page."""

    role: str | None = None
    name: _Text | None = None
    after: _Text | None = None
    """The text right before it, if it is a field; people call an unnamed field by this text. See
    `webtraj.environments.browser.observation`."""
    states: list[str] | None = None
    """States that it must have, as the axtree writes them: `checked`, `level=2`."""
    value: _Text | None = None
    """The content of a text field. If the field is masked, the typed text as the actions show it
    (`webtraj.judging.masked_fields`); otherwise the value is unknown."""


class DeedTest(_Test):
    """A test of an action; failed actions do not count."""

    verb: str | list[str] | None = None
    role: str | None = None
    """The role of its target element; `name` likewise."""
    name: _Text | None = None
    text: _Text | None = None
    """The text that it typed, chose or said."""


class Predicate(pydantic.BaseModel):
    """A predicate, as the module's docstring lists them."""

    model_config = _STRICT

    all_of: list[Predicate] | None = pydantic.Field(default=None, alias="all", min_length=1)
    any_of: list[Predicate] | None = pydantic.Field(default=None, alias="any", min_length=1)
    not_: Predicate | None = pydantic.Field(default=None, alias="not")
    before: Predicate | None = None
    url: _Url | None = None
    title: _Text | None = None
    text: _Text | None = None
    axtree: _Text | None = None
    answer: _Text | None = None
    answered: bool | None = None
    element: ElementTest | None = None
    did: DeedTest | None = None
    last_action: DeedTest | None = None
    reward_at_least: float | None = pydantic.Field(default=None, allow_inf_nan=False)
    steps_at_most: int | None = pydantic.Field(default=None, ge=0)

    @pydantic.model_validator(mode="after")
    def _is_one(self) -> Self:
        given = [name for name in self.model_fields_set if getattr(self, name) is not None]
        if len(given) != 1 or len(self.model_fields_set) != 1:
            known = (field.alias or name for name, field in type(self).model_fields.items())
            raise ValueError(
                f"a predicate has one key of {', '.join(known)}; this has "
                f"{len(self.model_fields_set)}. Put several into all: [...]"
            )
        if self.depth > _MAX_DEPTH:
            raise ValueError(f"predicates are nested more than {_MAX_DEPTH} deep")
        return self

    @property
    def kind(self) -> str:
        """The name of the one field that is set."""
        (name,) = self.model_fields_set
        return name

    @property
    def inner(self) -> tuple[Predicate, ...]:
        """The predicates directly inside it."""
        if only := self.not_ or self.before:
            return (only,)
        return tuple(self.all_of or self.any_of or ())

    @property
    def depth(self) -> int:
        """The nesting depth, itself included."""
        return 1 + max((predicate.depth for predicate in self.inner), default=0)

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield every text in it, with its key."""
        for predicate in self.inner:
            yield from predicate.texts()
        if not self.inner:
            yield from _texts(self.kind, self.model_dump(exclude_none=True)[self.kind])


def _texts(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(key if key == "query" else name, item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(key, item)


# Error messages for malformed rules, which say what is allowed.


def describe_errors(error: pydantic.ValidationError, model: type[pydantic.BaseModel]) -> list[str]:
    """Return a line for each mistake: its place, what is wrong, and the allowed keys.

    Args:
        error: The error from validating a list of `model`.
        model: The model of the list's items.
    """
    return [
        f"{'.'.join(map(str, problem['loc'])) or 'rules'}: {_describe_problem(problem, model)}"
        for problem in error.errors(include_url=False)
    ]


def _describe_problem(problem: Mapping[str, Any], model: type[pydantic.BaseModel]) -> str:
    place, kind = problem["loc"], problem["type"]
    if kind == "extra_forbidden":
        known = _keys(_model_at(place[:-1], model))
        return f"is unknown{_nearest(str(place[-1]), known)}; the keys are {', '.join(known)}"
    if kind == "model_type":
        expected = _model_at(place, model)
        text = "a text or " if expected is not None and issubclass(expected, TextTest) else ""
        keys = ", ".join(_keys(expected))
        return f"expected {text}a mapping with keys of {keys}; got {problem['input']!r:.60}"
    if kind == "list_type":
        return f"expected a list; got {problem['input']!r:.60}"
    if kind == "too_short":
        return "is empty; expected one or more"
    if kind == "missing":
        return "is missing"
    return str(problem["msg"]).removeprefix("Value error, ")


def _nearest(key: str, known: Sequence[str]) -> str:
    found = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    return f", did you mean {found[0]}?" if found else ""


def _keys(model: type[pydantic.BaseModel] | None) -> list[str]:
    if model is None:
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_at(
    place: Sequence[int | str], model: type[pydantic.BaseModel]
) -> type[pydantic.BaseModel] | None:
    """Return the model expected at a place; None if it is not a mapping with fixed keys."""
    found: type[pydantic.BaseModel] | None = model
    for part in place:
        if isinstance(part, int) or found is None:
            continue
        fields = {field.alias or name: field for name, field in found.model_fields.items()}
        found = next(_models(fields[part].annotation), None) if part in fields else None
    return found


def _models(annotation: Any) -> Iterator[type[pydantic.BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from _models(inner)
