"""Reading what `torch.save` writes, without torch, as plain data; tensors become numpy arrays.

A file is a zip archive (`<name>/data.pkl`, and a `<name>/data/<key>` for each storage), or, from
before torch 1.6, a row of pickles with the storages behind them. Pickles are read by
`pickles`.
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
from webtraj.datasets.importers.pickles import Limits, Name, NotPlainError, RestrictedUnpickler
from webtraj.store.decoding import Budget

__all__ = ["TORCH_NAMES", "is_torch_file", "read_torch_file"]

_ZIP_MAGIC = b"PK\x03\x04"
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
# Protocol 2, and the magic number as the first pickle: what each old file begins with.
_LEGACY_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_LEGACY_PROTOCOL = 1001

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
"""The names of torch's own that such a file may ask for."""


def is_torch_file(start: bytes) -> bool:
    """Returns whether a file that begins so may be one of torch's."""
    return start.startswith((_ZIP_MAGIC, _LEGACY_START))


def read_torch_file(
    content: bytes, where: str, *, names: Collection[str] = (), limits: Limits | None = None
) -> Any:
    """Returns what a file of `torch.save` holds, as plain data.

    Args:
        content: All of the file.
        where: Names the file in errors.
        names: The full names of classes that may stand in it, torch's own left aside.
        limits: How much the file may ask for.

    Raises:
        CorruptDataError: It is no such file, or asks for what it may not have.
    """
    allowed = frozenset(names) | TORCH_NAMES
    if content.startswith(_ZIP_MAGIC):
        return _read_zip(content, where, allowed, limits or Limits())
    if content.startswith(_LEGACY_START):
        return _read_legacy(content, where, allowed, limits or Limits())
    raise errors.CorruptDataError(
        f"{where!r} is no file of torch.save: it is neither a zip archive nor begins with torch's "
        "magic number."
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Storage:
    """The numbers that tensors are views of."""

    dtype: str
    key: str
    count: int


@dataclasses.dataclass(slots=True)
class _Tensor:
    """A tensor whose storage is looked up when all has been read."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    data_of: Callable[[str], bytes]
    budget: Budget

    def resolve(self) -> np.ndarray[Any, Any]:
        """Returns a copy of the tensor."""
        dtype = np.dtype(_DTYPES[self.storage.dtype])
        data = self.data_of(self.storage.key)
        if len(data) != self.storage.count * dtype.itemsize:
            raise NotPlainError(f"the storage {self.storage.key!r} has not the size that it says")
        count = math.prod(self.shape)
        if not count:  # Even an empty row becomes an object for whoever goes through it.
            self.budget.take(math.prod(max(size, 1) for size in self.shape) * 64)
            return np.empty(self.shape, dtype)
        steps = zip(self.shape, self.strides, strict=True)
        last = self.offset + sum((size - 1) * stride for size, stride in steps)
        # A stride of 0 repeats numbers: then a small storage could fill the memory.
        if last >= self.storage.count or count > max(self.storage.count, 1):
            raise NotPlainError("a tensor reaches beyond its storage")
        # The copy, and the storage, which is read anew for each tensor.
        self.budget.take(count * max(dtype.itemsize, 4) + len(data))
        flat = np.frombuffer(data, dtype)[self.offset :]
        view = np.lib.stride_tricks.as_strided(
            flat, self.shape, [stride * dtype.itemsize for stride in self.strides], writeable=False
        )
        if self.storage.dtype == "BFloat16Storage":  # The upper half of a 32-bit float.
            return (view.astype("<u4") << 16).view("<f4")
        return view.copy()


class _TorchUnpickler(RestrictedUnpickler):
    """Knows torch's tensors, and the storages that a file's persistent ids name."""

    def __init__(self, data_of: Callable[[str], bytes], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._data_of = data_of
        self.storages: dict[str, _Storage] = {}

    def persistent_load(self, pid: Any) -> _Storage:
        """Returns the storage that a persistent id names."""
        match pid:
            case ("storage", Name(full), str(key), str(), int(count), *_) if count >= 0:
                kind = full.rpartition(".")[2]
                if kind in _DTYPES:
                    storage = _Storage(kind, key, count)
                    return self.storages.setdefault(key, storage)
        raise NotPlainError(f"a persistent id is {pid!r:.100}")

    def make(self, name: str, arguments: tuple[Any, ...], keywords: dict[Any, Any]) -> Any:
        """Returns what stands for a call of a name: for torch's own, a tensor."""
        if name == "torch._utils._rebuild_parameter" and arguments:
            return arguments[0]
        if name.startswith("torch._utils._rebuild_tensor"):
            return self._tensor(*arguments[:4])
        return super().make(name, arguments, keywords)

    def _tensor(self, storage: Any, offset: Any, shape: Any, strides: Any) -> _Tensor:
        sizes = (offset, *shape, *strides)
        if type(storage) is not _Storage or len(shape) != len(strides) or len(shape) > 32:
            raise NotPlainError("a tensor is made of no storage")
        if not all(type(size) is int and 0 <= size < 2**40 for size in sizes):
            raise NotPlainError("a tensor's sizes are wrong")
        return _Tensor(storage, offset, tuple(shape), tuple(strides), self._data_of, self.budget)


def _read_zip(content: bytes, where: str, names: Collection[str], limits: Limits) -> Any:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            pickles = [name for name in sizes if name.endswith("/data.pkl")]
            if len(pickles) != 1:
                raise errors.CorruptDataError(
                    f"{where!r} is a zip archive, but none of torch.save: it holds "
                    f"{len(pickles)} files data.pkl."
                )
            if sum(sizes.values()) > limits.file_bytes:
                raise errors.CorruptDataError(
                    f"{where!r} holds {sum(sizes.values()):,} bytes; at most "
                    f"{limits.file_bytes:,} are read."
                )
            budget = Budget(where, len(content))
            budget.take(sum(sizes.values()))
            root = pickles[0].removesuffix("data.pkl")
            order = archive.read(f"{root}byteorder") if f"{root}byteorder" in sizes else b"little"
            if order != b"little":
                raise errors.CorruptDataError(f"{where!r} has another byte order than little.")

            def data_of(key: str) -> bytes:
                name = f"{root}data/{key}"
                if name not in sizes:
                    raise NotPlainError(f"the storage {key[:40]!r} is missing")
                return archive.read(name)

            return _TorchUnpickler(
                data_of, archive.read(pickles[0]), where, names=names, limits=limits, budget=budget
            ).load()
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError) as error:
        raise errors.CorruptDataError(
            f"{where!r} is no readable zip archive: {error}. The file is damaged."
        ) from error
    except (RuntimeError, ValueError, OverflowError) as error:
        if isinstance(error, errors.WebtrajError):
            raise
        raise errors.CorruptDataError(f"{where!r} is no readable zip archive: {error}.") from error


