"""Telling by an ETag whether bytes arrived."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from webtraj.store import etags


@given(st.binary(max_size=100), st.integers(1, 30))
def test_the_etag_of_an_object_is_known_whole_and_in_parts(data, part_size):
    assert etags.matches(f'"{hashlib.md5(data).hexdigest()}"', data, part_size) is True
    parts = [data[at : at + part_size] for at in range(0, len(data), part_size)] or [b""]
    digests = b"".join(hashlib.md5(part).digest() for part in parts)
    tag = f"{hashlib.md5(digests).hexdigest()}-{len(parts)}"
    if data:
        changed = bytes([data[0] ^ 1]) + data[1:]
        assert etags.matches(tag, data, part_size) is True
        assert etags.matches(tag, changed, part_size) is False


@given(st.binary(max_size=100))
def test_other_bytes_do_not_fit(data):
    assert etags.matches(hashlib.md5(data).hexdigest(), data + b"x", 10) is False


def test_what_is_no_md5_tells_nothing():
    for tag in (None, "", "0x8D", "abc", "CJ+O", "0" * 31, "0" * 32 + "-2"):
        assert etags.matches(tag, b"data", 10) is None
