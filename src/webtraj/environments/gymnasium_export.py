"""`to_gymnasium`: a webtraj environment for code that speaks Gymnasium.

dm_env's LAST with discount 0 becomes `terminated`, LAST with a discount above 0 `truncated`. Specs
become spaces; what no Gymnasium space can say (strings of any text, bytes, actions) is a
`SpecSpace`, whose members are what the spec accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import dm_env
import numpy as np
from dm_env import specs

from webtraj import errors
from webtraj.environments import base, bridges, contract, gymnasium_spaces

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    raise errors.missing_dependency("to_gymnasium needs Gymnasium", "gymnasium") from error

__all__ = ["GymnasiumEnvironment", "SpecSpace", "to_gymnasium", "to_gymnasium_space"]

_MAX_SEED = 2**31 - 1

if TYPE_CHECKING:
    _Env = gymnasium.Env[Any, Any]
    _Space = spaces.Space[Any]
else:
    _Env = gymnasium.Env
    _Space = spaces.Space


def to_gymnasium(environment: base.Environment | dm_env.Environment) -> GymnasiumEnvironment:
    """Returns an environment as a Gymnasium one.

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

    `info` holds what is not in the observation: `discount` (None after `reset`), what the
    environment says of the episode (`task`, `goal`, `seed`, ... where it has
    `describe_episode`), and after the last step `outcome` (where it has `episode_outcome`).

    The environment's other attributes stay reachable.

    Args:
        environment: A synchronous environment. Its reward must be a number.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it.

    def __init__(self, environment: dm_env.Environment) -> None:
        self._environment = environment
        self._needs_reset = True
        self._was_seeded = False
        self.observation_space = to_gymnasium_space(environment.observation_spec())
        self.action_space = to_gymnasium_space(environment.action_spec())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode. See `gymnasium.Env.reset`.

        Args:
            seed: The episode's seed, given to the environment's `set_seed`; without that method it
                has no effect on the environment. Once a seed was given, resets without one draw
                theirs from `np_random`, so that the whole sequence is reproducible.
            options: None are known.

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
            EnvironmentMisuseError: The episode has ended, or none was begun.
        """
        if self._needs_reset:
            raise errors.EnvironmentMisuseError(
                "No episode is under way: call reset() before the first step(), and after a step "
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
        """Closes the environment. Idempotent."""
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
        info: dict[str, Any] = {}
        describe = getattr(self._environment, "describe_episode", None)
        if callable(describe):
            info.update(describe())
        info["discount"] = timestep.discount
        judge = getattr(self._environment, "episode_outcome", None)
        if contract.step_type_of(timestep) is dm_env.StepType.LAST and callable(judge):
            info["outcome"] = judge().name.lower()
        return info


class SpecSpace(_Space):
    """The space of what a `dm_env` spec accepts.

    Args:
        spec: The spec. `sample` gives what its `generate_value` gives, always the same.
    """

    def __init__(self, spec: specs.Array) -> None:
        self.spec = spec
        super().__init__()

    @property
    def is_np_flattenable(self) -> bool:
        """Never: its members are no numbers."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Returns a value that the spec accepts."""
        return _without_array(self.spec.generate_value())

    def contains(self, x: Any) -> bool:
        """Whether the spec accepts a value."""
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
    """Returns the space of the values that a spec, or nest of specs, accepts.

    | spec | space |
    |---|---|
    | `DiscreteArray` | Discrete |
    | `BoundedArray`, `Array` of numbers | Box |
    | `Array` of bools | MultiBinary; Discrete(2) for a single one |
    | array of numpy's str type | Sequence of strings |
    | dict; list, tuple | Dict; Tuple |
    | what `from_gymnasium` made of a Text or other space | that space |
    | any other | `SpecSpace` |
    """
    if isinstance(spec, Mapping):
        return spaces.Dict({key: to_gymnasium_space(value) for key, value in spec.items()})
    if isinstance(spec, list | tuple):
        return spaces.Tuple([to_gymnasium_space(value) for value in spec])
    if isinstance(spec, gymnasium_spaces.TextSpec | gymnasium_spaces.SpaceSpec):
        return spec.space
    if isinstance(spec, specs.DiscreteArray):
        return spaces.Discrete(spec.num_values)
    if spec.dtype.kind == "U":
        return spaces.Sequence(SpecSpace(specs.StringArray(())))
    # Subclasses that we do not know may accept other shapes than the one they name.
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
    """Returns an observation in the form that the space's own code expects."""
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
