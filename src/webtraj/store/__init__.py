"""The on-disk format: values, records, files, layout, index and storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes

if TYPE_CHECKING:
    from webtraj.store.bucket_requests import RetryPolicy as RetryPolicy
    from webtraj.store.places import is_url as is_url
    from webtraj.store.places import open_file as open_file
    from webtraj.store.places import open_storage as open_storage
    from webtraj.store.storage import Entry as Entry
    from webtraj.store.storage import Storage as Storage

_HOMES = {
    "Entry": "storage",
    "RetryPolicy": "bucket_requests",
    "Storage": "storage",
    "is_url": "places",
    "open_file": "places",
    "open_storage": "places",
}

RECORD_MODULES: dict[str, str] = {}
"""The module that registers the record types of each namespace. The packages above fill it in. A
module is imported when a file first names a type of its namespace."""

RECORD_WRITERS: dict[str, str] = {}
"""The function, `module:name`, that writes a record of each namespace as text. The packages above
fill it in."""

__all__ = ["RECORD_MODULES", "RECORD_WRITERS", *sorted(_HOMES)]
__getattr__, __dir__ = _homes.face(__name__, _HOMES)
