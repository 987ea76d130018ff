"""What every importer does: read files from elsewhere with care, and say where an episode is from.

An importer is a function from a source, a file or a folder, to what was found there, one after the
other: an `EpisodeTrajectory`, a `Problem` with what could not be read, or what was `Skipped` and
why. A problem never ends the import, and is never silent.

An episode's id comes from the content that it was read from, so that importing twice adds nothing
twice. Where it is from stands in `EpisodeInfo.metadata["imported"]`::

    {"system": "agentlab", "file": "<path below the source>", "sha256": "...",
     "importer_version": 1, "webtraj_version": "..."}
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import gzip
import hashlib
import io
import os
import re
import stat
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import webtraj
from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.datasets.importers.restricted_pickle import Limits
from webtraj.store import budget

__all__ = [
    "IMPORTER_VERSION",
    "Found",
    "Problem",
    "Reader",
    "Skipped",
    "Source",
    "digest",
    "episode_id",
    "gunzip",
    "images_as_bytes",
    "is_image",
    "is_nothing",
    "number",
    "provenance",
    "relative",
    "text_of",
]

IMPORTER_VERSION = 1
"""Raised whenever an importer makes something else of the same files."""

_IMAGE_STARTS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF")
_PART = 1 << 20
_UNPACKED_FLOOR = 64 << 20
"""Bytes that even a tiny file may decompress to."""
_DATA_URI = re.compile(r"data:image/[\w.+-]{1,20};base64,")


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read."""

    where: str
    """The file or folder, as a path below the source."""
    error: errors.WebtrajError
    """What was wrong."""


@dataclasses.dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was left out on purpose."""

    where: str
    """The file or folder, as a path below the source."""
    why: str
    episode_id: str = ""
    """The id of the episode that is in the dataset already, if that is why."""


Found = trajectory_lib.EpisodeTrajectory | Problem | Skipped


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What to import, and how."""

    path: Path
    """A file or a folder."""
    have: Collection[str] = ()
    """Ids of episodes that are in the dataset already, and need not be read."""
    allow_classes: Collection[str] = ()
    """Full names of further classes whose objects may stand in pickles. They are not loaded."""
    descriptor: Path | None = None
    """For Orby: the file descriptor set of their messages."""
    images: Path | None = None
    """For WebGym: the folder that paths of screenshots are looked up in."""
    limits: Limits = dataclasses.field(default_factory=Limits)

    @property
    def root(self) -> Path:
        """The folder that paths are told relative to."""
        return self.path if self.path.is_dir() else self.path.parent

    def already(self, identity: str, where: str) -> Skipped | None:
        """Returns what to say of an episode that is in the dataset already; None if it is not."""
        if identity not in self.have:
            return None
        return Skipped(where, "it is in the dataset already", identity)

    def files(self, wanted: Callable[[str], bool]) -> Iterator[Path]:
        """Yields the files whose names are wanted, or the source itself; in order, hidden not."""
        if not self.path.is_dir():
            yield self.path
            return
        for folder, folders, names in os.walk(self.path):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
            yield from (Path(folder, name) for name in sorted(names) if wanted(name))

    def read(self, path: Path) -> bytes:
        """Returns a file's content.

        Raises:
            InvalidInputError: It is no plain file, leads out of the source, or is too large.
            StorageError: It cannot be read.
        """
        where = relative(self.root, path)
        try:
            if not path.resolve().is_relative_to(self.root.resolve()):
                raise errors.InvalidInputError(
                    f"{where!r} leads out of {str(self.root)!r}; only what lies in there is read."
                )
            state = path.stat()
            if not stat.S_ISREG(state.st_mode):
                raise errors.InvalidInputError(f"{where!r} is no plain file; it was not opened.")
            if state.st_size > self.limits.file_bytes:
                raise errors.InvalidInputError(
                    f"{where!r} has {state.st_size:,} bytes; at most "
                    f"{self.limits.file_bytes:,} are read."
                )
            return path.read_bytes()
        except (OSError, RuntimeError, ValueError) as error:
            # RuntimeError: links that lead in a circle. ValueError: a zero byte in the name.
            if isinstance(error, errors.WebtrajError):
                raise
            raise errors.StorageError(f"{where!r} cannot be read: {error}.") from error


Reader = Callable[[Source], Iterator[Found]]


def relative(root: Path, path: Path) -> str:
    """Returns a path below a root as text; `.` for the root itself."""
    return path.relative_to(root).as_posix()


def digest(*parts: bytes) -> str:
    """Returns the SHA-256 of parts, each of them apart from the next."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8) + part)
    return total.hexdigest()


def episode_id(system: str, sha256: str) -> str:
    """Returns the id of an episode that was read from content of that hash.

    >>> episode_id("agentlab", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
    'agentlab-9f86d081884c7d659a2feaa0c55ad015'
    """
    return f"{system}-{sha256[:32]}"


def provenance(system: str, where: str, sha256: str, **more: Any) -> dict[str, Any]:
    """Returns what `EpisodeInfo.metadata["imported"]` says."""
    return {
        "system": system,
        "file": where,
        "sha256": sha256,
        "importer_version": IMPORTER_VERSION,
        "webtraj_version": webtraj.__version__,
        **more,
    }


def gunzip(content: bytes, where: str, limit: int) -> bytes:
    """Return what a gzip file holds.

    Raises:
        CorruptDataError: It is none, is cut off, or holds more than `limit` bytes, or more than a
            file of its size may.
    """
    limit = min(limit, max(_UNPACKED_FLOOR, budget.RATIO * len(content)))
    data = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            while len(data) <= limit and (part := file.read(_PART)):
                data += part
        if not content:
            raise EOFError("it is empty")
    except (OSError, EOFError, zlib.error) as error:
        raise errors.CorruptDataError(
            f"{where!r} is no readable gzip file: {error}. It is damaged or cut off."
        ) from error
    if len(data) > limit:
        raise errors.CorruptDataError(
            f"{where!r} decompresses to more than {limit:,} bytes; it was not read further."
        )
    return bytes(data)


def is_image(data: bytes) -> bool:
    """Returns whether bytes are a picture's, by how they begin."""
    return data.startswith(_IMAGE_STARTS)


def is_nothing(value: Any) -> bool:
    """Returns whether a value is None or empty, whatever else it may be."""
    return value is None or (isinstance(value, (str, bytes, list, tuple, dict)) and not value)


def number(value: Any) -> float | None:
    """Returns a value as a number; None if it is none, NaN included."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return None
    return None if as_float != as_float else as_float


def text_of(value: Any) -> str:
    """Returns a value if it is text, else none."""
    return value if isinstance(value, str) else ""


def images_as_bytes(message: Any) -> Any:
    """Returns a message with the bytes of its pictures in the place of `data:` URIs."""
    if isinstance(message, dict):
        return {key: images_as_bytes(value) for key, value in message.items()}
    if isinstance(message, (list, tuple)):
        return [images_as_bytes(value) for value in message]
    if isinstance(message, str) and (match := _DATA_URI.match(message)):
        try:
            return base64.b64decode(message[match.end() :], validate=True)
        except binascii.Error:
            return message
    return message
