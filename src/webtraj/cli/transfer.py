"""`webtraj copy`, `split`, `push` and `import`: make datasets from others."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from webtraj import errors
from webtraj.cli import terminal
from webtraj.cli.options import (
    WHERE_HELP,
    BucketOptions,
    Json,
    Place,
    Where,
    condition_of,
    format_settings,
    options_for,
    read_pairs,
    storage_options,
)
from webtraj.cli.terminal import pluralize, say, still_open

if TYPE_CHECKING:
    from webtraj.datasets.transfer import PushReport, TransferReport

__all__ = ["copy", "import_", "print_report", "push", "split"]

# `webtraj copy`: copy datasets, or some of their episodes, in this or another format.


def copy(
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="DATASET... TARGET",
            help="The datasets, folders or URLs, and where to write: new, or a dataset to add to.",
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option("--format", help="The format: json, pb or pb.zst; default: the first's."),
    ] = None,
    where: Where = None,
    without: Annotated[
        str | None,
        typer.Option(
            metavar="PARTS",
            help="Leave out, separated by commas: screenshots, html, files, credentials, storage.",
        ),
    ] = None,
    json: Json = False,
    option: BucketOptions = None,
) -> None:
    """Copy datasets into one, or convert them, checking every byte. Run it again to resume.

    Exit with 1 if an episode could not be copied: it cannot be read, or the target has a different
    episode with its id.
    """
    from webtraj.datasets import transfer

    if len(places) < 2:
        raise errors.InvalidInputError(
            f"Only {places[0]!r:.200} was given; expected one or more datasets, then the target. "
            "For example: webtraj copy FIRST SECOND TARGET."
        )
    *sources, target = places
    options = options_for(target, option, *sources)
    report = transfer.merge(
        sources,
        target,
        format=to,
        where=condition_of(where),
        without=[part.strip() for part in without.split(",")] if without else (),
        source_options=options,
        target_options=options,
    )
    print_report(report, target, json=json)


def print_report(report: TransferReport, target: str, *, json: bool = False) -> None:
    """Print a transfer's report.

    Raises:
        Exit: With 1 if an episode was not transferred.
    """
    if json:
        terminal.print_json({"target": target, **dataclasses.asdict(report)})
    else:
        for what in (*report.clashes, *report.failed):
            say(what)
        say(
            f"{target}: {pluralize(len(report.added), 'episode')} written, "
            f"{len(report.skipped)} already there"
            + (f", {len(report.clashes)} conflicting" if report.clashes else "")
            + (f", {len(report.failed)} unreadable" if report.failed else "")
            + still_open(len(report.left_open))
        )
        if report.superseded:
            say(
                f"Left out {pluralize(len(report.superseded), 'episode')}, such as "
                f"{report.superseded[0]}: another try of the same row counts, and that is not "
                "copied."
            )
        if report.left_runs:
            say(
                f"Left out the plans of {pluralize(len(report.left_runs), 'run')}, such as "
                f"{report.left_runs[0]}: only whole datasets keep them, and none replaces another "
                "plan. Resume these runs where they were played."
            )
    if not report.complete:
        raise typer.Exit(1)


# `webtraj split`: copy a dataset into parts.


def split(
    source: Place,
    into: Annotated[str, typer.Argument(help="The folder or URL that receives the parts.")],
    part: Annotated[
        list[str],
        typer.Option(help='A part, as name=share or name=condition: train=0.8, won="...".'),
    ],
    together: Annotated[
        str, typer.Option(help="What to keep together in a part: episode, task, site or group.")
    ] = "episode",
    seed: Annotated[int, typer.Option(help="The seed of a split by shares.")] = 0,
    json: Json = False,
    option: BucketOptions = None,
) -> None:
    """Copy a dataset's episodes into parts, such as train and test."""
    from webtraj.datasets import partition

    expected = "name=share or name=condition, each name once, such as train=0.8"
    options = options_for(source, option, into)
    parts = {name: _share(text) for name, text in read_pairs("--part", part, expected).items()}
    reports = partition.split(
        source,
        into,
        parts,
        together=together,  # type: ignore[arg-type]  # `split` checks it.
        seed=seed,
        source_options=options,
        target_options=options,
    )
    failed = False
    for name, report in reports.items():
        try:
            print_report(report, name, json=json)
        except typer.Exit:
            failed = True
    if failed:
        raise typer.Exit(1)


