"""`webtraj doctor` and `webtraj presets`: what works here, and what there is to play."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import importlib.metadata
import platform
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from webtraj import errors

__all__ = [
    "BrowserFinding",
    "Diagnosis",
    "PackageFinding",
    "diagnose",
    "doctor",
    "presets",
    "read_requirement",
    "try_browser",
]

# What is installed and what works: the findings that `webtraj doctor` shows.

_REQUIREMENT = re.compile(
    r"""(?P<name>[A-Za-z0-9._-]+)\s*
        (?:\[(?P<extras>[^\]]*)\])?\s*
        (?P<bounds>[^;]*?)\s*
        (?:;.*\bextra\s*==\s*["'](?P<extra>[^"']+)["'].*)?""",
    re.VERBOSE,
)
_MINIMUM = re.compile(r">=\s*([0-9][0-9.]*)")

_PYTHON = (3, 11)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PackageFinding:
    """One package that webtraj, or an extra of it, requires."""

    name: str
    extra: str
    """The extra that requires it; empty if webtraj always does."""
    version: str
    """The installed version; empty if it is not installed."""
    required: str
    """The version bounds, as webtraj states them."""

    @property
    def ok(self) -> bool:
        """Whether it is installed, and no older than required."""
        minimum = _MINIMUM.search(self.required)
        if not self.version or minimum is None:
            return bool(self.version)
        return _numbers(self.version) >= _numbers(minimum[1])

    @property
    def remedy(self) -> str:
        """What to run if it is not."""
        return errors.install_command(self.extra, upgrade=True)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BrowserFinding:
    """The browser that environments would use."""

    ok: bool
    """Whether it was started and ran a script in a page."""
    wanted: bool = True
    """Whether Playwright is installed: without it, nobody has asked for a browser."""
    path: str = ""
    version: str = ""
    source: str = ""
    """Where it was found: `playwright`, `system` or `WEBTRAJ_BROWSER`."""
    problem: str = ""
    """What is wrong, and what to do about it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Everything that was found."""

    webtraj: str
    """webtraj's version."""
    python: str
    python_ok: bool
    platform: str
    packages: tuple[PackageFinding, ...]
    browser: BrowserFinding

    @property
    def core_ok(self) -> bool:
        """Whether webtraj can be used without a browser."""
        return self.python_ok and all(one.ok for one in self.packages if not one.extra)

    @property
    def ok(self) -> bool:
        """Whether what is installed works: the core and, if it is wanted, the browser."""
        return self.core_ok and (self.browser.ok or not self.browser.wanted)


async def diagnose() -> Diagnosis:
    """Looks at everything. Starts the browser once, and ends it."""
    return Diagnosis(
        webtraj=importlib.metadata.version("webtraj"),
        python=platform.python_version(),
        python_ok=sys.version_info >= _PYTHON,
        platform=platform.platform(),
        packages=tuple(_find_packages(importlib.metadata.requires("webtraj") or ())),
        browser=await try_browser(),
    )


async def try_browser() -> BrowserFinding:
    """Finds the browser and runs a script in a page of it."""
    from webtraj.environments.browser import processes

    wanted = _is_importable("playwright")
    try:
        found = processes.find_browser()
    except errors.WebtrajError as error:
        return BrowserFinding(ok=False, wanted=wanted, problem=str(error))
    problem = ""
    try:
        await _run_script()
    except Exception as error:  # Whatever is wrong with this machine is what was asked for.
        problem = str(error) or type(error).__name__
    return BrowserFinding(
        ok=not problem,
        wanted=wanted,
        path=found.path or "",
        version=found.version,
        source=found.source,
        problem=problem,
    )


def _is_importable(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def read_requirement(requirement: str) -> tuple[str, str, str]:
    """Returns a requirement's name, version bounds, and the extra that it belongs to.

    >>> read_requirement('playwright>=1.59; extra == "browser"')
    ('playwright', '>=1.59', 'browser')
    >>> read_requirement("dm-env")
    ('dm-env', '', '')
    """
    match = _REQUIREMENT.fullmatch(requirement)
    if match is None:
        return requirement, "", ""
    return match["name"], match["bounds"], match["extra"] or ""


def _find_packages(requirements: Sequence[str]) -> Iterator[PackageFinding]:
    for name, bounds, extra in map(read_requirement, requirements):
        # An extra that includes others is told by those.
        if name != "webtraj":
            yield PackageFinding(name=name, extra=extra, version=_version_of(name), required=bounds)


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _numbers(version: str) -> tuple[int, ...]:
    """Returns a version's leading numbers: (2, 14) for `2.14rc1`; enough for a lower bound."""
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in numbers[0].split(".")) if numbers else ()


