"""A report as data for the viewer's page, and as one self-contained HTML file.

The data has a title, the results in sentences, success by iteration, and sections of tables::

    {"kind": "report", "title": "...", "about": ["..."], "viewer": "http://127.0.0.1:8640/",
     "headline": [["runs/x", "8 episodes; no defect known."],
                  ["runs/x", "62.5% success, 5 of 8 graded episodes (95 %: ...)."]],
     "iterations": {"series": [...], "tasks": [...], "left_out": 0},   # `series_data`
     "sections": [{"title": "By task", "parts": [
        {"text": "..."},
        {"legend": {"series": ["runs/x", "runs/y"]}},                  # or {"phase": [...]}
        {"table": {"columns": [...], "rows": [[cell, ...], ...], "caption": ""}},
        {"numbers": [{"name": "loss", "points": [[1, 0.7], [2, 0.5]]}]}]}]}

A cell is a text, a text with a link or mark, a drawing of intervals, or a drawing of shares::

    {"text": "...", "link": "#/episode/...", "mark": "up"}       # or "down", "note"
    {"intervals": [{"series": 0, "name": "runs/x", "value": 0.6, "low": 0.3, "high": 0.9}],
     "signed": false}
    {"shares": [["success", 5], ["failure", 3]], "kind": "outcome"}    # or "phase"

Links lead to the episodes in a viewer at `VIEWER`.
"""

from __future__ import annotations

import dataclasses
import datetime
import shlex
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import webtraj
from webtraj import errors
from webtraj.datasets.place import absolute_place
from webtraj.metrics import sentences
from webtraj.metrics.comparison import Comparison, Difference, Point
from webtraj.metrics.metrics_report import plain
from webtraj.metrics.rates import Rate, bounds
from webtraj.metrics.report import Report
from webtraj.net.local_pages import DEFAULT_PORT
from webtraj.store import files
from webtraj.view.page import page_html

__all__ = ["MARK", "VIEWER", "report_data", "write_report"]

VIEWER = f"http://127.0.0.1:{DEFAULT_PORT}/"
"""The default address of `webtraj view`."""

MARK = "<!-- a webtraj report -->"
"""The mark at the start of a report; a file with it may be overwritten."""

_INTERVALS = (
    "All intervals are 95 %. They assume independent episodes; attempts at the same task are not "
    "quite independent. By chance, one in twenty intervals of a difference excludes 0."
)
_MOST_GROUPS = 500
_Cell = str | dict[str, Any]
_Part = dict[str, Any]


def write_report(report: Report, path: Path) -> None:
    """Write a report as an HTML file. Only an older report is overwritten.

    Raises:
        InvalidInputError: Another file exists there, or the report cannot be written.
    """
    try:
        with path.open("rb") as file:
            is_report = MARK.encode() in file.read(200)
    except FileNotFoundError:
        is_report = True
    except OSError as error:
        raise _cannot_write(path, error) from error
    if not is_report:
        raise errors.InvalidInputError(
            f"Not overwriting {str(path)!r}: it exists and is not a webtraj report. Choose another "
            "file with --html."
        )
    try:
        files.make_folder(path.parent)
        files.write_atomically(path, page_html(report_data(report), mark=MARK).encode())
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> errors.InvalidInputError:
    return errors.InvalidInputError(
        f"Cannot write {str(path)!r}: {errors.reason(error)}. Choose another path."
    )


def report_data(report: Report) -> dict[str, Any]:
    """Return a report as data for the page."""
    now = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
    places = shlex.join(dict.fromkeys(point.place for _, point in report.points))
    data = {
        "kind": "report",
        "title": report.title,
        "about": [
            f"Created {now} with webtraj {webtraj.__version__}. {_INTERVALS}",
            f"Links need a running viewer: webtraj view {places} --port {DEFAULT_PORT}",
        ],
        "viewer": VIEWER,
        "headline": [*_results(report), *_differences(report)],
        "iterations": report.iterations(),
        "sections": [
            _overview(report),
            *map(_comparison, report.comparisons),
            *_groups(report, "task"),
            *_groups(report, "level"),
            _outcomes(report),
            *_times(report),
            _faults(report),
            _details(report),
            *_numbers(report),
        ],
    }
    readable: dict[str, Any] = plain(data)
    return readable


def _results(report: Report) -> Iterable[tuple[str, str]]:
    """Yield two sentences on each main point: its health and its result, each with its name."""
    for name, point in report.main_points:
        yield name, sentences.health(point.report)
        rate = point.report.overall.success_rate
        result = "No episode was graded"
        if rate.value is not None:
            result = (
                f"{sentences.percent(rate.value)} success, {sentences.counts_of(rate)} graded "
                f"episodes (95 %: {sentences.interval_of(rate)})"
            )
        yield name, f"{result}."


