"""A run's status in the terminal: a grid of its rows, and tables of running episodes and errors."""

from __future__ import annotations

import datetime
import math
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from webtraj import errors
from webtraj.store.closeable import Closing
from webtraj.view.status import Cell, Rates, RunStatus, Writer

if TYPE_CHECKING:
    from webtraj.view.monitor import RunMonitor

__all__ = ["BackgroundScreen", "line_of", "render", "watch"]

_STYLES = {
    Cell.WAITING: ("·", "dim"),
    Cell.AGAIN: ("↻", "yellow"),
    Cell.RESETTING: ("r", "cyan"),
    Cell.ASKING: ("?", "magenta"),
    Cell.ACTING: ("▶", "blue"),
    Cell.SEALING: ("s", "cyan"),
    Cell.ELSEWHERE: ("▷", "blue"),
    Cell.LOST: ("x", "bold red"),
    Cell.JUDGING: ("j", "magenta"),
    Cell.SUCCESS: ("■", "green"),
    Cell.FAILURE: ("■", "red"),
    Cell.UNGRADED: ("■", "white"),
    Cell.BLOCKED: ("b", "yellow"),
    Cell.ENV_ERROR: ("e", "bold red"),
    Cell.AGENT_ERROR: ("g", "red"),
    Cell.MODEL_ERROR: ("o", "bold red"),
    Cell.JUDGE_ERROR: ("v", "bold red"),
    Cell.TIMEOUT: ("t", "bold red"),
    Cell.CUT_SHORT: ("c", "yellow"),
}
_GRID_LINES = 8
_ROWS_SHOWN = 6


def watch(
    monitor: RunMonitor,
    console: Console,
    *,
    every: float,
    sleep: Callable[[float], None] = time.sleep,
) -> RunStatus:
    """Show a run until it is over, and return its last status.

    Args:
        monitor: The run's monitor.
        console: The console to show it on.
        every: Seconds between updates.
        sleep: Sleeps for some seconds.
    """
    status = monitor.look()
    with Live(_render_to_fit(status, console), console=console, auto_refresh=False) as live:
        while not status.is_over:
            sleep(every)
            status = monitor.look()
            live.update(_render_to_fit(status, console), refresh=True)
    return status


