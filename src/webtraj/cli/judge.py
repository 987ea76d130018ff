"""`webtraj judge run`, `eval` and `rerun`: judge, measure a judge, repeat one of its verdicts."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import signals, terminal
from webtraj.cli.judge_quality import judging_data, print_quality, quality_rows, say_unjudged
from webtraj.cli.options import (
    ApiKeyVariable,
    BaseUrl,
    BucketOptions,
    Csv,
    Episode,
    Json,
    Parallel,
    Place,
    Provider,
    Where,
    condition_of,
    options_for,
    read_settings,
    without_none,
)
from webtraj.cli.terminal import say

if TYPE_CHECKING:
    from webtraj.agents.models.base import ModelClient
    from webtraj.judging.base import Judge
    from webtraj.trajectory import EpisodeTrajectory, Judgement

__all__ = ["eval_", "rerun", "run"]


_Model = Annotated[str | None, typer.Option(help="The judge's model.")]
_Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="An option of the judge, such as votes=3."),
]

# `webtraj judge run`: judge a dataset.


def run(
    dataset: Place,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Any setting, such as options.votes=3."),
    ] = None,
    judges: Annotated[
        list[str] | None,
        typer.Option(
            "--judge",
            metavar="NAME",
            help="environment, rules, rules:FILE or model. Repeat it to take the first judge that "
            "reaches a verdict.",
        ),
    ] = None,
    model: _Model = None,
    base_url: BaseUrl = None,
    provider: Provider = None,
    api_key_variable: ApiKeyVariable = None,
    settings: _Settings = None,
    when: Annotated[
        str | None,
        typer.Option(
            help="Judge episodes whose outcome is unknown, or always: all that ended by "
            "themselves. Default: unknown."
        ),
    ] = None,
    where: Where = None,
    parallel: Annotated[int | None, typer.Option(help="Episodes at a time; default: 8.")] = None,
    json: Json = False,
    option: BucketOptions = None,
) -> None:
    """Judge a dataset, and store the verdicts beside its episodes, which do not change.

    Episodes that this judge has judged are left out, so running it again judges the rest. The exit
    code is 1 if some got no verdict.
    """
    from webtraj.judging.configuration import JudgeConfig
    from webtraj.judging.judged import Judged, judge_dataset
    from webtraj.settings import configuration

    options = _options(settings, model, base_url, provider, api_key_variable)
    flags = without_none(
        judges=judges, options=options or None, when=when, where=where, parallel=parallel
    )
    config = configuration.of_command(
        JudgeConfig, flags, overrides or [], example="options.votes=3"
    )
    names = config.names()

    async def judge() -> Judged:
        async with _judge_of(names, config.options) as made:
            with terminal.Bar("Judging") as bar:
                return await judge_dataset(
                    dataset,
                    made,
                    when=config.when,
                    where=condition_of(config.where),
                    parallel=config.parallel,
                    storage_options=options_for(dataset, option),
                    observer=bar.show,
                )

    with signals.resumable("run the same command"):
        judged = signals.run(judge())
    counts = collections.Counter(outcome.name.lower() for outcome in judged.outcomes.values())
    if json:
        terminal.print_json(judging_data(judged))
    else:
        say(f"{judged.judge}: {judged.verdicts} new verdicts.")
        found = ", ".join(f"{name} {n}" for name, n in counts.most_common())
        say(f"All episodes: {found or 'none'}.")
        if judged.known:
            say(f"Left out: {judged.known} whose outcome is known; --when always judges them too.")
        say_unjudged(judged)
    if not judged.complete:
        raise typer.Exit(1)


# `webtraj judge eval`: measure a judge.


def eval_(
    dataset: Place,
    judges: Annotated[
        list[str] | None,
        typer.Option(
            "--judge",
            metavar="NAME",
            help="environment, rules, rules:FILE or model; default: environment. Repeat it to take "
            "the first judge that reaches a verdict.",
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="A .jsonl file with one label per line; default: the recorded outcomes."),
    ] = None,
    model: _Model = None,
    base_url: BaseUrl = None,
    provider: Provider = None,
    api_key_variable: ApiKeyVariable = None,
    settings: _Settings = None,
    where: Where = None,
    by_task: Annotated[bool, typer.Option("--by-task", help="Show a row per task.")] = False,
    parallel: Parallel = 8,
    csv: Csv = None,
    json: Json = False,
    option: BucketOptions = None,
) -> None:
    """Measure a judge against labels. Write nothing."""
    import asyncio

    from webtraj.datasets.dataset import open_dataset
    from webtraj.judging.quality import QualityReport, evaluate, labels_of_dataset, read_labels

    options = _options(settings, model, base_url, provider, api_key_variable)
    stored = options_for(dataset, option, *([labels] if labels else []))
    opened = open_dataset(dataset, storage_options=stored)
    known = read_labels(labels, storage_options=stored) if labels else labels_of_dataset(opened)
    if where is not None:
        opened = opened.filter(condition_of(where))
        kept = set(opened.episode_ids)
        known = {key: label for key, label in known.items() if key in kept}

    async def measure() -> QualityReport:
        async with _judge_of(judges or ["environment"], options) as made:
            return await evaluate(made, opened, known, parallel=parallel)

    report = asyncio.run(measure())
    terminal.save_table(csv, quality_rows(report))
    if json:
        terminal.print_json(report.to_data())
    else:
        print_quality(report, by_task=by_task)


def _options(
    settings: list[str] | None,
    model: str | None,
    base_url: str | None,
    provider: str | None,
    api_key_variable: str | None,
) -> dict[str, Any]:
    given = without_none(
        model=model, base_url=base_url, provider=provider, api_key_variable=api_key_variable
    )
    return {**read_settings(settings), **given}


@contextlib.asynccontextmanager
async def _judge_of(specs: list[str], options: Mapping[str, Any]) -> AsyncIterator[Judge]:
    """Make a judge, and close it at the end.

    If the judge's model does not work, raise here, before every episode becomes a judge_error.
    """
    from webtraj.judging.catalog import make_judge_of

    made = make_judge_of(specs, options=options)
    try:
        for judge in getattr(made, "judges", (made,)):
            if (check := getattr(judge, "check", None)) is not None:
                await check()
        yield made
    finally:
        if (aclose := getattr(made, "aclose", None)) is not None:
            await aclose()


# `webtraj judge rerun`: repeat a judgement.


def rerun(
    dataset: Place,
    episode: Episode,
    judge: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The judge whose verdict to repeat; default: the last one's."
        ),
    ] = "",
    model: _Model = None,
    base_url: BaseUrl = None,
    provider: Provider = None,
    api_key_variable: ApiKeyVariable = None,
    settings: _Settings = None,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay", help="Parse the recorded replies again instead of asking a model."
        ),
    ] = False,
    json: Json = False,
    option: BucketOptions = None,
) -> None:
    """Repeat a judgement from its record. Write nothing; exit with 1 if the verdict differs."""
    import asyncio

    from webtraj.cli.datasets import find_episode
    from webtraj.datasets.dataset import open_dataset
    from webtraj.judging import model as model_lib
    from webtraj.judging.base import unwrap_judgement

    options = _options(settings, model, base_url, provider, api_key_variable)
    opened = open_dataset(dataset, storage_options=options_for(dataset, option))
    trajectory = opened[find_episode(opened.episode_ids, episode)]
    recorded = _judgement_of(trajectory, judge.partition(":")[0])
    before = unwrap_judgement(recorded)

    async def ask_again() -> model_lib.Rerun:
        client = _client_of(before, options)
        try:
            return await model_lib.rerun(before, client)
        finally:
            await client.aclose()

    differences: tuple[tuple[str, str, str], ...] = ()
    if before.judge != "model":
        again = asyncio.run(_judge_again(trajectory, recorded, judge, options))
    elif replay:
        again = model_lib.replay(before)
    else:
        found = asyncio.run(ask_again())
        again, differences = found.judgement, found.differences
    same = again.outcome is before.outcome
    was, now = before.outcome.name.lower(), again.outcome.name.lower()
    if json:
        terminal.print_json(
            {
                "episode_id": trajectory.episode_id,
                "judge": before.judge,
                "version": {"before": before.version, "now": again.version},
                "same": same,
                "before": was,
                "now": now,
                "reason": again.reason,
                "differences": [list(difference) for difference in differences],
            }
        )
    else:
        say(f"{before.judge}: {now}, {'same as before' if same else f'was {was} before'}.")
        if again.reason:
            say(again.reason)
        if before.version != again.version:
            say(f"The judge's version was {before.version}, now {again.version}.")
        for key, one, other in differences:
            say(f"{key}: was {one or 'no verdict'}, now {other or 'no verdict'}")
    if not same:
        raise typer.Exit(1)


def _judgement_of(trajectory: EpisodeTrajectory, name: str) -> Judgement:
    from webtraj.judging.base import unwrap_judgement

    judgements = trajectory.judgements
    found = [
        judgement
        for judgement in judgements
        if name in ("", judgement.judge, unwrap_judgement(judgement).judge)
    ]
    if not found:
        known = ", ".join(dict.fromkeys(judgement.judge for judgement in judgements)) or "none"
        by = f" by {name!r}" if name else ""
        raise errors.InvalidInputError(
            f"No judgement{by} to repeat in the episode {trajectory.episode_id!r}. Its judges: "
            f"{known}."
        )
    return found[-1]


async def _judge_again(
    trajectory: EpisodeTrajectory, recorded: Judgement, spec: str, options: dict[str, Any]
) -> Judgement:
    """Judge the episode again as it was before that judgement, by a judge that uses no model."""
    from webtraj.judging.base import unwrap_judgement
    from webtraj.judging.catalog import make_judge_of
    from webtraj.trajectory import Outcome

    assert trajectory.end is not None  # Judgements are part of the end.
    before = unwrap_judgement(recorded)
    if not spec and str(before.findings.get("rule", "")).startswith("rules."):
        raise errors.InvalidInputError(
            "The judgement is by the rules of a file, which is not part of the record. Give it: "
            "--judge rules:FILE."
        )
    made = make_judge_of([spec] if spec else before.judge.split("+"), options=options)
    place = trajectory.end.judgements.index(recorded)
    earlier = trajectory.end.judgements[:place]
    verdicts = [judgement.outcome for judgement in earlier if judgement.outcome]
    if verdicts:
        outcome = verdicts[-1]
    elif before.judge == "environment":
        # The judgement recorded the environment's outcome.
        found = str(before.findings.get("recorded_outcome", "")).upper()
        outcome = Outcome.__members__.get(found, Outcome.UNKNOWN)
    else:
        outcome = Outcome.UNKNOWN
    end = dataclasses.replace(trajectory.end, judgements=earlier, outcome=outcome)
    return await made.judge(dataclasses.replace(trajectory, end=end))


def _client_of(judgement: Judgement, options: dict[str, Any]) -> ModelClient:
    from webtraj.agents.options import read_options

    models = list(dict.fromkeys(call.model for call in judgement.model_calls if call.model))
    if "model" not in options and len(models) != 1:
        raise errors.InvalidInputError(
            f"The judgement used {len(models)} models ({', '.join(models) or 'none recorded'}). "
            "Choose one with --model, or give --replay to use the recorded replies."
        )
    given = {"model": models[0] if models else "", **options}
    return read_options(given, who="the judge 'model'").make_client()
