"""Datasets in real S3 servers: opened, written, converted, indexed anew, and cut off."""

import threading

import pytest

from webtraj import errors, open_dataset
from webtraj.datasets.recovery import rebuild
from webtraj.datasets.transfer import convert, copy
from webtraj.datasets.verification import verify
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.places import open_storage
from webtraj.testing.strategies import same


@pytest.fixture
def source(tmp_path, episode):
    with DatasetWriter(tmp_path / "source") as writer:
        for number in range(12):
            writer.add(episode(number))
    return tmp_path / "source"


@pytest.fixture
def place(bucket_url):
    return f"{bucket_url}/some/dataset"


def contents(place, options=None):
    storage = open_storage(place, options)
    entries = [entry for kind in ("episodes/", "blobs/") for entry in storage.list(kind)]
    return {entry.key: storage.read(entry.key) for entry in entries}


@pytest.mark.slow
def test_a_dataset_goes_to_s3_and_back_byte_for_byte(source, place, bucket_options, tmp_path):
    options = bucket_options
    assert copy(source, place, target_options=options).complete
    dataset = open_dataset(place, storage_options=options)
    assert all(map(same, dataset, open_dataset(source)))
    assert same(dataset["e3"], open_dataset(source)["e3"])
    assert verify(place, storage_options=options).clean
    assert copy(place, tmp_path / "back", source_options=options).complete
    assert contents(tmp_path / "back") == contents(source) == contents(place, options)
    pb = f"{place}-pb"
    report = convert(place, pb, format="pb.zst", source_options=options, target_options=options)
    assert report.complete
    assert convert(pb, tmp_path / "again", format="json", source_options=options).complete
    assert contents(tmp_path / "again") == contents(source)


@pytest.mark.gate
@pytest.mark.slow
def test_rebuilds_and_writers_at_once_lose_nothing(place, bucket_options, episode):
    failures = []

    def write(first):
        try:
            for number in range(first, first + 5):
                with DatasetWriter(place, storage_options=bucket_options) as writer:
                    writer.add(episode(number))
                rebuild(place, storage_options=bucket_options)
        except Exception as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(open_dataset(place, storage_options=bucket_options)) == 15
    assert verify(place, storage_options=bucket_options).clean


@pytest.mark.gate
@pytest.mark.parametrize("s3_server", ["rclone"], indirect=True)
def test_a_server_that_is_gone_is_an_error_and_the_copy_goes_on_when_it_is_back(
    source, place, bucket_options, s3_server
):
    copy(source, place, where=lambda s: s.seed < 6, target_options=bucket_options)
    options = {**bucket_options, "retry": {"deadline": 0.0}}
    s3_server.kill()
    for use in (
        lambda: open_dataset(place, storage_options=options),
        lambda: verify(place, storage_options=options),
        lambda: copy(source, place, target_options=options),
    ):
        with pytest.raises(errors.StorageUnavailableError):
            use()
    s3_server.restart()
    options = bucket_options
    report = copy(source, place, target_options=options)
    assert (len(report.skipped), len(report.added)) == (6, 6)
    assert verify(place, storage_options=options).clean
    assert contents(place, options) == contents(source)