class BackgroundScreen(Closing):
    """A display of a run on a console, in a separate thread, until it is closed.

    The run need not exist yet. A failure of the display is stored in `trouble` and does not affect
    the run.

    Args:
        open_monitor: Returns the run's monitor; raises `InvalidInputError` if there is no run yet.
        console: The console to show it on.
        every: Seconds between updates.
    """

    def __init__(
        self, open_monitor: Callable[[], RunMonitor], console: Console, *, every: float = 1.0
    ) -> None:
        self._open = open_monitor
        self._console = console
        self._every = every
        self._stop = threading.Event()
        self.trouble = ""
        """The error that stopped the display; empty if there was none."""
        self._thread = threading.Thread(target=self._show, name="webtraj-monitor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Show the run a last time, and stop. Idempotent."""
        self._stop.set()
        self._thread.join()

    def _show(self) -> None:
        try:
            monitor = self._wait_for_run()
            if monitor is None:
                return
            with Live(
                _render_to_fit(monitor.look(), self._console),
                console=self._console,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            ) as live:
                stopped = False
                while not stopped:
                    stopped = self._stop.wait(self._every)
                    live.update(_render_to_fit(monitor.look(), self._console), refresh=True)
        except (errors.WebtrajError, OSError) as error:
            self.trouble = str(error)

    def _wait_for_run(self) -> RunMonitor | None:
        while True:
            last = self._stop.is_set()  # A short run may end before the first look.
            try:
                return self._open()
            except (errors.InvalidInputError, errors.StorageMissingError):
                if last:
                    return None
            self._stop.wait(min(self._every, 0.5))


def render(status: RunStatus, *, width: int) -> RenderableType:
    """Return the display of a status, for a console of `width` columns."""
    parts: list[RenderableType] = [Text(line_of(status)), _rates(status), Text()]
    parts += [_grid(status.cells, width), _legend(status), Text()]
    if status.underway:
        parts += [_underway(status), Text()]
    if len(status.sites) > 1 or any(site.faults for site in status.sites):
        parts += [_sites(status), Text()]
    if status.faults or status.faults_unread:
        parts += [_faults(status), Text()]
    parts += [Text(_printable(note), style="yellow") for note in status.notes]
    return Group(*parts)


def line_of(status: RunStatus) -> str:
    """Return a status in one line."""
    parts = [f"{status.over} of {status.planned} rows done"]
    if status.tries > status.over:
        parts.append(f"{status.tries} tries")
    if status.success[1]:
        low, high = status.interval or (0.0, 1.0)
        solved, graded = status.success
        parts.append(f"success {solved}/{graded} = {solved / graded:.1%} ({low:.1%} to {high:.1%})")
    if status.judged is not None:
        parts.append(f"{status.judged} judged")
    if status.unsent:
        parts.append(f"{status.unsent} not uploaded yet")
    if status.remaining and status.writer is not Writer.OVER:
        parts.append(f"about {_span(status.remaining)} left")
    return _printable(f"{status.run_id} ({status.writer}): {', '.join(parts)}")


def _rates(status: RunStatus) -> Text:
    age = "" if status.started is None else f"since {_span(status.time - status.started)}; "
    parallel = "" if status.parallel is None else f"{status.parallel} at a time; "
    return Text(
        f"{age}{parallel}last minute {_pace(status.minute)}; overall {_pace(status.whole)}; "
        f"{status.steps} steps",
        style="dim",
    )


def _grid(cells: str, width: int) -> Text:
    """Return the grid of rows; if there are too many for the space, several rows share a cell."""
    room = max(width - 2, 10) * _GRID_LINES
    share = max(math.ceil(len(cells) / room), 1)
    grid = Text(overflow="fold")
    for start in range(0, len(cells), share):
        sign, style = _STYLES[_foremost(cells[start : start + share])]
        grid.append(sign, style=style)
    if share > 1:
        grid.append(f"\n(each cell shows the most frequent state of {share} rows)")
    return grid


def _foremost(cells: str) -> Cell:
    """Return the most frequent cell."""
    return Cell(max(dict.fromkeys(cells), key=cells.count))


def _legend(status: RunStatus) -> Text:
    legend = Text()
    for cell, number in status.counts.items():
        sign, style = _STYLES[cell]
        legend.append(f"{sign} ", style=style)
        legend.append(f"{cell.name.lower().replace('_', ' ')} {number}   ")
    return legend


def _underway(status: RunStatus) -> Table:
    table = _table("running", "site", "phase", "steps", "age", "idle", numbers=3)
    for episode in status.underway[:_ROWS_SHOWN]:
        table.add_row(
            _printable(f"{episode.row} {episode.task}"),
            _printable(episode.site) or "-",
            _printable(episode.machine) or episode.cell.name.lower(),
            "-" if episode.steps is None else str(episode.steps),
            _span(episode.age),
            "-" if episode.quiet is None else _span(episode.quiet),
        )
    return table


def _sites(status: RunStatus) -> Table:
    table = _table("slowest sites", "s/step", "episodes", "errors", numbers=3)
    for site in status.sites[:_ROWS_SHOWN]:
        table.add_row(
            _printable(site.site) or "-",
            f"{site.seconds_per_step:.2f}",
            str(site.episodes),
            str(site.faults),
        )
    return table


def _faults(status: RunStatus) -> Table:
    table = _table("errors", "count", "latest", numbers=1)
    for fault in status.faults[:_ROWS_SHOWN]:
        latest = f"{fault.task}: {fault.message}" if fault.message else fault.task
        table.add_row(_printable(fault.kind), str(fault.count), _printable(latest))
    if status.faults_unread:
        table.add_row("not read yet", str(status.faults_unread), "")
    return table


def _table(first: str, *others: str, numbers: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, overflow="ellipsis", no_wrap=True)
    for index, name in enumerate(others):
        last = index >= len(others) - numbers if first == "running" else index < numbers
        table.add_column(
            name, justify="right" if last else "left", overflow="ellipsis", no_wrap=True
        )
    return table


def _render_to_fit(status: RunStatus, console: Console) -> RenderableType:
    return render(status, width=console.width)


def _pace(rates: Rates) -> str:
    if rates.episodes_per_second is None or rates.steps_per_second is None:
        return "-"
    return f"{rates.episodes_per_second:.2f} episodes/s, {rates.steps_per_second:.1f} steps/s"


def _span(seconds: float) -> str:
    """Return a duration as readable text.

    >>> _span(5.04), _span(75), _span(90000)
    ('5 s', '1:15 min', '1 day, 1:00:00')
    """
    if seconds < 60:
        return f"{max(seconds, 0):.0f} s"
    if seconds < 3600:
        return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"
    return str(datetime.timedelta(seconds=int(seconds)))


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
