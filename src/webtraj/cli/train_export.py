"""`webtraj train export` and `webtraj train preview`: samples to train on."""

from __future__ import annotations

import dataclasses
import io
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from webtraj import errors
from webtraj.cli import terminal
from webtraj.cli.options import (
    BucketOptions,
    EndReason,
    Json,
    JsonLines,
    NewPlace,
    Omissions,
    Outcome,
    Overwrite,
    Place,
    Policy,
    Site,
    Task,
    Where,
    format_settings,
    options_for,
    read_setting,
    without_none,
)
from webtraj.cli.terminal import pluralize, printable, say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from webtraj.agents.models.base import Part
    from webtraj.training.export import ExportReport, SampleFormat
    from webtraj.training.export.base import Split
    from webtraj.training.export.configuration import ExportSettings
    from webtraj.training.replay import Filters, ReplayBuffer, Selection
    from webtraj.training.samples import Sample

__all__ = ["export", "preview", "render_sample"]

# Export: from datasets to samples to files.

_UNFILTERED = ("tokens", "preferences", "trl-preferences")
"""Formats that need failures too, and store rewards themselves."""

_RENDER = "--render"
_WAYS_IN = {
    "TOO_SHORT": "--filter min_steps=1",
    "NOT_JUDGED": "judge them: `webtraj postprocess --step judge:model`",
    "NOT_SUCCESSFUL": "--filter filter_successful_only=false",
    "NO_MODEL_CALL": _RENDER,
    "INVALID_ACTION": "--filter valid_actions_only=false",
    "NO_EFFECT": "--filter filter_same_screenshot=false",
}
"""The remedy for samples that are left out, by the name of the `Reason`."""


def export(
    dataset: Place,
    out: NewPlace,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Any setting, such as filters.min_steps=1."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="sharegpt, openai, trl, tokens, preferences or trl-preferences; default: tokens.",
        ),
    ] = None,
    task: Task = None,
    site: Site = None,
    policy: Policy = None,
    outcome: Outcome = None,
    end_reason: EndReason = None,
    where: Where = None,
    then: Annotated[
        list[str] | None,
        typer.Option(metavar="DATASET", help="The next iteration's dataset. Repeatable."),
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            min=1, help="Take DATASET as a save_path, and export this many of its last iterations."
        ),
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="KEY=VALUE",
            help="Which samples to include: min_steps=1, filter_successful_only=false, "
            "max_per_task=100, .... Repeatable.",
        ),
    ] = None,
    held_out: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TASK",
            help="A task, pattern or task file that the data must not hold: fail if it does. "
            "Repeatable.",
        ),
    ] = None,
    loss_weights: Annotated[
        Literal["success", "reward", "uniform", "advantage", "rare"] | None,
        typer.Option(
            help="The loss weight of a sample. success: 1 or 0; reward: a reward of 0.5 halves the "
            "samples; rare: more for tasks with few samples. Default: success, or uniform for "
            "tokens and pairs."
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Draw this many samples; default: all.")
    ] = None,
    recency_bias_power: Annotated[
        float | None,
        typer.Option(help="With --samples: how strongly to prefer later iterations; default: 2."),
    ] = None,
    val_split: Annotated[
        float | None, typer.Option(help="The share of samples for validation, such as 0.05.")
    ] = None,
    split_by: Annotated[
        Literal["episode", "group", "task", "site"] | None,
        typer.Option(
            help="What to keep together in a split; default: episode, or group for tokens and "
            "pairs."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of draws and splits.")] = 0,
    render: Annotated[
        bool,
        typer.Option(
            "--render",
            help="Also make samples of decisions without a model call, such as an oracle's.",
        ),
    ] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="An option of the format, such as model=FOLDER. Repeatable.",
        ),
    ] = None,
    overwrite: Overwrite = False,
    csv: Omissions = None,
    json: Json = False,
    option: BucketOptions = None,
) -> None:
    """Export samples to train on. Exit with 1 if an episode could not be read.

    The export is written completely or not at all. It reports what was left out. `webtraj train`
    and other trainers read it.
    """
    from webtraj.datasets.exporters.base import all_formats
    from webtraj.settings import configuration
    from webtraj.training.export import export_selection, make_format
    from webtraj.training.export.configuration import ExportSettings
    from webtraj.training.replay import Reason

    flags = without_none(
        format=to, where=where, held_out=held_out, loss_weights=loss_weights, samples=samples,
        recency_bias_power=recency_bias_power, val_split=val_split, split_by=split_by,
        render=render or None, filters=_read_filters(filters) or None,
        options=format_settings(setting) or None,
    )  # fmt: skip
    config = configuration.of_command(
        ExportSettings, flags, overrides or [], example="filters.min_steps=1"
    )
    if config.format in all_formats():
        raise errors.InvalidInputError(
            f"{config.format!r} is a format of episodes: "
            f"{errors.command('export', dataset, '--format', config.format, '--out', out)}."
        )
    conditions = without_none(
        task=task, site=site, policy=policy, outcome=outcome, end_reason=end_reason
    )
    storage_options = options_for(dataset, option)
    # Report wrong options before reading anything.
    made = make_format(config.format, config.options)
    buffer = _buffer(
        dataset, made, config, conditions, storage_options, then=then, iterations=iterations,
        seed=seed,
    )  # fmt: skip
    if config.samples:
        power = 2.0 if config.recency_bias_power is None else config.recency_bias_power
        drawn = buffer.sample_with_recency(config.samples, power)
    else:
        drawn = buffer.all
    by = config.split_by or ("group" if made.name in _UNFILTERED else "episode")
    parts = drawn.split(config.val_split, by=by) if config.val_split else None
    report = export_selection(
        drawn if parts is None else parts,
        out,
        format=config.format,
        options=_with_seed(made, config.options, seed),
        overwrite=overwrite,
        storage_options=storage_options,
    )
    leaking = 0 if parts is None else parts.left_out
    contents = drawn.buffer.contents
    unreadable = contents.count_dropped().get(Reason.UNREADABLE, 0)
    table = _table(report, drawn, leaking)
    columns = ("what", "why", "how many")
    terminal.save_table(csv, (dict(zip(columns, row, strict=True)) for row in table), columns)
    if json:
        skipped = contents.count_dropped()
        terminal.print_json(
            {
                "target": out,
                **report.to_data(),
                "skipped": {reason.value: count for reason, count in skipped.items()},
                "also_in_training": leaking,
                "complete": not unreadable,
                "problems": contents.problems,
            }
        )
    else:
        for problem in contents.problems:
            say(f"unreadable: {problem}")
        _print_report(report, out, drawn, table)
    if unreadable:
        raise typer.Exit(1)


