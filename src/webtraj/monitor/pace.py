"""How fast a run goes, in the last minute and on the whole, and which sites are slow."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable

from webtraj.monitor.status import Rates, SitePace
from webtraj.monitor.tailing import JournalTail
from webtraj.rollouts.metrics.clock import BusyTime
from webtraj.store.index import EpisodeSummary

__all__ = ["MINUTE", "Pace", "Sites"]

MINUTE = 60.0


class Pace:
    """Counts what ended, and when."""

    def __init__(self) -> None:
        self._busy = BusyTime()
        self._recent: collections.deque[tuple[float, float, int]] = collections.deque()
        self.started: float | None = None
        """When the first episode began."""
        self.latest: float | None = None
        """When the last one ended."""
        self.episodes = 0
        self.steps = 0

    def add(self, summary: EpisodeSummary, now: float) -> None:
        """Takes an episode that ended."""
        self.episodes += 1
        self.steps += summary.num_steps
        start, end = summary.start_time, summary.end_time
        if start is None or end is None:
            return
        self._busy.add(start, end)
        self.started = start if self.started is None else min(self.started, start)
        self.latest = end if self.latest is None else max(self.latest, end)
        if end > now - MINUTE:
            self._recent.append((start, end, summary.num_steps))

    def minute(self, open_episodes: Iterable[JournalTail], now: float) -> Rates:
        """Returns the rates of the last minute, or of the time since the run began, if shorter.

        The steps of an episode that ended are taken to be spread evenly over its time; those of
        one under way are counted as they came.
        """
        begin = now - MINUTE
        self._recent = collections.deque(item for item in self._recent if item[1] > begin)
        tails = list(open_episodes)
        starts = [tail.began for tail in tails if tail.began is not None]
        if self.started is not None:
            starts.append(self.started)
        if not starts:
            return Rates()
        window = min(max(now - min(starts), 1.0), MINUTE)
        steps = sum(_share(start, end, begin, now) * n for start, end, n in self._recent)
        steps += sum(time > begin for tail in tails for time in tail.times)
        return Rates(
            episodes_per_second=len(self._recent) / window, steps_per_second=steps / window
        )

    def whole(self, until: float | None = None) -> Rates:
        """Returns the rates of all episodes that ended, over the time in which any was played.

        Args:
            until: Up to when episodes are under way; None if none is.
        """
        if self.latest is None:
            return Rates()
        seconds = (self._busy.seconds or 0.0) + max((until or 0.0) - self.latest, 0.0)
        if not seconds:
            return Rates()
        return Rates(
            episodes_per_second=self.episodes / seconds, steps_per_second=self.steps / seconds
        )


class Sites:
    """Adds up the episodes of each site, or of each task that has none."""

    def __init__(self) -> None:
        self._paces: dict[str, SitePace] = {}

    def add(self, site: str, seconds: float | None, steps: int, *, fault: bool) -> None:
        """Takes an episode that ended."""
        pace = self._paces.get(site) or SitePace(
            site=site, episodes=0, seconds=0.0, steps=0, faults=0
        )
        self._paces[site] = dataclasses.replace(
            pace,
            episodes=pace.episodes + 1,
            seconds=pace.seconds + (seconds or 0.0),
            steps=pace.steps + steps,
            faults=pace.faults + fault,
        )

    def slowest(self, number: int) -> tuple[SitePace, ...]:
        """Returns the slowest, in seconds a step."""
        ordered = sorted(self._paces.values(), key=lambda p: (-p.seconds_per_step, p.site))
        return tuple(ordered[:number])


def _share(start: float, end: float, begin: float, now: float) -> float:
    """Returns the share of an episode's time that lies between `begin` and `now`."""
    if end <= start:
        return 1.0
    return max(min(end, now) - max(start, begin), 0.0) / (end - start)
