"""File formats of episodes. What one is stands in `base`; each has a module of its own.

A format is called by the end of its files' names, and imported when it is first asked for.
"""

from __future__ import annotations

import importlib

from webtraj import errors
from webtraj.store.episode_format import SCHEMA_VERSION, EpisodeFormat, StoredEpisode

__all__ = [
    "FORMATS",
    "SCHEMA_VERSION",
    "EpisodeFormat",
    "StoredEpisode",
    "format_named",
    "split_name",
]

_HOMES = {
    "json": "webtraj.store.json_format",
    "pb": "webtraj.store.protobuf",
    "pb.zst": "webtraj.store.protobuf",
    "pb.xz": "webtraj.store.protobuf",
}
FORMATS = tuple(_HOMES)
"""The names of all formats."""


def format_named(name: str) -> EpisodeFormat:
    """Returns a format by its name.

    >>> format_named("json").name
    'json'

    Raises:
        InvalidInputError: There is no such format.
        MissingDependencyError: It needs a package that is not installed.
    """
    if name not in _HOMES:
        raise errors.InvalidInputError(
            f"{name!r} is no format of episodes; expected one of {', '.join(_HOMES)}."
        )
    made: EpisodeFormat = importlib.import_module(_HOMES[name]).FORMATS[name]
    return made


def split_name(file_name: str) -> tuple[str, str] | None:
    """Returns the episode's id and the format's name that a file's name tells; None if neither.

    >>> split_name("20261120T130405-9f86.pb.zst")
    ('20261120T130405-9f86', 'pb.zst')
    """
    for name in sorted(_HOMES, key=len, reverse=True):
        stem = file_name.removesuffix(f".{name}")
        if stem and stem != file_name:
            return stem, name
    return None
