"""`webtraj train update`: prepare and run a LLaMA-Factory training on recorded episodes."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import signals, terminal
from webtraj.cli.options import Json
from webtraj.cli.terminal import pluralize, say_first

if TYPE_CHECKING:
    from webtraj.training.llamafactory import CheckReport, Update, UpdateConfig

__all__ = ["update"]

_SHOWN = 20


def update(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Values that override the configuration's, such as save_path=runs or "
            "algorithm_config.learning_rate=1e-5.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        str,
        typer.Option(
            "--config",
            "--config-name",
            help="A YAML file with settings; or update_online, or the name of a file in "
            "--config-dir.",
        ),
    ] = "update_online",
    config_dir: Annotated[
        Path | None,
        typer.Option(help="A folder with your own configurations.", show_default=False),
    ] = None,
    python: Annotated[
        Path | None,
        typer.Option(
            help="The Python of LLaMA-Factory's environment, such as "
            ".venv-llamafactory/bin/python, to check the files with LLaMA-Factory. Without it, "
            "--train and --check search WEBTRAJ_LLAMAFACTORY_PYTHON, then beside "
            "llamafactory-cli on the PATH, then .venv-llamafactory in this folder or above.",
            show_default=False,
        ),
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Also train, and publish the model as model.pt.")
    ] = False,
    publish: Annotated[
        bool,
        typer.Option(
            "--publish",
            help="Only publish the last finished training as model.pt; exit with 1 if there is "
            "none. The next update and `webtraj serve SAVE_PATH/model.pt` also do this.",
        ),
    ] = False,
    check: Annotated[
        Path | None,
        typer.Option(
            help="Only check a folder of training files with LLaMA-Factory; exit with 1 if it "
            "would abort or skip rows.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Prepare a LLaMA-Factory training from recorded episodes; run it with --train.

    The files go to <save_path>/llamafactory_data. With --python or --train, LLaMA-Factory checks
    them. Without --train, train by hand with `llamafactory-cli train`; the trained model is then
    published as <save_path>/model.pt by --publish, by `webtraj serve`, or by the next update.
    """
    if check is not None:
        _check(check, python, json=json)
        return
    if train and publish:
        raise errors.InvalidInputError(
            "--train and --publish cannot be combined: --train publishes the model itself. Leave "
            "out --publish."
        )
    from webtraj.serving import interpreters
    from webtraj.training.llamafactory import load_update_config, prepare_update

    settings = load_update_config(config, overrides or (), config_dir=config_dir)
    with terminal.json_output(json) as give:
        if publish:
            _publish(settings, give)
            return
        if train:
            python = interpreters.require_python(interpreters.LLAMAFACTORY, python)
        prepared = prepare_update(settings, python=python)
        _tell(prepared)
        trained = None
        if train:
            assert python is not None
            trained = _train(prepared, python)
        else:
            _tell_how_to_train(prepared)
        give(_data(prepared, trained))


def _data(prepared: Update, model: Path | None) -> dict[str, Any]:
    """Return an update as JSON data, with the model if it trained one."""
    return {
        "data": prepared.data,
        "output": prepared.output,
        "exported": prepared.exported.to_data(),
        "checked_by": prepared.checked.checked_by,
        "rows": prepared.checked.rows,
        "max_tokens": prepared.checked.max_tokens,
        "too_few_tokens": prepared.too_few_tokens,
        "in_neither_part": prepared.in_neither_part,
        "published": prepared.published,
        "unfinished": prepared.unfinished,
        "model": model,
    }


def _publish(config: UpdateConfig, give: Callable[[Any], None]) -> None:
    from webtraj.training.llamafactory import checkpoints

    name = config.algorithm_config.model_output_name
    model = config.folder / name
    run = checkpoints.publish_finished(config.folder, name)
    if run is not None:
        print(f"Published {run} as {model}.")
        give({"published": run, "model": model})
        return
    unfinished = checkpoints.find_unfinished(config.folder, name)
    known = model if model.exists() and unfinished is None else None
    give({"published": None, "model": known, "unfinished": unfinished})
    if unfinished is not None:
        print(f"Nothing to publish: the training in {unfinished} has not finished.")
    elif known is not None:
        print(f"{model} is up to date: no training has finished since.")
        return
    else:
        print(f"No finished training in {config.folder / checkpoints.CHECKPOINTS}.")
    raise typer.Exit(1)


