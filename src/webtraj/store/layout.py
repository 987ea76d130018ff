"""Where things lie in a dataset folder.

::

    <dataset>/
      dataset.json                 schema version, webtraj version, when, format
      index/<writer>.jsonl         a summary line for each sealed episode
      episodes/<episode_id>.json   one whole episode each; or .pb, .pb.zst
      blobs/<2 hex>/<sha256>.<ext> screenshots and long texts, shared by steps and episodes
      journal/<episode_id>.jsonl   open episodes only
      unshared/<episode_id>/...    blobs of one episode alone

Where an episode's file holds its blobs itself, or goes elsewhere with them, they lie `unshared`
until that has been done; then that folder goes.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeGuard

import orjson

import webtraj
from webtraj import errors
from webtraj.store import files, records
from webtraj.store.blobs import BLOBS, BlobSource

__all__ = [
    "BLOBS",
    "BOM",
    "DatasetHeader",
    "DatasetLayout",
    "EPISODES",
    "EpisodeFormat",
    "FORMATS",
    "HEADER",
    "INDEX",
    "JsonFormat",
    "SCHEMA_VERSION",
    "StoredEpisode",
    "check_data",
    "check_episode_id",
    "episode_key",
    "format_named",
    "is_episode_id",
    "split_name",
    "unreadable",
]

# File formats of episodes: what one is, the JSON format, and all by name.
#
# Between the data model and the files stands an episode's *data*, plain JSON data of this shape, in
# which values follow `webtraj.store.values` and records `webtraj.store.records`::
#
#     {"schema_version": 1, "info": {...}, "start_time": ..., "end_time": ...,
#      "steps": [{...}, ...], "end": {...}}
#
# A journal holds it in pieces, sealing puts it together, and a format makes bytes of it and back.
# Formats hold the same information: from one to another and back is the identity on this data, its
# order of keys included.

SCHEMA_VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class StoredEpisode:
    """What an episode's file holds."""

    data: dict[str, Any]
    """The episode's data."""
    blobs: BlobSource | None = None
    """The blobs that the file itself holds; None if they lie beside it."""


class EpisodeFormat(Protocol):
    """Makes bytes of an episode's data, and back."""

    @property
    def name(self) -> str:
        """What its files' names end in, after a dot."""

    @property
    def self_contained(self) -> bool:
        """Whether a file holds its blobs; if not, they lie beside it, in a blob store."""

    def encode(self, episode: Mapping[str, Any], blobs: BlobSource) -> bytes:
        """Returns the file's content.

        Raises:
            CorruptDataError: A blob is missing, or the data does not follow the format.
            InvalidInputError: The format is for reading only.
        """

    def decode(self, content: bytes, where: str) -> StoredEpisode:
        """Returns what a file holds.

        Args:
            content: All of the file.
            where: Names the file in errors.

        Raises:
            CorruptDataError: It is no episode.
            UnsupportedSchemaError: It was written by a newer webtraj.
        """


def check_data(data: Any, where: str) -> dict[str, Any]:
    """Returns parsed data if it is an episode's that this version can read.

    Raises:
        CorruptDataError: It is not an episode's.
        UnsupportedSchemaError: It was written by a newer webtraj.
    """
    try:
        version = int(data["schema_version"])
        if not isinstance(data["steps"], list) or not isinstance(data["info"], dict):
            raise TypeError("expected an info and a list of steps")
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise unreadable(where, error) from error
    if version > SCHEMA_VERSION:
        raise errors.UnsupportedSchemaError(
            f"{where!r} has schema version {version}; this webtraj reads up to "
            f"{SCHEMA_VERSION}. Install a newer one."
        )
    checked: dict[str, Any] = data
    return checked


def unreadable(where: str, error: Exception) -> errors.CorruptDataError:
    """Returns the error for a file that cannot be read."""
    return errors.CorruptDataError(
        f"{where!r} is no readable episode: {error!r:.300}. The file was changed or damaged "
        "after it was written."
    )


@dataclasses.dataclass(frozen=True, slots=True)
class JsonFormat:
    """The format of `<episode id>.json`."""

    name: str = "json"
    self_contained: bool = False

    def encode(self, episode: Mapping[str, Any], blobs: BlobSource) -> bytes:
        """Returns the file's content; the blobs stay where they are."""
        del blobs  # Only referred to.
        return orjson.dumps(episode)

    def decode(self, content: bytes, where: str) -> StoredEpisode:
        """Returns what a file holds."""
        try:
            data = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise unreadable(where, error) from error
        return StoredEpisode(check_data(data, where))


_PROTOBUF = ("pb", "pb.zst", "pb.xz")
FORMATS = ("json", *_PROTOBUF)
"""The names of all formats."""


def format_named(name: str) -> EpisodeFormat:
    """Returns a format by its name.

    >>> format_named("json").name
    'json'

    Raises:
        InvalidInputError: There is no such format.
        MissingDependencyError: It needs a package that is not installed.
    """
    if name not in FORMATS:
        raise errors.InvalidInputError(
            f"No episode format {name!r}; expected one of {', '.join(FORMATS)}."
        )
    if name == "json":
        return JsonFormat()
    from webtraj.store import protobuf  # Needs the extra `protobuf`.

    return protobuf.FORMATS[name]


