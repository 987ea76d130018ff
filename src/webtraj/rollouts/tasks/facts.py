"""The forms in which a row may say the facts of its task, as in WebGym's `evaluator_reference`.

A text; or a list, each item of which is a text, `{description, difficulty}`, or a group of facts,
`{id, description, facts}`, whose facts are texts or `{description, difficulty}`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Annotated, Any

import pydantic
from pydantic_core import PydanticCustomError

from webtraj.rollouts.tasks.spec import Fact, FactGroup

__all__ = ["FORM", "Difficulty", "Facts", "Text", "groups_of", "place_of"]

Text = Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1)]
Difficulty = Annotated[int, pydantic.Field(ge=0, le=1000)]

FORM = "form"
"""The type of the error that says which forms there are."""
_FACT = "a text or {description, difficulty}"
_ITEM = "a text, {description, difficulty}, or a group {id, description, facts}"


def _form_of(item: Any) -> str | None:
    """Returns which form of facts an item is meant to be; None if it is none."""
    if isinstance(item, str):
        return "text"
    if not isinstance(item, Mapping):
        return None
    if item.get("facts") is not None:
        return "group"
    return "fact" if "description" in item else None


def _one_of(expected: str) -> pydantic.Discriminator:
    return pydantic.Discriminator(
        _form_of, custom_error_type=FORM, custom_error_message=f"expected {expected}"
    )


def _listed(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, (list, tuple)):
        raise PydanticCustomError(FORM, f"expected a text, or a list whose items are each {_ITEM}")
    return value


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _without_gaps(cls, data: Any) -> Any:
        # Parquet has every column in every row, here too.
        return {key: value for key, value in data.items() if value is not None}


class _GradedFact(_Part):
    description: Text
    difficulty: Difficulty = 1


_TextForm = Annotated[Text, pydantic.Tag("text")]
_FactForm = Annotated[_GradedFact, pydantic.Tag("fact")]


class _GroupOfFacts(_Part):
    id: str | int = ""
    description: str = ""
    facts: list[Annotated[_TextForm | _FactForm, _one_of(_FACT)]] = pydantic.Field(min_length=1)


_GroupForm = Annotated[_GroupOfFacts, pydantic.Tag("group")]
Facts = Annotated[
    list[Annotated[_TextForm | _FactForm | _GroupForm, _one_of(_ITEM)]],
    pydantic.BeforeValidator(_listed),
]
_PARTS = frozenset({*_GradedFact.model_fields, *_GroupOfFacts.model_fields})


def groups_of(facts: Facts) -> tuple[FactGroup, ...]:
    """Returns a list of facts as groups; facts without a group are one each."""
    return tuple(map(_group, facts))


def _group(item: str | _GradedFact | _GroupOfFacts) -> FactGroup:
    if isinstance(item, _GroupOfFacts):
        return FactGroup(tuple(map(_fact, item.facts)), str(item.id), item.description)
    return FactGroup((_fact(item),))


def _fact(item: str | _GradedFact) -> Fact:
    return Fact(item) if isinstance(item, str) else Fact(item.description, item.difficulty)


def place_of(location: tuple[int | str, ...]) -> str:
    """Returns where in a row something is, without the names of forms and types.

    >>> place_of(("facts", 1, "group", "facts", 0, "fact", "difficulty"))
    'facts[1].facts[0].difficulty'
    >>> place_of(("definite_answer", "int"))
    'definite_answer'
    """
    field, *parts = location
    steps = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts]
    known = [isinstance(part, int) or part in _PARTS for part in parts]
    return str(field) + "".join(itertools.compress(steps, known))
