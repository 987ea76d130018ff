"""`webtraj propose`: propose concrete tasks from recorded episodes, and report them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import signals, terminal
from webtraj.cli.flags import fields_of, takes
from webtraj.cli.options import Json, WritablePlace
from webtraj.cli.terminal import pluralize, say

if TYPE_CHECKING:
    from webtraj.exploring.proposals import Proposed

__all__ = ["propose", "proposals_data", "report_proposed"]

_MOST_SHOWN = 10


@takes(
    "api_key_variable", "base_url", "model", "parallel", "proposals", "proposer",
    "proposer_options", "provider", "requests_per_minute", "storage_options",
)  # fmt: skip
def propose(
    dataset: WritablePlace,
    run: Annotated[str | None, typer.Option(help="The run; default: all runs.")] = None,
    json: Json = False,
    **given: Any,
) -> None:
    """Propose concrete tasks from the pages seen in the episodes of coarse tasks.

    `webtraj rollout --proposer` does this after exploring. The proposed tasks are written beside
    the episodes, to tasks/<run>/proposed-*.jsonl; `webtraj rollout` plays them. Run the command
    again to propose for the rest. The default proposer is model if a model is given, else
    hindsight. The exit code is 1 if proposing failed for an episode.
    """
    from webtraj.rollouts.recipes import make_proposing
    from webtraj.runs.spec import RunSpec
    from webtraj.settings.configuration import COMMAND_LINE, validate

    fields = fields_of(given)
    fields.setdefault("proposer", "hindsight" if "model" not in fields else "model")
    spec = validate(fields, RunSpec, COMMAND_LINE)
    proposing = make_proposing(spec)
    assert proposing is not None
    with signals.resumable("run the same command"):
        proposed = signals.run(
            proposing.propose(dataset, run, storage_options=spec.storage_options)
        )
    with terminal.json_output(json) as give:
        done = report_proposed(proposed, errors.command("propose", dataset))
        give(proposals_data(proposed))
    if not done:
        raise typer.Exit(1)


def proposals_data(proposed: Proposed) -> dict[str, Any]:
    """Return proposed tasks as JSON data, in the form of the tasks' file."""
    return {
        "tasks_file": proposed.tasks_place,
        "tasks": len(proposed.tasks),
        "episodes": proposed.episodes,
        "new": proposed.new,
        "unfinished": proposed.unfinished,
        "rejections": dict(proposed.rejections),
        "failures": dict(proposed.failures),
    }


def report_proposed(proposed: Proposed, go_on: str) -> bool:
    """Report proposed tasks, and return whether there are proposals for every episode."""
    found = f"{pluralize(len(proposed.tasks), 'task')} of {pluralize(proposed.episodes, 'episode')}"
    say(f"{found} ({proposed.new} new) are in {proposed.tasks_place}.")
    tasks = [f"  {task.metadata.get('kind', '')}: {task.goal}" for task in proposed.tasks]
    terminal.say_first(tasks, _MOST_SHOWN, "tasks.")
    if not proposed.episodes and not proposed.failures:
        say("No episode finished by itself, so there was nothing to propose from.")
    if proposed.rejections:
        say("Rejected proposals, by reason:")
        reasons = [f"  {number} x {reason}" for reason, number in proposed.rejections.items()]
        terminal.say_first(reasons, _MOST_SHOWN, "reasons.")
    if proposed.unfinished:
        say(f"Skipped {pluralize(proposed.unfinished, 'episode')} that did not finish.")
    if proposed.failures:
        failures = [f"No proposals for {one}: {why}" for one, why in proposed.failures.items()]
        terminal.say_first(failures, _MOST_SHOWN, "episodes without proposals.")
        say(f"To retry those: {go_on}")
    return not proposed.failures
