"""Test the widgets: their oracles, recordings of real input, replays and exported scripts.

    python packages/webtraj-apps/scripts/widgets.py [NAME ...] [--seeds 5] [--check] [--write]

For each widget and seed, the oracle must solve the task, and the task must not start solved. On the
first seed, the browser's mouse and keyboard then do what the oracle would do, and
`webtraj.demonstrating.Recorder` records them. The recording is replayed, and exported as a
Playwright script that runs without webtraj. Both must bring the widget's library to the same state.
If the recording cannot be replayed, the oracle's episode is exported instead.
`--write` writes the package's results/widgets.md. Exits with 1 if an
oracle fails or, with `--check`, if a result in the package's file no longer holds.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from webtraj import Outcome, errors, open_dataset
from webtraj.agents.replay import ReplayAgent
from webtraj.collectors.local import JsonTrajectoryCollector
from webtraj.demonstrating import Recorder
from webtraj.environments import TrajectoryCollectingEnvironment
from webtraj.environments import actions as a
from webtraj.environments.browser import BrowserPool, refs_in
from webtraj.environments.browser.observation import DEFAULT_CHANNELS
from webtraj.environments.browser.processes import find_browser
from webtraj.environments.local_server import HttpServer, Request, Response
from webtraj_apps.widgets import libraries as libraries_lib
from webtraj_apps.widgets.environment import WidgetEnvironment, answer_request, find_widget
from webtraj_formats.exporters.playwright import playwright_script

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests/demonstrating"))

from hand import until  # noqa: E402

RESULTS = ROOT / "packages/webtraj-apps/results/widgets.md"
RUNNER = ROOT / "packages/webtraj-formats/scripts/run_playwright_scripts.py"
CHANNELS = (*(one for one in DEFAULT_CHANNELS if one != "screenshot"), "scroll", "tabs", "dialogs")
AT_ONCE = 4
PATIENCE = 90.0
"""Seconds for the recording of an episode."""
_UNTIL_STILL = a.Wait(1.0)
"""The last action of a replay: a map may still move."""


@dataclasses.dataclass(kw_only=True)
class Proof:
    """What holds for a widget: "" where it does, else what is wrong; None if it was not tried."""

    name: str
    solved: int = 0
    """Seeds on which the oracle succeeds, and doing nothing does not."""
    seeds: int = 0
    by: str = "ref"
    """By what the oracle acts: refs of the tree, keys, or points."""
    oracle: str = ""
    recorded: str | None = None
    replayed: str | None = None
    script: str | None = None
    of_oracle: bool = False
    """Whether the script is from the oracle's episode."""


async def play(name: str, seeds: range, pool: BrowserPool, proof: Proof, out: Path) -> None:
    """Play the oracle and an idle agent on each seed, and record them."""
    ways = {"ref"}
    environment = WidgetEnvironment(name, pool=pool, observe=CHANNELS)
    async with (
        JsonTrajectoryCollector(out) as collector,
        TrajectoryCollectingEnvironment(environment, collector) as recording,
    ):
        for seed in seeds:
            environment.set_seed(seed)
            timestep = await recording.reset()
            task = environment.widget_task
            if await task.read_state(environment.session) == task.widget.goal(seed).wanted:
                proof.oracle = f"seed {seed}: solved before anything is done"
            while not timestep.last() and (action := await environment.cheat()) is not None:
                ways.add(way_of(action, timestep.observation["axtree"]))
                timestep = await recording.step(action)
                if error := timestep.observation["last_action"].get("error"):
                    proof.oracle = f"seed {seed}: {action}: {error}"
            proof.seeds += 1
            proof.solved += bool(timestep.reward) and not proof.oracle
            if not timestep.reward:
                proof.oracle = proof.oracle or f"seed {seed}: not solved"
    proof.by = max(ways, key=("ref", "keys", "hidden ref", "points").index)


def way_of(action: a.Action, tree: str) -> str:
    """Return by what an action finds its place."""
    if isinstance(action, (a.ClickAt, a.DragAt)):
        return "points"
    ref = getattr(action, "ref", None)
    if ref is None:
        return "ref" if isinstance(action, a.Wait) else "keys"
    return "ref" if ref in {element.ref for element in refs_in(tree)} else "hidden ref"