def _buffer(
    dataset: str,
    made: SampleFormat,
    config: ExportSettings,
    conditions: Mapping[str, Any],
    storage_options: Mapping[str, Any] | None,
    *,
    then: list[str] | None,
    iterations: int | None,
    seed: int,
) -> ReplayBuffer:
    from webtraj.runs.iterations import Iterations
    from webtraj.training.replay import HeldOut, Reason, ReplayBuffer, weights

    places: Any = [dataset, *then] if then else dataset
    if iterations:
        if then:
            raise errors.InvalidInputError(
                "--iterations and --then cannot be combined. Give --iterations with a save_path, "
                "or --then with each dataset."
            )
        places = Iterations(dataset, "train", storage_options)
    usual = "uniform" if made.name in _UNFILTERED else "success"
    weighting = {
        "success": weights.by_success,
        "reward": weights.by_reward,
        "uniform": weights.uniform,
        "advantage": weights.advantage(),
        "rare": weights.product(weights.by_success, weights.lifted("task")),
    }[config.loss_weights or usual]
    buffer = ReplayBuffer.from_datasets(
        places,
        last_n_iterations=iterations,
        filters=_filters(made.name, config, conditions),
        held_out=HeldOut(tasks=tuple(config.held_out)) if config.held_out else None,
        loss_weights=weighting,
        render=made.renderer(config.render_options) if config.render else None,
        seed=seed,
        storage_options=storage_options,
    )
    buffer.require_samples(
        {
            Reason[name]: way
            for name, way in _WAYS_IN.items()
            if not (config.render and way == _RENDER)
        }
    )
    return buffer


def _read_filters(given: list[str] | None) -> dict[str, Any]:
    return dict(read_setting("--filter", item) for item in given or ())


def _filters(to: str, config: ExportSettings, conditions: Mapping[str, Any]) -> Filters:
    from webtraj.settings.named import nearest
    from webtraj.training.replay import Filters

    known = [field.name for field in dataclasses.fields(Filters)]
    # Pairs and advantages need all attempts, with the steps that changed nothing.
    every = ("filter_successful_only", "distinct", "valid_actions_only", "filter_same_screenshot")
    found: dict[str, Any] = dict.fromkeys(every, False) if to in _UNFILTERED else {}
    for name, value in config.filters.items():
        if name not in known:
            raise errors.InvalidInputError(
                f"No filter {name!r:.60}. {nearest(name, known)}The filters: {', '.join(known)}."
            )
        found[name] = value
    told = [f"({where})" for where in (config.where, found.get("where")) if where]
    told += [f"{name} == {value!r}" for name, value in conditions.items()]
    return Filters(**{**found, "where": " and ".join(told)})


