"""The soak's audit sees each thing that may go wrong: a soak that cannot fail proves nothing."""

import collections
import dataclasses
from types import SimpleNamespace

import audit
import dm_env
import pytest
from census import Census

from webtraj import (
    EndReason,
    EpisodeInfo,
    JsonTrajectoryCollector,
    Outcome,
    TrajectoryCollectingEnvironment,
)
from webtraj.rollouts import EpisodeResult

CENSUS = Census(
    processes={"driver": 1, "browser": 2},
    private_mib={"rollout": 50.0, "driver": 100.0, "browsers": 200.0},
    zombies=0,
    files=12,
    threads=7,
    tasks=2,
    disk_mib=1.0,
)


class Won:
    """An environment that is won by its first step."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def describe_episode(self):
        return {"task": "win", "seed": self.seed}

    def episode_outcome(self):
        return Outcome.SUCCESS

    async def reset(self):
        return dm_env.restart("start")

    async def step(self, action):
        return dm_env.termination(1.0, "end")

    async def close(self):
        pass


@pytest.fixture
async def soak(tmp_path):
    """A soak of one recorded episode in each phase, all of which went well."""
    phases = {}
    async with JsonTrajectoryCollector(tmp_path / "dataset") as collector:
        for seed, name in enumerate(("warm-up", "storm", "calm")):
            env = TrajectoryCollectingEnvironment(
                Won(seed), collector, episode_info=EpisodeInfo(policy="oracle")
            )
            await env.reset()
            episode_id = env.episode_id
            await env.step("win")
            result = EpisodeResult(
                task="win",
                seed=seed,
                attempt=0,
                episode_id=episode_id,
                end_reason=EndReason.TERMINATED,
                outcome=Outcome.SUCCESS,
                num_steps=1,
                total_reward=1.0,
                seconds=0.1,
            )
            planned = SimpleNamespace(task="win", seed=seed)
            phases[name] = SimpleNamespace(planned=[planned], results=[result])
    return SimpleNamespace(
        folder=tmp_path / "dataset",
        phases=phases,
        faults=collections.Counter(),
        censuses={"warm-up": CENSUS, "calm": CENSUS},
        complaints=[],
        left_over=[],
    )


def change_result(phase, **changes):
    def change(soak):
        results = soak.phases[phase].results
        results[0] = dataclasses.replace(results[0], **changes)

    return change


def change_census(**changes):
    def change(soak):
        soak.censuses["calm"] = dataclasses.replace(CENSUS, **changes)

    return change


ERRORED = {
    "end_reason": EndReason.ERRORED,
    "outcome": Outcome.ENV_ERROR,
    "total_reward": None,
    "error": "BrowserCrashedError: The browser died.",
}

WRONG = {
    "an episode is lost": (lambda s: s.phases["storm"].results.clear(), "planned and not ended"),
    "an episode ends twice": (
        lambda s: s.phases["storm"].results.append(s.phases["storm"].results[0]),
        "or twice",
    ),
    "no verdict": (change_result("storm", outcome=Outcome.UNKNOWN), "has no verdict"),
    "a fault with a reward": (
        change_result("storm", **(ERRORED | {"total_reward": 0.0})),
        "taken for the agent's",
    ),
    "a fault of the agent's": (
        change_result("storm", **(ERRORED | {"outcome": Outcome.AGENT_ERROR})),
        "taken for the agent's",
    ),
    "an untyped fault": (
        change_result("storm", **(ERRORED | {"error": "RuntimeError: What?"})),
        "no type of its own",
    ),
    "a fault without a cause": (change_result("storm", **ERRORED), "the faults excuse 0"),
    "a cancelled one with a verdict": (
        change_result("storm", end_reason=EndReason.CANCELLED),
        "was cancelled, and has a verdict",
    ),
    "an end that no rollout gives": (
        change_result("storm", end_reason=EndReason.INTERRUPTED),
        "no end for an episode",
    ),
    "calm that is none": (change_result("calm", **ERRORED), "calm: the oracle met"),
    "a result that the dataset does not know": (
        change_result("storm", num_steps=2),
        "dataset: lacks 1",
    ),
    "a damaged file": (
        lambda s: next((s.folder / "episodes").rglob("*.json")).write_text("{}"),
        "dataset:",
    ),
    "another process": (change_census(processes={"browser": 9}), "3 processes became 9"),
    "memory": (
        change_census(private_mib={"rollout": 500.0, "driver": 100.0, "browsers": 200.0}),
        "the rollout grew by 450 MiB",
    ),
    "zombies": (change_census(zombies=9), "0 zombies became 9"),
    "open files": (change_census(files=99), "12 files became 99"),
    "tasks": (change_census(tasks=99), "2 tasks became 99"),
    "temporary files": (change_census(disk_mib=99.0), "temporary files became 99"),
    "a process after the end": (lambda s: s.left_over.append("node"), "node is left"),
    "an exception nobody saw": (lambda s: s.complaints.append("Task exception"), "Task exception"),
}


def test_nothing_is_said_of_a_soak_that_went_well(soak):
    assert list(audit.audit(soak)) == []


@pytest.mark.parametrize(("spoil", "complaint"), WRONG.values(), ids=WRONG.keys())
def test_everything_that_goes_wrong_is_seen(soak, spoil, complaint):
    spoil(soak)
    said = list(audit.audit(soak))
    assert any(complaint in sentence for sentence in said), said
