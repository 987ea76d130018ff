"""The console: lines, tables and bars. Text from pages and models is made safe to print.

Slow imports happen when they are first needed, so that commands may import this module.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from webtraj.shown import short
from webtraj.store.closeable import Closing

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    "Bar",
    "brief",
    "clock",
    "pluralize",
    "json_output",
    "make_console",
    "make_table",
    "print_json",
    "printable",
    "save_table",
    "say",
    "say_first",
    "still_open",
]

# The console that commands print to.

_WIDTH_OF_A_PIPE = 250


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that prints text as it is, without markup."""
    from rich.console import Console

    console = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:  # A file or a pipe has no width to fold lines to.
        console.width = _WIDTH_OF_A_PIPE
    return console


def say(text: str, *, stderr: bool = False) -> None:
    """Print text as one line, which the terminal wraps."""
    print(printable(text), file=sys.stderr if stderr else sys.stdout, flush=True)


def say_first(lines: Sequence[str], most: int, rest: str) -> None:
    """Print the first lines, and how many more there are: `... and 3 more errors.`."""
    for line in lines[:most]:
        say(line)
    if (more := len(lines) - most) > 0:
        say(f"... and {more} more {rest}")


def make_table(
    *columns: str, rows: Iterable[Iterable[Any]] = (), widest: int | None = None
) -> Table:
    """Return a table without lines.

    In a terminal, sentences are folded. If there is still no room, the last columns are left out
    and named below, so put the most important columns first.

    Args:
        columns: The columns' names. A name that begins with `>` is for numbers, aligned to the
            right. If all names are empty, there is no header. A column after the first is left out
            if all its cells are empty or `-`.
        rows: The cells of each row: any values, made printable, or Rich's own text.
        widest: The most characters of the first column before it is folded.
    """
    from rich.table import Table
    from rich.text import Text

    cells = [[c if isinstance(c, Text) else printable(str(c)) for c in row] for row in rows]
    kept = [
        at
        for at in range(len(columns))
        if at == 0
        or not cells
        or any(str(row[at]) not in ("", "-") for row in cells if at < len(row))
    ]
    names = [name.removeprefix(">") for name in columns]
    texts = [[names[at], *(str(row[at]) for row in cells if at < len(row))] for at in kept]
    fitting = _choose_widths(texts, widest)
    left_out = [names[at] for at, fits in zip(kept, fitting, strict=True) if fits is None]
    kept = [at for at, fits in zip(kept, fitting, strict=True) if fits is not None]
    table = Table(box=None, pad_edge=False, show_header=any(columns))
    for at, is_rigid in zip(kept, [fits for fits in fitting if fits is not None], strict=True):
        side: Any = "right" if columns[at].startswith(">") else "left"
        table.add_column(names[at], justify=side, overflow="fold", no_wrap=is_rigid)
    table.columns[0].max_width = widest
    if left_out:
        table.caption = (
            f"No room for: {', '.join(filter(None, left_out))}. A wider terminal or a pipe shows "
            "all columns."
        )
        table.caption_justify, table.caption_style = "left", "dim"
    for row in cells:
        table.add_row(*(row[at] for at in kept if at < len(row)))
    return table


_SENTENCE = 20
"""A longer text with a space may be folded to this width."""
_NAME = 40
"""The width to which names in the first column may be folded."""