def split_name(file_name: str) -> tuple[str, str] | None:
    """Returns the episode's id and the format's name that a file's name tells; None if neither.

    >>> split_name("20261120T130405-9f86.pb.zst")
    ('20261120T130405-9f86', 'pb.zst')
    """
    for name in sorted(FORMATS, key=len, reverse=True):
        stem = file_name.removesuffix(f".{name}")
        if stem and stem != file_name:
            return stem, name
    return None


# Keys and their prefixes, in a folder or a bucket.
HEADER = "dataset.json"
EPISODES = "episodes/"
INDEX = "index/"

BOM = b"\xef\xbb\xbf"
"""The byte order mark that some editors put before a text."""

_MOST_NAMED = 5
"""Datasets that are named to someone who named the folder around them."""

_EPISODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def is_episode_id(episode_id: object) -> TypeGuard[str]:
    """Returns whether `episode_id` can safely name a file."""
    return isinstance(episode_id, str) and _EPISODE_ID.fullmatch(episode_id) is not None


def check_episode_id(episode_id: str) -> str:
    """Returns `episode_id` if it can safely name a file.

    Raises:
        InvalidEpisodeIdError: It cannot.
    """
    if not is_episode_id(episode_id):
        raise errors.InvalidEpisodeIdError(
            f"The episode id {episode_id!r:.200} cannot name a file. Expected 1 to 128 characters "
            "of A-Z a-z 0-9 . _ -, beginning with a letter or digit."
        )
    return episode_id


def episode_key(episode_id: str, format_name: str) -> str:
    """Returns the key of a sealed episode.

    Raises:
        InvalidEpisodeIdError: The id cannot name a file.
    """
    return f"{EPISODES}{check_episode_id(episode_id)}.{format_name}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DatasetHeader:
    """What a dataset says of itself, in its dataset.json."""

    format: str = "json"
    """The format that episodes are written in; `webtraj.store` lists them."""
    destination: str = ""
    """For a spool: the URL that its episodes go to; empty if they stay."""

    @property
    def shares_blobs(self) -> bool:
        """Whether episodes keep their blobs together, each but once."""
        return self.format == "json" and not self.destination

    def to_bytes(self) -> bytes:
        """Returns the content of dataset.json."""
        data: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "webtraj_version": webtraj.__version__,
            "created": time.time(),
            "format": self.format,
        }
        if self.destination:
            data["destination"] = self.destination
        return orjson.dumps(data, option=orjson.OPT_INDENT_2)

    @classmethod
    def from_bytes(cls, content: bytes, where: str) -> DatasetHeader:
        """Returns the header that a dataset.json holds. `where` names that file in errors.

        Raises:
            CorruptDataError: It cannot be read.
            UnsupportedSchemaError: It was made by a newer webtraj.
        """
        stored = records.read_line(
            _StoredHeader,
            content.removeprefix(BOM),
            repr(where),
            "Expected a JSON object with the key schema_version. Restore the file from a copy.",
        )
        if stored.schema_version > SCHEMA_VERSION or stored.format not in FORMATS:
            raise errors.UnsupportedSchemaError(
                f"{where!r} has schema version {stored.schema_version} and format "
                f"{stored.format!r:.40}; this webtraj ({webtraj.__version__}) reads up to version "
                f"{SCHEMA_VERSION} and the formats {', '.join(FORMATS)}. It was written by "
                f"webtraj {stored.webtraj_version:.40}: install that or a newer one."
            )
        return cls(format=stored.format, destination=stored.destination)


