"""The spool: a folder where episodes wait to be sent to a bucket.

It is a dataset folder (see `layout`) whose header names the destination. Episodes share nothing in
it, so that each can be removed with all its files::

    <spool>/
      dataset.json                  as in any dataset, and the destination
      spool.json                    connection options of the destination: endpoint, region, ...
      journal/<episode_id>.jsonl    open episodes
      episodes/<episode_id>.json    waiting episodes; or .pb, .pb.zst
      unshared/<episode_id>/...     the blobs of one episode, open or waiting
      index/<episode_id>.jsonl      the index line of one waiting episode

An episode is waiting when it has a file and no journal. Its sender holds a lock (flock) on that
file until the episode's index line is in the bucket and its files here are removed, so any number
of processes can share a spool. The files are removed in an order that any process can resume:
blobs, the file, the index line. `spool.json` holds no credentials.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.store import files
from webtraj.store.blobs import Blob, BlobStore, blobs_of
from webtraj.store.formats import format_named
from webtraj.store.index import EpisodeSummary, IndexWriter, summarize
from webtraj.store.journal import claim
from webtraj.store.layout import DatasetHeader, DatasetLayout, is_episode_id
from webtraj.store.sealing import unshared_blobs

__all__ = [
    "STATE_VARIABLE",
    "Spool",
    "WaitingEpisode",
    "open_index",
    "spool_for",
    "spools",
]

STATE_VARIABLE = "XDG_STATE_HOME"
"""The variable that names the parent folder of default spools; else `~/.local/state`."""

# Options that may be saved on disk: none of them is a credential.
_KEPT_OPTIONS = (
    "endpoint", "region", "allow_http", "virtual_hosted_style_request", "profile",
    "skip_signature", "server_side_encryption", "sse_kms_key_id", "conditional_writes",
)  # fmt: skip
_SENT = ".sent-"


@dataclasses.dataclass(frozen=True, slots=True)
class WaitingEpisode:
    """A waiting episode, as its files describe it."""

    line: bytes
    """Its index line."""
    content: bytes
    """The bytes of its file."""
    blobs: tuple[Blob, ...]
    """The blobs that it refers to and that are not in its file."""
    store: BlobStore
    """Holds the blobs."""


class _SpoolIndex:
    """Stores each index line in its own file, named after the episode."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def append(self, summary: EpisodeSummary, *, sync: bool = False) -> None:
        """Store one line.

        Raises:
            OSError: It could not be written.
        """
        path = self._folder / f"{summary.episode_id}.jsonl"
        files.write_atomically(path, summary.to_line(), sync=sync)
        if sync:
            files.sync_folder(self._folder)

    def close(self) -> None:
        """Do nothing: no file stays open."""


def open_index(layout: DatasetLayout, header: DatasetHeader) -> _SpoolIndex | IndexWriter:
    """Return the index of a dataset or a spool, for sealed episodes."""
    return _SpoolIndex(layout.index) if header.destination else IndexWriter(layout.index)


