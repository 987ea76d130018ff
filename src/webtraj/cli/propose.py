"""`webtraj propose`: propose concrete tasks from what was seen in a dataset's episodes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import playing, signals, terminal
from webtraj.cli.flags import fields_of, takes
from webtraj.cli.options import Json

__all__ = ["propose"]


@takes(
    "api_key_variable", "base_url", "model", "parallel", "proposals", "proposer",
    "proposer_options", "provider", "requests_per_minute", "storage_options",
)  # fmt: skip
def propose(
    dataset: Annotated[str, typer.Argument(help="The dataset: a folder or a bucket's URL.")],
    run: Annotated[str | None, typer.Option(help="The run; default: all runs.")] = None,
    json: Json = False,
    **given: Any,
) -> None:
    """Propose concrete tasks from what was seen in the episodes of coarse tasks.

    `webtraj rollout` with --proposer does this after exploring. The proposed tasks go beside the
    episodes, to tasks/<run>/proposed-*.jsonl, for `webtraj rollout` to run. Run it again for what
    is missing. The default proposer is model if a model is given, else hindsight. The exit code is
    1 if proposing failed for an episode.
    """
    from webtraj.rollouts.recipes import proposing_of
    from webtraj.runs.spec import RunSpec
    from webtraj.settings.configuration import COMMAND_LINE, validate

    fields = fields_of(given)
    fields.setdefault("proposer", "hindsight" if "model" not in fields else "model")
    spec = validate(fields, RunSpec, COMMAND_LINE)
    proposing = proposing_of(spec)
    assert proposing is not None
    with signals.resumable("run the same command"):
        proposed = signals.run(
            proposing.propose(dataset, run, storage_options=spec.storage_options)
        )
    with terminal.json_output(json) as give:
        done = playing.tell_proposed(proposed, errors.command("propose", dataset))
        give(playing.proposed_data(proposed))
    if not done:
        raise typer.Exit(1)
