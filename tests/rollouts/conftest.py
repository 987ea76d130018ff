"""A small world to roll out in: a ladder of a few rungs, with a trap for each kind of trouble."""

import asyncio

import dm_env
import pytest

from webtraj import Decision, Outcome, errors, registry


class Ladder:
    """An environment that is climbed in `HEIGHT` steps; its task says what goes wrong on the way.

    Tasks: `climb` (success), `slip` (failure), `tire` (truncated), `crash` (step raises),
    `shut` (reset raises), `hang` (step never returns), `flaky` (step raises in odd episodes),
    `coin` (success in odd episodes).
    """

    HEIGHT = 3
    made = ()  # Every ladder of the test that runs; see the fixture below.
    playing = 0
    most_playing = 0

    def __init__(self, tasks, *, height=HEIGHT):
        (self.task,) = tasks
        self.height = height
        self.seed = None
        self.seeds = []
        self.closed = False
        self.rung = 0
        type(self).made = (*self.made, self)

    def set_seed(self, seed):
        self.seed = seed

    def describe_episode(self):
        return {"task": f"ladder/{self.task}", "seed": self.seed}

    def episode_outcome(self):
        if self.task == "tire":
            return Outcome.UNKNOWN
        return Outcome.SUCCESS if self._won() else Outcome.FAILURE

    def _won(self):
        return self.seed % 2 == 1 if self.task == "coin" else self.task != "slip"

    async def reset(self):
        if self.task == "shut":
            raise errors.BrowserTimeoutError("the door did not open")
        self.seeds.append(self.seed)
        self.rung = 0
        return dm_env.restart(self.rung)

    async def step(self, action):
        type(self).playing += 1
        type(self).most_playing = max(self.playing, self.most_playing)
        try:
            await asyncio.sleep(0)
        finally:
            type(self).playing -= 1
        if self.task == "crash" or (self.task == "flaky" and self.seed % 2):
            raise errors.BrowserCrashedError("the ladder broke")
        if self.task == "hang" and self.rung == 1:
            await asyncio.Event().wait()
        self.rung += 1
        if self.rung < self.height:
            return dm_env.transition(0.5, self.rung)
        if self.task == "tire":
            return dm_env.truncation(0.0, self.rung)
        return dm_env.termination(float(self._won()), self.rung)

    async def cheat(self):
        return "up" if self.task != "flat" else None

    async def close(self):
        self.closed = True

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc_info):
        await self.close()


class Climber:
    """An agent that goes up, or fails to."""

    name = "climber-1"

    def __init__(self, error=None, at=1):
        self._error = error
        self._at = at

    def begin_episode(self, environment):
        return self

    async def act(self, observation):
        if self._error is not None and observation == self._at:
            raise self._error
        return Decision(action="up", thought=f"I am on rung {observation}.")


TASKS = ("climb", "slip", "tire", "crash", "shut", "hang", "flaky", "flat", "coin")


@pytest.fixture(autouse=True)
def ladder(monkeypatch):
    """Registers a preset for each task, `ladder/climb`, and `ladder/all`; gives the class."""
    monkeypatch.setattr(registry, "_presets", {})
    monkeypatch.setattr(registry, "_builtin_loaded", True)
    monkeypatch.setattr(registry, "_plugins_loaded", True)
    monkeypatch.setattr(Ladder, "made", ())
    monkeypatch.setattr(Ladder, "most_playing", 0)
    for task in TASKS:
        registry.register(f"ladder/{task}", Ladder, tasks=(task,))
    registry.register("ladder/all", Ladder, tasks=TASKS)
    return Ladder


@pytest.fixture
def climber():
    """Gives the agent's class."""
    return Climber
