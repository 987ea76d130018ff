"""Assemble the commands, and turn errors into exit codes.

A command is a function, which `COMMANDS` names, or belongs to another package (`plugins`). Its
module is imported when the command is called, and imports nothing heavy at the top, so that every
command starts fast. Help is plain text: Rich
would take longer to import than all the rest.

Exit codes: 0 done; 1 something failed; 2 wrong input; 128 + n ended by signal n (130: Ctrl-C).
webtraj's own errors print as one line on stderr; `-v` or `WEBTRAJ_DEBUG=1` adds the traceback.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer
from typer import core

import webtraj
from webtraj import errors
from webtraj.cli import plugins, signals

__all__ = ["COMMANDS", "DEBUG_VARIABLE", "main", "make_app", "make_command", "make_offered"]

_BY_HEADING = {
    "Play": {
        "demo": ("demo:demo", "Play real web pages, and show the episodes in the viewer."),
        "rollout": ("rollout:rollout", "Run an agent and record every episode."),
        "rollout submit": ("ray:submit", "Submit a rollout to a Ray cluster."),
        "fork": ("fork:fork", "Continue a recorded episode from any step."),
        "record": ("record:record", "Record what you do in a browser, as episodes of a dataset."),
        "gateway": ("gateway:gateway", "Record the model calls of any agent."),
        "propose": ("propose:propose", "Propose tasks from explored pages."),
        "presets": ("doctor:presets", "List the presets for `webtraj rollout`."),
        "doctor": ("doctor:doctor", "Check the installation."),
    },
    "Look": {
        "ls": ("datasets:ls", "List a dataset's episodes."),
        "show": ("datasets:show", "Show one episode."),
        "view": ("view:view", "Browse datasets in the browser."),
        "metrics": ("metrics:metrics", "Measure rollouts: success, steps, time, tokens."),
    },
    "Datasets": {
        "verify": ("datasets:verify", "Check every byte of a dataset."),
        "recover": ("datasets:recover", "Seal the episodes whose writer died."),
        "index": ("datasets:index", "Rebuild a dataset's index, or write it as a table."),
        "push": ("transfer:push", "Upload spooled episodes, or a dataset to the Hugging Face Hub."),
        "copy": ("transfer:copy", "Copy datasets into one, or convert them."),
        "split": ("transfer:split", "Split a dataset's episodes, as into train and test."),
        "import": ("transfer:import_", "Import other systems' recordings."),
        "export": ("export:export", "Export episodes to another tool's format."),
    },
    "Judge and process": {
        "judge": ("", "Judge recorded episodes; measure a judge."),
        "judge run": ("judge:run", "Judge a dataset, and store the verdicts beside its episodes."),
        "judge eval": ("judge:eval_", "Measure a judge against labels."),
        "judge rerun": ("judge:rerun", "Repeat a judgement from its record."),
        "postprocess": ("postprocess:postprocess", "Make a processed dataset from a recorded one."),
    },
    "Train": {
        "train": ("train:train", "Train a model on samples, or resume a training run."),
        "train export": ("train_export:export", "Export samples to train on."),
        "train preview": ("train_export:preview", "Print samples in readable form."),
        "train update": ("update:update", "Prepare a LLaMA-Factory training from episodes."),
        "loop": ("loop:loop", "Run a policy, train it on its episodes, and repeat."),
    },
    "Serve": {
        "serve": ("serve:serve", "Serve a model with vLLM, until Ctrl-C."),
    },
}
COMMANDS = {name: entry for commands in _BY_HEADING.values() for name, entry in commands.items()}
"""The module and function of each built-in command, empty for a group of commands, and its summary.

