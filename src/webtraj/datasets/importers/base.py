"""What every importer gets and does, and how an import runs: one episode at a time."""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import gzip
import hashlib
import io
import itertools
import os
import re
import stat
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

import webtraj
from webtraj import errors
from webtraj.datasets.dataset import open_dataset
from webtraj.datasets.importers.pickles import Limits
from webtraj.datasets.place import Place
from webtraj.datasets.writer import DatasetWriter
from webtraj.named import class_at, offered
from webtraj.store import decoding
from webtraj.store.index import EpisodeSummary
from webtraj.store.layout import HEADER
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import EpisodeTrajectory, Outcome

__all__ = [
    "ENTRY_POINT_GROUP",
    "Found",
    "IMPORTER_VERSION",
    "ImportReport",
    "Problem",
    "Reader",
    "SYSTEMS",
    "Skipped",
    "Source",
    "any_readable",
    "detect",
    "digest",
    "episode_id",
    "fields_of",
    "gunzip",
    "images_as_bytes",
    "import_episodes",
    "is_image",
    "is_nothing",
    "number",
    "outcome_of",
    "parse_json",
    "provenance",
    "read_episodes",
    "relative",
    "text_of",
    "text_of_parts",
]

# An importer is a function from a source, a file or a folder, to what was found there, one after
# the other: an `EpisodeTrajectory`, a `Problem` with what could not be read, or what was `Skipped`
# and why. A problem never ends the import, and is never silent.
#
# An episode's id comes from the content that it was read from, so that importing twice adds nothing
# twice. Where it is from stands in `EpisodeInfo.metadata["imported"]`::
#
#     {"system": "agentlab", "file": "<path below the source>", "sha256": "...",
#      "importer_version": 1, "webtraj_version": "..."}

IMPORTER_VERSION = 1
"""Raised whenever an importer makes something else of the same files."""

_IMAGE_STARTS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF")
_PART = 1 << 20
_LOOKED_AT = 20
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


Found = EpisodeTrajectory | Problem | Skipped


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

    def each(
        self, wanted: Callable[[str], bool], read: Callable[[Path, str], Iterator[Found]]
    ) -> Iterator[Found]:
        """Yields what is found in the files that are wanted; a file's error is a problem.

        Args:
            wanted: Whether a file of that name is wanted.
            read: Yields what is found in a file, given its path and how it is told in messages.
        """
        for path in self.files(wanted):
            where = relative(self.root, path)
            try:
                yield from read(path, where)
            except errors.WebtrajError as error:
                yield Problem(where, error)

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


def any_readable(
    path: Path, wanted: Callable[[str], bool], read: Callable[[Source, Path], Any]
) -> bool:
    """Returns whether one of the first files that are wanted can be read."""
    source = Source(path=path)
    for file in itertools.islice(source.files(wanted), _LOOKED_AT):
        with contextlib.suppress(errors.WebtrajError):
            read(source, file)
            return True
    return False


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
    limit = min(limit, max(_UNPACKED_FLOOR, decoding.RATIO * len(content)))
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


def text_of_parts(parts: Any) -> str:
    """Returns the texts in the parts of a message, a line each, or the message if it is text."""
    if not isinstance(parts, (list, tuple)):
        return text_of(parts)
    return "\n".join(filter(None, (text_of(fields_of(part).get("text")) for part in parts)))


def fields_of(value: Any) -> Mapping[str, Any]:
    """Returns the fields of an object, or a mapping as it is; of anything else none."""
    if isinstance(value, OpaqueRecord):
        return value.fields
    return value if isinstance(value, Mapping) else {}


def outcome_of(earned: Any) -> Outcome:
    """Returns what a reward says: a success is worth 1 or more, and without one nobody knows."""
    value = number(earned)
    if value is None:
        return Outcome.UNKNOWN
    return Outcome.SUCCESS if value >= 1 else Outcome.FAILURE


def parse_json(content: bytes, where: str) -> Any:
    """Returns what a JSON file holds.

    Raises:
        CorruptDataError: It is none.
    """
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise errors.CorruptDataError(f"{where!r} is no JSON: {error}.") from error


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


# Importing: from a source to a dataset, one episode at a time.
#
# Each episode is in the dataset whole or not at all, and under an id that its content gives it. So
# an import that was interrupted is simply run again.

ENTRY_POINT_GROUP = "webtraj.importers"
"""Installed packages offer more systems: a name for a module with `recognises` and `read`."""

_HOMES = {
    "agentlab": "webtraj.datasets.importers.agentlab",
    "webgym": "webtraj.datasets.importers.webgym",
    "orby": "webtraj.datasets.importers.orby",
    "miniwob-demos": "webtraj.datasets.importers.miniwob_demos",
    "atif": "webtraj.datasets.importers.atif",
}
SYSTEMS = tuple(_HOMES)
"""The names of the systems that can be imported from."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did."""

    system: str
    imported: tuple[EpisodeSummary, ...] = ()
    """The episodes that it added."""
    skipped: tuple[Skipped, ...] = ()
    """What was left out on purpose, and why."""
    problems: tuple[Problem, ...] = ()
    """What could not be read, or not be kept."""


