"""`webtraj rollout`: run an agent and record every episode."""

from __future__ import annotations

import datetime
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import credentials, errors
from webtraj.cli import options as options_lib
from webtraj.cli import playing
from webtraj.cli.options import read_setting

if TYPE_CHECKING:
    from webtraj.rollouts.configuration import ConfiguredRollout

__all__ = ["rollout"]

_QUICK = "Rollouts of presets"
_CONFIGURED = "Rollouts from a configuration"


def rollout(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN] [KEY=VALUE]...",
            help="With --config-name: values that override the configuration's, such as "
            "env_config.server_size=8. With --resume: the run to resume; default: the latest.",
            show_default=False,
        ),
    ] = None,
    config_name: Annotated[
        str | None,
        typer.Option(
            help="The configuration: rollout_train, rollout_test, crawl, or one in --config-dir.",
            rich_help_panel=_CONFIGURED,
        ),
    ] = None,
    config_dir: Annotated[
        Path | None,
        typer.Option(help="A folder with your own configurations.", rich_help_panel=_CONFIGURED),
    ] = None,
    print_config: Annotated[
        bool,
        typer.Option(
            "--print-config",
            help="Print the configuration without running it.",
            rich_help_panel=_CONFIGURED,
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume an earlier run: run the episodes that are left."),
    ] = False,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on a Ray cluster: its address, or auto."),
    ] = None,
    monitor: Annotated[
        bool,
        typer.Option(
            "--monitor",
            help="Show each row of the plan while it runs, with speed, slow sites and errors, "
            "instead of a bar. `webtraj view --terminal` does this from another terminal.",
        ),
    ] = False,
    preset: Annotated[
        list[str] | None,
        typer.Option(
            help="What to run: a preset, or some of its tasks, such as miniwob/all:0:10. "
            "Repeatable.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            help="The agent: oracle, random, curious, model, scripted or replay; default: model if "
            "--model is given, else oracle.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="The agent's model, by its server's name.", rich_help_panel=_QUICK),
    ] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(
            help="The model's server, such as http://127.0.0.1:8000/v1; default: OpenAI's. "
            "Repeat it to share the work among several servers.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    api_key_variable: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=options_lib.API_KEY_HELP,
            show_default=False,
            rich_help_panel=_QUICK,
        ),
    ] = None,
    agent_options: Annotated[
        list[str] | None,
        typer.Option(
            "--agent-set",
            metavar="KEY=VALUE",
            help="An option of the agent, such as mode=marks, temperature=0.7 or script=FILE. "
            "The value is JSON, else text. Repeatable.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option(
            help="The total number of episodes, spread over the tasks; default: one per task.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    group_size: Annotated[
        int | None,
        typer.Option(
            help="Episodes with the same task and seed that differ only in the agent's sampling, "
            "for policy-gradient training. --episodes counts all of them. Default: 1.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    parallel: Annotated[
        str | None,
        typer.Option(
            help="Episodes at a time, or auto for as many as the machine can handle; default: 1.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            help="The dataset to write or add to, a folder or s3://bucket/prefix; default: "
            "runs/<date and time>.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="The episodes' file format: json, pb or pb.zst; default: the dataset's, json for "
            "a new one.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    tensorboard: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="A folder for live metrics in TensorBoard.", rich_help_panel=_QUICK
        ),
    ] = None,
    wandb: Annotated[
        str | None,
        typer.Option(
            metavar="PROJECT",
            help="A Weights & Biases project for live metrics.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            help="Judge the recorded episodes after the rollout, into a dataset beside it: "
            "environment, rules:FILE or model; default: model if --judge-model is given, else "
            "no judge.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    judge_model: Annotated[
        str | None, typer.Option(help="The model that judges.", rich_help_panel=_QUICK)
    ] = None,
    judge_url: Annotated[
        str | None,
        typer.Option(
            help="The judge's server, including /v1; default: OpenAI's.", rich_help_panel=_QUICK
        ),
    ] = None,
    judge_api_key_variable: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The environment variable that holds the API key for the judge's server.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    judge_options: Annotated[
        list[str] | None,
        typer.Option(
            "--judge-set",
            metavar="KEY=VALUE",
            help="An option of the judge, such as votes=3. Repeatable.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    judge_when: Annotated[
        str | None,
        typer.Option(
            help="Which episodes to judge: unknown (those whose outcome the environment does not "
            "know) or always; default: unknown.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help=options_lib.OPTION_HELP, rich_help_panel=_QUICK),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="The run's seed; the same seed gives the same episodes. Default: 0.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    max_steps: Annotated[
        int | None,
        typer.Option(
            help="Truncate episodes after this many steps, if the environment does not.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
    har: Annotated[
        bool,
        typer.Option(
            "--har",
            help="Record the browser's network traffic, without cookies, keys and bodies, for "
            "`webtraj export --format har`; --set har=content also keeps bodies.",
            rich_help_panel=_QUICK,
        ),
    ] = False,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="An option of the preset, such as max_steps=20 or 'observe=[\"axtree\"]'. "
            "The value is JSON, else text. Repeatable.",
            rich_help_panel=_QUICK,
        ),
    ] = None,
) -> None:
    """Run an agent and record every episode.

    Choose the tasks with --preset, or give a configuration with --config-name. Ctrl-C stops
    cleanly: open episodes are recorded as cancelled, and --resume runs the rest. With a judge, the
    episodes are judged after the rollout, into a dataset beside the recorded one. The exit code is
    1 if every episode ended with an error, if the judge failed on every episode, or if episodes are
    left to judge; else 0.
    """
    run_id, overrides = _split(arguments or [], resume=resume)
    quick = {
        "preset": preset,
        "agent": agent,
        "model": model,
        "base-url": base_url,
        "api-key-variable": api_key_variable,
        "agent-set": agent_options,
        "episodes": episodes,
        "group-size": group_size,
        "parallel": parallel,
        "out": out,
        "format": format_name,
        "tensorboard": tensorboard,
        "wandb": wandb,
        "judge": judge,
        "judge-model": judge_model,
        "judge-url": judge_url,
        "judge-api-key-variable": judge_api_key_variable,
        "judge-set": judge_options,
        "judge-when": judge_when,
        "option": option,
        "seed": seed,
        "max-steps": max_steps,
        "set": [*(["har=true"] if har else []), *(options or [])] or None,
    }
    given = [f"--{name}" for name, value in quick.items() if value is not None]
    if config_name is None:
        if not preset and not resume:
            raise errors.InvalidInputError(
                "Nothing to run: give --preset, such as --preset miniwob/click-test, or "
                "--config-name, such as --config-name rollout_train. `webtraj presets` lists the "
                "presets."
            )
        for wrong in (*overrides, *(["--print-config"] if print_config else [])):
            raise errors.InvalidInputError(
                f"{wrong!r:.100} applies only to configurations; give --config-name too. Options "
                "of a preset are given as --set KEY=VALUE."
            )
        built, go_on = _quick(quick, out, resume=resume, run_id=run_id)
    else:
        if given:
            raise errors.InvalidInputError(
                f"{given[0]} cannot be combined with --config-name. Override the configuration "
                f"with KEY=VALUE instead; `webtraj rollout --config-name {config_name} "
                "--print-config` shows the keys."
            )
        from webtraj.rollouts.configuration import build_rollout, load_configuration
        from webtraj.rollouts.configuration.players import refuse_ranks_on_ray

        configuration = load_configuration(config_name, overrides, config_dir=config_dir)
        if print_config:
            print(configuration.source, end="")
            return
        if ray is not None:
            refuse_ranks_on_ray(configuration.values)
        built = build_rollout(configuration, resume=(run_id or True) if resume else False)
        go_on = _command(
            "--config-name", config_name,
            *(() if config_dir is None else ("--config-dir", str(config_dir))),
            *(_without_secrets(text) for text in overrides if not text.startswith("iteration=")),
            *(() if built.iteration is None else (f"iteration={built.iteration}",)),
        )  # fmt: skip
    if ray is not None:
        go_on += f" --ray {shlex.quote(ray)}"
    playing.play(built, ray, f"{go_on} --resume {built.run_id}", monitor=monitor)


def _quick(
    given: dict[str, Any], out: str | None, *, resume: bool, run_id: str | None
) -> tuple[ConfiguredRollout, str]:
    """Return a rollout of presets, and the command that resumes it."""
    from webtraj.rollouts.configuration import quick

    if resume and out is None:
        raise errors.InvalidInputError(
            "--resume needs the run's dataset: give --out FOLDER, or --config-name for a run from "
            "a configuration."
        )
    agent_options = dict(read_setting("--agent-set", text) for text in given["agent-set"] or ())
    if given["model"] is not None:
        agent_options["model"] = given["model"]
    if urls := given["base-url"]:
        agent_options["base_url"] = urls[0] if len(urls) == 1 else urls
    if given["api-key-variable"] is not None:
        agent_options["api_key_variable"] = given["api-key-variable"]
    agent = given["agent"] or ("model" if given["model"] is not None else None)
    values = {
        "preset": given["preset"],
        "agent": agent,
        "agent_options": agent_options or None,
        "episodes": given["episodes"],
        "group_size": given["group-size"],
        "parallel": _number_or_auto(given["parallel"]),
        "seed": given["seed"],
        "max_steps": given["max-steps"],
        "environment_options": dict(read_setting("--set", text) for text in given["set"] or ())
        or None,
        "format": given["format"],
        "judge": given["judge"] or ("model" if given["judge-model"] is not None else None),
        "judge_options": _judge_options(given) or None,
        "judge_when": given["judge-when"],
        "metrics": _metrics(given["tensorboard"], given["wandb"]),
    }
    values = {name: value for name, value in values.items() if value is not None}
    out = out or str(Path("runs") / f"{datetime.datetime.now():%Y%m%d-%H%M%S}")
    storage = options_lib.storage_options(given["option"])
    flags = [part for text in given["option"] or () for part in ("--option", text)]
    if not resume:
        built = quick.build_quick(values, out=out, storage_options=storage)
    else:
        built = quick.resume_quick(values, out=out, run_id=run_id, storage_options=storage)
    return built, _command("--out", out, *flags)


def _judge_options(given: dict[str, Any]) -> dict[str, Any]:
    options = dict(read_setting("--judge-set", text) for text in given["judge-set"] or ())
    for option, name in (
        ("judge-model", "model"),
        ("judge-url", "base_url"),
        ("judge-api-key-variable", "api_key_variable"),
    ):
        if given[option] is not None:
            options[name] = given[option]
    return options


def _metrics(tensorboard: str | None, wandb: str | None) -> dict[str, Any] | None:
    metrics: dict[str, Any] = {}
    if tensorboard is not None:
        metrics["tensorboard"] = tensorboard
    if wandb is not None:
        metrics["wandb"] = {"project": wandb}
    return metrics or None


def _number_or_auto(text: str | None) -> int | str | None:
    if text is None or text == "auto":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise errors.InvalidInputError(
            f"--parallel got {text!r:.60}; expected a number of episodes from 1, or auto."
        )
    return int(text)


def _split(arguments: list[str], *, resume: bool) -> tuple[str | None, list[str]]:
    """Return the run's id, if one is given, and the overrides."""
    runs = [text for text in arguments if "=" not in text]
    if runs and (not resume or len(runs) > 1):
        raise errors.InvalidInputError(
            f"Unexpected argument {runs[-1]!r:.100}. Expected KEY=VALUE, or one run's id with "
            "--resume. Choose what to run with --preset or --config-name."
        )
    return runs[0] if runs else None, [text for text in arguments if "=" in text]


def _command(*arguments: str) -> str:
    return shlex.join(["webtraj", "rollout", *arguments])


def _without_secrets(override: str) -> str:
    key, _, value = override.partition("=")
    secret = (
        "secret" in key
        or "secrets" in value
        or credentials.is_secret_name(key)
        or any(credentials.find_secrets(override))
    )
    return f"{key}=..." if secret else override