def _choose_widths(columns: Sequence[Sequence[str]], widest: int | None) -> list[bool | None]:
    """Return for each column whether it keeps its width; None if there is no room for it."""
    from rich.cells import cell_len

    natural = [max(map(cell_len, texts)) for texts in columns]
    natural[0] = min(natural[0], widest or natural[0])

    def is_folded(at: int) -> bool:
        if at == 0:
            return natural[0] > _NAME
        return any(len(text) > _SENTENCE and " " in text for text in columns[at])

    least = [
        (_SENTENCE if at else _NAME) if is_folded(at) else width for at, width in enumerate(natural)
    ]
    console = make_console()
    shown = list(range(len(columns)))
    gaps = 2  # Between two columns.

    def measure_width(widths: Sequence[int]) -> int:
        return sum(widths[at] + gaps for at in shown) - gaps

    if not console.is_terminal or measure_width(natural) <= console.width:
        return [False] * len(columns)
    for at in [at for at in reversed(shown[1:]) if not is_folded(at)]:
        if measure_width(least) > console.width:
            shown.remove(at)
    fits = measure_width(least) <= console.width
    return [fits and not is_folded(at) if at in shown else None for at in range(len(columns))]


def save_table(
    csv: str | None, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()
) -> None:
    """Write a table's rows to the file that `--csv` names; do nothing without one.

    Args:
        csv: The file.
        rows: The rows.
        columns: The columns. Default: all that occur in the rows.
    """
    if csv is None:
        return
    from webtraj.datasets.tables import write_csv

    if not columns:
        rows = list(rows)
        columns = list(dict.fromkeys(column for row in rows for column in row))
    write_csv(csv, columns, rows)


class Bar(Closing):
    """A progress bar on stderr, if that is a terminal.

    Args:
        what: The work, in words.
        shown: Whether to show it at all.
    """

    def __init__(self, what: str, *, shown: bool = True) -> None:
        from rich import progress

        self.console = make_console(stderr=True)
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[counts]}"),
            progress.TimeRemainingColumn(),
            console=self.console,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),  # Prints to a file bypass the bar.
            disable=not (shown and self.console.is_terminal),
        )
        self._line = self._bar.add_task(what, total=None, counts="")

    def show(self, done: int, total: int | None, counts: str = "") -> None:
        """Show how much is done, and what came of it."""
        self._bar.start()
        self._bar.update(self._line, completed=done, total=total, counts=counts)

    def close(self) -> None:
        """Remove the bar. Idempotent."""
        self._bar.stop()


@contextlib.contextmanager
def json_output(wanted: bool) -> Iterator[Callable[[Any], None]]:
    """Yield a function that prints a command's result as JSON, if JSON is wanted.

    Then stdout holds nothing else, because other output goes to stderr. If JSON is not wanted, the
        function does nothing.
    """
    if not wanted:
        yield lambda data: None
        return
    stdout = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        yield lambda data: print_json(data, stdout)


def print_json(data: Any, file: TextIO | None = None) -> None:
    """Print data, dataclasses and paths too, as one line of JSON; to stdout by default."""
    import orjson

    from webtraj.store.foreign import valid_data

    try:
        text = orjson.dumps(data, default=_as_data, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # A lone surrogate, perhaps within a dataclass.
        plain = json.loads(json.dumps(data, default=_as_data))
        text = orjson.dumps(valid_data(plain), option=orjson.OPT_APPEND_NEWLINE)
    file = file or sys.stdout
    file.write(text.decode())
    file.flush()


def _as_data(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
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
    """Return a value on one line of at most `width` characters. Text has no quotes."""
    most = width // 5  # An item takes at least five characters: "'a', ".
    shown = value if isinstance(value, str) else short(value, width=width, depth=9, most=most)
    text = printable(shown)
    return text if len(text) <= width else text[: width - 1] + "…"


def still_open(number: int) -> str:
    """Return how many episodes of a dataset are open, as the end of a line; empty if none are.

    >>> still_open(2), still_open(0)
    ('; 2 still open or waiting for recovery (webtraj recover)', '')
    """
    return f"; {number} still open or waiting for recovery (webtraj recover)" if number else ""


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural if needed.

    >>> pluralize(1, "episode"), pluralize(1200, "episode"), pluralize(0, "episode")
    ('1 episode', '1,200 episodes', '0 episodes')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def clock(seconds: float | None) -> str:
    """Return a time, in seconds since the epoch, as readable text in UTC."""
    if seconds is None:
        return "-"
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M:%S}"
