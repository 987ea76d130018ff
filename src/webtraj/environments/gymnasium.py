"""Gymnasium, both ways: `from_gymnasium` and `to_gymnasium`.

Gymnasium's `terminated` is LAST with discount 0, `truncated` LAST with discount 1 (on the way back,
with any discount above 0), and both at once are a termination, because nothing follows a terminal
state. Spaces become specs and specs become spaces; a spec without a matching Gymnasium space
(arbitrary strings, bytes, actions) becomes a `SpecSpace`, which contains what the spec accepts.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import dm_env
import numpy as np
from dm_env import specs

from webtraj import errors
from webtraj.environments import base as contract
from webtraj.environments import bridges

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    raise errors.missing_dependency(
        "from_gymnasium and to_gymnasium need Gymnasium", "gymnasium"
    ) from error

__all__ = [
    "GymnasiumAdapter",
    "GymnasiumEnvironment",
    "SpaceSpec",
    "SpecSpace",
    "TextSpec",
    "from_gymnasium",
    "to_gymnasium",
    "to_gymnasium_space",
    "to_space",
    "to_spec",
]

# From Gymnasium to webtraj.

_NOT_GYMNASIUM = (
    "from_gymnasium takes a gymnasium.Env instance; got {given!r}. Vector environments hold many "
    "episodes at once and have no single trajectory: wrap each of their environments instead."
)


def from_gymnasium(
    environment: gymnasium.Env[Any, Any], *, seed: int | None = None
) -> contract.Environment:
    """Wrap a Gymnasium environment as an asynchronous dm_env one, on a thread of its own.

    BrowserGym's environments work: every call runs on one thread, as synchronous Playwright
    requires. They share one Playwright per process, so use one of them per process.

    Args:
        environment: A `gymnasium.Env`. It belongs to the bridge from now on.
        seed: Episode k is reset with `seed + k`, so each is reproducible on its own. With None the
            environment chooses its seeds, and none is recorded. `set_seed` overrides either for the
            next episode; rollouts call it.

    Raises:
        InvalidInputError: It is not a `gymnasium.Env`.
        MissingDependencyError: Gymnasium is not installed.
    """
    return bridges.as_async(GymnasiumAdapter(environment, seed=seed))


class GymnasiumAdapter(dm_env.Environment):  # type: ignore[misc]  # dm_env has no types.
    """A Gymnasium environment behind dm_env's synchronous interface.

    Attributes are forwarded to the wrapped environment; `unwrapped` is the innermost one.

    Args:
        environment: A `gymnasium.Env`.
        seed: See `from_gymnasium`.

    Raises:
        InvalidInputError: It is not a `gymnasium.Env`.
        MissingDependencyError: Gymnasium is not installed.
    """

    def __init__(self, environment: gymnasium.Env[Any, Any], *, seed: int | None = None) -> None:
        if not isinstance(environment, gymnasium.Env):
            raise errors.InvalidInputError(_NOT_GYMNASIUM.format(given=environment))
        self._environment = environment
        self._base_seed = seed
        self._set_seed: int | None = None
        self._seed: int | None = None
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
        seed = self._next_seed()
        observation, self._info = self._environment.reset(seed=seed)
        self._seed, self._set_seed = seed, None
        self._episodes_begun += 1
        self._needs_reset = False
        self._goal = _goal_in(observation)
        return dm_env.restart(observation)

    def step(self, action: Any) -> dm_env.TimeStep:
        """Step, or reset after a call that raised. See `dm_env.Environment.step`."""
        if self._needs_reset:
            return self.reset()
        self._needs_reset = True  # Gymnasium does not define the state after a step that raised.
        observation, given, terminated, truncated, self._info = self._environment.step(
            to_space(action, self._environment.action_space)
        )
        # Some environments return an array, contrary to Gymnasium's types.
        reward: Any = np.asarray(given)
        reward = float(reward) if reward.ndim == 0 else reward
        if terminated:
            return dm_env.termination(reward, observation)
        if truncated:
            return dm_env.truncation(reward, observation, discount=1.0)
        self._needs_reset = False
        return dm_env.transition(reward, observation, discount=1.0)

    def observation_spec(self) -> Any:
        """The observation space, as a nest of specs."""
        return to_spec(self._environment.observation_space, "observation")

    def action_spec(self) -> Any:
        """The action space, as a nest of specs."""
        return to_spec(self._environment.action_space, "action")

    def reward_spec(self) -> Any:
        """The spec of the reward: a float, or the space of a multi-objective environment."""
        space = getattr(self._environment.unwrapped, "reward_space", None)
        return super().reward_spec() if space is None else to_spec(space, "reward")

    def close(self) -> None:
        """Close the environment; a later `step` resets it first."""
        self._needs_reset = True
        self._environment.close()

    def set_seed(self, seed: int) -> None:
        """Reset the next episode with this seed, as rollouts do."""
        self._set_seed = seed

    def describe_episode(self) -> Mapping[str, Any]:
        """Return the environment's Gymnasium id, the seed, and the goal if it has one."""
        spec = self._environment.spec
        name = type(self._environment.unwrapped).__name__ if spec is None else spec.id
        description: dict[str, Any] = {
            "task": name,
            "environment": name,
            "versions": {"gymnasium": gymnasium.__version__},
        }
        seed = self._next_seed() if self._needs_reset else self._seed
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
        if self._set_seed is not None:
            return self._set_seed
        return None if self._base_seed is None else self._base_seed + self._episodes_begun


