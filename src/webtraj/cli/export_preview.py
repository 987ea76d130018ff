"""`webtraj export preview`: samples as a person reads them, of an export or of a dataset."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from webtraj.cli.options import OPTION_HELP

if TYPE_CHECKING:
    from rich.console import RenderableType

    from webtraj.agents.models.base import Part
    from webtraj.training.samples import Sample

__all__ = ["preview", "shown"]

_IDS = 12
"""Token ids that are shown, of the end of a prompt and the beginning of a reply."""


def preview(
    place: Annotated[str, typer.Argument(help="The folder of an export, or a dataset.")],
    split: Annotated[str, typer.Option(help="Of an export: train or val.")] = "train",
    samples: Annotated[int, typer.Option(min=1, help="How many.")] = 3,
    skip: Annotated[int, typer.Option(min=0, help="How many are left out before.")] = 0,
    render: Annotated[
        bool,
        typer.Option(help="Of a dataset: also what no model was asked for, as an oracle's."),
    ] = False,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Show samples as a person reads them. Of a dataset, failures and single clicks too."""
    from pathlib import Path

    from webtraj.cli import terminal
    from webtraj.cli.options import storage_options
    from webtraj.datasets.exporters.base import MANIFEST, is_manifest
    from webtraj.store.places import is_url
    from webtraj.training.export.reading import read_export
    from webtraj.training.replay import AgentRenderer, Filters, ReplayBuffer

    found: Iterable[Sample]
    if not is_url(place) and is_manifest(Path(place) / MANIFEST):
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
            render=AgentRenderer() if render else None,
            storage_options=storage_options(option),
        )
        buffer.require_samples()
        found = buffer.all[skip : skip + samples]
        skip = 0
    console = terminal.make_console()
    for item in itertools.islice(found, skip, skip + samples):
        console.print(shown(item))


def shown(sample: Sample) -> RenderableType:
    """Returns what to print for a sample."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text as Shown

    from webtraj.agents.models.base import Image
    from webtraj.cli.text import printable
    from webtraj.training.export.base import name_of
    from webtraj.training.export.pairs import rejected_of

    lines: list[RenderableType] = []
    for message in sample.messages:
        lines.append(Shown(message.role, style="bold"))
        text = Shown(style="dim" if message.role == "system" else "")
        for part in message.parts:
            text.append(_part(part), style="cyan" if isinstance(part, Image) else "")
        lines += [text, Shown()]
    rejected = rejected_of(sample)
    if sample.completion:
        lines.append(Shown("reply" if rejected is None else "better reply", style="bold green"))
        lines.append(Shown(printable(sample.completion, keep_lines=True), style="green"))
    if rejected is not None:
        lines += [Shown(), Shown("worse reply", style="bold red")]
        lines.append(Shown(printable(rejected.completion, keep_lines=True), style="red"))
    lines += _tokens(sample)
    return Panel(
        Group(*lines),
        title=Shown(printable(name_of(sample.key))),
        subtitle=Shown(printable(_facts(sample))),
        title_align="left",
        subtitle_align="left",
    )


def _part(part: Part) -> str:
    from webtraj.agents.models.base import Image
    from webtraj.cli.text import printable

    if not isinstance(part, Image):
        return printable(part.text, keep_lines=True)
    try:
        from PIL import Image as Pillow

        with Pillow.open(io.BytesIO(part.data)) as image:
            what = f"{image.format} {image.width}x{image.height}"
    except Exception:  # Whatever Pillow's decoders raise; a preview goes on.
        what = "a picture that cannot be decoded"
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
