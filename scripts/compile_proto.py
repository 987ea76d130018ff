"""Compiles the Protobuf schema: run it after changing src/webtraj/store/proto/**/trajectory.proto.

It writes trajectory_pb2.py and its stub beside the schema, and what the schema holds to
tests/golden/protobuf, by which later changes are judged. It refuses a change that would break
readers of what has been written, and then writes nothing.

protoc's own Python code refuses to run with more than one major version of the protobuf package,
though what it does is the same in all of them. What is written here does just that.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf import descriptor_pb2
from proto_compatibility import breaking_changes

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "src/webtraj/store/proto"
SCHEMA = "webtraj/v1/trajectory.proto"
MODULE = "webtraj.store.proto.webtraj.v1.trajectory_pb2"
FROZEN = ROOT / "tests/golden/protobuf/trajectory_v1.descriptor"

HEADER = '''"""The messages of trajectory.proto.

Written by scripts/compile_proto.py; not to be edited.
"""

# ruff: noqa

from google.protobuf import descriptor_pool, duration_pb2, timestamp_pb2
from google.protobuf.internal import builder

DESCRIPTOR = descriptor_pool.Default().AddSerializedFile(
'''


def compile_schema(protos: Path = PROTOS) -> tuple[descriptor_pb2.FileDescriptorProto, str]:
    """Return the schema's descriptor, and protoc's stub of its Python module."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={protos}"),
            *(f"--descriptor_set_out={folder}/set", f"--pyi_out={folder}", SCHEMA),
        ]
        subprocess.run(command, check=True)
        described = descriptor_pb2.FileDescriptorSet.FromString(Path(folder, "set").read_bytes())
        stub = Path(folder, SCHEMA.replace(".proto", "_pb2.pyi")).read_text()
    (file,) = described.file
    return without_json_names(file), stub


def without_json_names(
    file: descriptor_pb2.FileDescriptorProto,
) -> descriptor_pb2.FileDescriptorProto:
    """Return a descriptor without the names that follow from others."""
    copy = descriptor_pb2.FileDescriptorProto.FromString(file.SerializeToString())
    messages = list(copy.message_type)
    while messages:
        message = messages.pop()
        messages += message.nested_type
        for field in message.field:
            field.ClearField("json_name")
    return copy


def module_of(file: descriptor_pb2.FileDescriptorProto) -> str:
    """Return the source of the Python module."""
    data = file.SerializeToString(deterministic=True)
    lines = [f"    {data[i : i + 60]!r}" for i in range(0, len(data), 60)]
    source = HEADER + "\n".join(lines) + "\n)\n\n"
    for step in (
        "BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())",
        f'BuildTopDescriptorsAndMessages(DESCRIPTOR, "{MODULE}", globals())',
    ):
        source += f"builder.{step}\n"
    return source


def main() -> int:
    """Compile the schema, and return the exit code."""
    file, stub = compile_schema()
    if FROZEN.exists():
        old = descriptor_pb2.FileDescriptorProto.FromString(FROZEN.read_bytes())
        if changes := breaking_changes(old, file):
            lines = "".join(f"  {change}\n" for change in changes)
            sys.stderr.write(f"The schema breaks what was written with the one before:\n{lines}")
            return 1
    target = PROTOS / SCHEMA.replace(".proto", "_pb2.py")
    target.write_text(module_of(file))
    stub_file = target.with_suffix(".pyi")
    stub_file.write_text(f'# ruff: noqa\n# mypy: disable-error-code="type-arg"\n{stub}')
    command = [sys.executable, "-m", "ruff", "format", "--quiet", str(target), str(stub_file)]
    subprocess.run(command, check=True)
    FROZEN.parent.mkdir(parents=True, exist_ok=True)
    FROZEN.write_bytes(file.SerializeToString(deterministic=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
