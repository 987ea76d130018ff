"""`webtraj doctor`: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from webtraj.cli.diagnosis import Diagnosis, PackageFinding

__all__ = ["doctor"]


_FOR_DEVELOPERS = ("test", "docs", "dev")
"""Extras for work on webtraj itself; what is missing of them concerns nobody else."""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say what is installed, which browser is used, what is missing and how to get it.

    Ends with exit code 1 if webtraj's core does not work, or the browser does not although
    Playwright is installed.
    """
    from webtraj.cli import diagnosis

    found = asyncio.run(diagnosis.diagnose())
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
