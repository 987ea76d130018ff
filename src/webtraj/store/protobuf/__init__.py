"""Episodes as Protobuf files: one self-contained file each, blobs and all.

The schema is `webtraj/proto/webtraj/v1/trajectory.proto`, whose comments say what means what. By
the end of the file's name:

* `pb`: one `TrajectoryData` message.
* `pb.zst`: the same, compressed by Zstandard.
* `pb.xz`: the same, compressed by xz, as Orby's collector writes. For reading only.

What a file takes in memory is bounded before it is read: it holds at most 2 GiB, which is
Protobuf's own limit, and what it decompresses to at most `codec.MAX_RATIO` times its size, or
`codec.FLOOR` if that is more. An episode beyond 2 GiB is not written.

`values` has values as messages, `records` the records of `webtraj.trajectory`, `codec` whole files;
`orby` reads the files of Orby's own collector.
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
