"""Episodes as Playwright scripts: locators, literals, and scripts that run without webtraj."""

import ast
import asyncio
import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import webtraj
from hostile_records import hostile_record
from rows import each
from webtraj import errors
from webtraj.collectors.local import JsonTrajectoryCollector
from webtraj.datasets.exporters import export_dataset
from webtraj.environments import actions as a
from webtraj.environments.actions.recorded import final_answer
from webtraj.environments.browser.settle_policy import SERVED_PAGE
from webtraj.environments.local_server import HttpServer, Response
from webtraj.rollouts import RunSpec, collect
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Outcome,
    StepRecord,
    StepType,
)
from webtraj_formats.exporters.playwright import playwright_script
from webtraj_formats.exporters.playwright_code import WRITERS
from webtraj_formats.exporters.playwright_locators import Page, locate, target_of

ROOT = Path(__file__).parents[4]
RUNNER = ROOT / "packages/webtraj-formats/scripts/run_playwright_scripts.py"


def element(ref, **more):
    """An action's element, as an observation describes it."""
    last = {"ref": ref, "role": "", "name": "", "test_id": "", "selector": "", "frame": ""}
    return {**last, "error": "", "box": np.array([10.0, 20.0, 30.0, 40.0]), **more}


def episode(*steps, trees=(), urls=(), goal="Buy tea", task="shop/tea", **more):
    """An episode of these actions; each may come with its `last_action`."""
    pairs = [step if isinstance(step, tuple) else (step, element("")) for step in steps]
    trees = [*trees, *[""] * (len(pairs) + 1 - len(trees))]
    urls = [*urls, *[(urls or ["https://shop.example/tea?x=1"])[-1]] * (len(trees) - len(urls))]
    first = StepRecord(0, StepType.FIRST, {"url": urls[0], "axtree": trees[0], "dialogs": []})
    records = [first]
    for index, (action, last) in enumerate(pairs, 1):
        seen = {"url": urls[index], "axtree": trees[index], "last_action": last, "dialogs": []}
        records.append(StepRecord(index, StepType.MID, seen, action, 0.0, 1.0))
    info = EpisodeInfo(episode_id="e1", task=task, goal=goal, seed=3, **more)
    end = EpisodeEnd(reason=EndReason.TERMINATED, outcome=Outcome.SUCCESS)
    return EpisodeTrajectory(info, tuple(records), end)


def body(script):
    """The statements of a Python script's test."""
    functions = [node for node in ast.parse(script).body if isinstance(node, ast.FunctionDef)]
    (test,) = (node for node in functions if node.name.startswith("test_"))
    return [ast.get_source_segment(script, statement) for statement in test.body]


FORM = """\
[1] textbox "User name"
[2] textbox "Password" value="••"
[3] button "Save"
[4] button "Save as draft"
[5] button "Cancel"
[6] combobox value="Tea"
  [7] option "Tea" selected
  [8] option "Coffee"
[9] generic "Terms"
[10] list
  [11] listitem
    text "Anna"
    [12] button "Delete"
  [13] listitem
    text "Bert"
    [14] button "Delete"
[15] button
[16] button
[17] iframe "Map"
  [18] button "Save"
[19] iframe
  [20] button "Zoom"
[21] generic "Twice"
[22] generic "Twice"
[23] group
  [24] button "More" expanded=false
[25] paragraph "Hello there"
[26] link "<secret:name> account"
"""

THANKS = '[1] heading "Thank you" level=1\ntext "It costs 12 dollars."'

