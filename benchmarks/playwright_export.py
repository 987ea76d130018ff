"""Exported Playwright scripts: how many run again, and whose locators last.

    .venv/bin/python benchmarks/playwright_export.py [--dataset FOLDER] [--parallel 2] [--apps 1]

The oracle plays every MiniWoB++ task that it can, with several seeds each. Each success becomes a
Python script, which runs in a process with nothing but Playwright and must end with the recorded
reward. Tasks with failures are listed with the first error.

Then one script per task runs once more, with those of the fixture site's tasks. Before each action
Playwright's own generator, which its code generator uses, writes a locator for the same element
(`Locator.normalize`). The table counts what each uses: `same` is the share of equal selectors.

With `--apps N` it takes every Nth task of the installed applications instead. A script must pass,
and leave the application's database, files and mails as the goal asks.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import webtraj
from webtraj.datasets.exporters import export_dataset
from webtraj.environments.browser.processes import find_browser
from webtraj.environments.miniwob.oracles import has_oracle
from webtraj.environments.miniwob.tasks import TASKS, html_folder
from webtraj.rollouts import RunSpec, collect

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
import fixture_site

RUNNER = Path(__file__).parents[1] / "packages/webtraj-formats/scripts/run_playwright_scripts.py"
SITE = tuple(
    preset
    for preset in fixture_site.PRESETS
    # Frames of other origins, files and dragging have no locator to compare.
    if not preset.endswith(("pay-by-card", "upload-document", "drag-card"))
)
KINDS = {
    "internal:role": "role",
    "internal:text": "text",
    "internal:label": "label",
    "internal:attr": "placeholder, title, ...",
    "internal:testid": "test id",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", type=Path, help="Use these episodes instead of playing some.")
    parser.add_argument("--episodes", type=int, default=1053)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=30.0, help="Seconds for an action.")
    parser.add_argument("--apps", type=int, default=0, help="Take every Nth application task.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if options.apps:
            report_runs(asyncio.run(run_on_apps(folder, options)))
            return
        played = options.dataset or folder / "played"
        if options.dataset is None:
            tasks = [f"miniwob/{task}" for task in TASKS if has_oracle(task)]
            play(tasks, played, options)
        successes = webtraj.open_dataset(played).filter(outcome="success")
        export_dataset(successes, folder / "scripts", format="playwright")
        report_runs(run(folder / "scripts", options))
        compare(folder, options)


def play(tasks: list[str], out: Path, options: argparse.Namespace, episodes: int = 0) -> None:
    asyncio.run(
        collect(
            RunSpec(
                preset=tasks,
                agent="oracle",
                episodes=episodes or options.episodes,
                parallel=options.parallel,
                out=out,
            )
        )
    )


def run(folder: Path, options: argparse.Namespace, *more: str) -> list[dict[str, Any]]:
    """Run the scripts of a folder in parallel processes; return a row for each."""
    command = [sys.executable, "-I", str(RUNNER), str(folder), "--timeout", str(options.timeout)]
    if browser := find_browser().path:
        command += ["--executable", browser]
    variables = {**os.environ, "BASE_URL": html_folder().as_uri()}

    def part(number: int) -> list[dict[str, Any]]:
        words = [*command, "--part", f"{number}/{options.parallel}", *more]
        done = subprocess.run(words, env=variables, stdout=subprocess.PIPE, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
        return [row for rows in pool.map(part, range(options.parallel)) for row in rows]


def report_runs(rows: list[dict[str, Any]]) -> None:
    failed = [row for row in rows if row["error"]]
    passed = len(rows) - len(failed)
    console = Console(width=150)
    console.print(
        f"{passed} of {len(rows)} scripts reach the recorded end: {passed / len(rows):.1%}"
    )
    counts = collections.Counter(row["test"] for row in rows)
    table = Table("task", "failed", "of", "the first error")
    for test, count in collections.Counter(row["test"] for row in failed).most_common():
        error = next(row["error"] for row in failed if row["test"] == test)
        table.add_row(test.removeprefix("test_"), str(count), str(counts[test]), error[:300])
    console.print(table, markup=False)


def compare(folder: Path, options: argparse.Namespace) -> None:
    """Print what kinds of locators the scripts use, beside Playwright's."""
    seen: set[str] = set()
    (folder / "some").mkdir()
    for path in sorted((folder / "scripts").glob("test_*.py")):
        found = re.search(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
        if found is not None and found[1] not in seen:
            seen.add(found[1])
            shutil.copy(path, folder / "some")
    rows = run(folder / "some", options, "--compare")
    rows += asyncio.run(run_on_site(folder, options))
    pairs = [pair for row in rows for pair in row["compared"] if pair[1]]
    ours = collections.Counter(kind_of(mine) for mine, _ in pairs)
    theirs = collections.Counter(kind_of(generated) for _, generated in pairs)
    same = sum(mine == generated for mine, generated in pairs)
    alike = sum(kind_of(mine) == kind_of(generated) for mine, generated in pairs)
    console = Console()
    console.print(
        f"{len(pairs)} elements: the same locator {same / len(pairs):.0%}, of the same kind "
        f"{alike / len(pairs):.0%}"
    )
    table = Table("kind", "webtraj", "Playwright")
    for kind in sorted(ours | theirs):
        table.add_row(kind, f"{ours[kind] / len(pairs):.0%}", f"{theirs[kind] / len(pairs):.0%}")
    console.print(table)


async def run_on_site(folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the scripts of the fixture site's tasks, each in a visit of its own."""
    from fixture_site.site import FixtureSite
    from fixture_site.tasks import find_task

    out = folder / "site"
    fixture_site.register_presets()
    await collect(RunSpec(preset=SITE, agent="oracle", parallel=1, out=out))
    played = webtraj.open_dataset(out)
    export_dataset(played, folder / "site-scripts", format="playwright")
    settings = {}
    async with FixtureSite() as site:
        for episode in played:
            task = find_task(episode.info.task.removeprefix("fixture/"))
            visit = site.visit(seed=episode.info.seed, start=task.start, prepare=task.begin)
            file = f"test_{episode.episode_id.replace('-', '_')}.py"
            settings[file] = {"open": visit.url, "variables": {"BASE_URL": site.origin}}
        (folder / "settings.json").write_text(json.dumps(settings))
        more = ("--compare", "--settings", str(folder / "settings.json"))
        rows = await asyncio.to_thread(run, folder / "site-scripts", options, *more)
    failed = [row for row in rows if row["error"]]
    print(f"{len(rows) - len(failed)} of {len(rows)} scripts of the fixture site pass", failed)
    return rows


async def run_on_apps(folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the scripts of application tasks, each in worlds of its own, and judge these."""
    from webtraj.environments.actions.recorded import final_answer
    from webtraj_apps.local_worlds import open_task, script_variables
    from webtraj_apps.tasks import AppTask, find_template, find_templates

    names = find_templates(None)[:: options.apps]
    out = options.dataset or folder / "played"
    if options.dataset is None:
        await collect(
            RunSpec(
                preset=[f"apps/{name}" for name in names],
                agent="oracle",
                parallel=options.parallel,
                out=out,
            )
        )
    played = webtraj.open_dataset(out).filter(outcome="success")
    missed = {f"apps/{name}" for name in names} - {episode.info.task for episode in played}
    print(f"{len(played)} of {len(names)} tasks played with success; not: {sorted(missed)}")
    export_dataset(played, folder / "scripts", format="playwright")
    settings, tasks = {}, {}
    async with contextlib.AsyncExitStack() as stack:
        for episode in played:
            task = AppTask(find_template(episode.info.task.removeprefix("apps/")))
            opened = open_task(task, seed=episode.info.seed)
            addresses = await stack.enter_async_context(opened)
            file = f"test_{episode.episode_id.replace('-', '_')}.py"
            settings[file] = {"variables": script_variables(addresses)}
            tasks[file] = (task, final_answer(episode))
        (folder / "settings.json").write_text(json.dumps(settings))
        more = ("--settings", str(folder / "settings.json"))
        rows = await asyncio.to_thread(run, folder / "scripts", options, *more)
        for row in rows:
            task, answer = tasks[row["file"]]
            wrong = (
                task.wrong_with(answer) if not task.assignment.infeasible else task.wrong_state()
            )
            row["error"] = row["error"] or await wrong
    return rows


def kind_of(selector: str) -> str:
    """Return the kind of a selector's last part, without positions."""
    parts = [part for part in selector.split(" >> ") if not part.startswith(("nth=", "visible="))]
    last = [part for part in parts if not part.startswith("internal:has-text")][-1]
    kind = KINDS.get(last.partition("=")[0], "css")
    counted = any(part.startswith("nth=") for part in selector.split(" >> "))
    return f"{kind} and position" if counted else kind


if __name__ == "__main__":
    main()
