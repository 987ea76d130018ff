"""Corrupt, cut and hostile files: typed errors, and nothing outside the dataset is touched."""

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rows import each
from webtraj import errors, open_dataset
from webtraj.datasets.recovery import rebuild, recover
from webtraj.datasets.transfer import copy
from webtraj.datasets.verification import verify
from webtraj.store.index import parse_index_file

GOLDEN = Path(__file__).parents[1] / "golden" / "v1-json"
FILES = sorted(path.relative_to(GOLDEN) for path in GOLDEN.rglob("*.*") if path.is_file())
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # Each example syncs a dozen files.
JOURNAL = GOLDEN.parent / "v1-open" / "journal" / "golden-open.jsonl"


def use(place):
    """Does with a dataset all there is to do; whatever goes wrong has to be one of our errors."""
    with contextlib.suppress(errors.WebtrajError):
        for key in open_dataset(place).episode_ids:
            with contextlib.suppress(errors.WebtrajError):
                _ = open_dataset(place)[key].total_reward
        for summary in open_dataset(place).filter(min_reward=-1.0, task="t").summaries:
            summary.to_line()
    lazily = lambda: list(open_dataset(place, blobs="lazy"))  # noqa: E731
    elsewhere = place.parent / "elsewhere"
    for do in (
        lambda: verify(place),
        lazily,
        lambda: copy(place, elsewhere),
        lambda: recover(place),
        lambda: rebuild(place),
    ):
        with contextlib.suppress(errors.WebtrajError):
            do()


@contextlib.contextmanager
def spoilt(relative, content):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        root = Path(folder)
        (root / "victim").write_bytes(b"precious")
        (root / "around").mkdir()
        place = root / "around" / "dataset"
        shutil.copytree(GOLDEN, place)
        target = place / relative
        target.parent.mkdir(exist_ok=True, parents=True)
        target.write_bytes(content)
        yield place
        assert (root / "victim").read_bytes() == b"precious"
        assert sorted(path.name for path in root.iterdir()) == ["around", "victim"]
        assert {path.name for path in (root / "around").iterdir()} <= {"dataset", "elsewhere"}


MUTATIONS = settings(max_examples=60)


@st.composite
def mutated(draw, content):
    """Draws bytes that some mishap or malice may have left of others."""
    content = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(content) - 1, 0)))
        match draw(st.integers(0, 4)):
            case 0:
                content[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case 1:
                del content[at:]
            case 2:
                del content[at : at + draw(st.integers(1, 40))]
            case 3:
                content[at:at] = draw(st.binary(max_size=20))
            case 4:
                content[at:at] = draw(st.sampled_from(NASTY))
    return bytes(content)


NASTY = [
    b"../../victim", b"[" * 500, b'{"a":' * 300, b"1" * 4000, b"-", b"1e999", b"\x00", b"\\ud800",
    b'{"$":"blob","sha256":"../../../victim","ext":"png","size":8}', b'{"$":"int","v":"0x',
    b'{"$":"ndarray","dtype":"<f8","shape":[9999999999],"v":{"$":"bytes","v":""}}',
    b'{"$":"nested","v":"[[[["}', b'{"$":"set","v":[[]]}', b'{"$":"record","type":"os.system"}',
    b"null", b'"', b"\n", b"{}", b"[]", b"true", b"18446744073709551616",
]  # fmt: skip


@pytest.mark.slow
@each("relative", FILES)
@given(data=st.data())
@MUTATIONS
def test_files_that_were_changed_are_errors_and_nothing_else(relative, data):
    content = data.draw(mutated((GOLDEN / relative).read_bytes()))
    with spoilt(relative, content) as place:
        use(place)


@given(data=st.data())
@MUTATIONS
def test_journals_that_were_changed_are_sealed_or_left(data):
    content = data.draw(mutated(JOURNAL.read_bytes()))
    with spoilt("journal/golden-open.jsonl", content) as place:
        with contextlib.suppress(errors.WebtrajError):
            report = recover(place)
            left = place / "journal" / "golden-open.jsonl"
            assert left.exists() == bool(report.unreadable)
            if left.exists():
                assert left.read_bytes() == content
        use(place)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["$", "v", "type", "x"]) | st.text(max_size=3), inner,
                      max_size=3),
    max_leaves=8,
)  # fmt: skip
FIELDS = [
    "episode_id", "task", "goal", "seed", "attempt", "outcome", "end_reason", "num_steps",
    "total_reward", "start_time", "end_time", "format", "size", "sha256", "removed", "from",
    "schema_version",
]  # fmt: skip


