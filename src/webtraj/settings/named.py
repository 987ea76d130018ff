"""Objects made by name: a table maps a name to a class, whose fields are the options.

The class's module is imported on first use. Options may be text, as from a command line, and are
converted. Packages, webtraj among them, add names through entry points (`find_offered`):
`webtraj.agents`, `webtraj.judges`, `webtraj.steps`, `webtraj.exporters`, `webtraj.importers`,
`webtraj.training_formats`, `webtraj.dialects` and `webtraj.proposers`. Built-in names are never
replaced. CONTRIBUTING.md has examples. A module outside a package adds names by
`register_as`, once `import_modules` (`--import`) has imported it.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pydantic

from webtraj import errors
from webtraj.settings import installed
from webtraj.settings.installed import EXTRAS

__all__ = [
    "check_installed", "class_at", "import_modules", "find_offered", "list_names", "make_of",
    "nearest", "register_as",
]  # fmt: skip

_Made = TypeVar("_Made")

_registered: dict[str, dict[str, Any]] = {}
"""What modules have registered, by entry-point group and name."""


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return a sentence that suggests the nearest word, with a trailing space; empty if none.

    >>> nearest("jsn", ["json", "pb"])
    "Did you mean 'json'? "

    Case does not matter.
    """
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return f"Did you mean {by_lower[near[0]]!r}? " if near else ""


def check_installed(group: str, name: str) -> None:
    """Check that an unknown name does not belong to a package that is not installed.

    Raises:
        MissingDependencyError: It does; the message says how to install it.
    """
    extra = EXTRAS[group].get(name)
    if extra and name not in find_offered(group):
        kind = group.removeprefix("webtraj.").removesuffix("s")
        raise errors.missing_dependency(f"The {kind} {name!r} needs another package", extra)


def list_names(group: str, known: Iterable[str]) -> str:
    """Return names for a message, and the names that missing packages would add.

    Args:
        group: The entry-point group.
        known: The built-in names and those of `find_offered`.
    """
    names = list(known)
    said = ", ".join(names)
    for extra in dict.fromkeys(EXTRAS[group].values()):
        missing = [name for name, its in EXTRAS[group].items() if its == extra]
        if missing := [name for name in missing if name not in names]:
            said += f"; with webtraj[{extra}] also {', '.join(missing)}"
    return said


def register_as(group: str, name: str, taken: Collection[str]) -> Callable[[_Made], _Made]:
    """Return a decorator that gives a class or an object a name in an entry-point group.

    Args:
        group: The group.
        name: The name. A module that is imported again may give it again.
        taken: The built-in names that are not entry points.

    Raises:
        InvalidInputError: The name is built in.
    """
    installed.check_free(group, name, taken)

    def register(made: _Made) -> _Made:
        _registered.setdefault(group, {})[name] = made
        return made

    return register


def import_modules(modules: Iterable[str]) -> None:
    """Import the user's modules, which register names.

    Args:
        modules: Names of modules that are installed or in the current folder, or paths of `.py`
            files.

    Raises:
        InvalidInputError: A module does not exist.
    """
    for module in modules:
        path = Path(module)
        is_file = module.endswith(".py")
        if is_file and not path.is_file():
            raise errors.InvalidInputError(f"There is no file {module!r:.200} to import.")
        folder = str(path.resolve().parent if is_file else Path.cwd())
        name = path.stem if is_file else module
        sys.path.insert(0, folder)
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise errors.InvalidInputError(
                    f"The module {module!r:.200} imports {error.name!r}, which is not installed."
                ) from error
            raise errors.InvalidInputError(
                f"No module named {module!r:.100}; expected the import name of a module that is "
                "installed or in the current folder, or the path of a .py file."
            ) from error
        except Exception as error:
            raise errors.InvalidInputError(
                f"The module {module!r:.200} cannot be imported: {_place_of(error, name)}"
                f"{type(error).__name__}: {error}. With -v its traceback is shown."
            ) from error
        finally:
            sys.path.remove(folder)


def _place_of(error: Exception, name: str) -> str:
    """Return the last line of the named module in an error's traceback; empty if none."""
    frames = traceback.extract_tb(error.__traceback__)
    files = {f"{name.rpartition('.')[2]}.py", "__init__.py"}
    own = [frame for frame in frames if Path(frame.filename).name in files]
    return f"line {own[-1].lineno}: " if own else ""


def find_offered(group: str, builtin: Collection[str] = ()) -> dict[str, Any]:
    """Return the names that packages and modules add to an entry-point group.

    Each name has the text for `class_at`, or the registered class or object itself. Nothing is
    imported.

    >>> find_offered("webtraj.no-such-group")
    {}

    Args:
        group: The group.
        builtin: The built-in names that are not entry points. Nothing can replace these.
    """
    found = installed.entry_points(group, builtin)
    return {
        **{name: entry_point.value for name, entry_point in found.items()},
        **_registered.get(group, {}),
    }


def class_at(home: Any) -> Any:
    """Import and return the class that `module:Class` names, or the module that `module` names.

    An object that is not a string is returned unchanged.

    Raises:
        InvalidInputError: It cannot be imported.
        MissingDependencyError: It needs a package that is not installed.
    """
    if not isinstance(home, str):
        return home
    module, _, name = home.partition(":")
    try:
        found = importlib.import_module(module)
        return getattr(found, name) if name else found
    except errors.WebtrajError:
        raise
    except (ImportError, AttributeError) as error:
        raise errors.InvalidInputError(f"Cannot import {home!r}: {error}.") from error


def make_of(
    home: Any,
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    kind: str = "format",
    defaults: Mapping[str, Any] | None = None,
) -> Any:
    """Make an object from its options.

    Args:
        home: A dataclass as `module:Class`, or what was registered. A registered object, or class
            of another kind, takes no options.
        name: The user's name for it.
        options: Values for its fields.
        kind: The word for the object in messages.
        defaults: Values for fields that `options` leaves out, used if the class has them.

    Raises:
        InvalidInputError: An option is unknown, or a value is invalid.
        MissingDependencyError: It needs a package that is not installed.
    """
    made_class = class_at(home)
    is_class = isinstance(made_class, type)
    if not (is_class and dataclasses.is_dataclass(made_class)):
        if isinstance(home, str):
            raise errors.InvalidInputError(
                f"The {kind} {name!r} is {home!r}, which is not a dataclass. Its options are its "
                "fields: add @dataclasses.dataclass."
            )
        if options:
            raise errors.InvalidInputError(
                f"The {kind} {name!r} takes no options; got {next(iter(options))!r:.60}. A "
                "dataclass does, by its fields: add @dataclasses.dataclass."
            )
        return made_class() if is_class else made_class
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
