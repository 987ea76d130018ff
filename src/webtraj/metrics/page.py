"""A report as one self-contained HTML file, without scripts or requests.

Foreign text, such as task names and error messages, is escaped. Charts are images, in which nothing
runs. The page's Content-Security-Policy enforces this too.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import hashlib
import html
import shlex
import urllib.parse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import webtraj
from webtraj import errors
from webtraj.datasets.place import absolute_place
from webtraj.metrics import figures, presenting
from webtraj.metrics.comparison import Comparison, Difference, Point, Subject, compare
from webtraj.metrics.figures import Picture
from webtraj.metrics.measuring import plain
from webtraj.store import files

__all__ = [
    "MARK",
    "Report",
    "VIEWER",
    "make_report",
    "report_html",
    "write_pictures",
    "write_report",
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The content of a report."""

    title: str
    subjects: tuple[Subject, ...]
    comparisons: tuple[Comparison, ...]
    """Each subject compared with the first; with iterations, also the last with the first."""

    @property
    def points(self) -> tuple[tuple[str, Point], ...]:
        """Every point with a unique name."""
        several = len(self.subjects) > 1
        found = []
        for subject in self.subjects:
            for point in subject.points:
                parts = [subject.name] if several or not point.label else []
                found.append((": ".join([*parts, *([point.label] if point.label else [])]), point))
        return tuple(found)

    @property
    def main_points(self) -> tuple[tuple[str, Point], ...]:
        """The main point of each subject, with the same names."""
        mains = [id(subject.main) for subject in self.subjects]
        return tuple((name, point) for name, point in self.points if id(point) in mains)

    def pictures(self) -> list[Picture]:
        """Draw the charts.

        Raises:
            MissingDependencyError: matplotlib is not installed.
        """
        mains = self.main_points
        drawn: list[Picture | None] = [
            figures.success_over_iterations(self.subjects),
            figures.success_by_group(mains, "task"),
            figures.success_by_group(mains, "level"),
            figures.outcomes(self.points),
            figures.time_by_phase(self.points),
        ]
        several = len(self.comparisons) > 1
        for number, comparison in enumerate(self.comparisons, start=1):
            picture = figures.differences(comparison)
            if picture is not None and several:
                title = f"{picture.title}: {comparison.second_name} minus {comparison.first_name}"
                picture = dataclasses.replace(picture, name=f"{picture.name}_{number}", title=title)
            drawn.append(picture)
        for number, subject in enumerate(self.subjects, start=1):
            picture = figures.loop_numbers(subject)
            if picture is not None and len(self.subjects) > 1:
                picture = dataclasses.replace(
                    picture,
                    name=f"{picture.name}_{number}",
                    title=f"{picture.title}: {subject.name}",
                )
            drawn.append(picture)
        return [picture for picture in drawn if picture is not None]

    def to_data(self) -> dict[str, Any]:
        """Return the report as JSON data that every reader accepts."""
        data: dict[str, Any] = {
            "kind": "report",
            "webtraj_version": webtraj.__version__,
            "title": self.title,
            "subjects": [
                {
                    "name": subject.name,
                    "points": [
                        {
                            "label": point.label,
                            "place": point.place,
                            "iteration": point.iteration,
                            "split": point.split,
                            "note": point.note,
                            "faults": dict(point.faults),
                            "metrics": point.report.to_data(),
                        }
                        for point in subject.points
                    ],
                    "numbers": [dict(numbers) for numbers in subject.numbers],
                }
                for subject in self.subjects
            ],
            "comparisons": [comparison.to_data() for comparison in self.comparisons],
        }
        readable: dict[str, Any] = plain(data)
        return readable


def make_report(subjects: Sequence[Subject], *, title: str = "") -> Report:
    """Return a report on some subjects.

    Args:
        subjects: The subjects, in order; the others are compared with the first.
        title: The title; by default made of the subjects' names.

    Raises:
        InvalidInputError: There are no subjects, or two have the same name.
    """
    if not subjects:
        raise errors.InvalidInputError("No dataset given; a report needs at least one.")
    names = [subject.name for subject in subjects]
    if len(set(names)) < len(names):
        raise errors.InvalidInputError(
            f"A dataset was given twice: {', '.join(map(repr, names)):.300}. Give each one once."
        )
    comparisons = []
    for subject in subjects:
        if subject.first is not subject.main:
            prefix = f"{subject.name}: " if len(subjects) > 1 else ""
            comparisons.append(
                compare(
                    f"{prefix}{subject.first.label}", subject.first,
                    f"{prefix}{subject.main.label}", subject.main,
                )
            )  # fmt: skip
    first = subjects[0]
    comparisons += [
        compare(first.name, first.main, other.name, other.main) for other in subjects[1:]
    ]
    return Report(
        title=title or f"Rollouts: {', '.join(names)}",
        subjects=tuple(subjects),
        comparisons=tuple(comparisons),
    )


