"""The formats by name. A new one is a line here, and a module that is imported when it is used."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj.datasets.exporters.base import Exporter
from webtraj.named import make_of, nearest

__all__ = ["FORMATS", "Format", "make_exporter"]

_HERE = "webtraj.datasets.exporters"


@dataclasses.dataclass(frozen=True, slots=True)
class Format:
    """A format that episodes can be exported to."""

    home: str
    """The exporter's module and class, as `module:Class`."""
    summary: str
    """What it is, in a line."""


FORMATS: dict[str, Format] = {
    "atif": Format(f"{_HERE}.atif:AtifExporter", "Agent Trajectory Interchange Format, v1.8"),
    "minari": Format(f"{_HERE}.minari:MinariExporter", "a Minari dataset"),
    "huggingface": Format(f"{_HERE}.huggingface:HuggingFaceExporter", "Parquet with a card"),
    "html": Format("webtraj.viewer.exporter:HtmlExporter", "an HTML file an episode, to look at"),
}


def make_exporter(name: str, options: Mapping[str, Any] | None = None) -> Exporter:
    """Returns the exporter of a format.

    Args:
        name: A key of `FORMATS`.
        options: Values of its fields; text is converted, as from a command line.

    Raises:
        InvalidInputError: There is no such format or option, or a value does not do.
        MissingDependencyError: The format needs a package that is not installed.
    """
    if name not in FORMATS:
        raise errors.InvalidInputError(
            f"No export format {name!r:.60}. "
            f"{nearest(name, FORMATS, cutoff=0.6)}The formats are {', '.join(FORMATS)}."
        )
    made: Exporter = make_of(FORMATS[name].home, name, options)
    return made
