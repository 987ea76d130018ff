"""From what a person writes to a storage."""

import pytest

from rows import each
from webtraj import errors
from webtraj.store.places import open_storage
from webtraj.store.stores import parse_url


@each(
    ("url", "canonical", "kind", "bucket", "path"),
    [
        ("s3://bucket", "s3://bucket", "s3", "bucket", ""),
        ("S3://bucket/", "s3://bucket", "s3", "bucket", ""),
        ("s3a://bucket/a/b/", "s3a://bucket/a/b", "s3", "bucket", "a/b"),
        ("gs://bucket/a", "gs://bucket/a", "gs", "bucket", "a"),
        ("abfss://c@account/a", "abfss://c@account/a", "az", "c@account", "a"),
        ("memory://", "memory://", "memory", "", ""),
        ("memory://name/a", "memory://name/a", "memory", "name", "a"),
        ("file:///tmp/a%20b/", "file:///tmp/a%20b", "file", "", "/tmp/a b"),
        ("file://localhost/tmp", "file:///tmp", "file", "", "/tmp"),
    ],
)
def test_a_url_has_parts(url, canonical, kind, bucket, path):
    place = parse_url(url)
    assert (place.url, place.kind, place.bucket, place.path) == (canonical, kind, bucket, path)


@each("url", ["s3:/bucket", "s3://", "s3:///a", "gs://", "ftp://host/a",
     "https://bucket.s3.amazonaws.com/a", "s3://bucket/../other", "s3://bucket/a//b",
     "s3://bucket/.hidden", "s3://bucket/a b", "s3://bucket/a?versionId=1", "s3://bucket/a#b",
     "file://host/a", "file://", "memory:///a"])  # fmt: skip
def test_what_names_no_storage_is_refused(url):
    with pytest.raises(errors.InvalidInputError):
        parse_url(url)


@each(
    ("url", "options", "words"),
    [
        ("s3://bucket", {"regin": "x"}, "Check the options given: "),
        ("s3://bucket", {"url": "x"}, "url"),
        ("gs://bucket", {"region": "x"}, "Check the options given: connect_timeout, region"),
        ("memory://", {"profile": "x"}, "does not accept profile"),
        ("gs://bucket", {"profile": "x", "service_account": "y"}, "does not accept profile"),
        ("s3://bucket", {"endpoint": "http://host"}, "not encrypted. Use https://, or set allow"),
        ("s3://bucket", {"endpoint": "https://a:b@host"}, "The endpoint contains credentials"),
        ("s3://bucket", {"timeout": 0}, "timeout"),
        ("s3://bucket", {"timeout": "5"}, "Invalid timeout='5': expected a number"),
        ("s3://bucket", {"connect_timeout": True}, "Invalid connect_timeout=True"),
        (
            "s3://bucket",
            {"retry": {"tries": 3}},
            "expected deadline, first_contact, first_delay and longest_delay",
        ),
        ("s3://bucket", {"retry": {"deadline": -1}}, "deadline >= 0"),
        ("s3://bucket", {"colour": "red"}, "colour"),
        ("s3://bucket", {"client_options": {"colour": "red"}}, "colour"),
    ],
)
def test_a_wrong_option_is_told(url, options, words):
    with pytest.raises(errors.InvalidInputError) as caught:
        open_storage(url, options)
    assert words in str(caught.value)


def test_what_is_in_memory_is_shared_by_name():
    open_storage("memory://test-places-a/x").write("k", b"1")
    assert open_storage("memory://test-places-a/x/").read("k") == b"1"
    assert open_storage("memory://test-places-a").read("x/k") == b"1"
    assert open_storage("memory://test-places-b/x").size("k") is None
    assert open_storage("memory://test-places-a/y").size("k") is None


def test_what_is_no_place_is_named():
    with pytest.raises(errors.InvalidInputError, match=r"7 is not a place; expected the path"):
        open_storage(7)
