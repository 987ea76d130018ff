"""`from_gymnasium`: any Gymnasium environment as a webtraj one.

Gymnasium's `terminated` becomes LAST with discount 0, `truncated` LAST with discount 1, and both at
once a termination, since nothing follows a terminal state whatever the time limit says. Spaces
become specs; observations are passed on as they are.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import dm_env
import numpy as np

from webtraj import errors
from webtraj.environments import base, bridges, gymnasium_spaces

if TYPE_CHECKING:
    import gymnasium

__all__ = ["GymnasiumAdapter", "from_gymnasium"]

_NOT_GYMNASIUM = (
    "from_gymnasium takes a gymnasium.Env instance; got {given!r}. Vector environments hold many "
    "episodes at once and have no single trajectory: wrap each of their environments instead."
)


def from_gymnasium(
    environment: gymnasium.Env[Any, Any], *, seed: int | None = None
) -> base.Environment:
    """Returns a Gymnasium environment as an asynchronous dm_env one, on a thread of its own.

    BrowserGym's environments fit: every call is made on the one thread that synchronous Playwright
    demands. As they share a Playwright within a process, use one of them per process.

    Args:
        environment: A `gymnasium.Env`. It belongs to the bridge from now on.
        seed: Episode k is reset with `seed + k`, so that each is reproducible on its own. None
            leaves the seeds to the environment, and episodes without a known seed.

    Raises:
        InvalidInputError: It is not a `gymnasium.Env`.
        MissingDependencyError: Gymnasium is not installed.
    """
    return bridges.as_async(GymnasiumAdapter(environment, seed=seed))


class GymnasiumAdapter(dm_env.Environment):  # type: ignore[misc]  # dm_env has no types.
    """A Gymnasium environment behind dm_env's synchronous interface.

    Attributes of the wrapped environment stay reachable; `unwrapped` is its innermost one.

    Args:
        environment: A `gymnasium.Env`.
        seed: See `from_gymnasium`.

    Raises:
        InvalidInputError: It is not a `gymnasium.Env`.
        MissingDependencyError: Gymnasium is not installed.
    """

    def __init__(self, environment: gymnasium.Env[Any, Any], *, seed: int | None = None) -> None:
        if not isinstance(environment, _import_gymnasium().Env):
            raise errors.InvalidInputError(_NOT_GYMNASIUM.format(given=environment))
        self._environment = environment
        self._base_seed = seed
        self._episodes_begun = 0
        self._needs_reset = True
        self._goal = ""
        self._info: Mapping[str, Any] = {}

    @property
    def last_info(self) -> Mapping[str, Any]:
        """The `info` that came with the last timestep; empty before the first."""
        return self._info

    def reset(self) -> dm_env.TimeStep:
        """See `dm_env.Environment.reset`."""
        self._needs_reset = True
        observation, self._info = self._environment.reset(seed=self._next_seed())
        self._episodes_begun += 1
        self._needs_reset = False
        self._goal = _goal_in(observation)
        return dm_env.restart(observation)

    def step(self, action: Any) -> dm_env.TimeStep:
        """See `dm_env.Environment.step`. After a call that raised it resets, too."""
        if self._needs_reset:
            return self.reset()
        self._needs_reset = True  # Gymnasium says nothing of an environment whose step raised.
        observation, reward, terminated, truncated, self._info = self._environment.step(
            gymnasium_spaces.to_space(action, self._environment.action_space)
        )
        reward = float(reward) if np.ndim(reward) == 0 else np.asarray(reward)
        if terminated:
            return dm_env.termination(reward, observation)
        if truncated:
            return dm_env.truncation(reward, observation, discount=1.0)
        self._needs_reset = False
        return dm_env.transition(reward, observation, discount=1.0)

    def observation_spec(self) -> Any:
        """The observation space, as a nest of specs."""
        return gymnasium_spaces.to_spec(self._environment.observation_space, "observation")

    def action_spec(self) -> Any:
        """The action space, as a nest of specs."""
        return gymnasium_spaces.to_spec(self._environment.action_space, "action")

    def reward_spec(self) -> Any:
        """The reward space of a multi-objective environment; else a float."""
        space = getattr(self._environment.unwrapped, "reward_space", None)
        return super().reward_spec() if space is None else gymnasium_spaces.to_spec(space, "reward")

    def close(self) -> None:
        """Closes the environment; `step` after it begins by resetting."""
        self._needs_reset = True
        self._environment.close()

    def describe_episode(self) -> Mapping[str, Any]:
        """Names the environment by its Gymnasium id, the seed, and the goal where it shows one."""
        spec = self._environment.spec
        name = type(self._environment.unwrapped).__name__ if spec is None else spec.id
        description: dict[str, Any] = {
            "task": name,
            "environment": name,
            "versions": {"gymnasium": _import_gymnasium().__version__},
        }
        seed = self._next_seed() if self._needs_reset else self._current_seed()
        if seed is not None:
            description["seed"] = seed
        if self._goal and not self._needs_reset:
            description["goal"] = self._goal
        return description

    def __getattr__(self, name: str) -> Any:
        if name == "_environment" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._environment, name)

    def _next_seed(self) -> int | None:
        return None if self._base_seed is None else self._base_seed + self._episodes_begun

    def _current_seed(self) -> int | None:
        return None if self._base_seed is None else self._base_seed + self._episodes_begun - 1


def _goal_in(observation: Any) -> str:
    # BrowserGym and MiniWoB++ state the goal in the observation.
    if not isinstance(observation, Mapping):
        return ""
    goal = observation.get("goal") or observation.get("utterance")
    return goal if isinstance(goal, str) else ""


def _import_gymnasium() -> Any:
    try:
        return importlib.import_module("gymnasium")
    except ImportError as error:
        raise errors.missing_dependency("from_gymnasium needs Gymnasium", "gymnasium") from error
