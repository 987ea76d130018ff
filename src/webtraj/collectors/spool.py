"""The spool: a folder where episodes wait until they are in a bucket.

It is a dataset folder (see `layout`) whose header names the destination. So that an episode can
leave with all that is its own, nothing in it is shared::

    <spool>/
      dataset.json                  as in any dataset, and the destination
      spool.json                    how the destination is reached: endpoint, region, ...
      journal/<episode_id>.jsonl    open episodes
      episodes/<episode_id>.json    episodes that wait; or .pb, .pb.zst
      unshared/<episode_id>/...     the blobs of one episode, open or waiting
      index/<episode_id>.jsonl      the index line of one episode that waits

An episode waits when it has a file and no journal. Who sends it holds a lock (flock) on that file
until the episode's index line is in the bucket and its files here are removed, so that any number
of processes may share a spool. They are removed in an order that any of them can take up: blobs,
the file, the index line. `spool.json` holds no credentials.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.store import files
from webtraj.store.blobs import Blob, BlobStore, blobs_of
from webtraj.store.index import EpisodeSummary, IndexWriter, summarize
from webtraj.store.journal import claim
from webtraj.store.layout import DatasetHeader, DatasetLayout, format_named, is_episode_id
from webtraj.store.sealing import unshared_blobs

__all__ = [
    "STATE_VARIABLE",
    "Claim",
    "Spool",
    "WaitingEpisode",
    "open_index",
    "spool_for",
    "spools",
]

STATE_VARIABLE = "XDG_STATE_HOME"
"""Names the folder under which spools lie that were given no folder; else `~/.local/state`."""

# What may be kept on disk; a credential is in none of these.
_KEPT_OPTIONS = (
    "endpoint", "region", "allow_http", "virtual_hosted_style", "profile", "anonymous", "sse",
    "sse_kms_key_id", "conditional_writes",
)  # fmt: skip
_SENT = ".sent-"


@dataclasses.dataclass(frozen=True, slots=True)
class WaitingEpisode:
    """An episode that waits, as its files say."""

    summary: EpisodeSummary
    content: bytes
    """All of its file."""
    blobs: tuple[Blob, ...]
    """The blobs that it refers to, and that its file does not hold."""


class Claim:
    """A hold on an episode that waits: nobody else sends it meanwhile."""

    def __init__(self, held: contextlib.ExitStack) -> None:
        self._held = held

    def release(self) -> None:
        """Lets go of it. Idempotent."""
        self._held.close()


class _SpoolIndex:
    """Keeps each index line in a file of its own, named after the episode."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def append(self, summary: EpisodeSummary, *, sync: bool = False) -> None:
        """Keeps one line.

        Raises:
            OSError: It could not be written.
        """
        path = self._folder / f"{summary.episode_id}.jsonl"
        files.write_atomically(path, summary.to_line(), sync=sync)
        if sync:
            files.sync_folder(self._folder)

    def close(self) -> None:
        """Does nothing: no file is kept open."""


def open_index(layout: DatasetLayout, header: DatasetHeader) -> _SpoolIndex | IndexWriter:
    """Returns where the index lines of a dataset's, or a spool's, sealed episodes go."""
    return _SpoolIndex(layout.index) if header.destination else IndexWriter(layout.index)


