"""`webtraj metrics`: the results of rollouts as tables, a page and images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj.cli.options import OPTION_HELP, PLACE_HELP, WHERE_HELP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from webtraj.agents.models.accounting import Price
    from webtraj.metrics import MetricsReport
    from webtraj.metrics.comparison import Subject

__all__ = ["comparison_table", "details_table", "groups_table", "metrics"]


def metrics(
    datasets: Annotated[
        list[str],
        typer.Argument(
            metavar="DATASET...",
            help=f"{PLACE_HELP} Or a save path with iterations, such as a loop's folder. Give "
            "several to compare them.",
        ),
    ],
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a report as a page, with charts, differences and errors, instead of a "
            "table.",
        ),
    ] = None,
    png: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write the page's charts as PNG files.")
    ] = None,
    title: Annotated[str, typer.Option(help="The page's title.")] = "",
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
            help="Read the episodes, or only the index, which is faster but lacks step metrics, "
            "kinds of errors and time by phase.",
        ),
    ] = True,
    write: Annotated[
        bool, typer.Option("--write", help="Write the run's metrics beside its plan: metrics.json.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one JSON object per dataset; with --html, one for the whole report, and "
            "no page.",
        ),
    ] = False,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
    out: Annotated[Path | None, typer.Option(hidden=True, help="As of `report`: --html.")] = None,
) -> None:
    """Measure rollouts: success, crashes, steps, time, tokens, with counts and intervals.

    A rate without episodes is "-". An agent's own error counts as its failure; episodes that ended
    with an infrastructure failure stand beside success rates.

    With --html it writes one self-contained page: success over iterations and by task, time,
    failures. Differences between datasets have intervals too, paired by task and seed if possible.
    """
    import sys

    from webtraj import errors
    from webtraj.cli import terminal
    from webtraj.cli.options import storage_options
    from webtraj.datasets.dataset import parse_condition
    from webtraj.metrics.comparison import subjects_of
    from webtraj.metrics.measuring import (
        DEFAULT_GROUPINGS,
        MAX_GROUPS,
        to_bytes,
        write_metrics,
    )
    from webtraj.runs.run import Run
    from webtraj.store.places import open_storage

    _check(datasets, run=run, each_run=each_run, narrowed=bool(where or by), write=write)
    html = out or html
    options: dict[str, Any] = {}
    if html is not None:
        _refuse_beside_html(by=by, crash_rule=crash_rule, pass_at=pass_at, price=price, write=write)
    elif png is not None or title:
        raise errors.InvalidInputError("--png and --title are of a page: give --html FILE too.")
    else:
        options = {"crash_rule": crash_rule, "ks": pass_at or None, "prices": _prices(price)}
        if by is not None:
            options["by"] = [by]
        else:
            options |= {"by": DEFAULT_GROUPINGS if json or write else (), "max_groups": MAX_GROUPS}
    subjects = [
        subject
        for place in datasets
        for subject in subjects_of(
            place,
            run=run,
            each_run=each_run,
            condition=None if where is None else parse_condition(where),
            steps=steps,
            storage_options=storage_options(option),
            compared=html is not None,
            **options,
        )
    ]
    if html is not None:
        _write_page(subjects, html, png, title, json=json)
        return
    points = [(subject, point) for subject in subjects for point in subject.points]
    found = [
        (f"{subject.name}: {point.label}" if point.label else subject.name, point.report)
        for subject, point in points
    ]
    if write:
        for _, point in points:
            storage = open_storage(point.place, storage_options(option))
            write_metrics(Run(storage, point.report.run), point.report)
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
    table.add_column(first, overflow="fold", max_width=60)
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


def _refuse_beside_html(**given: Any) -> None:
    from webtraj import errors

    default = {"crash_rule": "typed"}
    for name, value in given.items():
        if value and value != default.get(name):
            option = f"--{name.replace('_', '-')}"
            raise errors.InvalidInputError(f"{option} does not go with --html. Leave out one.")


def _write_page(
    subjects: Sequence[Subject], file: Path, png: Path | None, title: str, *, json: bool
) -> None:
    import sys

    import orjson

    from webtraj.cli import terminal
    from webtraj.metrics.page import make_report, write_pictures, write_report

    made = make_report(subjects, title=title)
    if json:
        sys.stdout.write(orjson.dumps(made.to_data()).decode() + "\n")
        return
    write_report(made, file)
    console = terminal.make_console()
    console.print(terminal.printable(f"Report: {file}"), soft_wrap=True)
    if png is not None:
        written = write_pictures(made, png)
        console.print(terminal.printable(f"{len(written)} charts: {png}"), soft_wrap=True)
