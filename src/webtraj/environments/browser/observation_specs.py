"""The dm_env specs of observations."""

from __future__ import annotations

from typing import Any

import numpy as np
from dm_env import specs
from numpy.typing import NDArray

from webtraj.environments.browser import observation as observation_lib

__all__ = ["Column", "Rows", "Strings", "observation_spec"]


class Strings(specs.Array):  # type: ignore[misc]  # dm_env is untyped.
    """A list of strings of any length, as a one-dimensional array of numpy's str type."""

    def __init__(self, name: str) -> None:
        super().__init__(shape=(0,), dtype=np.str_, name=name)

    def validate(self, value: Any) -> NDArray[np.str_]:
        """See `specs.Array.validate`."""
        array: NDArray[np.str_] = np.asarray(value)
        if array.ndim != 1 or array.dtype.kind != "U":
            raise ValueError(
                f"{self.name} must be a one-dimensional array of str; "
                f"got shape {array.shape} of {array.dtype}."
            )
        return array

    def generate_value(self) -> NDArray[np.str_]:
        """See `specs.Array.generate_value`."""
        return np.array([], dtype=np.str_)

    def __reduce__(self) -> tuple[Any, ...]:
        return Strings, (self.name,)


class Column(specs.Array):  # type: ignore[misc]  # dm_env is untyped.
    """A column of values of one type with any number of rows: shape (n,)."""

    def __init__(self, name: str, dtype: type) -> None:
        super().__init__(shape=(0,), dtype=dtype, name=name)
        self._type = dtype

    def validate(self, value: Any) -> NDArray[Any]:
        """See `specs.Array.validate`."""
        array: NDArray[Any] = np.asarray(value)
        if array.ndim != 1 or array.dtype != self.dtype:
            raise ValueError(
                f"{self.name} must be {self.dtype} of shape (n,); "
                f"got shape {array.shape} of {array.dtype}."
            )
        return array

    def generate_value(self) -> NDArray[Any]:
        """See `specs.Array.generate_value`."""
        return np.zeros(self.shape, dtype=self.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return Column, (self.name, self._type)


class Rows(specs.Array):  # type: ignore[misc]  # dm_env is untyped.
    """A table of floats with any number of rows: shape (n, columns)."""

    def __init__(self, name: str, columns: int) -> None:
        super().__init__(shape=(0, columns), dtype=np.float64, name=name)

    def validate(self, value: Any) -> NDArray[np.float64]:
        """See `specs.Array.validate`."""
        array: NDArray[np.float64] = np.asarray(value)
        if array.ndim != 2 or array.shape[1] != self.shape[1] or array.dtype != np.float64:
            raise ValueError(
                f"{self.name} must be float64 of shape (n, {self.shape[1]}); "
                f"got shape {array.shape} of {array.dtype}."
            )
        return array

    def generate_value(self) -> NDArray[np.float64]:
        """See `specs.Array.generate_value`."""
        return np.zeros(self.shape)

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (self.name, self.shape[1])


def observation_spec(observe: observation_lib.Observe) -> dict[str, Any]:
    """Returns the specs of the observations that `observe` asks for."""
    every = {
        **{key: _string(key) for key in ("goal", "url", "title", "axtree", "text", "focused")},
        "screenshot": specs.StringArray(shape=(), string_type=bytes, name="screenshot"),
        "set_of_marks": {
            "image": specs.StringArray(shape=(), string_type=bytes, name="image"),
            **{key: Strings(key) for key in ("refs", "roles", "names")},
            "boxes": Rows("boxes", 4),
        },
        "changes": Strings("changes"),
        "boxes": {"refs": Strings("refs"), "boxes": Rows("boxes", 4)},
        "scroll": {key: _number(key) for key in observation_lib.ScrollExtents.__annotations__},
        "tabs": Strings("tabs"),
        "dialogs": Strings("dialogs"),
        "blocked": Strings("blocked"),
        "downloads": {
            **{key: Strings(key) for key in ("names", "urls", "mime_types", "errors")},
            "sizes": Column("sizes", np.int64),
            "contents": Column("contents", object),
        },
        "console": Strings("console"),
        "http_status": specs.Array(shape=(), dtype=int, name="http_status"),
        "last_action": _last_action_spec(),
        "timings": {key: _number(key) for key in observation_lib.Timings.__annotations__},
        "info": {
            "raw_reward": _number("raw_reward"),
            "scaled_reward": _number("scaled_reward"),
            "success": specs.Array(shape=(), dtype=bool, name="success"),
            "reason": _string("reason"),
        },
    }
    spec = {channel: every[channel] for channel in observe.channels}
    if "tabs" in spec:
        spec["active_tab"] = specs.Array(shape=(), dtype=int, name="active_tab")
    return spec


def _last_action_spec() -> dict[str, Any]:
    spec = {key: _string(key) for key in observation_lib.no_action()}
    spec["box"] = specs.Array(shape=(4,), dtype=np.float64, name="box")
    return spec


def _string(name: str) -> specs.StringArray:
    return specs.StringArray(shape=(), name=name)


def _number(name: str) -> specs.Array:
    return specs.Array(shape=(), dtype=float, name=name)
