"""`webtraj view`: datasets in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from webtraj.cli.options import OPTION_HELP

if TYPE_CHECKING:
    from typing import Any

    from webtraj.viewer.viewer import Viewer

__all__ = ["view"]


def view(
    datasets: Annotated[
        list[str],
        typer.Argument(
            metavar="DATASET...",
            help="Datasets' folders, or URLs: s3://bucket/prefix, ...; or a folder of datasets, "
            "such as the save_path of rollouts or what a loop makes: those that come to it, too.",
        ),
    ],
    host: Annotated[
        str, typer.Option(help="The address to listen at; one that others can reach needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for a free one.")] = 0,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="WEBTRAJ_VIEW_TOKEN",
            show_envvar=True,
            help="What who looks must have; by default a new one where one is needed.",
        ),
    ] = None,
    open_browser: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open", help="Open the page in the browser; by default on a desktop."
        ),
    ] = None,
    person: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Who gives labels; by default you.")
    ] = None,
    write_labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Serve nothing: write the successes and failures that people have labelled to "
            "this file, for webtraj judge eval --labels FILE.",
        ),
    ] = None,
    blob_cache: Annotated[
        str | None, typer.Option(help="For buckets: a folder that keeps the pictures read.")
    ] = None,
    option: Annotated[list[str] | None, typer.Option(help=OPTION_HELP)] = None,
) -> None:
    """Look at datasets in the browser, also while they are written, until Ctrl-C.

    Filter and search the list, step through episodes, compare two, and label them. Nothing of the
    datasets is changed; labels are kept beside the episodes.
    """
    from webtraj.cli import signals
    from webtraj.cli.options import storage_options
    from webtraj.viewer.viewer import Viewer

    options = storage_options(option)
    if write_labels is not None:
        _write_labels(datasets, write_labels, options)
        return
    with Viewer(datasets, storage_options=options, blob_cache=blob_cache, person=person) as viewer:
        signals.run(_serve(viewer, host, port, token, open_browser))


async def _serve(
    viewer: Viewer, host: str, port: int, token: str | None, open_browser: bool | None
) -> None:
    import asyncio

    from webtraj.viewer.serving import serving

    async with serving(viewer, host=host, port=port, token=token) as url:
        print(f"Look at {url} (Ctrl-C ends it)", flush=True)
        if _has_desktop() if open_browser is None else open_browser:
            import webbrowser

            await asyncio.to_thread(webbrowser.open, url)
        await asyncio.Event().wait()


def _write_labels(named: list[str], file: str, options: dict[str, Any] | None) -> None:
    from webtraj.judging.labels import write_labels
    from webtraj.store.places import is_url
    from webtraj.viewer.finding import FoundDataset, datasets_in
    from webtraj.viewer.labels import judge_labels, read_person_labels

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
