"""The layout of a dataset folder.

::

    <dataset>/
      dataset.json                 schema version, webtraj version, when, format
      index/<writer>.jsonl         a summary line for each sealed episode
      episodes/<episode_id>.json   one complete episode each; or .pb, .pb.zst
      blobs/<2 hex>/<sha256>.<ext> screenshots and long texts, shared by steps and episodes
      journal/<episode_id>.jsonl   open episodes only
      unshared/<episode_id>/...    blobs of one episode only

If an episode's file contains its blobs, or the episode is sent elsewhere with them, the blobs stay
in `unshared` until then; afterwards the folder is removed.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeGuard

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
    "FORMATS",
    "HEADER",
    "INDEX",
    "SCHEMA_VERSION",
    "StoredEpisode",
    "are_episode_ids",
    "check_data",
    "check_episode_id",
    "check_version",
    "episode_key",
    "is_episode_id",
    "split_name",
    "unreadable",
]

# An episode's *data* is the intermediate form between the data model and the files: plain JSON data
# of this shape, in which values follow `webtraj.store.values` and records `webtraj.store.records`::
#
#     {"schema_version": 1, "info": {...}, "start_time": ..., "end_time": ...,
#      "steps": [{...}, ...], "end": {...}}
#
# A journal holds it in pieces, sealing assembles it, and a format encodes it to bytes and decodes
# it. All formats hold the same information: converting to another format and back gives identical
# data, including the order of keys.

SCHEMA_VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class StoredEpisode:
    """The contents of an episode's file."""

    data: dict[str, Any]
    """The episode's data."""
    blobs: BlobSource | None = None
    """The blobs in the file itself; None if they are stored beside it."""


def check_data(data: Any, where: str) -> dict[str, Any]:
    """Return parsed data if it is an episode that this version can read.

    Raises:
        CorruptDataError: It is not an episode.
        UnsupportedSchemaError: It was written by a newer webtraj.
    """
    try:
        version = int(data["schema_version"])
        if not isinstance(data["steps"], list) or not isinstance(data["info"], dict):
            raise TypeError("expected an info and a list of steps")
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise unreadable(where, error) from error
    check_version(version, repr(where))
    checked: dict[str, Any] = data
    return checked


def check_version(version: int, what: str) -> None:
    """Check that this version can read a file; `what` names it.

    Raises:
        UnsupportedSchemaError: It was written by a newer webtraj.
    """
    if version > SCHEMA_VERSION:
        raise errors.UnsupportedSchemaError(
            f"{what} has schema version {version}; this webtraj reads up to {SCHEMA_VERSION}. "
            "Install a newer webtraj."
        )


def unreadable(where: str, error: Exception) -> errors.CorruptDataError:
    """Return the error for an unreadable file."""
    return errors.CorruptDataError(
        f"{where!r} is not a readable episode: {error!r:.300}. The file was changed or damaged "
        "after it was written."
    )


FORMATS = ("json", "pb", "pb.zst", "pb.xz")
"""The names of all formats; `webtraj.store.formats` has them."""


def split_name(file_name: str) -> tuple[str, str] | None:
    """Return the episode id and the format's name in a file's name; None if it has no such name.

    >>> split_name("20261120T130405-9f86.pb.zst")
    ('20261120T130405-9f86', 'pb.zst')
    """
    for name, suffix in _SUFFIXES:
        if file_name.endswith(suffix) and file_name != suffix:
            return file_name.removesuffix(suffix), name
    return None


_SUFFIXES = [(name, f".{name}") for name in sorted(FORMATS, key=len, reverse=True)]


# Keys and their prefixes, in a folder or a bucket.
HEADER = "dataset.json"
EPISODES = "episodes/"
INDEX = "index/"

BOM = b"\xef\xbb\xbf"
"""The byte order mark, with which some editors begin a text."""

_MOST_NAMED = 5
"""The most datasets listed in an error about the folder that contains them."""

_EPISODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_EPISODE_IDS = re.compile(rf"(?:{_EPISODE_ID.pattern}\n)*+")


def is_episode_id(episode_id: object) -> TypeGuard[str]:
    """Return whether `episode_id` can safely name a file."""
    return isinstance(episode_id, str) and _EPISODE_ID.fullmatch(episode_id) is not None


def are_episode_ids(texts: Sequence[str]) -> bool:
    r"""Return whether all texts are episode ids, three times as fast as checking one by one.

    >>> are_episode_ids(["e1", "e2"]), are_episode_ids(["e1\n"]), are_episode_ids(["e1\ne2"])
    (True, False, False)
    """
    lines = "\n".join(texts) + "\n"
    return lines.count("\n") == len(texts) and _EPISODE_IDS.fullmatch(lines) is not None


def check_episode_id(episode_id: str) -> str:
    """Return `episode_id` if it can safely name a file.

    Raises:
        InvalidEpisodeIdError: The id cannot name a file.
    """
    if not is_episode_id(episode_id):
        raise errors.InvalidEpisodeIdError(
            f"The episode id {episode_id!r:.200} cannot name a file. Expected 1 to 128 characters "
            "of A-Z a-z 0-9 . _ -, beginning with a letter or digit."
        )
    return episode_id