LOCATORS = {
    "a role and a name": ("1", {}, 'get_by_role("textbox", name="User name")'),
    "exact, if another name contains it": (
        "3", {}, 'get_by_role("button", name="Save", exact=True)'),
    "the longer name": ("4", {}, 'get_by_role("button", name="Save as draft")'),
    "the only one of its role": ("6", {}, 'get_by_role("combobox")'),
    "an option": ("8", {}, 'get_by_role("option", name="Coffee")'),
    "a text": ("9", {}, 'get_by_text("Terms", exact=True)'),
    "within a container": (
        "14", {},
        'get_by_role("listitem").filter(has_text="Bert").get_by_role("button", name="Delete")'),
    "a container itself": ("11", {}, 'get_by_role("listitem").filter(has_text="Anna")'),
    "its position, if nothing else": ("16", {}, 'get_by_role("button").nth(6)'),
    "its test id rather than a position": (
        "16", {"test_id": "more"}, 'get_by_test_id("more")'),
    "its id rather than a position": ("16", {"selector": "#go"}, 'locator("#go")'),
    "a position rather than an id that may change": (
        "16", {"selector": "#go-48151"}, 'get_by_role("button").nth(6)'),
    "a frame by its title": (
        "18", {}, "frame_locator(\"iframe[title='Map']\").get_by_role(\"button\", name=\"Save\")"),
    "a frame by its position": (
        "20", {},
        'locator("iframe:visible").nth(1).content_frame.get_by_role("button", name="Zoom")'),
    "a path rather than one of equal texts": (
        "22", {"selector": "#a > b:nth-of-type(2)"}, 'locator("#a > b:nth-of-type(2)")'),
    "a position among equal texts": ("21", {}, 'get_by_text("Twice", exact=True).first'),
    "a summary is no button to Playwright": ("24", {}, 'get_by_text("More", exact=True)'),
    "a paragraph has no name to Playwright": ("25", {}, 'get_by_text("Hello there", exact=True)'),
    "editable content has no role to Playwright": (
        "1", {"selector": "#a > div"}, 'locator("#a > div")'),
    "a redacted name is not on the page": ("26", {}, 'get_by_role("link").first'),
    "a label that is no text of it": (
        "9", {"named_by": "aria-label"}, 'get_by_label("Terms", exact=True)'),
    "a text that is not its name": (
        "9", {"named_by": "parts", "selector": "#a > b"}, 'locator("#a > b")'),
    "a name that Playwright may have otherwise": (
        "5", {"named_by": "icon parts", "selector": "#a > b"}, 'locator("#a > b")'),
    "a path into a shadow root": (
        "16", {"named_by": "title", "selector": "x-y >> :scope > b"},
        'locator("x-y >> :scope > b")'),
    "an area of an image, which is hidden to Playwright": (
        "26", {"named_by": "parts", "selector": "map > area"}, 'locator("map > area")'),
    "an element outside the tree": ("99", {"selector": "main > i"}, 'locator("main > i")'),
}  # fmt: skip


@each("case", LOCATORS)
def test_a_locator_is_the_first_that_fits(case):
    ref, known, expected = LOCATORS[case]
    page = Page(FORM)
    chain = locate(page, target_of(page, ref, element(ref, **known)))
    assert WRITERS["python"].chain(chain) == f"page.{expected}"


def test_nothing_finds_an_element_in_a_closed_shadow_root():
    page = Page(FORM)
    target = target_of(page, "3", element("3", selector=":scope > button"))
    assert locate(page, target) is None