Packages add commands; see `plugins`.
"""

_OTHERS = "Other packages"
_HEADINGS = {name: heading for heading, commands in _BY_HEADING.items() for name in commands}

DEBUG_VARIABLE = "WEBTRAJ_DEBUG"
_IMPORTING = (
    "rollout", "fork", "propose", "record", "presets", "judge run", "judge eval", "export",
    "import", "loop", "train export",
)  # fmt: skip
"""Commands that take `--import`. Others declare it themselves."""

_FORWARDING = ("serve",)
"""Commands that take unknown options as arguments, for another program."""

_PROGRAM = "webtraj"

_STOPPED = "Stopped. No file is half-written. To finish, run the same command again."
_BUG = "This is a bug in webtraj; please report it with what `webtraj -v` prints:"
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
    except Exception as error:
        from webtraj.cli import logs

        if os.environ.get(DEBUG_VARIABLE) == "1":
            print(logs.private(traceback.format_exc()), file=sys.stderr)
        known = isinstance(error, errors.WebtrajError)
        said = str(error) if known else f"{_BUG} {type(error).__name__}: {error}"
        print(f"webtraj: {logs.private(said)}", file=sys.stderr)
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
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        **settings,
    )


class _Command(core.TyperCommand):
    """A command that accepts `-1`, an episode's position, as an argument. Its help has headings."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See click's `Command.parse_args`."""
        if any(re.fullmatch(r"-\d+", arg) for arg in args):
            ctx.ignore_unknown_options = True
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if hasattr(error, "possibilities"):  # No such option: Click's guesses are far off.
                error.possibilities = self._like(ctx, str(getattr(error, "option_name", "")))
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command; if it takes long and does not print JSON, show its progress."""
        if ctx.params.get("json"):
            return super().invoke(ctx)
        from webtraj.cli.progress_bar import WorkProgress
        from webtraj.datasets.progress import watching

        with WorkProgress() as progress, watching(progress):
            return super().invoke(ctx)

    def _like(self, ctx: Any, option: str) -> list[str]:
        """Return the known options nearest to an unknown one."""
        known = [name for one in self.get_params(ctx) for name in one.opts if name[:2] == "--"]
        import difflib

        word = option.strip("-")
        # Commands with options of a preset take every setting as KEY=VALUE.
        if any(one.name == "environment_options" for one in self.get_params(ctx)):
            from webtraj.runs.spec import RunSpec

            field = word.replace("-", "_")
            if field in RunSpec.model_fields:
                return [f"{field}=VALUE"]
        names = [name.strip("-") for name in known]
        near = {f"--{name}" for name in difflib.get_close_matches(word, names)}
        starts = {f"--{name}" for name in names if len(word) > 2 and name.startswith(word)}
        short = re.compile(rf"\b{'.*'.join(map(re.escape, word))}")  # As --cfg is for config.
        parts = {f"--{name}" for name in names if len(word) > 2 and short.search(name)}
        return sorted(near | starts or parts)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options by heading."""
        params: list[Any] = self.get_params(ctx)
        _write_rows(
            formatter,
            [
                (one.rich_help_panel or f"{one.param_type_name.title()}s", row)
                for one in params
                if (row := one.get_help_record(ctx))
            ],
        )


class _Group(core.TyperGroup):
    """A group of commands with a common first word. Each is created when it is called."""

    def __init__(self, **attributes: Any) -> None:
        """See `TyperGroup`."""
        super().__init__(**attributes)
        self._before = "" if self.name == _PROGRAM else f"{self.name} "
        self.commands = {
            name.removeprefix(self._before): core.TyperCommand(
                name,
                short_help=summary,
                rich_help_panel="Commands" if self._before else _HEADINGS[name],
            )
            for name, (_, summary) in COMMANDS.items()
            if name.startswith(self._before) and name.count(" ") == self._before.count(" ")
        }

    def _add_offered(self) -> None:
        """Add the commands of other packages. This takes time, so it is done only where needed."""
        if not self._before:
            for name, summary in plugins.read_summaries().items():
                stub = core.TyperCommand(name, short_help=summary, rich_help_panel=_OTHERS)
                self.commands.setdefault(name, stub)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; if Ctrl-C ends it, print what that means."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            if not self._before:
                print(_STOPPED, file=sys.stderr)
            raise

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, those of other packages included."""
        self._add_offered()
        return super().list_commands(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Find a command, by its two words first."""
        if not self._before and args[0] not in self.commands:
            if offered := plugins.find_command(args[0]):
                return args[0], make_offered(offered), args[1:]
            self._add_offered()  # For suggestions.
            self.commands.pop(args[0], None)
        if not self._before:
            name = " ".join(args[:2])
            if name in COMMANDS and " " in name:
                return name, make_command(name), args[2:]
        word, found, rest = super().resolve_command(ctx, args)
        return word, found and make_command(f"{self._before}{word}"), rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by heading."""
        commands: Any = {name: self.commands[name] for name in self.list_commands(ctx)}
        rows = [(one.rich_help_panel, (name, one.short_help)) for name, one in commands.items()]
        _write_rows(formatter, rows)


def _write_rows(formatter: Any, rows: Iterable[tuple[Any, tuple[str, Any]]]) -> None:
    """Write rows of help, each under its heading."""
    by_heading: dict[str, list[tuple[str, Any]]] = {"Arguments": [], "Options": []}
    for heading, row in rows:
        by_heading.setdefault(heading, []).append(row)
    for heading, found in by_heading.items():
        if found:
            with formatter.section(heading):
                formatter.write_dl(found)


def make_command(name: str) -> Any:
    """Return a command, or a group of commands, as Typer makes it."""
    work, summary = COMMANDS[name]
    if not work:
        return typer.main.get_group(_new_typer(name, summary))
    from webtraj.cli import completion, flags

    module, _, function_name = work.partition(":")
    function = getattr(importlib.import_module(f"webtraj.cli.{module}"), function_name)
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    text = "\n\n".join(" ".join(one.split()) for one in paragraphs)  # The terminal wraps lines.
    also = [
        f"webtraj {other}: {said}"
        for other, (_, said) in COMMANDS.items()
        if other.startswith(f"{name} ")
    ]
    if flags.takes_flags(function):
        function = flags.with_flags(function)
    if name in _IMPORTING:
        function = _with_import(function)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(
        name,
        cls=_Command,
        help=text,
        epilog="\n\n".join(also) or None,
        context_settings={"ignore_unknown_options": name in _FORWARDING},
    )(function)
    command = typer.main.get_command(app)
    command.name = name
    completion.complete(
        command, [o.removeprefix(f"{name} ") for o in COMMANDS if o.startswith(f"{name} ")]
    )
    return command


def make_offered(entry_point: Any) -> Any:
    """Return a command of another package."""
    from webtraj.cli import completion

    command = plugins.make_command(entry_point, _Command)
    for one in (command, *getattr(command, "commands", {}).values()):
        completion.complete(one, ())
    return command


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"webtraj {webtraj.__version__}")
        raise typer.Exit


def _with_import(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command that also takes `--import`."""
    from webtraj.cli import options

    signature = inspect.signature(function, eval_str=True)

    @functools.wraps(function)
    def command(*, imports: list[str] | None, **values: Any) -> None:
        options.import_now(imports)
        function(**values)

    parameter = inspect.Parameter(
        "imports",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=options.Imports,
    )
    parameters = [one.replace(kind=one.KEYWORD_ONLY) for one in signature.parameters.values()]
    command.__signature__ = signature.replace(parameters=[*parameters, parameter])  # type: ignore[attr-defined]
    return command


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
    from webtraj.cli import logs, options

    del version  # Handled by its callback.
    modules = options.list_imported_modules()
    os.environ.pop(options.IMPORTED, None)
    options.import_now(modules)
    if verbose:
        os.environ[DEBUG_VARIABLE] = "1"
        logs.show(logging.INFO if verbose == 1 else logging.DEBUG, "")
