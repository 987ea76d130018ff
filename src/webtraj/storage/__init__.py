"""Where datasets lie: a folder, or a bucket of any object store. The protocol is in `base`."""

from webtraj.storage.base import Entry, Storage
from webtraj.storage.places import is_url, open_file, open_storage
from webtraj.storage.retrying import RetryPolicy

__all__ = ["Entry", "RetryPolicy", "Storage", "is_url", "open_file", "open_storage"]