# A hand.

_FOCUSED_TYPE = """() => {
  let element = document.activeElement;
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  return element?.type;
}"""


async def do(environment: WidgetEnvironment, action: a.Action) -> None:
    """Do an action with the browser's mouse and keyboard."""
    page = environment.session.page
    mouse, keyboard = page.mouse, page.keyboard

    async def point(ref: str) -> tuple[float, float]:
        x, y = (await environment.session.prepare("point", ref, {}))["point"]
        return x, y

    async def drag(path: Any) -> None:
        await mouse.move(*path[0])
        await mouse.down()
        for x, y in path[1:]:
            await mouse.move(x, y, steps=8)
        await asyncio.sleep(0.1)
        await mouse.move(*path[-1])
        await mouse.up()

    match action:
        case a.UploadFile(ref, paths):
            files = [libraries_lib.PAGES.with_name("files") / path for path in paths]
            async with page.expect_file_chooser() as chooser:
                if "point" in (ready := await environment.session.prepare("file", ref, {})):
                    await mouse.click(*ready["point"])
                else:
                    await environment.session.prepare("open_files", ref, {})
            await (await chooser.value).set_files(files)
        case a.Fill(ref, value):
            await mouse.click(*await point(ref))
            if await page.evaluate(_FOCUSED_TYPE) == "range":
                await keyboard.press("Home")
                for _ in range(int(value)):  # These start at 0.
                    await keyboard.press("ArrowRight")
            else:
                await keyboard.press("Control+a")
                await keyboard.type(value)
        case a.SelectOption(ref, (option,)):
            await mouse.click(*await point(ref))  # The list that opens has the keys until Enter.
            await keyboard.type(option)
            await keyboard.press("Enter")
        case a.Press(ref, keys):
            await environment.session.prepare("focus", ref, {})
            for chord in keys.split():
                await keyboard.press(chord)
        case a.Hover(ref):
            await mouse.move(*await point(ref))
        case a.Click(ref, count=count):
            await mouse.click(*await point(ref), click_count=count)
        case a.Check(ref):
            await mouse.click(*await point(ref))
        case a.DragTo(ref, target):
            await drag([await point(ref), await point(target)])
        case a.DragAt(path):
            await drag(path)
        case a.ClickAt(x, y):
            await mouse.click(x, y)
        case a.Scroll(dx, dy, ref):
            await mouse.move(*await point(ref))
            await mouse.wheel(dx, dy)
        case a.TypeText(text):
            await keyboard.type(text)
        case a.PressKey(keys):
            for chord in keys.split():
                await keyboard.press(chord)
        case a.Wait(seconds):
            await asyncio.sleep(seconds)
        case _:
            raise ValueError(f"A hand cannot {action}.")


async def record(proof: Proof, pool: BrowserPool, out: Path) -> None:
    """Record a hand that does what the oracle would."""
    environment = WidgetEnvironment(proof.name, pool=pool, observe=CHANNELS, max_steps=None)
    async with JsonTrajectoryCollector(out) as collector:
        recorder = Recorder(environment, collector)
        done = asyncio.ensure_future(recorder.record_episode())
        try:
            async with asyncio.timeout(PATIENCE):
                await recorder.wait_until_begun()
                while not done.done() and (action := await environment.cheat()) is not None:
                    await do(environment, action)
                    await asyncio.sleep(0.15)
                    await until(lambda: done.done() or recorder.is_settled)
                if not done.done():
                    await asyncio.sleep(0.7)
                    recorder.stop(Outcome.SUCCESS)
                recorded = await done
            proof.recorded = "" if recorded.reward else "the recording does not reach the goal"
        except Exception as error:  # The other widgets go on.
            proof.recorded = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        finally:
            done.cancel()
            await asyncio.gather(done, return_exceptions=True)
            await recorder.close()


