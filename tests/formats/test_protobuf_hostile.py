"""Files that were damaged, or made to do harm, give a typed error and take little memory."""

import contextlib
import lzma
import random
import tracemalloc
import zlib

import orjson
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_episodes import browser_episode, data_of

from rows import each
from webtraj import errors
from webtraj.datasets.dataset import decode_episode
from webtraj.store.blobs import blobs_of
from webtraj.store.formats import format_named
from webtraj.store.proto.webtraj.v1 import trajectory_pb2 as pb
from webtraj.store.protobuf import codec
from webtraj.store.protobuf.orby import read_orby

FUZZ = settings(deadline=None, max_examples=400)
DATA, BLOBS = data_of(browser_episode(1, shot_bytes=1100))
PLAIN = format_named("pb").encode(DATA, BLOBS)
FILES = {
    "pb": PLAIN,
    "pb.zst": format_named("pb.zst").encode(DATA, BLOBS),
    "pb.xz": lzma.compress(PLAIN),
}


def decode(content, name="pb"):
    return format_named(name).decode(content, "the file")


def read_all(content, name):
    """Reads all of a file, or finds that it cannot, by an error of its own."""
    with contextlib.suppress(errors.CorruptDataError, errors.UnsupportedSchemaError):
        stored = decode(content, name)
        orjson.dumps(stored.data)
        for blob in blobs_of(stored.data):
            stored.blobs.read(blob)
        decode_episode(stored.data, stored.blobs)
    with contextlib.suppress(errors.CorruptDataError, errors.UnsupportedSchemaError):
        read_orby(content, "the file")


def message():
    return pb.TrajectoryData.FromString(PLAIN)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_breaks_off_anywhere(name):
    content = FILES[name]
    rng = random.Random(0)
    for length in [0, 1, 2, len(content) - 1, *(rng.randrange(len(content)) for _ in range(150))]:
        with pytest.raises(errors.CorruptDataError, match="the file"):
            decode(content[:length], name)


@pytest.mark.parametrize("name", FILES)
@given(content=st.binary(max_size=200))
@FUZZ
def test_any_bytes(name, content):
    read_all(content, name)


@pytest.mark.parametrize(("name", "original"), FILES.items(), ids=FILES)
@given(data=st.data())
@FUZZ
def test_a_file_with_some_of_its_bytes_changed(name, original, data):
    content = bytearray(original)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.integers(0, 2)):
            case 0:
                content[start] = data.draw(st.integers(0, 255))
            case 1:
                del content[start : start + data.draw(st.integers(1, 40))]
            case _:
                content[start:start] = data.draw(st.binary(max_size=12))
        if not content:
            break
    read_all(bytes(content), name)


@pytest.mark.parametrize(
    "content",
    [
        b"\x7a\xff\xff\xff\xff\x0f",  # A message of 4 GiB.
        b"\x7a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x1a\x80\x80\x80\x80\x08" + b"x" * 100,
        b"\xff" * 64,
    ],
    ids=["4 GiB", "2^64", "2 GiB", "no end"],
)
def test_huge_lengths(content):
    with pytest.raises(errors.CorruptDataError, match="the file"):
        decode(content)


def test_values_nested_without_end():
    nest = b"\x1a\x01{"
    for _ in range(5000):  # Each a map in a map.
        inner = b"\x12" + _varint(len(nest)) + nest
        nest = b"\x12" + _varint(len(inner)) + inner
    step = b"\x1a" + _varint(len(nest)) + nest
    action = b"\x7a" + _varint(len(step)) + step
    content = PLAIN + b"\x1a" + _varint(len(action)) + action
    with pytest.raises(errors.CorruptDataError, match="the file"):
        decode(content)


def _varint(number):
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def _change(change):
    made = message()
    change(made)
    return made.SerializeToString()


def _end(made):
    return made.webtraj.end


def _observation(made):
    return made.actions[0].webtraj.observation


def _no_screenshot(made):
    made.actions[0].after_state.viewport.screenshot.ClearField("content")


def _other_screenshot(made):
    shot = made.actions[0].after_state.viewport.screenshot
    shot.content = shot.content[:-1] + b"!"


def _cut_blob(made):
    made.webtraj.blobs[0].content = made.webtraj.blobs[0].content[:-1]


def _two_keys(made):
    _observation(made).map_value.keys[1] = _observation(made).map_value.keys[0]


def _keys_without_values(made):
    del _observation(made).map_value.values[0]


def _no_kind(made):
    _observation(made).map_value.values[0].Clear()


def _bad_order(made):
    made.webtraj.info.extra.order.extend(["task", "task"])


def _place_that_is_empty(made):
    made.actions[0].after_state.ClearField("url")


def _place_elsewhere(made):
    made.webtraj.info.metadata.place = pb.PLACE_URL