def _differences(report: Report) -> Iterable[tuple[str, str]]:
    """Yield the name of each comparison's second point, and the verdict."""
    for comparison in report.comparisons:
        against = f"Compared with {comparison.first_name}: "
        yield comparison.second_name, against + sentences.verdict(comparison)


# Sections.


def _overview(report: Report) -> dict[str, Any]:
    rows = [
        [
            _link(name, point),
            _intervals({"": point.report.overall.success_rate}),
            *sentences.group_row(point.report.overall),
            _note(point),
        ]
        for name, point in report.points
    ]
    return _section("Overview", _table(["", "success", *_group_columns(), ""], rows))


def _group_columns() -> list[str]:
    return [name or "of" for name in sentences.GROUP_COLUMNS]


def _comparison(comparison: Comparison) -> dict[str, Any]:
    columns = ["", "difference", *sentences.DIFFERENCE_COLUMNS]
    said = [sentences.verdict(comparison), *sentences.cautions(comparison)]
    parts: list[_Part] = [{"text": text} for text in said]
    parts.append(_table(columns, map(_difference_row, comparison.rates)))
    pairs = comparison.pairs
    if pairs is not None:
        parts.append(
            {
                "text": f"Of {pairs.number} pairs of episodes with the same task and seed, only "
                f"the second succeeded in {pairs.second_only}, only the first in "
                f"{pairs.first_only}, both in {pairs.both}, neither in {pairs.neither}."
            }
        )
        for what, tasks in (("Gained", pairs.gained), ("Lost", pairs.lost)):
            if tasks:
                some = ", ".join(f"{task} {number}" for task, number in list(tasks.items())[:20])
                more = " ..." if len(tasks) > 20 else ""
                parts.append({"text": f"{what}, by task: {some}{more}."})
    for by, found in comparison.groups.items():
        if len(found) > 1:
            parts.append(_table([by, *columns[1:]], map(_difference_row, found[:_MOST_GROUPS])))
    parts.append(
        {
            "text": "Differences by Newcombe 1998: method 10 for independent proportions, and for "
            "pairs (Statistics in Medicine 17:873-890 and 17:2635-2650)."
        }
    )
    title = f"{comparison.second_name} compared with {comparison.first_name}"
    return _section(title, *parts)


def _difference_row(difference: Difference) -> list[_Cell]:
    first, second, points, between = sentences.difference_row(difference)
    shown: _Cell = points
    value = difference.value
    if value is not None and difference.is_clear:
        better = (value > 0) == (difference.name not in ("crashed rate", "blocked rate"))
        shown = {"text": points, "mark": "up" if better else "down"}
    ends = bounds(difference.interval)
    drawn = [] if value is None else [{"series": 0, "name": "", "value": value, **ends}]
    name = difference.name or "-"
    return [name, {"intervals": drawn, "signed": True}, first, second, shown, between]


def _groups(report: Report, by: str) -> Iterable[dict[str, Any]]:
    points = report.main_points
    names = dict.fromkeys(name for _, point in points for name in point.report.by.get(by, {}))
    if len(names) < 2:
        return
    groups = [point.report.by.get(by, {}) for _, point in points]
    shown = list(names)[:_MOST_GROUPS]
    parts: list[_Part] = []
    rows: list[list[_Cell]] = []
    if len(points) == 1:
        point = points[0][1]
        columns = [by, "success", *_group_columns()]
        for name in shown:
            metrics = groups[0][name]
            label = _link(name, point, task=name) if by == "task" and name else name or "-"
            drawn = _intervals({"": metrics.success_rate})
            rows.append([label, drawn, *sentences.group_row(metrics)])
    else:
        columns = [by, "success", *(name for name, _ in points)]
        parts.append({"legend": {"series": [name for name, _ in points]}})
        for name in shown:
            rates = {
                subject: of[name].success_rate if name in of else None
                for (subject, _), of in zip(points, groups, strict=True)
            }
            texts = map(sentences.rate_with_counts, rates.values())
            rows.append([name or "-", _intervals(rates), *texts])
    parts.append(_table(columns, rows))
    if len(names) > _MOST_GROUPS:
        parts.append({"text": f"{len(names) - _MOST_GROUPS} more not shown."})
    yield _section(f"By {by}", *parts)


def _outcomes(report: Report) -> dict[str, Any]:
    counts = {name: point.report.overall.outcomes for name, point in report.points}
    kinds = [k for k in dict.fromkeys(k for of in counts.values() for k in of)
             if any(of.get(k) for of in counts.values())]  # fmt: skip
    rows: list[list[_Cell]] = [
        [name, _shares({k: of.get(k, 0) for k in kinds}, "outcome"),
         *(str(of.get(k, 0)) for k in kinds)]
        for name, of in counts.items()
    ]  # fmt: skip
    columns = ["", "share", *(kind.replace("_", " ") for kind in kinds)]
    return _section("Outcomes", {"legend": {"outcome": kinds}}, _table(columns, rows))