@given(st.dictionaries(st.sampled_from(FIELDS), json_values | st.just("golden-1-won")))
@MUTATIONS
def test_any_index_line_is_a_summary_or_passed_over(fields):
    line = orjson.dumps(fields) + b"\n"
    with contextlib.suppress(errors.UnsupportedSchemaError):
        parse_index_file(line)
    with spoilt("index/hostile.jsonl", line) as place:
        use(place)


SHA = "0" * 64
HOSTILE = {
    "ids that lead out": {"info": {"episode_id": "../../../victim"}},
    "an id that is none": {"info": {"episode_id": ["x"]}},
    "no id": {"info": {}},
    "a blob that leads out": {
        "info": {"episode_id": "h", "metadata": {"x": {
            "$": "blob", "sha256": "../../../victim", "ext": "x", "size": 8}}}},
    "a huge blob": {"info": {"episode_id": "h", "goal": {
        "$": "text", "sha256": SHA, "ext": "txt", "size": 2**62}}},
    "a huge array": {"steps": [{"index": 0, "step_type": "first", "observation": {
        "$": "ndarray", "dtype": "<f8", "shape": [2**40, 2**20], "v": {"$": "bytes", "v": ""}}}]},
    "an empty array of huge shape": {"steps": [{"index": 0, "step_type": "first", "observation": {
        "$": "ndarray", "dtype": "|S0", "shape": [2**62, 2**62], "v": {"$": "bytes", "v": ""}}}]},
    "a huge int": {"info": {"episode_id": "h", "seed": {"$": "int", "v": "0x" + "f" * 100_000}}},
    "a deep nest": {"steps": [{"index": 0, "step_type": "first", "observation":
        orjson.Fragment(b"[" * 200 + b"]" * 200)}]},
    "nests in nests": {"steps": [{"index": 0, "step_type": "first", "observation":
        {"$": "nested", "v": '{"$":"nested","v":"{\\"$\\":\\"nested\\",\\"v\\":3}"}'}}]},
    "a class that is none": {"steps": [{"index": 0, "step_type": "first", "observation":
        {"$": "record", "type": "subprocess.Popen", "fields": {"args": "touch ../victim"}}}]},
    "steps that are none": {"steps": [None, 3, "x"]},
    "rewards that are none": {"steps": [{"index": 0, "step_type": "first", "observation": 0},
        {"index": 1, "step_type": "mid", "observation": 0, "reward": {"x": ["a", None]}}]},
    "an index that is none": {"steps": [{"index": "x", "step_type": "first", "observation": 0}]},
    "times that are none": {"start_time": {"$": "float", "v": "nan"}, "end_time": "x"},
    "times beyond time": {"start_time": 1e300, "end_time": -1e300},
    "an end that is none": {"end": 3},
    "an end of others": {"end": {"reason": "bored", "outcome": ["x"]}},
    "a version that is none": {"schema_version": "1e9"},
}  # fmt: skip


@each("fields", HOSTILE.values())
def test_hostile_episodes_are_errors_or_harmless(fields):
    episode = {"schema_version": 1, "info": {"episode_id": "h"}, "start_time": 1.0,
               "end_time": 2.0, "steps": [], "end": {"reason": "closed"}, **fields}  # fmt: skip
    limit = sys.getrecursionlimit()
    with spoilt("episodes/h.json", orjson.dumps(episode)) as place:
        use(place)
        assert not [e for e in open_dataset(place).summaries if ".." in e.episode_id]
    assert sys.getrecursionlimit() == limit
