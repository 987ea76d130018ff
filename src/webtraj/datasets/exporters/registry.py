"""The formats by name. A new one is a line here, and a module that is imported when it is used."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import pydantic

from webtraj import errors
from webtraj.datasets.exporters.base import Exporter

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
    "rlds": Format(f"{_HERE}.rlds:RldsExporter", "RLDS steps as .npz arrays"),
    "minari": Format(f"{_HERE}.minari:MinariExporter", "a Minari dataset"),
    "huggingface": Format(f"{_HERE}.huggingface:HuggingFaceExporter", "Parquet with a card"),
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
        near = difflib.get_close_matches(name.lower(), FORMATS, n=1, cutoff=0.5)
        raise errors.InvalidInputError(
            f"There is no format {name!r:.60} to export to. "
            + (f"Did you mean {near[0]!r}? " if near else "")
            + f"The formats are {', '.join(FORMATS)}."
        )
    module, _, class_name = FORMATS[name].home.partition(":")
    exporter_class = getattr(importlib.import_module(module), class_name)
    known = [field.name for field in dataclasses.fields(exporter_class)]
    for option in options or ():
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            raise errors.InvalidInputError(
                f"The format {name!r} has no option {option!r:.60}; "
                + (f"did you mean {near[0]!r}? " if near else "")
                + f"It has {', '.join(known) or 'none'}."
            )
    try:
        made: Exporter = pydantic.TypeAdapter(exporter_class).validate_python(dict(options or {}))
    except pydantic.ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(map(str, wrong["loc"]))
        raise errors.InvalidInputError(
            f"The option {where}={wrong['input']!r:.100} of the format {name!r} does not do: "
            f"{wrong['msg']}."
        ) from error
    return made
