"""Success by iteration: what is drawn, where its points lead, and that it follows a loop."""

import importlib.util
import json
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from test_page_hostile import ATTACK, is_unharmed

from axe_support import violations

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

_SCRIPT = Path(__file__).parents[1] / "record_iteration.py"
_SPEC = importlib.util.spec_from_file_location("record_iteration", _SCRIPT)
recording = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(recording)


def drawing(page: Page, name: str):
    """The drawing of a task, or of their mean, and the links in it."""
    return page.get_by_role("group", name=name, exact=True).get_by_role("link")


MEAN = "Mean over tasks by iteration"


@pytest.fixture(scope="module")
def loop_folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("looped") / "loop"
    for number in (1, 2):
        recording.record(out / f"train_trajectories/iteration_000{number}", number)
        recording.record(out / f"test_trajectories/iteration_000{number}", number, better=1)
    (out / "state.jsonl").write_bytes(b"")
    return out


async def test_points_tell_their_numbers_and_lead_to_their_episodes(look, serve, loop_folder):
    page = await look(await serve(loop_folder))
    await (
        page.get_by_role("navigation", name="Views").get_by_role("link", name="Iterations").click()
    )
    await expect(page.get_by_role("heading", level=1)).to_have_text("Iterations")
    await expect(drawing(page, MEAN)).to_have_count(4)
    hard = drawing(page, "shop/hard")
    await expect(hard).to_have_count(4)
    said = await hard.evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    assert said[:2] == [
        "shop/hard, evaluation, before the first iteration: 33.3 %, 1 of 3; 95 %: 6.1 % to 79.2 %.",
        "shop/hard, evaluation, after iteration 1: 66.7 %, 2 of 3; 95 %: 20.8 % to 93.9 %.",
    ]
    await hard.nth(1).hover()
    await expect(page.locator(".told")).to_contain_text("after iteration 1: 66.7 %, 2 of 3")
    # The line is where the numbers are: a mark's height says its rate.
    heights = (
        await drawing(page, "shop/hard")
        .locator(".plot-mark")
        .evaluate_all(
            "all => all.map(one => one.getBoundingClientRect()).map(box => box.y + box.height / 2)"
        )
    )
    assert heights[1] < heights[0]
    await hard.nth(1).click()
    await expect(page.locator(".total")).to_have_text("4 episodes")
    await expect(page.get_by_label("Dataset")).to_have_value("test-iteration_0002")
    rows = page.locator(".body .row .cell.task")
    assert set(await rows.all_text_contents()) == {"shop/hard"}
    await page.go_back()
    await expect(drawing(page, MEAN)).to_have_count(4)
    numbers = page.get_by_role("region", name="Numbers").get_by_role("row")
    await expect(numbers).to_have_count(5)
    await expect(numbers.nth(2)).to_contain_text("after iteration 1")
    await numbers.nth(2).get_by_role("link", name="test-iteration_0002").click()
    await expect(page.locator(".total")).to_have_text("8 episodes")


async def test_training_on_groups_is_drawn_and_listed(look, serve, tmp_path):
    out = tmp_path / "loop"
    for number in (1, 2):
        recording.record(out / f"train_trajectories/iteration_000{number}", number)
    told = {"groups": 4, "groups_kept": 3, "reward": 0.25, "ratio": 1.5, "mismatch": 2e-6}
    lines = [{"iteration": 1}, {"iteration": 2, "policy_gradient": told}]
    (out / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    page = await look(await serve(out), "#/iterations")
    points = drawing(page, "Policy gradient by iteration")
    await expect(points).to_have_count(2)
    said = await points.evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
    assert said == [
        "policy gradient, iteration 2: mean reward 25 %.",
        "policy gradient, iteration 2: groups with different rewards 75 %.",
    ]
    rows = page.get_by_role("region", name="Numbers of policy gradient").get_by_role("row")
    cells = await rows.nth(1).get_by_role("cell").all_inner_texts()
    assert cells[1:] == ["iteration 2", "0.25", "4", "3", "1.5", "-", "-", "0.000002", "-"]
    assert not await violations(page)


async def test_an_iteration_that_comes_is_drawn_and_the_focus_stays(look, serve, tmp_path):
    out = tmp_path / "loop"
    recording.record(out / "train_trajectories/iteration_0001", 1)
    (out / "state.jsonl").write_bytes(b"")
    page = await look(await serve(out), "#/iterations")
    await expect(drawing(page, MEAN)).to_have_count(1)
    await drawing(page, "shop/easy").first.focus()
    recording.record(out / "test_trajectories/iteration_0002", 2)
    await expect(drawing(page, MEAN)).to_have_count(2)
    await expect(page.locator(".plot-legend li")).to_have_count(2)
    # What is written is hollow, and says so.
    await expect(drawing(page, MEAN).and_(page.locator(".open"))).to_have_count(1)
    focused = "document.activeElement.getAttribute('aria-label')"
    assert "episodes to train on, iteration 1" in await page.evaluate(focused)


@pytest.mark.smoke
async def test_hostile_names_are_text(look, serve, tmp_path):
    tasks = (ATTACK, "__proto__", "constructor")
    recording.record(tmp_path / "<img src=x onerror=pwned=1>/iteration_1", 1, tasks)
    recording.record(tmp_path / "<img src=x onerror=pwned=1>/iteration_2", 2, tasks)
    page = await look(await serve(tmp_path), "#/iterations")
    await expect(page.locator(".plots .card")).to_have_count(3)
    await is_unharmed(page)
    for name in ("__proto__", "constructor"):
        await expect(drawing(page, name)).to_have_count(2)
    await (
        page.locator(".plots .card")
        .filter(has_text="<script>")
        .locator("a.point-link")
        .last.click()
    )
    await expect(page.locator(".total")).to_have_text("4 episodes")
    await is_unharmed(page)
    await page.goto(page.url.partition("#")[0] + "#/iterations?q=%3Cscript%3E&order=__proto__")
    await expect(page.locator(".plots .card")).to_have_count(1)
    await is_unharmed(page)
