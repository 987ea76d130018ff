"""Read `torch.save` files without torch, as plain data with numpy arrays for tensors.

A file is a zip archive (`<name>/data.pkl`, and `<name>/data/<key>` for each storage), or, before
torch 1.6, a series of pickles followed by the storages. `pickles` reads the pickles.
"""

from __future__ import annotations

import dataclasses
import io
import math
import zipfile
import zlib
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from webtraj import errors
from webtraj.datasets.importers import Limits
from webtraj.store.decoding import Budget
from webtraj.store.values import OpaqueRecord
from webtraj_formats.importers.pickles import NotPlainError, ask

__all__ = ["TORCH_NAMES", "is_torch_file", "read_torch_file"]

_ZIP_MAGIC = b"PK\x03\x04"
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
# Protocol 2, and the magic number as the first pickle: the start of every legacy file.
_LEGACY_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_LEGACY_PROTOCOL = 1001
_STORAGE = "storage"  # No class has a name without a dot.

_DTYPES = {
    "DoubleStorage": "<f8", "FloatStorage": "<f4", "HalfStorage": "<f2", "BFloat16Storage": "<u2",
    "LongStorage": "<i8", "IntStorage": "<i4", "ShortStorage": "<i2", "CharStorage": "|i1",
    "ByteStorage": "|u1", "BoolStorage": "|b1", "UntypedStorage": "|u1",
}  # fmt: skip
TORCH_NAMES = frozenset(
    {
        *(f"torch.{name}" for name in _DTYPES),
        "torch.storage.UntypedStorage",
        "torch._utils._rebuild_tensor",
        "torch._utils._rebuild_tensor_v2",
        "torch._utils._rebuild_parameter",
    }
)
"""The torch names that such a file may use."""


def is_torch_file(start: bytes) -> bool:
    """Return whether bytes start like a torch file."""
    return start.startswith((_ZIP_MAGIC, _LEGACY_START))


def read_torch_file(
    content: bytes, where: str, *, names: Collection[str] = (), limits: Limits | None = None
) -> Any:
    """Return the content of a `torch.save` file as plain data.

    Args:
        content: The whole file.
        where: Name of the file in error messages.
        names: Full names of the classes allowed in it, besides torch's own.
        limits: Limits on what the file may ask for.

    Raises:
        CorruptDataError: It is not such a file, or asks for something that is not allowed.
    """
    allowed = frozenset(names) | TORCH_NAMES
    if content.startswith(_ZIP_MAGIC):
        return _read_zip(content, where, allowed, limits or Limits())
    if content.startswith(_LEGACY_START):
        return _read_legacy(content, where, allowed, limits or Limits())
    raise errors.CorruptDataError(
        f"{where!r} is not a torch.save file: it is not a zip archive and does not start with "
        "torch's magic number."
    )


def _storage(budget: Budget, pid: Any) -> OpaqueRecord:
    """Return the storage that a persistent id names. Tensors are views of its numbers."""
    match pid:
        case ("storage", OpaqueRecord("name", {"name": name}), str(key), str(), int(count), *_):
            kind = name.rpartition(".")[2]
            if kind in _DTYPES and count >= 0:
                return OpaqueRecord(_STORAGE, {"kind": kind, "key": key, "count": count})
    raise NotPlainError(f"a persistent id is {pid!r:.100}")


