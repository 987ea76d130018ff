"""A storage that fails when told to, and what a bucket must hold in the end."""

import dataclasses
import threading

from webtraj import open_dataset
from webtraj.collectors.bucket import Pauses
from webtraj.store.blobs import blobs_in
from webtraj.store.index import EpisodeSummary
from webtraj.store.places import open_storage
from webtraj.store.storage import FolderStorage

QUICK = {
    "fsync": "never",
    "pauses": Pauses(first=0.01, cap=0.1),
    "index_interval": 0.05,
    "close_timeout": 60.0,
}


class FaultyStorage:
    """A folder that fails, or waits, when told to.

    Attributes:
        fault: Called with the operation and the key before each; may raise, or wait.
        calls: Every operation and its key so far.
    """

    def __init__(self, root):
        self._storage = FolderStorage(root, sync=False)
        self.root = root
        self.fault = lambda operation, key: None
        self.calls = []
        self._lock = threading.Lock()
        self._now = 0
        self.most_at_once = 0

    @property
    def url(self):
        return self._storage.url

    def _call(self, operation, key, *args, **kwargs):
        with self._lock:
            self.calls.append((operation, key))
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        try:
            self.fault(operation, key)
            return getattr(self._storage, operation)(key, *args, **kwargs)
        finally:
            with self._lock:
                self._now -= 1

    def read(self, key):
        return self._call("read", key)

    def write(self, key, data, *, overwrite=True):
        return self._call("write", key, data, overwrite=overwrite)

    def size(self, key):
        return self._call("size", key)

    def list(self, prefix=""):
        return self._storage.list(prefix)

    def writes(self, prefix=""):
        return [key for operation, key in self.calls if operation == "write" and prefix in key]


@dataclasses.dataclass
class Bucket:
    """What a place holds, read by plain `Storage` calls."""

    keys: list[str]
    indexed: list[str]
    """The ids of index lines, as often as they stand there."""
    episodes: dict[str, object]


def read_bucket(place, options=None):
    """Returns what a place holds; asserts that nothing is there twice, missing or left over."""
    storage = open_storage(place, options)
    sizes = {entry.key: entry.size for entry in storage.list()}
    lines = [
        EpisodeSummary.from_line(line)
        for key in sizes
        if key.startswith("index/")
        for line in storage.read(key).splitlines()
    ]
    dataset = open_dataset(place, storage_options=options)
    episodes = {episode.episode_id: episode for episode in dataset}
    files = {key: storage.read(key) for key in sizes if key.startswith("episodes/")}
    assert sorted(files) == sorted({f"episodes/{one.episode_id}.{one.format}" for one in lines})
    assert sorted(episodes) == sorted({one.episode_id for one in lines})
    for one in lines:
        assert len(files[f"episodes/{one.episode_id}.{one.format}"]) == one.size
    blobs = set()
    for key, content in files.items():
        if key.endswith(".json"):
            blobs |= blobs_in(content)
    named = {f"blobs/{blob.sha256[:2]}/{blob.sha256}.{blob.ext}": blob.size for blob in blobs}
    assert {key: size for key, size in sizes.items() if key.startswith("blobs/")} == named
    known = ("index/", "episodes/", "blobs/")
    assert [key for key in sizes if not key.startswith(known)] == ["dataset.json"]
    return Bucket(sorted(sizes), [one.episode_id for one in lines], episodes)
