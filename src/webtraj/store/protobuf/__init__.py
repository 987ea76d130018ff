"""Episodes as Protobuf files: one self-contained file each, blobs included.

The schema is `webtraj/store/proto/webtraj/v1/trajectory.proto`, documented by its comments. The
formats, by file extension:

* `pb`: one `TrajectoryData` message.
* `pb.zst`: the same, compressed by Zstandard.
* `pb.xz`: the same, compressed by xz, as Orby's collector writes. Read-only.

The memory for a file is bounded before it is read: a file holds at most 2 GiB, Protobuf's own
limit, and decompresses to at most `codec.MAX_RATIO` times its size, or `codec.FLOOR` if that is
more. An episode beyond 2 GiB is not written.

`values` converts values to messages, `records` the records of `webtraj.trajectory`, `codec` whole
files; `orby` reads the files of Orby's own collector.
"""

from webtraj import errors

try:
    import google.protobuf as _protobuf
    import zstandard as _zstandard
except ImportError as error:
    raise errors.missing_dependency(
        f"Protobuf files need protobuf and zstandard ({error})", "protobuf"
    ) from error

from webtraj.store.protobuf.codec import ProtobufFormat

__all__ = ["FORMATS", "ProtobufFormat"]

del _protobuf, _zstandard

FORMATS = {name: ProtobufFormat(name) for name in ("pb", "pb.zst", "pb.xz")}
