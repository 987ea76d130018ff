"""Assemble the commands, and turn errors into exit codes.

A command is a function, which `COMMANDS` names. Its module is imported when the command is called,
and imports nothing heavy at the top, so that every command starts fast.

Exit codes: 0 done; 1 something failed; 2 wrong input; 128 + n ended by signal n (130: Ctrl-C).
webtraj's own errors print as one line on stderr; `-v` or `WEBTRAJ_DEBUG=1` adds the traceback.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer import core

import webtraj
from webtraj import errors
from webtraj.cli import flags, signals

__all__ = ["COMMANDS", "DEBUG_VARIABLE", "main", "make_app", "make_command"]

_BY_HEADING = {
    "Play": {
        "demo": "demo:demo",
        "rollout": "rollout:rollout",
        "rollout submit": "ray:submit",
        "record": "record:record",
        "explore": "explore:explore",
        "apps": "Install real web applications, look at them, and check their tasks.",
        "apps install": "apps:install",
        "apps list": "apps:list_",
        "apps open": "apps:open_",
        "apps check": "apps:check",
        "apps tasks": "apps:tasks",
        "apps remove": "apps:remove",
        "presets": "doctor:presets",
        "doctor": "doctor:doctor",
    },
    "Look": {
        "ls": "datasets:ls",
        "show": "datasets:show",
        "view": "view:view",
        "metrics": "metrics:metrics",
    },
    "Datasets": {
        "verify": "datasets:verify",
        "recover": "datasets:recover",
        "index": "datasets:index",
        "push": "transfer:push",
        "copy": "transfer:copy",
        "split": "transfer:split",
        "import": "transfer:import_",
        "export": "export:export",
        "export check": "export:check",
        "export preview": "export_training:preview",
        "export otel": "export:otel",
    },
    "Judge and process": {
        "judge": "Measure a judge against labels, or repeat one of its judgements.",
        "judge eval": "judge:eval_",
        "judge rerun": "judge:rerun",
        "postprocess": "postprocess:postprocess",
    },
    "Train": {
        "train": "train:train",
        "train scratch": "train:scratch",
        "train update": "update:update",
        "loop": "loop:loop",
    },
    "Serve": {
        "serve": "serve:serve",
        "openenv": "Serve tasks to trainers that have an OpenEnv client.",
        "openenv serve": "openenv:serve",
        "openenv manifest": "openenv:manifest",
        "mcp": "mcp:mcp",
    },
}
COMMANDS = {name: work for commands in _BY_HEADING.values() for name, work in commands.items()}
"""The module and function of each command, or the description of a group of commands."""

_HEADINGS = {name: heading for heading, commands in _BY_HEADING.items() for name in commands}

_OLD_NAMES = {
    "convert": "copy",
    "merge": "copy",
    "monitor": "view --terminal",
    "ray submit": "rollout submit",
    "report": "metrics --html report.html",
    "scratch": "train scratch",
    "update": "train update",
}
"""Names of 0.2 that still work, with a hint."""

DEBUG_VARIABLE = "WEBTRAJ_DEBUG"

_PROGRAM = "webtraj"

_WRONG_INPUT = (
    errors.InvalidInputError,
    errors.NotADatasetError,
    errors.UnknownEpisodeError,
    errors.UnknownPresetError,
)


def main() -> None:
    """Run the command named by the process's arguments, then exit."""
    try:
        make_app()(prog_name=_PROGRAM)
    except signals.SignalReceivedError as error:
        sys.exit(128 + error.signal)
    except errors.WebtrajError as error:
        if os.environ.get(DEBUG_VARIABLE) == "1":
            raise
        print(f"webtraj: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, _WRONG_INPUT) else 1)


def make_app() -> typer.Typer:
    """Return the application with all commands."""
    app = _new_typer(_PROGRAM, "The trajectory layer for web agents.", add_completion=True)
    app.callback()(_global_options)
    return app


def _new_typer(name: str, text: str, **settings: Any) -> typer.Typer:
    return typer.Typer(
        name=name,
        cls=_Group,
        help=text,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **settings,
    )


class _Command(core.TyperCommand):
    """A command that takes `-1` as an argument: an episode's position."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See click's `Command.parse_args`."""
        if any(re.fullmatch(r"-\d+", arg) for arg in args):
            ctx.ignore_unknown_options = True
        return super().parse_args(ctx, args)


class _Group(core.TyperGroup):
    """The commands whose names begin with the group's. Each is made when it is called."""

    def __init__(self, **attributes: Any) -> None:
        """See `TyperGroup`."""
        super().__init__(**attributes)
        self._before = "" if self.name == _PROGRAM else f"{self.name} "
        names = [name for name in COMMANDS if name.startswith(self._before)]
        self.commands = {  # None: not made yet.
            name.removeprefix(self._before): None  # type: ignore[misc]
            for name in names
            if name.count(" ") == self._before.count(" ")
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Find a command by its two words first, and by the name that it had."""
        if not self._before:
            for old, new in _OLD_NAMES.items():
                words = old.split()
                if args[: len(words)] == words:
                    print(f"webtraj: `webtraj {old}` is now `webtraj {new}`.", file=sys.stderr)
                    args = [*new.split(), *args[len(words) :]]
            name = " ".join(args[:2])
            if name in COMMANDS and " " in name:
                return name, make_command(name), args[2:]
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or in help what is said of it."""
        if cmd_name not in self.commands:
            return None
        return self.commands[cmd_name] or make_command(self._before + cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the commands without their options, which take long to make."""
        self.commands = {
            name: core.TyperCommand(
                name,
                help=_text(self._before + name),
                rich_help_panel="Commands" if self._before else _HEADINGS[name],
            )
            for name in self.commands
        }
        super().format_help(ctx, formatter)


def make_command(name: str) -> Any:
    """Return a command, or a group of commands, as Typer makes it."""
    if ":" not in COMMANDS[name]:
        return typer.main.get_group(_new_typer(name, COMMANDS[name]))
    others = [other for other in COMMANDS if other.startswith(f"{name} ")]
    also = "\n\n".join(f"webtraj {other}: {_text(other).splitlines()[0]}" for other in others)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    function = _function(name)
    if flags.takes_flags(function):
        function = flags.with_flags(function)
    app.command(name, cls=_Command, help=_text(name), epilog=also or None)(function)
    return typer.main.get_command(app)


def _function(name: str) -> Callable[..., None]:
    module, _, function = COMMANDS[name].partition(":")
    found: Callable[..., None] = getattr(importlib.import_module(f"webtraj.cli.{module}"), function)
    return found


def _text(name: str) -> str:
    """Return a command's description with one line per paragraph; the terminal wraps lines."""
    if ":" not in COMMANDS[name]:
        return COMMANDS[name]
    paragraphs = (inspect.getdoc(_function(name)) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"webtraj {webtraj.__version__}")
        raise typer.Exit


def _global_options(
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            show_default=False,
            help="Show log messages and tracebacks; twice, also debugging messages.",
        ),
    ] = 0,
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    del version  # Handled by its callback.
    if verbose:
        os.environ[DEBUG_VARIABLE] = "1"
        logging.basicConfig(level=logging.INFO if verbose == 1 else logging.DEBUG)