def _goal_in(observation: Any) -> str:
    # BrowserGym and MiniWoB++ give the goal in the observation.
    if not isinstance(observation, Mapping):
        return ""
    goal = observation.get("goal") or observation.get("utterance")
    return goal if isinstance(goal, str) else ""


# From Gymnasium's spaces to dm_env's specs.

_EMPTY_VALUES: tuple[Any, ...] = ("", {}, (), 0, 0.0)

_NOT_IN_SPACE = "Expected a value that {!r} contains, got {!r} for spec {}"


def to_spec(space: gymnasium.Space[Any], name: str) -> Any:
    """Return the spec, or nest of specs, for the values in `space`.

    | space | spec |
    |---|---|
    | Box, MultiBinary, MultiDiscrete | `BoundedArray` |
    | Discrete | `DiscreteArray`, or `BoundedArray` if it does not start at 0 |
    | Text, BrowserGym's Unicode | `TextSpec`, a `StringArray` |
    | Dict, Tuple | dict, tuple of specs |
    | any other | `SpaceSpec` |

    Args:
        space: A Gymnasium space.
        name: Name of the spec; those in a nest are named `name/key`.
    """
    match space:
        case spaces.Dict():
            return {key: to_spec(value, f"{name}/{key}") for key, value in space.spaces.items()}
        case spaces.Tuple():
            return tuple(to_spec(value, f"{name}/{i}") for i, value in enumerate(space.spaces))
        case spaces.Box():
            return specs.BoundedArray(space.shape, space.dtype, space.low, space.high, name)
        case spaces.Discrete() if space.start == 0:
            return specs.DiscreteArray(int(space.n), space.dtype, name)
        case spaces.Discrete():
            low = int(space.start)
            return specs.BoundedArray((), space.dtype, low, low + int(space.n) - 1, name)
        case spaces.MultiDiscrete():
            high = space.start + space.nvec - 1
            return specs.BoundedArray(space.shape, space.dtype, space.start, high, name)
        case spaces.MultiBinary():
            return specs.BoundedArray(space.shape, space.dtype, 0, 1, name)
        case spaces.Text():
            return TextSpec(space, name)
        case _:
            return SpaceSpec(space, name)


def to_space(value: Any, space: gymnasium.Space[Any]) -> Any:
    """Convert a value of `to_spec(space)` to the form that the space itself uses.

    Specs represent scalars as 0-d arrays, but a Gymnasium environment may use them as an index or
    key, so they become numpy scalars and strings. Other values are unchanged.
    """
    if isinstance(space, spaces.Dict) and isinstance(value, dict):
        known = space.spaces
        return {
            key: to_space(item, known[key]) if key in known else item for key, item in value.items()
        }
    if isinstance(space, spaces.Tuple) and isinstance(value, tuple):
        return tuple(to_space(item, inner) for item, inner in zip(value, space.spaces, strict=True))
    if isinstance(space, (spaces.Discrete, spaces.Text)) and isinstance(value, np.ndarray):
        return value[()]
    return value


class TextSpec(specs.StringArray):  # type: ignore[misc]  # dm_env has no types.
    """The spec of a text space: one string of allowed length and characters.

    Args:
        space: The Gymnasium space.
        name: The spec's name.
    """

    __slots__ = ("_space",)

    def __init__(self, space: gymnasium.spaces.Text, name: str | None = None) -> None:
        super().__init__((), str, name)
        self._space = space

    @property
    def space(self) -> gymnasium.spaces.Text:
        """The space."""
        return self._space

    def validate(self, value: Any) -> Any:
        """Return the string as an array without dimensions.

        Raises:
            ValueError: It is not a string that the space contains.
        """
        value = super().validate(value)
        if not self._space.contains(value[()]):
            raise ValueError(_NOT_IN_SPACE.format(self._space, value[()], self.name))
        return value

    def generate_value(self) -> Any:
        """Return the shortest string that the space contains."""
        text = self._space.character_list[0] * self._space.min_length
        return np.array(text, dtype=object)

    def __reduce__(self) -> Any:
        return TextSpec, (self._space, self.name)