async def replay(episode: Any, pool: BrowserPool, proof: Proof) -> None:
    """Play a recorded episode again."""
    agent = ReplayAgent.of([episode])
    async with WidgetEnvironment(proof.name, seed=episode.info.seed, pool=pool) as environment:
        timestep = await environment.reset()
        actor = agent.begin_episode(environment)
        wrong = ""
        try:
            while not timestep.last():
                decision = await actor.act(timestep.observation)
                if isinstance(decision.action, a.Answer):
                    break
                timestep = await environment.step(decision)
                wrong = timestep.observation["last_action"].get("error") or wrong
        except errors.EpisodeGivenUpError as error:
            wrong = wrong or str(error)
        if not timestep.last():
            timestep = await environment.step(_UNTIL_STILL)
        proof.replayed = "" if timestep.reward else wrong or "another state"


# Exported scripts.


def serve(request: Request) -> Response:
    """Answer for all widgets; a page's own requests name it as their referrer."""
    page = urlsplit(request.headers.get("referer", "")).path if "/api/" in request.path else ""
    name = (page or request.path).strip("/")
    known = name if name in libraries_lib.widget_names() else libraries_lib.widget_names()[0]
    return answer_request(find_widget(known), request)


def write_scripts(episodes: dict[str, Any], folder: Path, proofs: dict[str, Proof]) -> None:
    """Export episodes, by widget, as Playwright scripts."""
    folder.mkdir()
    settings = {}
    for name, episode in episodes.items():
        try:
            script = playwright_script(episode)
        except errors.InvalidInputError as error:
            proofs[name].script = str(error)
            continue
        proofs[name].script = "not run"
        (folder / f"test_{name}.py").write_text(script, "utf-8")
        settings[f"test_{name}.py"] = {"state": find_widget(name).state}
    (folder / "settings.json").write_text(json.dumps(settings))


async def run_scripts(episodes: dict[str, Any], folder: Path, proofs: dict[str, Proof]) -> None:
    """Run the scripts of a folder, in the folder of the files that they upload."""
    browser = find_browser().path
    async with HttpServer(serve) as server:
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", str(RUNNER), str(folder)),
            *(("--executable", browser) if browser else ()),
            *("--timeout", "8", "--settings", str(folder / "settings.json")),
            env={**os.environ, "BASE_URL": server.origin},
            stdout=asyncio.subprocess.PIPE,
            cwd=libraries_lib.PAGES.with_name("files"),
        )
        rows = [json.loads(line) for line in (await running.communicate())[0].splitlines()]
    for row in rows:
        name = row["file"].removeprefix("test_").removesuffix(".py")
        wanted = find_widget(name).goal(episodes[name].info.seed).wanted
        wrong = row["error"].splitlines()[0][:300] if row["error"] else ""
        if not wrong and row["state"] != wanted:
            wrong = f"the state is {row['state']!r:.100}"
        proofs[name].script = wrong


def episodes_by_name(folder: Path) -> dict[str, Any]:
    """Return a dataset's episodes of the first seed, by widget."""
    found = open_dataset(folder) if folder.exists() else ()
    return {one.info.task.partition("/")[2]: one for one in found if one.info.seed == 0}


async def prove(names: list[str], seeds: int, *, hand: bool = True) -> dict[str, Proof]:
    """Return the proofs of widgets by name."""
    proofs = {name: Proof(name=name) for name in names}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        async with BrowserPool(1, 4) as pool:
            turns = asyncio.Semaphore(AT_ONCE)

            async def prove_one(proof: Proof) -> None:
                async with turns:
                    await play(proof.name, range(seeds), pool, proof, folder / "played")
                    if hand and not proof.oracle:
                        await record(proof, pool, folder / "recorded")
                    print(f"{proof.name}: {proof.solved} of {proof.seeds}, by {proof.by}. "
                          f"{proof.oracle} {proof.recorded}".rstrip(), flush=True)  # fmt: skip

            await asyncio.gather(*map(prove_one, proofs.values()))
            recorded = episodes_by_name(folder / "recorded")
            for name, episode in recorded.items():
                await replay(episode, pool, proofs[name])
        episodes = episodes_by_name(folder / "played")
        for name, proof in proofs.items():
            proof.of_oracle = proof.replayed != ""
            if not proof.of_oracle:
                episodes[name] = recorded[name]
        write_scripts(episodes, folder / "scripts", proofs)
        await run_scripts(episodes, folder / "scripts", proofs)
    return proofs


