"""`webtraj rollout`: run an agent and record every episode."""

from __future__ import annotations

import dataclasses
import datetime
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import rollout_run
from webtraj.cli.flags import fields_of, flag
from webtraj.cli.options import Csv, Json

__all__ = ["rollout"]

_CONFIGURED = "Configuration"


def rollout(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN|KEY=VALUE",
            help="KEY=VALUE sets any setting, such as step_timeout=60; with --config, any key of "
            "the configuration. It overrides options. RUN: the run to resume; default: the latest.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            "--config-name",
            help="A YAML file with settings; or rollout_train, rollout_test, crawl, or the name of "
            "a file in --config-dir.",
            rich_help_panel=_CONFIGURED,
        ),
    ] = None,
    config_dir: Annotated[
        Path | None,
        typer.Option(help="A folder with your own configurations.", rich_help_panel=_CONFIGURED),
    ] = None,
    print_config: Annotated[
        bool,
        typer.Option(
            "--print-config",
            help="Print all settings as a configuration file, and run nothing.",
            rich_help_panel=_CONFIGURED,
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Run the episodes that are left of an earlier run."),
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on a Ray cluster: its address, or auto."),
    ] = None,
    monitor: Annotated[
        bool,
        typer.Option(
            "--monitor",
            help="Show each row of the plan while it runs, instead of a bar.",
        ),
    ] = False,
    csv: Csv = None,
    json: Json = False,
    **given: Any,
) -> None:
    """Run an agent and record every episode.

    Choose the tasks with --preset, or give a configuration with --config. Ctrl-C stops cleanly,
    and --resume runs the rest. The options are the most used settings; --print-config prints all.
    The exit code is 1 if every episode or every judgement failed, or if any episode is left to
    judge.
    """
    run_id, overrides = _split(arguments or [], resume=resume)
    if config is None:
        if print_config and resume:
            raise errors.InvalidInputError(
                "--print-config shows the settings of a new run, and --resume continues an earlier "
                "run with its own. Give only one of them."
            )
        fields = fields_of(given, overrides)
        if print_config:
            print(rollout_run.settings_text(fields), end="")
            return
        if not fields.get("preset") and not resume:
            raise errors.InvalidInputError(
                "Nothing to run: give --preset, such as --preset miniwob/click-test, or --config, "
                "such as --config rollout_train. `webtraj presets` lists the presets."
            )
        if resume and "out" not in fields:
            raise errors.InvalidInputError(
                "--resume needs the run's dataset: give --out FOLDER, or --config for a run from a "
                "configuration."
            )
        fields.setdefault("out", _new_place())
        built, go_on = rollout_run.from_fields(fields, resume=resume, run_id=run_id)
    else:
        from webtraj.rollouts.configuration import build_rollout, config_file
        from webtraj.rollouts.configuration.ranks import check_no_ranks

        if given and not config_file.has_own_keys(config, overrides, config_dir=config_dir):
            raise errors.InvalidInputError(
                f"{flag(next(iter(given)))} cannot be combined with the configuration {config!r}, "
                "whose settings have other names. Override it with KEY=VALUE instead; `webtraj "
                f"rollout --config {config} --print-config` shows the keys."
            )
        if print_config:
            text = config_file.configuration_text(
                config, overrides, config_dir=config_dir, flags=fields_of(given)
            )
            print(text, end="")
            return
        configuration = config_file.load_configuration(
            config, overrides, config_dir=config_dir, flags=fields_of(given)
        )
        if ray is not None:
            check_no_ranks(configuration.spec)
        if configuration.spec.out is None:
            if resume:
                raise errors.InvalidInputError("--resume needs the run's dataset: give out=FOLDER.")
            placed = configuration.spec.model_copy(update={"out": _new_place()})
            configuration = dataclasses.replace(configuration, spec=placed)
        built = build_rollout(configuration, resume=(run_id or True) if resume else False)
        go_on = rollout_run.dataset_command(built)
    if ray is not None:
        go_on += f" --ray {shlex.quote(ray)}"
    go_on = f"{go_on} --resume {built.run_id}"
    rollout_run.play(built, ray, go_on, monitor=monitor, csv=csv, json=json)


def _new_place() -> str:
    return f"runs/{datetime.datetime.now():%Y%m%d-%H%M%S}"


def _split(arguments: list[str], *, resume: bool) -> tuple[str | None, list[str]]:
    """Return the run's id, if one is given, and the overrides."""
    runs = [text for text in arguments if "=" not in text]
    if runs and runs[-1].startswith("~"):
        raise errors.InvalidInputError(
            f"Unexpected argument {runs[-1]!r:.100}. To take a setting away, give it the "
            f"value null: {runs[-1][1:]:.100}=null."
        )
    if runs and (not resume or len(runs) > 1):
        raise errors.InvalidInputError(
            f"Unexpected argument {runs[-1]!r:.100}. Expected KEY=VALUE, or one run's id with "
            "--resume. Choose what to run with --preset or --config."
        )
    return runs[0] if runs else None, [text for text in arguments if "=" in text]
