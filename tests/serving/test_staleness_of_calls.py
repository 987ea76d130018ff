"""How old the weights behind a call are."""

import pytest

from rows import each
from webtraj import errors
from webtraj.serving import Staleness, VersionHistory
from webtraj.trajectory import ModelCall

HISTORY = VersionHistory(["default", "clicker@1", "clicker@2", "clicker@3"])


@each(
    ("recorded", "trained", "version", "behind"),
    [
        ("clicker@3", None, "clicker@3", 0),
        ("default", None, "default", 3),
        ("clicker@1..clicker@2", None, "clicker@1", 2),
        ("clicker@2..clicker@1", None, "clicker@1", 2),
        ("clicker@1", "clicker@2", "clicker@1", 1),
        ("clicker@3", "clicker@1", "clicker@3", 0),
        ("", None, "", None),
        ("clicker@3..?", None, "clicker@3..?", None),
        ("?", None, "?", None),
        ("other", None, "other", None),
    ],
)
def test_staleness_is_that_of_the_older_version(recorded, trained, version, behind):
    call = ModelCall(policy_version=recorded)
    assert HISTORY.of(call, trained=trained) == Staleness(version, behind)


@pytest.mark.parametrize("label", ["", "clicker@1", "a..b"])
def test_version_has_a_name_of_its_own(label):
    with pytest.raises(errors.InvalidInputError, match="cannot be the next version"):
        VersionHistory(HISTORY.labels).add(label)


def test_version_that_is_trained_is_one_of_them():
    with pytest.raises(
        errors.InvalidInputError, match=r"Unknown version of the weights '5'.*'clicker@3'"
    ):
        HISTORY.of("default", trained="5")
