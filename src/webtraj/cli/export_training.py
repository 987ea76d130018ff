"""What `webtraj export` does for formats of training data: from datasets to samples to files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from webtraj.training.export import ExportReport
    from webtraj.training.replay import Filters, Renderer, ReplayBuffer, Selection

__all__ = ["TrainingOptions", "export_training"]

_UNFILTERED = ("tokens", "preferences", "trl-preferences")
"""Formats that need failures too, and say rewards themselves."""

_RENDER = "--render"
_WAYS_IN = {
    "TOO_SHORT": "--filter min_steps=1",
    "NOT_JUDGED": "judge them: `webtraj postprocess --step judge:model`",
    "NOT_SUCCESSFUL": "--filter filter_successful_only=false",
    "NO_MODEL_CALL": _RENDER,
    "INVALID_ACTION": "--filter valid_actions_only=false",
    "NO_EFFECT": "--filter filter_same_screenshot=false",
}
"""What a person can do about samples that are left out, by the name of the `Reason`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """What a command line says of how samples are chosen. None where it says nothing."""

    then: list[str] | None
    iterations: int | None
    filters: list[str] | None
    held_out: list[str] | None
    loss_weights: Literal["reward", "uniform", "advantage"] | None
    samples: int | None
    recency_bias_power: float | None
    val_split: float | None
    split_by: Literal["episode", "group", "task", "site"] | None
    seed: int | None
    render: bool | None

    @property
    def given(self) -> list[str]:
        """The names of those that were given."""
        named = dataclasses.asdict(self)
        return [f"--{name.replace('_', '-')}" for name, value in named.items() if value]


def export_training(
    dataset: str,
    out: str,
    to: str,
    chosen: TrainingOptions,
    conditions: Mapping[str, Any],
    settings: Mapping[str, str],
    *,
    overwrite: bool,
    storage_options: Mapping[str, Any] | None,
) -> None:
    """Writes the samples of datasets in a format of `webtraj.training.export`."""
    from webtraj import errors
    from webtraj.store.places import is_url
    from webtraj.training.export import export_selection

    options = _with_seed(to, settings, chosen.seed)
    if chosen.recency_bias_power is not None and not chosen.samples:
        raise errors.InvalidInputError(
            "--recency-bias-power says how samples are drawn; give --samples too."
        )
    buffer = _buffer(dataset, to, chosen, conditions, storage_options)
    drawn = _drawn(buffer, chosen)
    by = chosen.split_by or ("group" if to in _UNFILTERED else "episode")
    parts = drawn.split(chosen.val_split, by=by) if chosen.val_split else None
    report = export_selection(
        drawn if parts is None else parts,
        out,
        format=to,
        options=options,
        overwrite=overwrite,
        storage_options=storage_options if is_url(out) else None,
    )
    _print_report(report, out, drawn, 0 if parts is None else parts.left_out)


def _buffer(
    dataset: str,
    to: str,
    chosen: TrainingOptions,
    conditions: Mapping[str, Any],
    storage_options: Mapping[str, Any] | None,
) -> ReplayBuffer:
    from webtraj import errors
    from webtraj.rollouts.iterations import Iterations
    from webtraj.training.replay import HeldOut, Reason, ReplayBuffer, weights

    places: Any = [dataset, *chosen.then] if chosen.then else dataset
    if chosen.iterations:
        if chosen.then:
            raise errors.InvalidInputError("--iterations and --then do not go together.")
        places = Iterations(dataset, "train", storage_options)
    usual = "uniform" if to in _UNFILTERED else "reward"
    weighting = {
        "reward": weights.by_reward,
        "uniform": weights.uniform,
        "advantage": weights.advantage(),
    }[chosen.loss_weights or usual]
    buffer = ReplayBuffer.from_datasets(
        places,
        last_n_iterations=chosen.iterations,
        filters=_filters(to, chosen.filters, conditions),
        held_out=HeldOut(tasks=tuple(chosen.held_out)) if chosen.held_out else None,
        loss_weights=weighting,
        render=_renderer(to) if chosen.render else None,
        seed=chosen.seed or 0,
        storage_options=storage_options,
    )
    buffer.require_samples(
        {
            Reason[name]: way
            for name, way in _WAYS_IN.items()
            if not (chosen.render and way == _RENDER)
        }
    )
    return buffer


def _renderer(to: str) -> Renderer:
    """Returns what makes prompts for the agents that a format is for."""
    if to == "pointing":
        from webtraj.training.scratch import PointingRenderer

        return PointingRenderer()
    from webtraj.training.replay import AgentRenderer

    return AgentRenderer()


def _filters(to: str, given: list[str] | None, conditions: Mapping[str, Any]) -> Filters:
    from webtraj import errors
    from webtraj.cli.options import read_setting
    from webtraj.training.replay import Filters

    known = [field.name for field in dataclasses.fields(Filters)]
    # Pairs and advantages need all attempts, those that are alike included.
    found: dict[str, Any] = (
        {"filter_successful_only": False, "distinct": False, "valid_actions_only": False}
        if to in _UNFILTERED
        else {}
    )
    for item in given or ():
        name, value = read_setting("--filter", item)
        if name not in known:
            raise errors.InvalidInputError(
                f"There is no filter {name!r:.60}; there are {', '.join(known)}."
            )
        found[name] = value
    told = [f"({conditions['where']})"] if "where" in conditions else []
    told += [f"{name} == {value!r}" for name, value in conditions.items() if name != "where"]
    if found.get("where"):
        told.append(f"({found['where']})")
    return Filters(**{**found, "where": " and ".join(told)})


def _drawn(buffer: ReplayBuffer, chosen: TrainingOptions) -> Selection:
    if chosen.samples:
        power = 2.0 if chosen.recency_bias_power is None else chosen.recency_bias_power
        return buffer.sample_with_recency(chosen.samples, power)
    return buffer.all


def _with_seed(to: str, settings: Mapping[str, str], seed: int | None) -> dict[str, Any]:
    from webtraj.training.export import make_format

    made = make_format(to, settings)  # So that what is wrong is told before anything is read.
    has_seed = any(field.name == "seed" for field in dataclasses.fields(made))  # type: ignore[arg-type]
    return {**({"seed": seed or 0} if has_seed else {}), **settings}


def _print_report(report: ExportReport, out: str, drawn: Selection, leaking: int) -> None:
    from rich.table import Table

    from webtraj.cli import terminal
    from webtraj.cli.text import counted, printable

    console = terminal.make_console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("what", overflow="fold")
    table.add_column("why", overflow="fold")
    table.add_column("how many", justify="right", no_wrap=True)
    left = drawn.buffer.contents.dropped_by_reason()
    for reason, count in left.items():
        table.add_row("not taken", reason.value, f"{count:,}")
    if leaking:
        table.add_row("not taken", "for validation, and trained on elsewhere too", f"{leaking:,}")
    for name, split in report.splits.items():
        for why, count in sorted(split.left_out.items()):
            first = split.left_out_first[why]
            table.add_row(f"{name}: left out", printable(f"{why} ({first})"), f"{count:,}")
        for change, count in sorted(split.changes.items()):
            table.add_row(f"{name}: changed", change.replace("_", " "), f"{count:,}")
    if table.row_count:
        console.print(table)
    rows = "; ".join(
        f"{name}: {counted(split.rows, 'row')} of {counted(split.samples, 'sample')} of "
        + counted(len(split.episodes), "episode")
        for name, split in report.splits.items()
    )
    pictures = f"; {report.num_pictures:,} pictures" if report.num_pictures else ""
    console.print(printable(f"{out}: {report.format}: {rows}{pictures}"), soft_wrap=True)
