"""The on-disk format: values, records, files, layout, index and storage."""

from webtraj.store.places import Entry, Storage, is_url, open_file, open_storage
from webtraj.store.retrying import RetryPolicy

__all__ = ["Entry", "RetryPolicy", "Storage", "is_url", "open_file", "open_storage"]
