"""Which tasks a rollout plays: samplers, and what keeps a task out."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import itertools
import logging
import os
import random
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson

from webtraj import errors
from webtraj.store import files
from webtraj.store.places import is_url, open_storage
from webtraj.tasks import TaskSpec, site_of, url_of

__all__ = [
    "Band",
    "Blocklist",
    "DEFAULT_TTL",
    "RatioSampler",
    "Sampler",
    "Sequence",
    "UniformSampler",
    "distinct",
    "unblocked",
    "unseen",
]

# The blocklist: sites that refused an agent lately, and are left alone for a while.
#
# A line for each refusal, appended with one write, so that any number of rollouts may share a
# file::
#
#     {"domain": "example.org", "url": "https://example.org/", "blocked_at": 1795190400.0,
#      "task_id": "...", "episode_id": "..."}
#
# The names are WebGym's. A line may be written by hand; one that cannot be read is passed over,
# with a warning. In a bucket, where nothing can be appended, each line is an object of its own
# under the list's name.

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


# What keeps a task out of a sample. Filters read and yield streams.


def distinct(tasks: Iterable[TaskSpec]) -> Iterator[TaskSpec]:
    """Yields each task once: the same goal at the same place and difficulty is the same task.

    What is compared follows WebGym: subdomain, site, difficulty and goal.
    """
    seen: set[bytes] = set()
    for task in tasks:
        # A digest, since a set of 300,000 goals would take a hundred times the memory.
        says = (
            task.preset,
            task.subdomain,
            task.start_url,
            task.difficulty,
            task.goal or task.name,
        )
        key = hashlib.blake2b(repr(says).encode(), digest_size=12).digest()
        if key not in seen:
            seen.add(key)
            yield task


def unseen(tasks: Iterable[TaskSpec], names: Collection[str]) -> Iterator[TaskSpec]:
    """Yields the tasks whose names are not among those, such as of earlier iterations."""
    return (task for task in tasks if task.name not in names)


def unblocked(tasks: Iterable[TaskSpec], blocklist: Blocklist) -> Iterator[TaskSpec]:
    """Yields the tasks whose sites are not blocked. For training only: a test plays all."""
    blocked = blocklist.sites()
    return (task for task in tasks if not task.site or task.site not in blocked)


# Samplers: from a stream of tasks to those that are played.
#
# A sampler reads its stream once and keeps no more of it than it returns, so that 300,000 tasks
# need the memory of a thousand. What it picks follows from the stream and the seed alone.


class Sampler(Protocol):
    """Picks tasks."""

    def __call__(self, tasks: Iterable[TaskSpec], *, seed: int) -> list[TaskSpec]:
        """Returns the tasks to play, in the order to play them in.

        Raises:
            InvalidInputError: There is nothing to pick from.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Sequence:
    """Takes the first tasks as they come, the whole sequence several times over if asked to."""

    size: int | None = None
    """How many; None for all."""
    repeat: int = 1
    """How often."""

    def __post_init__(self) -> None:
        _check_size(self.size)
        if self.repeat < 1:
            raise errors.InvalidInputError(f"A sequence is played once or more; got {self.repeat}.")

    def __call__(self, tasks: Iterable[TaskSpec], *, seed: int) -> list[TaskSpec]:
        """Returns the tasks; `seed` does not matter."""
        del seed
        return _some(list(itertools.islice(tasks, self.size))) * self.repeat


@dataclasses.dataclass(frozen=True, slots=True)
class UniformSampler:
    """Picks without replacement, each task as likely as any other."""

    size: int | None = None
    """How many; None for all, shuffled. If there are fewer, all of them."""

    def __post_init__(self) -> None:
        _check_size(self.size)

    def __call__(self, tasks: Iterable[TaskSpec], *, seed: int) -> list[TaskSpec]:
        """Returns the tasks, shuffled."""
        source = _source(seed, "uniform")
        picked = _some(_Reservoir(self.size, source).fill(tasks))
        if self.size is not None and len(picked) < self.size:
            _LOGGER.warning("There are only %d of the %d tasks wanted.", len(picked), self.size)
        source.shuffle(picked)
        return picked


