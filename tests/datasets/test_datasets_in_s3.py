"""Datasets in real S3 servers: opened, written, converted, indexed anew, and cut off."""

import threading

import pytest

from fault_proxy import Fault
from webtraj import errors, open_dataset
from webtraj.datasets.judgements import Judgements
from webtraj.datasets.place import open_place
from webtraj.datasets.recovery import rebuild, recover
from webtraj.datasets.transfer import convert, copy
from webtraj.datasets.verification import verify
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.places import open_storage
from webtraj.testing.strategies import same
from webtraj.trajectory import Judgement, Outcome


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


@pytest.mark.slow
def test_judgements_in_s3_are_stored_whole_and_go_along(source, place, bucket_options, tmp_path):
    copy(source, place, target_options=bucket_options)
    with Judgements(open_place(place, bucket_options)) as book:
        for number in range(3):
            reason = f"Seen at {number}. " * 500  # A blob.
            made = Judgement(judge="anna", outcome=Outcome.BLOCKED, reason=reason)
            book.add([(f"e{number}", made), (f"e{number + 3}", made)])
    opened = open_dataset(place, storage_options=bucket_options)
    assert len(opened.filter(outcome="blocked")) == 6
    assert opened["e5"].end.judgements[0].reason.startswith("Seen at 2.")
    assert verify(place, storage_options=bucket_options).clean
    assert copy(place, tmp_path / "back", source_options=bucket_options).complete
    assert all(map(same, open_dataset(tmp_path / "back"), opened))


@pytest.mark.slow
def test_blobs_are_kept_in_a_folder_of_the_user_s(source, place, bucket_options, tmp_path):
    copy(source, place, target_options=bucket_options)
    cache = tmp_path / "cache"
    kept = open_dataset(place, storage_options=bucket_options, blob_cache=cache)
    assert all(map(same, kept, open_dataset(source)))
    storage = open_storage(place, bucket_options)
    for entry in list(storage.list("blobs/")):
        storage.delete(entry.key)
    again = open_dataset(place, storage_options=bucket_options, blob_cache=cache)
    assert all(map(same, again, open_dataset(source)))
    damaged = min(cache.glob("??/*"))
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    with pytest.raises(errors.CorruptDataError, match="is missing from"):
        list(open_dataset(place, storage_options=bucket_options, blob_cache=cache))


@pytest.mark.slow
def test_an_index_is_completed_and_made_anew(source, place, bucket_options, episode):
    options = bucket_options
    for number in range(4):
        with DatasetWriter(place, storage_options=options) as writer:
            writer.add(episode(number))
    before = [s.to_line() for s in open_dataset(place, storage_options=options).summaries]
    storage = open_storage(place, options)
    for entry in list(storage.list("index/")):
        storage.delete(entry.key)
    assert len(recover(place, storage_options=options).indexed) == 4
    assert rebuild(place, storage_options=options).num_episodes == 4
    assert rebuild(place, storage_options=options).files_after == 1
    after = [s.to_line() for s in open_dataset(place, storage_options=options).summaries]
    assert after == before
    assert verify(place, storage_options=options).clean


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


def test_what_is_no_dataset_or_cannot_be_reached_is_said(place, bucket_options, bucket_url):
    with pytest.raises(errors.NotADatasetError, match="No dataset at"):
        open_dataset(place, storage_options=bucket_options)
    with pytest.raises(errors.NotADatasetError, match="No dataset at"):
        open_dataset("s3://no-such-bucket-anywhere/x", storage_options=bucket_options)


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


FAULTS = {
    "refused": Fault(status=503),
    "cut": Fault(cut_response_after=100),
    "changed": Fault(flip_response_at=100),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("s3_server", ["rclone"], indirect=True)
def test_answers_that_are_refused_cut_or_changed_are_asked_for_again(
    source, place, bucket_options, proxied_options, fault_proxy, fault
):
    copy(source, place, target_options=bucket_options)
    dataset = open_dataset(place, storage_options=proxied_options)
    fault_proxy.inject(fault, method="GET", path="dataset/", every=3, times=2)
    assert all(map(same, dataset, open_dataset(source)))
