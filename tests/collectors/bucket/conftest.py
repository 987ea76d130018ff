"""Collectors on spools, and a storage that fails when told to."""

import contextlib

import pytest
from spool_support import QUICK, FaultyStorage

from webtraj import errors
from webtraj.collectors import bucket as bucket_lib
from webtraj.collectors.bucket import S3TrajectoryCollector
from webtraj.store.places import open_storage


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    """A storage that fails when told to; collectors made by `collect` without a URL use it."""
    storage = FaultyStorage(tmp_path / "bucket")
    monkeypatch.setattr(
        bucket_lib,
        "open_storage",
        lambda place, options=None: (
            storage if str(place) == str(storage.root) else open_storage(place, options)
        ),
    )
    return storage


@pytest.fixture
def collect(tmp_path):
    """Makes collectors on the spool `tmp_path / "spool"`, and lets go of them in the end."""
    made = []

    def collect(url=tmp_path / "bucket", **options):
        given = {"spool": tmp_path / "spool", **QUICK, **options}
        collector = S3TrajectoryCollector(str(url), **given)
        made.append(collector)
        return collector

    yield collect
    for collector in made:
        collector._close_timeout = 0.0
        collector._uploader.stop(30.0)
        with contextlib.suppress(errors.CollectorError):
            collector.close()


@pytest.fixture
def shot():
    """Makes bytes that are long enough to be a blob."""
    return lambda number, size=5000: b"\xff\xd8\xff" + number.to_bytes(4, "big") * (size // 4)
