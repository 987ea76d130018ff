"""Objects made by name: a table maps a name to a class, whose fields are the options.

The class's module is imported on first use. Options may be text, as from a command line, and are
converted. Installed packages add names through entry points (`offered`): `webtraj.agents`,
`webtraj.judges`, `webtraj.steps`, `webtraj.exporters`, `webtraj.importers`,
`webtraj.training_formats` and `webtraj.dialects`. Built-in names are never replaced.
CONTRIBUTING.md has examples.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import importlib.metadata
from collections.abc import Iterable, Mapping
from typing import Any

import pydantic

from webtraj import errors

__all__ = ["MOVED_OUT", "class_at", "make_of", "nearest", "offered"]

MOVED_OUT = (
    "is now in an example package. Install webtraj-two-cores: "
    "https://github.com/webtraj/webtraj/tree/main/examples/two_cores says how."
)
_MOVED_OUT = ("all_tasks", "pointing", "two_cores")
"""Names of 0.2 that are not built in any more."""


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return a sentence that suggests the nearest word, with a trailing space; empty if none.

    For a name that was built in, it says where that is now.

    >>> nearest("jsn", ["json", "pb"])
    "Did you mean 'json'? "

    Upper and lower case are the same.
    """
    if word in _MOVED_OUT:
        return f"{word!r} {MOVED_OUT} "
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return f"Did you mean {by_lower[near[0]]!r}? " if near else ""


def offered(group: str) -> dict[str, str]:
    """Return the names that installed packages offer in an entry-point group, with their homes.

    Nothing is imported.

    >>> offered("webtraj.no-such-group")
    {}
    """
    found = importlib.metadata.entry_points(group=group)
    return {entry_point.name: entry_point.value for entry_point in found}


def class_at(home: str) -> Any:
    """Return the object at `module:Class`, or the module at `module`.

    Raises:
        InvalidInputError: It cannot be imported.
        MissingDependencyError: It needs a package that is not installed.
    """
    module, _, name = home.partition(":")
    try:
        found = importlib.import_module(module)
        return getattr(found, name) if name else found
    except errors.WebtrajError:
        raise
    except (ImportError, AttributeError) as error:
        raise errors.InvalidInputError(f"Cannot import {home!r}: {error}.") from error


def make_of(
    home: str,
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    kind: str = "format",
    defaults: Mapping[str, Any] | None = None,
) -> Any:
    """Make an object from its options.

    Args:
        home: The class, a dataclass, as `module:Class`.
        name: The user's name for it.
        options: Values for its fields.
        kind: What messages call it.
        defaults: Values for fields that `options` leaves out, used if the class has them.

    Raises:
        InvalidInputError: An option is unknown, or a value is invalid.
        MissingDependencyError: It needs a package that is not installed.
    """
    made_class = class_at(home)
    if not dataclasses.is_dataclass(made_class):
        raise errors.InvalidInputError(
            f"The {kind} {name!r} is {home!r}, which is not a dataclass. Its options are its "
            "fields: add @dataclasses.dataclass."
        )
    known = [field.name for field in dataclasses.fields(made_class)]
    given = {key: value for key, value in (defaults or {}).items() if key in known}
    given.update(options or {})
    for option in options or ():
        if option not in known:
            raise errors.InvalidInputError(
                f"The {kind} {name!r} has no option {option!r:.60}. "
                f"{nearest(option, known)}Its options: {', '.join(known) or 'none'}."
            )
    try:
        return pydantic.TypeAdapter(made_class).validate_python(given)
    except pydantic.ValidationError as error:
        wrong = error.errors()[0]
        refused = wrong.get("ctx", {}).get("error")
        if isinstance(refused, errors.InvalidInputError):  # The class's own message.
            raise refused from error
        where = ".".join(map(str, wrong["loc"]))
        raise errors.InvalidInputError(
            f"Invalid value {where}={wrong['input']!r:.100} for the {kind} {name!r}: "
            f"{wrong['msg']}."
        ) from error
