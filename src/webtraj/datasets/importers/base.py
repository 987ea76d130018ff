"""The importer interface, and how an import runs: one episode at a time."""

from __future__ import annotations

import base64
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
from typing import Any, Literal

import numpy as np
import orjson

import webtraj
from webtraj import errors
from webtraj.datasets.dataset import encode_episode, open_dataset
from webtraj.datasets.place import Place
from webtraj.datasets.writer import DatasetWriter, MemoryBlobs
from webtraj.settings.named import check_installed, class_at, find_offered, list_names
from webtraj.store import decoding
from webtraj.store.index import EpisodeSummary
from webtraj.store.layout import HEADER
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import LAST_TIME, EpisodeTrajectory, Outcome

__all__ = [
    "ENTRY_POINT_GROUP",
    "Found",
    "IMPORTER_VERSION",
    "ImportReport",
    "Limits",
    "Problem",
    "Reader",
    "Skipped",
    "Source",
    "UNREADABLE",
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
    "problem",
    "provenance",
    "read_episodes",
    "system_names",
    "relative",
    "text_of",
    "text_of_parts",
    "time_of",
]

# An importer is a function from a source, a file or a folder, to its results in turn: an
# `EpisodeTrajectory`, a `Problem` that could not be read, or something `Skipped` and why. A problem
# never ends the import, and is always reported.
#
# An episode's id is a hash of the content that it was read from, so importing twice adds nothing.
# `EpisodeInfo.metadata["imported"]` says where it is from::
#
#     {"system": "agentlab", "file": "<path below the source>", "sha256": "...",
#      "importer_version": 2, "webtraj_version": "..."}

IMPORTER_VERSION = 2
"""Raised whenever an importer reads the same files differently."""

_IMAGE_STARTS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF")
_PART = 1 << 20
_LOOKED_AT = 20
_UNPACKED_FLOOR = 64 << 20
"""The decompressed size in bytes that even a tiny file may have."""
_DATA_URI = re.compile(r"data:image/[\w.+-]{1,20};base64,")


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read."""

    where: str
    """The file or folder, as a path below the source."""
    error: errors.WebtrajError
    """The error."""


@dataclasses.dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was left out on purpose."""

    where: str
    """The file or folder, as a path below the source."""
    why: str
    episode_id: str = ""
    """The id of the episode, if the dataset has it already."""


Found = EpisodeTrajectory | Problem | Skipped

UNREADABLE = (errors.WebtrajError, *decoding.MALFORMED)
"""The errors of reading something that does not follow its format; a `Problem` of its own."""