def _bad_json(made):
    _observation(made).json_value = b"{"


def _bare_action(made):
    made.actions.add()


def _no_info(made):
    made.webtraj.ClearField("info")
    made.webtraj.extra.keys.append("info")
    made.webtraj.extra.values.add().json_value = b"3"


@each("change", [
        _no_screenshot, _other_screenshot, _cut_blob, _two_keys,
        _keys_without_values, _no_kind, _bad_order, _place_that_is_empty, _place_elsewhere,
        _bad_json, _no_info, _bare_action, lambda made: made.ClearField("webtraj"),
        lambda made: made.webtraj.ClearField("schema_version"),
    ])  # fmt: skip
def test_what_the_schema_cannot_say(change):
    with pytest.raises(errors.CorruptDataError, match="the file"):
        decode(_change(change))


@each(
    "change",
    [
        lambda made: setattr(made.webtraj, "schema_version", 2),
        lambda made: setattr(made.webtraj, "schema_version", 2**60),
        lambda made: setattr(_end(made), "reason", 99),
        lambda made: setattr(_end(made), "outcome", 99),
        lambda made: setattr(_end(made), "phase", 99),
        lambda made: setattr(made.actions[0].webtraj, "step_type", -1),
        lambda made: setattr(_observation(made).map_value.values[0], "place", 99),
        lambda made: setattr(made.actions[1].webtraj.action, "place", 2),
    ],
)
def test_what_a_newer_webtraj_may_have_written(change):
    with pytest.raises(errors.UnsupportedSchemaError, match="newer"):
        decode(_change(change))


BOMB_SIZE = 400 * 2**20


@pytest.fixture(scope="module")
def bombs():
    """Returns files that decompress to far more than they are."""
    compressor = zstandard.ZstdCompressor(level=1)
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    parts = [stream.compress(bytes(2**20)) for _ in range(BOMB_SIZE // 2**20)]
    packer = lzma.LZMACompressor(preset=0)
    packed = [packer.compress(bytes(2**20)) for _ in range(BOMB_SIZE // 2**20)]
    frame = compressor.compress(bytes(2**23))
    return {
        "pb.zst": compressor.compress(bytes(BOMB_SIZE)),
        "pb.zst of no known size": b"".join([*parts, stream.flush()]),
        "pb.zst of many frames": frame * 12,
        "pb.xz": b"".join([*packed, packer.flush()]),
    }


class TestBombs:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "which", ["pb.zst", "pb.zst of no known size", "pb.zst of many frames", "pb.xz"]
    )
    def test_it_is_refused_before_it_has_taken_much(self, bombs, which):
        content = bombs[which]
        assert len(content) < BOMB_SIZE / codec.MAX_RATIO
        tracemalloc.start()
        try:
            with pytest.raises(errors.CorruptDataError, match=f"its limit of {codec.FLOOR}"):
                decode(content, which.partition(" ")[0])
            assert tracemalloc.get_traced_memory()[1] < 4 * codec.FLOOR
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize(
        ("suffix", "empty"),
        [("zst", zstandard.ZstdCompressor().compress(b"")), ("xz", lzma.compress(b""))],
    )
    def test_more_empty_frames_than_any_tool_writes_are_refused(self, suffix, empty):
        with pytest.raises(errors.CorruptDataError, match=f"more than {codec._MAX_FRAMES} "):
            decode(empty * (codec._MAX_FRAMES + 1), f"pb.{suffix}")

    def test_a_dictionary_of_gigabytes_is_refused(self):
        filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**20, "preset": 0}]
        content = bytearray(lzma.compress(PLAIN, filters=filters))
        assert decode(bytes(content), "pb.xz").data == DATA
        end = 12 + 4 * content[12]  # Of the block's header, where its checksum stands.
        size = content.index(b"\x21\x01") + 2  # After the filter's id and its properties' length.
        content[size] = 40  # 4 GiB.
        content[end : end + 4] = zlib.crc32(content[12:end]).to_bytes(4, "little")
        with pytest.raises(errors.CorruptDataError, match="Memory usage limit"):
            decode(bytes(content), "pb.xz")


class TestCompression:
    def test_what_is_written_is_read_however_well_it_compresses(self):
        data = bytes(2 * codec.FLOOR)
        content = codec.compress_zst(data)
        assert codec.MAX_RATIO * len(content) >= len(data)
        assert codec.decompress(content, "zst", "it") == data
        # Any other decoder passes over what was added, too.
        reader = zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True)
        assert reader.read() == data

    def test_a_damaged_frame_is_found(self):
        content = bytearray(FILES["pb.zst"])
        content[-1] ^= 1  # Of its checksum.
        with pytest.raises(errors.CorruptDataError, match="the file"):
            decode(bytes(content), "pb.zst")