# The page.

VIEWER = "http://127.0.0.1:8640/"
"""Where `webtraj view` serves, unless told otherwise."""

MARK = "<!-- a webtraj report -->"
"""The mark at the start of a report; a file with it may be overwritten."""

_MOST_GROUPS = 500
_STYLE = """
:root { color-scheme: light dark; --ground: #f7f7f5; --card: #fff; --ink: #1c1e21;
  --soft: #5b616a; --line: #d9dbde; --up: #1d7a44; --down: #a5352c; }
@media (prefers-color-scheme: dark) { :root { --ground: #15171a; --card: #1e2125; --ink: #e8eaed;
  --soft: #a2a9b2; --line: #353a40; --up: #58c98a; --down: #f08a7c; } }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui,
  sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1.2rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin: 0 0 .6rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 1rem; margin: 0 0 1rem; }
p { margin: .4rem 0; overflow-wrap: anywhere; } a { color: inherit; }
.headline ul { margin: 0; padding: 0; list-style: none; font-size: 1.1rem;
  overflow-wrap: anywhere; }
td { white-space: nowrap; } td.note { white-space: normal; min-width: 9rem; }
.soft, caption { color: var(--soft); font-size: .85rem; }
.scroll { overflow-x: auto; } .scroll:focus-visible { outline: 2px solid var(--soft); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: .3rem; }
th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; vertical-align: top; }
thead th { color: var(--soft); font-weight: 500; font-size: .8rem; min-width: 4.5rem; }
tbody th { font-weight: 400; min-width: min(16rem, 32vw); }
td.up { color: var(--up); font-weight: 600; } td.down { color: var(--down); font-weight: 600; }
figure { margin: 0 0 1rem; background: #fff; border: 1px solid var(--line); border-radius: 8px;
  padding: .8rem; color: #1c1e21; }
figure img { width: 100%; min-width: 40rem; height: auto; display: block; }
figcaption { font-weight: 600; margin-bottom: .4rem; overflow-wrap: anywhere; }
"""


def write_report(report: Report, path: Path) -> None:
    """Write a report. Overwrites an older report, but no other file.

    Raises:
        InvalidInputError: Another file exists there, or the report cannot be written.
        MissingDependencyError: matplotlib is not installed.
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
    _write(path, report_html(report).encode("utf-8", "replace"))


def write_pictures(report: Report, folder: Path) -> list[Path]:
    """Write a report's charts as PNG files, and return their paths.

    Raises:
        InvalidInputError: The folder cannot be written.
        MissingDependencyError: matplotlib is not installed.
    """
    written = []
    for picture in report.pictures():
        path = folder / f"{picture.name}.png"
        _write(path, picture.png())
        written.append(path)
    return written


def _write(path: Path, content: bytes) -> None:
    try:
        files.make_folder(path.parent)
        files.write_atomically(path, content)
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> errors.InvalidInputError:
    return errors.InvalidInputError(
        f"Cannot write {str(path)!r}: {errors.reason(error)}. Choose another path."
    )


def report_html(report: Report) -> str:
    """Return a report as HTML.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'"
    )
    now = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
    title = _escaped(report.title)
    sections = [
        _headline(report),
        _overview(report),
        *(_comparison(comparison) for comparison in report.comparisons),
        *(_figure(picture) for picture in report.pictures()),
        _groups(report, "task"),
        _groups(report, "level"),
        _faults(report),
        _details(report),
        _numbers(report),
    ]
    return "\n".join(
        (
            "<!doctype html>",
            MARK,
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_escaped(policy)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title><style>{_STYLE}</style></head><body><main>",
            f"<h1>{title}</h1>",
            _soft(
                f"Created {now} with webtraj {webtraj.__version__}. Intervals are 95 %. They "
                "assume independent episodes, which attempts at the same task are not quite; and "
                "one in twenty intervals of a difference excludes 0 by chance."
            ),
            *sections,
            "</main></body></html>",
            "",
        )
    )