_MADE = "`python packages/webtraj-apps/scripts/widgets.py --write` measures these results."
_COLUMNS = """\
The columns of the table of each widget:

- `seeds`: the seeds on which the oracle solves the task
- `by`: how the oracle finds elements: by a `ref` of the observed tree, a `hidden ref` of an element
  outside the tree, `keys` typed into the focused element, or `points`, for canvases and drags
- `recorded`: a recording of real mouse and keyboard input reaches the goal
- `replayed`: replaying the recording reaches the same state
- `script`: the recording, exported as a Playwright script, reaches it; `oracle` if the recording
  cannot be replayed and the script comes from the oracle's episode

An empty cell was not measured."""


def lost(proofs: dict[str, Proof]) -> list[str]:
    """Return the results in `RESULTS` that no longer hold."""
    found = []
    for line in RESULTS.read_text("utf-8").splitlines():
        cells = [cell.strip(" `") for cell in line.split("|")[1:-1]]
        if len(cells) == 8 and (proof := proofs.get(cells[0])):
            kinds = dict(zip(("recorded", "replayed", "script"), cells[5:], strict=True))
            found += [f"{proof.name}: {kind}" for kind, mark in kinds.items()
                      if mark in ("yes", "oracle") and getattr(proof, kind) != ""]  # fmt: skip
    return found


def summary(proofs: dict[str, Proof]) -> list[str]:
    """Return the head of the page, with the counts."""
    rows = list(proofs.values())
    tried = [one for one in rows if one.seeds]
    solved = sum(one.solved == one.seeds for one in tried)

    def held(kind: str) -> str:
        marks = [getattr(one, kind) for one in rows if getattr(one, kind) is not None]
        return f"{marks.count('')} of {len(marks)}"

    libraries = {libraries_lib.library_of(one.name) for one in rows}
    return [
        "# Widgets",
        "",
        f"{len(rows)} [widgets](../../../docs/apps.md#widgets) from {len(libraries)} UI libraries.",
        _MADE,
        "",
        "| check | widgets |",
        "|---|---|",
        f"| the oracle solves the task on every seed | {solved} of {len(tried)} |",
        f"| a recording of real input reaches the goal | {held('recorded')} |",
        f"| replaying the recording reaches the same state | {held('replayed')} |",
        f"| a Playwright script exported from an episode reaches it | {held('script')} |",
        "",
    ]


def report(proofs: dict[str, Proof]) -> str:
    """Return the page of the results."""
    table = libraries_lib.load_table()
    lines = [
        *summary(proofs),
        _COLUMNS,
        "",
        "| widget | library | split | seeds | by | recorded | replayed | script |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in proofs.values():
        row = table[libraries_lib.library_of(one.name)]
        marks = [
            "" if mark is None else "yes" if not mark else "no"
            for mark in (one.recorded, one.replayed, one.script)
        ]
        if one.script == "" and one.of_oracle:
            marks[2] = "oracle"
        oracle = (f"{one.solved} of {one.seeds}", one.by) if one.seeds else ("", "")
        library = f"{row['package']} {row['version']}"
        cells = [f"`{one.name}`", library, row["split"], *oracle, *marks]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Prove the widgets that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="Widgets; by default all.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--every", type=int, default=1, help="Only every Nth widget.")
    parser.add_argument("--no-hand", action="store_true", help="Only the oracles.")
    parser.add_argument("--save", type=Path, help="Also write the proofs as JSON.")
    parser.add_argument("--check", action="store_true", help="Fail if less holds than before.")
    parser.add_argument("--write", action="store_true", help="Write the results.")
    options = parser.parse_args()
    names = options.names or list(libraries_lib.widget_names())[:: options.every]
    proofs = asyncio.run(prove(names, options.seeds, hand=not options.no_hand))
    if options.save:
        options.save.write_text(json.dumps([dataclasses.asdict(one) for one in proofs.values()]))
    for proof in proofs.values():
        for kind in ("oracle", "recorded", "replayed", "script"):
            if wrong := getattr(proof, kind):
                print(f"{proof.name}: {kind}: {wrong}")
    if options.write:
        RESULTS.write_text(report(proofs), "utf-8")
    missing = lost(proofs) if options.check else []
    for one in missing:
        print(f"It held before: {one}")
    sys.exit(bool(missing) or any(proof.oracle for proof in proofs.values()))


if __name__ == "__main__":
    main()
