"""`webtraj monitor`: watch a rollout that runs in another process."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from webtraj.cli.options import OPTION_HELP

if TYPE_CHECKING:
    from webtraj.monitor import RunMonitor

__all__ = ["monitor"]


def monitor(
    place: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="The rollout's dataset, a folder or s3://bucket/prefix; or its save path, whose "
            "latest iteration is meant.",
        ),
    ],
    run: Annotated[str | None, typer.Option(help="The run's id; default: the latest.")] = None,
    web: Annotated[bool, typer.Option("--web", help="Show it as a page in a browser.")] = False,
    host: Annotated[
        str, typer.Option(help="The page's address; one that others can reach needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The page's port; 0 for one that is free.")] = 0,
    token: Annotated[
        str | None, typer.Option(help="The page's token; default: a new one where one is needed.")
    ] = None,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser.")
    ] = False,
    every: Annotated[
        float | None,
        typer.Option(help="Seconds between two looks; default: 1, in a bucket 5."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print what is seen as JSON, one line a look.")
    ] = False,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Watch a rollout: which rows wait, are under way, are done; outcomes, speed, errors.

    It reads what the rollout writes, and adds nothing to it; so it can be started at any time, any
    number of times, also for a run that died. It ends when the run is over; a page is served until
    Ctrl-C. Where its output is no terminal, it looks once.
    """
    from webtraj import errors
    from webtraj.cli.options import storage_options
    from webtraj.monitor import RunMonitor
    from webtraj.store.places import is_url

    if every is not None and every <= 0:
        raise errors.InvalidInputError(f"--every is a number of seconds above 0; got {every}.")
    if web and (once or json):
        raise errors.InvalidInputError("--web serves a page; --once and --json print.")
    seconds = every or (5.0 if is_url(place) and not place.startswith("file:") else 1.0)
    watched = RunMonitor(place, run, storage_options=storage_options(option))
    if web:
        _serve(watched, host, port, token, seconds, open_browser=open_browser)
    elif json:
        _print_lines(watched, seconds, once=once)
    else:
        _show(watched, seconds, once=once)


def _show(watched: RunMonitor, every: float, *, once: bool) -> None:
    from webtraj.cli import terminal
    from webtraj.monitor import screen

    console = terminal.make_console()
    if once or not console.is_terminal:
        width = min(console.width, 120)
        console.print(screen.rendered(watched.look(), width=width))
        return
    try:
        screen.watch(watched, console, every=every)
    except KeyboardInterrupt:  # The usual way to end it; nothing was under way here.
        return


def _print_lines(watched: RunMonitor, every: float, *, once: bool) -> None:
    import sys
    import time

    import orjson

    try:
        while True:
            status = watched.look()
            sys.stdout.write(orjson.dumps(status.to_data()).decode() + "\n")
            sys.stdout.flush()
            if once or status.is_over:
                return
            time.sleep(every)
    except KeyboardInterrupt:
        return


def _serve(
    watched: RunMonitor,
    host: str,
    port: int,
    token: str | None,
    every: float,
    *,
    open_browser: bool,
) -> None:
    import asyncio

    from webtraj.cli import signals
    from webtraj.monitor.page import serving

    async def serve() -> None:
        async with serving(watched, host=host, port=port, token=token, every=every) as url:
            print(f"{url} shows {watched.run_id}. Ctrl-C ends it.", flush=True)
            if open_browser:
                import webbrowser

                await asyncio.to_thread(webbrowser.open, url)
            await asyncio.Event().wait()

    with contextlib.suppress(signals.SignalReceivedError):  # The usual way to end it.
        signals.run(serve())
