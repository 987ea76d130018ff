"""`webtraj loop`: roll out, judge, train, serve, repeat."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from webtraj.cli import logs, signals, terminal
from webtraj.cli.options import Csv, Json
from webtraj.cli.terminal import pluralize, printable, say

if TYPE_CHECKING:
    from webtraj.loop import LoopConfig, LoopResult
    from webtraj.loop.phases import Phase, Slot

__all__ = ["loop"]


def loop(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Values that override the configuration's, such as iterations=5 or "
            "train.learning_rate=1e-4.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="The configuration: a YAML file, or a recipe that ships: node_of_8, one_gpu, "
            "ray_cluster.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume the loop if it was started before.")
    ] = False,
    only: Annotated[
        Literal["rollout", "update", "both"],
        typer.Option(
            help="rollout: only the phases that roll out, judge and evaluate; update: only those "
            "that export, train and publish. Stops before the next phase of the other kind."
        ),
    ] = "both",
    print_config: Annotated[
        bool,
        typer.Option("--print-config", help="Print the configuration without running it."),
    ] = False,
    csv: Csv = None,
    json: Json = False,
) -> None:
    """Run a policy, train it on its episodes, and repeat with the trained policy.

    Each phase is a separate command with its own log. Ctrl-C stops the running phase cleanly, and
    --resume continues from there. The loop's folder has the results of each iteration in
    metrics.jsonl, which `webtraj view` and `webtraj metrics --html` draw.
    """
    from webtraj.loop import load_loop_config
    from webtraj.loop import run as run_loop
    from webtraj.loop.configuration import to_yaml

    settings = load_loop_config(config, overrides or ())
    if print_config:
        print(to_yaml(settings), end="")
        return
    logs.show(logging.WARNING)
    with signals.resumable("run the same command with --resume"), _Progress() as observer:
        result = signals.run(run_loop(settings, resume=resume, only=only, observer=observer))
    terminal.save_table(csv, map(_row, result.lines))
    if json:
        terminal.print_json(result)
    else:
        _tell(result, settings)


class _Progress:
    """Print a line for each phase, and below them the output of the running phases."""

    def __init__(self) -> None:
        self._console = terminal.make_console(stderr=True)
        self._status = self._console.status("")
        self._total = self._done = 0
        self._said: dict[Any, str] = {}

    def loop_begins(self, total: int, done: int) -> None:
        """See `LoopObserver`."""
        self._total, self._done = total, done
        if done:
            self._say(f"{done} of {pluralize(total, 'phase')} already done.")

    def note(self, text: str) -> None:
        """See `LoopObserver`."""
        self._say(text)

    def phase_began(self, phase: Phase, *, attempt: int, log: str) -> None:
        """See `LoopObserver`."""
        again = f", try {attempt}" if attempt > 1 else ""
        self._say(f"[{self._done + 1}/{self._total}] {phase.slot}{again}: {log}")
        self._show(phase.slot, "")

    def phase_said(self, slot: Slot, line: str) -> None:
        """See `LoopObserver`."""
        self._show(slot, line)

    def phase_ended(self, slot: Slot, seconds: float) -> None:
        """See `LoopObserver`."""
        self._done += 1
        self._said.pop(slot.key, None)
        took = f"done in {seconds:.1f} s" if seconds else "already done"
        self._say(f"        {slot}: {took}")

    def phase_failed(self, slot: Slot, why: str, *, pause: float) -> None:
        """See `LoopObserver`."""
        self._say(f"        {slot} {why}; retrying in {pause:g} s")

    def measured(self, line: Mapping[str, Any]) -> None:
        """See `LoopObserver`."""
        if told := _brief(line):
            self._say(f"        {told}")

    def __enter__(self) -> _Progress:
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._status.stop()

    def _say(self, text: str) -> None:
        self._console.print(printable(text), soft_wrap=True)

    def _show(self, slot: Slot, line: str) -> None:
        from rich.text import Text

        self._said[slot.key] = f"{slot}: {printable(line)}"
        self._status.update(Text("\n".join(self._said.values())))


def _brief(line: Mapping[str, Any]) -> str:
    evaluated = line.get("evaluation", {}).get("mean", {})
    if evaluated.get("value") is not None:
        return (
            f"success {evaluated['value']:.1%} ({evaluated['low']:.1%} to "
            f"{evaluated['high']:.1%}), mean of "
            f"{pluralize(evaluated['tasks'], 'task')}, after iteration {line['iteration']}"
        )
    if gradient := line.get("policy_gradient"):
        ratio = f", ratio {gradient['ratio']:.3f}" if "ratio" in gradient else ""
        return (
            f"reward {gradient.get('reward', math.nan):.3f}, {gradient['groups_kept']} of "
            f"{pluralize(gradient['groups'], 'group')} with different rewards{ratio}"
        )
    if "evaluation" in line or "samples" in line or "loss" in line:
        return ""
    if "kept" in line and line.get("algorithm") != "grpo":
        if not line["kept"]:
            return "no episode of this iteration is left to train on"
        return f"{pluralize(line['kept'], 'episode')} to train on"
    success = line.get("success", {})
    if success.get("value") is not None:
        return f"success {success['value']:.1%} of {pluralize(success['denominator'], 'episode')}"
    return ""


def _row(line: Mapping[str, Any]) -> dict[str, Any]:
    mean = line.get("evaluation", {}).get("mean", {})
    return {
        "iteration": line["iteration"],
        "episodes": line.get("episodes"),
        "success": line.get("success", {}).get("value"),
        "samples": line.get("samples"),
        "loss": line.get("loss"),
        "evaluation": mean.get("value"),
        "low": mean.get("low"),
        "high": mean.get("high"),
        "seconds": sum(line["seconds"].values()),
    }


def _tell(result: LoopResult, config: LoopConfig) -> None:
    rows = (
        (
            row["iteration"],
            "-" if row["episodes"] is None else row["episodes"],
            _percent(row["success"]),
            "-" if row["samples"] is None else row["samples"],
            "-" if row["loss"] is None else f"{row['loss']:.4f}",
            _percent(row["evaluation"]),
            "-" if row["low"] is None else f"{row['low']:.1%} - {row['high']:.1%}",
            f"{row['seconds'] / 60:.1f}",
        )
        for row in map(_row, result.lines)
    )
    columns = (
        ">iteration", ">episodes", ">success", ">samples", ">loss", ">evaluation", ">95 %",
        ">minutes",
    )  # fmt: skip
    terminal.make_console().print(terminal.make_table(*columns, rows=rows))
    if not result.finished:
        say(f"More phases are left: {result.out}")
    elif config.iterations == 1:
        say(f"The iteration is done: {result.out}")
    else:
        say(f"All {config.iterations} iterations are done: {result.out}")


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.1%}"
