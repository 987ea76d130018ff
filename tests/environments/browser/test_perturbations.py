"""The same task in other surroundings."""

import io
import re

import numpy as np
import PIL.Image
import pytest

from webtraj import Outcome, errors
from webtraj.environments import actions
from webtraj.environments.browser import BrowserEnvironment, Perturbation, WebTask
from webtraj.environments.browser.oracles import PageView
from webtraj.environments.browser.tasks import ScriptedSolution
from webtraj.environments.miniwob import MiniwobEnvironment

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = """<button onclick="finished = 1">Go</button><p id=told></p><script>
told.textContent = [navigator.language, (1234.5).toLocaleString(), innerWidth,
  matchMedia('(prefers-color-scheme: dark)').matches].join(' ');
</script>"""


def pixels(observation):
    return np.asarray(PIL.Image.open(io.BytesIO(observation["screenshot"])).convert("RGB"))


@pytest.mark.browser
async def test_windows_languages_colours_and_places(open_page):
    async def shown(perturbation):
        observe = ("axtree", "screenshot")
        environment = open_page(PAGE, observe=observe, perturbation=perturbation)
        observation = (await environment.reset()).observation
        known = environment.describe_episode()["metadata"].get("perturbation")
        assert known == (None if perturbation is None else perturbation)
        return observation, environment.viewport

    usual, size = await shown(None)
    assert "1,234.5 1280 false" in usual["axtree"]
    assert size == (1280, 720)
    small, size = await shown("small-window")
    assert " 1216 false" in small["axtree"]
    assert size == (1216, 560)
    assert pixels(small).shape[:2] == (560, 1216)
    german, _ = await shown("german")
    assert "de-DE 1.234,5 1280" in german["axtree"]
    dark, _ = await shown("dark")
    assert "1280 true" in dark["axtree"]
    inverted, _ = await shown("inverted")
    assert inverted["axtree"] == usual["axtree"]
    assert pixels(inverted).mean() < 100 < pixels(usual).mean()
    moved, _ = await shown("moved")
    assert moved["axtree"] == usual["axtree"]
    assert not np.array_equal(pixels(moved), pixels(usual))


@pytest.mark.browser
async def test_controls_have_other_names(open_page):
    page = "<p><button>Save</button> <button onclick='finished = 1'>Go</button></p>"
    environment = open_page(page, perturbation="renamed")
    tree = (await environment.reset()).observation["axtree"]
    assert 'button "Keep changes"' in tree
    assert "Save" not in tree
    assert 'button "Go"' in tree
    save = await environment.session.call("find", [["button"], "Save"])
    assert save is not None  # Oracles know it by its text.


ROWS = """<nav><a href="#a">One</a> <a href="#b">Two</a> <a href="#c">Three</a></nav>
<menu><button type=button>Up</button><button type=button>Up</button></menu>
<ul><li><a href="#1">First</a></li><li><a href="#2">Second</a></li><li><a href="#3">Third</a></li>
</ul><div class=paginator><a href="#1">1</a><a href="#2">2</a></div>
<form onsubmit="sent.textContent = event.submitter.textContent; return false"><input name=q>
<p><button>Save</button> <button>Preview</button> <button>Delete</button></p></form><p id=sent></p>
<script>
const more = document.createElement("a");
more.href = "#d";
more.textContent = "Four";
setTimeout(() => document.querySelector("nav").append(more));
</script>"""


