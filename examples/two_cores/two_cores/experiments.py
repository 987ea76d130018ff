"""What the experiments of this package share: a folder with all results, and the command line.

The same command resumes what is in the folder. `results.json` has all numbers, `results.md` the
tables.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from webtraj import errors
from webtraj.environments.browser.pool import BrowserPool

__all__ = ["HELD_OUT", "Lab", "fresh", "run"]

HELD_OUT: Final = 1_000_000
"""The run seed of evaluations. Learning has other seeds, so it meets other pages."""

_Scale = TypeVar("_Scale")
_Lab = TypeVar("_Lab")


@dataclasses.dataclass(frozen=True)
class Lab(Generic[_Scale]):
    """Plays and trains in one folder."""

    out: Path
    """The folder."""
    scale: _Scale
    """How much is played and trained: a dataclass."""
    parallel: int
    """Episodes at a time."""
    pool: BrowserPool
    """The browsers."""

    async def kept(self, name: str, making: Coroutine[Any, Any, Any]) -> Any:
        """Return a result that is on file, or else make it."""
        file = self.out / f"{name}.json"
        if file.exists():
            making.close()
            return json.loads(file.read_text())
        made = await making
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(made))
        return made


def fresh(folder: Path) -> Path:
    """Return an empty folder, without what an earlier, unfinished try left there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def run(
    lab: Callable[[Path, Any, int, BrowserPool], _Lab],
    experiment: Callable[[_Lab], Awaitable[dict[str, Any]]],
    table: Callable[[Mapping[str, Any]], str],
    *,
    about: str | None,
    out: str,
    scale: Any,
    small: Any,
    counts: Sequence[str],
) -> None:
    """Read the command line, do the experiment, and write and print its results.

    Args:
        lab: Makes the lab, of a folder, a scale, the episodes at a time and browsers.
        experiment: Returns the results, without the scale.
        table: Returns results as Markdown.
        about: The documentation of the command.
        out: The folder without `--out`.
        scale: How much is played and trained; a dataclass with `seeds`.
        small: The same with `--small`.
        counts: Fields of `scale` that are options, whole numbers.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(out))
    parser.add_argument("--small", action="store_true", help="Only show that it runs.")
    parser.add_argument("--parallel", type=int, default=4, help="Episodes at a time.")
    parser.add_argument("--seeds", type=int, nargs="+", help=f"Default: {_words(scale.seeds)}.")
    for name in counts:
        parser.add_argument(f"--{name}", type=int, help=f"Default: {getattr(scale, name):,}.")
    given = parser.parse_args()
    changed = {
        name: getattr(given, name)
        for name in ("seeds", *counts)
        if getattr(given, name) is not None
    }
    chosen = dataclasses.replace(small if given.small else scale, **changed)

    async def make_results() -> dict[str, Any]:
        async with BrowserPool(contexts_per_browser=max(given.parallel, 1)) as pool:
            return await experiment(lab(given.out, chosen, given.parallel, pool))

    try:
        _check_same(given.out, chosen)
        results = {"scale": dataclasses.asdict(chosen), **asyncio.run(make_results())}
    except errors.WebtrajError as error:
        parser.error(str(error))
    (given.out / "results.json").write_text(json.dumps(results, indent=1))
    (given.out / "results.md").write_text(table(results))
    print(table(results))


def _check_same(out: Path, scale: Any) -> None:
    """Check that what a folder has was made with the same settings, of whichever seeds.

    Raises:
        InvalidInputError: It was made with others.
    """
    out.mkdir(parents=True, exist_ok=True)
    kept, told = out / "settings.json", json.dumps(dataclasses.asdict(scale) | {"seeds": None})
    if kept.exists() and kept.read_text() != told:
        raise errors.InvalidInputError(
            f"{str(out)!r} has results of other settings: {kept.read_text()}. Choose another --out."
        )
    kept.write_text(told)


def _words(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))
