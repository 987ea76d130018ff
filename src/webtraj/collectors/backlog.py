"""The episodes that an uploader has to send: in which order, how far, and what is wrong with them.

All that is kept in memory of one is its id, its size and what failed.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable

from webtraj.collectors.sending import SentEpisode
from webtraj.store.index import index_file_name
from webtraj.store.layout import INDEX

__all__ = ["Backlog", "Entry", "Shard", "Shards", "Unsent"]

_BATCH = 100
"""Index lines that go together; each episode's file is kept open, and locked, until then."""
_BUSY_PAUSE = 0.25
_BUSY_LIMIT = 60.0
"""Seconds for which an episode may be in another process's hands before it is set aside."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unsent:
    """An episode that is not in the bucket."""

    episode_id: str
    size: int
    """In bytes, blobs included."""
    reason: str
    """What failed; empty if its turn has not come."""


@dataclasses.dataclass(slots=True)
class Entry:
    """An episode that waits, or is being sent."""

    number: int
    episode_id: str
    size: int
    since: float
    attempts: int = 0
    busy_since: float | None = None
    reason: str = ""


class Backlog:
    """Episodes in the order in which they are to be sent. Not safe to share without a lock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._unsent: dict[int, Entry] = {}
        self._set_aside: dict[int, Entry] = {}
        self._waiting: collections.deque[Entry] = collections.deque()
        self._busy: collections.deque[tuple[float, Entry]] = collections.deque()
        self.last_number = 0
        """Of the episode that was added last."""
        self.bytes_to_send = 0
        """Of the episodes that are not in the bucket, those that were set aside not counted."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def unsent(self) -> int:
        """Number of episodes that are not in the bucket."""
        return len(self._unsent) + len(self._set_aside)

    @property
    def set_aside(self) -> int:
        """Number of those that are not tried again."""
        return len(self._set_aside)

    @property
    def bytes_unsent(self) -> int:
        """Of all that are not in the bucket."""
        return self.bytes_to_send + sum(entry.size for entry in self._set_aside.values())

    @property
    def age(self) -> float | None:
        """Seconds since the oldest that is not in the bucket was added; None if all are."""
        oldest = [next(iter(them.values())) for them in (self._unsent, self._set_aside) if them]
        return self._clock() - min(entry.since for entry in oldest) if oldest else None

    def add(self, episode_id: str, size: int) -> None:
        """Adds an episode at the end."""
        self.last_number += 1
        entry = Entry(self.last_number, episode_id, size, self._clock())
        self._unsent[entry.number] = entry
        self.bytes_to_send += size
        self._waiting.append(entry)

    def take(self) -> Entry:
        """Takes the first one, to be sent."""
        return self._waiting.popleft()

    def put_first(self, entry: Entry) -> None:
        """Puts back one that was not tried."""
        self._waiting.appendleft(entry)

    def put_last(self, entry: Entry, reason: str) -> None:
        """Puts back one that failed, behind all others."""
        entry.reason = reason
        self._waiting.append(entry)

    def put_off(self, entry: Entry, reason: str) -> None:
        """Puts back one that another process is sending, for a short while."""
        entry.reason = reason
        now = self._clock()
        if entry.busy_since is None:
            entry.busy_since = now
        if now - entry.busy_since > _BUSY_LIMIT:
            self.put_aside(entry, reason)
        else:
            self._busy.append((now + _BUSY_PAUSE, entry))

    def put_aside(self, entry: Entry, reason: str) -> None:
        """Gives one up, until a push."""
        entry.reason = reason
        self.remove(entry)
        self._set_aside[entry.number] = entry

    def remove(self, entry: Entry) -> None:
        """Forgets one that is in the bucket."""
        self.bytes_to_send -= self._unsent.pop(entry.number).size

    def wake(self) -> float | None:
        """Lets those wait again that were put off; returns when the next is to be, or None."""
        while self._busy and self._busy[0][0] <= self._clock():
            self._waiting.append(self._busy.popleft()[1])
        return self._busy[0][0] if self._busy else None

    def done_until(self, number: int) -> bool:
        """Returns whether all up to that number are sent, or set aside."""
        first = next(iter(self._unsent), None)
        return first is None or first > number

    def list(self, until: int) -> list[Unsent]:
        """Returns those up to that number that are not in the bucket, those set aside first."""
        entries = [*self._set_aside.values(), *self._unsent.values()]
        return [
            Unsent(entry.episode_id, entry.size, entry.reason)
            for entry in entries
            if entry.number <= until
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class Shard:
    """Index lines that go together, and the episodes that they are of."""

    key: str
    episodes: list[tuple[Entry, SentEpisode]]

    @property
    def content(self) -> bytes:
        """The index lines."""
        return b"".join(sent.summary.to_line() for _, sent in self.episodes)


class Shards:
    """Index lines that are to go, in batches. Not safe to share without a lock."""

    def __init__(self, interval: float, clock: Callable[[], float]) -> None:
        self._interval = interval
        self._clock = clock
        self._batch: list[tuple[Entry, SentEpisode]] = []
        self._due = 0.0
        self._ready: collections.deque[Shard] = collections.deque()

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, entry: Entry, sent: SentEpisode) -> None:
        """Adds an episode's line to the batch."""
        if not self._batch:
            self._due = self._clock() + self._interval
        self._batch.append((entry, sent))

    def cut(self, *, now: bool) -> float | None:
        """Makes shards of the batch: if it is full, or its time has come, or `now`.

        Returns:
            When its time will come; None if nothing is left in it.
        """
        while self._batch and (now or len(self._batch) >= _BATCH or self._clock() >= self._due):
            some, self._batch = self._batch[:_BATCH], self._batch[_BATCH:]
            self._ready.append(Shard(INDEX + index_file_name(), some))
        return self._due if self._batch else None

    def take(self) -> Shard:
        """Takes a shard, to be written."""
        return self._ready.popleft()

    def put_back(self, shard: Shard) -> None:
        """Puts back one that could not be written: as it is, since it may have been."""
        self._ready.appendleft(shard)

    def let_go(self) -> None:
        """Gives all up, and lets others send their episodes."""
        for _, sent in [*self._batch, *(pair for shard in self._ready for pair in shard.episodes)]:
            sent.claim.release()
        self._batch.clear()
        self._ready.clear()
