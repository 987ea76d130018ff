"""Samplers, which choose the tasks that a rollout plays, and filters that exclude tasks."""

from __future__ import annotations

import collections
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
from webtraj.environments.tasks import TaskSpec, check_same, site_of, url_of
from webtraj.rollouts.results import NullRolloutObserver
from webtraj.runs.run import EpisodeResult
from webtraj.store import files
from webtraj.store.places import is_url, open_storage
from webtraj.trajectory import Outcome

__all__ = [
    "Band",
    "Blocklist",
    "CurriculumSampler",
    "DEFAULT_TTL",
    "RatioSampler",
    "Sampler",
    "Sequence",
    "UniformSampler",
    "distinct",
    "drop_blocked",
    "unseen",
]

# The blocklist: sites that recently refused an agent and are avoided for a while.
#
# Each refusal is one line, appended with a single write, so that several rollouts can share a
# file::
#
#     {"domain": "example.org", "url": "https://example.org/", "blocked_at": 1795190400.0,
#      "task_id": "...", "episode_id": "..."}
#
# The names are WebGym's. Lines may be added by hand; an unreadable line is skipped with a warning.
# Buckets do not support appending, so there each line is an object of its own under the list's
# name.

DEFAULT_TTL = 12 * 3600.0
"""Seconds that a site stays blocked; 12 hours, as in WebGym."""

_LOGGER = logging.getLogger(__name__)


