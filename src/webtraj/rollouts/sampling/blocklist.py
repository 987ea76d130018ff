"""The blocklist: sites that refused an agent lately, and are left alone for a while.

A line for each refusal, appended with one write, so that any number of rollouts may share a file::

    {"domain": "example.org", "url": "https://example.org/", "blocked_at": 1795190400.0,
     "task_id": "...", "episode_id": "..."}

The names are WebGym's. A line may be written by hand; one that cannot be read is passed over, with
a warning.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from webtraj import errors
from webtraj.rollouts.tasks.rows import site_of, url_of
from webtraj.storage import files

__all__ = ["DEFAULT_TTL", "Blocklist"]

DEFAULT_TTL = 12 * 3600.0
"""Seconds that a site stays blocked; WebGym's 12 hours."""

_LOGGER = logging.getLogger(__name__)


class Blocklist:
    """The sites in a file, for as long as they are blocked."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        ttl: float = DEFAULT_TTL,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Initializes the list; makes no file before the first site is added.

        Args:
            path: The file.
            ttl: Seconds that a site stays blocked.
            clock: Gives the time in seconds since the epoch.
        """
        self.path = Path(path)
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
            CollectorError: The file cannot be written.
        """
        line = {
            "domain": site_of(url_of(url)),
            "url": url,
            "blocked_at": self._clock() if at is None else at,
            "task_id": task,
            "episode_id": episode_id,
        }
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

    def _lines(self) -> list[bytes]:
        try:
            return self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise errors.InvalidInputError(
                f"The blocklist {str(self.path)!r} cannot be read: {error}."
            ) from error
