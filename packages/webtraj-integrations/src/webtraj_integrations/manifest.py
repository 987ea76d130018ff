"""The package manifest of an OpenEnv environment: `openenv.yaml` with its `validation` block.

OpenEnv's validation asks for the range of rewards, the reward of a policy without skill, and a
proof that the highest reward can be reached. `measure` plays the tasks with the random agent and,
if all have one, with the oracle; `declare` makes the package's files from that.
"""

from __future__ import annotations

import contextlib
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import webtraj
from webtraj import errors
from webtraj.rollouts import RolloutSummary, RunSpec, collect, plan_episodes
from webtraj.trajectory import Outcome

__all__ = ["Measured", "declare", "measure"]

Measured = Mapping[str, Sequence[float]]
"""Total rewards of episodes, by agent: `random`, and `oracle` if all tasks have a solution."""

_RESOURCES = {"cpu": 2, "memory_mb": 4096, "disk_mb": 2048, "episode_timeout_s": 600}
"""Enough for a browser with 16 pages."""


async def measure(
    presets: Sequence[str],
    *,
    episodes: int | None = None,
    parallel: int = 4,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
) -> Measured:
    """Play tasks with the random agent and the oracle. Nothing is recorded.

    Args:
        presets: Selectors of tasks.
        episodes: How many episodes each agent plays. Default: one for each task.
        parallel: How many episodes are played at a time.
        seed: The seed of the tasks and of the random agent.
        options: Options of the presets.

    Raises:
        InvalidInputError: No episode had a reward, or a selector is invalid.
    """

    async def play(agent: str) -> RolloutSummary:
        return await collect(
            RunSpec(
                preset=list(presets),
                agent=agent,
                episodes=episodes,
                seed=seed,
                parallel=parallel,
                environment_options=dict(options or {}),
            )
        )

    measured = {"random": _rewards(await play("random"))}
    if not measured["random"]:
        raise errors.InvalidInputError(
            "No episode had a reward, so there is no range to declare: the tasks have no judge, or "
            "their browser failed."
        )
    with contextlib.suppress(errors.InvalidInputError):  # A task has no solution.
        measured["oracle"] = _rewards(await play("oracle"))
    return measured


def declare(
    presets: Sequence[str], measured: Measured, options: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return the package's files by name: `openenv.yaml`, and `oracle.sh` if there is an oracle.

    Args:
        presets: Selectors of tasks.
        measured: The rewards.
        options: Options of the presets.
    """
    import yaml  # type: ignore[import-untyped]

    rewards = [one for each in measured.values() for one in each]
    lowest, highest = min(0.0, *rewards), max(1.0, *rewards)
    oracle = measured.get("oracle")
    capabilities: dict[str, Any] = {
        "verifier": {"kind": "reward_channel"},
        "declared_task_count": {"all": len(plan_episodes(list(presets)))},
    }
    reward: dict[str, Any] = {
        "range": [lowest, highest],
        # Rounded so that another sample of episodes still meets it.
        "floor_margin": max(0.0, math.floor((highest - _mean(measured["random"])) * 10) / 10),
    }
    files = {}
    if oracle:
        reward["oracle_tolerance"] = math.ceil(round((highest - _mean(oracle)) * 100, 6)) / 100
        capabilities["oracle"] = {"form": "script", "location": "oracle.sh"}
        command = ["webtraj", "rollout", "--agent", "oracle"]
        for preset in presets:
            command += ["--preset", preset]
        for key, value in (options or {}).items():
            command += ["--set", f"{key}={json.dumps(value)}"]
        files["oracle.sh"] = f'#!/bin/sh\nexec {shlex.join(command)} --out "${{1:-oracle}}"\n'
    manifest = {
        "spec_version": 1,
        "name": "webtraj",
        "version": webtraj.__version__,
        "type": "space",
        "runtime": "fastapi",
        "port": 8000,
        "validation": {
            "reward": reward,
            "resources": _RESOURCES,
            "capabilities": capabilities,
            "types": {"tags": ["web"]},
        },
    }
    return {"openenv.yaml": yaml.safe_dump(manifest, sort_keys=False), **files}


def _rewards(summary: RolloutSummary) -> list[float]:
    return [
        one.total_reward
        for one in summary.last_tries
        if one.total_reward is not None and one.outcome is not Outcome.UNKNOWN
    ]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
