"""Placeholders: `{latest}` in a command means where the iteration's dataset lies.

A name in braces is replaced by its value; `{{latest}}` stands for the text `{latest}`, and other
braces, as JSON has them, for themselves. An item of a list that is a placeholder of several values,
`{datasets}`, becomes as many items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from webtraj import errors
from webtraj.named import nearest

__all__ = ["NAMES", "check", "fill", "fill_all"]

NAMES: Mapping[str, str] = {
    "out": "the loop's folder",
    "iteration": "the iteration's number",
    "previous": "the number before",
    "seed": "the phase's seed",
    "python": "the phase's Python",
    "recorded": "the dataset that the iteration's rollout makes",
    "evaluated": "the dataset that the iteration's evaluation makes",
    "judged": "the dataset that judges make of it",
    "processed": "the dataset that post-processing makes of it",
    "latest": "the last of these, of the phases that there are",
    "datasets": "the latest datasets of all iterations that are trained on, the oldest first",
    "export": "the folder of the iteration's export",
    "training": "the folder of the iteration's training",
    "model": "the folder that the training puts the model in",
    "base": "the model that the training begins with",
    "weights": "the model that plays",
    "version": "the name of these weights",
    "base_url": "the server of the model that plays",
    "served_model": "the name of the model that plays, as its server knows it",
}
"""What a command can name."""

Values = Mapping[str, str | Sequence[str]]

_PLACEHOLDER = re.compile(r"\{\{([a-z_][a-z0-9_]*)\}\}|\{([a-z_][a-z0-9_]*)\}")


def check(value: Any, key: str) -> None:
    """Checks that all placeholders in a value are known.

    Raises:
        InvalidInputError: One is not; the message names the nearest.
    """
    for text in _texts(value):
        for match in _PLACEHOLDER.finditer(text):
            name = match[2]
            if name is not None and name not in NAMES:
                raise errors.InvalidInputError(
                    f"{key} has the placeholder {{{name}}}, which is unknown. "
                    f"{nearest(name, tuple(NAMES))}There are {', '.join(NAMES)}; write "
                    f"{{{{{name}}}}} for the text itself."
                )


def fill(value: Any, values: Values) -> Any:
    """Returns a value with its placeholders filled in: a text, or a list or mapping of such.

    >>> fill({"command": ["cat", "{datasets}", "{{seed}}"]}, {"datasets": ["a", "b"]})
    {'command': ['cat', 'a', 'b', '{seed}']}

    Raises:
        InvalidInputError: One has no value here.
    """
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: _one(match, values), value)
    if isinstance(value, Mapping):
        return {key: fill(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(fill_all(value, values))
    return value


def fill_all(items: Sequence[Any], values: Values) -> Iterator[Any]:
    """Yields the items of a list, filled in."""
    for item in items:
        several = values.get(item[1:-1]) if _is_one(item) else None
        if several is None or isinstance(several, str):
            yield fill(item, values)
        else:
            yield from several


def _is_one(item: Any) -> bool:
    if not isinstance(item, str):
        return False
    match = _PLACEHOLDER.fullmatch(item)
    return match is not None and match[2] is not None


def _one(match: re.Match[str], values: Values) -> str:
    if match[1] is not None:
        return f"{{{match[1]}}}"
    value = values.get(match[2])
    if value is None:
        raise errors.InvalidInputError(
            f"The placeholder {{{match[2]}}} has no value here: {NAMES.get(match[2], 'unknown')}."
        )
    return value if isinstance(value, str) else " ".join(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