def _tell_how_to_train(prepared: Update) -> None:
    config = prepared.config
    where = [f"{key}={value}" for key in ("save_path", "work_path")
             if (value := getattr(config, key)) is not None]  # fmt: skip
    if (name := config.algorithm_config.model_output_name) != "model.pt":
        where.append(f"algorithm_config.model_output_name={name}")
    print("To train:")
    print(f"  . {shlex.quote(str(prepared.data / 'wandb_env.sh'))}")
    print(f"  llamafactory-cli train {shlex.quote(str(prepared.data / 'train_config.yaml'))}")
    print(f"  {errors.command('train', 'update', '--publish', *where)}")


def _check(folder: Path, python: Path | None, *, json: bool) -> None:
    """Check a folder of training files with LLaMA-Factory, and print the first problems.

    Raises:
        Exit: With 1 if there are problems.
    """
    from webtraj.serving import interpreters
    from webtraj.training.llamafactory import check_export

    python = interpreters.require_python(interpreters.LLAMAFACTORY, python)
    report = check_export(folder, python=python)
    if json:
        terminal.print_json({"clean": report.clean, **dataclasses.asdict(report)})
    else:
        say_first(list(map(str, report.problems)), _SHOWN, "problems")
    if not report.clean:
        raise typer.Exit(1)
    if not json:
        print(_describe_check(report))


def _describe_check(report: CheckReport) -> str:
    rows = ", ".join(f"{pluralize(count, 'row')} of {name}" for name, count in report.rows.items())
    if report.checked_by is None:
        return f"not checked by LLaMA-Factory: give its --python; {rows}"
    longest = pluralize(report.max_tokens or 0, "token")
    return f"LLaMA-Factory {report.checked_by} accepts every row: {rows}; the longest: {longest}"


def _tell(prepared: Update) -> None:
    for name, value in prepared.replay.rows():
        print(f"{name}: {value}")
    for name, split in prepared.exported.splits.items():
        episodes = pluralize(len(split.episodes), "episode")
        print(f"{name}: {pluralize(split.rows, 'row')} of {episodes}")
        for why, count in split.left_out.most_common():
            print(f"  left out: {why} ({count})")
    if prepared.config.algorithm_config.val_split_ratio and "val" not in prepared.exported.splits:
        print("val: no rows; every page also occurs in training")
    if prepared.too_few_tokens:
        print(f"too few tokens: {pluralize(prepared.too_few_tokens, 'sample')}")
    if prepared.in_neither_part:
        print(f"in neither split, because they also occur in training: {prepared.in_neither_part}")
    if prepared.published is not None:
        print(f"published: {prepared.published}, a finished training, is now the latest model")
    if prepared.unfinished is not None:
        print(f"not used: the training in {prepared.unfinished} has not finished")
    resumes = "resume_from_checkpoint" in prepared.values
    print(
        f"starts from {prepared.values['model_name_or_path']}"
        + ("" if resumes else ", with a fresh optimizer")
    )
    if prepared.why_fresh:
        print(prepared.why_fresh)
    if resumes:
        print(
            f"resumes the optimizer of {prepared.values['resume_from_checkpoint']} "
            f"until step {prepared.values['max_steps']}"
        )
    print(_describe_check(prepared.checked))
    print(f"files: {prepared.data}")


def _train(prepared: Update, python: Path) -> Path:
    from webtraj.training.llamafactory import publish, run_training, train_config

    config = prepared.config

    def end(signum: int, restore: object) -> None:
        del restore
        raise signals.SignalReceivedError(signum)

    with signals.handle_signals(end):  # Stop the trainer's process too, which has its own session.
        result = run_training(
            prepared.data,
            python=python,
            environment=train_config.environment(config.log_config, os.environ),
            observer=_Progress(),
            check=False,  # It was checked when the files were prepared.
        )
    told = f"loss {result.losses[0]:.4f} -> {result.losses[-1]:.4f}, " if result.losses else ""
    print(
        f"{pluralize(result.last_step - result.first_step, 'step')}, {told}{result.seconds:.0f} s. "
        f"Log: {result.log}"
    )
    path = publish(result.output, config.folder, name=config.algorithm_config.model_output_name)
    print(f"Model: {path}")
    return path


class _Progress:
    """An observer that prints a line for every tenth of the run."""

    def __init__(self) -> None:
        self._told = 0

    def logged(self, entry: Mapping[str, Any]) -> None:
        """See `TrainingObserver`."""
        step, total = entry.get("current_steps"), entry.get("total_steps")
        if not step or not total or "loss" not in entry:
            return
        tenth = 10 * int(step) // int(total)
        if tenth > self._told:
            self._told = tenth
            print(f"step {step} of {total}: loss {entry['loss']:.4f}", flush=True)
