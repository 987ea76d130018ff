"""Run a rollout for `webtraj rollout` or `webtraj fork`, then judge, propose and report."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import orjson
import typer

from webtraj import errors
from webtraj.cli import logs, signals, terminal
from webtraj.cli.judge_quality import judging_data, say_unjudged
from webtraj.cli.options import list_imported_modules, storage_options
from webtraj.cli.propose import proposals_data, report_proposed
from webtraj.cli.terminal import pluralize, say
from webtraj.settings.configuration import (
    COMMAND_LINE,
    escape,
    to_yaml,
    validate,
    without_secrets,
)
from webtraj.settings.named import import_modules
from webtraj.trajectory import Outcome

if TYPE_CHECKING:
    from webtraj.judging.judged import Judged
    from webtraj.rollouts.results import RolloutSummary
    from webtraj.rollouts.rollout import Rollout

__all__ = ["from_fields", "dataset_command", "play", "settings_text"]


def from_fields(
    given: Mapping[str, Any],
    *,
    resume: bool = False,
    run_id: str | None = None,
) -> tuple[Rollout, str]:
    """Return the rollout for a command's settings, and the command line to resume it with.

    Args:
        given: The fields of `RunSpec` that were given, among them `out`.
        resume: Whether to resume a run of `out`.
        run_id: The id of that run. Default: the latest.

    Raises:
        InvalidInputError: A value is wrong, or there is no run to resume.
    """
    from webtraj.rollouts.configuration.builder import build_rollout, resume_run
    from webtraj.runs.spec import RunSpec

    if resume and given.get("iteration") is None:
        fields = dict(given)
        place = {"out": fields.pop("out"), "storage_options": fields.pop("storage_options", {})}
        built = resume_run(fields, run_id=run_id, **place)
    else:
        spec = validate(given, RunSpec, COMMAND_LINE)
        built = build_rollout(spec, resume=(run_id or True) if resume else False)
    return built, dataset_command(built)


def settings_text(given: Mapping[str, Any]) -> str:
    """Return all settings of a run as a configuration of the kind `run`.

    Args:
        given: The fields of `RunSpec` that were given.

    Raises:
        InvalidInputError: A value is wrong.
    """
    from webtraj.runs.spec import RunSpec

    return to_yaml(escape(validate(given, RunSpec, COMMAND_LINE).model_dump()))


def dataset_command(built: Rollout) -> str:
    """Return a command that names a rollout's dataset.

    It includes the bucket options, but no secrets and no options that `--option` does not take.
    """
    options = built.spec.storage_options
    buckets: list[str] = []
    for name, value in without_secrets(options).items():
        text = f"{name}={value if isinstance(value, str) else orjson.dumps(value).decode()}"
        if value == options[name]:
            with contextlib.suppress(errors.InvalidInputError):
                storage_options([text])
                buckets += ("--option", text)
    modules = [part for module in list_imported_modules() for part in ("--import", module)]
    return errors.command("rollout", *modules, "--out", built.out, *buckets)


def play(
    built: Rollout,
    ray: str | None,
    go_on: str,
    *,
    monitor: bool = False,
    csv: str | None = None,
    json: bool = False,
    report: Callable[[], Mapping[str, Any]] = dict,
) -> RolloutSummary:
    """Run a rollout, judge it and propose tasks if configured, and report the results.

    Args:
        built: The rollout.
        ray: The address of a Ray cluster to run on; None for this machine.
        go_on: The command that resumes the run.
        monitor: Whether to show each row of the plan while it runs, instead of a bar.
        csv: A file for the table of tasks, which includes earlier episodes of a resumed run; None
            to write none.
        json: Whether to print the results as JSON.
        report: Reports further results, and returns them for the JSON.

    Returns:
        The results, including the earlier episodes of a resumed run.

    Raises:
        Exit: Every episode ended with an error, the judge failed on every episode, or judging or
            proposing is incomplete.
    """
    from webtraj.cli import progress

    _log(verbose=built.spec.verbose)
    player = None
    if ray is not None:
        from webtraj.rollouts.distributed import Cluster
        from webtraj.rollouts.distributed.collection import play_on_ray

        modules = list_imported_modules()
        setup = functools.partial(import_modules, modules) if modules else None
        player = functools.partial(play_on_ray, Cluster(address=ray, setup=setup))
    with terminal.json_output(json) as give:
        with (
            progress.RolloutProgress(built.out, go_on=go_on, bar=not monitor) as observer,
            _show_monitor(built) if monitor else contextlib.nullcontext(),
        ):
            summary = signals.run(built.only_play(observer=observer, player=player))
            observer.rollout_ended(summary)
        summary = _judge(built, summary, go_on)
        terminal.save_table(csv, progress.table_rows(summary.scored))
        with signals.resumable(f"run: {go_on}"):
            summary = dataclasses.replace(summary, proposed=signals.run(built.only_propose()))
        done = summary.judged is None or _is_judged(summary.judged)
        if summary.proposed is not None:
            done = report_proposed(summary.proposed, go_on) and done
        further = report()
        if json:
            give({**_data(built, summary.scored), **further})
    if not done or len(summary.errors) == len(summary.results):
        raise typer.Exit(1)
    return summary


@contextlib.contextmanager
def _show_monitor(built: Rollout) -> Iterator[None]:
    """Show the run on the terminal meanwhile, if stderr is one."""
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
        say(f"The monitor failed: {screen.trouble}", stderr=True)


def _data(built: Rollout, summary: RolloutSummary) -> dict[str, Any]:
    """Return the results of a run as JSON data."""
    from webtraj.metrics.metrics_report import measure_results, plain

    report = measure_results(summary.results, seconds=summary.seconds, by=("task",))
    data: dict[str, Any] = {
        "dataset": built.out,
        "run": built.run_id,
        "planned": len(built.plan),
        "played": sum(result.counts for result in summary.last_tries),
        "seconds": summary.seconds,
        "steps_per_second": summary.steps_per_second,
        "metrics": report.overall.to_data(),
        "tasks": {name: metrics.to_data() for name, metrics in report.by["task"].items()},
        "errors": [
            {name: getattr(result, name) for name in ("task", "attempt", "episode_id", "error")}
            for result in summary.errors
        ],
        "judged": None if summary.judged is None else judging_data(summary.judged),
        "proposed": None if summary.proposed is None else proposals_data(summary.proposed),
    }
    return {name: plain(value) for name, value in data.items()}


def _is_judged(judged: Judged) -> bool:
    """Return whether every episode is judged, and the judge did not fail on all of them."""
    return judged.complete and {*judged.outcomes.values()} != {Outcome.JUDGE_ERROR}


def _judge(built: Rollout, summary: RolloutSummary, go_on: str) -> RolloutSummary:
    """Judge the recorded episodes if there is a judge, and return the summary with the verdicts."""
    if built.judge is None:
        _say_nobody_judged(built, summary)
        return summary
    from webtraj.cli import progress

    try:
        with terminal.Bar("Judging") as bar:
            judged = signals.run(built.only_judge(bar.show))
    except signals.SignalReceivedError:
        say(f"To judge the rest: {go_on}")
        raise
    assert judged is not None
    summary = dataclasses.replace(summary, judged=judged)
    counts = collections.Counter(outcome.name.lower() for outcome in judged.outcomes.values())
    if counts:
        say(f"Verdicts of {judged.judge}, in {judged.place}:")
        terminal.make_console().print(progress.summary_table(summary.scored))
        say(", ".join(f"{name} {number}" for name, number in counts.most_common()) + ".")
    say_unjudged(judged)
    if not judged.complete:
        say(f"To judge the rest: {go_on}")
    return summary


def _say_nobody_judged(built: Rollout, summary: RolloutSummary) -> None:
    """Report unknown outcomes of tasks that a judge could have judged."""
    judgeable = {
        planned.spec.name
        for planned in built.plan
        if planned.spec.facts or planned.spec.reference_answer
    }
    unknown = sum(
        result.task in judgeable and result.outcome is Outcome.UNKNOWN
        for result in summary.last_tries
    )
    if unknown:
        command = errors.command("judge", "run", built.out, "--judge", "model")
        say(
            f"Nobody judged {pluralize(unknown, 'episode')} of tasks with facts or an answer to "
            f"judge by. To judge: {command} --model NAME"
        )


def _log(*, verbose: bool) -> None:
    """Log details on request. Without a terminal for the bar, log progress."""
    if verbose:
        logs.show(logging.INFO)
    elif not sys.stderr.isatty():
        logs.show(logging.INFO, "webtraj.rollouts.rollout")