@dataclasses.dataclass(frozen=True, slots=True)
class _Tensors:
    """Makes tensors from the bytes of their storages."""

    data_of: Callable[[str], bytes]

    def __call__(
        self, budget: Budget, storage: Any, offset: Any, shape: Any, strides: Any, *_: Any
    ) -> np.ndarray[Any, Any]:
        """Return a copy of the tensor."""
        sound = isinstance(storage, OpaqueRecord) and storage.type_name == _STORAGE
        if not sound or len(shape) != len(strides) or len(shape) > 32:
            raise NotPlainError("a tensor has no valid storage")
        kind, key, held = storage.fields.values()
        if not all(type(size) is int and 0 <= size < 2**40 for size in (offset, *shape, *strides)):
            raise NotPlainError("a tensor has invalid sizes")
        dtype = np.dtype(_DTYPES[kind])
        data = self.data_of(key)
        if len(data) != held * dtype.itemsize:
            raise NotPlainError(f"the storage {key!r} has the wrong size")
        count = math.prod(shape)
        if not count:  # Each row of an empty array may become an object for the reader.
            budget.take(math.prod(max(size, 1) for size in shape) * 64)
            return np.empty(shape, dtype)
        last = offset + sum(
            (size - 1) * stride for size, stride in zip(shape, strides, strict=True)
        )
        # A stride of 0 repeats numbers, so a small storage could fill the memory.
        if last >= held or count > max(held, 1):
            raise NotPlainError("a tensor reaches beyond its storage")
        # The copy, and the storage, which is read again for each tensor.
        budget.take(count * max(dtype.itemsize, 4) + len(data))
        flat = np.frombuffer(data, dtype)[offset:]
        view = np.lib.stride_tricks.as_strided(
            flat, shape, [stride * dtype.itemsize for stride in strides], writeable=False
        )
        if kind == "BFloat16Storage":  # The upper half of a 32-bit float.
            return (view.astype("<u4") << 16).view("<f4")
        return view.copy()

    @property
    def calls(self) -> dict[str, Callable[..., Any]]:
        """Return what becomes of the calls in a file."""
        return {
            "persistent": _storage,
            "torch._utils._rebuild_tensor": self,
            "torch._utils._rebuild_tensor_v2": self,
            "torch._utils._rebuild_parameter": lambda budget, data, *_: data,
        }


_NO_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    OverflowError,
)


def _read_zip(content: bytes, where: str, names: Collection[str], limits: Limits) -> Any:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            pickles = [name for name in sizes if name.endswith("/data.pkl")]
            if len(pickles) != 1:
                raise errors.CorruptDataError(
                    f"{where!r} is a zip archive, but not from torch.save: expected one data.pkl, "
                    f"found {len(pickles)}."
                )
            if sum(sizes.values()) > limits.file_bytes:
                raise errors.CorruptDataError(
                    f"{where!r} holds {sum(sizes.values()):,} bytes, more than the limit of "
                    f"{limits.file_bytes:,}."
                )
            budget = Budget(where, len(content))
            budget.take(sum(sizes.values()))
            root = pickles[0].removesuffix("data.pkl")
            order = archive.read(f"{root}byteorder") if f"{root}byteorder" in sizes else b"little"
            if order != b"little":
                raise errors.CorruptDataError(f"{where!r} is not in little-endian byte order.")

            def data_of(key: str) -> bytes:
                name = f"{root}data/{key}"
                if name not in sizes:
                    raise NotPlainError(f"the storage {key[:40]!r} is missing")
                return archive.read(name)

            answer = ask(
                archive.read(pickles[0]),
                where,
                names=names,
                limits=limits,
                budget=budget,
                persistent=True,
            )
            return answer.values(_Tensors(data_of).calls)[0]
    except errors.WebtrajError:
        raise
    except _NO_ZIP as error:
        raise errors.CorruptDataError(
            f"{where!r} is not a readable zip archive: {error}."
        ) from error


def _read_legacy(content: bytes, where: str, names: Collection[str], limits: Limits) -> Any:
    budget = Budget(where, len(content))
    answer = ask(
        content, where, names=names, limits=limits, budget=budget, count=5, persistent=True
    )
    sizes: dict[str, int] = {}

    def note(budget: Budget, pid: Any) -> Any:
        storage = _storage(budget, pid)
        size = np.dtype(_DTYPES[storage.fields["kind"]]).itemsize
        sizes.setdefault(storage.fields["key"], storage.fields["count"] * size)
        return storage

    # The first time without the tensors, whose storages come after the keys.
    magic, protocol, system, _, keys = answer.values({"persistent": note})
    little = isinstance(system, dict) and system.get("little_endian") is True
    if magic != _LEGACY_MAGIC or protocol != _LEGACY_PROTOCOL or not little:
        raise errors.CorruptDataError(
            f"{where!r} was written by an unsupported torch.save version."
        )
    storages: dict[str, bytes] = {}
    position = answer.position
    for key in keys if isinstance(keys, list) else ():
        if not isinstance(key, str) or key not in sizes:
            raise errors.CorruptDataError(f"{where!r} has a storage that nothing refers to.")
        begin = position + 8  # Skip the element count, which the persistent id has too.
        position = begin + sizes[key]
        if position > len(content):
            raise errors.CorruptDataError(f"{where!r} ends in the middle of a storage.")
        storages[key] = content[begin:position]

    def data_of(key: str) -> bytes:
        if key not in storages:
            raise NotPlainError(f"the storage {key[:40]!r} is missing")
        return storages[key]

    return answer.values(_Tensors(data_of).calls)[3]
