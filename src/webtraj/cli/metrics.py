"""`webtraj metrics`: the results of rollouts as tables and as a page."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import terminal
from webtraj.cli.options import (
    PLACE_HELP,
    BucketOptions,
    JsonLines,
    Where,
    condition_of,
    options_for,
)
from webtraj.cli.terminal import printable, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.table import Table

    from webtraj.agents.models.accounting import Price
    from webtraj.metrics import MetricsReport
    from webtraj.metrics.comparison import Comparison, Point, Subject
    from webtraj.store.index import EpisodeSummary

__all__ = ["comparison_table", "details_table", "differences_table", "groups_table", "metrics"]

_MOST_FAULTS = 3


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
            "table; with --json, print it instead.",
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="The page's title.")] = "",
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Compare the others with the first dataset, in pairs with the same task and seed "
            "if there are any.",
        ),
    ] = False,
    run: Annotated[
        str | None, typer.Option(help="Only this run's episodes: its id, or last.")
    ] = None,
    each_run: Annotated[
        bool, typer.Option("--each-run", help="Compare the dataset's runs.")
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(
            help="Group by: task, group, site, difficulty, level, policy, run or perturbation."
        ),
    ] = None,
    where: Where = None,
    crash_rule: Annotated[
        str,
        typer.Option(help="The rule for counting crashes: typed (by the outcome) or webgym."),
    ] = "typed",
    pass_at: Annotated[
        list[int] | None,
        typer.Option(help="A k of pass@k and pass^k; default: 1, 2, 4, .... Repeatable."),
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
    failures: Annotated[
        bool,
        typer.Option(
            "--failures",
            help="Show why episodes failed instead: by who caused it, with the steps that show it; "
            "with --json, a line for each.",
        ),
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Write the run's metrics beside its plan: metrics.json.")
    ] = False,
    csv: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Also write a CSV file, with a row for each dataset and for each of its groups.",
        ),
    ] = None,
    json: JsonLines = False,
    option: BucketOptions = None,
) -> None:
    """Measure rollouts: success, crashes, steps, time, tokens, with counts and intervals.

    A rate without episodes is "-". An agent's own error counts as its failure; infrastructure
    failures are in no success rate.

    With --html it writes one self-contained page: success over iterations and by task, time,
    failures. Differences between datasets have intervals too, paired by task and seed if possible.
    """
    import sys

    from webtraj.metrics.comparison import subjects_of
    from webtraj.metrics.metrics_report import (
        DEFAULT_GROUPINGS,
        MAX_GROUPS,
        to_bytes,
        write_metrics,
    )
    from webtraj.runs.run import Run
    from webtraj.store.places import open_storage

    if each_run and (run is not None or len(datasets) != 1):
        raise errors.InvalidInputError(
            "--each-run compares all runs of one dataset. Give one dataset, and leave out --run."
        )
    if write and (run is None or where or by):
        raise errors.InvalidInputError(
            "--write stores the metrics of one complete run. Give --run, such as --run last, and "
            "leave out --where and --by."
        )
    options: dict[str, Any] = {}
    if html is not None or compare or failures:
        flag = "--failures" if failures else "--compare" if compare else "--html"
        rule = crash_rule if crash_rule != "typed" else ""
        beside = {
            "by": by, "crash-rule": rule, "pass-at": pass_at, "price": price, "write": write,
            "csv": csv, "html": html if flag != "--html" else None,
            "title": title if flag != "--html" else "", "compare": compare and failures,
            "each-run": each_run and failures, "no-steps": not steps and failures,
        }  # fmt: skip
        for name, value in beside.items():
            if value:
                raise errors.InvalidInputError(f"--{name} does not go with {flag}. Leave out one.")
    elif title:
        raise errors.InvalidInputError("--title needs a page: give --html FILE too.")
    else:
        options = {"crash_rule": crash_rule, "ks": pass_at or None, "prices": _prices(price)}
        if by is not None:
            options["by"] = [by]
        else:
            options |= {
                "by": DEFAULT_GROUPINGS if json or write or csv else (),
                "max_groups": MAX_GROUPS,
            }
    stored = options_for(datasets[0], option, *datasets[1:])
    if failures:
        failed = [
            subject
            for place in datasets
            for subject in subjects_of(
                place,
                run=run,
                condition=condition_of(where),
                steps=False,
                storage_options=stored,
                compared=False,
            )
        ]
        points = _points(failed)
        for name, point in points:
            if len(points) > 1 and not json:
                say(f"{name}:")
            _explain(point.place, run=run, condition=condition_of(where), stored=stored, json=json)
        return
    subjects = [
        subject
        for place in datasets
        for subject in subjects_of(
            place,
            run=run,
            each_run=each_run,
            condition=condition_of(where),
            steps=steps,
            storage_options=stored,
            compared=html is not None or compare,
            **options,
        )
    ]
    if html is not None:
        _write_page(subjects, html, title, json=json)
        return
    if compare:
        _compare(subjects, json=json)
        return
    points = _points(subjects)
    found = [(name, point.report) for name, point in points]
    if write:
        for _, point in points:
            storage = open_storage(point.place, stored)
            write_metrics(Run(storage, point.report.run), point.report)
    terminal.save_table(csv, _rows(found))
    if json:
        for _, report in found:
            sys.stdout.write(to_bytes(report, indent=False).decode())
        return
    for name, report in found:
        _say_health(name, report)
    if len(found) != 1:
        table = comparison_table(found, by)
    elif by is None:
        table = details_table(found[0][1])
    else:
        table = groups_table(found[0][1], by)
    terminal.make_console().print(table)
    for (name, report), (_, point) in zip(found, points, strict=True):
        if report.left_out:
            say(f"{name}: too many groups by {', '.join(report.left_out)}.")
        for kind, number in list(point.faults.items())[:_MOST_FAULTS]:
            reason = f": {point.reasons[kind]}" if kind in point.reasons else ""
            say(f"{kind} {number}{reason}")


def _points(subjects: Iterable[Subject]) -> list[tuple[str, Point]]:
    """Return the points of all subjects, each with its name."""
    return [
        (f"{subject.name}: {point.label}" if point.label else subject.name, point)
        for subject in subjects
        for point in subject.points
    ]


def _rows(reports: Sequence[tuple[str, MetricsReport]]) -> Iterator[dict[str, str]]:
    for name, report in reports:
        groups = [("", "", report.overall)]
        groups += [(by, key, m) for by, of in report.by.items() for key, m in of.items()]
        for by, group, metrics in groups:
            numbers = {key: f"{value:.12g}" for key, value in metrics.scalars().items()}
            yield {"dataset": name, "by": by, "group": group, **numbers}


def details_table(report: MetricsReport) -> Table:
    """Return a table with a row for each metric of a report, with interval and counts."""
    from webtraj.metrics import sentences

    rows = sentences.details(report.overall)
    return terminal.make_table("", ">value", ">95 %", "from", rows=rows, widest=60)


def groups_table(report: MetricsReport, by: str) -> Table:
    """Return a table with a row for each group of a report, and a total."""
    from webtraj.metrics import sentences

    rows = [(name or "-", *sentences.group_row(group)) for name, group in report.by[by].items()]
    rows += [(), ("all", *sentences.group_row(report.overall))]
    columns = (f">{name}" for name in sentences.GROUP_COLUMNS)
    return terminal.make_table(by, *columns, rows=rows, widest=60)


def comparison_table(reports: Sequence[tuple[str, MetricsReport]], by: str | None = None) -> Table:
    """Return a table with a column for each report; with `by`, the success rates of the groups."""
    from webtraj.metrics import sentences

    overall = [report.overall for _, report in reports]
    if by is None:
        rows = sentences.comparison(overall)
    else:
        rows = sentences.group_comparison([report.by[by] for _, report in reports])
        rows += sentences.group_comparison([{"all": metrics} for metrics in overall])
    named = ((name or "-", *values) for name, *values in rows)
    return terminal.make_table(
        by or "", *(f">{printable(name)}" for name, _ in reports), rows=named, widest=60
    )


def differences_table(compared: Comparison) -> Table:
    """Return a table with the rates of a comparison and their differences."""
    from webtraj.metrics import sentences

    columns = (f">{name}" for name in sentences.DIFFERENCE_COLUMNS)
    rows = ((rate.name, *sentences.difference_row(rate)) for rate in compared.rates)
    return terminal.make_table("", *columns, rows=rows, widest=60)


def _compare(subjects: Sequence[Subject], *, json: bool) -> None:
    from webtraj.metrics import sentences
    from webtraj.metrics.report import make_report

    comparisons = make_report(subjects).comparisons
    if not comparisons:
        raise errors.InvalidInputError(
            "--compare needs two to compare. Give two datasets, or one with --each-run."
        )
    for compared in comparisons:
        if json:
            terminal.print_json(compared.to_data())
            continue
        _say_health(compared.first_name, compared.first.report)
        _say_health(compared.second_name, compared.second.report)
        terminal.make_console().print(differences_table(compared))
        say(f"{compared.second_name}, compared with {compared.first_name}:")
        for text in (sentences.verdict(compared), *sentences.cautions(compared)):
            say(text)


def _explain(
    place: str,
    *,
    run: str | None,
    condition: Callable[[EpisodeSummary], bool] | None,
    stored: Mapping[str, Any] | None,
    json: bool,
) -> None:
    """Print why the episodes of a dataset failed."""
    from webtraj.datasets.dataset import open_dataset
    from webtraj.metrics.failures import find_failures, summarize

    dataset = open_dataset(place, blobs="lazy", storage_options=stored)
    found = find_failures(dataset, run=run, condition=condition)
    if json:
        for failure in found:
            terminal.print_json({"dataset": place, **dataclasses.asdict(failure)})
        return
    kinds = summarize(found)
    if not kinds:
        say(f"{place}: no episode failed.")
        return
    rows = [(one.cause, one.kind, one.episodes, one.tasks) for one in kinds]
    columns = ("cause", "what went wrong", ">episodes", ">tasks")
    terminal.make_console().print(terminal.make_table(*columns, rows=rows, widest=60))
    for one in kinds:
        example = one.example
        say("")
        say(f"{one.cause}, {one.kind}: {example.task}, {example.episode_id}")
        for quote in example.quotes:
            say(f"  {'end' if quote.step is None else f'step {quote.step}'}: {quote.text}")
        if example.reason:
            say(f"  reason: {example.reason}")


def _prices(given: list[str] | None) -> dict[str, Price] | None:
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


def _say_health(name: str, report: MetricsReport) -> None:
    from webtraj.metrics import sentences

    say(f"{name}: {sentences.health(report)}")


def _write_page(subjects: Sequence[Subject], file: Path, title: str, *, json: bool) -> None:
    from webtraj.metrics.report import make_report
    from webtraj.view.report import write_report

    made = make_report(subjects, title=title)
    if json:
        terminal.print_json(made.to_data())
        return
    write_report(made, file)
    say(f"Report: {file}")