class SpaceSpec(specs.Array):  # type: ignore[misc]  # dm_env has no types.
    """The spec of a space without a dm_env counterpart: valid values are its members.

    It describes whole values, such as variable-length sequences, not arrays of a known shape;
    `shape` is () and `dtype` is object.

    Args:
        space: The Gymnasium space.
        name: The spec's name.
    """

    __slots__ = ("_space",)

    def __init__(self, space: gymnasium.Space[Any], name: str | None = None) -> None:
        super().__init__((), object, name)
        self._space = space

    @property
    def space(self) -> gymnasium.Space[Any]:
        """The space."""
        return self._space

    def validate(self, value: Any) -> Any:
        """Return the value.

        Raises:
            ValueError: The space does not contain it.
        """
        if not self._space.contains(value):
            raise ValueError(_NOT_IN_SPACE.format(self._space, value, self.name))
        return value

    def generate_value(self) -> Any:
        """Return a value in the space; the same on every call.

        Raises:
            NotImplementedError: The space cannot be sampled and contains no empty value.
        """
        space = copy.deepcopy(self._space)  # Do not disturb the environment's random numbers.
        space.seed(0)
        try:
            return space.sample()
        except NotImplementedError:  # BrowserGym's spaces only implement `contains`.
            for value in _EMPTY_VALUES:
                if space.contains(value):
                    return value
            raise

    def __repr__(self) -> str:
        return f"SpaceSpec({self._space!r}, name={self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SpaceSpec) and self._space == other._space

    __hash__ = None  # type: ignore[assignment]  # As all of dm_env's specs.

    def __reduce__(self) -> Any:
        return SpaceSpec, (self._space, self.name)


# From webtraj to Gymnasium.

_MAX_SEED = 2**31 - 1

if TYPE_CHECKING:
    _Env = gymnasium.Env[Any, Any]
    _Space = spaces.Space[Any]
else:
    _Env = gymnasium.Env
    _Space = spaces.Space


def to_gymnasium(environment: contract.Environment | dm_env.Environment) -> GymnasiumEnvironment:
    """Wrap an environment as a Gymnasium one.

    >>> from webtraj.testing import fakes
    >>> env = to_gymnasium(fakes.Catch())
    >>> observation, info = env.reset()
    >>> observation, reward, terminated, truncated, info = env.step(1)
    >>> reward, terminated, truncated
    (0.0, False, False)
    >>> env.close()

    Args:
        environment: An environment of webtraj or dm_env, recorded or not. It belongs to the bridge
            from now on. An asynchronous one runs on a thread of its own (`as_sync`).
    """
    return GymnasiumEnvironment(bridges.as_sync(environment))


class GymnasiumEnvironment(_Env):
    """A synchronous dm_env environment behind Gymnasium's interface.

    `info` holds what is not in the observation: `discount` (None after `reset`), the episode's
    description (`task`, `goal`, `seed`, ... if the environment has `describe_episode`), and after
    the last step `outcome` (if it has `episode_outcome`).

    Other attributes are forwarded to the environment.

    Args:
        environment: A synchronous environment whose reward is a number.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it.

    def __init__(self, environment: dm_env.Environment) -> None:
        self._environment = environment
        self._needs_reset = True
        self._was_seeded = False
        self._described: Mapping[str, Any] = {}
        self.observation_space = to_gymnasium_space(environment.observation_spec())
        self.action_space = to_gymnasium_space(environment.action_spec())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode. See `gymnasium.Env.reset`.

        Args:
            seed: The episode's seed, passed to the environment's `set_seed` if it has one. Once a
                seed was given, resets without one draw theirs from `np_random`, so the whole
                sequence is reproducible.
            options: Not supported.

        Raises:
            InvalidInputError: An option was given.
        """
        if options:
            raise errors.InvalidInputError(
                f"A webtraj environment takes no options at reset; got {sorted(options)}."
            )
        super().reset(seed=seed)
        if seed is None and self._was_seeded:
            seed = int(self.np_random.integers(_MAX_SEED))
        set_seed = getattr(self._environment, "set_seed", None)
        if seed is not None and callable(set_seed):
            self._was_seeded = True
            set_seed(seed)
        self._needs_reset = True
        timestep = self._environment.reset()
        self._needs_reset = False
        return self._observation(timestep), self._info(timestep)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Acts. See `gymnasium.Env.step`.

        Raises:
            EnvironmentMisuseError: No episode is running.
        """
        if self._needs_reset:
            raise errors.EnvironmentMisuseError(
                "No episode is running: call reset() before the first step(), and after a step "
                "that terminated, truncated or raised."
            )
        self._needs_reset = True  # Until the environment has answered.
        timestep = self._environment.step(action)
        last = contract.step_type_of(timestep) is dm_env.StepType.LAST
        terminated = last and contract.is_termination(timestep.discount)
        self._needs_reset = last
        observation, info = self._observation(timestep), self._info(timestep)
        return observation, float(timestep.reward), terminated, last and not terminated, info

    def close(self) -> None:
        """Close the environment. Idempotent."""
        self._needs_reset = True
        self._environment.close()

    def __getattr__(self, name: str) -> Any:
        # Gymnasium's own wrappers and checks probe for private names.
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._environment, name)

    def _observation(self, timestep: dm_env.TimeStep) -> Any:
        return _to_member(timestep.observation, self.observation_space)

    def _info(self, timestep: dm_env.TimeStep) -> dict[str, Any]:
        last = contract.step_type_of(timestep) is dm_env.StepType.LAST
        describe = getattr(self._environment, "describe_episode", None)
        if callable(describe) and not last:  # After LAST it may describe the next episode.
            self._described = describe()
        # Gymnasium wants an object of its own each time.
        info = {**copy.deepcopy(dict(self._described)), "discount": timestep.discount}
        if last and callable(getattr(self._environment, "episode_outcome", None)):
            info["outcome"] = contract.outcome_of(self._environment).name.lower()
        return info


class SpecSpace(_Space):
    """The space of the values that a `dm_env` spec accepts.

    Args:
        spec: The spec. `sample` always returns the same `generate_value`.
    """

    def __init__(self, spec: specs.Array) -> None:
        self.spec = spec
        super().__init__()

    @property
    def is_np_flattenable(self) -> bool:
        """Always False: its members are not numbers."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Return a value that the spec accepts."""
        return _without_array(self.spec.generate_value())

    def contains(self, x: Any) -> bool:
        """Return whether the spec accepts a value."""
        try:
            self.spec.validate(x)
        except (ValueError, TypeError):
            return False
        return True

    def __repr__(self) -> str:
        return f"SpecSpace({self.spec!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SpecSpace) and repr(self.spec) == repr(other.spec)

    __hash__ = None  # type: ignore[assignment]  # As all of Gymnasium's spaces.


