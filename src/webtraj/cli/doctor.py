"""`webtraj doctor`: check the installation. `webtraj presets`: list the presets."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import importlib.metadata
import platform
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from webtraj import errors
from webtraj.cli import terminal
from webtraj.cli.options import Csv, Json
from webtraj.cli.terminal import say

if TYPE_CHECKING:
    from webtraj.registry import PresetInfo

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

# The findings that `webtraj doctor` shows.

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
    """A package required by webtraj or by one of its extras."""

    name: str
    extra: str
    """The extra that requires it; empty for the core."""
    version: str
    """The installed version; empty if it is not installed."""
    required: str
    """The version bounds in webtraj's metadata."""

    @property
    def ok(self) -> bool:
        """Whether it is installed, and no older than required."""
        minimum = _MINIMUM.search(self.required)
        if not self.version or minimum is None:
            return bool(self.version)
        return _numbers(self.version) >= _numbers(minimum[1])

    @property
    def remedy(self) -> str:
        """The command that installs or upgrades it."""
        return errors.install_command(self.extra)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BrowserFinding:
    """The browser that environments use."""

    ok: bool
    """Whether it started and ran a script in a page."""
    wanted: bool = True
    """Whether Playwright is installed; without it, no browser is needed."""
    path: str = ""
    version: str = ""
    source: str = ""
    """The source that found it: `playwright`, `system` or `WEBTRAJ_BROWSER`."""
    problem: str = ""
    """The problem and its remedy, if there is a problem."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All findings."""

    webtraj: str
    """The version of webtraj."""
    python: str
    python_ok: bool
    platform: str
    packages: tuple[PackageFinding, ...]
    browser: BrowserFinding

    @property
    def core_ok(self) -> bool:
        """Whether webtraj works apart from the browser."""
        return self.python_ok and all(one.ok for one in self.packages if not one.extra)

    @property
    def ok(self) -> bool:
        """Whether the core works and, if Playwright is installed, the browser too."""
        return self.core_ok and (self.browser.ok or not self.browser.wanted)


async def diagnose() -> Diagnosis:
    """Check everything. Starts and stops the browser once."""
    return Diagnosis(
        webtraj=importlib.metadata.version("webtraj"),
        python=platform.python_version(),
        python_ok=sys.version_info >= _PYTHON,
        platform=platform.platform(),
        packages=tuple(_find_packages(importlib.metadata.requires("webtraj") or ())),
        browser=await try_browser(),
    )


async def try_browser() -> BrowserFinding:
    """Find the browser and run a script in one of its pages."""
    from webtraj.environments.browser import processes

    wanted = _is_importable("playwright")
    try:
        found = processes.find_browser()
    except errors.WebtrajError as error:
        return BrowserFinding(ok=False, wanted=wanted, problem=str(error))
    problem = ""
    try:
        await _run_script()
    except Exception as error:  # Any failure is a finding to report.
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
    """Return a requirement's name, version bounds and extra.

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
        # An extra that includes other extras; they are listed themselves.
        if name != "webtraj":
            yield PackageFinding(name=name, extra=extra, version=_version_of(name), required=bounds)


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _numbers(version: str) -> tuple[int, ...]:
    """Return a version's leading numbers, enough for a lower bound: (2, 14) for `2.14rc1`."""
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in numbers[0].split(".")) if numbers else ()


async def _run_script() -> None:
    from webtraj.environments.browser.pool import BrowserPool

    async with BrowserPool() as pool, await pool.lease(owner="webtraj doctor") as lease:
        answer = await lease.run(lease.page.evaluate("() => 6 * 7"), what="run a script")
    if answer != 42:
        raise errors.BrowserError(
            f"The browser is broken: it computed 6 * 7 = {answer!r}. Install another one with "
            "`playwright install chromium`."
        )


# `webtraj doctor`: check the installation.

_FOR_DEVELOPERS = ("test", "docs", "dev")
"""Extras for developing webtraj; their missing packages are not listed."""


