"""Install real web applications, and check their tasks."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from webtraj.cli import signals, terminal
from webtraj.cli.options import Csv, Json, Parallel
from webtraj.cli.terminal import pluralize

if TYPE_CHECKING:
    from webtraj_apps.app import App
    from webtraj_apps.widgets.libraries import Libraries

__all__ = ["check", "commands", "install", "list_", "open_", "remove", "tasks"]

commands = typer.Typer(help=__doc__, no_args_is_help=True)

_NAMES = typer.Argument(
    metavar="[NAME...]", help="Applications; default: those that need only pip."
)


@commands.command(short_help="Install applications.")
def install(
    names: Annotated[list[str] | None, _NAMES] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that need Debian packages.")
    ] = False,
) -> None:
    """Install applications, each in a virtual environment of its own, by uv if there is one.

    An installed application needs no network. Other versions of webtraj may share the folder.
    The name widgets fetches the libraries of the widgets with npm. If one cannot be installed, the
    others are, and the exit code is 1. WEBTRAJ_INSTALLER=pip uses pip instead of uv.
    """
    from concurrent.futures import ThreadPoolExecutor

    from webtraj_apps.app import find_apps

    if names:
        chosen = [_find(name) for name in names]
    else:
        chosen = [app for app in find_apps() if everything or not app.debian]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        failed = list(threads.map(_install, chosen)).count(False)
    if failed:
        terminal.say(
            f"{pluralize(failed, 'application')} of {len(chosen)} not installed.", stderr=True
        )
        raise typer.Exit(1)


def _install(one: App | Libraries) -> bool:
    """Install one application; return whether it is installed afterwards."""
    from webtraj import errors

    if one.installed:
        terminal.say(f"{one.title} is installed already.")
        return True
    began = time.monotonic()
    try:
        one.install(terminal.say)
    except errors.WebtrajError as error:
        terminal.say(str(error), stderr=True)
        return False
    seconds = time.monotonic() - began
    terminal.say(f"{one.title} is ready: {one.size / 2**20:.0f} MiB in {seconds:.0f} s.")
    return True


def _find(name: str) -> App | Libraries:
    """Return an application, or the libraries of the widgets, by name."""
    from webtraj_apps.app import find_app
    from webtraj_apps.widgets.libraries import NAME, Libraries

    return Libraries() if name == NAME else find_app(name)


@commands.command("list", short_help="List the applications, and whether they are installed.")
def list_(csv: Csv = None, json: Json = False) -> None:
    """List the applications, their licences, and whether they are installed."""
    from webtraj_apps.app import find_apps
    from webtraj_apps.names import sources
    from webtraj_apps.widgets.libraries import Libraries, load_table, widget_names

    rows = [
        {
            "name": app.name,
            "title": app.title,
            "installed": app.installed,
            "tasks": len(sources()[app.name].templates()),
            "software": app.package,
            "needs": "pip" if not app.debian else "pip and apt" if app.has_requirements else "apt",
            "license": app.license,
        }
        for app in find_apps()
    ]
    widgets = Libraries()
    rows.append(
        {
            "name": widgets.name,
            "title": widgets.title,
            "installed": widgets.installed,
            "tasks": len(widget_names()),
            "software": f"{len(load_table())} packages of npm",
            "needs": "npm",
            "license": "MIT and others",
        }
    )
    terminal.save_table(csv, rows)
    if json:
        terminal.print_json(rows)
        return
    columns = ("name", "what it is", "installed", ">tasks", "software", "needs", "licence")
    shown = ({**row, "installed": "yes" if row["installed"] else "no"}.values() for row in rows)
    terminal.make_console().print(terminal.make_table(*columns, rows=shown))


@commands.command("open", short_help="Serve a world to your own browser.")
def open_(
    name: Annotated[str, typer.Argument(help="The application, or a task of one.")],
    seed: Annotated[int, typer.Option(min=0, help="The seed of the world, or of the task.")] = 0,
    port: Annotated[int, typer.Option(min=1024, max=65000, help="The first port.")] = 8650,
) -> None:
    """Serve a world to your own browser, until Ctrl-C: to look at it, or to try a task by hand.

    You are logged in as the user of the world or the task. With a task, such as shop/add, Ctrl-C
    tells whether it is done.
    """
    opened = _open_task if "/" in name else _open_app
    with contextlib.suppress(signals.SignalReceivedError):
        signals.run(opened(name.removeprefix("apps/"), seed, port))


async def _open_app(name: str, seed: int, port: int) -> None:
    from webtraj_apps.app import find_app
    from webtraj_apps.local_worlds import open_app

    app = find_app(name)
    async with open_app(app, seed=seed, port=port) as address:
        print(f"{app.title}: {address}/")
        if user := app.facts(seed).get("user", ""):
            print(f"You are logged in as {user}.")
        print("Ctrl-C ends it.", flush=True)
        await asyncio.Event().wait()


async def _open_task(name: str, seed: int, port: int) -> None:
    from webtraj_apps.app import find_app
    from webtraj_apps.local_worlds import open_task, script_variables
    from webtraj_apps.tasks import AppTask, find_template

    task = AppTask(find_template(name))
    async with open_task(task, seed=seed, port=port) as addresses:
        assignment = task.assignment
        first, *others = addresses
        goal = assignment.goal
        for app, address in addresses.items():
            goal = goal.replace(find_app(app).origin, address)
        print(f"{goal}\n\nStart at {addresses[first]}{assignment.start}")
        for other in others:
            print(f"The other site: {addresses[other]}/")
        known = " ".join("=".join(pair) for pair in script_variables(addresses).items())
        print(f"For an exported script: {known}\nCtrl-C ends it.", flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            wrong = await task.wrong_state()
            print("\nNot done: " + wrong if wrong else "\nThe state is as the goal asks.")
            if answer := assignment.answer:
                print("The answer is:", ", ".join((answer,) if isinstance(answer, str) else answer))


@commands.command(short_help="Check tasks: only their oracle succeeds.")
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Applications or tasks; default: all installed."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each task, from 0.")] = 3,
    parallel: Parallel = 4,
    every: Annotated[int, typer.Option(min=1, help="Only every Nth task.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out the oracle of another goal.")
    ] = False,
    perturbation: Annotated[
        str | None,
        typer.Option(help="Other surroundings: shuffled, renamed, dark, ..."),
    ] = None,
    fault: Annotated[
        str | None, typer.Option(help="What goes wrong meanwhile: slow, fails, others, ...")
    ] = None,
    csv: Csv = None,
    json: Json = False,
) -> None:
    """Check tasks: their oracle succeeds, and no trick of an adversary does.

    Exits with 1 if any check fails.
    """
    from webtraj_apps import template_checks
    from webtraj_apps.tasks import find_templates

    templates = find_templates(names)[::every]

    rows: list[dict[str, Any]] = []

    async def run() -> int:
        failed = 0
        async for found in template_checks.check(
            templates,
            seeds=range(seeds),
            parallel=parallel,
            quick=quick,
            perturbation=perturbation,
            fault=fault,
        ):
            failed += bool(found.problems)
            tricks = sum(found.tricks.values())
            row = {**dataclasses.asdict(found), "tricks": tricks}
            rows.append({**row, "problems": "; ".join(found.problems)})
            if json:
                terminal.print_json(found)
                continue
            verdict = "; ".join(found.problems) or "ok"
            tried = sum(found.tricks.values())
            print(
                f"{found.template} {found.seed}: {found.steps} actions, {tried} tricks, {verdict}",
                flush=True,
            )
        return failed

    failed = asyncio.run(run())
    terminal.save_table(csv, rows)
    if not json:
        print(f"{len(templates) * seeds - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


@commands.command(short_help="Write tasks as a task file.")
def tasks(
    out: Annotated[Path, typer.Option(help="The file to write, as JSON lines.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Applications or tasks; default: all."),
    ] = None,
    split: Annotated[Literal["train", "test"] | None, typer.Option(help="Only this split.")] = None,
) -> None:
    """Write tasks as a task file, for rollouts from a configuration."""
    import orjson

    from webtraj.environments.tasks import TaskSpec
    from webtraj_apps.names import sources
    from webtraj_apps.tasks import difficulty_of, find_template, find_templates

    rows = [
        TaskSpec(
            name=one.name,
            preset=f"apps/{one.name}",
            difficulty=difficulty_of(one.level),
            site=f"{one.apps[0]}.test",
            metadata={"split": one.split},
        ).to_data()
        for one in map(find_template, find_templates(names or [*sources()]))
        if split in (None, one.split)
    ]
    out.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    print(f"{pluralize(len(rows), 'task')} in {out}")


@commands.command()
def remove(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Applications; with --old, default: all."),
    ] = None,
    old: Annotated[
        bool, typer.Option("--old", help="Only what this version of webtraj does not use.")
    ] = False,
) -> None:
    """Remove installed applications. Debian packages stay."""
    from webtraj_apps.app import find_apps
    from webtraj_apps.widgets.libraries import Libraries

    if not names and not old:
        raise typer.BadParameter("Name the applications to remove, or use --old.")
    chosen = [_find(name) for name in names or []] or [*find_apps(), Libraries()]
    for one in chosen:
        one.remove(old=old)