def _share(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


# `webtraj push`: upload the episodes waiting in spools, or a dataset to the Hugging Face Hub.

_HUB = "For the Hugging Face Hub"


def push(
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SPOOL]... | DATASET hf://datasets/ORG/NAME",
            help="The spool folders; default: all in the default location. Or a dataset, and the "
            "repository of the Hugging Face Hub to send it to.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Send to this folder or URL instead, if the bucket is gone for good.",
        ),
    ] = None,
    option: BucketOptions = None,
    max_uploads: Annotated[int, typer.Option(min=1, help="Uploads at a time.")] = 16,
    where: Annotated[str | None, typer.Option(help=WHERE_HELP, rich_help_panel=_HUB)] = None,
    format: Annotated[  # noqa: A002  (The option's name.)
        str | None,
        typer.Option(
            help="The format of the episodes: json, pb or pb.zst; default: the dataset's.",
            rich_help_panel=_HUB,
        ),
    ] = None,
    tables: Annotated[
        bool,
        typer.Option(
            help="Also send Parquet tables and a card for load_dataset.", rich_help_panel=_HUB
        ),
    ] = True,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="An option of the tables: license=mit, title=..., splits=.... Repeatable.",
            rich_help_panel=_HUB,
        ),
    ] = None,
    public: Annotated[
        bool, typer.Option(help="Make a new repository public.", rich_help_panel=_HUB)
    ] = False,
    replace: Annotated[
        bool,
        typer.Option(
            help="Remove episodes that only the Hub has; its history keeps them.",
            rich_help_panel=_HUB,
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Upload the episodes waiting in spools to their buckets, or a dataset to the Hugging Face Hub.

    Exit with 1 if any episode was not sent. Episodes whose writer died are sealed first. The
    collector's bucket options are used unless you give --option or --to. Credentials come from the
    environment, a profile or the machine; for the Hub, from HF_TOKEN or `hf auth login`.
    """
    from webtraj.collectors.spool import spools
    from webtraj.datasets import transfer
    from webtraj.store.hub import is_hub_url
    from webtraj.store.places import is_url

    given = storage_options(option)
    if places and any(map(is_hub_url, places)):
        if to is not None or len(places) != 2 or not is_hub_url(places[1]):
            raise errors.InvalidInputError(
                f"Got {' '.join(places)!r:.300}; expected one dataset and one repository: webtraj "
                "push DATASET hf://datasets/ORG/NAME."
            )
        _push_to_hub(
            *places, where=where, format=format,
            tables=tables, setting=setting, private=not public, replace=replace, json=json,
            source_options=given,
        )  # fmt: skip
        return
    if where or format or not tables or setting or public or replace:
        raise errors.InvalidInputError(
            "The options for the Hub need a repository: webtraj push DATASET "
            "hf://datasets/ORG/NAME."
        )
    if urls := [place for place in places or () if is_url(place)]:
        raise errors.InvalidInputError(
            f"Got {urls[0]!r:.300}; expected spool folders, or a repository of the Hugging Face "
            f"Hub. To send a dataset to a bucket: webtraj copy DATASET {urls[-1]:.300}"
        )
    spool = [Path(place) for place in places or ()]
    if to is not None and not spool:
        raise errors.InvalidInputError(
            f"--to {to!r:.200} needs the spool folders to send: webtraj push SPOOL --to PLACE."
        )
    folders = spool or spools()
    if not folders:
        say("no spools found: nothing to send", stderr=json)
    pushed: list[dict[str, Any]] = []
    for folder in folders:
        try:
            report = transfer.push(folder, to=to, storage_options=given, max_uploads=max_uploads)
        except errors.WebtrajError as error:
            if len(folders) == 1:
                raise
            say(f"{folder}: {error}", stderr=json)
            pushed.append({"spool": str(folder), "complete": False, "error": str(error)})
            continue
        if not json:
            _show(folder, report)
        pushed.append(_push_data(folder, report))
    if json:
        terminal.print_json(pushed)
    if not all(one["complete"] for one in pushed):
        raise typer.Exit(1)


def _push_to_hub(
    source: str,
    target: str,
    *,
    where: str | None,
    setting: list[str] | None,
    json: bool,
    **arguments: Any,
) -> None:
    from webtraj.datasets.hub import push_to_hub

    report = push_to_hub(
        source,
        target,
        where=condition_of(where),
        table_options=format_settings(setting),
        **arguments,
    )
    if json:
        terminal.print_json(
            {
                "target": report.url,
                "commit": report.commit,
                "changed": report.changed,
                "complete": report.complete,
                **dataclasses.asdict(report.episodes),
            }
        )
    else:
        for problem in (*report.episodes.failed, *report.episodes.clashes):
            say(problem)
        say(
            f"{report.url}: {pluralize(len(report.episodes.added), 'episode')} at commit "
            f"{report.commit[:12]}" + ("" if report.changed else ", which was there already")
        )
    if not report.complete:
        raise typer.Exit(1)


def _push_data(folder: Path, report: PushReport) -> dict[str, Any]:
    """Return a push's report as JSON data."""
    return {
        "spool": str(folder),
        "target": report.destination,
        "complete": report.complete,
        "sent_episodes": report.sent_episodes,
        "sent_bytes": report.sent_bytes,
        "sealed": [summary.episode_id for summary in report.recovery.sealed],
        "being_written": report.recovery.being_written,
        "unreadable": report.recovery.unreadable,
        "unsent": [{"episode_id": o.episode_id, "reason": o.reason} for o in report.unsent],
    }


def _show(folder: Path, report: PushReport) -> None:
    for one in report.unsent:
        say(f"{one.episode_id}  not sent: {one.reason or 'no response'}")
    for what in report.recovery.unreadable:
        say(what)
    left = len(report.unsent) + len(report.recovery.unreadable)
    say(
        f"{folder} to {report.destination}: {report.sent_episodes} sent "
        f"({report.sent_bytes:,} bytes), {len(report.recovery.sealed)} recovered, "
        f"{len(report.recovery.being_written)} still being written, {left} left"
    )


# `webtraj import`: import other systems' recordings.


def import_(
    source: Annotated[Path, typer.Argument(help="The file or folder to import.")],
    out: Annotated[str, typer.Option(help="The dataset to write or add to: a folder or URL.")],
    system: Annotated[
        str,
        typer.Option(
            "--from",
            help="The system that recorded it: orby; of webtraj[formats] also agentlab, atif, "
            "miniwob-demos or webgym; auto detects it.",
        ),
    ] = "auto",
    format: Annotated[  # noqa: A002  (The option's name.)
        str, typer.Option(help="The format of a new dataset: json, pb or pb.zst.")
    ] = "json",
    descriptor: Annotated[
        Path | None,
        typer.Option(help="For orby: the schema, written by protoc --descriptor_set_out."),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="For webgym: the folder of screenshots.")
    ] = None,
    allow_class: Annotated[
        list[str] | None,
        typer.Option(
            help="Another class that pickles may name; read as data, never loaded. Repeatable."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only failures.")] = False,
    json: Json = False,
) -> None:
    """Import other systems' recordings. Exit with 1 if anything could not be read.

    Run it again to add new recordings. Files of several iterations become datasets of their own,
    below train_trajectories/ in the target. Pickles are read as data: nothing in them is loaded or
    run.
    """
    from webtraj.datasets import importers
    from webtraj.runs.iterations import Iterations
    from webtraj.store.index import EpisodeSummary

    def tell(found: EpisodeSummary | importers.Problem | importers.Skipped) -> None:
        if isinstance(found, importers.Problem):
            say(f"failed   {found.where}: {found.error}")
        elif quiet:
            return
        elif isinstance(found, importers.Skipped):
            say(f"skipped  {found.where}: {found.why}")
        else:
            say(
                f"imported {found.episode_id}  {found.task}: "
                f"{pluralize(found.num_steps, 'step')}, "
                f"{found.end_reason.name.lower()}, {found.outcome.name.lower()}"
            )

    given = importers.Source(
        path=source,
        descriptor=descriptor,
        images=images,
        allow_classes=tuple(allow_class or ()),
    )
    with terminal.json_output(json) as give:
        parts = {out: given}
        for (part, number), names in sorted(importers.iterations_of(source, system).items()):
            parts.pop(out, None)
            iterations = Iterations(out, part)
            parts[iterations.dataset(number)] = dataclasses.replace(given, only=frozenset(names))
            iterations.claim(number)
        reports = [
            importers.import_episodes(one, place, system=system, format=format, on_found=tell)
            for place, one in parts.items()
        ]
        for place, report in zip(parts, reports, strict=True):
            say(
                f"{report.system}: {len(report.imported)} imported, {len(report.skipped)} skipped, "
                f"{len(report.problems)} failed" + (f"; in {place}" if place != out else "")
            )
        give(
            {
                "target": out,
                "system": reports[0].system,
                "imported": [one.episode_id for report in reports for one in report.imported],
                "skipped": [one for report in reports for one in report.skipped],
                "problems": [one for report in reports for one in report.problems],
            }
        )
    if any(report.problems for report in reports):
        raise typer.Exit(1)
