"""Where datasets lie: a folder, or a bucket of any object store. The protocol is in `base`."""

from webtraj.storage.base import Entry, Storage
from webtraj.storage.places import is_url, open_storage

__all__ = ["Entry", "Storage", "is_url", "open_storage"]
