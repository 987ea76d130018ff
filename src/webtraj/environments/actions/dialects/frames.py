"""Screens as a dialect sees them: its own grid of whole numbers laid over the viewport."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from webtraj import errors
from webtraj.environments.actions.dialects.phrases import Argument, FormatError, group

__all__ = ["Frame"]


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """A viewport in CSS pixels, and the size that the dialect takes it to have."""

    width: int
    height: int
    shown_width: int
    """The number of columns in the dialect's coordinates."""
    shown_height: int

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            size = getattr(self, field.name)
            if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= 100_000:
                raise errors.InvalidInputError(
                    f"Frame.{field.name} must be a whole number from 1 to 100000; got {size!r}."
                )

    def from_shown(self, x: Any, y: Any) -> tuple[float, float]:
        """Returns the point of the viewport that the dialect's coordinates mean.

        Raises:
          ValueError: If they are no numbers, or lie outside the screen. The far edge itself, a
            common slip, is taken as the last column or row.
        """
        for number, size in ((x, self.shown_width), (y, self.shown_height)):
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise ValueError(f"a coordinate must be a number; got {str(number)[:40]!r}")
            if not 0 <= number <= size:  # NaN is not, either.
                raise ValueError(
                    f"({str(x)[:20]}, {str(y)[:20]}) lies outside the screen of "
                    f"{self.shown_width}x{self.shown_height}"
                )
        return (
            self._scaled(min(x, self.shown_width - 1), self.width, self.shown_width),
            self._scaled(min(y, self.shown_height - 1), self.height, self.shown_height),
        )

    def to_shown(self, x: float, y: float) -> tuple[int, int]:
        """Returns the dialect's coordinates nearest to a point of the viewport.

        Raises:
          FormatError: If the point lies outside the viewport.
        """
        if not (0 <= x <= self.width and 0 <= y <= self.height):
            raise FormatError(f"({x}, {y}), outside the viewport of {self.width}x{self.height}")
        return (
            min(round(x * self.shown_width / self.width), self.shown_width - 1),
            min(round(y * self.shown_height / self.height), self.shown_height - 1),
        )

    def pair(self, name: str, *, box: bool = False) -> Argument:
        """Returns the argument for a point written as a list: `name: [x, y]`.

        Args:
          name: The wire name.
          box: Whether a box [x1, y1, x2, y2] is read too, as its centre.
        """

        def read(wire: Any) -> Mapping[str, Any]:
            return dict(zip(("x", "y"), self.read_pair(wire, box=box), strict=True))

        return group(
            {name: self.pair_schema()},
            ("x", "y"),
            read=read,
            write=lambda x, y: {name: list(self.to_shown(x, y))},
        )

    def columns(self) -> Argument:
        """Returns the argument for a point written as two numbers: `x` and `y`."""
        return group(
            self.point_schema()["properties"],
            ("x", "y"),
            read=lambda x, y: dict(zip(("x", "y"), self.from_shown(x, y), strict=True)),
            write=lambda x, y: dict(zip(("x", "y"), self.to_shown(x, y), strict=True)),
        )

    def read_pair(self, wire: Any, *, box: bool = False) -> tuple[float, float]:
        """Returns the point that a list [x, y] means; raises ValueError if it means none."""
        numbers = wire if isinstance(wire, (list, tuple)) else ()
        if box and len(numbers) == 4:
            left, top = self.from_shown(*numbers[:2])
            right, bottom = self.from_shown(*numbers[2:])
            return ((left + right) / 2, (top + bottom) / 2)
        if len(numbers) != 2:
            raise ValueError(f"a point must be a list [x, y]; got {str(wire)[:60]!r}")
        return self.from_shown(*numbers)

    def pair_schema(self) -> dict[str, Any]:
        """Returns the JSON Schema of a point as a list."""
        largest = max(self.shown_width, self.shown_height)
        number = {"type": "integer", "minimum": 0, "maximum": largest}
        return {"type": "array", "items": number, "minItems": 2, "maxItems": 2}

    def point_schema(self) -> dict[str, Any]:
        """Returns the JSON Schema of a point as an object."""
        sizes = {"x": self.shown_width, "y": self.shown_height}
        return {
            "type": "object",
            "properties": {
                name: {"type": "integer", "minimum": 0, "maximum": size}
                for name, size in sizes.items()
            },
            "required": ["x", "y"],
        }

    @staticmethod
    def _scaled(number: float, size: int, shown: int) -> float:
        return number if size == shown else number * size / shown
