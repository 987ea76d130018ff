"""`webtraj rollout`: run an agent and record every episode."""

from __future__ import annotations

import datetime
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import playing
from webtraj.cli.flags import flag
from webtraj.cli.options import Csv, Json

__all__ = ["rollout"]

_CONFIGURED = "Rollouts from a configuration"


def rollout(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN|KEY=VALUE",
            help="With --config-name: values that override the configuration's, such as "
            "env_config.server_size=8. With --resume: the run to resume; default: the latest.",
            show_default=False,
        ),
    ] = None,
    config_name: Annotated[
        str | None,
        typer.Option(
            help="The configuration: rollout_train, rollout_test, crawl, or one in --config-dir.",
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
            help="Print the configuration without running it.",
            rich_help_panel=_CONFIGURED,
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume an earlier run: run the episodes that are left."),
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on a Ray cluster: its address, or auto."),
    ] = None,
    monitor: Annotated[
        bool,
        typer.Option(
            "--monitor",
            help="Show each row of the plan while it runs, with speed, slow sites and errors, "
            "instead of a bar. `webtraj view --terminal` does this from another terminal.",
        ),
    ] = False,
    csv: Csv = None,
    json: Json = False,
    **given: Any,
) -> None:
    """Run an agent and record every episode.

    Choose the tasks with --preset, or give a configuration with --config-name. Ctrl-C stops
    cleanly: open episodes are recorded as cancelled, and --resume runs the rest. A judge judges the
    episodes after the rollout; its verdicts are stored beside them. The exit code is 1 if every
    episode ended with an error, if the judge failed on every episode, or if episodes are left to
    judge; else 0.
    """
    run_id, overrides = _split(arguments or [], resume=resume)
    if config_name is None:
        if "preset" not in given and not resume:
            raise errors.InvalidInputError(
                "Nothing to run: give --preset, such as --preset miniwob/click-test, or "
                "--config-name, such as --config-name rollout_train. `webtraj presets` lists the "
                "presets."
            )
        for wrong in (*overrides, *(["--print-config"] if print_config else [])):
            raise errors.InvalidInputError(
                f"{wrong!r:.100} applies only to configurations; give --config-name too. Options "
                "of a preset are given as --set KEY=VALUE."
            )
        if resume and "out" not in given:
            raise errors.InvalidInputError(
                "--resume needs the run's dataset: give --out FOLDER, or --config-name for a run "
                "from a configuration."
            )
        given.setdefault("out", f"runs/{datetime.datetime.now():%Y%m%d-%H%M%S}")
        built, go_on = playing.from_flags(given, resume=resume, run_id=run_id)
    else:
        if given:
            raise errors.InvalidInputError(
                f"{flag(next(iter(given)))} cannot be combined with --config-name. Override the "
                "configuration with KEY=VALUE instead; `webtraj rollout --config-name "
                f"{config_name} --print-config` shows the keys."
            )
        from webtraj.rollouts.configuration import build_rollout, loading
        from webtraj.rollouts.configuration.webgym import refuse_ranks_on_ray

        if print_config:
            text = loading.configuration_text(config_name, overrides, config_dir=config_dir)
            print(text, end="")
            return
        configuration = loading.load_configuration(config_name, overrides, config_dir=config_dir)
        if ray is not None:
            refuse_ranks_on_ray(configuration.values)
        built = build_rollout(configuration, resume=(run_id or True) if resume else False)
        go_on = playing.naming(built)
    if ray is not None:
        go_on += f" --ray {shlex.quote(ray)}"
    go_on = f"{go_on} --resume {built.run_id}"
    playing.play(built, ray, go_on, monitor=monitor, csv=csv, json=json)


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
            "--resume. Choose what to run with --preset or --config-name."
        )
    return runs[0] if runs else None, [text for text in arguments if "=" in text]
