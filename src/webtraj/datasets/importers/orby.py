"""Trajectories of Orby's collector: `.pb`, `.pb.xz` and `.pb.zst` files, one episode each.

Orby's field numbers are not public, so their files need their schema: a serialized
FileDescriptorSet (`Source.descriptor`), as made by `protoc --include_imports --descriptor_set_out`.
Without one, webtraj's own schema is used. See `webtraj.store.protobuf.orby`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from webtraj import errors
from webtraj.datasets.importers import base
from webtraj.datasets.importers.base import Found, Source

__all__ = ["read", "recognises"]

SYSTEM = "orby"
_ENDS = (".pb", ".pb.xz", ".pb.zst")


def recognises(path: Path) -> bool:
    """Return whether a file has a trajectory's name, or a folder holds such files."""
    found = next(Source(path=path).files(_is_wanted), None)
    return found is not None and _is_wanted(found.name)


def read(source: Source) -> Iterator[Found]:
    """Yield the episode of a file, or of each file in a folder.

    Raises:
        InvalidInputError: The schema cannot be read.
        MissingDependencyError: Protobuf is not installed.
    """
    from webtraj.store.protobuf.orby import read_orby

    descriptor = None
    if source.descriptor is not None:
        try:
            descriptor = source.descriptor.read_bytes()
        except OSError as error:
            raise errors.InvalidInputError(
                f"Cannot read the schema {str(source.descriptor)!r}: {error.strerror}. Name a "
                "FileDescriptorSet made by protoc --include_imports --descriptor_set_out."
            ) from error

    def read_file(path: Path, where: str) -> Iterator[Found]:
        content = source.read(path)
        episode = read_orby(content, where, descriptor_set=descriptor)
        imported = base.provenance(SYSTEM, where, base.digest(content))
        metadata = {**episode.info.metadata, "imported": imported}
        info = dataclasses.replace(episode.info, metadata=metadata)
        yield dataclasses.replace(episode, info=info)

    yield from source.each(_is_wanted, read_file)


def _is_wanted(name: str) -> bool:
    return name.endswith(_ENDS)
