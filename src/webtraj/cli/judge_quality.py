"""What a judge reached, and how good it is, for the terminal."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from webtraj.cli import terminal
from webtraj.cli.terminal import say

if TYPE_CHECKING:
    from webtraj.judging.judged import Judged
    from webtraj.judging.quality import QualityReport

__all__ = ["judging_data", "print_quality", "quality_rows", "say_unjudged"]

_MAX_SHOWN = 10
_MAX_UNDECIDED = 3
_RATES = ("agreement", "coverage", "precision", "recall")


def judging_data(judged: Judged) -> dict[str, Any]:
    """Return what a judge reached as JSON data."""
    counts = collections.Counter(outcome.name.lower() for outcome in judged.outcomes.values())
    return {
        "judge": judged.judge,
        "verdicts": judged.verdicts,
        "outcomes": dict(counts.most_common()),
        "failures": dict(judged.failures),
        "undecided": dict(judged.undecided),
        "stopped": judged.stopped,
    }


def say_unjudged(judged: Judged) -> None:
    """Print why the judge could not decide on some episodes, and why others got no verdict."""
    undecided = [f"{one}: judge_error: {why}" for one, why in judged.undecided.items() if why]
    terminal.say_first(undecided, _MAX_UNDECIDED, "were not decided.")
    failures = [f"{one} was not judged: {why}" for one, why in judged.failures.items()]
    terminal.say_first(failures, _MAX_SHOWN, "were not judged.")
    if judged.stopped:
        say(f"Judging stopped: {judged.stopped}")


def quality_rows(report: QualityReport) -> Iterator[dict[str, Any]]:
    """Yield a row for all labelled episodes, whose task is empty, then a row for each task."""
    for task, found in (("", report.overall), *report.by_task.items()):
        yield {
            "task": task,
            "judged": found.judged,
            **{name: getattr(found, name).value for name in _RATES},
            "f1": found.f1,
            "kappa": found.kappa,
        }


def print_quality(report: QualityReport, *, by_task: bool = False) -> None:
    """Print the rates, the confusion table, and the judge's mistakes."""
    from webtraj.judging.quality import VERDICT_COLUMNS
    from webtraj.metrics.sentences import counts_of, interval_of, number, percent

    say(f"{report.judge} ({report.version})")
    overall = report.overall
    facts: list[tuple[str, ...]] = []
    for name in _RATES:
        rate = getattr(overall, name)
        interval = "" if rate.value is None else interval_of(rate)
        facts.append((name, percent(rate.value), interval, counts_of(rate)))
    facts += [("f1", number(overall.f1, 3), "", ""), ("kappa", number(overall.kappa, 3), "", "")]
    tables = [terminal.make_table("", "", "", "", rows=facts)]
    verdicts = [f">{verdict.name.lower()}" for verdict in VERDICT_COLUMNS]
    labelled = ((label.name.lower(), *numbers) for label, numbers in overall.rows())
    tables.append(terminal.make_table("label", *verdicts, rows=labelled))
    if by_task:
        rows = []
        for task, found in report.by_task.items():
            rates = (found.agreement, found.precision, found.recall)
            rows.append((task or "-", found.judged, *(percent(rate.value) for rate in rates)))
        columns = ("task", ">judged", ">agreement", ">precision", ">recall")
        tables.append(terminal.make_table(*columns, rows=rows))
    console = terminal.make_console()
    for table in tables:
        console.print(table)
    for wrong in report.disagreements[:_MAX_SHOWN]:
        say(
            f"{wrong.episode_id} {wrong.task}: {wrong.judgement.outcome.name.lower()}, label "
            f"{wrong.label.outcome.name.lower()}: {wrong.judgement.reason}"
        )
    for what, ids in (
        ("not in the dataset", report.missing),
        ("did not finish, so not judged", report.unjudgeable),
        ("unreadable; `webtraj verify` shows why", report.unreadable),
    ):
        if ids:
            say(f"labelled episodes {what}: {len(ids)} ({', '.join(ids[:3])})")