def to_gymnasium_space(spec: Any) -> spaces.Space[Any]:
    """Return the space of values that a spec, or nest of specs, accepts.

    | spec | space |
    |---|---|
    | `DiscreteArray` | Discrete |
    | `BoundedArray`, `Array` of numbers | Box |
    | `Array` of bools | MultiBinary; Discrete(2) for a single one |
    | array of numpy's str type | Sequence of strings |
    | dict; list, tuple | Dict; Tuple |
    | spec of a space, from `from_gymnasium` | that space |
    | any other | `SpecSpace` |
    """
    if isinstance(spec, Mapping):
        return spaces.Dict({key: to_gymnasium_space(value) for key, value in spec.items()})
    if isinstance(spec, list | tuple):
        return spaces.Tuple([to_gymnasium_space(value) for value in spec])
    if isinstance(spec, TextSpec | SpaceSpec):
        return spec.space
    if isinstance(spec, specs.DiscreteArray):
        return spaces.Discrete(spec.num_values)
    if spec.dtype.kind == "U":
        return spaces.Sequence(SpecSpace(specs.StringArray(())))
    # Unknown subclasses may accept other shapes than the one they name.
    if type(spec) not in (specs.Array, specs.BoundedArray) or spec.dtype.kind not in "biuf":
        return SpecSpace(spec)
    if spec.dtype.kind == "b":
        return spaces.MultiBinary(spec.shape) if spec.shape else spaces.Discrete(2)
    low, high = _limits(spec)
    return spaces.Box(low, high, spec.shape, spec.dtype)


def _limits(spec: specs.Array) -> tuple[Any, Any]:
    if isinstance(spec, specs.BoundedArray):
        low, high = spec.minimum, spec.maximum
    elif spec.dtype.kind == "f":
        low, high = -np.inf, np.inf
    else:
        low, high = np.iinfo(spec.dtype).min, np.iinfo(spec.dtype).max
    return (
        np.broadcast_to(np.asarray(low, dtype=spec.dtype), spec.shape),
        np.broadcast_to(np.asarray(high, dtype=spec.dtype), spec.shape),
    )


def _to_member(value: Any, space: spaces.Space[Any]) -> Any:
    """Convert an observation to the form that the space's own code expects."""
    match space:
        case spaces.Dict():
            return {key: _to_member(value[key], inner) for key, inner in space.spaces.items()}
        case spaces.Tuple():
            return tuple(_to_member(v, s) for v, s in zip(value, space.spaces, strict=True))
        case spaces.Box() | spaces.MultiBinary():
            return np.asarray(value, dtype=space.dtype)
        case spaces.Discrete():
            return int(value)
        case spaces.Sequence() if isinstance(value, np.ndarray) and value.dtype.kind == "U":
            return tuple(value.tolist())
        case _:
            return _without_array(value)


def _without_array(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item()
    return value
