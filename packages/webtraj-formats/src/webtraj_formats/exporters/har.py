"""HAR 1.2: the network traffic of each episode, for browsers' tools and other HAR readers.

::

    <out>/<episode id>.har

An episode has traffic if it was recorded with the channel `network`, which `--set har=true` adds;
other episodes are left out. Each step is a page of the log, with the exchanges that ended between
the previous observation and its own.
"""

from __future__ import annotations

import dataclasses
import datetime
import urllib.parse
from collections.abc import Iterator
from typing import Any, ClassVar

import orjson

import webtraj
from webtraj.datasets.exporters import base
from webtraj.datasets.exporters.plain import action_text, inside, unicode_text
from webtraj.trajectory import LAST_TIME, EpisodeTrajectory, StepRecord

__all__ = ["CHANNEL", "HarExporter"]

CHANNEL = "network"
"""The key of an observation's traffic."""
_LONGEST_TITLE = 200


@dataclasses.dataclass(frozen=True, kw_only=True)
class HarExporter:
    """Writes HAR files."""

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ()

    def export(self, job: base.Job) -> None:
        """See `base.Exporter.export`."""
        for episode in job.episodes:
            if not any(_traffic(step) is not None for step in episode.steps):
                why = "it has no network traffic; record it with `webtraj rollout --set har=true`"
                job.ledger.leave_out(episode.episode_id, why)
                continue
            pages, entries = [], []
            for step in episode.steps:
                found = list(_entries(step, job.ledger, episode.episode_id))
                if found:
                    page = f"step_{step.index}"
                    begun = min(entry["startedDateTime"] for entry in found)
                    pages.append(_page(page, step, begun))
                    entries += [{"pageref": page, **entry} for entry in found]
            data = orjson.dumps({"log": _log(episode, pages, entries)}, option=orjson.OPT_INDENT_2)
            path = job.folder / f"{episode.episode_id}.har"
            path.write_bytes(data)
            if path.read_bytes() != data:
                raise base.unequal(path.name, "content")
            job.ledger.wrote(episode)


def _log(
    episode: EpisodeTrajectory, pages: list[dict[str, Any]], entries: list[dict[str, Any]]
) -> dict[str, Any]:
    log: dict[str, Any] = {
        "version": "1.2",
        "creator": {"name": "webtraj", "version": webtraj.__version__},
        "pages": pages,
        "entries": entries,
        "comment": unicode_text(f"{episode.episode_id}: {episode.info.task}"),
    }
    if browser := episode.info.versions.get("browser"):
        log["browser"] = {"name": "Chromium", "version": unicode_text(browser)}
    return log


def _page(name: str, step: StepRecord, begun: str) -> dict[str, Any]:
    """Return the page of a step. It begins at the step's call, or else at its first exchange."""
    time = step.start_time
    if time is not None and 0 <= time < LAST_TIME:
        begun = datetime.datetime.fromtimestamp(time, datetime.UTC).isoformat(
            timespec="milliseconds"
        )
    action = action_text(step.action) or "reset"
    return {
        "id": name,
        "title": unicode_text(f"step {step.index}: {action}")[:_LONGEST_TITLE],
        "startedDateTime": begun,
        "pageTimings": {},
    }


def _traffic(step: StepRecord) -> str | None:
    found = inside(step.observation, CHANNEL)
    return found if isinstance(found, str) else None


def _query(url: str) -> list[dict[str, str]]:
    query = url.partition("#")[0].partition("?")[2]
    return [
        {"name": name, "value": value}
        for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True)
    ]


def _entries(step: StepRecord, ledger: base.Ledger, episode_id: str) -> Iterator[dict[str, Any]]:
    # Not splitlines: JSON may hold characters such as U+2028, at which it would split.
    for line in filter(str.strip, (_traffic(step) or "").split("\n")):
        try:
            entry = orjson.loads(line)
        except ValueError:
            entry = None
        if isinstance(entry, dict) and isinstance(entry.get("startedDateTime"), str):
            request = entry.get("request")
            if isinstance(request, dict) and isinstance(request.get("url"), str):
                request["queryString"] = _query(request["url"])
            yield entry
        else:
            ledger.note(episode_id, f"steps.observation.{CHANNEL}", "is no HAR entry; left out")
