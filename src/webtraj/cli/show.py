"""`webtraj show`: one episode, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj.cli.options import OPTION_HELP, PLACE_HELP
from webtraj.cli.positions import PositionCommand

if TYPE_CHECKING:
    from rich.console import Console

    from webtraj import trajectory as trajectory_lib

__all__ = ["COMMAND_CLASS", "find_episode", "show"]

COMMAND_CLASS = PositionCommand


def show(
    dataset: Annotated[str, typer.Argument(help=PLACE_HELP)],
    episode: Annotated[
        str, typer.Argument(help="An episode's id, the beginning of one, or its position.")
    ] = "-1",
    step: Annotated[
        int | None, typer.Option(help="Show this step's whole observation and decision.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Show one episode: what it was, each step, and how it ended. By default the latest."""
    from rich.console import Console

    from webtraj.cli.options import storage_options
    from webtraj.datasets.dataset import open_dataset

    opened = open_dataset(dataset, storage_options=storage_options(option))
    trajectory = opened[find_episode(opened.episode_ids, episode)]
    console = Console(markup=False, highlight=False)
    if step is None:
        _print_episode(console, trajectory)
    else:
        _print_step(console, trajectory, step)


def find_episode(episode_ids: Any, wanted: str) -> str:
    """Returns the one id that `wanted` means.

    Raises:
        UnknownEpisodeError: It means none, or several.
    """
    from webtraj import errors

    if wanted in episode_ids:
        return wanted
    matching = [episode_id for episode_id in episode_ids if episode_id.startswith(wanted)]
    if len(matching) == 1:
        return str(matching[0])
    try:
        return str(episode_ids[int(wanted)])
    except (ValueError, IndexError):
        found = f"{len(matching)} episodes match" if matching else "No episode matches"
        raise errors.UnknownEpisodeError(
            f"{found} {wanted!r}; the dataset has {len(episode_ids)}. Give an id, the beginning of "
            "one, or a position such as 0 or -1. `webtraj ls` lists the ids."
        ) from None


def _print_episode(console: Console, trajectory: trajectory_lib.EpisodeTrajectory) -> None:
    import dataclasses

    from rich.table import Table

    from webtraj.cli import text

    facts = Table(box=None, show_header=False, pad_edge=False)
    for field in dataclasses.fields(trajectory.info):
        value = getattr(trajectory.info, field.name)
        if value not in ("", None, {}, ()) and field.name != "derivation":
            facts.add_row(field.name.replace("_", " "), text.brief(value, 200))
    for derivation in trajectory.info.derivation:
        facts.add_row("made by", text.printable(_derivation(derivation)))
    facts.add_row("began", f"{text.clock(trajectory.start_time)} UTC")
    facts.add_row("ended", f"{text.clock(trajectory.end_time)} UTC")
    console.print(facts)

    table = Table("step", "type", "action", "reward", "discount", "seconds", box=None)
    for record in trajectory.steps:
        table.add_row(
            str(record.index),
            record.step_type.name,
            "" if record.first else text.brief(record.action),
            text.brief(record.reward),
            text.brief(record.discount),
            _seconds(record),
        )
    console.print(table)

    end = trajectory.end
    assert end is not None  # A sealed episode has one.
    console.print(
        f"{end.reason.name} in {end.phase or '?'}{end.detail and f': {text.printable(end.detail)}'}"
        f", outcome {end.outcome.name.lower()}, {text.counted(trajectory.num_steps, 'step')}, "
        f"total reward {trajectory.total_reward:g}"
    )
    for judgement in end.judgements:
        console.print(
            f"judged by {text.printable(judgement.judge)}: {judgement.outcome.name.lower()}"
            f"{judgement.reason and f': {text.printable(judgement.reason)}'}"
        )
    if end.action_in_flight:
        console.print(f"in flight: {text.brief(end.in_flight_action, 200)}")
    for note in (*end.violations, *end.recording_errors):
        console.print(f"noted: {text.printable(note)}")
    if end.error is not None:
        console.print(text.printable(end.error.traceback, keep_lines=True))


def _derivation(derivation: trajectory_lib.Derivation) -> str:
    said = f"{derivation.step} {derivation.version} of {derivation.software}"
    if derivation.model:
        said += f", with {derivation.model}"
    if derivation.source:
        said += f", from {derivation.source}"
    changes = ", ".join(f"{name} {value}" for name, value in derivation.changes.items())
    return f"{said}: {changes}"[:500] if changes else said


def _print_step(console: Console, trajectory: trajectory_lib.EpisodeTrajectory, index: int) -> None:
    from collections.abc import Mapping

    from webtraj import errors
    from webtraj.cli import text

    if not 0 <= index < len(trajectory.steps):
        raise errors.InvalidInputError(
            f"--step {index}: the episode has the steps 0 to {len(trajectory.steps) - 1}."
        )
    record = trajectory.steps[index]
    console.print(f"{record.step_type.name}, action {text.brief(record.action, 500)}")
    observation = record.observation
    channels = observation if isinstance(observation, Mapping) else {"observation": observation}
    for name, value in channels.items():
        whole = value if isinstance(value, str) else text.brief(value, 2000)
        console.rule(text.printable(str(name)), align="left")
        console.print(text.printable(whole, keep_lines=True))
    if record.decision is not None:
        console.rule("decision", align="left")
        console.print(text.printable(record.decision.thought or "-", keep_lines=True))
        for call in record.decision.model_calls:
            console.print(f"{text.printable(call.model)}: {text.printable(call.text)}")


def _seconds(record: trajectory_lib.StepRecord) -> str:
    if record.start_time is None or record.end_time is None:
        return "-"
    return f"{max(record.end_time - record.start_time, 0.0):.3f}"