def episode_key(episode_id: str, format_name: str) -> str:
    """Return the key of a sealed episode.

    Raises:
        InvalidEpisodeIdError: The id cannot name a file.
    """
    return f"{EPISODES}{check_episode_id(episode_id)}.{format_name}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DatasetHeader:
    """The contents of a dataset's dataset.json."""

    format: str = "json"
    """The format of new episodes; `FORMATS` lists them all."""
    destination: str = ""
    """For a spool: the URL that its episodes are sent to; empty if they stay."""

    @property
    def shares_blobs(self) -> bool:
        """Whether episodes share one blob store."""
        return self.format == "json" and not self.destination

    def to_bytes(self) -> bytes:
        """Return the content of dataset.json."""
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
        """Return the header in a dataset.json. `where` is the file's name in errors.

        Raises:
            CorruptDataError: It cannot be read.
            UnsupportedSchemaError: It was written by a newer webtraj.
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
        """Return the path of a sealed episode."""
        return self.root / episode_key(episode_id, format_name)

    def journal(self, episode_id: str) -> Path:
        """Return the path of an open episode's journal."""
        return self.journals / f"{check_episode_id(episode_id)}.jsonl"

    def check_no_links(self) -> None:
        """Before anything is written, refuse a dataset that has symbolic links among its folders.

        Raises:
            StorageDeniedError: A folder of the dataset is a symbolic link.
        """
        for folder in (*self._folders, self.root / "unshared"):
            files.check_no_links(self.root, folder)

    @property
    def _folders(self) -> tuple[Path, ...]:
        return (self.episodes, self.index, self.journals, self.blobs)

    def make_folders(self) -> None:
        """Make missing folders, such as empty ones that were not copied.

        Raises:
            StorageDeniedError: A folder of the dataset is a symbolic link.
            OSError: A folder cannot be made.
        """
        self.check_no_links()
        for folder in self._folders:
            folder.mkdir(exist_ok=True)

    def unshared_folder(self, episode_id: str) -> Path:
        """Return the folder of the blobs of one episode only."""
        return self.root / "unshared" / check_episode_id(episode_id)

    def sealed_episodes(self, known: Iterable[str] = ()) -> dict[str, str]:
        """Return the format names of the episodes that have a file, by id.

        Args:
            known: Names of files to leave out.
        """
        names = _files_in(self.episodes, known)
        return {
            episode_id: format_name
            for format_name, suffix in _SUFFIXES
            for name in names
            if name.endswith(suffix) and is_episode_id(episode_id := name.removesuffix(suffix))
        }

    def open_episodes(self) -> set[str]:
        """Return the ids of the episodes that have a journal."""
        names = _files_in(self.journals)
        stems = [name.removesuffix(".jsonl") for name in names if name.endswith(".jsonl")]
        return set(filter(is_episode_id, stems))

    def create(self, header: DatasetHeader | None = None) -> DatasetHeader:
        """Make the folder a dataset, or check that it is one.

        Returns:
            The dataset's header.

        Raises:
            CollectorError: The folder cannot be written.
            StorageDeniedError: A folder in it is a symbolic link.
            InvalidInputError: It is a dataset of another format or destination than `header`.
            NotADatasetError: It is not empty and not a dataset.
            UnsupportedSchemaError: It was written by a newer webtraj.
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
                f"{str(self.root)!r} is {_describe(found)}, so it cannot take episodes of "
                f"{_describe_wanted(wanted)}. Choose another folder; "
                f"{_way_out(self.root, found, wanted)}."
            )
        return found

    def _check_empty(self) -> None:
        # A file with a leading dot may be a dataset.json whose writer died while writing it.
        used = self.root.exists() and any(path.name[0] != "." for path in self.root.iterdir())
        if used and not self.header.exists():  # Another process may have made it just now.
            raise errors.NotADatasetError(
                f"The folder {str(self.root)!r} is not empty and has no dataset.json. "
                "Choose a new or empty folder, or a webtraj dataset."
            )

    def check(self) -> DatasetHeader:
        """Check that the folder is a dataset that this version can read; return its header.

        Raises:
            NotADatasetError: It is not a dataset.
            CorruptDataError: Its dataset.json cannot be read.
            UnsupportedSchemaError: It was written by a newer webtraj.
        """
        try:
            content = self.header.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise errors.NotADatasetError(
                f"No dataset at {str(self.root)!r}: {_why_not(self.root)}."
            ) from None
        return DatasetHeader.from_bytes(content, str(self.header))


def _why_not(root: Path) -> str:
    """Return why a path has no header, and what to give instead."""
    if not root.exists():
        return "the folder does not exist. Name the folder that a collector wrote"
    if not root.is_dir():
        return "it is a file. Name the folder that a collector wrote"
    found = sorted(header.parent for header in root.glob(f"*/{HEADER}"))
    if not found:
        return f"it has no {HEADER}. Name the folder that a collector wrote"
    names = ", ".join(shlex.quote(str(folder)) for folder in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return f"it has no {HEADER}. These in it are datasets: {names}{more}"


def _describe(header: DatasetHeader) -> str:
    if header.destination:
        return f"the spool for {header.destination!r}, in format {header.format!r}"
    return f"a dataset in format {header.format!r}"


def _describe_wanted(header: DatasetHeader) -> str:
    going = f" for {header.destination!r}" if header.destination else ""
    return f"format {header.format!r}{going}"


def _way_out(root: Path, found: DatasetHeader, wanted: DatasetHeader) -> str:
    if found.destination:
        return (
            f"`{errors.command('push', root)}` sends its waiting episodes to {found.destination!r}"
        )
    if wanted.destination:
        return "a spool needs its own folder"
    return "`webtraj copy` converts between formats"


def _files_in(folder: Path, known: Iterable[str] = ()) -> list[str]:
    """Return the names of a folder's files, without known ones."""
    try:
        names = set(os.listdir(folder))  # noqa: PTH208 - Five times as fast.
    except FileNotFoundError:  # Not made yet, or not copied because it was empty.
        return []
    names.difference_update(known)
    return [name for name in names if (folder / name).is_file()]