def _headline(report: Report) -> str:
    """Return the result in a sentence for each dataset, and for each comparison."""
    told = []
    for name, point in report.main_points:
        metrics = point.report.overall
        rate = metrics.success_rate
        if rate.value is None:
            said = "no episode was graded"
        else:
            low, high = rate.interval or (0.0, 1.0)
            said = (
                f"{rate.value:.1%} success, {rate.numerator} of {rate.denominator} graded episodes "
                f"(95 %: {low:.1%} to {high:.1%})"
            )
        failures = metrics.infrastructure_failures
        broken = f"; {failures} ended with an infrastructure failure" if failures else ""
        told.append(f"<li><strong>{_escaped(name or point.place)}</strong>: {said}{broken}.</li>")
    for comparison in report.comparisons:
        found = next(iter(comparison.rates))
        pairs = comparison.pairs
        value, ends = (pairs.value, pairs.interval) if pairs else (found.value, found.interval)
        if value is None or ends is None:
            continue
        low, high = ends
        clear = "better" if low > 0 else "worse" if high < 0 else "no clear difference"
        told.append(
            f"<li><strong>{_escaped(comparison.second_name)}</strong> against "
            f"{_escaped(comparison.first_name)}: {_signed(value)} points (95 %: {_signed(low)} to "
            f"{_signed(high)}), {clear}.</li>"
        )
    places = shlex.join(dict.fromkeys(point.place for _, point in report.points))
    port = urllib.parse.urlsplit(VIEWER).port
    links = _soft(
        "Links open the episodes in the viewer, once it runs at that port: webtraj view "
        f"{places} --port {port}"
    )
    return f'<section class="headline"><ul>{"".join(told)}</ul>{links}</section>'


def _overview(report: Report) -> str:
    rows = [
        (
            _listed(name or point.place, point),
            *presenting.group_row(point.report.overall),
            _note(point),
        )
        for name, point in report.points
    ]
    columns = ["", *presenting.GROUP_COLUMNS, ""]
    columns[3] = "of"
    return _section("Overview", _table(columns, rows))


def _comparison(comparison: Comparison) -> str:
    title = f"{comparison.second_name} compared with {comparison.first_name}"
    columns = ("", "first", "second", "difference", "95 %")
    parts = [_table(columns, map(_difference_row, comparison.rates))]
    pairs = comparison.pairs
    if pairs is None:
        parts.append(_soft("No pairs: the two share no task with the same seed."))
    else:
        low, high = pairs.interval or (-1.0, 1.0)
        parts.append(
            f"<p>Of {pairs.number} pairs of episodes with the same task and seed, only the second "
            f"succeeded in {pairs.second_only}, only the first in {pairs.first_only}, both in "
            f"{pairs.both}, neither in {pairs.neither}: <strong>{_signed(pairs.value)}"
            f"</strong> ({_signed(low)} to {_signed(high)}), p = {pairs.p:.3g} (McNemar, exact)."
            "</p>"
        )
        for what, tasks in (("Gained", pairs.gained), ("Lost", pairs.lost)):
            if tasks:
                some = ", ".join(f"{task} {number}" for task, number in list(tasks.items())[:20])
                parts.append(_soft(f"{what}, by task: {some}{' ...' if len(tasks) > 20 else ''}."))
    for by, found in comparison.groups.items():
        if len(found) > 1:
            shown = found[:_MOST_GROUPS]
            parts.append(_table((by, *columns[1:]), map(_difference_row, shown)))
    parts.append(
        _soft(
            "Differences by Newcombe 1998: method 10 for independent proportions, and for pairs "
            "(Statistics in Medicine 17:873-890 and 17:2635-2650)."
        )
    )
    return _section(title, *parts)


def _difference_row(difference: Difference) -> tuple[object, ...]:
    ends = difference.interval
    interval = "-" if ends is None else f"{_signed(ends[0])} to {_signed(ends[1])}"
    value = difference.value
    shown: object = "-" if value is None else _signed(value)
    if value is not None and difference.is_clear:
        better = (value > 0) == (difference.name not in ("crashed rate", "blocked rate"))
        shown = _Cell(_signed(value), mark="up" if better else "down")
    rates = map(presenting.rate_with_counts, (difference.first, difference.second))
    return (difference.name or "-", *rates, shown, interval)


def _groups(report: Report, by: str) -> str:
    points = report.main_points
    names = dict.fromkeys(name for _, point in points for name in point.report.by.get(by, {}))
    if len(names) < 2:
        return ""
    left = len(names) - _MOST_GROUPS
    shown = list(names)[:_MOST_GROUPS]
    if len(points) == 1:
        groups = points[0][1].report.by[by]
        point = points[0][1]
        rows = [
            (
                _listed(name, point, **{by: name}) if name else "-",
                *presenting.group_row(groups[name]),
            )
            for name in shown
        ]
        columns = [by, *presenting.GROUP_COLUMNS]
        columns[3] = "of"
        table = _table(columns, rows)
    else:
        compared = presenting.group_comparison([point.report.by[by] for _, point in points])
        wanted = set(shown)
        rows = [(row[0] or "-", *row[1:]) for row in compared if row[0] in wanted]
        table = _table((by, *(name for name, _ in points)), rows)
    rest = _soft(f"{left} more not shown.") if left > 0 else ""
    return _section(f"By {by}", table, rest)


