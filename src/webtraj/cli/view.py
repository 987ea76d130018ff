"""`webtraj view`: browse datasets. `webtraj monitor`: watch rollouts while they run."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from webtraj.cli.options import OPTION_HELP

if TYPE_CHECKING:
    from typing import Any

    from webtraj.view import RunMonitor
    from webtraj.view.viewer import Viewer

__all__ = ["monitor", "view"]

PORT_HELP = "The port; 0 for a free one. Default: 8640, or a free one if that is taken."


def view(
    datasets: Annotated[
        list[str],
        typer.Argument(
            metavar="DATASET...",
            help="Datasets: folders or URLs such as s3://bucket/prefix; or a folder that contains "
            "datasets, such as a rollout's save_path or a loop's folder. Datasets that appear in "
            "it later are shown too.",
        ),
    ],
    host: Annotated[
        str,
        typer.Option(help="The address to listen on; one that others can reach needs a token."),
    ] = "127.0.0.1",
    port: Annotated[int | None, typer.Option(min=0, max=65535, help=PORT_HELP)] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="WEBTRAJ_VIEW_TOKEN",
            show_envvar=True,
            help="The token that visitors need; default: a new one if the host needs one.",
        ),
    ] = None,
    open_browser: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open", help="Open the page in the browser; default: yes on a desktop."
        ),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="The name stored with labels; default: yours."),
    ] = None,
    write_labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Instead of serving, write people's success and failure labels to this file, for "
            "webtraj judge eval --labels FILE.",
        ),
    ] = None,
    blob_cache: Annotated[
        str | None, typer.Option(help="For buckets: a folder that caches images.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Browse datasets in the browser, even while they are being written. Stop with Ctrl-C.

    Filter and search the list, step through episodes, compare two, and label them. The episodes
    are never changed; labels are stored beside them.
    """
    from webtraj.cli import signals
    from webtraj.cli.options import storage_options
    from webtraj.view.viewer import Viewer

    options = storage_options(option)
    if write_labels is not None:
        _write_labels(datasets, write_labels, options)
        return
    with Viewer(datasets, storage_options=options, blob_cache=blob_cache, person=person) as viewer:
        signals.run(_serve(viewer, host, port, token, open_browser))


async def _serve(
    viewer: Viewer,
    host: str,
    port: int | None,
    token: str | None,
    open_browser: bool | None,
    shown: str = "",
) -> None:
    import asyncio

    from webtraj.view.app import serving

    async with serving(viewer, host=host, port=port, token=token) as url:
        print(f"Viewer at {url}{shown} (Ctrl-C to stop)", flush=True)
        if _has_desktop() if open_browser is None else open_browser:
            import webbrowser

            await asyncio.to_thread(webbrowser.open, f"{url}{shown}")
        await asyncio.Event().wait()


def _write_labels(named: list[str], file: str, options: dict[str, Any] | None) -> None:
    from webtraj.judging.quality import write_labels
    from webtraj.store.places import is_url
    from webtraj.view.gathering import FoundDataset, datasets_in
    from webtraj.view.labels import judge_labels, read_person_labels

    places = [found.place for one in named for found in datasets_in(one) or [FoundDataset(one, "")]]
    labels = [
        label
        for place in places
        for label in judge_labels(
            read_person_labels(place, storage_options=options if is_url(place) else None).values()
        )
    ]
    print(f"{file}: {write_labels(file, labels)} labels")


def _has_desktop() -> bool:
    import os
    import sys

    shown = sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
    return sys.stdout.isatty() and shown and "SSH_CONNECTION" not in os.environ


# `webtraj monitor`: watch a rollout that runs in another process.


def monitor(
    place: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="The rollout's dataset, a folder or s3://bucket/prefix; or its save path, for the "
            "latest iteration.",
        ),
    ],
    run: Annotated[str | None, typer.Option(help="The run's id; default: the latest.")] = None,
    web: Annotated[bool, typer.Option("--web", help="Show it in the viewer.")] = False,
    host: Annotated[
        str, typer.Option(help="The page's address; one that others can reach needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int | None, typer.Option(min=0, max=65535, help=PORT_HELP)] = None,
    token: Annotated[
        str | None,
        typer.Option(help="The page's token; default: a new one if the host needs one."),
    ] = None,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser.")
    ] = False,
    every: Annotated[
        float | None,
        typer.Option(help="Seconds between updates; default: 1, or 5 for a bucket."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Show the status once, then exit.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the status as JSON, one line per update.")
    ] = False,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Watch a rollout: waiting, running and done rows, outcomes, speed and errors.

    It only reads what the rollout writes, so you can start it at any time, as often as you like,
    even for a run that died. It exits when the run is over; with --web it serves until Ctrl-C. If
    its output is not a terminal, it shows the status once.
    """
    from webtraj import errors
    from webtraj.cli import signals
    from webtraj.cli.options import storage_options
    from webtraj.store.places import is_url
    from webtraj.view import RunMonitor

    if every is not None and every <= 0:
        raise errors.InvalidInputError(f"--every got {every:g}; expected seconds above 0.")
    if web and (once or json):
        raise errors.InvalidInputError(
            "--web cannot be combined with --once or --json: it serves a page, they print. Choose "
            "one."
        )
    seconds = every or (5.0 if is_url(place) and not place.startswith("file:") else 1.0)
    watched = RunMonitor(place, run, storage_options=storage_options(option))
    if web:
        from webtraj.view.viewer import Viewer

        shown = f"#/run?run={watched.run_id}"
        with (
            Viewer([watched.place], storage_options=storage_options(option)) as viewer,
            contextlib.suppress(signals.SignalReceivedError),  # The usual way to stop.
        ):
            signals.run(_serve(viewer, host, port, token, open_browser, shown))
    elif json:
        _print_lines(watched, seconds, once=once)
    else:
        _show(watched, seconds, once=once)


def _show(watched: RunMonitor, every: float, *, once: bool) -> None:
    from webtraj.cli import terminal
    from webtraj.view import screen

    console = terminal.make_console()
    if once or not console.is_terminal:
        width = min(console.width, 120)
        console.print(screen.rendered(watched.look(), width=width))
        return
    try:
        screen.watch(watched, console, every=every)
    except KeyboardInterrupt:  # The usual way to stop; there is nothing to clean up.
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