@pytest.mark.browser
async def test_controls_are_in_another_order(open_page):
    async def shown(perturbation):
        environment = open_page(ROWS, perturbation=perturbation)
        tree = (await environment.reset()).observation["axtree"]
        links = [name for name in re.findall(r'link "(\w+)"', tree) if not name.isdecimal()]
        # Links that are content, the numbers of pages, and the document's order of a form's buttons
        # stay: Enter presses the first button.
        assert links[4:] == ["First", "Second", "Third"]
        assert re.findall(r'link "(\d)"', tree) == ["1", "2"]
        assert re.findall(r'button "(\w+)"', tree) == ["Up", "Up", "Save", "Preview", "Delete"]
        page = PageView(environment.session, goal="")
        boxes = [(button.box[0], button.text) for button in await page.all("form button")]
        field = await environment.ref_of("input")
        sent = (await environment.step(actions.Press(field, "Enter"))).observation["axtree"]
        assert sent.count("Save") > 1
        return links[:4], [text for _, text in sorted(boxes)]

    usual = await shown(None)
    assert usual == (["One", "Two", "Three", "Four"], ["Save", "Preview", "Delete"])
    orders = [await shown(f"shuffled:{seed}") for seed in range(4)]
    assert await shown("shuffled") == orders[0]
    for links, buttons in orders:
        assert sorted(links) == sorted(usual[0])
        assert sorted(buttons) == sorted(usual[1])
        assert usual[0] != links
        assert usual[1] != buttons
    assert len({tuple(links) for links, _ in orders}) > 1
    assert len({tuple(buttons) for _, buttons in orders}) > 1


@pytest.mark.browser
async def test_no_control_of_a_shuffled_menu_is_lost(open_page):
    item = "<li role=menuitem><a href=#{0}>{0}</a></li>"
    split = (
        "<li role=menuitem><span><a href=#d>Four</a><a href=#e data-popup=f>Five</a></span></li>"
    )
    items = [item.format("One"), split, item.format("Two"), item.format("Three")]
    environment = open_page(f"<ul role=menu>{''.join(items)}</ul>", perturbation="shuffled:1")
    tree = (await environment.reset()).observation["axtree"]
    links = re.findall(r'"(One|Two|Three|Four|Five)"', tree)
    assert set(links) == {"One", "Two", "Three", "Four", "Five"}
    assert sorted(links, key=links.index) != ["One", "Four", "Five", "Two", "Three"]


@pytest.mark.browser
async def test_consent_covers_the_page_until_it_is_answered_in_each_episode(open_page):
    environment = open_page(PAGE, perturbation="consent")
    for _ in range(2):
        tree = (await environment.reset()).observation["axtree"]
        assert 'dialog "Cookies"' in tree
        go = await environment.ref_of("body > button")
        covered = await environment.step(actions.Click(go))
        assert covered.observation["last_action"]["error_kind"] == "covered"
        answer = await environment.ref_of("#cookie-consent button:last-child")
        free = await environment.step(actions.Click(answer))
        assert "Cookies" not in free.observation["axtree"]
        assert (await environment.step(actions.Click(go))).reward == 1.0


@pytest.mark.browser
async def test_oracles_answer_first(pool, tmp_path):
    (tmp_path / "next.html").write_text("<button>Other</button>")
    start = tmp_path / "start.html"
    start.write_text("<a href=next.html>Next</a>")

    class Walk(WebTask):
        has_solution = True

        def solve(self, session, goal):
            async def steps():
                yield actions.Click(str(await session.call("find", [["a"], None])))
                yield actions.Answer("done")

            return ScriptedSolution(steps())

    task = Walk(goal="", start_url=start.as_uri())
    async with BrowserEnvironment(task, pool=pool, perturbation="consent") as environment:
        timestep, taken = await environment.reset(), []
        while not timestep.last():
            taken.append(await environment.cheat())
            timestep = await environment.step(taken[-1])
    assert [action.verb for action in taken] == ["click", "click", "answer"]
    assert environment.episode_outcome() is Outcome.UNKNOWN


async def test_a_small_window_is_small_for_pages_of_any_size():
    sizes = {
        name: MiniwobEnvironment("click-test", perturbation=name).viewport
        for name in ("small-window", "large-window")
    }
    assert sizes == {"small-window": (315, 166), "large-window": (498, 321)}


async def test_a_perturbation_of_ones_own_and_wrong_names(open_page):
    blue = Perturbation(name="blue", css="body { background: blue; }")
    assert open_page(PAGE, perturbation=blue).describe_episode()["metadata"] == {
        "perturbation": "blue"
    }
    with pytest.raises(errors.InvalidInputError, match="Did you mean 'consent'"):
        open_page(PAGE, perturbation="concent")
    with pytest.raises(errors.InvalidInputError, match="Unknown perturbation"):
        open_page(PAGE, perturbation={"css": "p {}"})