@dataclasses.dataclass(frozen=True, slots=True)
class Band:
    """Tasks from one difficulty to another."""

    low: int
    """The least difficulty."""
    high: int
    """The greatest difficulty."""
    weight: float
    """Its share of the sample, beside the weights of the other bands."""


@dataclasses.dataclass(frozen=True, slots=True)
class RatioSampler:
    """Picks from each band of difficulty as many as its weight says.

    Shares are rounded down; what is left goes to the largest remainders (WebGym's rule). A band
    with too few tasks leaves the rest of its share to the others, by their weights.
    """

    size: int
    """How many in all."""
    bands: Mapping[str, Band]
    """The bands by name; those that overlap share no task: the first one has it."""

    def __post_init__(self) -> None:
        _check_size(self.size)
        if not self.bands:
            raise errors.InvalidInputError("A ratio needs one band of difficulty or more.")
        for name, band in self.bands.items():
            if not (band.low <= band.high and band.weight > 0):
                raise errors.InvalidInputError(
                    f"The band {name!r} is {band}; expected low <= high and a weight above 0."
                )

    def __call__(self, tasks: Iterable[TaskSpec], *, seed: int) -> list[TaskSpec]:
        """Returns the tasks, shuffled."""
        reservoirs = {
            # Any band may have to make up for all others.
            name: _Reservoir(self.size, _source(seed, name))
            for name in self.bands
        }
        for task in tasks:
            for name, band in self.bands.items():
                if band.low <= task.difficulty <= band.high:
                    reservoirs[name].offer(task)
                    break
        shares = _shares(
            self.size,
            {name: band.weight for name, band in self.bands.items()},
            {name: len(reservoir.picked) for name, reservoir in reservoirs.items()},
        )
        picked: list[TaskSpec] = []
        for name, reservoir in reservoirs.items():
            candidates = list(reservoir.picked)
            reservoir.source.shuffle(candidates)
            picked += candidates[: shares[name]]
        if len(picked) < self.size:
            _LOGGER.warning("There are only %d of the %d tasks wanted.", len(picked), self.size)
        _source(seed, "order").shuffle(_some(picked))
        return picked


class _Reservoir:
    """Keeps a uniform sample of what it is offered (Vitter's algorithm R)."""

    def __init__(self, size: int | None, source: random.Random) -> None:
        self.source = source
        self.picked: list[TaskSpec] = []
        self._size = size
        self._offered = 0

    def offer(self, task: TaskSpec) -> None:
        self._offered += 1
        if self._size is None or len(self.picked) < self._size:
            self.picked.append(task)
            return
        place = self.source.randrange(self._offered)
        if place < self._size:
            self.picked[place] = task

    def fill(self, tasks: Iterable[TaskSpec]) -> list[TaskSpec]:
        for task in tasks:
            self.offer(task)
        return self.picked


def _shares(
    size: int, weights: Mapping[str, float], available: Mapping[str, int]
) -> dict[str, int]:
    """Returns how many each band gives, never more than it has."""
    shares = dict.fromkeys(weights, 0)
    while (left := size - sum(shares.values())) > 0:
        open_bands = {name: weights[name] for name in weights if shares[name] < available[name]}
        if not open_bands:
            break
        for name, share in _rounded(left, open_bands).items():
            shares[name] += min(share, available[name] - shares[name])
    return shares


def _rounded(size: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Divides `size` by weight: rounded down, the rest to the largest remainders."""
    total = sum(weights.values())
    exact = {name: size * weight / total for name, weight in weights.items()}
    shares = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(exact, key=lambda name: shares[name] - exact[name])
    for name in by_remainder[: size - sum(shares.values())]:
        shares[name] += 1
    return shares


def _source(seed: int, purpose: str) -> random.Random:
    # A text, which Random digests, gives nearby seeds nothing in common.
    return random.Random(f"{seed}/{purpose}")


def _some(tasks: list[TaskSpec]) -> list[TaskSpec]:
    if not tasks:
        raise errors.InvalidInputError(
            "There is no task to play: the files have none, or all were filtered out."
        )
    return tasks


def _check_size(size: int | None) -> None:
    if size is not None and size < 1:
        raise errors.InvalidInputError(f"A sample has one task or more; got {size}.")