def _with_seed(made: SampleFormat, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    has_seed = any(field.name == "seed" for field in dataclasses.fields(made))  # type: ignore[arg-type]
    return {**({"seed": seed} if has_seed else {}), **settings}


def _table(report: ExportReport, drawn: Selection, leaking: int) -> list[tuple[str, str, int]]:
    left = drawn.buffer.contents.count_dropped()
    table = [("skipped", reason.value, count) for reason, count in left.items()]
    if leaking:
        why = "validation samples that also occur in training"
        table.append(("skipped", why, leaking))
    for name, split in report.splits.items():
        for why, count in sorted(split.left_out.items()):
            first = split.left_out_first[why]
            table.append((f"{name}: left out", f"{why} ({first})", count))
        for change, count in sorted(split.changes.items()):
            table.append((f"{name}: changed", change.replace("_", " "), count))
    return table


def _print_report(
    report: ExportReport, out: str, drawn: Selection, table: list[tuple[str, str, int]]
) -> None:
    left = drawn.buffer.contents.count_dropped()
    if table:
        console = terminal.make_console()
        counted_rows = ((what, why, f"{count:,}") for what, why, count in table)
        console.print(terminal.make_table("what", "why", ">how many", rows=counted_rows))
    pictures = f"; {report.num_pictures:,} pictures" if report.num_pictures else ""
    rows = "; ".join(
        _account(name, split, drawn.buffer.contents.num_episodes)
        for name, split in report.splits.items()
    )
    reasons = Counter({reason.value: count for reason, count in left.items()})
    for split in report.splits.values():
        reasons.update(split.left_out)
    say(f"{out}: {report.format}: {rows}{pictures}{_say_left_out(reasons)}")


def _account(name: str, split: Split, episodes: int) -> str:
    given = split.samples + split.left_out.total()
    return (
        f"{name}: {pluralize(split.rows, 'row')} "
        f"({split.samples:,} of {pluralize(given, 'sample')}, "
        f"{len(split.episodes):,} of {pluralize(episodes, 'episode')})"
    )


def _say_left_out(reasons: Counter[str]) -> str:
    if not reasons:
        return ""
    ((why, most),) = reasons.most_common(1)
    of_them = f", {most:,} of them" if len(reasons) > 1 else ""
    return f"; {reasons.total():,} left out{of_them}: {why}"


# `webtraj train preview`: print samples of an export or a dataset in readable form.

_IDS = 12
"""Token ids to show: the last of the prompt, and the first of the reply."""


def preview(
    place: Annotated[str, typer.Argument(help="The folder of an export, or a dataset.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="With --render: the agent's options, such as render_options.mode=coordinates.",
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="For an export: train or val.")] = "train",
    samples: Annotated[int, typer.Option(min=1, help="Show this many samples.")] = 3,
    skip: Annotated[int, typer.Option(min=0, help="Skip this many samples first.")] = 0,
    render: Annotated[
        bool,
        typer.Option(
            help="For a dataset: also show decisions without a model call, such as an oracle's."
        ),
    ] = False,
    json: JsonLines = False,
    option: BucketOptions = None,
) -> None:
    """Print samples in readable form. For a dataset, include failures and one-click episodes."""
    from pathlib import Path

    from webtraj.datasets.exporters.base import MANIFEST, is_manifest
    from webtraj.settings import configuration
    from webtraj.store.places import is_url
    from webtraj.training.export.configuration import RenderSettings
    from webtraj.training.export.export_folder import read_export
    from webtraj.training.replay import AgentRenderer, Filters, ReplayBuffer

    config = configuration.of_command(
        RenderSettings,
        without_none(render=render or None),
        overrides or [],
        example="render_options.mode=coordinates",
    )
    found: Iterable[Sample]
    if not is_url(place) and is_manifest(Path(place) / MANIFEST):
        if config.render:
            raise errors.InvalidInputError(
                f"{place!r} is an export, whose prompts are made already. Leave out --render, or "
                "give the dataset that it was made of."
            )
        found = read_export(Path(place), split)
    else:
        buffer = ReplayBuffer.from_datasets(
            place,
            filters=Filters(
                filter_successful_only=False,
                filter_same_screenshot=False,
                min_steps=1,
                valid_actions_only=False,
                distinct=False,
            ),
            render=AgentRenderer.of(config.render_options) if config.render else None,
            storage_options=options_for(place, option),
        )
        buffer.require_samples()
        found = buffer.all[skip : skip + samples]
        skip = 0
    console = terminal.make_console()
    for item in itertools.islice(found, skip, skip + samples):
        if json:
            terminal.print_json(_data(item))
        else:
            console.print(
                render_sample(item, boxed=console.is_terminal), soft_wrap=not console.is_terminal
            )


def _data(sample: Sample) -> dict[str, Any]:
    """Return a sample as JSON data. A picture becomes its name and size."""
    from webtraj.training.export.preferences import find_rejected
    from webtraj.training.samples import name_of

    rejected = find_rejected(sample)
    return {
        "name": name_of(sample.key),
        "messages": [
            {"role": message.role, "text": "".join(map(_part, message.parts))}
            for message in sample.messages
        ],
        "completion": sample.completion,
        "rejected": None if rejected is None else rejected.completion,
        "prompt_tokens": len(sample.prompt_token_ids),
        "completion_tokens": len(sample.completion_token_ids),
        "task": sample.task,
        "reward": sample.reward,
        "advantage": sample.advantage,
        "weight": sample.loss_weight,
        "iteration": sample.iteration or None,
        "policy_version": sample.policy_version,
        "recorded": sample.recorded,
    }


def render_sample(sample: Sample, *, boxed: bool = True) -> RenderableType:
    """Return the printable form of a sample. For a file or a pipe, it has no box."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text as Shown

    from webtraj.agents.models.base import Image
    from webtraj.training.export.preferences import find_rejected
    from webtraj.training.samples import name_of

    lines: list[RenderableType] = []
    for message in sample.messages:
        lines.append(Shown(message.role, style="bold"))
        text = Shown(style="dim" if message.role == "system" else "")
        for part in message.parts:
            text.append(_part(part), style="cyan" if isinstance(part, Image) else "")
        lines += [text, Shown()]
    rejected = find_rejected(sample)
    if sample.completion:
        lines.append(Shown("reply" if rejected is None else "better reply", style="bold green"))
        lines.append(Shown(printable(sample.completion, keep_lines=True), style="green"))
    if rejected is not None:
        lines += [Shown(), Shown("worse reply", style="bold red")]
        lines.append(Shown(printable(rejected.completion, keep_lines=True), style="red"))
    lines += _tokens(sample)
    title, facts = Shown(printable(name_of(sample.key))), Shown(printable(_facts(sample)))
    if not boxed:
        return Group(title, facts, Shown(), *lines, Shown())
    return Panel(
        Group(*lines),
        title=title,
        subtitle=facts,
        title_align="left",
        subtitle_align="left",
    )


def _part(part: Part) -> str:
    from webtraj.agents.models.base import Image

    if not isinstance(part, Image):
        return printable(part.text, keep_lines=True)
    try:
        from PIL import Image as Pillow

        with Pillow.open(io.BytesIO(part.data)) as image:
            what = f"{image.format} {image.width}x{image.height}"
    except Exception:  # Pillow's decoders raise anything; the preview continues.
        what = "an image that cannot be decoded"
    return f"[{what}, {len(part.data):,} bytes, {part.uuid[:12]}]"


def _tokens(sample: Sample) -> list[RenderableType]:
    from rich.text import Text as Shown

    prompt, reply = sample.prompt_token_ids, sample.completion_token_ids
    if not reply:
        return []
    ids = f"... {_some(prompt[-_IDS:])} | {_some(reply[:_IDS])} ..."
    mean = sum(sample.logprobs) / len(sample.logprobs) if sample.logprobs else None
    said = f"{len(prompt):,} prompt tokens, {len(reply):,} sampled"
    said += "" if mean is None else f", mean log-probability {mean:.3f}"
    return [Shown(), Shown(said, style="dim"), Shown(ids, style="dim")]


def _some(ids: tuple[int, ...]) -> str:
    return " ".join(map(str, ids))


def _facts(sample: Sample) -> str:
    facts = {
        "task": sample.task,
        "reward": sample.reward,
        "advantage": sample.advantage,
        "weight": sample.loss_weight,
        "iteration": sample.iteration or None,
        "weights": sample.policy_version,
    }
    told = [f"{name} {value}" for name, value in facts.items() if value not in (None, "")]
    return ", ".join(told if sample.recorded else [*told, "rendered afterwards"])
