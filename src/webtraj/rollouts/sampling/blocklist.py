"""The blocklist: sites that refused an agent lately, and are left alone for a while.

A line for each refusal, appended with one write, so that any number of rollouts may share a file::

    {"domain": "example.org", "url": "https://example.org/", "blocked_at": 1795190400.0,
     "task_id": "...", "episode_id": "..."}

The names are WebGym's. A line may be written by hand; one that cannot be read is passed over, with
a warning. In a bucket, where nothing can be appended, each line is an object of its own under the
list's name.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.rollouts.tasks.rows import site_of, url_of
from webtraj.store import files
from webtraj.store.places import is_url, open_storage

__all__ = ["DEFAULT_TTL", "Blocklist"]

DEFAULT_TTL = 12 * 3600.0
"""Seconds that a site stays blocked; WebGym's 12 hours."""

_LOGGER = logging.getLogger(__name__)


class Blocklist:
    """The sites in a file or a bucket, for as long as they are blocked."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, Any] | None = None,
        ttl: float = DEFAULT_TTL,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Initializes the list; makes no file before the first site is added.

        Args:
            path: The file, or a bucket's URL such as `s3://bucket/run/blocklist.jsonl`.
            storage_options: For a bucket, as `webtraj.store.open_storage` takes them.
            ttl: Seconds that a site stays blocked.
            clock: Gives the time in seconds since the epoch.
        """
        self.path = path if isinstance(path, str) and is_url(path) else Path(path)
        self._bucket = open_storage(self.path, storage_options) if is_url(path) else None
        # A bucket may be slow or away, and an episode must not wait for it.
        self._sender = concurrent.futures.ThreadPoolExecutor(1, "webtraj-blocklist")
        self._ttl = ttl
        self._clock = clock

    def add(
        self, url: str, *, task: str = "", episode_id: str = "", at: float | None = None
    ) -> None:
        """Blocks the site that a URL leads to.

        Args:
            url: The URL, or the site's name.
            task: The task that was played.
            episode_id: The episode that was refused.
            at: When, in seconds since the epoch; by default now.

        Raises:
            CollectorError: The file cannot be written. A bucket is written to in the background; a
                failure there is logged.
        """
        line = {
            "domain": site_of(url_of(url)),
            "url": url,
            "blocked_at": self._clock() if at is None else at,
            "task_id": task,
            "episode_id": episode_id,
        }
        if self._bucket is not None:
            self._sender.submit(self._send, orjson.dumps(line) + b"\n")
            return
        assert isinstance(self.path, Path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
            descriptor = os.open(self.path, flags, 0o644)
            try:
                files.write_all(descriptor, orjson.dumps(line) + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise errors.CollectorError(
                f"The blocklist {str(self.path)!r} cannot be written: {error}."
            ) from error

    def sites(self) -> frozenset[str]:
        """Returns the names of the sites that are blocked now.

        Raises:
            InvalidInputError: The file cannot be read.
            StorageError: The bucket cannot be read.
        """
        since = self._clock() - self._ttl
        sites: set[str] = set()
        for number, line in enumerate(self._lines(), start=1):
            try:
                data = orjson.loads(line)
                if float(data["blocked_at"]) >= since:
                    sites.add(site_of(url_of(data["domain"])))
            except (ValueError, KeyError, TypeError, AttributeError):
                _LOGGER.warning("Line %d of %s cannot be read.", number, self.path)
        return frozenset(sites)

    def episode_ids(self) -> frozenset[str]:
        """Returns the ids of the episodes that have blocked a site, however long ago.

        Raises:
            InvalidInputError: The file cannot be read.
        """
        ids: set[str] = set()
        for line in self._lines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                ids.add(str(orjson.loads(line)["episode_id"]))
        return frozenset(ids)

    def _send(self, line: bytes) -> None:
        assert self._bucket is not None
        key = f"{time.time_ns() // 1_000_000:013d}-{secrets.token_hex(4)}.json"
        try:
            self._bucket.write(key, line)
        except errors.StorageError as error:
            _LOGGER.warning("A site was not added to the blocklist %s: %s", self.path, error)

    def _lines(self) -> list[bytes]:
        if self._bucket is not None:
            self._sender.submit(lambda: None).result()  # What is on its way comes first.
            keys = [entry.key for entry in self._bucket.list("")]
            return [line for key in keys for line in self._bucket.read(key).splitlines()]
        assert isinstance(self.path, Path)
        try:
            return self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise errors.InvalidInputError(
                f"The blocklist {str(self.path)!r} cannot be read: {error}."
            ) from error
