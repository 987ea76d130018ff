"""The commands together, and what becomes of their errors.

A command is a function of its name (`import_` for `import`, which Python keeps for itself), or a
`group` of several, in the module that `COMMANDS` names. Modules import nothing heavy at the top, so
that `webtraj --help` is fast.

Exit codes: 0 done; 1 something failed; 2 wrong input; 128 + n ended by signal n (130: Ctrl-C). An
error of webtraj's own is one line on stderr; with `WEBTRAJ_DEBUG=1`, its traceback.
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
    "demo": ("Play", "demo"),
    "rollout": ("Play", "rollout"),
    "ray": ("Play", "ray"),
    "explore": ("Play", "explore"),
    "presets": ("Play", "doctor"),
    "doctor": ("Play", "doctor"),
    "ls": ("Look", "datasets"),
    "show": ("Look", "datasets"),
    "view": ("Look", "view"),
    "monitor": ("Look", "view"),
    "metrics": ("Look", "metrics"),
    "report": ("Look", "metrics"),
    "verify": ("Keep", "datasets"),
    "recover": ("Keep", "datasets"),
    "index": ("Keep", "datasets"),
    "push": ("Keep", "transfer"),
    "convert": ("Keep", "transfer"),
    "copy": ("Keep", "transfer"),
    "merge": ("Keep", "transfer"),
    "split": ("Keep", "transfer"),
    "import": ("Keep", "transfer"),
    "export": ("Keep", "export"),
    "judge": ("Judge and process", "judge"),
    "postprocess": ("Judge and process", "postprocess"),
    "train": ("Train", "train"),
    "scratch": ("Train", "train"),
    "update": ("Train", "update"),
    "serve": ("Train", "serve"),
    "loop": ("Train", "loop"),
    "openenv": ("Train", "openenv"),
}
"""The commands, in the order of the help text: the heading of each there, and its module."""

_GROUPS = ("export", "openenv")
"""Commands that are groups of several."""
_TAKE_POSITIONS = ("show", "judge")

DEBUG_VARIABLE = "WEBTRAJ_DEBUG"

_WRONG_INPUT = (
    errors.InvalidInputError,
    errors.NotADatasetError,
    errors.UnknownEpisodeError,
    errors.UnknownPresetError,
)


def main() -> None:
    """Runs the command that the process's arguments name, and exits."""
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
    """Returns the application with all its commands."""
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
    """Returns a command's description, a paragraph a line: the terminal breaks lines itself."""
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
            "--version", "-V", callback=_show_version, is_eager=True, help="Say the version."
        ),
    ] = False,
) -> None:
    del version  # Its callback has done all there is to do.
