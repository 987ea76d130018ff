"""Commands of other packages, found through the entry-point group `webtraj.commands`.

An entry point maps a command's name to a function, whose parameters are the options, or to a
`typer.Typer` with commands of its own. Only the command that is called is imported: `webtraj
--help` reads its summary, the first line of its module's docstring, from the file. A built-in
command is never replaced.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import core

from webtraj import errors
from webtraj.settings import installed

if TYPE_CHECKING:
    import importlib.metadata

__all__ = ["ENTRY_POINT_GROUP", "find_command", "make_command", "read_summaries"]

ENTRY_POINT_GROUP = "webtraj.commands"
"""The entry-point group."""

_SECTION = re.compile(
    rf"^\[{re.escape(ENTRY_POINT_GROUP)}\]$(.*?)(?=^\[|\Z)", re.MULTILINE | re.DOTALL
)
_LINE = re.compile(r"^\s*([^\s=#]+)\s*=\s*([\w.]+)", re.MULTILINE)
_DOCSTRING = re.compile(r'\s*(?:#.*\s+)*[rR]?"""\s*(.+?)\s*(?:\n|""")')


def make_command(entry_point: importlib.metadata.EntryPoint, cls: type[core.TyperCommand]) -> Any:
    """Import a command, and return it as a click command.

    Args:
        entry_point: The command.
        cls: The class of the command, unless it names another.

    Raises:
        WebtrajError: The package is broken: its module cannot be imported, or the object is no
            command.
    """
    try:
        found = entry_point.load()
        app = found if isinstance(found, typer.Typer) else typer.Typer(add_completion=False)
        if app is not found:
            app.command()(found)
        app.rich_markup_mode = None  # Plain help, as for all commands.
        for one in app.registered_commands:
            one.cls = cls if one.cls is core.TyperCommand else one.cls
        make = typer.main.get_group if app is found else typer.main.get_command
        command: Any = make(app)
    except errors.WebtrajError:
        raise
    except (Exception, SystemExit) as error:  # Whatever the package does.
        package = entry_point.dist.name if entry_point.dist else "an unknown package"
        raise errors.WebtrajError(
            f"Cannot load the command {entry_point.name!r} of the package {package} "
            f"({entry_point.value}): {type(error).__name__}: {error}. Upgrade or uninstall "
            f"{package}."
        ) from error
    command.name = entry_point.name
    return command


def find_command(name: str) -> importlib.metadata.EntryPoint | None:
    """Return the command that an installed package offers under this name, or None.

    Raises:
        MissingDependencyError: It is a command of a package of webtraj's that is not installed.
    """
    from webtraj.settings import named

    if found := installed.entry_points(ENTRY_POINT_GROUP).get(name):
        return found
    named.check_installed(ENTRY_POINT_GROUP, name)
    return None


def read_summaries() -> dict[str, str]:
    """Return the names and summaries of the commands that installed packages offer.

    Help and completion call this, so it must be fast. It reads the packages' files itself, since
        `importlib.metadata` would add a third to the time of `webtraj --help`.
    """
    found: dict[str, str] = {}
    for folder in map(Path, sys.path):
        for file in folder.glob("*-info/entry_points.txt"):
            with contextlib.suppress(OSError):
                section = _SECTION.search(file.read_text(encoding="utf-8", errors="replace"))
                if section:  # A name that two packages offer is ours, or the first one's.
                    offered = dict(_LINE.findall(section[1]))
                    package = file.parent.name.partition("-")[0].replace("_", "-")
                    found = found | offered if package in installed.OURS else offered | found
    return {name: _summary_of(module) for name, module in found.items()}


def _summary_of(module: str) -> str:
    """Return the first line of a module's docstring, without importing it; empty if not found."""
    path, spec = None, None
    for name in itertools.accumulate(module.split("."), "{}.{}".format):
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            return ""
        path = spec.submodule_search_locations
    try:
        text = Path(spec.origin or "").read_text(encoding="utf-8") if spec else ""
    except (OSError, UnicodeDecodeError):
        return ""
    match = _DOCSTRING.match(text)
    return match[1] if match else ""
