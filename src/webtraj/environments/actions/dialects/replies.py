"""Parsing replies: finding the action, and screen coordinates."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from webtraj import errors
from webtraj.environments.actions.dialects.phrases import (
    MAX_REPLY,
    Argument,
    FormatError,
    ParseError,
    group,
)

__all__ = [
    "Frame",
    "arguments_of",
    "find_fenced",
    "has_no_arguments",
    "json_object",
    "only",
    "strip_reasoning",
    "read_object",
    "find_tagged",
    "without_nulls",
]

# Screen coordinates of a dialect: its own integer grid over the viewport.


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """A viewport in CSS pixels, and its size in the dialect's coordinates."""

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
        """Convert the dialect's coordinates to a point of the viewport.

        Raises:
          ValueError: They are not numbers, or outside the screen. The far edge itself, a common
            mistake, counts as the last column or row.
        """
        for number, size in ((x, self.shown_width), (y, self.shown_height)):
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise ValueError(f"a coordinate must be a number; got {str(number)[:40]!r}")
            if not 0 <= number <= size:  # Rejects NaN too.
                raise ValueError(
                    f"({str(x)[:20]}, {str(y)[:20]}) is outside the screen of "
                    f"{self.shown_width}x{self.shown_height}"
                )
        return (
            self._scale(min(x, self.shown_width - 1), self.width, self.shown_width),
            self._scale(min(y, self.shown_height - 1), self.height, self.shown_height),
        )

    def to_shown(self, x: float, y: float) -> tuple[int, int]:
        """Convert a point of the viewport to the nearest coordinates of the dialect.

        Raises:
          FormatError: The point is outside the viewport.
        """
        if not (0 <= x <= self.width and 0 <= y <= self.height):
            raise FormatError(f"({x}, {y}), outside the viewport of {self.width}x{self.height}")
        return (
            min(round(x * self.shown_width / self.width), self.shown_width - 1),
            min(round(y * self.shown_height / self.height), self.shown_height - 1),
        )

    def pair(self, name: str, *, box: bool = False) -> Argument:
        """Return the argument for a point written as a list: `name: [x, y]`.

        Args:
          name: The wire name.
          box: Whether to accept a box [x1, y1, x2, y2] too, which stands for its centre.
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
        """Return the argument for a point written as two numbers: `x` and `y`."""
        return group(
            self.point_schema()["properties"],
            ("x", "y"),
            read=lambda x, y: dict(zip(("x", "y"), self.from_shown(x, y), strict=True)),
            write=lambda x, y: dict(zip(("x", "y"), self.to_shown(x, y), strict=True)),
        )

    def read_pair(self, wire: Any, *, box: bool = False) -> tuple[float, float]:
        """Return the point of a list [x, y], or raise ValueError."""
        numbers = wire if isinstance(wire, (list, tuple)) else ()
        if box and len(numbers) == 4:
            left, top = self.from_shown(*numbers[:2])
            right, bottom = self.from_shown(*numbers[2:])
            return ((left + right) / 2, (top + bottom) / 2)
        if len(numbers) != 2:
            raise ValueError(f"a point must be a list [x, y]; got {str(wire)[:60]!r}")
        return self.from_shown(*numbers)

    def region(self, name: str) -> Argument:
        """Return the argument for a region written as a list: `name: [x0, y0, x1, y1]`."""

        def read(wire: Any) -> Mapping[str, Any]:
            if not isinstance(wire, (list, tuple)) or len(wire) != 4:
                raise ValueError(f"{name} must be a list [x0, y0, x1, y1]; got {str(wire)[:60]!r}")
            return {name: (*self.from_shown(*wire[:2]), *self.from_shown(*wire[2:]))}

        def write(region: tuple[float, ...]) -> Mapping[str, Any]:
            if not region:
                raise FormatError("the whole viewport")
            corners = (*self.to_shown(*region[:2]), *self.to_shown(*region[2:]))
            if corners[0] >= corners[2] or corners[1] >= corners[3]:
                raise FormatError(f"{region}, smaller than a pixel")
            return {name: list(corners)}

        number = {
            "type": "integer",
            "minimum": 0,
            "maximum": max(self.shown_width, self.shown_height),
        }
        schema = {"type": "array", "items": number, "minItems": 4, "maxItems": 4}
        return group({name: schema}, (name,), read=read, write=write)

    def pair_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a point as a list."""
        largest = max(self.shown_width, self.shown_height)
        number = {"type": "integer", "minimum": 0, "maximum": largest}
        return {"type": "array", "items": number, "minItems": 2, "maxItems": 2}

    def point_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a point as an object."""
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
    def _scale(number: float, size: int, shown: int) -> float:
        return number if size == shown else number * size / shown


# Finding the one action in a model's reply: reasoning, prose, fences and tags around it.
#
# The rules are few and safe. Reasoning (`<think>...</think>`) is removed. Then the tagged or fenced
# part is the action. Text around it is ignored; a second candidate is an error.

_FENCE = re.compile(r"^[ \t]*```[\w+-]*[ \t]*\n(.*?)\n?^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)
_END_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "</s>")


def strip_reasoning(reply: str) -> str:
    """Return a reply without the model's reasoning and end tokens.

    Raises:
      ParseError: Nothing is left, or the reply is too long.
    """
    if len(reply) > MAX_REPLY:
        raise ParseError(
            "too_long", f"The reply has {len(reply)} characters; at most {MAX_REPLY} are read."
        )
    # The opening tag is often part of the prompt, so only the closing one is in the reply.
    before, closed, after = reply.partition("</think>")
    text = after if closed else before
    for token in _END_TOKENS:
        text = text.strip().removesuffix(token)
    text = text.strip()
    if not text:
        raise ParseError("empty", "The reply is empty; reply with one action.")
    if "</think>" in text:
        raise ParseError("malformed", "The reply ends its reasoning twice; reply with one action.")
    if "<think>" in text:
        raise ParseError("no_action", "The reply breaks off while thinking; reply with one action.")
    return text


def find_tagged(text: str, tag: str) -> list[str]:
    """Return the contents of `<tag>...</tag>`. The last closing tag may be missing.

    A server that stops at the closing tag omits it.
    """
    parts = text.split(f"<{tag}>")[1:]
    return [part.partition(f"</{tag}>")[0].strip() for part in parts]


def find_fenced(text: str) -> list[str]:
    """Return the contents of the code fences in a text."""
    if text.count("```") == 2 and text.startswith("```") and text.endswith("```"):
        inner = text[3:-3]
        if "\n" not in inner:
            return [inner.strip()]
    return [match.strip() for match in _FENCE.findall(text)]


def only(candidates: list[str]) -> str:
    """Return the only candidate, or raise `ParseError` if there are several."""
    if len(candidates) > 1:
        raise ParseError(
            "several_actions",
            f"The reply holds {len(candidates)} actions; exactly one was expected.",
        )
    return candidates[0]


def read_object(reply: Any) -> Any:
    """Return a structured reply unchanged, or the single JSON object in a text."""
    if not isinstance(reply, str):
        return reply
    text = strip_reasoning(reply)
    candidates = find_fenced(text)
    if not candidates and not text.startswith("{"):
        raise ParseError("no_action", "The reply holds no call; reply with one action.")
    return json_object(only(candidates or [text]))


def has_no_arguments(said: Any) -> bool:
    """Return whether a tool call has no arguments, in any of the forms that servers write."""
    return said is None or (said.strip() if isinstance(said, str) else said) in _NO_ARGUMENTS


_NO_ARGUMENTS: tuple[Any, ...] = ("", "{}", "[]", "null", '""', {}, [])


def arguments_of(said: Any) -> Any:
    r"""Return the arguments of a tool call, given as data or as the model's JSON.

    The JSON may be encoded twice.

    >>> arguments_of('{"bid": "4"}'), arguments_of(" "), arguments_of('"{\\"bid\\": \\"4\\"}"')
    ({'bid': '4'}, {}, {'bid': '4'})

    Raises:
      ParseError: A text is not one JSON object.
    """
    if has_no_arguments(said):
        return {}
    if isinstance(said, str) and said.lstrip().startswith('"'):
        with contextlib.suppress(ValueError):
            said = json.loads(said)
    return json_object(said) if isinstance(said, str) else said


def without_nulls(args: Mapping[Any, Any]) -> dict[str, Any]:
    """Return arguments without nulls, which models use for omitted ones.

    Raises:
      ParseError: A name is not a string.
    """
    if not all(isinstance(name, str) for name in args):
        raise ParseError("bad_arguments", "The arguments' names are not strings.")
    return {name: arg for name, arg in args.items() if arg is not None}


def json_object(text: str) -> dict[str, Any]:
    """Parse a text strictly as a JSON object.

    Raises:
      ParseError: It is not a single object: broken JSON, NaN, a duplicate key, another type.
    """
    try:
        parsed = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=float
        )
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise ParseError(
                "several_actions", "More follows the JSON object; exactly one was expected."
            ) from None
        raise ParseError(
            "malformed",
            f"The JSON breaks off or is malformed at character {error.pos}: {error.msg}.",
        ) from None
    except RecursionError:
        raise ParseError("malformed", "The JSON is nested too deeply.") from None
    except ValueError as error:
        raise ParseError("malformed", f"The JSON is malformed: {error}.") from None
    if not isinstance(parsed, dict):
        raise ParseError("malformed", f"A JSON object was expected; got a {type(parsed).__name__}.")
    return parsed


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