@dataclasses.dataclass(frozen=True, slots=True)
class _StoredHeader:
    schema_version: int
    webtraj_version: str = "of an unknown version"
    format: str = "json"
    destination: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class DatasetLayout:
    """The paths in one dataset folder."""

    root: Path

    @property
    def header(self) -> Path:
        """The file that makes the folder a dataset."""
        return self.root / "dataset.json"

    @property
    def episodes(self) -> Path:
        """The folder of sealed episodes."""
        return self.root / "episodes"

    @property
    def index(self) -> Path:
        """The folder of index files, one for each writer."""
        return self.root / "index"

    @property
    def journals(self) -> Path:
        """The folder of journals of open episodes."""
        return self.root / "journal"

    @property
    def blobs(self) -> Path:
        """The folder of blobs."""
        return self.root / "blobs"

    def episode(self, episode_id: str, format_name: str = "json") -> Path:
        """Returns where a sealed episode lies."""
        return self.root / episode_key(episode_id, format_name)

    def journal(self, episode_id: str) -> Path:
        """Returns where an open episode's journal lies."""
        return self.journals / f"{check_episode_id(episode_id)}.jsonl"

    def check_no_links(self) -> None:
        """Refuse a dataset with a symbolic link among its folders, before anything is written.

        Raises:
            StorageDeniedError: A folder of the dataset is a symbolic link.
        """
        for folder in (*self._folders, self.root / "unshared"):
            files.check_no_links(self.root, folder)

    @property
    def _folders(self) -> tuple[Path, ...]:
        return (self.episodes, self.index, self.journals, self.blobs)

    def make_folders(self) -> None:
        """Make the folders that are missing; an empty folder may not have been copied.

        Raises:
            StorageDeniedError: A folder of the dataset is a symbolic link.
            OSError: A folder cannot be made.
        """
        self.check_no_links()
        for folder in self._folders:
            folder.mkdir(exist_ok=True)

    def unshared(self, episode_id: str) -> Path:
        """Returns the folder of blobs that are one episode's alone."""
        return self.root / "unshared" / check_episode_id(episode_id)

    def sealed_episodes(self) -> dict[str, str]:
        """Returns the names of the formats of the episodes that have a file, by id."""
        try:
            with os.scandir(self.episodes) as entries:
                names = [split_name(entry.name) for entry in entries if entry.is_file()]
        except FileNotFoundError:  # Not made yet, or not copied because it was empty.
            return {}
        return {name[0]: name[1] for name in names if name and is_episode_id(name[0])}

    def open_episodes(self) -> set[str]:
        """Returns the ids of the episodes that have a journal."""
        return _ids_in(self.journals, ".jsonl")

    def create(self, header: DatasetHeader | None = None) -> DatasetHeader:
        """Makes the folder a dataset, or checks that it is one.

        Returns:
            The header that it has.

        Raises:
            CollectorError: The folder cannot be written.
            StorageDeniedError: A folder in it is a symbolic link.
            InvalidInputError: It is a dataset, of another format or destination than `header` says.
            NotADatasetError: It holds other things already.
            UnsupportedSchemaError: It was made by a newer webtraj.
        """
        wanted = header or DatasetHeader()
        try:
            if not self.header.exists():
                self._check_empty()
                self.root.mkdir(parents=True, exist_ok=True)
                files.write_atomically(self.header, wanted.to_bytes())
            self.make_folders()
        except errors.StorageDeniedError:
            raise
        except OSError as error:
            raise errors.CollectorError(
                f"Cannot write the dataset folder {str(self.root)!r}: {errors.reason(error)}. "
                "Choose a folder that this user may write, on a disk with free space."
            ) from error
        found = self.check()
        if found != wanted:
            raise errors.InvalidInputError(
                f"{str(self.root)!r} is {_described(found)}, and cannot take episodes of "
                f"{_wanted(wanted)}. Name another folder; {_way_out(self.root, found, wanted)}."
            )
        return found

    def _check_empty(self) -> None:
        # A file with a leading dot may be a dataset.json whose writer died in the middle of it.
        used = self.root.exists() and any(path.name[0] != "." for path in self.root.iterdir())
        if used and not self.header.exists():  # Another process may have made it just now.
            raise errors.NotADatasetError(
                f"The folder {str(self.root)!r} is not empty and holds no dataset.json. "
                "Name a new or empty folder, or that of a webtraj dataset."
            )

    def check(self) -> DatasetHeader:
        """Checks that the folder is a dataset that this version can read; returns its header.

        Raises:
            NotADatasetError: It is not one.
            CorruptDataError: Its dataset.json cannot be read.
            UnsupportedSchemaError: It was made by a newer webtraj.
        """
        try:
            content = self.header.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise errors.NotADatasetError(
                f"{str(self.root)!r} is not a webtraj dataset: {_why_not(self.root)}."
            ) from None
        return DatasetHeader.from_bytes(content, str(self.header))


def _why_not(root: Path) -> str:
    """Returns why a path without a header is no dataset, and what to name instead."""
    if not root.exists():
        return "it does not exist. Name the folder that a collector wrote"
    if not root.is_dir():
        return "it is a file. Name the folder that a collector wrote"
    found = sorted(header.parent for header in root.glob(f"*/{HEADER}"))
    if not found:
        return f"it has no {HEADER}. Name the folder that a collector wrote"
    names = ", ".join(shlex.quote(str(folder)) for folder in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return f"it has no {HEADER}. These in it are datasets: {names}{more}"


def _described(header: DatasetHeader) -> str:
    if header.destination:
        return f"the spool of {header.destination!r}, of format {header.format!r}"
    return f"a dataset of format {header.format!r}"


def _wanted(header: DatasetHeader) -> str:
    going = f" on their way to {header.destination!r}" if header.destination else ""
    return f"format {header.format!r}{going}"


def _way_out(root: Path, found: DatasetHeader, wanted: DatasetHeader) -> str:
    if found.destination:
        command = f"webtraj push {shlex.quote(str(root))}"
        return f"`{command}` sends what waits there to {found.destination!r}"
    if wanted.destination:
        return "a spool needs one of its own"
    return "`webtraj convert` makes one format of another"


def _ids_in(folder: Path, suffix: str) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name.endswith(suffix)]
    except FileNotFoundError:  # Not made yet, or not copied because it was empty.
        return set()
    stems = (name.removesuffix(suffix) for name in names)
    return {stem for stem in stems if is_episode_id(stem)}
