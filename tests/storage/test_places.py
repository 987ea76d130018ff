"""From what a person writes to a storage."""

import subprocess
import sys

import pytest

from webtraj import errors
from webtraj.store.bucket import BucketStorage
from webtraj.store.places import FolderStorage, open_storage
from webtraj.store.retrying import RetryPolicy
from webtraj.store.stores import parse_url


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "url",
    ["s3:/bucket", "s3://", "s3:///a", "gs://", "ftp://host/a", "https://bucket.s3.amazonaws.com/a",
     "s3://bucket/../other", "s3://bucket/a//b", "s3://bucket/.hidden", "s3://bucket/a b",
     "s3://bucket/a?versionId=1", "s3://bucket/a#b", "file://host/a", "file://", "memory:///a"],
)  # fmt: skip
def test_what_names_no_storage_is_refused(url):
    with pytest.raises(errors.InvalidInputError):
        parse_url(url)


def test_a_path_is_a_folder(tmp_path):
    for place in (tmp_path, str(tmp_path), f"file://{tmp_path}"):
        storage = open_storage(place)
        assert type(storage) is FolderStorage
        assert storage.root == tmp_path


def test_a_folder_takes_no_options(tmp_path):
    for place in (tmp_path, f"file://{tmp_path}"):
        with pytest.raises(
            errors.InvalidInputError, match="Storage options region do not apply to the folder"
        ):
            open_storage(place, {"region": "x"})


def test_a_folder_is_no_bucket(tmp_path):
    with pytest.raises(errors.InvalidInputError, match="Open it with open_storage"):
        BucketStorage(f"file://{tmp_path}")


@pytest.mark.parametrize(
    ("url", "options", "words"),
    [
        (
            "s3://bucket",
            {"regin": "x"},
            "option regin for 's3://bucket': expected some of endpoint,",
        ),
        ("s3://bucket", {"url": "x"}, "Unknown storage option url"),
        ("gs://bucket", {"region": "x"}, "does not accept region"),
        ("memory://", {"profile": "x"}, "does not accept profile"),
        ("s3://bucket", {"endpoint": "http://host"}, "not encrypted. Use https://, or set allow"),
        ("s3://bucket", {"endpoint": "https://a:b@host"}, "The endpoint contains credentials"),
        ("s3://bucket", {"part_size": 1}, "part_size of at least 5 MiB"),
        ("s3://bucket", {"timeout": 0}, "timeout"),
        ("s3://bucket", {"part_size": "8MiB"}, "Invalid part_size='8MiB': expected a number"),
        ("s3://bucket", {"parallel_parts": 1.5}, "Invalid parallel_parts=1.5"),
        ("s3://bucket", {"timeout": "5"}, "Invalid timeout='5': expected a number"),
        ("s3://bucket", {"connect_timeout": True}, "Invalid connect_timeout=True"),
        (
            "s3://bucket",
            {"retry": {"tries": 3}},
            "expected deadline, first_delay and longest_delay",
        ),
        ("s3://bucket", {"retry": {"deadline": -1}}, "deadline >= 0"),
        ("s3://bucket", {"store_options": {"colour": "red"}}, "colour"),
        ("s3://bucket", {"client_options": {"colour": "red"}}, "colour"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_a_wrong_option_is_told(url, options, words):
    with pytest.raises(errors.InvalidInputError) as caught:
        open_storage(url, options)
    assert words in str(caught.value)


def test_retries_are_given_as_a_policy_or_by_its_fields():
    policy = RetryPolicy(deadline=1)
    assert RetryPolicy.of(policy) is policy
    assert RetryPolicy.of({"deadline": 1}) == policy
    assert RetryPolicy.of(None) == RetryPolicy()


def test_what_is_in_memory_is_shared_by_name():
    open_storage("memory://test-places-a/x").write("k", b"1")
    assert open_storage("memory://test-places-a/x/").read("k") == b"1"
    assert open_storage("memory://test-places-a").read("x/k") == b"1"
    assert open_storage("memory://test-places-b/x").size("k") is None
    assert open_storage("memory://test-places-a/y").size("k") is None


def run(code):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120
    )


def test_obstore_is_imported_where_it_is_needed():
    done = run(
        "import sys, webtraj.store as s; s.open_storage('/tmp/x').size('a')\n"
        "assert 'obstore' not in sys.modules"
    )
    assert done.returncode == 0, done.stderr


def test_what_to_install_is_told():
    done = run(
        "import sys; sys.modules['obstore'] = None\n"
        "from webtraj.store.places import open_storage\n"
        "open_storage('s3://bucket')"
    )
    assert "MissingDependencyError: s3:// needs obstore, " in done.stderr
    assert errors.install_command("s3") in done.stderr


def test_a_forked_process_is_told_not_to_wait_for_ever():
    done = run(
        "import os\n"
        "from webtraj.store.places import open_storage\n"
        "storage = open_storage('memory://x'); storage.write('a', b'')\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        storage.read('a')\n"
        "    except OSError as error:\n"
        "        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()"
    )
    assert "cannot be used in a process forked" in done.stdout
