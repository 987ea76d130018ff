"""Values of any environment as plain JSON data, without loss.

What JSON has, stays as it is. Everything else becomes an object with the key `$` that names its
kind::

    {"$": "float", "v": "nan"}                         NaN and infinities
    {"$": "int", "v": "0x10000000000000000"}           integers beyond 64 bits
    {"$": "str", "v": "<base64 of surrogatepass utf-8>"}   text with lone surrogates
    {"$": "bytes", "v": "<base64>"}                    short bytes
    {"$": "blob", "sha256": "...", "ext": "jpg", "size": 1234}   long bytes, kept beside the record
    {"$": "text", "sha256": "...", "ext": "txt", "size": 1234}   long text, likewise
    {"$": "tuple" | "set" | "frozenset", "v": [...]}
    {"$": "dict", "v": [[key, value], ...]}            a mapping with keys JSON lacks, or a `$` key
    {"$": "ndarray", "dtype": "<f4", "shape": [2, 3], "v": bytes or blob}   C order
    {"$": "ndarray", "dtype": "object", "shape": [2], "v": [...]}
                                                       other dtypes: see `dtypes`
    {"$": "scalar", "dtype": "<f4", "v": ...}          a numpy scalar
    {"$": "complex", "v": [re, im]}
    {"$": "datetime" | "date" | "time", "v": "2026-11-20T12:00:00+00:00"}
    {"$": "timedelta", "v": [days, seconds, microseconds]}
    {"$": "decimal" | "uuid", "v": "0.10"}
    {"$": "range", "v": [start, stop, step]}
    {"$": "path", "flavour": "posix" | "windows", "v": "/runs/x"}
    {"$": "enum", "type": name, "member": name, "v": value}
    {"$": "record", "type": name, "fields": {...}}     a dataclass, see `record_types`
    {"$": "namedtuple", "type": name, "fields": {...}}
    {"$": "nested", "v": "<JSON text>"}                what lies too deep for a JSON parser
    {"$": "unwritable", "type": name, "repr": "...", "reason": "..."}
                                                       a value of which only the repr is kept

A subclass of a builtin or of an array, a bytearray or a memoryview comes back as its base; a
dataclass, enum or named tuple whose class is not registered as `OpaqueRecord`, as its value, or as
another named tuple. Should such a stand-in not do as a key of a dict or an item of a set, all of
that comes back as an `OpaqueRecord` with `items`.

A value of another class is kept as what `webtraj.store.foreign` makes of it: a pydantic
model as the dict of its `model_dump`, an attrs object as a record, a tensor as an array, an image
as PNG bytes, a path as a pure one. What nothing is known of comes back as a `ReprOnly`, and so does
what contains itself, raises when it is looked at, or has more than 8 million items or about 2 GB.
Writing never fails for a value's sake.
"""

from webtraj.store.blob import Blob, BlobSink, BlobSource
from webtraj.store.decoding import decode
from webtraj.store.encoding import Encoder, dumps

__all__ = ["Blob", "BlobSink", "BlobSource", "Encoder", "decode", "dumps"]
