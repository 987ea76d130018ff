"""Serve tasks to trainers that have an OpenEnv client."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from webtraj.cli import signals
from webtraj.cli.options import (
    BucketOptions,
    Host,
    Imports,
    MaxSteps,
    Parallel,
    PolicyName,
    Port,
    PresetOptions,
    import_now,
    read_settings,
    storage_options,
)
from webtraj.cli.terminal import pluralize

if TYPE_CHECKING:
    from webtraj_integrations.sessions import Sessions

__all__ = ["commands", "manifest", "serve"]

commands = typer.Typer(help=__doc__, no_args_is_help=True)

_Presets = Annotated[
    list[str], typer.Argument(metavar="PRESET...", help="Tasks: miniwob/all, miniwob/all@2/8.")
]


@commands.command()
def serve(
    presets: _Presets,
    sessions: Annotated[
        int, typer.Option(min=1, help="The most clients, each with its own page.")
    ] = 8,
    out: Annotated[
        str | None,
        typer.Option(help="Record every episode there: a folder, or a bucket's URL."),
    ] = None,
    dialect: Annotated[
        str, typer.Option(help="The dialect of replies: webtraj, browsergym, webgym, ...")
    ] = "webtraj",
    mode: Annotated[
        Literal["text", "aria", "marks", "coordinates"],
        typer.Option(
            help="Show a page as text, as a picture with numbered marks, or as a plain picture."
        ),
    ] = "text",
    images: Annotated[
        bool | None,
        typer.Option("--images/--no-images", help="Send pictures; default: as the mode needs."),
    ] = None,
    pictures: Annotated[
        int | None, typer.Option(min=1, help="The most pictures of an episode; default: no limit.")
    ] = None,
    max_steps: MaxSteps = None,
    seed: Annotated[int, typer.Option(help="The base seed of resets that give none.")] = 0,
    policy: PolicyName = "",
    session_timeout: Annotated[
        float,
        typer.Option(min=1, help="Seconds of silence after which a client loses its page."),
    ] = 600.0,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    options: PresetOptions = None,
    option: BucketOptions = None,
    imports: Imports = None,
) -> None:
    """Serve tasks to OpenEnv clients until Ctrl-C.

    Each client has its own page, and every episode is recorded. The reward is None for a task
    without a judge. An episode that the browser ended is an error, never a reward.
    """
    import_now(imports)
    from webtraj.agents.contexts import ContextSettings
    from webtraj.net.local_pages import listen
    from webtraj_integrations import openenv  # noqa: F401  Fails before anything begins.
    from webtraj_integrations.sessions import Sessions

    shared = Sessions(
        presets,
        sessions=sessions,
        out=out,
        dialect=dialect,
        context=ContextSettings(mode=mode, images=images),
        pictures=pictures,
        max_steps=max_steps,
        seed=seed,
        policy=policy,
        options=read_settings(options),
        storage_options=storage_options(option),
    )
    listen("The OpenEnv server", host, port).close()  # Fails before a dataset is made.
    try:
        signals.run(_serve(shared, host, port, session_timeout))
    finally:
        ended = ", ".join(f"{n} {o.name.lower()}" for o, n in sorted(shared.outcomes.items()))
        print(f"episodes: {ended or 'none'}", flush=True)


async def _serve(sessions: Sessions, host: str, port: int, session_timeout: float) -> None:
    import asyncio

    from webtraj_integrations import openenv

    async with (
        sessions,
        openenv.serving(sessions, host=host, port=port, session_timeout=session_timeout) as url,
    ):
        print(
            f"{pluralize(len(sessions.tasks), 'task')} at {url}, for "
            f"{pluralize(sessions.size, 'client')} at a time (Ctrl-C ends it)",
            flush=True,
        )
        await asyncio.Event().wait()


@commands.command(short_help="Write an OpenEnv manifest.")
def manifest(
    presets: _Presets,
    out: Annotated[Path, typer.Option(help="Write openenv.yaml to this folder.")],
    episodes: Annotated[
        int | None, typer.Option(min=1, help="Episodes of each agent; default: one for each task.")
    ] = None,
    parallel: Parallel = 4,
    seed: Annotated[int, typer.Option(help="The seed of the episodes.")] = 0,
    options: PresetOptions = None,
    imports: Imports = None,
) -> None:
    """Write an OpenEnv manifest: reward range, the random agent's floor, and the oracle.

    Plays the tasks with the random agent and the oracle. If a task has no oracle, none is declared.
    """
    import_now(imports)
    from webtraj_integrations.manifest import declare, measure

    given = read_settings(options)
    measured = signals.run(
        measure(presets, episodes=episodes, parallel=parallel, seed=seed, options=given)
    )
    out.mkdir(parents=True, exist_ok=True)
    for name, text in declare(presets, measured, given).items():
        (out / name).write_text(text, encoding="utf-8")
        if name.endswith(".sh"):
            (out / name).chmod(0o755)
        print(f"wrote {out / name}")
    for agent, rewards in measured.items():
        if rewards:
            mean = sum(rewards) / len(rewards)
            print(f"{agent}: mean reward {mean:.3f} in {pluralize(len(rewards), 'episode')}")
        else:
            print(f"{agent}: no episode had a reward, so it is not declared")
