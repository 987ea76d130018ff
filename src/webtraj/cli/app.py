"""Assemble the commands, and turn errors into exit codes.

Each command is a function of the same name (`import_` for `import`, a Python keyword), or a `group`
of subcommands, in the module listed in `COMMANDS`. Modules import nothing heavy at the top, so that
`webtraj --help` is fast.

Exit codes: 0 done; 1 something failed; 2 wrong input; 128 + n ended by signal n (130: Ctrl-C).
webtraj's own errors print as one line on stderr; set `WEBTRAJ_DEBUG=1` for the traceback.
"""

from __future__ import annotations

import importlib
import inspect
import keyword
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

import webtraj
from webtraj import errors
from webtraj.cli import signals
from webtraj.cli.positions import PositionCommand

__all__ = ["COMMANDS", "DEBUG_VARIABLE", "main", "make_app"]

COMMANDS = {
    "demo": ("Run agents", "demo"),
    "rollout": ("Run agents", "rollout"),
    "ray": ("Run agents", "ray"),
    "record": ("Run agents", "record"),
    "explore": ("Run agents", "explore"),
    "mcp": ("Run agents", "mcp"),
    "apps": ("Run agents", "apps"),
    "presets": ("Run agents", "doctor"),
    "doctor": ("Run agents", "doctor"),
    "ls": ("Inspect", "datasets"),
    "show": ("Inspect", "datasets"),
    "view": ("Inspect", "view"),
    "monitor": ("Inspect", "view"),
    "metrics": ("Inspect", "metrics"),
    "report": ("Inspect", "metrics"),
    "verify": ("Manage datasets", "datasets"),
    "recover": ("Manage datasets", "datasets"),
    "index": ("Manage datasets", "datasets"),
    "push": ("Manage datasets", "transfer"),
    "convert": ("Manage datasets", "transfer"),
    "copy": ("Manage datasets", "transfer"),
    "merge": ("Manage datasets", "transfer"),
    "split": ("Manage datasets", "transfer"),
    "import": ("Manage datasets", "transfer"),
    "export": ("Manage datasets", "export"),
    "judge": ("Judge and process", "judge"),
    "postprocess": ("Judge and process", "postprocess"),
    "train": ("Train", "train"),
    "scratch": ("Train", "train"),
    "update": ("Train", "update"),
    "serve": ("Train", "serve"),
    "loop": ("Train", "loop"),
    "openenv": ("Train", "openenv"),
}
"""The heading and module of each command, in the order of the help text."""

_GROUPS = ("apps", "export", "openenv")
"""Commands with subcommands."""
_TAKE_POSITIONS = ("show", "judge")

DEBUG_VARIABLE = "WEBTRAJ_DEBUG"

_WRONG_INPUT = (
    errors.InvalidInputError,
    errors.NotADatasetError,
    errors.UnknownEpisodeError,
    errors.UnknownPresetError,
)


def main() -> None:
    """Run the command named by the process's arguments, then exit."""
    try:
        make_app()(prog_name="webtraj")
    except signals.SignalReceivedError as error:
        sys.exit(128 + error.signal)
    except errors.WebtrajError as error:
        if os.environ.get(DEBUG_VARIABLE) == "1":
            raise
        print(f"webtraj: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, _WRONG_INPUT) else 1)


def make_app() -> typer.Typer:
    """Return the application with all commands."""
    app = typer.Typer(
        name="webtraj",
        help="The trajectory layer for web agents.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_global_options)
    for name, (heading, where) in COMMANDS.items():
        module = importlib.import_module(f"webtraj.cli.{where}")
        if name in _GROUPS:
            app.add_typer(module.group, name=name, rich_help_panel=heading)
            continue
        command = getattr(module, f"{name}_" if keyword.iskeyword(name) else name)
        made_by = PositionCommand if name in _TAKE_POSITIONS else None
        text = _unwrapped(command)
        app.command(name, cls=made_by, help=text, rich_help_panel=heading)(command)
    return app


def _unwrapped(command: Callable[..., None]) -> str:
    """Return a command's description with one line per paragraph; the terminal wraps lines."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"webtraj {webtraj.__version__}")
        raise typer.Exit


def _global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    del version  # Handled by its callback.
