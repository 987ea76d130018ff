"""The console, and text from pages and models made safe to print."""

from __future__ import annotations

import dataclasses
import datetime
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from webtraj.store.blobs import LazyBlob
from webtraj.store.foreign import valid_data

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "brief",
    "clock",
    "counted",
    "make_console",
    "print_json",
    "printable",
    "still_open",
]

# The console that commands print to.

_WIDTH_OF_A_PIPE = 250


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that prints text as it is, without markup."""
    from rich.console import Console

    console = Console(stderr=stderr, markup=False, highlight=False)
    if not console.is_terminal:  # A file or a pipe has no width to fold lines to.
        console.width = _WIDTH_OF_A_PIPE
    return console


def print_json(data: Any) -> None:
    """Print data, dataclasses too, as one line of JSON."""
    try:
        text = orjson.dumps(data, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # A lone surrogate, perhaps within a dataclass.
        plain = json.loads(json.dumps(data, default=_as_data))
        text = orjson.dumps(valid_data(plain), option=orjson.OPT_APPEND_NEWLINE)
    sys.stdout.write(text.decode())
    sys.stdout.flush()


def _as_data(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"{value!r:.100} cannot be printed as JSON")


# Text from pages and models, made safe for a terminal.


def printable(text: str, *, keep_lines: bool = False) -> str:
    r"""Return `text` with terminal control characters (escapes, bells, ...) escaped.

    >>> printable("a" + chr(27) + "[31mb")
    'a\\x1b[31mb'
    """
    kept = "\n\t" if keep_lines else ""
    return "".join(
        char if char.isprintable() or char in kept else repr(char)[1:-1] for char in text
    )


def brief(value: Any, width: int = 60) -> str:
    """Return a value on one line of at most `width` characters."""
    text = printable(_describe(value))
    return text if len(text) <= width else text[: width - 1] + "…"


def still_open(number: int) -> str:
    """Return how many episodes of a dataset are open, in words.

    >>> still_open(2)
    '2 still open or waiting for recovery (webtraj recover)'
    """
    return f"{number} still open or waiting for recovery (webtraj recover)"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural if needed.

    >>> counted(1, "episode"), counted(1200, "episode"), counted(0, "episode")
    ('1 episode', '1,200 episodes', '0 episodes')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def clock(seconds: float | None) -> str:
    """Return a time, in seconds since the epoch, as readable text in UTC."""
    if seconds is None:
        return "-"
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M:%S}"


def _describe(value: Any) -> str:
    match value:
        case bytes():
            return f"<{len(value):,} bytes>"
        case LazyBlob():
            return f"<{value.blob.size:,} bytes of {value.blob.ext}>"
        case np.ndarray():
            return f"<{value.dtype} array {'x'.join(map(str, value.shape)) or 'scalar'}>"
        case Mapping():
            return ", ".join(f"{key}={_describe(item)}" for key, item in value.items()) or "{}"
        case str():
            return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        shown = ", ".join(
            f"{name}={item!r}" for name, item in fields.items() if item not in ("", ())
        )
        return f"{type(value).__name__}({shown})"
    return repr(value)
