"""Episodes as HTML files, `<episode id>.html`, each of which needs nothing else."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from webtraj import errors
from webtraj.datasets.exporters import base
from webtraj.viewer.page import episode_html

__all__ = ["HtmlExporter"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class HtmlExporter:
    """Writes HTML."""

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ()

    def export(self, job: base.Job) -> None:
        """See `base.Exporter.export`."""
        if job.name.endswith((".html", ".htm")):
            raise errors.InvalidInputError(
                f"{job.name!r:.100} would be a folder, with a page an episode in it; name it as "
                "one, such as pages. The page of a single episode is in it by the episode's id."
            )
        for episode in job.episodes:
            name = f"{episode.episode_id}.html"
            content = episode_html(episode).encode()
            path = job.folder / name
            path.write_bytes(content)
            if path.read_bytes() != content:
                raise base.unequal(name, "content")
            job.ledger.wrote(episode)
