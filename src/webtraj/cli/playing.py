"""Run a configured rollout for `webtraj rollout`, then judge, propose and report."""

from __future__ import annotations

import collections
import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from webtraj.rollouts.configuration import ConfiguredRollout
    from webtraj.rollouts.results import RolloutSummary

__all__ = ["play"]

_MOST_SHOWN = 5


def play(
    built: ConfiguredRollout, ray: str | None, go_on: str, *, monitor: bool = False
) -> RolloutSummary:
    """Run a rollout, judge it and propose tasks if configured, and report the results.

    Args:
        built: The rollout.
        ray: The address of a Ray cluster to run on; None for this machine.
        go_on: The command that resumes the run.
        monitor: Whether to show each row of the plan while it runs, instead of a bar.

    Returns:
        What came of it, a resumed run's earlier episodes included.

    Raises:
        Exit: Every episode ended with an error, the judge failed on every episode, or judging or
            proposing is incomplete.
    """
    from webtraj.cli import progress, signals

    _log(verbose=built.verbose)
    with (
        progress.RolloutProgress(built.out, go_on=go_on, bar=not monitor) as observer,
        _monitored(built) if monitor else contextlib.nullcontext(),
    ):
        summary = signals.run(built.only_play(observer=observer, ray=ray))
        observer.rollout_ended(summary)
    done = _judge(built, summary, go_on)
    done = _propose(built, go_on) and done
    if not done or len(summary.errors) == len(summary.results):
        raise typer.Exit(1)
    return summary


@contextlib.contextmanager
def _monitored(built: ConfiguredRollout) -> Iterator[None]:
    """Show the run on the terminal meanwhile, if stderr is one."""
    from webtraj.cli import terminal
    from webtraj.view import RunMonitor
    from webtraj.view.screen import BackgroundScreen

    console = terminal.make_console(stderr=True)
    if not console.is_terminal:
        yield
        return

    def open_monitor() -> RunMonitor:
        return RunMonitor(built.out, built.run_id, storage_options=built.storage_options)

    with BackgroundScreen(open_monitor, console) as screen:
        yield
    if screen.trouble:
        console.print(terminal.printable(f"The monitor failed: {screen.trouble}"), soft_wrap=True)


def _judge(built: ConfiguredRollout, summary: RolloutSummary, go_on: str) -> bool:
    """Judge the recorded episodes, report the verdicts, and return whether all are judged."""
    if built.judging is None:
        return True
    from webtraj.cli import progress, signals, terminal

    console = terminal.make_console()

    def say(line: str) -> None:
        console.print(terminal.printable(line), soft_wrap=True, markup=False, highlight=False)

    try:
        with terminal.make_console(stderr=True).status("Judging") as status:
            judged = signals.run(
                built.judge(lambda done, total: status.update(f"Judging: {done} of {total}"))
            )
    except signals.SignalReceivedError:
        say(f"To judge the rest: {go_on}")
        raise
    assert judged is not None
    counts = collections.Counter(outcome.name.lower() for outcome in judged.outcomes.values())
    if counts:
        say(f"Verdicts of {judged.judge}, in {judged.place}:")
        console.print(progress.summary_table(judged.applied_to(summary)))
        say(", ".join(f"{name} {number}" for name, number in counts.most_common()) + ".")
    for episode_id, why in list(judged.failures.items())[:_MOST_SHOWN]:
        say(f"{episode_id} was not judged: {why}")
    if (more := len(judged.failures) - _MOST_SHOWN) > 0:
        say(f"... and {more} more were not judged.")
    if judged.stopped:
        say(f"Judging stopped: {judged.stopped}")
    if not judged.complete:
        say(f"To judge the rest: {go_on}")
    return judged.complete and counts.keys() != {"judge_error"}


def _propose(built: ConfiguredRollout, go_on: str) -> bool:
    """Propose tasks for the recorded episodes, report them, and return whether all were read."""
    if built.proposing is None:
        return True
    from webtraj.cli import signals, terminal
    from webtraj.cli.terminal import counted

    proposed = signals.run(built.propose())
    assert proposed is not None
    found = f"{counted(len(proposed.tasks), 'task')} of {counted(proposed.episodes, 'episode')}"
    told = f"{found} ({proposed.new} new)"
    lines = [f"{told} are in {proposed.tasks_place}."]
    if proposed.rejections:
        lines.append("Rejected proposals, by reason:")
    lines += [
        f"  {number} x {reason}"
        for reason, number in list(proposed.rejections.items())[:_MOST_SHOWN]
    ]
    lines += [
        f"No proposals for {episode_id}: {why}"
        for episode_id, why in list(proposed.failures.items())[:_MOST_SHOWN]
    ]
    if proposed.failures:
        lines.append(f"To retry those: {go_on}")
    console = terminal.make_console()
    for line in lines:
        console.print(terminal.printable(line), soft_wrap=True, markup=False, highlight=False)
    return not proposed.failures


def _log(*, verbose: bool) -> None:
    """Log details if asked to; without a terminal for the bar, log progress."""
    if not verbose and sys.stderr.isatty():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    milestones = "webtraj.rollouts.configuration.running"
    logger = logging.getLogger("webtraj" if verbose else milestones)
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    logger.propagate = False