def test_a_script_repeats_actions_and_checks_the_end():
    save, draft = (LOCATORS[case][2] for case in LOCATORS if LOCATORS[case][0] in "34")
    script = playwright_script(
        episode(
            a.Fill("1", "anna"),
            a.TypeInto("1", "bert", clear=True, submit=True),
            a.SelectOption("6", ("Coffee",)),
            (a.Click("3"), element("3", error="It is covered.")),
            a.Click("5", button="right", modifiers=("Shift",), count=2),
            (a.ClickAt(20, 30), element("99", role="canvas", selector="canvas")),
            a.ClickAt(5, 6),
            a.DragTo("3", "4"),
            a.PressKey("Control+a Delete"),
            a.Goto("https://shop.example/tea/2"),
            a.Goto("https://other.example/"),
            a.Answer("12 dollars"),
            trees=[FORM] * 11 + [THANKS] * 2,
            urls=["https://shop.example/tea?x=1"] * 10 + ["https://shop.example/done"] * 3,
        )
    )  # fmt: skip
    assert body(script) == [
        'page.goto(BASE_URL + "/tea?x=1")',
        'page.get_by_role("textbox", name="User name").fill(USER_NAME)',
        'page.get_by_role("textbox", name="User name").clear()',
        'page.get_by_role("textbox", name="User name").press_sequentially(USER_NAME_2)',
        'page.get_by_role("textbox", name="User name").press("Enter")',
        'page.get_by_role("combobox").select_option(label="Coffee")',
        'page.get_by_role("button", name="Cancel").dblclick(button="right", modifiers=["Shift"])',
        'page.locator("canvas").click(position={"x": 10, "y": 10})',
        "page.wait_for_timeout(50)",
        "page.mouse.click(5, 6)",
        "page.wait_for_timeout(50)",
        f"page.{save}.drag_to(page.{draft})",
        'page.keyboard.press("Control+a")',
        'page.keyboard.press("Delete")',
        "page.wait_for_timeout(50)",
        'page.goto(BASE_URL + "/tea/2")',
        'page.goto("https://other.example/")',
        'expect(page).to_have_url(BASE_URL + "/done")',
        'expect(page.get_by_role("heading", name="Thank you")).to_be_visible()',
        (
            'expect(page.get_by_text("It costs 12 dollars.", exact=True).filter(visible=True)'
            ".first).to_be_visible()"
        ),
        'expect(page.locator("body")).to_contain_text(ANSWER)',
    ]
    assert 'BASE_URL = os.environ.get("BASE_URL", "https://shop.example")' in script
    assert 'USER_NAME = "anna"\nUSER_NAME_2 = "bert"\nANSWER = "12 dollars"\n' in script
    assert "# Goal: Buy tea\n# Recorded by webtraj: episode e1, task shop/tea, seed 3" in script
    assert "    # Step 4 failed: click('3')" in script


def test_the_option_that_was_chosen_is_chosen_again():
    tree = '[1] listbox\n  [2] option "2"\n  [3] option "3"\n  [4] group "More"\n    [5] option "2"'
    rows = [
        (a.SelectOption("1", ("3",)), 'label="3"', '{ label: "3" }'),
        (
            a.SelectOption("5", ("2",)),
            (
                'index=page.get_by_role("option", name="2", exact=True).nth(1)'
                '.evaluate("(option) => option.index")'
            ),
            (
                '{ index: await page.getByRole("option", { name: "2", exact: true }).nth(1)'
                ".evaluate((option) => option.index) }"
            ),
        ),
        (a.SelectOption("1", ("2", "3")), 'label=["2", "3"]', '[{ label: "2" }, { label: "3" }]'),
        (a.SelectOption("1", ("of no label",)), '"of no label"', '"of no label"'),
    ]
    made = episode(*(action for action, _, _ in rows), trees=[tree] * 5)
    python, typescript = playwright_script(made), playwright_script(made, "typescript")
    for _, said, written in rows:
        assert f'get_by_role("listbox").select_option({said})' in python
        assert f'getByRole("listbox").selectOption({written})' in typescript


def test_an_area_of_an_image_gets_a_click_event():
    area = element("1", role="link", name="Hall", named_by="parts", selector="map > area")
    made = episode((a.Click("1"), area), trees=['[1] link "Hall"'] * 2)
    assert body(playwright_script(made))[1] == 'page.locator("map > area").dispatch_event("click")'


