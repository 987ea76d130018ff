"""What a judge reached, and how good it is, for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from webtraj.judging.judged import Judged
    from webtraj.judging.quality import Confusion, QualityReport

__all__ = ["print_quality", "unjudged"]

_MAX_SHOWN = 10


def unjudged(judged: Judged) -> Iterator[str]:
    """Yield lines about the episodes that got no verdict."""
    for episode_id, why in list(judged.failures.items())[:_MAX_SHOWN]:
        yield f"{episode_id} was not judged: {why}"
    if (more := len(judged.failures) - _MAX_SHOWN) > 0:
        yield f"... and {more} more were not judged."
    if judged.stopped:
        yield f"Judging stopped: {judged.stopped}"


def print_quality(console: Console, report: QualityReport, *, by_task: bool = False) -> None:
    """Print the rates, the confusion table, and the judge's mistakes."""
    from rich.table import Table

    from webtraj.cli import terminal
    from webtraj.judging.quality import VERDICT_COLUMNS

    console.print(f"{terminal.printable(report.judge)} ({terminal.printable(report.version)})")
    facts = Table(box=None, show_header=False, pad_edge=False)
    overall = report.overall
    for name in ("agreement", "coverage", "precision", "recall"):
        rate = getattr(overall, name)
        low, high = rate.interval or (None, None)
        interval = "" if low is None else f"{_share(low)} to {_share(high)}"
        facts.add_row(name, _share(rate.value), interval, f"{rate.numerator} of {rate.denominator}")
    facts.add_row("f1", _number(overall.f1))
    facts.add_row("kappa", _number(overall.kappa))
    console.print(facts)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("label")
    for verdict in VERDICT_COLUMNS:
        table.add_column(verdict.name.lower(), justify="right")
    for label, numbers in overall.rows():
        table.add_row(label.name.lower(), *map(str, numbers))
    console.print(table)
    if by_task:
        console.print(_task_table(report))
    for found in report.disagreements[:_MAX_SHOWN]:
        console.print(
            terminal.printable(
                f"{found.episode_id} {found.task}: {found.judgement.outcome.name.lower()}, label "
                f"{found.label.outcome.name.lower()}: {found.judgement.reason}"
            ),
            soft_wrap=True,
        )
    for what, ids in (
        ("not in the dataset", report.missing),
        ("did not finish, so not judged", report.unjudgeable),
        ("unreadable; `webtraj verify` shows why", report.unreadable),
    ):
        if ids:
            console.print(f"labelled episodes {what}: {len(ids)} ({', '.join(ids[:3])})")


def _task_table(report: QualityReport) -> Any:
    from rich.table import Table

    from webtraj.cli import terminal

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("task", overflow="fold")
    for name in ("judged", "agreement", "precision", "recall"):
        table.add_column(name, justify="right")
    for task, found in report.by_task.items():
        table.add_row(terminal.printable(task) or "-", *_task_row(found))
    return table


def _task_row(found: Confusion) -> list[str]:
    rates = (found.agreement, found.precision, found.recall)
    return [str(found.judged), *(_share(rate.value) for rate in rates)]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