def _times(report: Report) -> Iterable[dict[str, Any]]:
    spent = [(n, dataclasses.asdict(p.report.overall.seconds_by_phase)) for n, p in report.points]
    known = [(name, times) for name, times in spent if sum(times.values()) > 0]
    if not known:
        return
    phases = list(known[0][1])
    rows: list[list[_Cell]] = []
    for name, times in known:
        total = sum(times.values())
        parts = (sentences.percent(times[phase] / total) for phase in phases)
        rows.append([name, _shares(times, "phase"), *parts])
    table = _table(["", "share", *phases], rows)
    yield _section("Time by phase", {"legend": {"phase": phases}}, table)


def _faults(report: Report) -> dict[str, Any]:
    points = report.points
    kinds = dict.fromkeys(kind for _, point in points for kind in point.faults)
    if not kinds:
        return _section("Errors", {"text": "None."})
    rows: list[list[_Cell]] = [
        [kind, *(_fault(kind, point) for _, point in points)] for kind in kinds
    ]
    return _section("Errors", _table(["", *(name for name, _ in points)], rows))


def _fault(kind: str, point: Point) -> _Cell:
    """Return an error's count, with a link to the latest episode that ended with it."""
    number = str(point.faults.get(kind, 0))
    example = point.examples.get(kind)
    return {"text": number, "link": _episode(point, example)} if example else number


def _details(report: Report) -> dict[str, Any]:
    if len(report.points) == 1:
        columns = ["", "value", "95 %", "from"]
        rows: Iterable[Sequence[str]] = sentences.details(report.points[0][1].report.overall)
    else:
        columns = ["", *(name for name, _ in report.points)]
        rows = sentences.comparison([point.report.overall for _, point in report.points])
    return _section("All metrics", _table(columns, rows))


def _numbers(report: Report) -> Iterable[dict[str, Any]]:
    parts: list[_Part] = []
    for subject in report.subjects:
        names = list(dict.fromkeys(name for numbers in subject.numbers for name in numbers))
        if not names:
            continue
        curves: list[dict[str, Any]] = []
        for name in names:
            known = [(n["iteration"], n[name]) for n in subject.numbers if name in n]
            if name != "iteration" and len({value for _, value in known}) > 1:
                curves.append({"name": name, "points": known})
        rows = [
            [f"{numbers[name]:g}" if name in numbers else "-" for name in names]
            for numbers in subject.numbers
        ]
        parts += [{"numbers": curves}, _table(names, rows, caption=subject.name)]
    if parts:
        yield _section("Loop metrics", *parts)


# Parts and cells.


def _section(title: str, *parts: _Part) -> dict[str, Any]:
    return {"title": title, "parts": list(parts)}


def _table(columns: Sequence[str], rows: Iterable[Sequence[_Cell]], *, caption: str = "") -> _Part:
    return {"table": {"columns": list(columns), "rows": list(map(list, rows)), "caption": caption}}


def _intervals(rates: Mapping[str, Rate | None]) -> _Cell:
    drawn = [
        {"series": series, "name": name, "value": rate.value, **bounds(rate.interval)}
        for series, (name, rate) in enumerate(rates.items())
        if rate is not None and rate.value is not None
    ]
    return {"intervals": drawn, "signed": False}


def _shares(parts: Mapping[str, float], kind: str) -> _Cell:
    return {"shares": [[name, value] for name, value in parts.items() if value], "kind": kind}


def _link(text: str, point: Point, *, task: str = "") -> _Cell:
    """Return text that links to a point's episodes, or to its episodes of one task.

    The link leads to a list, or to the task's only episode.
    """
    if task and (only := point.single.get(task)):
        return {"text": text, "link": _episode(point, only)}
    fields = {"dataset": absolute_place(point.place), "task": task, "run": point.report.run}
    known = {name: value for name, value in fields.items() if value}
    return {"text": text, "link": f"#/?{urllib.parse.urlencode(known, errors='replace')}"}


def _episode(point: Point, episode_id: str) -> str:
    """Return the address of an episode in the viewer."""
    names = (absolute_place(point.place), episode_id)
    return "#/episode/" + "/".join(
        urllib.parse.quote(name, safe="", errors="replace") for name in names
    )


def _note(point: Point) -> _Cell:
    report = point.report
    run = f"run {report.run}: {report.played} of {report.planned} rows" if report.run else ""
    note = "; ".join(part for part in (run, point.note) if part)
    return {"text": note, "mark": "note"} if note else ""
