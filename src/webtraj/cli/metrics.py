"""`webtraj metrics` and `report`: the results of rollouts as tables, a page and images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj.cli.options import OPTION_HELP, PLACE_HELP, WHERE_HELP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from webtraj.agents.models.accounting import Price
    from webtraj.datasets.dataset import Dataset
    from webtraj.metrics import MetricsReport

__all__ = ["comparison_table", "details_table", "groups_table", "metrics", "report"]

# `webtraj metrics`: the results of rollouts as tables.


def metrics(
    datasets: Annotated[
        list[str], typer.Argument(help=f"{PLACE_HELP} Give several to compare them.")
    ],
    run: Annotated[
        str | None, typer.Option(help="Only this run's episodes: its id, or last.")
    ] = None,
    each_run: Annotated[
        bool, typer.Option("--each-run", help="Compare the dataset's runs.")
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(help="Group by: task, group, site, difficulty, level, policy or run."),
    ] = None,
    where: Annotated[str | None, typer.Option(help=WHERE_HELP)] = None,
    crash_rule: Annotated[
        str,
        typer.Option(help="The rule for counting crashes: typed (by the outcome) or webgym."),
    ] = "typed",
    pass_at: Annotated[
        list[int] | None, typer.Option(help="A k of pass@k; default: 1, 2, 4, .... Repeatable.")
    ] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL=INPUT,OUTPUT",
            help="A model's price per million tokens; MODEL may be a pattern such as qwen*. "
            "Repeatable.",
        ),
    ] = None,
    steps: Annotated[
        bool,
        typer.Option(
            "--steps/--no-steps",
            help="Read the episodes, or only the index, which is faster but lacks step metrics.",
        ),
    ] = True,
    write: Annotated[
        bool, typer.Option("--write", help="Write the run's metrics beside its plan: metrics.json.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Measure rollouts: success, crashes, steps, time, tokens, with counts and intervals.

    A rate without episodes is "-". Success rates leave out episodes that ended with an
    infrastructure failure.
    """
    import sys

    from webtraj.cli import terminal
    from webtraj.cli.options import storage_options
    from webtraj.datasets.dataset import open_dataset, parse_condition
    from webtraj.metrics.measuring import DEFAULT_GROUPINGS, to_bytes

    _check(datasets, run=run, each_run=each_run, narrowed=bool(where or by), write=write)
    if by is not None:
        options: dict[str, Any] = {"by": [by], "max_groups": None}
    else:
        options = {"by": DEFAULT_GROUPINGS if json or write else ()}
    options |= {"crash_rule": crash_rule, "ks": pass_at or None, "prices": _prices(price)}
    condition = None if where is None else parse_condition(where)
    found: list[tuple[str, MetricsReport]] = []
    for place in datasets:
        opened = open_dataset(place, storage_options=storage_options(option))
        kept = opened if condition is None else opened.filter(condition)
        found += _reports(kept, place, run, each_run=each_run, steps=steps, **options)
        if write:
            _write(opened, found[-1][1])
    if json:
        for _, report in found:
            sys.stdout.write(to_bytes(report, indent=False).decode())
        return
    console = terminal.make_console()
    console.print(_table(found, by))
    for name, report in found:
        console.print(_said_of(name, report), soft_wrap=True)


def details_table(report: MetricsReport) -> Table:
    """Return a table with a row for each metric of a report, with interval and counts."""
    from webtraj.metrics import presenting

    table = _new_table("", "value", "95 %", "from", numbers=2)
    for row in presenting.details(report.overall):
        table.add_row(*row)
    return table


def groups_table(report: MetricsReport, by: str) -> Table:
    """Return a table with a row for each group of a report, and a total."""
    from webtraj.cli import terminal
    from webtraj.metrics import presenting

    columns = presenting.GROUP_COLUMNS
    table = _new_table(by, *columns, numbers=len(columns))
    for name, group in report.by[by].items():
        table.add_row(terminal.printable(name) or "-", *presenting.group_row(group))
    table.add_row()
    table.add_row("all", *presenting.group_row(report.overall))
    return table


def comparison_table(reports: Sequence[tuple[str, MetricsReport]], by: str | None = None) -> Table:
    """Return a table with a column for each report; with `by`, the success rates of the groups."""
    from webtraj.cli import terminal
    from webtraj.metrics import presenting

    names = [terminal.printable(name) for name, _ in reports]
    table = _new_table(by or "", *names, numbers=len(names))
    overall = [report.overall for _, report in reports]
    if by is None:
        rows = presenting.comparison(overall)
    else:
        rows = presenting.group_comparison([report.by[by] for _, report in reports])
        rows += presenting.group_comparison([{"all": metrics} for metrics in overall])
    for name, *values in rows:
        table.add_row(terminal.printable(name) or "-", *values)
    return table


def _table(found: Sequence[tuple[str, MetricsReport]], by: str | None) -> Table:
    if len(found) != 1:
        return comparison_table(found, by)
    return details_table(found[0][1]) if by is None else groups_table(found[0][1], by)


def _new_table(first: str, *others: str, numbers: int) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, overflow="fold")
    for index, name in enumerate(others):
        table.add_column(name, justify="right" if index < numbers else "left", overflow="fold")
    return table