def test_an_option_of_a_closed_list_is_selected_and_a_suggestion_filled_in():
    tree = """\
[1] combobox "Town"
  [2] listbox
    [3] option "Ely"
    [4] option "York" value="yk"
[5] combobox "Tea"
  [6] option "Green"
[7] combobox "From"
  [2] listbox"""
    chosen = element("6", role="option", name="Green", selector="#tea > option")
    made = episode(
        a.SelectOption("1", ("York",)),
        a.SelectOption("1", ("Ely",)),
        (a.Click("4"), element("4", role="option", name="York", selector="#l > option")),
        (a.Click("6"), chosen),
        a.SelectOption("7", ("York",)),
        trees=[tree] * 6,
    )
    town, tea = (f'page.get_by_role("combobox", name="{name}")' for name in ("Town", "Tea"))
    assert body(playwright_script(made))[1:6] == [
        f'{town}.fill("yk")',
        f'{town}.fill("Ely")',
        f'{town}.fill("yk")',
        f'{tea}.select_option(label="Green")',
        'page.get_by_role("combobox", name="From").fill("yk")',
    ]


def test_a_redacted_value_is_an_environment_variable_and_no_text_of_the_script():
    made = episode(
        a.Fill("2", "<secret:password>"),
        a.Fill("1", "key <secret:api.key>!"),
        a.Goto("https://shop.example/?token=<secret:api-key>"),
        OpaqueRecord("action/press", {"ref": "2", "keys": "<secret:password>"}),
        trees=[FORM] * 5,
        goal="Log in with <secret:password>",
    )
    script = playwright_script(made)
    assert 'SECRET_PASSWORD = os.environ["SECRET_PASSWORD"]' in script
    assert 'SECRET_API_KEY_2 = os.environ["SECRET_API_KEY_2"]' in script
    assert body(script)[1:5] == [
        'page.get_by_role("textbox", name="Password").fill(SECRET_PASSWORD)',
        'page.get_by_role("textbox", name="User name").fill("key " + SECRET_API_KEY + "!")',
        'page.goto(BASE_URL + "/?token=" + SECRET_API_KEY_2)',
        'page.get_by_role("textbox", name="Password").press_sequentially(SECRET_PASSWORD)',
    ]
    script = playwright_script(made, "typescript")
    assert 'const SECRET_PASSWORD = secret("SECRET_PASSWORD");' in script


def test_an_episode_without_a_page_or_an_action_is_refused():
    for made in (episode(), episode("up"), episode(a.Click("1"), urls=[""])):
        with pytest.raises(errors.InvalidInputError, match="has no script"):
            playwright_script(made)
    with pytest.raises(errors.InvalidInputError, match="language must be one of python, type"):
        playwright_script(episode(a.Click("1")), "rust")


# Text from elsewhere is data.

HOSTILE = [
    'a" + evil() + "', "a' + evil() + '", '""" + evil() + """', "\\", '\\"', "`${evil()}`",
    "a\nevil()", "a\revil()", "a\u2028evil()", "a\u2029evil()", "a\x0bevil()\x0cevil()\x85evil()",
    "</script><script>evil()</script>", "*/ evil() /*", "# evil()", "\u202eevil()", "\x00evil()",
    "{evil()}", "%s", "\U000e0001evil()", "😀 it's",
]  # fmt: skip


def hostile_episode(text):
    """An episode with this text in every place that a page, a model or a person fills."""
    quoted = json.dumps(text)
    tree = f'[1] textbox {quoted}\n[2] button {quoted}\n[3] iframe {quoted}\n  [4] button "Go"'
    return episode(
        a.Fill("1", text), a.Click("2"), a.Click("4"), a.SelectOption("1", (text,)),
        a.TypeText(text), (a.Click("9"), element("9", selector=text, test_id=text)),
        (a.Click("2"), element("2", error=text)), a.Fill("1", f"{text}<secret:password>"),
        a.Answer(text), trees=[tree] * 10, goal=text, task=text,
    )  # fmt: skip


