"""`webtraj judge run`, `eval` and `rerun`: judge, measure a judge, repeat one of its verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj.cli.options import (
    API_KEY_HELP,
    OPTION_HELP,
    PLACE_HELP,
    WHERE_HELP,
    Json,
    read_setting,
)

if TYPE_CHECKING:
    from webtraj.agents.models.base import ModelClient
    from webtraj.trajectory import EpisodeTrajectory, Judgement

__all__ = ["eval_", "rerun", "run"]


_Dataset = Annotated[str, typer.Argument(help=PLACE_HELP)]
_Model = Annotated[str | None, typer.Option(help="The judge's model.")]
_ModelUrl = Annotated[
    str | None,
    typer.Option(
        "--model-url",
        "--base-url",
        help="The model's server, including /v1; default: the vendor's.",
    ),
]
_ModelProvider = Annotated[
    str | None, typer.Option(help="The server's API, such as auto, openai, anthropic or azure.")
]
_KeyVariable = Annotated[
    str | None, typer.Option(metavar="NAME", help=API_KEY_HELP, show_default=False)
]
_Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="An option of the judge, such as votes=3."),
]
_Option = Annotated[list[str] | None, typer.Option(help=OPTION_HELP)]

_Judges = Annotated[
    list[str] | None,
    typer.Option(
        "--judge",
        metavar="NAME",
        help="environment, rules, rules:FILE or model. Repeat it to take the first judge that "
        "reaches a verdict.",
    ),
]

# `webtraj judge run`: judge a dataset.


def run(
    dataset: _Dataset,
    judges: _Judges = None,
    model: _Model = None,
    model_url: _ModelUrl = None,
    model_provider: _ModelProvider = None,
    api_key_variable: _KeyVariable = None,
    settings: _Settings = None,
    when: Annotated[
        str,
        typer.Option(
            help="Judge episodes whose outcome is unknown, or always: all that ended by themselves."
        ),
    ] = "unknown",
    where: Annotated[str | None, typer.Option(help=WHERE_HELP)] = None,
    parallel: Annotated[int, typer.Option(min=1, help="Episodes at a time.")] = 8,
    json: Json = False,
    option: _Option = None,
) -> None:
    """Judge a dataset, and store the verdicts beside its episodes, which do not change.

    Episodes that this judge has judged are left out, so running it again judges the rest. The exit
    code is 1 if some got no verdict.
    """
    from webtraj import errors
    from webtraj.cli import signals

    if not judges and model is None:
        raise errors.InvalidInputError(
            "No judge given. Give --judge rules:FILE, --judge model --model NAME, or another."
        )
    options = _options(settings, model, model_url, model_provider, api_key_variable)
    complete = signals.run(
        _run(dataset, judges or ["model"], options, when, where, parallel, option, json=json)
    )
    if not complete:
        raise typer.Exit(1)


async def _run(
    place: str,
    specs: list[str],
    options: dict[str, Any],
    when: Any,
    where: str | None,
    parallel: int,
    option: list[str] | None,
    *,
    json: bool,
) -> bool:
    """Judge a dataset, print the verdicts, and return whether all episodes have one."""
    import collections

    from webtraj.cli import terminal
    from webtraj.cli.judge_quality import unjudged
    from webtraj.cli.options import storage_options
    from webtraj.datasets.dataset import parse_condition
    from webtraj.judging.catalog import make_judge_of
    from webtraj.judging.judged import judge_dataset

    made = make_judge_of(specs, options=options)
    try:
        await _check(made)
        with terminal.make_console(stderr=True).status("Judging") as status:
            judged = await judge_dataset(
                place,
                made,
                when=when,
                where=None if where is None else parse_condition(where),
                parallel=parallel,
                storage_options=storage_options(option),
                observer=lambda done, total: status.update(f"Judging: {done} of {total}"),
            )
    finally:
        await _close(made)
    counts = collections.Counter(outcome.name.lower() for outcome in judged.outcomes.values())
    if json:
        terminal.print_json(
            {
                "judge": judged.judge,
                "verdicts": judged.verdicts,
                "outcomes": dict(counts.most_common()),
                "failures": dict(judged.failures),
                "stopped": judged.stopped,
            }
        )
        return judged.complete
    lines = [
        f"{judged.judge}: {judged.verdicts} new verdicts.",
        f"All episodes: {', '.join(f'{name} {n}' for name, n in counts.most_common()) or 'none'}.",
    ]
    if judged.known:
        lines.append(
            f"Left out: {judged.known} whose outcome is known; --when always judges them too."
        )
    console = terminal.make_console()
    for line in (*lines, *unjudged(judged)):
        console.print(terminal.printable(line), soft_wrap=True, markup=False, highlight=False)
    return judged.complete


# `webtraj judge eval`: measure a judge.


def eval_(
    dataset: _Dataset,
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
    model_url: _ModelUrl = None,
    model_provider: _ModelProvider = None,
    api_key_variable: _KeyVariable = None,
    settings: _Settings = None,
    where: Annotated[str | None, typer.Option(help=WHERE_HELP)] = None,
    by_task: Annotated[bool, typer.Option("--by-task", help="Show a row per task.")] = False,
    parallel: Annotated[int, typer.Option(min=1, help="Episodes at a time.")] = 8,
    json: Json = False,
    option: _Option = None,
) -> None:
    """Measure a judge against labels. Write nothing."""
    import asyncio

    options = _options(settings, model, model_url, model_provider, api_key_variable)
    asyncio.run(
        _eval(
            dataset, judges or ["environment"], labels, options, where, parallel, option,
            by_task=by_task, json=json,
        )
    )  # fmt: skip


def _options(
    settings: list[str] | None,
    model: str | None,
    base_url: str | None,
    provider: str | None,
    api_key_variable: str | None,
) -> dict[str, Any]:
    named = {
        "model": model, "base_url": base_url, "provider": provider,
        "api_key_variable": api_key_variable,
    }  # fmt: skip
    return {
        **dict(read_setting("--set", text) for text in settings or ()),
        **{key: value for key, value in named.items() if value is not None},
    }


async def _eval(
    place: str,
    specs: list[str],
    labels_file: str | None,
    options: dict[str, Any],
    where: str | None,
    parallel: int,
    option: list[str] | None,
    *,
    by_task: bool,
    json: bool,
) -> None:
    from webtraj.cli import terminal
    from webtraj.cli.judge_quality import print_quality
    from webtraj.cli.options import storage_options
    from webtraj.datasets.dataset import open_dataset, parse_condition
    from webtraj.judging.catalog import make_judge_of
    from webtraj.judging.quality import evaluate, labels_of_dataset, read_labels

    stored = storage_options(option)
    opened = open_dataset(place, storage_options=stored)
    if labels_file is None:
        labels = labels_of_dataset(opened)
    else:
        labels = read_labels(labels_file, storage_options=stored)
    if where is not None:
        opened = opened.filter(parse_condition(where))
        kept = set(opened.episode_ids)
        labels = {key: label for key, label in labels.items() if key in kept}
    made = make_judge_of(specs, options=options)
    try:
        await _check(made)
        report = await evaluate(made, opened, labels, parallel=parallel)
    finally:
        await _close(made)
    if json:
        terminal.print_json(report.to_data())
        return
    print_quality(terminal.make_console(), report, by_task=by_task)


# `webtraj judge rerun`: repeat a judgement.


def rerun(
    dataset: _Dataset,
    episode: Annotated[
        str, typer.Argument(help="An episode's id, the start of one, or a position such as -1.")
    ],
    judge: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The judge whose verdict to repeat; default: the last one's."
        ),
    ] = "",
    model: _Model = None,
    model_url: _ModelUrl = None,
    model_provider: _ModelProvider = None,
    api_key_variable: _KeyVariable = None,
    settings: _Settings = None,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay", help="Parse the recorded replies again instead of asking a model."
        ),
    ] = False,
    json: Json = False,
    option: _Option = None,
) -> None:
    """Repeat a judgement from its record. Write nothing; exit with 1 if the verdict differs."""
    import asyncio

    options = _options(settings, model, model_url, model_provider, api_key_variable)
    same = asyncio.run(_rerun(dataset, episode, judge, options, option, replay=replay, json=json))
    if not same:
        raise typer.Exit(1)


async def _rerun(
    place: str,
    episode: str,
    name: str,
    options: dict[str, Any],
    option: list[str] | None,
    *,
    replay: bool,
    json: bool,
) -> bool:
    """Repeat a judgement, print it, and return whether the verdict is the same."""
    import dataclasses

    from webtraj.cli import terminal
    from webtraj.cli.datasets import find_episode
    from webtraj.cli.options import storage_options
    from webtraj.datasets.dataset import open_dataset
    from webtraj.judging.base import given_by

    opened = open_dataset(place, storage_options=storage_options(option))
    trajectory = opened[find_episode(opened.episode_ids, episode)]
    recorded = _judgement_of(trajectory, name.partition(":")[0])
    before = given_by(recorded)
    differences: tuple[tuple[str, str, str], ...] = ()
    if before.judge != "model":
        again = await _judged_again(trajectory, recorded, name, options)
    elif replay:
        from webtraj.judging.model import replayed

        again = replayed(before)
    else:
        from webtraj.judging import model as model_lib

        client = _client_of(before, options)
        try:
            found = await model_lib.rerun(before, client)
        finally:
            await _close(client)
        again, differences = found.judgement, found.differences
    same = again.outcome is before.outcome
    if json:
        terminal.print_json(
            {
                "episode_id": trajectory.episode_id,
                "judge": before.judge,
                "version": {"before": before.version, "now": again.version},
                "same": same,
                "before": before.outcome.name.lower(),
                "now": again.outcome.name.lower(),
                "reason": again.reason,
                "differences": [list(difference) for difference in differences],
            }
        )
        return same
    console = terminal.make_console()
    told = dataclasses.replace(again, reason=terminal.printable(again.reason))
    verdict = "same as before" if same else f"was {before.outcome.name.lower()} before"
    console.print(
        f"{terminal.printable(before.judge)}: {told.outcome.name.lower()}, {verdict}.",
        soft_wrap=True,
    )
    if told.reason:
        console.print(told.reason, soft_wrap=True)
    if before.version != again.version:
        console.print(
            terminal.printable(f"The judge's version was {before.version}, now {again.version}.")
        )
    for key, was, now in differences:
        console.print(
            terminal.printable(f"{key}: was {was or 'no verdict'}, now {now or 'no verdict'}")
        )
    return same


def _judgement_of(trajectory: EpisodeTrajectory, name: str) -> Judgement:
    from webtraj import errors
    from webtraj.judging.base import given_by

    judgements = () if trajectory.end is None else trajectory.end.judgements
    found = [
        judgement
        for judgement in judgements
        if name in ("", judgement.judge, given_by(judgement).judge)
    ]
    if not found:
        known = ", ".join(dict.fromkeys(judgement.judge for judgement in judgements)) or "none"
        by = f" by {name!r}" if name else ""
        raise errors.InvalidInputError(
            f"No judgement{by} to repeat in the episode {trajectory.episode_id!r}. Its judges: "
            f"{known}."
        )
    return found[-1]


async def _judged_again(
    trajectory: EpisodeTrajectory, recorded: Judgement, spec: str, options: dict[str, Any]
) -> Judgement:
    """Judge the episode again, as it was before that judgement, with a judge without a model."""
    import dataclasses

    from webtraj import errors
    from webtraj.judging.base import given_by
    from webtraj.judging.catalog import make_judge_of
    from webtraj.trajectory import Outcome

    assert trajectory.end is not None  # Judgements are part of the end.
    before = given_by(recorded)
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
    from webtraj import errors
    from webtraj.agents.options import read_options

    models = list(dict.fromkeys(call.model for call in judgement.model_calls if call.model))
    if "model" not in options and len(models) != 1:
        raise errors.InvalidInputError(
            f"The judgement used {len(models)} models ({', '.join(models) or 'none recorded'}). "
            "Choose one with --model, or give --replay to use the recorded replies."
        )
    given = {"model": models[0] if models else "", **options}
    return read_options(given, who="the judge 'model'").make_client()


async def _check(made: object) -> None:
    """Raise if a judge's model does not work, before every episode becomes a judge_error."""
    for judge in getattr(made, "judges", (made,)):
        check = getattr(judge, "check", None)
        if check is not None:
            await check()


async def _close(made: object) -> None:
    aclose = getattr(made, "aclose", None)
    if aclose is not None:
        await aclose()
