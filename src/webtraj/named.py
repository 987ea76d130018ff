"""Things made by name: a table says which class a name stands for, and options are its fields.

The class's module is imported when it is used. Options may be text, as from a command line, and are
converted.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Iterable, Mapping
from typing import Any

import pydantic

from webtraj import errors

__all__ = ["class_at", "make_of", "nearest"]


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Returns a sentence that names what may have been meant, with a space; or nothing.

    >>> nearest("jsn", ["json", "pb"])
    "Did you mean 'json'? "
    """
    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=cutoff)
    return f"Did you mean {near[0]!r}? " if near else ""


def class_at(home: str) -> type[Any]:
    """Returns the class at `module:Class`."""
    module, _, name = home.partition(":")
    found: type[Any] = getattr(importlib.import_module(module), name)
    return found


def make_of(home: str, name: str, options: Mapping[str, Any] | None = None) -> Any:
    """Makes a format of its options.

    Args:
        home: Its class, a dataclass, as `module:Class`.
        name: What the user calls it.
        options: Values of its fields.

    Raises:
        InvalidInputError: There is no such option, or a value does not do.
        MissingDependencyError: It needs a package that is not installed.
    """
    made_class = class_at(home)
    known = [field.name for field in dataclasses.fields(made_class)]
    for option in options or ():
        if option not in known:
            raise errors.InvalidInputError(
                f"The format {name!r} has no option {option!r:.60}. "
                f"{nearest(option, known)}Its options: {', '.join(known) or 'none'}."
            )
    try:
        return pydantic.TypeAdapter(made_class).validate_python(dict(options or {}))
    except pydantic.ValidationError as error:
        wrong = error.errors()[0]
        refused = wrong.get("ctx", {}).get("error")
        if isinstance(refused, errors.InvalidInputError):  # The class itself says what is wrong.
            raise refused from error
        where = ".".join(map(str, wrong["loc"]))
        raise errors.InvalidInputError(
            f"The option {where}={wrong['input']!r:.100} of the format {name!r} does not do: "
            f"{wrong['msg']}."
        ) from error
