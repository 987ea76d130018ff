"""`webtraj rollout`: let an agent play, and record it."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import errors

if TYPE_CHECKING:
    from webtraj.agents.base import Agent
    from webtraj.rollouts import RolloutSummary

__all__ = ["rollout"]

_RECORDED = ("timings", "info")
"""Channels that no agent sees, and every reader of the records wants."""


def rollout(
    preset: Annotated[
        list[str],
        typer.Option(
            help="What to play: a preset, or some of its tasks, such as miniwob/all:0:10. "
            "May be given several times."
        ),
    ],
    agent: Annotated[
        str | None,
        typer.Option(
            help="Who plays: oracle, random, model, scripted or replay; default: model if --model "
            "is given, else oracle."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model that plays, as its server knows it.")
    ] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(
            help="The model's server, such as http://127.0.0.1:8000/v1; default: OpenAI's. Given "
            "several times, the servers share the work."
        ),
    ] = None,
    agent_options: Annotated[
        list[str] | None,
        typer.Option(
            "--agent-set",
            metavar="KEY=VALUE",
            help="An option of the agent, such as mode=marks, temperature=0.7 or script=FILE; "
            "the value is JSON, or else text. May be given several times.",
        ),
    ] = None,
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
    from webtraj.agents import catalog
    from webtraj.cli import progress, signals

    given = dict(_read_option("--agent-set", text) for text in agent_options or ())
    if model is not None:
        given["model"] = model
    if base_url:
        given["base_url"] = base_url[0] if len(base_url) == 1 else base_url
    player = catalog.make_agent(
        agent or ("model" if model is not None else "oracle"), seed=seed, options=given
    )
    environment_options = dict(_read_option("--set", text) for text in options or ())
    if (channels := _channels(player)) and all(map(_uses_browser, preset)):
        environment_options.setdefault("observe", channels)
    out = out or Path("runs") / f"{datetime.datetime.now():%Y%m%d-%H%M%S}"
    with progress.RolloutProgress(out) as observer:
        summary = signals.run(
            _play(
                preset,
                player,
                episodes=episodes,
                parallel=parallel,
                seed=seed,
                out=out,
                max_steps=max_steps,
                environment_options=environment_options,
                observer=observer,
            )
        )
    if len(summary.errors) == len(summary.results):
        raise typer.Exit(1)


async def _play(presets: list[str], player: Agent, **options: Any) -> RolloutSummary:
    from webtraj.rollouts import collect

    try:
        return await collect(presets, player, **options)
    finally:
        close = getattr(player, "aclose", None)
        if close is not None:
            await close()


def _channels(player: Agent) -> list[str]:
    """Returns what a browser environment is to observe for an agent that says what it needs."""
    channels = getattr(player, "channels", ())
    return [*channels, *_RECORDED] if channels else []


def _uses_browser(selector: str) -> bool:
    from webtraj import registry

    return registry.select(selector).uses_browser


def _read_option(flag: str, text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key.isidentifier():
        raise errors.InvalidInputError(
            f"{flag} takes KEY=VALUE, such as max_steps=20; got {text!r}."
        )
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value