class Blocklist(NullRolloutObserver):
    """Blocked sites, kept in a file or a bucket. As an observer it adds those of its rollout."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, Any] | None = None,
        ttl: float = DEFAULT_TTL,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Initialize the list. The file is created when the first site is added.

        Args:
            path: The file, or a bucket's URL such as `s3://bucket/run/blocklist.jsonl`.
            storage_options: For a bucket, as `webtraj.store.open_storage` takes them.
            ttl: Seconds that a site stays blocked.
            clock: Returns the time in seconds since the epoch.
        """
        self.path = path if isinstance(path, str) and is_url(path) else Path(path)
        self._bucket = open_storage(self.path, storage_options) if is_url(path) else None
        # A bucket may be slow or unreachable, and an episode must not wait for it.
        self._sender = concurrent.futures.ThreadPoolExecutor(1, "webtraj-blocklist")
        self._ttl = ttl
        self._clock = clock

    def episode_ended(self, result: EpisodeResult) -> None:
        """Block the site of an episode that it refused."""
        if result.outcome is Outcome.BLOCKED and result.site:
            self.add(result.site, task=result.task, episode_id=result.episode_id)

    def add(
        self, url: str, *, task: str = "", episode_id: str = "", at: float | None = None
    ) -> None:
        """Block the site that a URL leads to.

        Args:
            url: The URL or site name.
            task: The task.
            episode_id: The refused episode.
            at: Time in seconds since the epoch; now by default.

        Raises:
            CollectorError: The file cannot be written. Bucket writes run in the background, and
                their failures are logged.
        """
        line = {
            "domain": _site_of(url),
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
            with self.path.open("ab", buffering=0) as file:
                files.write_all(file.fileno(), orjson.dumps(line) + b"\n")
        except OSError as error:
            raise errors.CollectorError(
                f"Cannot write the blocklist {str(self.path)!r}: {error}."
            ) from error

    def sites(self) -> frozenset[str]:
        """Return the names of the currently blocked sites.

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
                    sites.add(_site_of(data["domain"]))
            except (ValueError, KeyError, TypeError, AttributeError):
                _LOGGER.warning(
                    "Skipped line %d of the blocklist %s: it cannot be read.", number, self.path
                )
        return frozenset(sites)

    def episode_ids(self) -> frozenset[str]:
        """Return the ids of all episodes that ever blocked a site.

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
            self._sender.submit(lambda: None).result()  # Wait for pending writes.
            keys = [entry.key for entry in self._bucket.list("")]
            return [line for key in keys for line in self._bucket.read(key).splitlines()]
        assert isinstance(self.path, Path)
        try:
            return self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise errors.InvalidInputError(
                f"Cannot read the blocklist {str(self.path)!r}: {error}."
            ) from error


# Filters that exclude tasks. They read and yield streams.


def distinct(tasks: Iterable[TaskSpec]) -> Iterator[TaskSpec]:
    """Yield each task once.

    As in WebGym, tasks are the same if they have the same subdomain, site, difficulty and goal.
    """
    seen: set[bytes] = set()
    for task in tasks:
        # A digest: a set of 300,000 goals would take a hundred times the memory.
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
    """Yield the tasks whose names are not in `names`, such as those of earlier iterations."""
    return (task for task in tasks if task.name not in names)


def drop_blocked(tasks: Iterable[TaskSpec], blocklist: Blocklist) -> Iterator[TaskSpec]:
    """Yield the tasks whose sites are not blocked. Only for training; a test plays all tasks."""
    blocked = blocklist.sites()
    return (task for task in tasks if not task.site or _site_of(task.site) not in blocked)


def _site_of(site: str) -> str:
    """Return the name of a site given by name or URL; other texts in lower case."""
    try:
        return site_of(url_of(site))
    except ValueError:
        return site.lower()


# Samplers choose the tasks to play from a stream of tasks.
#
# A sampler reads its stream once and keeps no more of it than it returns, so 300,000 tasks need no
# more memory than the thousand that are picked. The choice depends on the stream and the seed only.


class Sampler(Protocol):
    """Picks tasks."""

    def __call__(self, tasks: Iterable[TaskSpec], *, seed: int) -> list[TaskSpec]:
        """Return the tasks to play, in the order of play.

        Raises:
            InvalidInputError: There are no tasks to pick from.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class Sequence:
    """Takes the first tasks in order. On request, repeats the whole sequence."""

    size: int | None = None
    """Number of tasks; None for all."""
    repeat: int = 1
    """Number of times to play the sequence."""

    def __post_init__(self) -> None:
        _check_size(self.size)
        if self.repeat < 1:
            raise errors.InvalidInputError(f"repeat must be 1 or more; got {self.repeat}.")

    def __call__(self, tasks: Iterable[TaskSpec], *, seed: int) -> list[TaskSpec]:
        """Return the tasks; `seed` is ignored."""
        del seed
        return _some(list(itertools.islice(tasks, self.size))) * self.repeat


@dataclasses.dataclass(frozen=True, slots=True)
class UniformSampler:
    """Picks without replacement, each task as likely as any other."""

    size: int | None = None
    """Number of tasks; None for all, shuffled. All of them if there are fewer."""

    def __post_init__(self) -> None:
        _check_size(self.size)

    def __call__(self, tasks: Iterable[TaskSpec], *, seed: int) -> list[TaskSpec]:
        """Return the tasks, shuffled."""
        source = _source(seed, "uniform")
        picked = _some(_Reservoir(self.size, source).fill(tasks), self.size)
        source.shuffle(picked)
        return picked


@dataclasses.dataclass(frozen=True, slots=True)
class Band:
    """A range of difficulty and its share of the sample."""

    low: int
    """Lowest difficulty, inclusive."""
    high: int
    """Highest difficulty, inclusive."""
    weight: float
    """Share of the sample, relative to the other bands' weights."""


@dataclasses.dataclass(frozen=True, slots=True)
class RatioSampler:
    """Picks from each band of difficulty in proportion to its weight.

    Shares are rounded down, and the remaining places go to the largest remainders (WebGym's rule).
    A band with too few tasks leaves its remaining places to the others, by weight.
    """

    size: int
    """Number of tasks in all."""
    bands: Mapping[str, Band]
    """Bands by name. Where bands overlap, the first one takes the task."""

    def __post_init__(self) -> None:
        _check_size(self.size)
        if not self.bands:
            raise errors.InvalidInputError(
                "A ratio sampler needs at least one band of difficulty; got none."
            )
        for name, band in self.bands.items():
            if not (band.low <= band.high and band.weight > 0):
                raise errors.InvalidInputError(
                    f"The band {name!r} is {band}; expected low <= high and a weight above 0."
                )

    def __call__(self, tasks: Iterable[TaskSpec], *, seed: int) -> list[TaskSpec]:
        """Return the tasks, shuffled."""
        reservoirs = {
            # One band may have to make up for all others.
            name: _Reservoir(self.size, _source(seed, name))
            for name in self.bands
        }
        outside: collections.Counter[int] = collections.Counter()
        for task in tasks:
            for name, band in self.bands.items():
                if band.low <= task.difficulty <= band.high:
                    reservoirs[name].offer(task)
                    break
            else:
                outside[task.difficulty] += 1
        if outside:
            _LOGGER.warning(
                "%d tasks fit none of the difficulty bands %s; their difficulties: %s.",
                outside.total(), ", ".join(self.bands), ", ".join(map(str, sorted(outside))),
            )  # fmt: skip
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
        _source(seed, "order").shuffle(_some(picked, self.size))
        return picked


@dataclasses.dataclass(frozen=True, slots=True)
class CurriculumSampler:
    """Repeats each task as often as there is something to learn from it.

    Each task is played once. The remaining places are shared in proportion to p (1 - p), where p is
    the success rate of the task's last attempts: the learnability of Rutherford et al. (2024), "No
    Regrets". So a task that always or never succeeds gets few, and a new task gets the most.
    """

    size: int | None = None
    """Number of tasks, repetitions included; None for as many as there are tasks."""
    last: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    """Successes and attempts of each task when it was last played, by the task's name."""

    def __post_init__(self) -> None:
        _check_size(self.size)

    def __call__(self, tasks: Iterable[TaskSpec], *, seed: int) -> list[TaskSpec]:
        """Return the tasks, each repeated up to 10 times in a row, in random order."""
        by_name: dict[str, TaskSpec] = {}
        for task in tasks:
            check_same(by_name.setdefault(task.name, task), task)
        rest = (self.size or len(by_name)) - len(_some(list(by_name.values())))
        if rest < 0:
            raise errors.InvalidInputError(
                f"A curriculum plays each of the {len(by_name)} tasks at least once; got a sample "
                f"size of {self.size}. Raise it."
            )
        more = _divide(rest, {name: self._learnability(name) for name in by_name})
        rows = [
            [task] * min(_IN_A_ROW, 1 + more[name] - start)
            for name, task in by_name.items()
            for start in range(0, 1 + more[name], _IN_A_ROW)
        ]
        # In random order, a rollout that ends early leaves out some of each task.
        _source(seed, "curriculum").shuffle(rows)
        return [task for row in rows for task in row]

    def _learnability(self, name: str) -> float:
        successes, attempts = self.last.get(name, (0, 0))
        rate = (successes + 1) / (attempts + 2)  # Laplace's rule: above 0, below 1.
        return rate * (1 - rate)


_IN_A_ROW = 10
"""Repetitions in a row: a worker then keeps its page open, which is a fifth faster."""


class _Reservoir:
    """Keeps a uniform sample of the tasks offered to it (Vitter's algorithm R)."""

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
    """Return the number of tasks to take from each band, at most all of them."""
    shares = dict.fromkeys(weights, 0)
    while (left := size - sum(shares.values())) > 0:
        open_bands = {name: weights[name] for name in weights if shares[name] < available[name]}
        if not open_bands:
            break
        for name, share in _divide(left, open_bands).items():
            shares[name] += min(share, available[name] - shares[name])
    return shares


def _divide(size: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Divide `size` by weight: rounded down, remaining places to the largest remainders."""
    total = sum(weights.values())
    exact = {name: size * weight / total for name, weight in weights.items()}
    shares = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(exact, key=lambda name: shares[name] - exact[name])
    for name in by_remainder[: size - sum(shares.values())]:
        shares[name] += 1
    return shares


def _source(seed: int, purpose: str) -> random.Random:
    # Random hashes text, so nearby seeds give unrelated sequences.
    return random.Random(f"{seed}/{purpose}")


def _some(tasks: list[TaskSpec], wanted: int | None = None) -> list[TaskSpec]:
    """Return the tasks. Raise if there are none; warn if there are fewer than wanted."""
    if not tasks:
        raise errors.InvalidInputError(
            "No tasks to play: the task files are empty, or every task was filtered out."
        )
    if wanted is not None and len(tasks) < wanted:
        _LOGGER.warning("Only %d of the %d requested tasks are available.", len(tasks), wanted)
    return tasks


def _check_size(size: int | None) -> None:
    if size is not None and size < 1:
        raise errors.InvalidInputError(f"The sample size must be 1 or more; got {size}.")
