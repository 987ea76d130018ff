"""Removing episodes, as a person does: their files go, and the index is made anew."""

from webtraj.datasets.recovery import rebuild
from webtraj.store.places import open_storage


def remove(place, *episode_ids):
    """Removes episodes from a dataset."""
    storage = open_storage(str(place))
    for entry in list(storage.list("episodes/")):
        if entry.key.removeprefix("episodes/").partition(".")[0] in episode_ids:
            storage.delete(entry.key)
    rebuild(place)
