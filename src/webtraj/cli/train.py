"""`webtraj train`: train a model on samples."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj.cli import signals, terminal
from webtraj.cli.options import Json
from webtraj.cli.terminal import pluralize

if TYPE_CHECKING:
    from webtraj.training.samples import Sample
    from webtraj.training.sft import DataReport, TrainResult
    from webtraj.training.sft.settings import TrainConfig

__all__ = ["train"]


def train(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Values that override the configuration's, such as learning_rate=1e-4, "
            "method=lora or lora.rank=8.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="The configuration, a YAML file.", show_default=False)
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="The base model: a folder, or a name on the Hugging Face Hub."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            help="A file of samples, or the folder of an export. Repeatable.",
        ),
    ] = None,
    eval_data: Annotated[
        list[str] | None,
        typer.Option(
            help="Samples to measure the loss on, as for --data; default: the exports' held-out "
            "samples."
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(help="The run's folder. A run that started there is resumed."),
    ] = None,
    publish: Annotated[
        str | None,
        typer.Option(help="When done, put the model into this folder as model.pt."),
    ] = None,
    json: Json = False,
) -> None:
    """Train a model on samples, or resume a training run.

    Ctrl-C saves a checkpoint and stops; run the same command to resume. On several GPUs, run:
    accelerate launch -m webtraj train ...
    """
    from webtraj.training.sft import publish as publish_model
    from webtraj.training.sft import train as train_model
    from webtraj.training.sft.settings import load_train_config

    flags = {
        "model": model, "data": data, "eval_data": eval_data, "out": out, "publish": publish,
    }  # fmt: skip
    given = {name: value for name, value in flags.items() if value}
    settings = load_train_config(config, overrides or (), given)
    samples, eval_samples = _samples(settings)
    _quiet()
    received: list[int] = []

    def stop(signum: int, restore: Callable[[], None]) -> None:
        received.append(signum)
        restore()  # A second signal has its usual effect.

    with terminal.json_output(json) as give:
        with signals.handle_signals(stop), _Progress() as progress:
            result = train_model(
                settings,
                samples,
                eval_samples=eval_samples,
                observer=progress,
                stopped=lambda: bool(received),
            )
        if int(os.environ.get("RANK", "0")) > 0:
            return
        _tell(result, settings)
        if received and not result.finished:
            raise signals.SignalReceivedError(received[0])
        path = None
        if settings.publish is not None:
            path = publish_model(settings.out, settings.publish)
            print(f"Model: {path}")
        give({"out": settings.out, **dataclasses.asdict(result), "model": path})


def _samples(settings: TrainConfig) -> tuple[Sequence[Sample], Sequence[Sample]]:
    from webtraj.training.export.sample_files import open_held_out, open_samples

    held_out = (
        open_held_out(settings.data)
        if settings.eval_data is None
        else open_samples(settings.eval_data)
    )
    return open_samples(settings.data), held_out


def _quiet() -> None:
    """Silence the progress bars of transformers: it shows one for every file."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    with contextlib.suppress(ImportError):
        import transformers

        transformers.logging.disable_progress_bar()
        transformers.logging.set_verbosity_error()


class _Progress(terminal.Bar):
    """A bar on the terminal; without a terminal, a line for every tenth of the run."""

    def __init__(self) -> None:
        super().__init__("Training")
        self._total = 1
        self._told = 0

    def training_begins(self, report: DataReport, *, start: int, total: int) -> None:
        """See `TrainObserver`."""
        self._total = total
        self._told = 10 * start // max(total, 1)
        self.console.print(
            f"{report.used:,} of {pluralize(report.given, 'sample')}: "
            f"{pluralize(report.tokens, 'token')}, "
            f"{report.trained_tokens} of them trained on; {report.recorded} as recorded, "
            f"{report.no_weight} with weight 0, {report.too_long} too long."
            + (
                f" Groups with different rewards: {report.groups_kept} of {report.groups}."
                if report.groups
                else ""
            )
            + (
                f" Left out: {report.no_spread} of groups without spread, {report.unscored} "
                f"without a reward, {report.stale} too old."
                if report.no_spread or report.unscored or report.stale
                else ""
            )
            + (
                f" Left out: {report.misfits} with pictures that do not fit their token ids."
                if report.misfits
                else ""
            )
            + (f" Resuming from step {start}." if start else "")
        )
        self.show(start, total)

    def logged(self, entry: dict[str, Any]) -> None:
        """See `TrainObserver`."""
        if "loss" not in entry:
            return
        counts = f"loss {entry['loss']:.4f}, {entry['tokens_per_second']:.0f} tokens/s"
        self.show(entry["step"], self._total, counts)
        tenth = 10 * entry["step"] // self._total
        if not self.console.is_terminal and tenth > self._told:
            self.console.print(f"step {entry['step']} of {self._total}: {counts}")
        self._told = tenth


def _tell(result: TrainResult, settings: TrainConfig) -> None:
    if not result.planned:
        print(f"Nothing to train on; the weights are kept. Checkpoint: {result.checkpoint}")
        return
    if result.resumed_from == result.planned:
        print(f"The run in {settings.out} is already done: {pluralize(result.steps, 'step')}.")
        return
    loss = "" if result.loss is None else f" Loss {result.loss:.4f}"
    measured = "" if result.eval_loss is None else f", {result.eval_loss:.4f} on held-out samples"
    print(
        f"{result.steps:,} of {pluralize(result.planned, 'step')} done.{loss}{measured}. "
        f"Checkpoint: {result.checkpoint}"
    )
    if not result.finished:
        print("To resume, run the same command again.", file=sys.stderr)