@each("text", HOSTILE)
def test_hostile_text_stays_text(text):
    made = hostile_episode(text)
    script = playwright_script(made)
    called = {
        node.func.id
        for node in ast.walk(ast.parse(script))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert "evil" not in called
    assert called <= {"expect", "sync_playwright", *re.findall(r"def (test_\w+)", script)}
    nodes = list(ast.walk(ast.parse(script)))
    assert text in {node.value for node in nodes if isinstance(node, ast.Constant)}
    for code in (script, playwright_script(made, "typescript")):
        bare = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', code)  # Without literals,
        bare = re.sub(r"(?m)^\s*(#|//).*$", "", bare)  # without comments,
        assert not re.search(r"\bevil", bare)
        assert code.isprintable() or not [c for c in code if not c.isprintable() and c != "\n"]


@given(st.text())
def test_a_literal_reads_back(text):
    assert ast.literal_eval(WRITERS["python"].value(text)) == text
    literal = WRITERS["typescript"].value(text)
    pairs = re.sub(r"\\u\{(\w+)\}", lambda found: json.dumps(chr(int(found[1], 16)))[1:-1], literal)
    assert json.loads(pairs) == text


# Scripts in a browser, in a process without webtraj.


async def run_scripts(folder, settings=None, **environment):
    """Runs the scripts of a folder; returns the errors by file."""
    rows = await rows_of(folder, settings, **environment)
    return {row["file"]: row["error"] for row in rows}


async def rows_of(folder, settings=None, **environment):
    """Runs the scripts of a folder; returns the runner's row for each."""
    from webtraj.environments.browser.processes import find_browser

    command = [sys.executable, "-I", str(RUNNER), str(folder)]
    if browser := find_browser().path:
        command += ["--executable", browser]
    if settings is not None:
        (folder / "settings.json").write_text(json.dumps(settings))
        command += ["--settings", str(folder / "settings.json")]
    running = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **environment}, cwd=folder, stdout=subprocess.PIPE
    )
    said, _ = await running.communicate()
    assert running.returncode == 0
    return [json.loads(line) for line in said.splitlines()]


def exported(played, folder):
    """Exports the episodes; returns them by the file of their script."""
    report = export_dataset(played, folder, format="playwright")
    assert not report.left_out
    episodes = {episode.episode_id.replace("-", "_"): episode for episode in played}
    return {path.name: episodes[path.stem.removeprefix("test_")] for path in folder.glob("test_*")}


