"""Rollouts whose episodes end as the tests say, recorded for reports to read."""

import asyncio

import dm_env
import pytest

from webtraj import Decision, Outcome, errors, registry
from webtraj.rollouts import RunSpec, TaskSpec, collect


class Told:
    """An environment that ends as it is told: `ends(task, seed, tries)`."""

    def __init__(self, tasks, *, ends):
        (self.task,) = tasks
        self.ends = ends
        self.tries = 0

    def set_seed(self, seed):
        self.seed = seed

    def describe_episode(self):
        return {"task": self.task, "seed": self.seed}

    def episode_outcome(self):
        return Outcome[self.outcome.upper()]

    async def reset(self):
        self.tries += 1
        self.outcome = self.ends(self.task, self.seed)
        return dm_env.restart(0)

    async def step(self, action):
        if self.outcome == "crash":
            raise errors.BrowserCrashedError("it <b>broke</b>")
        return dm_env.termination(float(self.outcome == "success"), 1)

    async def close(self):
        pass

    async def __aenter__(self):
        return self

    async def __aexit__(self, *exc_info):
        pass


class Doer:
    name = "doer"

    def begin_episode(self, environment):
        return self

    async def act(self, observation):
        return Decision(action="do")


def player(folder, monkeypatch):
    """Returns what plays tasks into a folder, and returns the dataset's place."""
    registry.info()  # Loads the presets that ship, which would land in the copy otherwise.
    monkeypatch.setattr(registry, "_presets", dict(registry._presets))

    def play(name, tasks, ends, *, attempts=4, seed=0, retries=0, options=None):
        specs = []
        for number, task in enumerate(tasks):
            preset = f"told/{task.encode('utf-8', 'replace').hex()[:80]}"
            if preset not in {info.name for info in registry.info()}:
                registry.register(preset, Told, tasks=(task,))
            specs.append(TaskSpec(name=task, preset=preset, difficulty=1 + 3 * number))
        out = name if "://" in name else str(folder / name)
        asyncio.run(
            collect(
                RunSpec(
                    out=out,
                    attempts=attempts,
                    seed=seed,
                    storage_options=options or {},
                    environment_options={"ends": ends},
                    max_retries=retries,
                    retry_pause=0.001,
                    max_consecutive_errors=999,
                ),
                tasks=specs,
                agent=Doer(),
            )
        )
        return out

    return play


def ends_well(share):
    """Returns what ends a share of the episodes well; the same ones for the same seeds."""
    return lambda task, seed: "success" if seed % 100 < 100 * share else "failure"


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Gives `player` for the test's folder."""
    return player(tmp_path, monkeypatch)


@pytest.fixture
def ends_by():
    """Gives `ends_well`."""
    return ends_well


@pytest.fixture(scope="module")
def two_named(tmp_path_factory):
    """Gives what makes two datasets, a and b, whose tasks have the given names."""

    def make(tasks):
        with pytest.MonkeyPatch.context() as monkeypatch:
            play = player(tmp_path_factory.mktemp("two"), monkeypatch)
            return [play(name, tasks, ends_well(share)) for name, share in (("a", 0.3), ("b", 0.9))]

    return make
