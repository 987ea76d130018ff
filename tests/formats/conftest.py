"""Episodes to encode."""

import pytest
from recorded_episodes import browser_episode, data_of

from webtraj.store import encoding


@pytest.fixture
def episode():
    """Returns a browser episode's data, and its blobs."""
    return data_of(browser_episode())


@pytest.fixture
def small_blobs(monkeypatch):
    """Makes blobs of all that is not very short, as strategies give it."""
    monkeypatch.setattr(encoding, "BYTES_INLINE", 4)
    monkeypatch.setattr(encoding, "TEXT_INLINE", 4)
