"""`webtraj rollout`: let an agent play, and record it."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from webtraj import errors

__all__ = ["rollout"]


def rollout(
    preset: Annotated[
        list[str],
        typer.Option(
            help="What to play: a preset, or some of its tasks, such as miniwob/all:0:10. "
            "May be given several times."
        ),
    ],
    agent: Annotated[str, typer.Option(help="Who plays: oracle or random.")] = "oracle",
    episodes: Annotated[
        int | None,
        typer.Option(help="How many episodes in all, dealt out to the tasks; default: one each."),
    ] = None,
    parallel: Annotated[int, typer.Option(help="How many to play at a time.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="The dataset folder to write or add to; default: runs/<date and time>."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The run's seed; the same gives the same episodes.")
    ] = 0,
    max_steps: Annotated[
        int | None,
        typer.Option(help="Truncate episodes after so many steps, if the environment does not."),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="An option of the preset, such as max_steps=20 or 'observe=[\"axtree\"]'; "
            "the value is JSON, or else text. May be given several times.",
        ),
    ] = None,
) -> None:
    """Let an agent play episodes, and record every one of them.

    Ctrl-C ends it in good order: episodes that are open are recorded as cancelled. The exit code is
    1 if errors ended all episodes, and 0 if any was played to its end.
    """
    from webtraj.cli import progress, signals
    from webtraj.rollouts import collect

    out = out or Path("runs") / f"{datetime.datetime.now():%Y%m%d-%H%M%S}"
    with progress.RolloutProgress(out) as observer:
        summary = signals.run(
            collect(
                preset,
                agent,
                episodes=episodes,
                parallel=parallel,
                seed=seed,
                out=out,
                max_steps=max_steps,
                environment_options=dict(map(_read_option, options or ())),
                observer=observer,
            )
        )
    if len(summary.errors) == len(summary.results):
        raise typer.Exit(1)


def _read_option(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key.isidentifier():
        raise errors.InvalidInputError(
            f"--set takes KEY=VALUE, such as max_steps=20; got {text!r}."
        )
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