async def _run_script() -> None:
    from webtraj.environments.browser.pool import BrowserPool

    async with BrowserPool() as pool, await pool.lease(owner="webtraj doctor") as lease:
        answer = await lease.run(lease.page.evaluate("() => 6 * 7"), what="run a script")
    if answer != 42:
        raise errors.BrowserError(f"The browser says that 6 * 7 is {answer!r}; use another one.")


# `webtraj doctor`: what is installed, what is missing, and how to get it.

_FOR_DEVELOPERS = ("test", "docs", "dev")
"""Extras for work on webtraj itself; what is missing of them concerns nobody else."""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what is installed, which browser is used, what is missing and how to get it.

    Ends with exit code 1 if webtraj's core does not work, or the browser does not although
    Playwright is installed.
    """
    found = asyncio.run(diagnose())
    if as_json:
        _print_json(found)
    else:
        _print_report(found)
    if not found.ok:
        raise typer.Exit(1)


def _print_json(found: Diagnosis) -> None:
    import dataclasses

    import orjson

    findings = {"ok": found.ok, **dataclasses.asdict(found)}
    findings["packages"] = [
        {**dataclasses.asdict(package), "ok": package.ok} for package in found.packages
    ]
    print(orjson.dumps(findings, option=orjson.OPT_INDENT_2).decode())


def _print_report(found: Diagnosis) -> None:
    from rich.table import Table
    from rich.text import Text

    from webtraj.cli import terminal

    good, bad = Text("ok", style="green"), Text("NO", style="bold red")
    missing = Text("-", style="dim")
    table = Table("", "what", "found", "if you need it", box=None, pad_edge=False)
    table.columns[2].overflow = "fold"
    table.add_row(good, "webtraj", found.webtraj, "")
    table.add_row(
        good if found.python_ok else bad,
        "python",
        f"{found.python} on {found.platform}",
        "" if found.python_ok else "use Python 3.11 or newer",
    )
    browser = found.browser
    where = f"{browser.version} ({browser.source}: {browser.path})" if browser.version else "none"
    mark = good if browser.ok else bad if browser.wanted else missing
    table.add_row(mark, "browser", Text(where), "")
    for package in found.packages:
        if package.extra in _FOR_DEVELOPERS and not package.ok:
            continue
        name = f"{package.name} [{package.extra}]" if package.extra else package.name
        table.add_row(
            good if package.ok else missing if package.extra else bad,
            Text(name),
            Text(_what_was_found(package)),
            Text("" if package.ok else package.remedy),
        )
    console = terminal.make_console()
    console.print(table)
    if browser.problem:
        console.print(f"\nThe browser: {browser.problem}", soft_wrap=True)
    console.print(f"\n{_in_short(found)}", soft_wrap=True)


def _in_short(found: Diagnosis) -> str:
    if not found.core_ok:
        return "webtraj does not work yet: see the rows marked NO."
    if found.browser.ok:
        return "Everything that webtraj needs is here."
    return "webtraj records and reads, but does not play in a browser yet."


def _what_was_found(package: PackageFinding) -> str:
    if package.ok:
        return package.version
    return f"{package.version or 'not installed'}, needs {package.required or 'any version'}"


# `webtraj presets`: what there is to play.


def presets(
    containing: Annotated[
        str, typer.Argument(help="Show only presets with this in their name.")
    ] = "",
) -> None:
    """List the presets that `rollout` and `webtraj.make` take."""
    from rich.table import Table

    from webtraj import registry
    from webtraj.cli import terminal

    known = registry.info()
    shown = [preset for preset in known if containing in preset.name]
    table = Table("preset", "tasks", "what it is", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for preset in shown:
        tasks = "-" if preset.num_tasks is None else str(preset.num_tasks)
        table.add_row(preset.name, tasks, preset.description)
    console = terminal.make_console()
    console.print(table)
    console.print(
        f"{len(shown)} of {len(known)} presets. Choose tasks of one by name:5, name:0:10 or "
        "name@2/8 (the third of eight shards).",
    )
