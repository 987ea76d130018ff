"""Write the command-line reference as Markdown, from the help of all commands.

Run by the documentation's build (`scripts/docs_hooks.py`). By itself it prints the page:

    python scripts/docs_cli.py
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from webtraj.cli import plugins
from webtraj.cli.app import COMMANDS, make_command, make_offered

HEAD = """\
# The command line

Made of the commands themselves. `webtraj COMMAND --help` says the same in a terminal.

**Exit codes**: 0 done; 1 something failed; 2 wrong input; 128 + n ended by signal n (130: Ctrl-C).
An error of webtraj's own is one line on stderr, after its traceback with `-v` or `WEBTRAJ_DEBUG=1`.

**JSON**: with `--json`, a command prints its result as one line of JSON on stdout, or one object a
line (`ls`, `metrics`, `view`, `train preview`). All else is left out or goes to stderr. The exit
code is the same, and a result with failures is printed too; after an error or a signal nothing is.
A rate has its counts and 95 % interval: `{"value", "numerator", "denominator", "low", "high"}`.

**Completion**: `webtraj --install-completion` makes your shell complete commands, options, presets,
agents, judges, formats and dialects.

**Log messages** go to stderr: `webtraj -v COMMAND` shows them, `-vv` debugging messages too.
"""


def cli_reference() -> str:
    """Return the page."""
    sections = [_section(name, make_command(name)) for name in COMMANDS]
    for entry_point in entry_points(group=plugins.ENTRY_POINT_GROUP):
        command = make_offered(entry_point)
        sections.append(_section(entry_point.name, command))
        for name, one in getattr(command, "commands", {}).items():
            sections.append(_section(f"{entry_point.name} {name}", one))
    return "\n".join([HEAD, *sections])


def _section(name: str, command: Any) -> str:
    """Return a command's part of the page."""
    called = f"webtraj {name}"
    lines = [f"##{'#' * name.count(' ')} {called}", "", _escaped(command.help or ""), ""]
    if hasattr(command, "commands"):
        return "\n".join(lines)
    arguments = [one for one in command.params if not one.opts[0].startswith("-")]
    options = [one for one in command.params if one.opts[0].startswith("-") and not one.hidden]
    usage = [called, *(["[OPTIONS]"] if options else []), *map(_argument_name, arguments)]
    lines += ["```text", " ".join(usage), "```", ""]
    lines += _table("argument", [(_argument_name(one), _help(one)) for one in arguments])
    panels = dict.fromkeys(one.rich_help_panel for one in options)
    for panel in sorted(panels, key=lambda one: one is not None):
        rows = [(_flags(one), _help(one)) for one in options if one.rich_help_panel == panel]
        lines += [f"*{panel}*", ""] if panel else []
        lines += _table("option", rows)
    return "\n".join(lines)


def _table(kind: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    if rows:
        yield from (f"| {kind} | |", "|---|---|")
        yield from (f"| `{name}` | {said} |" for name, said in rows)
        yield ""


def _argument_name(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    if argument.metavar is None and argument.nargs == -1:
        name += "..."
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _flags(option: Any) -> str:
    flags = ", ".join([*option.opts, *option.secondary_opts])
    if option.is_flag or option.count:
        return flags
    kind = option.type_descriptor.annotation
    choices = [str(one.value) for one in kind] if hasattr(kind, "__members__") else []
    names = {int: "N", float: "NUMBER", Path: "PATH"}
    value = option.metavar or "|".join(choices) or names.get(kind, "TEXT")
    return f"{flags} {value}".replace("|", "\\|")


def _help(one: Any) -> str:
    said = _escaped(" ".join((one.help or "").split()))
    if one.multiple and "Repeat" not in said:
        said += " Repeatable."
    if one.required and one.opts[0].startswith("-"):
        said += " Required."
    if one.default not in (None, False, (), [], "") and not callable(one.default):
        default = getattr(one.default, "value", one.default)
        said += f" Default: `{default}`."
    return said


def _escaped(text: str) -> str:
    """Return text escaped for Markdown and its tables; backticks still mark code."""
    parts = text.split("`")
    for number in range(0, len(parts), 2):
        parts[number] = html.escape(re.sub(r"([\\*_\[\]])", r"\\\1", parts[number]), quote=False)
    return "`".join(parts).replace("|", "\\|")


if __name__ == "__main__":
    print(cli_reference())