def _check(
    datasets: list[str], *, run: str | None, each_run: bool, narrowed: bool, write: bool
) -> None:
    from webtraj import errors

    if each_run and (run is not None or len(datasets) != 1):
        raise errors.InvalidInputError(
            "--each-run compares all runs of one dataset. Give one dataset, and leave out --run."
        )
    if write and (run is None or narrowed):
        raise errors.InvalidInputError(
            "--write stores the metrics of one complete run. Give --run, such as --run last, and "
            "leave out --where and --by."
        )


def _reports(
    dataset: Dataset, name: str, run: str | None, *, each_run: bool, **options: Any
) -> Iterator[tuple[str, MetricsReport]]:
    from webtraj import errors
    from webtraj.metrics import measure
    from webtraj.runs.run import run_ids

    if not each_run:
        yield name, measure(dataset, run=run, **options)
        return
    known = run_ids(dataset.place.storage)
    if not known:
        raise errors.InvalidInputError(
            f"No runs in {name!r} to compare. Leave out --each-run to measure all its episodes."
        )
    for run_id in known:
        yield run_id, measure(dataset, run=run_id, **options)


def _write(dataset: Dataset, report: MetricsReport) -> None:
    from webtraj.metrics import write_metrics
    from webtraj.runs.run import Run

    write_metrics(Run(dataset.place.storage, report.run), report)


def _prices(given: list[str] | None) -> dict[str, Price] | None:
    from webtraj import errors
    from webtraj.agents.models.accounting import Price

    prices = {}
    for item in given or ():
        model, _, amounts = item.rpartition("=")
        try:
            if not model:
                raise ValueError
            into, out = map(float, amounts.split(","))
        except ValueError:
            raise errors.InvalidInputError(
                f"--price got {item!r:.100}; expected MODEL=INPUT,OUTPUT in units per million "
                "tokens, such as qwen*=0.2,0.6."
            ) from None
        prices[model] = Price(input=into, output=out)
    return prices or None


def _said_of(name: str, report: MetricsReport) -> str:
    """Return the line that goes with a report's table."""
    from webtraj.cli.terminal import counted, printable

    metrics = report.overall
    parts = [
        f"{counted(metrics.total, 'episode')}, "
        + counted(metrics.infrastructure_failures, "infrastructure failure")
    ]
    if report.run:
        parts.append(f"run {report.run}: {report.played} of {report.planned} rows done")
    if report.unreadable:
        some = ", ".join(report.unreadable[:3])
        parts.append(f"{len(report.unreadable)} unreadable ({some}), `webtraj verify` shows why")
    if report.left_out:
        parts.append(f"too many groups by {', '.join(report.left_out)}")
    return printable(f"{name}: {'; '.join(parts)}.")


# `webtraj report`: the results of rollouts as a page and images.


def report(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="DATASET...",
            help="A dataset (a folder or s3://bucket/prefix), or a save path with iterations, such "
            "as a loop's folder. Give several to compare them with the first.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    png: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write the charts as PNG files here.")
    ] = None,
    title: Annotated[str, typer.Option(help="The page's title.")] = "",
    run: Annotated[
        str | None, typer.Option(help="Only this run's episodes: its id, or last.")
    ] = None,
    each_run: Annotated[
        bool, typer.Option("--each-run", help="Compare the dataset's runs.")
    ] = False,
    where: Annotated[str | None, typer.Option(help=WHERE_HELP)] = None,
    steps: Annotated[
        bool,
        typer.Option(
            "--steps/--no-steps",
            help="Read the episodes, or only the index, which is faster but lacks errors and time "
            "by phase.",
        ),
    ] = True,
    json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON instead of writing a page.")
    ] = False,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Write a report on rollouts: success over iterations and per task, time, failures.

    The page is one self-contained HTML file. Every rate has a confidence interval; so have the
    differences between datasets, paired by task and seed where possible.
    """
    import sys

    import orjson

    from webtraj import errors
    from webtraj.cli.options import storage_options
    from webtraj.datasets.dataset import parse_condition
    from webtraj.metrics.comparison import subjects_of
    from webtraj.metrics.measuring import plain
    from webtraj.metrics.page import make_report

    if each_run and (run is not None or len(places) != 1):
        raise errors.InvalidInputError(
            "--each-run compares all runs of one dataset. Give one dataset, and leave out --run."
        )
    condition = None if where is None else parse_condition(where)
    subjects = [
        subject
        for place in places
        for subject in subjects_of(
            place,
            run=run,
            each_run=each_run,
            condition=condition,
            steps=steps,
            storage_options=storage_options(option),
        )
    ]
    made = make_report(subjects, title=title)
    if json:
        sys.stdout.write(orjson.dumps(plain(made.to_data())).decode() + "\n")
        return
    from webtraj.cli import terminal
    from webtraj.metrics.page import write_pictures, write_report

    write_report(made, out)
    console = terminal.make_console()
    console.print(terminal.printable(f"Report: {out}"), soft_wrap=True)
    if png is not None:
        written = write_pictures(made, png)
        console.print(terminal.printable(f"{len(written)} charts: {png}"), soft_wrap=True)
