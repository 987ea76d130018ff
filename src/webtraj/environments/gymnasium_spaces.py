"""Gymnasium's spaces as dm_env's specs."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from dm_env import specs

if TYPE_CHECKING:
    import gymnasium

__all__ = ["SpaceSpec", "TextSpec", "to_space", "to_spec"]

_EMPTY_VALUES: tuple[Any, ...] = ("", {}, (), 0, 0.0)

_NOT_IN_SPACE = "Expected a value that {!r} contains, got {!r} for spec {}"


def to_spec(space: gymnasium.Space[Any], name: str) -> Any:
    """Returns the spec, or nest of specs, of the values that `space` contains.

    | space | spec |
    |---|---|
    | Box, MultiBinary, MultiDiscrete | `BoundedArray` |
    | Discrete | `DiscreteArray`, or `BoundedArray` where it starts above or below 0 |
    | Text, BrowserGym's Unicode | `TextSpec`, a `StringArray` |
    | Dict, Tuple | dict, tuple of specs |
    | any other | `SpaceSpec` |

    Args:
        space: A Gymnasium space.
        name: Name of the spec; those in a nest are named `name/key`.
    """
    from gymnasium import spaces  # Loaded already by whoever has a space.

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
    """Returns a value that follows `to_spec(space)` in the form that the space itself uses.

    Specs know scalars only as arrays without dimensions, which a Gymnasium environment may use as
    an index or a key; they become numpy scalars and strings. Everything else is left as it is.
    """
    from gymnasium import spaces  # Loaded already by whoever has a space.

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
    """The spec of a text space: one string, of the length and the characters that it allows.

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
        """Returns the string as an array without dimensions.

        Raises:
            ValueError: It is no string, or not one that the space contains.
        """
        value = super().validate(value)
        if not self._space.contains(value[()]):
            raise ValueError(_NOT_IN_SPACE.format(self._space, value[()], self.name))
        return value

    def generate_value(self) -> Any:
        """Returns the shortest string that the space contains."""
        text = self._space.character_list[0] * self._space.min_length
        return np.array(text, dtype=object)

    def __reduce__(self) -> Any:
        return TextSpec, (self._space, self.name)


class SpaceSpec(specs.Array):  # type: ignore[misc]  # dm_env has no types.
    """The spec of a space that dm_env has no word for: valid is what the space contains.

    It stands for whole values, such as variable-length sequences, not for arrays of a known shape;
    `shape` is () and `dtype` object.

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
        """Returns the value.

        Raises:
            ValueError: The space does not contain it.
        """
        if not self._space.contains(value):
            raise ValueError(_NOT_IN_SPACE.format(self._space, value, self.name))
        return value

    def generate_value(self) -> Any:
        """Returns a value that the space contains, always the same.

        Raises:
            NotImplementedError: The space has no samples, and contains no empty value either.
        """
        space = copy.deepcopy(self._space)  # Whose random numbers are the environment's.
        space.seed(0)
        try:
            return space.sample()
        except NotImplementedError:  # BrowserGym's spaces only tell what they contain.
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