MINIWOB = (
    "book-flight", "choose-date", "choose-list", "click-button", "click-checkboxes",
    "click-collapsible-2", "click-color", "click-dialog-2", "click-link", "use-spinner",
    "click-option", "click-scroll-list", "click-shape", "click-tab-2", "click-test-2",
    "text-transform", "click-widget", "copy-paste", "daily-calendar", "drag-box",
    "drag-shapes", "email-inbox",
    "enter-date", "enter-password", "enter-text", "enter-time", "find-word", "form-sequence-2",
    "grid-coordinate", "guess-number", "identify-shape", "login-user", "multi-layouts",
    "order-food", "phone-book", "read-table", "search-engine", "simple-arithmetic", "find-greatest",
    "use-autocomplete",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.browser
def test_episodes_of_miniwob_run_again_without_webtraj(tmp_path):
    pytest.importorskip("miniwob")
    from webtraj.environments.miniwob.tasks import html_folder

    async def run():
        tasks = [f"miniwob/{task}" for task in MINIWOB]
        await collect(RunSpec(preset=tasks, agent="oracle", parallel=2, out=tmp_path / "played"))
        played = webtraj.open_dataset(tmp_path / "played")
        exported(played.filter(outcome="success"), tmp_path / "scripts")
        return await run_scripts(tmp_path / "scripts", BASE_URL=html_folder().as_uri())

    errors_by_file = asyncio.run(run())
    assert len(errors_by_file) == len(MINIWOB)
    failed = {file: error for file, error in errors_by_file.items() if error}
    assert len(failed) <= len(MINIWOB) // 20, failed  # Pages with timers of their own may be late.


@pytest.mark.slow
@pytest.mark.browser
def test_episodes_of_a_site_run_again_and_reach_the_same_state(tmp_path, fixture_presets):
    from fixture_site.site import FixtureSite
    from fixture_site.tasks import find_task

    async def run():
        await collect(
            RunSpec(preset=fixture_presets, agent="oracle", parallel=2, out=tmp_path / "played")
        )
        episodes = exported(webtraj.open_dataset(tmp_path / "played"), tmp_path / "scripts")
        settings, ends = {}, {}
        async with FixtureSite() as site:
            for file, episode in episodes.items():
                task = find_task(episode.info.task.removeprefix("fixture/"))
                begun = []
                visit = site.visit(
                    seed=episode.info.seed,
                    start=task.start,
                    prepare=lambda world, task=task, begun=begun: begun.append(task.begin(world)),
                )
                for name, content in begun[0].files.items():
                    (tmp_path / "scripts" / name).write_bytes(content)
                settings[file] = {"open": visit.url, "variables": {"BASE_URL": site.origin}}
                ends[file] = (begun[0], visit.world, final_answer(episode))
            failed = await run_scripts(tmp_path / "scripts", settings)
        for file, (assignment, world, answer) in ends.items():
            world.answers += [answer] if answer else []
            if not assignment.done(world):
                failed[file] += f" The state is not what the goal asks for: {vars(world)}"
        return {episodes[file].info.task: error for file, error in failed.items() if error}

    assert asyncio.run(run()) == {}


KINDS = {
    "a label that is no text": """
        <div aria-label="1 March" onclick="window.done = true" style="cursor: pointer">1</div>
        <div aria-label="2 March" style="cursor: pointer">1</div>
        --- Click 1 March""",
    "a name of parts": """
        <style>b::after { content: "*" }</style>
        <table><tr><th tabindex=0 onclick="window.done = true">
        <b>Year</b><i role=button aria-label="Year: sort"></i></table>
        --- Click Year""",
    "a place in a shadow root": """
        <x-y><p>light</p></x-y><x-y><p>light</p></x-y><script>
        for (const host of document.querySelectorAll("x-y")) {
          host.attachShadow({mode: "open"}).innerHTML = "<slot></slot><p><u tabindex=0></u></p>" +
            "<style>u { display: block; width: 9px; height: 9px; background: red }</style>";
          host.shadowRoot.querySelector("u").onclick = () => { window.done = true };
        }</script>
        --- Click generic""",
    "a place in a box with an id that changes": """
        <div><u style="display: block; width: 9px; height: 9px; background: red"
        onclick="window.done = true" tabindex=0></u></div><script>
        document.querySelector("div").id = `box-${1000 + performance.now() % 1000 | 0}`</script>
        --- Click generic""",
    "a box behind its label": """
        <style>input { position: absolute; width: 1px; height: 1px }</style>
        <label style="position: absolute; width: 40px; height: 40px">Bad</label>
        <input type=radio id=a aria-label=Good onclick="window.done = true">
        <label for=a>*</label>
        --- Check Good""",
    "a list that is filtered late": """
        <input aria-label=Filter oninput="setTimeout(filter, 300)"><ul></ul><script>
        const list = document.querySelector("ul");
        list.innerHTML = "<li><button>Ann</button><li><button>Beth</button><li><button>Cy</button>";
        function filter() {
          list.innerHTML = "<li><button>Beth</button>";
          list.onclick = () => { window.done = true };
        }</script>
        --- Fill Filter
        --- Click Beth""",
    "a list of choices in a label": """
        <label>Language <input onfocus="window.done = true">
        <span role=listbox aria-label=Results><b role=option>Elm</b></span></label>
        --- Click Language""",
    "a text that is there twice": """
        <button onclick="window.done = true; out.innerHTML = '<p>Sent</p><p>Sent</p>';
        setTimeout(() => out.firstChild.remove(), 100)">Send</button><div id=out></div>
        --- Click Send""",
}


@pytest.mark.gate
@pytest.mark.browser
def test_what_a_script_finds_is_what_was_acted_on(tmp_path):
    """On pages where names, texts or places mislead."""

    async def run():
        async with HttpServer(answer) as site, JsonTrajectoryCollector(tmp_path / "played") as to:
            for number, (_, *steps) in enumerate(kinds):
                task = webtraj.WebTask(goal="", start_url=f"{site.origin}/{number}")
                more = {"task": task, "settle": patient, "trajectory_collector": to}
                async with webtraj.make("web", **more) as environment:
                    timestep = await environment.reset()
                    for step in steps:
                        verb, _, name = step.strip().partition(" ")
                        lines = timestep.observation["axtree"].splitlines()
                        ref = next(line for line in lines if name in line).split("]")[0].strip(" [")
                        action = a.Fill(ref, "Be") if verb == "Fill" else getattr(a, verb)(ref)
                        timestep = await environment.step(action)
                        assert not timestep.observation["last_action"]["error"], step
                    await environment.step(a.Answer("done"))
            episodes = exported(webtraj.open_dataset(tmp_path / "played"), tmp_path / "scripts")
            settings = {file: {"state": "window.done"} for file in episodes}
            rows = await rows_of(tmp_path / "scripts", settings, BASE_URL=site.origin)
        return [row["error"] or row["state"] for row in rows]

    patient = dataclasses.replace(SERVED_PAGE, after_typing=0.6)
    kinds = [each.split("---") for each in KINDS.values()]

    def answer(request):
        number = request.path.lstrip("/")
        page = kinds[int(number)][0] if number.isdecimal() else ""
        return Response(body=f"<!doctype html><meta charset=utf-8>{page}".encode())

    assert asyncio.run(run()) == [True] * len(KINDS)


CONFIG = """\
import { defineConfig } from "@playwright/test";
const launchOptions = { executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] };
export default defineConfig({ workers: 1, reporter: "line", use: { launchOptions } });
"""
STRICT = ("--noEmit", "--strict", "--target", "es2022", "--module", "es2022")
FUZZED = int(os.environ.get("WEBTRAJ_FUZZED_SCRIPTS", "200"))
NODE = os.environ.get("WEBTRAJ_TYPESCRIPT", "")


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(not NODE, reason="make test-typescript runs it")
def test_typescript_passes_its_compiler_and_runs(tmp_path):
    from webtraj.environments.browser.processes import find_browser
    from webtraj.environments.miniwob.tasks import html_folder

    def node(program, *words):
        run = [f"{NODE}/node_modules/.bin/{program}", *map(str, words)]
        done = subprocess.run(
            run, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    variables = {
        **os.environ,
        "BASE_URL": html_folder().as_uri(),
        "CHROMIUM": find_browser().path or "",
        "SECRET_PASSWORD": "hunter2",
    }
    tasks = [f"miniwob/{task}" for task in MINIWOB[::5]]
    asyncio.run(collect(RunSpec(preset=tasks, agent="oracle", out=tmp_path / "played")))
    played = webtraj.open_dataset(tmp_path / "played")
    export_dataset(
        played, tmp_path / "run", format="playwright", options={"language": "typescript"}
    )
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for number, text in enumerate(HOSTILE):
        made = hostile_episode(text)
        (hostile / f"{number}.spec.ts").write_text(playwright_script(made, "typescript"))
    fuzzed = tmp_path / "fuzzed"
    fuzzed.mkdir()
    for seed in range(FUZZED):
        with contextlib.suppress(errors.InvalidInputError):
            script = playwright_script(hostile_record(seed), "typescript")
            (fuzzed / f"{seed}.spec.ts").write_text(script)
    (tmp_path / "playwright.config.ts").write_text(CONFIG)
    (tmp_path / "node_modules").symlink_to(f"{NODE}/node_modules")
    specs = [*(tmp_path / "run").glob("*.ts"), *hostile.glob("*.ts")]
    assert len(specs) == len(tasks) + len(HOSTILE)
    specs += fuzzed.glob("*.ts")
    node("tsc", *STRICT, "--moduleResolution", "bundler", "--skipLibCheck", *specs)
    assert f"Total: {len(HOSTILE)} tests" in node("playwright", "test", "--list", "hostile")
    assert f"{len(tasks)} passed" in node("playwright", "test", "run")