def problem(where: str, error: Exception) -> Problem:
    """Return the problem of something that could not be read."""
    if not isinstance(error, errors.WebtrajError):
        error = errors.CorruptDataError(
            f"{where!r} does not follow its format: {type(error).__name__}: {error!s:.200}."
        )
    return Problem(where, error)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on the content of a file: above all known files, but below a machine's memory."""

    file_bytes: int = 4 << 30
    """Bytes in a file, after decompression."""
    seconds: int = 10
    """Seconds of processor time for a file, and one more for each megabyte of it."""
    expanded: int = 50_000_000
    """Values in the result, shared ones counted each time."""
    depth: int = 100
    """Nesting depth of containers."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of an import, and its settings."""

    path: Path
    """A file or a folder."""
    have: Collection[str] = ()
    """Ids of episodes that the dataset has already; they are not read."""
    allow_classes: Collection[str] = ()
    """Full names of more classes to allow in pickles. They are never loaded."""
    descriptor: Path | None = None
    """For Orby: the file descriptor set of the messages."""
    images: Path | None = None
    """For WebGym: the folder with the screenshots."""
    limits: Limits = dataclasses.field(default_factory=Limits)
    only: Collection[str] | None = None
    """Paths below the source of the files to read; None for all."""

    @property
    def root(self) -> Path:
        """The folder that reported paths are relative to."""
        return self.path if self.path.is_dir() else self.path.parent

    def already(self, identity: str, where: str) -> Skipped | None:
        """Return a `Skipped` if the dataset already has an episode, else None."""
        if identity not in self.have:
            return None
        return Skipped(where, "it is in the dataset already", identity)

    def place(
        self, episode: EpisodeTrajectory, where: str, *, whole: bool
    ) -> EpisodeTrajectory | Skipped:
        """Return the episode to add, or a `Skipped` if the dataset has it already.

        An episode without some of its pictures gets another id. A later import that finds them adds
        the whole episode, which then counts in its place.
        """
        part = f"{episode.episode_id}-part"
        if not whole and part in self.have:
            return Skipped(
                where, "it is in the dataset already, without some of its pictures", part
            )
        if whole and part not in self.have:
            return episode
        if whole:
            info = dataclasses.replace(episode.info, retry_of=part)
        else:
            info = dataclasses.replace(episode.info, episode_id=part)
        return dataclasses.replace(episode, info=info)

    def files(self, wanted: Callable[[str], bool]) -> Iterator[Path]:
        """Yield the source file, or the folder's wanted files, sorted, without hidden folders."""
        if not self.path.is_dir():
            yield self.path
            return
        for folder, folders, names in os.walk(self.path):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
            for path in (Path(folder, name) for name in sorted(names) if wanted(name)):
                if self.only is None or relative(self.root, path) in self.only:
                    yield path

    def each(
        self, wanted: Callable[[str], bool], read: Callable[[Path, str], Iterator[Found]]
    ) -> Iterator[Found]:
        """Yield the results of reading each wanted file; an error becomes a `Problem`.

        Args:
            wanted: Whether to read a file of that name.
            read: Yields the results for a file, given its path and its name for messages.
        """
        for path in self.files(wanted):
            where = relative(self.root, path)
            try:
                yield from read(path, where)
            except UNREADABLE as error:
                yield problem(where, error)

    def read(self, path: Path) -> bytes:
        """Return a file's content.

        Raises:
            InvalidInputError: It is not a regular file, leads outside the source, or is too large.
            StorageError: It cannot be read.
        """
        where = relative(self.root, path)
        try:
            if not path.resolve().is_relative_to(self.root.resolve()):
                raise errors.InvalidInputError(
                    f"{where!r} leads outside {str(self.root)!r}, so it was not read."
                )
            state = path.stat()
            if not stat.S_ISREG(state.st_mode):
                raise errors.InvalidInputError(
                    f"{where!r} is not a regular file; it was not opened."
                )
            if state.st_size > self.limits.file_bytes:
                raise errors.InvalidInputError(
                    f"{where!r} has {state.st_size:,} bytes, more than the limit of "
                    f"{self.limits.file_bytes:,}."
                )
            return path.read_bytes()
        except (OSError, RuntimeError, ValueError) as error:
            # RuntimeError: a cycle of links. ValueError: a null byte in the name.
            if isinstance(error, errors.WebtrajError):
                raise
            raise errors.StorageError(f"Cannot read {where!r}: {error}.") from error


Reader = Callable[[Source], Iterator[Found]]


def any_readable(
    path: Path, wanted: Callable[[str], bool], read: Callable[[Source, Path], Any]
) -> bool:
    """Return whether any of the first wanted files can be read."""
    source = Source(path=path)
    for file in itertools.islice(source.files(wanted), _LOOKED_AT):
        with contextlib.suppress(errors.WebtrajError):
            read(source, file)
            return True
    return False


def relative(root: Path, path: Path) -> str:
    """Return a path relative to a root, as text; `.` for the root itself."""
    return path.relative_to(root).as_posix()


def digest(*parts: bytes) -> str:
    """Return the SHA-256 of several parts, with their boundaries."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8) + part)
    return total.hexdigest()


def episode_id(system: str, sha256: str) -> str:
    """Return the id of an episode, made from the hash of its content.

    >>> episode_id("agentlab", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
    'agentlab-9f86d081884c7d659a2feaa0c55ad015'
    """
    return f"{system}-{sha256[:32]}"


def provenance(system: str, where: str, sha256: str, **more: Any) -> dict[str, Any]:
    """Return the value of `EpisodeInfo.metadata["imported"]`."""
    return {
        "system": system,
        "file": where,
        "sha256": sha256,
        "importer_version": IMPORTER_VERSION,
        "webtraj_version": webtraj.__version__,
        **more,
    }


def gunzip(content: bytes, where: str, limit: int) -> bytes:
    """Decompress a gzip file.

    Raises:
        CorruptDataError: It is not a gzip file, is cut off, or decompresses to more than `limit`
            bytes or too many for its size.
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
            f"{where!r} is not a readable gzip file: {error}. It is damaged or cut off."
        ) from error
    if len(data) > limit:
        raise errors.CorruptDataError(
            f"{where!r} decompresses to more than {limit:,} bytes; reading stopped there."
        )
    return bytes(data)


