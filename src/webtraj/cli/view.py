"""`webtraj view`: browse datasets and watch rollouts, in the browser or in the terminal."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Annotated

import typer

from webtraj import errors
from webtraj.cli import signals, terminal
from webtraj.cli.options import BucketOptions, JsonLines, options_for
from webtraj.cli.terminal import pluralize

if TYPE_CHECKING:
    from typing import Any

    from webtraj.view import RunMonitor
    from webtraj.view.viewer import Viewer

__all__ = ["view"]

_HOST = "127.0.0.1"
_TOKEN = "WEBTRAJ_VIEW_TOKEN"
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
        typer.Option(help="The address to listen on."),
    ] = _HOST,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help=PORT_HELP)] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar=_TOKEN,
            show_envvar=True,
            help="The token that visitors need; default: a new one.",
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
    option: BucketOptions = None,
    terminal: Annotated[
        bool,
        typer.Option(
            "--terminal",
            help="Watch the latest rollout in the terminal instead: of a dataset, or of the last "
            "iteration of a save path.",
        ),
    ] = False,
    run: Annotated[str | None, typer.Option(help="Watch this run; default: the latest.")] = None,
    every: Annotated[
        float | None,
        typer.Option(
            help="With --terminal: seconds between updates; default: 1, or 5 for buckets."
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Show the run's status once in the terminal, then exit.")
    ] = False,
    json: JsonLines = False,
) -> None:
    """Browse datasets in the browser, even while they are being written. Stop with Ctrl-C.

    Filter and search the list, step through episodes, compare two, and label them. The episodes
    are never changed; labels are stored beside them.

    Watch a rollout on the page "Run" or with --terminal: waiting, running and done rows, outcomes,
    speed and errors. It only reads what the rollout writes, so you can start it at any time, even
    for a run that died. --terminal exits when the run is over, and shows its status once if the
    output is not a terminal.
    """
    options = options_for(datasets[0], option, *datasets[1:])
    for_page = {
        "--host": host != _HOST,
        "--port": port is not None,
        "--token": token is not None and token != os.environ.get(_TOKEN),
        "--open": open_browser is not None,
        "--as": person is not None,
        "--blob-cache": blob_cache is not None,
    }
    unserved = {
        "--write-labels": write_labels is not None,
        "--terminal": terminal,
        "--once": once,
        "--json": json,
    }
    instead = [name for name, given in unserved.items() if given]
    for idle in [name for name, given in for_page.items() if given and instead]:
        raise errors.InvalidInputError(
            f"{idle} has no effect with {instead[0]}: it needs the page in the browser. Leave out "
            "one of them."
        )
    if every is not None and (once or not (terminal or json)):
        raise errors.InvalidInputError(
            "--every needs --terminal or --json, without --once: it is the time between updates. "
            "Leave it out."
        )
    if write_labels is not None:
        _write_labels(datasets, write_labels, options)
        return
    monitor = None
    if terminal or once or json or run is not None:
        monitor = _monitor(datasets, run, options)
    if monitor is not None and (terminal or once or json):
        _watch(monitor, every, once=once, json=json)
        return

    from webtraj.view.viewer import Viewer

    shown = "" if monitor is None else f"#/run?run={monitor.run_id}"
    places = datasets if monitor is None else [monitor.place]
    with Viewer(places, storage_options=options, blob_cache=blob_cache, person=person) as viewer:
        signals.run(_serve(viewer, host, port, token, open_browser, shown))


def _monitor(named: list[str], run: str | None, options: dict[str, Any] | None) -> RunMonitor:
    from webtraj.view import RunMonitor

    if len(named) != 1:
        raise errors.InvalidInputError(
            f"--terminal, --once, --json and --run show one rollout; got {len(named)} places. Give "
            "its dataset or save path."
        )
    return RunMonitor(named[0], run, storage_options=options)


def _watch(watched: RunMonitor, every: float | None, *, once: bool, json: bool) -> None:
    """Show a run in the terminal, or print it as JSON, until it is over."""
    from webtraj.store.places import is_url
    from webtraj.view import screen

    if every is not None and every <= 0:
        raise errors.InvalidInputError(f"--every got {every:g}; expected seconds above 0.")
    in_bucket = is_url(watched.place) and not watched.place.startswith("file:")
    seconds = every or (5.0 if in_bucket else 1.0)
    console = terminal.make_console()
    with contextlib.suppress(KeyboardInterrupt):  # The usual way to stop.
        if json:
            _print_lines(watched, seconds, once=once)
        elif once or not console.is_terminal:
            console.print(screen.render(watched.look(), width=min(console.width, 120)))
        else:
            screen.watch(watched, console, every=seconds)


def _print_lines(watched: RunMonitor, every: float, *, once: bool) -> None:
    import time

    status = watched.look()
    terminal.print_json(status.to_data())
    while not (once or status.is_over):
        time.sleep(every)
        status = watched.look()
        terminal.print_json(status.to_data())


async def _serve(
    viewer: Viewer,
    host: str,
    port: int | None,
    token: str | None,
    open_browser: bool | None,
    shown: str = "",
) -> None:
    import asyncio

    from webtraj.net.local_pages import open_privately
    from webtraj.view.app import serving

    async with serving(viewer, host=host, port=port, token=token) as url:
        print(f"Viewer at {url}{shown} (Ctrl-C to stop)", flush=True)
        if _has_desktop() if open_browser is None else open_browser:
            await asyncio.to_thread(open_privately, f"{url}{shown}")
        await asyncio.Event().wait()


def _write_labels(named: list[str], file: str, options: dict[str, Any] | None) -> None:
    from webtraj.judging.quality import write_labels
    from webtraj.view.collection import FoundDataset, datasets_in
    from webtraj.view.labels import judge_labels, read_person_labels

    places = [found.place for one in named for found in datasets_in(one) or [FoundDataset(one, "")]]
    labels = [
        label
        for place in places
        for label in judge_labels(read_person_labels(place, storage_options=options).values())
    ]
    print(f"{file}: {pluralize(write_labels(file, labels), 'label')}")


def _has_desktop() -> bool:
    import sys

    shown = sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
    return sys.stdout.isatty() and shown and "SSH_CONNECTION" not in os.environ