def _faults(report: Report) -> str:
    points = report.points
    kinds = dict.fromkeys(kind for _, point in points for kind in point.faults)
    if not kinds:
        return _section("Errors", _soft("None."))
    rows = [(kind, *(_fault(kind, point) for _, point in points)) for kind in kinds]
    return _section("Errors", _table(("", *(name for name, _ in points)), rows))


def _fault(kind: str, point: Point) -> object:
    """Return the number of an error, linked to the latest episode that ended with it."""
    number = str(point.faults.get(kind, 0))
    example = point.examples.get(kind)
    return _Cell(number, _episode(point, example)) if example else number


def _listed(text: str, point: Point, **fields: str) -> object:
    """Return text that links to some episodes in the viewer, if it can tell them apart.

    The link leads to the episode if there is one, else to a list.
    """
    if not fields.keys() <= {"task", "site"}:
        return text
    if fields.keys() == {"task"} and (only := point.single.get(fields["task"])):
        return _Cell(text, _episode(point, only))
    if point.report.run:
        fields["run"] = point.report.run
    query = urllib.parse.urlencode(
        {"dataset": absolute_place(point.place), **fields}, errors="replace"
    )
    return _Cell(text, f"{VIEWER}#/?{query}")


def _episode(point: Point, episode_id: str) -> str:
    """Return the address of an episode in the viewer."""
    names = (absolute_place(point.place), episode_id)
    return f"{VIEWER}#/episode/" + "/".join(
        urllib.parse.quote(name, safe="", errors="replace") for name in names
    )


def _details(report: Report) -> str:
    if len(report.points) == 1:
        columns: Sequence[str] = ("", "value", "95 %", "from")
        rows: Iterable[Sequence[str]] = presenting.details(report.points[0][1].report.overall)
    else:
        columns = ("", *(name for name, _ in report.points))
        rows = presenting.comparison([point.report.overall for _, point in report.points])
    return _section("All metrics", _table(columns, rows))


def _numbers(report: Report) -> str:
    parts = []
    for subject in report.subjects:
        names = dict.fromkeys(name for numbers in subject.numbers for name in numbers)
        if names:
            rows = [
                tuple(f"{numbers[name]:g}" if name in numbers else "-" for name in names)
                for numbers in subject.numbers
            ]
            parts.append(_table(tuple(names), rows, caption=subject.name))
    return _section("Loop metrics", *parts) if parts else ""


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.svg()).decode()
    return (
        f'<figure class="scroll" tabindex="0"><figcaption>{_escaped(picture.title)}</figcaption>'
        f'<img alt="{_escaped(picture.alt)}" src="data:image/svg+xml;base64,{data}"></figure>'
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Cell:
    """A cell's text, the page that it leads to, and its CSS class."""

    text: str
    href: str = ""
    mark: str = ""


def _table(columns: Iterable[str], rows: Iterable[Sequence[object]], *, caption: str = "") -> str:
    head = "".join(f'<th scope="col">{_escaped(name)}</th>' for name in columns)
    lines = []
    for first, *others in rows:
        cells = "".join(map(_cell, others))
        lines.append(f'<tr><th scope="row">{_text(first)}</th>{cells}</tr>')
    named = f"<caption>{_escaped(caption)}</caption>" if caption else ""
    return (
        '<div class="scroll" tabindex="0"><table>'
        f"{named}<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _cell(value: object) -> str:
    mark = f' class="{value.mark}"' if isinstance(value, _Cell) and value.mark else ""
    return f"<td{mark}>{_text(value)}</td>"


def _text(value: object) -> str:
    if not isinstance(value, _Cell):
        return _escaped(value)
    text = _escaped(value.text)
    return f'<a href="{_escaped(value.href)}">{text}</a>' if value.href else text


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{_escaped(title)}</h2>{''.join(parts)}</section>"


def _soft(text: str) -> str:
    return f'<p class="soft">{_escaped(text)}</p>'


def _escaped(value: object) -> str:
    """Return text escaped for HTML, with unprintable characters replaced."""
    text = "".join(
        char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in str(value)
    )
    return html.escape(text)


def _note(point: Point) -> object:
    report = point.report
    run = f"run {report.run}: {report.played} of {report.planned} rows" if report.run else ""
    note = "; ".join(part for part in (run, point.note) if part)
    return _Cell(note, mark="note") if note else ""


def _signed(value: float) -> str:
    return f"{100 * value:+.1f}"