class Spool:
    """The episodes of a spool folder that wait. Safe to share between threads."""

    def __init__(self, path: str | os.PathLike[str], format_name: str) -> None:
        """Initializes the spool; touches nothing."""
        self.layout = DatasetLayout(Path(path).absolute())
        self.format = format_name

    @property
    def path(self) -> Path:
        """The folder."""
        return self.layout.root

    @property
    def self_contained(self) -> bool:
        """Whether the episodes' files hold their blobs."""
        return format_named(self.format).self_contained

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> tuple[Spool, str]:
        """Returns the spool that a folder is, and its destination.

        Raises:
            NotADatasetError: The folder holds no dataset.
            InvalidInputError: Its episodes go nowhere: it is a dataset.
            UnsupportedSchemaError: It was made by a newer webtraj.
        """
        layout = DatasetLayout(Path(path))
        header = layout.check()
        layout.check_no_links()
        if not header.destination:
            raise errors.InvalidInputError(
                f"{os.fspath(path)!r} is a dataset, and no spool whose episodes go to a bucket. "
                "Name the spool folder that S3TrajectoryCollector said."
            )
        return cls(path, header.format), header.destination

    def keep_options(self, options: Mapping[str, Any]) -> None:
        """Keeps how the destination is reached, for `webtraj push`; passes credentials over.

        Raises:
            CollectorError: It cannot be written.
        """
        kept = {name: options[name] for name in _KEPT_OPTIONS if options.get(name) is not None}
        content = orjson.dumps({"storage_options": kept}, option=orjson.OPT_INDENT_2)
        try:
            if kept != self.options():
                files.write_atomically(self._options_file, content)
        except OSError as error:
            raise errors.CollectorError(
                f"{str(self._options_file)!r} cannot be written: {error}. "
                "Name a spool folder that this user may write, on a disk with room."
            ) from error

    def options(self) -> dict[str, Any]:
        """Returns what `keep_options` kept.

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
                f"{str(self._options_file)!r} cannot be read: {error!r:.300}. Delete it, and give "
                "endpoint and region to `webtraj push`."
            ) from error

    def waiting(self) -> list[str]:
        """Returns the ids of the episodes that wait, in order."""
        sealed = self.layout.sealed_episodes()
        # Read in this order: what had its file then, and has no journal now, is complete.
        unsealed = self.layout.open_episodes()
        mine = {episode_id for episode_id, name in sealed.items() if name == self.format}
        return sorted(mine - unsealed)

    def size(self, episode_id: str) -> int:
        """Returns how many bytes an episode takes here; 0 once it is gone."""
        path = self._file(episode_id)
        sizes = [path.stat().st_size] if path.exists() else []
        for folder, _, names in os.walk(self.layout.unshared(episode_id)):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    sizes.append((Path(folder) / name).stat().st_size)
        return sum(sizes)

    def claim(self, episode_id: str) -> Claim | None:
        """Takes hold of an episode; None if another does already.

        Raises:
            FileNotFoundError: It is gone: another has sent it.
        """
        path = self._file(episode_id)
        with contextlib.ExitStack() as stack:
            if not stack.enter_context(claim(path)):
                return None
            if not path.exists():  # It was sent between being opened and being locked.
                raise FileNotFoundError(str(path))
            return Claim(stack.pop_all())

    def read(self, episode_id: str) -> WaitingEpisode:
        """Reads an episode, checked against its index line.

        Raises:
            CorruptDataError: It is not what was sealed, or cannot be read.
            OSError: It cannot be read.
        """
        path = self._file(episode_id)
        content = path.read_bytes()
        episode_format = format_named(self.format)
        summary = self._indexed(episode_id)
        if summary is not None and hashlib.sha256(content).hexdigest() != summary.sha256:
            raise errors.CorruptDataError(
                f"{str(path)!r} is not what was sealed: it was changed or damaged since."
            )
        if summary is not None and episode_format.self_contained:
            return WaitingEpisode(summary, content, ())
        stored = episode_format.decode(content, str(path))
        store = self.blobs(episode_id)
        blobs = () if episode_format.self_contained else _in_order(blobs_of(stored.data))
        if summary is None:
            summary = summarize(stored.data, content, stored.blobs or store, self.format)
            if summary.episode_id != episode_id:
                raise errors.CorruptDataError(
                    f"{str(path)!r} holds the episode {summary.episode_id!r}: it was copied or "
                    "renamed."
                )
        return WaitingEpisode(summary, content, blobs)

    def blobs(self, episode_id: str) -> BlobStore:
        """Returns where the blobs of an episode lie."""
        return unshared_blobs(self.layout, episode_id)

    def remove(self, episode_id: str) -> None:
        """Removes an episode that is in the bucket, and in its index. Safe to repeat.

        Raises:
            OSError: Something cannot be removed.
        """
        blobs = self.layout.unshared(episode_id)
        gone = blobs.with_name(f"{_SENT}{secrets.token_hex(8)}")
        with contextlib.suppress(FileNotFoundError):
            blobs.rename(gone)
        self._file(episode_id).unlink(missing_ok=True)
        self._line(episode_id).unlink(missing_ok=True)
        shutil.rmtree(gone, ignore_errors=True)

    def tidy(self) -> None:
        """Removes what is left of episodes that were sent by a process which died just then."""
        for folder in (self.layout.root / "unshared").glob(f"{_SENT}*"):
            shutil.rmtree(folder, ignore_errors=True)
        for line in self.layout.index.glob("*.jsonl"):
            # A line comes after its file, and goes after it.
            if is_episode_id(line.stem) and not self._file(line.stem).exists():
                line.unlink(missing_ok=True)

    def _file(self, episode_id: str) -> Path:
        return self.layout.episode(episode_id, self.format)

    def _line(self, episode_id: str) -> Path:
        return self.layout.index / f"{episode_id}.jsonl"

    def _indexed(self, episode_id: str) -> EpisodeSummary | None:
        try:
            summary = EpisodeSummary.from_line(self._line(episode_id).read_bytes())
        except (OSError, ValueError):
            return None
        matches = (summary.episode_id, summary.format) == (episode_id, self.format)
        return summary if matches else None

    @property
    def _options_file(self) -> Path:
        return self.path / "spool.json"


def spool_for(url: str, format_name: str, options: Mapping[str, Any]) -> Path:
    """Returns the folder where episodes for a place are spooled unless another is named."""
    where = "\0".join((url, str(options.get("endpoint") or ""), format_name))
    readable = re.sub(r"[^A-Za-z0-9]+", "-", url.partition("://")[2] or url).strip("-")[:60]
    digest = hashlib.sha256(where.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return _home() / f"{readable or 'bucket'}-{digest}"


def spools() -> list[Path]:
    """Returns the spools of this user that were given no folder of their own."""
    return sorted(path.parent for path in _home().glob("*/dataset.json"))


def _home() -> Path:
    state = os.environ.get(STATE_VARIABLE) or Path.home() / ".local" / "state"
    return Path(state) / "webtraj" / "spool"


def _in_order(blobs: Iterable[Blob]) -> tuple[Blob, ...]:
    return tuple(sorted(blobs, key=lambda blob: blob.sha256))