class Spool:
    """The waiting episodes of a spool folder. Safe to share between threads."""

    def __init__(self, path: str | os.PathLike[str], format_name: str) -> None:
        """Initialize the spool without touching the disk."""
        self.layout = DatasetLayout(Path(path).absolute())
        self.format = format_name

    @property
    def path(self) -> Path:
        """The folder."""
        return self.layout.root

    @property
    def self_contained(self) -> bool:
        """Whether the episodes' files contain their blobs."""
        return format_named(self.format).self_contained

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> tuple[Spool, str]:
        """Open a spool folder; return the spool and its destination.

        Raises:
            NotADatasetError: The folder holds no dataset.
            InvalidInputError: The folder is a dataset without a destination.
            UnsupportedSchemaError: It is from a newer webtraj.
        """
        layout = DatasetLayout(Path(path))
        header = layout.check()
        layout.check_no_links()
        if not header.destination:
            raise errors.InvalidInputError(
                f"{os.fspath(path)!r} is a dataset, not a spool with episodes for a bucket. "
                "Give the spool folder that S3TrajectoryCollector printed. To send a dataset to a "
                f"bucket: {errors.command('copy', os.fspath(path), 's3://BUCKET/PREFIX')}"
            )
        return cls(path, header.format), header.destination

    def keep_options(self, options: Mapping[str, Any]) -> None:
        """Save the destination's connection options for `webtraj push`, without credentials.

        Raises:
            CollectorError: The file cannot be written.
        """
        kept = {name: options[name] for name in _KEPT_OPTIONS if options.get(name) is not None}
        content = orjson.dumps({"storage_options": kept}, option=orjson.OPT_INDENT_2)
        try:
            if kept != self.options():
                files.write_atomically(self._options_file, content)
        except OSError as error:
            raise errors.CollectorError(
                f"Cannot write {str(self._options_file)!r}: {errors.reason(error)}. "
                "Choose a spool folder that you may write to, on a disk with space."
            ) from error

    def options(self) -> dict[str, Any]:
        """Return the options saved by `keep_options`.

        Raises:
            CorruptDataError: The file cannot be read.
        """
        try:
            options = orjson.loads(self._options_file.read_bytes())["storage_options"]
            return {name: options[name] for name in _KEPT_OPTIONS if name in options}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError) as error:
            raise errors.CorruptDataError(
                f"Cannot read {str(self._options_file)!r}: {error!r:.300}. Delete it, and give "
                "endpoint and region to `webtraj push`."
            ) from error

    def list_waiting(self) -> list[str]:
        """Return the ids of the waiting episodes, in order."""
        sealed = self.layout.sealed_episodes()
        # Read in this order: an episode that had a file then and has no journal now is complete.
        unsealed = self.layout.open_episodes()
        mine = {episode_id for episode_id, name in sealed.items() if name == self.format}
        return sorted(mine - unsealed)

    def size(self, episode_id: str) -> int:
        """Return the size of an episode's files in bytes; 0 if it is gone."""
        size = 0
        with contextlib.suppress(FileNotFoundError):
            size += self._file(episode_id).stat().st_size
            with os.scandir(self.layout.unshared_folder(episode_id)) as blobs:
                size += sum(blob.stat().st_size for blob in blobs)
        return size

    def claim(self, episode_id: str) -> contextlib.ExitStack:
        """Lock an episode, so that nobody else sends it. Closing the result unlocks it.

        Raises:
            BlockingIOError: Another thread or process is sending it.
            FileNotFoundError: It is gone: another process has sent it.
        """
        path = self._file(episode_id)
        with contextlib.ExitStack() as stack:
            if not stack.enter_context(claim(path)):
                raise BlockingIOError(
                    f"The episode {episode_id!r} is being sent by another process."
                )
            if not path.exists():  # It was sent between being opened and being locked.
                raise FileNotFoundError(str(path))
            return stack.pop_all()

    def read(self, episode_id: str) -> WaitingEpisode:
        """Read an episode, checked against its index line.

        Raises:
            CorruptDataError: It was changed since it was sealed, or cannot be decoded.
            OSError: It cannot be read.
        """
        path = self._file(episode_id)
        content = path.read_bytes()
        line, sha256 = self._read_index_line(episode_id)
        if line and hashlib.sha256(content).hexdigest() != sha256:
            raise errors.CorruptDataError(
                f"{str(path)!r} was changed or damaged after it was sealed."
            )
        store = unshared_blobs(self.layout, episode_id)
        if line and self.self_contained:
            return WaitingEpisode(line, content, (), store)
        stored = format_named(self.format).decode(content, str(path))
        found = () if self.self_contained else blobs_of(stored.data)
        blobs = tuple(sorted(found, key=lambda blob: blob.sha256))
        if not line:
            summary = summarize(stored.data, content, stored.blobs or store, self.format)
            if summary.episode_id != episode_id:
                raise errors.CorruptDataError(
                    f"{str(path)!r} contains the episode {summary.episode_id!r}: it was copied or "
                    "renamed."
                )
            line = summary.to_line()
        return WaitingEpisode(line, content, blobs, store)

    def remove(self, episode_id: str) -> None:
        """Remove an episode that is in the bucket and in its index. Safe to repeat.

        Raises:
            OSError: A file cannot be removed.
        """
        blobs = self.layout.unshared_folder(episode_id)
        gone = blobs.with_name(f"{_SENT}{secrets.token_hex(8)}")
        has_blobs = True
        try:
            blobs.rename(gone)
        except FileNotFoundError:
            has_blobs = False
        self._file(episode_id).unlink(missing_ok=True)
        self._line(episode_id).unlink(missing_ok=True)
        if has_blobs:
            _remove_folder(gone)

    def tidy(self) -> None:
        """Remove leftovers of sent episodes whose sender died while removing them."""
        for folder in (self.layout.root / "unshared").glob(f"{_SENT}*"):
            _remove_folder(folder)
        for line in self.layout.index.glob("*.jsonl"):
            # The line is written after the file and removed after it.
            if is_episode_id(line.stem) and not self._file(line.stem).exists():
                line.unlink(missing_ok=True)

    def _file(self, episode_id: str) -> Path:
        return self.layout.episode(episode_id, self.format)

    def _line(self, episode_id: str) -> Path:
        return self.layout.index / f"{episode_id}.jsonl"

    def _read_index_line(self, episode_id: str) -> tuple[bytes, str]:
        """Return an episode's index line and its file's hash; both empty if unreadable."""
        try:
            line = self._line(episode_id).read_bytes()
            summary = EpisodeSummary.from_line(line)
        except (OSError, ValueError):
            return b"", ""
        matches = (summary.episode_id, summary.format) == (episode_id, self.format)
        return (line, summary.sha256) if matches else (b"", "")

    @property
    def _options_file(self) -> Path:
        return self.path / "spool.json"


def _remove_folder(folder: Path) -> None:
    """Remove the blobs of a sent episode, as far as possible. Their folder has no subfolders."""
    with contextlib.suppress(OSError):
        with os.scandir(folder) as blobs:
            for blob in list(blobs):
                os.unlink(blob)  # noqa: PTH108  (A `Path` costs twice as much.)
        folder.rmdir()


def spool_for(url: str, format_name: str, options: Mapping[str, Any]) -> Path:
    """Return the default spool folder for a destination."""
    where = "\0".join((url, str(options.get("endpoint") or ""), format_name))
    readable = re.sub(r"[^A-Za-z0-9]+", "-", url.partition("://")[2] or url).strip("-")[:60]
    digest = hashlib.sha256(where.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return _home() / f"{readable or 'bucket'}-{digest}"


def spools() -> list[Path]:
    """Return this user's default spools."""
    return sorted(path.parent for path in _home().glob("*/dataset.json"))


def _home() -> Path:
    state = os.environ.get(STATE_VARIABLE) or Path.home() / ".local" / "state"
    return Path(state) / "webtraj" / "spool"
