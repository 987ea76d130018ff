"""`webtraj fork`: repeat recorded episodes up to a step, and let an agent go on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import playing, terminal
from webtraj.cli.flags import takes
from webtraj.cli.options import Csv, Json, Place
from webtraj.cli.terminal import say

if TYPE_CHECKING:
    from webtraj.metrics.forks import StepValue

__all__ = ["fork"]


@takes(
    "agent", "agent_options", "api_key_variable", "base_url", "environment_options", "format",
    "judge", "judge_api_key_variable", "judge_model", "judge_options", "judge_url", "judge_when",
    "max_retries", "max_steps", "max_tokens", "model", "out", "parallel", "provider",
    "requests_per_minute", "seed", "step_timeout", "storage_options", "temperature", "timeout",
)  # fmt: skip
def fork(
    dataset: Place,
    episodes: Annotated[
        list[str] | None,
        typer.Argument(metavar="EPISODE", help="The episodes to fork; default: all that ended."),
    ] = None,
    at: Annotated[
        list[int] | None,
        typer.Option("--at", help="A step to fork at: the number of actions to repeat."),
    ] = None,
    number: Annotated[
        int, typer.Option("-n", "--group-size", help="The number of forks at each step.")
    ] = 1,
    values: Annotated[
        bool,
        typer.Option(
            "--values", help="Fork at each step, and tell how often the forks succeed: its value."
        ),
    ] = False,
    csv: Csv = None,
    json: Json = False,
    **given: Any,
) -> None:
    """Repeat recorded episodes up to a step, and let an agent go on from there.

    The recorded actions are played again in a fresh world with the same seed, and each observation
    is compared with the record. At the step, the agent goes on, with the steps before as its own
    past. Where a world departs from the record, the fork ends with the first difference. The forks
    are recorded in the same dataset unless --out is given; `webtraj rollout --resume` plays what is
    left. `webtraj view` shows them, and the values of the steps, with the parent.
    """
    if not at and not values:
        raise errors.InvalidInputError(
            "Where to fork? Give a step with --at, such as --at 3, or --values for each step."
        )
    given.setdefault("out", dataset)
    forked = {"dataset": dataset, "episodes": episodes or [], "at": at or []}
    built, go_on = playing.from_flags({"fork": forked, "group_size": number, **given})

    def found() -> dict[str, tuple[StepValue, ...]]:
        from webtraj.datasets.dataset import open_dataset
        from webtraj.metrics.forks import step_values

        assert built.run is not None
        there = open_dataset(built.out, storage_options=built.storage_options)
        own = (one for one in there.summaries if built.run.place_of(one.episode_id) is not None)
        return step_values(built.run.storage, own)

    def data() -> dict[str, Any]:
        return {"values": {n: [v.to_data() for v in steps] for n, steps in found().items()}}

    try:
        playing.play(
            built,
            None,
            f"{go_on} --resume {built.run_id}",
            csv=None if values else csv,
            json=json,
            more=data,
        )
    finally:
        if values:
            _tell_values(found(), csv, shown=not json)


def _tell_values(found: dict[str, tuple[StepValue, ...]], csv: str | None, *, shown: bool) -> None:
    from webtraj.metrics.forks import lost_at

    rows = []
    for name, steps in found.items():
        for value in steps:
            rate, interval = value.success.value, value.success.interval
            rows.append(
                {
                    "episode": name,
                    "step": value.step,
                    "succeeded": value.success.numerator,
                    "of": value.success.denominator,
                    "rate": "" if rate is None else f"{rate:.0%}",
                    "interval": "" if interval is None else "{:.0%} to {:.0%}".format(*interval),
                    "not counted": value.not_counted or "",
                }
            )
    terminal.save_table(csv, rows)
    if not shown:
        return
    columns = ("episode", ">step", ">succeeded", ">of", ">rate", "interval", ">not counted")
    table = terminal.make_table(*columns, rows=[row.values() for row in rows])
    terminal.make_console().print(table)
    for name, steps in found.items():
        if (lost := lost_at(steps)) is not None:
            say(f"{name}: step {lost} lost the most.")
