"""What is recorded of an environment, by a collector that keeps it in memory or on disk."""

import pytest

from webtraj import (
    JsonTrajectoryCollector,
    MemoryTrajectoryCollector,
    TrajectoryCollectingEnvironment,
    open_dataset,
)


class Recording:
    """A collector, environments that are recorded on it, and the episodes it has."""

    def __init__(self, make):
        self._make = make
        self.collector, self._read = make()

    async def begin_anew(self):
        """Goes on with an empty collector, for the next row of a table."""
        await self.collector.aclose()
        self.collector, self._read = self._make()

    def env(self, inner, **kwargs):
        return TrajectoryCollectingEnvironment(inner, self.collector, **kwargs)

    async def episodes(self):
        """The episodes that have ended, in the order in which they began."""
        await self.collector.flush()
        return list(self._read())

    async def only(self):
        """The one episode that has ended."""
        (episode,) = await self.episodes()
        return episode

    async def lines(self):
        """Each episode as `said` says it, and "open" for those that have not ended."""
        ended = [said(episode) for episode in await self.episodes()]
        return [*ended, *("open" for _ in self.collector.open_episodes)]


def said(episode):
    """An episode in a line: its steps with their actions, then how it ended.

    `first mid(a1) last(a2): terminated in step`
    """
    words = []
    for step in episode.steps:
        name = step.step_type.name.lower()
        if step.action is not None:
            name += f"({step.action})"
        if step.ignored_action is not None:
            name += f"(ignored {step.ignored_action})"
        words.append(name)
    end = episode.end
    line = f"{' '.join(words) or 'nothing'}: {end.reason.name.lower()} in {end.phase}"
    if end.action_in_flight:
        line += f", {end.in_flight_action} in flight"
    return line


@pytest.fixture(params=["memory", "json"])
async def recording(request, tmp_path):
    def memory():
        collector = MemoryTrajectoryCollector()
        return collector, lambda: collector.trajectories

    def json():
        folder = tmp_path / f"dataset{len(list(tmp_path.iterdir()))}"
        return JsonTrajectoryCollector(folder, fsync="never"), lambda: open_dataset(folder)

    recording = Recording({"memory": memory, "json": json}[request.param])
    yield recording
    await recording.collector.aclose()
