"""`webtraj fork`: repeat recorded episodes up to a step, then let an agent take over."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import rollout_run, signals, terminal
from webtraj.cli.flags import fields_of, takes
from webtraj.cli.options import Csv, Json, WritablePlace
from webtraj.cli.terminal import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webtraj.metrics.forks import StepValue
    from webtraj.rollouts.rollout import Rollout

__all__ = ["fork"]


@takes(
    "agent", "agent_options", "api_key_variable", "base_url", "environment_options", "format",
    "judge", "judge_api_key_variable", "judge_base_url", "judge_model", "judge_options",
    "judge_when", "max_retries", "max_steps", "max_tokens", "model", "out", "parallel", "provider",
    "seed", "storage_options", "temperature", "timeout",
)  # fmt: skip
def fork(
    dataset: WritablePlace,
    episodes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EPISODE|KEY=VALUE",
            help="The episodes to fork; default: all that ended. KEY=VALUE sets any setting of "
            "`webtraj rollout`.",
        ),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="STEP",
            help="A step to fork at: the number of actions to repeat; last-good or most-open, by "
            "the values of the steps; or cut-off, the end of an episode that was cut off. "
            "Repeatable.",
        ),
    ] = None,
    number: Annotated[
        int, typer.Option("-n", "--group-size", help="The number of forks at each step.")
    ] = 1,
    values: Annotated[
        bool,
        typer.Option(
            "--values",
            help="Print each step's value: the success rate of its forks. Without --at, fork at "
            "every step.",
        ),
    ] = False,
    csv: Csv = None,
    json: Json = False,
    **given: Any,
) -> None:
    """Repeat recorded episodes up to a step, then let an agent take over.

    The recorded actions are played again in a fresh world with the same seed, and each observation
    is compared with the record. At the step, the agent takes over, with the earlier steps as its
    history. If the world departs from the record, the fork ends with the first difference. The
    forks are recorded in the same dataset unless --out is given. To play what is left, run `webtraj
    rollout --resume`; to see the forks and the values of the steps, `webtraj view`.
    """
    if not at and not values:
        raise errors.InvalidInputError(
            "No step to fork at. Give one with --at, such as --at 3, or --values for every step."
        )
    from webtraj.settings.configuration import merge

    names = [text for text in episodes or () if "=" not in text]
    fields = fields_of(given, [text for text in episodes or () if "=" in text])
    fields.setdefault("out", dataset)
    steps = [int(one) if one.isdecimal() else one for one in at or ()]
    forked = {"dataset": dataset, "episodes": names, "at": steps}
    built, go_on = rollout_run.from_fields(merge({"fork": forked, "group_size": number}, fields))

    def report_values() -> dict[str, Any]:
        if not values and not json:
            return {}
        found = _values_of(built)
        if values:
            _print_values(found, csv)
        return {"values": {name: [one.to_data() for one in steps] for name, steps in found.items()}}

    try:
        rollout_run.play(
            built,
            None,
            f"{go_on} --resume {built.run_id}",
            csv=None if values else csv,
            json=json,
            report=report_values,
        )
    except (errors.RolloutStoppedError, signals.SignalReceivedError):
        # What was played has values. Without a dataset, nothing was.
        with contextlib.suppress(errors.NotADatasetError), terminal.json_output(json):
            report_values()
        raise


def _values_of(built: Rollout) -> dict[str, tuple[StepValue, ...]]:
    """Return the step values of each forked episode, computed from the forks of this run."""
    from webtraj.datasets.dataset import open_dataset
    from webtraj.metrics.forks import step_values

    assert built.run is not None
    recorded = open_dataset(built.out, storage_options=built.storage_options).summaries
    forks = (one for one in recorded if built.run.place_of(one.episode_id) is not None)
    return step_values(built.run.storage, forks)


def _print_values(found: Mapping[str, Sequence[StepValue]], csv: str | None) -> None:
    from webtraj.metrics.forks import find_loss, most_open
    from webtraj.metrics.sentences import interval_of, percent

    rows = [
        {
            "episode": name,
            "step": value.step,
            "succeeded": value.success.numerator,
            "of": value.success.denominator,
            "rate": "" if value.success.value is None else percent(value.success.value),
            "interval": "" if value.success.interval is None else interval_of(value.success),
            "not counted": value.not_counted or "",
        }
        for name, steps in found.items()
        for value in steps
    ]
    terminal.save_table(csv, rows)
    columns = ("episode", ">step", ">succeeded", ">of", ">rate", "interval", ">not counted")
    table = terminal.make_table(*columns, rows=[row.values() for row in rows])
    terminal.make_console().print(table)
    for name, steps in found.items():
        if (lost := find_loss(steps)) is not None:
            say(f"{name}: step {lost} lost the most.")
        if (step := most_open(steps)) is not None:
            say(f"{name}: outcomes differ most at step {step}.")