def doctor(
    csv: Csv = None,
    json: Json = False,
) -> None:
    """Check the installation: packages, browser, and how to install what is missing.

    Exit with 1 if webtraj's core does not work, or if Playwright is installed and the browser does
    not work.
    """
    found = asyncio.run(diagnose())
    packages = [{**dataclasses.asdict(package), "ok": package.ok} for package in found.packages]
    terminal.save_table(csv, packages)
    if json:
        findings = {"ok": found.ok, **dataclasses.asdict(found), "packages": packages}
        terminal.print_json(findings)
    else:
        _print_report(found)
    if not found.ok:
        raise typer.Exit(1)


def _print_report(found: Diagnosis) -> None:
    from rich.text import Text

    good, bad = Text("ok", style="green"), Text("NO", style="bold red")
    missing = Text("-", style="dim")
    browser = found.browser
    where = f"{browser.version} ({browser.source}: {browser.path})" if browser.version else "none"
    python = f"{found.python} on {found.platform}"
    rows: list[tuple[Text, str, str]] = [
        (good, "webtraj", found.webtraj),
        (good, "python", python)
        if found.python_ok
        else (bad, "python", f"{python}: use Python 3.11 or newer"),
        (good if browser.ok else bad if browser.wanted else missing, "browser", where),
    ]
    for extra in dict.fromkeys(package.extra for package in found.packages):
        packages = [package for package in found.packages if package.extra == extra]
        wrong = [package for package in packages if not package.ok]
        if wrong and extra in _FOR_DEVELOPERS:
            continue
        mark = good if not wrong else missing if extra else bad
        told = ", ".join(map(_what_was_found, wrong or packages))
        rows.append((mark, extra or "core", f"{told}: {wrong[0].remedy}" if wrong else told))
    terminal.make_console().print(terminal.make_table("", "what", "found", rows=rows))
    if browser.problem:
        print(f"\nThe browser: {browser.problem}")
    print(f"\n{_in_short(found)}")


def _in_short(found: Diagnosis) -> str:
    if not found.core_ok:
        return "webtraj does not work yet: see the rows marked NO."
    if found.browser.ok:
        return "webtraj is ready to use."
    return "webtraj can record and read episodes, but cannot use a browser yet."


def _what_was_found(package: PackageFinding) -> str:
    if package.ok:
        return f"{package.name} {package.version}"
    if package.version:
        return f"{package.name} {package.version}, needs {package.required}"
    return f"no {package.name}"


# `webtraj presets`: list the presets.


def presets(
    containing: Annotated[
        str, typer.Argument(help="Show the presets whose name contains this text.")
    ] = "",
    csv: Csv = None,
    json: Json = False,
) -> None:
    """List the presets for `webtraj rollout` and `webtraj.make`: in groups, or by name."""
    from webtraj import registry

    known = registry.info()
    shown = [preset for preset in known if containing in preset.name]
    fields = [field.name for field in dataclasses.fields(registry.PresetInfo)]
    terminal.save_table(csv, map(dataclasses.asdict, shown), fields)
    if json:
        terminal.print_json(shown)
        return
    console = terminal.make_console()
    if not containing:
        console.print(terminal.make_table("group", ">presets", "such as", rows=_groups(shown)))
        say(f"{len(known)} presets. To list those of a group: webtraj presets miniwob/")
        return
    rows = ((p.name, "-" if p.num_tasks is None else p.num_tasks, p.description) for p in shown)
    console.print(terminal.make_table("preset", ">tasks", "description", rows=rows))
    say(
        f"{len(shown)} of {len(known)} presets. Select tasks of a preset with name:5, name:0:10 or "
        "name@2/8 (the third of eight shards)."
    )


def _groups(presets: Sequence[PresetInfo]) -> Iterator[tuple[str, int, str]]:
    """Yield each group of presets (names up to the last slash) with some of its names."""
    groups: dict[str, list[str]] = {}
    for preset in presets:
        groups.setdefault(preset.name.rpartition("/")[0], []).append(preset.name)
    for single in groups.pop("", []):
        yield single, 1, ""
    for group, names in groups.items():
        some = [name.removeprefix(f"{group}/") for name in names[:3]]
        yield f"{group}/", len(names), ", ".join(some + ["..."] * (len(names) > 3))