def detect(path: Path) -> str:
    """Returns the name of the system that a file or folder comes from.

    Raises:
        InvalidInputError: There is none such, or it comes from none that is known.
    """
    if not path.exists():
        raise errors.InvalidInputError(
            f"Nothing to import at {str(path)!r}: no such file or folder. Check the path."
        )
    for system, home in _all_homes().items():
        if class_at(home).recognises(path):
            return system
    if (path / HEADER).is_file():
        raise errors.InvalidInputError(
            f"{str(path)!r} is a webtraj dataset already. `webtraj copy`, `convert` and `merge` "
            "bring it elsewhere."
        )
    raise errors.InvalidInputError(
        f"Cannot tell which system recorded {str(path)!r}; expected experiment folders of AgentLab "
        "or BrowserGym, WebGym's .pt files, Orby's .pb files, demonstrations of MiniWoB++, or "
        "ATIF. Choose one with --from agentlab, webgym, orby, miniwob-demos or atif."
    )


def read_episodes(source: Source, system: str = "auto") -> Iterator[Found]:
    """Yields what a source holds: episodes, problems, and what was skipped.

    Args:
        source: What to read.
        system: One of `SYSTEMS` or of an installed package, or "auto" to find out.

    Raises:
        InvalidInputError: There is no such system, or the source comes from none that is known.
    """
    return _reader(source.path, system)[1](source)


def import_episodes(
    source: Source,
    place: Place,
    *,
    system: str = "auto",
    format: str = "json",  # noqa: A002  (As in DatasetHeader.)
    storage_options: Mapping[str, Any] | None = None,
    on_found: Callable[[EpisodeSummary | Problem | Skipped], None] | None = None,
) -> ImportReport:
    """Adds the episodes of a source to a dataset. Adds nothing that is there already.

    Args:
        source: What to import; `have` is found out.
        place: The dataset: a folder's path or a URL, new, empty or a dataset of the same format.
        system: One of `SYSTEMS` or of an installed package, or "auto" to find out.
        format: The format of the episodes' files; `webtraj.store` lists them.
        storage_options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.
        on_found: Called with what becomes of each thing that is found, when it has.

    Raises:
        InvalidInputError: There is no such system or format, or the source comes from none that is
            known.
        NotADatasetError: The place holds other things.
        StorageError: The dataset cannot be written. Run it again once that is mended.
    """
    name, read = _reader(source.path, system)
    have = _ids(place, storage_options)
    all_done: list[EpisodeSummary | Problem | Skipped] = []
    found_here = read(dataclasses.replace(source, have=have))
    # What is wrong with the source altogether shows now, before there is a dataset.
    first = next(found_here, None)
    with DatasetWriter(place, format=format, storage_options=storage_options) as writer:
        for found in itertools.chain(() if first is None else (first,), found_here):
            done = _add(writer, found, have) if isinstance(found, EpisodeTrajectory) else found
            all_done.append(done)
            if on_found is not None:
                on_found(done)
    return ImportReport(
        system=name,
        imported=tuple(done for done in all_done if isinstance(done, EpisodeSummary)),
        skipped=tuple(done for done in all_done if isinstance(done, Skipped)),
        problems=tuple(done for done in all_done if isinstance(done, Problem)),
    )


def _reader(path: Path, system: str) -> tuple[str, Reader]:
    homes = _all_homes()
    if system != "auto" and system not in homes:
        raise errors.InvalidInputError(
            f"Cannot import from the system {system!r}; expected auto or one of {', '.join(homes)}."
        )
    if not path.exists():
        raise errors.InvalidInputError(
            f"Nothing to import at {str(path)!r}: no such file or folder. Check the path."
        )
    name = detect(path) if system == "auto" else system
    read: Reader = class_at(homes[name]).read
    return name, read


def _all_homes() -> dict[str, str]:
    """Return the module of each system: those that ship first, which `detect` asks first."""
    others = offered(ENTRY_POINT_GROUP)
    return {**_HOMES, **{name: home for name, home in others.items() if name not in _HOMES}}


def _ids(place: Place, storage_options: Mapping[str, Any] | None) -> set[str]:
    try:
        return set(open_dataset(place, storage_options=storage_options).episode_ids)
    except errors.NotADatasetError:  # Not made yet; if it holds other things, the writer says so.
        return set()


def _add(
    writer: DatasetWriter, episode: EpisodeTrajectory, have: set[str]
) -> EpisodeSummary | Problem | Skipped:
    imported = episode.info.metadata.get("imported")
    where = imported["file"] if isinstance(imported, Mapping) else episode.episode_id
    if episode.episode_id in have:
        return Skipped(where, "the same was found before", episode.episode_id)
    try:
        summary = writer.add(episode)
    except (
        errors.UnwritableValueError,
        errors.StorageConflictError,
        errors.InvalidInputError,
        errors.CorruptDataError,
    ) as error:  # This episode's fault, not the dataset's.
        return Problem(where, error)
    have.add(episode.episode_id)
    return summary
