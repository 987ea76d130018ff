"""`webtraj apps`: real web applications for tasks: install, list, open, check, remove."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = ["check", "group", "install", "list_", "open_", "remove", "tasks"]

group = typer.Typer(
    help="Install real web applications, look at them, and check their tasks.",
    no_args_is_help=True,
)

_NAMES = typer.Argument(metavar="[NAME...]", help="Applications; default: those of pip alone.")


@group.command()
def install(
    names: Annotated[list[str] | None, _NAMES] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that need Debian packages.")
    ] = False,
) -> None:
    """Install applications, each in a virtual environment of its own.

    An installed application needs no network. Those of other versions of webtraj are removed.
    """
    from webtraj.environments.apps.app import APPS, find_app

    chosen = [find_app(name) for name in names or APPS]
    for app in chosen:
        if names or everything or not app.debian:
            app.install(print)


@group.command("list")
def list_() -> None:
    """List the applications, their licences, and whether they are installed."""
    from rich.table import Table

    from webtraj.cli import terminal
    from webtraj.environments.apps.app import APPS, find_app
    from webtraj.environments.apps.names import TEMPLATES

    table = Table(
        "name",
        "what it is",
        "software",
        "licence",
        "tasks",
        "needs",
        "installed",
        box=None,
        pad_edge=False,
    )
    for name in APPS:
        app = find_app(name)
        tasks = sum(template.startswith(f"{name}/") for template in TEMPLATES)
        needs = "pip" if not app.debian else "pip and apt" if app.has_requirements else "apt"
        installed = "yes" if app.installed else "no"
        table.add_row(name, app.title, app.package, app.license, str(tasks), needs, installed)
    terminal.make_console().print(table)


@group.command("open")
def open_(
    name: Annotated[str, typer.Argument(help="The application.")],
    seed: Annotated[int, typer.Option(min=0, help="The seed of the world.")] = 0,
    port: Annotated[int, typer.Option(min=1024, max=65535, help="The port.")] = 8650,
) -> None:
    """Serve a world of an application, to look at it in a browser, until Ctrl-C."""
    from webtraj.environments.apps.app import find_app, serve_to_person
    from webtraj.environments.apps.people import PASSWORD

    app = find_app(name)
    with serve_to_person(app, seed=seed, port=port) as server:
        user = app.facts(seed).get("user", "")
        print(f"{app.title}: http://127.0.0.1:{port}/")
        if user:
            print(f"Log in as {user} with the password {PASSWORD}. Ctrl-C ends it.")
        sys.exit(server.wait())


@group.command()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Applications or tasks; default: all installed."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of each task, from 0.")] = 3,
    parallel: Annotated[int, typer.Option(min=1, help="Episodes at once.")] = 4,
    every: Annotated[int, typer.Option(min=1, help="Only every Nth task.")] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only the oracle, and an answer without any action.")
    ] = False,
) -> None:
    """Check tasks: their oracle succeeds; doing nothing, or something else, fails.

    Exits with 1 if any check fails.
    """
    from webtraj.environments.apps import checking
    from webtraj.environments.apps.tasks import find_templates

    templates = find_templates(names)[::every]

    async def run() -> int:
        failed = 0
        async for found in checking.check(
            templates, seeds=range(seeds), parallel=parallel, quick=quick
        ):
            failed += bool(found.problems)
            verdict = "; ".join(found.problems) or "ok"
            print(f"{found.template} {found.seed}: {found.steps} actions, {verdict}", flush=True)
        return failed

    failed = asyncio.run(run())
    print(f"{len(templates) * seeds - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


@group.command()
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

    from webtraj.environments.apps.names import TEMPLATES
    from webtraj.environments.apps.tasks import difficulty_of, find_template
    from webtraj.tasks import TaskSpec

    chosen = {
        name: (level, belongs)
        for name, (level, belongs) in TEMPLATES.items()
        if split in (None, belongs)
        and (not names or name in names or name.partition("/")[0] in names)
    }
    rows = [
        TaskSpec(
            name=name,
            preset=f"apps/{name}",
            difficulty=difficulty_of(level),
            site=f"{find_template(name).apps[0]}.test",
            metadata={"split": belongs},
        ).to_data()
        for name, (level, belongs) in chosen.items()
    ]
    out.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    print(f"{len(rows)} tasks in {out}")


@group.command()
def remove(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The names.")],
) -> None:
    """Remove installed applications. Debian packages stay."""
    from webtraj.environments.apps.app import find_app

    for app in [find_app(name) for name in names]:
        app.remove()