def _read_legacy(content: bytes, where: str, names: Collection[str], limits: Limits) -> Any:
    storages: dict[str, bytes] = {}

    def data_of(key: str) -> bytes:
        if key not in storages:
            raise NotPlainError(f"the storage {key[:40]!r} is missing")
        return storages[key]

    budget = Budget(where, len(content))
    unpickler = _TorchUnpickler(data_of, content, where, names=names, limits=limits, budget=budget)
    magic, protocol, system = unpickler.load(), unpickler.load(), unpickler.load()
    little = isinstance(system, dict) and system.get("little_endian") is True
    if magic != _LEGACY_MAGIC or protocol != _LEGACY_PROTOCOL or not little:
        raise errors.CorruptDataError(f"{where!r} is of a version of torch.save that is not read.")
    made = unpickler.load_unsettled()
    keys = unpickler.load()
    position = unpickler.position
    for key in keys if isinstance(keys, list) else ():
        storage = unpickler.storages.get(key) if isinstance(key, str) else None
        if storage is None:
            raise errors.CorruptDataError(f"{where!r} has a storage that nothing in it names.")
        size = storage.count * np.dtype(_DTYPES[storage.dtype]).itemsize
        begin = position + 8  # Its number of elements, which the persistent id has told too.
        position = begin + size
        if position > len(content):
            raise errors.CorruptDataError(f"{where!r} breaks off in the middle of a storage.")
        storages[key] = content[begin:position]
    return unpickler.settle(made)