def is_image(data: bytes) -> bool:
    """Return whether bytes start like a picture."""
    return data.startswith(_IMAGE_STARTS)


def is_nothing(value: Any) -> bool:
    """Return whether a value of any type is None or empty."""
    return value is None or (isinstance(value, (str, bytes, list, tuple, dict)) and not value)


def number(value: Any) -> float | None:
    """Return a value as a number; None if it is not a number or NaN."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return None
    return None if as_float != as_float else as_float


def time_of(value: Any) -> float | None:
    """Return a value as seconds since the epoch; None if it is not a number, or out of range."""
    seconds = number(value)
    return seconds if seconds is not None and 0 <= seconds < LAST_TIME else None


def text_of(value: Any, *names: str) -> str:
    """Return a value if it is text, else an empty text. For `names`, see `fields_of`."""
    found = _inside(value, names)
    return found if isinstance(found, str) else ""


def text_of_parts(parts: Any) -> str:
    """Return the texts in a message's parts, one per line, or the message if it is text."""
    if not isinstance(parts, (list, tuple)):
        return text_of(parts)
    return "\n".join(filter(None, (text_of(part, "text") for part in parts)))


def fields_of(value: Any, *names: str) -> Mapping[str, Any]:
    """Return the fields of an object, or a mapping unchanged; else an empty mapping.

    Args:
        value: An object, a mapping, or anything.
        names: The path to a value inside it: the name of a field, of a field of that field, ...
    """
    found = _inside(value, names)
    if isinstance(found, OpaqueRecord):
        return found.fields
    return found if isinstance(found, Mapping) else {}


