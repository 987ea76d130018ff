"""Where things lie in a dataset folder.

::

    <dataset>/
      dataset.json                 schema version, webtraj version, when, by what
      index/<writer>.jsonl         a summary line for each sealed episode
      episodes/<episode_id>.json   one whole episode each
      blobs/<2 hex>/<sha256>.<ext> screenshots and long texts, shared by steps and episodes
      journal/<episode_id>.jsonl   open episodes only
"""

from __future__ import annotations

import dataclasses
import os
import re
import time
from pathlib import Path
from typing import TypeGuard

import orjson

import webtraj
from webtraj import errors
from webtraj.collectors import files

__all__ = ["SCHEMA_VERSION", "DatasetLayout", "check_episode_id", "is_episode_id"]

SCHEMA_VERSION = 1
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

    def episode(self, episode_id: str) -> Path:
        """Returns where a sealed episode lies."""
        return self.episodes / f"{check_episode_id(episode_id)}.json"

    def journal(self, episode_id: str) -> Path:
        """Returns where an open episode's journal lies."""
        return self.journals / f"{check_episode_id(episode_id)}.jsonl"

    def sealed_episodes(self) -> set[str]:
        """Returns the ids of the episodes that have a file, in the index or not."""
        return _ids_in(self.episodes, ".json")

    def open_episodes(self) -> set[str]:
        """Returns the ids of the episodes that have a journal."""
        return _ids_in(self.journals, ".jsonl")

    def create(self) -> None:
        """Makes the folder a dataset, or checks that it is one.

        Raises:
            CollectorError: The folder cannot be written.
            NotADatasetError: It holds other things already.
            UnsupportedSchemaError: It was made by a newer webtraj.
        """
        try:
            if not self.header.exists():
                self._check_empty()
                self.root.mkdir(parents=True, exist_ok=True)
                header = {
                    "schema_version": SCHEMA_VERSION,
                    "webtraj_version": webtraj.__version__,
                    "created": time.time(),
                }
                text = orjson.dumps(header, option=orjson.OPT_INDENT_2)
                files.write_atomically(self.header, text)
            for folder in (self.episodes, self.index, self.journals, self.blobs):
                folder.mkdir(exist_ok=True)
        except OSError as error:
            raise errors.CollectorError(
                f"The dataset folder {str(self.root)!r} cannot be written: {error}. "
                "Name a folder that this user may write, on a disk with room."
            ) from error
        self.check()

    def _check_empty(self) -> None:
        # A file with a leading dot may be a dataset.json whose writer died in the middle of it.
        used = self.root.exists() and any(path.name[0] != "." for path in self.root.iterdir())
        if used and not self.header.exists():  # Another process may have made it just now.
            raise errors.NotADatasetError(
                f"The folder {str(self.root)!r} is not empty and holds no dataset.json. "
                "Name a new or empty folder, or that of a webtraj dataset."
            )

    def check(self) -> None:
        """Checks that the folder is a dataset that this version can read.

        Raises:
            NotADatasetError: It is not one.
            CorruptDataError: Its dataset.json cannot be read.
            UnsupportedSchemaError: It was made by a newer webtraj.
        """
        try:
            header = orjson.loads(self.header.read_bytes())
            version = int(header["schema_version"])
        except (FileNotFoundError, NotADirectoryError):
            raise errors.NotADatasetError(
                f"{str(self.root)!r} is no webtraj dataset: it has no dataset.json. "
                "Name the folder that a collector wrote."
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise errors.CorruptDataError(
                f"{str(self.header)!r} cannot be read: {error!r}. Expected a JSON object with the "
                "key schema_version."
            ) from error
        if version > SCHEMA_VERSION:
            raise errors.UnsupportedSchemaError(
                f"{str(self.root)!r} has schema version {version}; this webtraj "
                f"({webtraj.__version__}) reads up to {SCHEMA_VERSION}. It was written by webtraj "
                f"{header.get('webtraj_version', 'of an unknown version')}: install that or a "
                "newer one."
            )


def _ids_in(folder: Path, suffix: str) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.name.endswith(suffix)]
    except FileNotFoundError:  # Not made yet, or not copied because it was empty.
        return set()
    stems = (name.removesuffix(suffix) for name in names)
    return {stem for stem in stems if is_episode_id(stem)}
