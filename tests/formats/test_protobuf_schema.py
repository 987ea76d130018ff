"""The compiled schema is the schema, and no change to it breaks what was written."""

import importlib
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from google.protobuf import descriptor_pb2

from rows import each
from webtraj.datasets.dataset import decode_episode
from webtraj.store.layout import format_named
from webtraj.store.proto.webtraj.v1 import trajectory_pb2 as pb

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/protobuf"
PROTOS = ROOT / "src/webtraj/store/proto"
SCHEMA = "webtraj/v1/trajectory.proto"


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        return importlib.import_module("compile_proto")


def described(data):
    return descriptor_pb2.FileDescriptorProto.FromString(data)


def frozen():
    return described((GOLDEN / "trajectory_v1.descriptor").read_bytes())


def compiled():
    file = descriptor_pb2.FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    return file


def test_what_is_compiled_is_the_schema(script):
    of_the_schema, stub = script.compile_schema()
    assert script.without_json_names(compiled()) == of_the_schema, "run scripts/compile_proto.py"
    checked_in = (PROTOS / SCHEMA.replace(".proto", "_pb2.pyi")).read_text()
    for message in of_the_schema.message_type:
        assert f"\nclass {message.name}(" in stub
        assert f"\nclass {message.name}(" in checked_in, "run scripts/compile_proto.py"


def test_the_schema_does_not_break_what_was_frozen(script):
    assert script.breaking_changes(frozen(), compiled()) == []


OLD = """
syntax = "proto3";
package p;
message A {
  reserved 4, 8 to 9;
  reserved "old";
  string a = 1;
  repeated int32 b = 2;
  optional bool c = 3;
  oneof kind { int32 d = 5; string e = 6; }
  message Inner { int32 x = 1; }
  Inner inner = 7;
  enum In { IN_UNKNOWN = 0; IN_ONE = 1; }
}
message B { A a = 1; }
enum E { E_UNKNOWN = 0; E_ONE = 1; E_TWO = 2; reserved 5; reserved "E_OLD"; }
"""


def parse(source, folder):
    (folder / "p.proto").write_text(source)
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}"]
    command += [f"--descriptor_set_out={folder}/set", "p.proto"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = descriptor_pb2.FileDescriptorSet.FromString((folder / "set").read_bytes()).file
    return file


@pytest.mark.slow
@each(("before", "after", "change"), [
        ("string a = 1;", "", "message A: field 1, a, is gone"),
        ("string a = 1;", "string a = 11;", "message A: the name a is used again, as field 11"),
        ("string a = 1;", "string z = 1;", "message A: field 1, a, has the name 'z'"),
        ("string a = 1;", "bytes a = 1;", "message A: field 1, a, has the type 12"),
        ("string a = 1;", "repeated string a = 1;", "message A: field 1, a, has the label 3"),
        ("string a = 1;", "optional string a = 1;", "field 1, a, has the proto3_optional True"),
        ("optional bool c", "bool c", "field 3, c, has the proto3_optional False"),
        ("int32 b = 2;", "int32 b = 2 [packed=false];", "field 2, b, has another packing"),
        ("Inner inner = 7;", "B inner = 7;", "field 7, inner, has the type_name '.p.B'"),
        ("oneof kind { int32 d = 5;", "int32 d = 5; oneof kind {", "field 5, d, has another oneof"),
        ("oneof kind", "oneof sort", "field 5, d, has another oneof"),
        ("{ int32 x = 1; }", "{ int64 x = 1; }", "message A.Inner: field 1, x, has the type 3"),
        ("message B { A a = 1; }", "", "message B is gone"),
        ("message B {", "message C {", "message B is gone"),
        ("reserved 4, 8 to 9;", "reserved 8 to 9;", "message A: 4 is reserved no longer"),
        ("reserved 4, 8 to 9;", "reserved 4, 8;", "message A: 9 is reserved no longer"),
        ('reserved "old";', "", "message A: old is reserved no longer"),
        ("reserved 4, 8 to 9;", "reserved 8 to 9; int32 n = 4;", "the reserved number 4 is used"),
        ('reserved "old";', "int32 old = 10;", "message A: the reserved name old is used"),
        ("E_ONE = 1;", "", "enum E: E_ONE is gone"),
        ("E_ONE = 1;", "E_ONE = 4;", "enum E: E_ONE is 4, and was 1 before"),
        ("E_ONE = 1;", "E_1 = 1;", "enum E: E_ONE is gone"),
        ("IN_ONE = 1;", "", "enum A.In: IN_ONE is gone"),
        ("enum E {", "enum F {", "enum E is gone"),
        ("reserved 5; ", "", "enum E: 5 is reserved no longer"),
        ("reserved 5;", "E_FIVE = 5;", "enum E: the reserved number 5 is used"),
        ("package p;", "package q;", "the file has the package 'q'"),
    ])  # fmt: skip
def test_every_breaking_change_is_found(before, after, change, script, tmp_path):
    source = OLD.replace(before, after)
    assert source != OLD
    found = script.breaking_changes(parse(OLD, tmp_path), parse(source, tmp_path))
    assert any(change in each for each in found), found


@each(
    ("before", "after"),
    [
        ("string a = 1;", "string a = 1; string more = 20;"),
        ("int32 d = 5;", "int32 d = 5; bytes f = 20;"),
        ("E_TWO = 2;", "E_TWO = 2; E_THREE = 3;"),
        ("message B", "message New {} message B"),
        ("reserved 4, 8 to 9;", "reserved 4, 8 to 12;"),
        ('reserved "old";', 'reserved "old", "older";'),
        ("message A {", "// Says what it is.\nmessage A {"),
    ],
)
def test_additions_break_nothing(before, after, script, tmp_path):
    source = OLD.replace(before, after)
    assert source != OLD
    assert script.breaking_changes(parse(OLD, tmp_path), parse(source, tmp_path)) == []


class TestAFileOfTheFirstVersion:
    """It was written once, and is read ever after."""

    @pytest.mark.parametrize("name", ["pb", "pb.zst", "pb.xz"])
    def test_it_holds_what_it_held(self, name):
        content = (GOLDEN / f"episode_v1.{name}").read_bytes()
        expected = (GOLDEN / "episode_v1.json").read_bytes()
        stored = format_named(name).decode(content, "golden")
        assert orjson.dumps(stored.data) == expected
        episode = decode_episode(stored.data, stored.blobs)
        assert all(s.observation["screenshot"][:3] == b"\xff\xd8\xff" for s in episode.steps)