def _inside(value: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        value = fields_of(value).get(name)
    return value


def outcome_of(earned: Any) -> Outcome:
    """Return the outcome for a reward: success from 1 up, unknown without a number."""
    value = number(earned)
    if value is None:
        return Outcome.UNKNOWN
    return Outcome.SUCCESS if value >= 1 else Outcome.FAILURE


def parse_json(content: bytes, where: str) -> Any:
    """Return the content of a JSON file.

    Raises:
        CorruptDataError: It is not valid JSON.
    """
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise errors.CorruptDataError(f"{where!r} is not valid JSON: {error}.") from error


def images_as_bytes(message: Any) -> Any:
    """Return a message with base64 pictures, in `data:` URIs or sources, as bytes."""
    if isinstance(message, dict):
        if message.get("type") == "base64" and isinstance(data := message.get("data"), str):
            with contextlib.suppress(ValueError):  # Not base64, or not even ASCII.
                return {**message, "data": base64.b64decode(data, validate=True)}
        return {key: images_as_bytes(value) for key, value in message.items()}
    if isinstance(message, (list, tuple)):
        return [images_as_bytes(value) for value in message]
    if isinstance(message, str) and (match := _DATA_URI.match(message)):
        try:
            return base64.b64decode(message[match.end() :], validate=True)
        except ValueError:
            return message
    return message


# Importing from a source into a dataset, one episode at a time.
#
# Each episode is added completely or not at all, under an id computed from its content. So an
# interrupted import can simply be run again.

ENTRY_POINT_GROUP = "webtraj.importers"
"""Entry points for more systems: a name for a module with `recognises` and `read`."""

_HOMES = {"orby": "webtraj.datasets.importers.orby"}
"""The modules of the built-in systems. Packages offer the others."""


def system_names() -> tuple[str, ...]:
    """Return the names of the built-in systems and those of installed packages."""
    return tuple(_all_homes())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """The result of an import."""

    system: str
    imported: tuple[EpisodeSummary, ...] = ()
    """The episodes that were added."""
    skipped: tuple[Skipped, ...] = ()
    """Items left out on purpose, with the reason."""
    problems: tuple[Problem, ...] = ()
    """Items that could not be read or stored."""


def detect(path: Path) -> str:
    """Return the name of the system that a file or folder comes from.

    Raises:
        InvalidInputError: The path does not exist, or its format is unknown.
    """
    _check_exists(path)
    for system, home in _all_homes().items():
        if class_at(home).recognises(path):
            return system
    if (path / HEADER).is_file():
        raise errors.InvalidInputError(
            f"{str(path)!r} is already a webtraj dataset, so there is nothing to import. `webtraj "
            "copy` copies datasets into one, or converts them."
        )
    names = list_names(ENTRY_POINT_GROUP, _all_homes())
    raise errors.InvalidInputError(
        f"Cannot tell which system recorded {str(path)!r}. Choose one with --from: {names}."
    )


def read_episodes(source: Source, system: str = "auto") -> Iterator[Found]:
    """Yield the episodes, problems and skipped items of a source.

    Args:
        source: The source.
        system: One of `system_names()`, or "auto" to detect it.

    Raises:
        InvalidInputError: The system is unknown, or cannot be detected.
    """
    return _reader(source.path, system)[1](source)


def iterations_of(
    path: Path, system: str = "auto"
) -> Mapping[tuple[Literal["train", "test"], int], Collection[str]]:
    """Return the files of a source by the split and iteration that they are from.

    Empty if the system has no iterations, or the files are all from one.

    Raises:
        InvalidInputError: The system is unknown, or cannot be detected.
    """
    name, _ = _reader(path, system)
    find = getattr(class_at(_all_homes()[name]), "iterations_of", None)
    found: dict[tuple[Literal["train", "test"], int], Collection[str]] = find(path) if find else {}
    return found if len(found) > 1 else {}


def import_episodes(
    source: Source,
    place: Place,
    *,
    system: str = "auto",
    format: str = "json",  # noqa: A002  (As in DatasetHeader.)
    storage_options: Mapping[str, Any] | None = None,
    on_found: Callable[[EpisodeSummary | Problem | Skipped], None] | None = None,
) -> ImportReport:
    """Add the episodes of a source to a dataset, except those that it has already.

    Args:
        source: The source; `have` is filled in.
        place: The dataset: a folder's path or a URL, new, empty or a dataset of the same format.
        system: One of `system_names()`, or "auto" to detect it.
        format: The format of the episode files; see `webtraj.store`.
        storage_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.
        on_found: Called with the result of each item, once it is known.

    Raises:
        InvalidInputError: The system or format is unknown, or the system cannot be detected.
        NotADatasetError: The place holds other files.
        StorageError: The dataset cannot be written. Fix the cause and run it again.
    """
    name, read = _reader(source.path, system)
    have = _ids(place, storage_options)
    all_done: list[EpisodeSummary | Problem | Skipped] = []
    found_here = read(dataclasses.replace(source, have=have))
    # Errors of the source as a whole are raised here, before the dataset is created.
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
        check_installed(ENTRY_POINT_GROUP, system)
        raise errors.InvalidInputError(
            f"Cannot import from the system {system!r}; expected auto or one of "
            f"{list_names(ENTRY_POINT_GROUP, homes)}."
        )
    _check_exists(path)
    name = detect(path) if system == "auto" else system
    read: Reader = class_at(homes[name]).read
    return name, read


def _check_exists(path: Path) -> None:
    if not path.exists():
        raise errors.InvalidInputError(
            f"Nothing to import at {str(path)!r}: no such file or folder. Check the path."
        )


def _all_homes() -> dict[str, str]:
    """Return the module of each system; built-in systems come first, also in `detect`."""
    return {**_HOMES, **find_offered(ENTRY_POINT_GROUP, _HOMES)}


def _ids(place: Place, storage_options: Mapping[str, Any] | None) -> set[str]:
    try:
        return set(open_dataset(place, storage_options=storage_options).episode_ids)
    except errors.NotADatasetError:  # Not created yet, or other files: the writer reports those.
        return set()


def _is_stored(writer: DatasetWriter, episode: EpisodeTrajectory) -> bool:
    """Return whether the dataset's episode with this id is the same, wherever it came from."""
    name, format_name = episode.episode_id, writer.format.name
    stored = writer.format.decode(writer.place.read_episode(name, format_name), name).data
    given = encode_episode(episode, MemoryBlobs())
    for data in (stored, given):
        if isinstance(metadata := data["info"].get("metadata"), dict):
            metadata.pop("imported", None)
    return bool(stored == given)


def _add(
    writer: DatasetWriter, episode: EpisodeTrajectory, have: set[str]
) -> EpisodeSummary | Problem | Skipped:
    imported = episode.info.metadata.get("imported")
    where = imported["file"] if isinstance(imported, Mapping) else episode.episode_id
    try:
        if episode.episode_id in have and _is_stored(writer, episode):
            return Skipped(where, "the same was found before", episode.episode_id)
        summary = writer.add(episode)
    except (
        errors.UnwritableValueError,
        errors.StorageConflictError,
        errors.InvalidInputError,
        errors.CorruptDataError,
    ) as error:  # A fault of this episode, not of the dataset.
        return Problem(where, error)
    have.add(episode.episode_id)
    return summary
