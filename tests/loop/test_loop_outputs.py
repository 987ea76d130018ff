"""What phases promise to make."""

import pytest

from webtraj.datasets.writer import DatasetWriter
from webtraj.loop.phases import Output


@pytest.mark.parametrize(("kind", "missing"), [("dataset", "has no episodes"), ("kept", "")])
def test_only_what_was_kept_of_others_may_be_nothing(tmp_path, kind, missing):
    with DatasetWriter(tmp_path / "data"):
        pass
    assert Output(str(tmp_path / "data"), kind).missing == missing


@pytest.mark.parametrize("kind", ["dataset", "kept"])
def test_what_is_no_dataset_was_not_made(tmp_path, kind):
    place = tmp_path / "data"
    place.mkdir()
    assert Output(str(place), kind).missing == "is missing or empty"
    (place / "something").touch()
    assert Output(str(place), kind).missing.startswith("is not a dataset")
