"""An episode, two beside each other, and a person's labels: of real MiniWoB++ episodes."""

import json
import re

import pytest
from playwright.async_api import expect

import webtraj
from webtraj.environments.collecting_environment import TrajectoryCollectingEnvironment
from webtraj.testing import fakes
from webtraj.trajectory import Outcome
from webtraj.view.page import episode_html

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


def episodes_of(folder, task):
    return [t for t in webtraj.open_dataset(folder) if t.info.task == f"miniwob/{task}"]


def longest(folder, task="click-checkboxes"):
    return max(episodes_of(folder, task), key=lambda trajectory: trajectory.num_steps)


@pytest.fixture
def place(miniwob_iterations):
    """The judged one of the episodes with the most steps, and where it is shown."""
    _, second = miniwob_iterations
    trajectory = longest(second)
    return trajectory, f"#/episode/{second.name}/{trajectory.episode_id}"


async def test_an_episode_step_by_step(look, serve, miniwob_iterations, place):
    trajectory, path = place
    page = await look(await serve(*miniwob_iterations), path)
    last = trajectory.num_steps
    assert last >= 2
    await expect(page.get_by_role("heading", level=1)).to_have_text("miniwob/click-checkboxes")
    await expect(page.locator(".goal")).to_have_text(trajectory.info.goal)
    steps = page.get_by_role("navigation", name="Steps").get_by_role("link")
    await expect(steps).to_have_count(last + 1)
    await expect(steps.nth(0)).to_have_attribute("aria-current", "step")

    await page.keyboard.press("j")
    await expect(steps.nth(1)).to_have_attribute("aria-current", "step")
    assert page.url.endswith("/step/1")
    # The click is marked where the record says, on the page as it was before.
    box = trajectory.steps[1].observation["last_action"]["box"]
    width = trajectory.steps[1].observation["scroll"]["width"]
    picture = await page.locator(".stage img").bounding_box()
    marked = await page.locator(".stage .box").bounding_box()
    scale = picture["width"] / width
    assert marked["x"] - picture["x"] == pytest.approx(box[0] * scale, abs=2.5)
    assert marked["y"] - picture["y"] == pytest.approx(box[1] * scale, abs=2.5)
    assert marked["width"] == pytest.approx(box[2] * scale, abs=2.5)
    point = await page.locator(".stage .point").bounding_box()
    middle = point["x"] + point["width"] / 2 - picture["x"]
    assert middle == pytest.approx((box[0] + box[2] / 2) * scale, abs=3)
    assert await page.locator(".stage img").evaluate("img => img.complete && img.naturalWidth") > 0
    before = await page.locator(".stage img").get_attribute("src")
    await page.keyboard.press("b")
    await expect(page.get_by_role("button", name="After", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    assert await page.locator(".stage img").get_attribute("src") != before
    await expect(page.locator(".stage .box")).to_have_count(0)
    await page.keyboard.press("b")

    tree = trajectory.steps[0].observation["axtree"]
    shown = await page.locator(".lines .line .said").all_inner_texts()
    assert [line.strip() for line in shown] == [line.strip() for line in tree.split("\n")]
    acted = await page.locator(".line.acted").inner_text()
    assert f"[{trajectory.steps[1].observation['last_action']['ref']}]" in acted
    await page.keyboard.press("d")
    gone = await page.locator(".line.removed .said").all_inner_texts()
    new = await page.locator(".line.added .said").all_inner_texts()
    after = trajectory.steps[1].observation["axtree"].split("\n")
    assert {line.strip() for line in gone} == {x.strip() for x in set(tree.split("\n")) - {*after}}
    assert {line.strip() for line in new} == {x.strip() for x in {*after} - set(tree.split("\n"))}

    await page.keyboard.press("End")
    await expect(steps.nth(last)).to_have_attribute("aria-current", "step")
    await page.keyboard.press("j")  # There is no step after it.
    assert page.url.split("?")[0].endswith(f"/step/{last}")
    await page.keyboard.press("ArrowUp")
    await expect(steps.nth(last - 1)).to_have_attribute("aria-current", "step")


async def test_what_the_model_was_asked_and_how_sure_it_was(look, serve, miniwob_iterations, place):
    trajectory, path = place
    page = await look(await serve(*miniwob_iterations), f"{path}/step/1")
    await expect(page.locator(".timeline .step[aria-current]")).to_contain_text("1")
    await page.keyboard.press("t")
    await expect(page.get_by_role("tab", name="Model")).to_have_attribute("aria-selected", "true")
    (call,) = trajectory.steps[1].decision.model_calls
    panel = page.get_by_role("tabpanel")
    await expect(panel).to_contain_text("weights step-400")
    await expect(panel.locator(".reply")).to_have_text(call.text)
    cards = panel.locator(".message-card")
    await expect(cards).to_have_count(len(call.messages))
    await expect(cards.nth(0)).to_contain_text("system")
    sent = cards.last.locator("img")
    assert await sent.evaluate("img => img.decode().then(() => img.naturalWidth)") > 0
    tokens = panel.locator(".tokens .token")
    await expect(tokens).to_have_count(len(call.completion_token_ids))
    await panel.locator(".tokens").focus()
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowRight")
    told = panel.locator(".token-told")
    await expect(told).to_contain_text(f"Token 2, id {call.completion_token_ids[1]}")
    await expect(told).to_contain_text(f"logprob {call.logprobs[1]:.3f}")
    assert page.url.endswith("/step/1?tab=model")  # The arrows went along the tokens alone.
    await tokens.nth(0).hover()
    await expect(told).to_contain_text("Token 1,")


async def test_judges_errors_and_all_the_rest(look, serve, miniwob_iterations, place):
    trajectory, path = place
    page = await look(await serve(*miniwob_iterations), f"{path}/step/1?tab=judge")
    panel = page.get_by_role("tabpanel")
    (judgement,) = trajectory.end.judgements
    await expect(panel.locator(".judgement > .said.block")).to_have_text(judgement.reason)
    await expect(panel.locator(".judgement header .badge")).to_have_text(
        judgement.outcome.name.lower()
    )
    for question in judgement.findings["questions"]:
        await expect(panel.locator(".question", has_text=question["question"])).to_contain_text(
            question["reasons"][0]
        )
    await panel.get_by_text(f"Transcript ({len(judgement.model_calls)})").click()
    await expect(panel.locator(".call .call")).to_have_count(len(judgement.model_calls))

    await expect(page.get_by_role("tab", name="Errors")).to_have_count(0)  # There are none.
    await page.get_by_role("tab", name="Episode").click()
    await expect(panel.locator(".facts-list")).to_contain_text(trajectory.episode_id)
    await expect(panel).to_contain_text(str(trajectory.info.seed))
    await page.get_by_role("tab", name="Raw").click()
    await expect(panel).to_contain_text("step_type")
    await page.reload()
    await expect(page.get_by_role("tab", name="Raw")).to_have_attribute("aria-selected", "true")


async def test_two_iterations_stand_side_by_side(look, serve, miniwob_iterations):
    first, second = miniwob_iterations
    ones = {t.info.goal: t for t in episodes_of(first, "click-checkboxes")}
    others = {t.info.goal: t for t in episodes_of(second, "click-checkboxes")}
    goal = max(ones.keys() & others.keys(), key=lambda goal: others[goal].num_steps)
    one, other = ones[goal], others[goal]
    url = await serve(first, second)
    page = await look(url, f"#/episode/{first.name}/{one.episode_id}")
    await expect(page.locator(".timeline .step")).to_have_count(len(one.steps))
    await page.keyboard.press("c")
    dialog = page.get_by_role("dialog", name="Compare with another episode")
    choices = dialog.locator(".choices button")
    await expect(choices.first).to_be_focused()
    await expect(choices.first).to_contain_text(f"seed {one.info.seed:,},")
    await choices.filter(has_text=second.name).first.click()
    await expect(page.locator(".side")).to_have_count(2)

    path = f"#/compare/{first.name}/{one.episode_id}/{second.name}/{other.episode_id}"
    page = await look(url, path)
    pairs = page.locator(".pair")
    await expect(pairs).to_have_count(max(one.num_steps, other.num_steps) + 1)
    same = [row.observation.get("axtree") for row in one.steps]
    assert same[0] == other.steps[0].observation["axtree"]  # One seed, one page.
    await expect(pairs.nth(0)).to_have_attribute("data-same", "yes")
    await expect(page.get_by_text("start from different pages")).to_have_count(0)
    await page.keyboard.press("j")
    await expect(pairs.nth(1)).to_have_attribute("aria-current", "step")
    await page.keyboard.press("a")
    await expect(page.get_by_role("button", name="By action")).to_have_attribute(
        "aria-pressed", "true"
    )
    assert "align=actions" in page.url
    await page.get_by_role("button", name="Swap").click()
    await expect(page.locator(".side h2").first).to_contain_text(other.episode_id)
    await page.keyboard.press("2")
    await expect(page.locator(".timeline .step[aria-current]")).to_contain_text("1")
    assert f"#/episode/{first.name}/{one.episode_id}/step/1" in page.url
    await page.go_back()
    await expect(page.locator(".side")).to_have_count(2)


async def test_labels_are_kept_and_those_that_are_not_are_told(
    look, serve, written_episodes, tmp_path
):
    folder = written_episodes(tmp_path / "d", 3)
    url = await serve(folder)
    page = await look(url, "#/episode/d/e0001", forgive="503")
    broken = False

    async def answer(route):
        await (route.fulfill(status=503, body="{}") if broken else route.continue_())

    # Before the page makes its first request: a route added later may miss the next one.
    await page.route("**/api/labels/**", answer)
    await page.reload()
    success = page.get_by_role("button", name="Success")
    await expect(success).to_have_attribute("aria-pressed", "false")
    await page.keyboard.press("s")
    await expect(success).to_have_attribute("aria-pressed", "true")
    await page.keyboard.press("n")
    await page.get_by_role("textbox", name="Note").fill("sfn ]: the second box\nwas <b>odd</b>")
    await page.keyboard.press("Control+Enter")
    await expect(page.locator(".noted")).to_have_text("sfn ]: the second box\nwas <b>odd</b>")
    assert page.url.endswith("e0001")
    await page.reload()
    await expect(success).to_have_attribute("aria-pressed", "true")
    await expect(page.locator(".noted")).to_contain_text("the second box")
    written = b"".join(path.read_bytes() for path in (folder / "labels").iterdir())
    assert json.loads(written.splitlines()[-1])["label"] == "success"

    broken = True
    await page.keyboard.press("f")
    await expect(page.locator(".notice.problem")).to_contain_text("Could not save the label")
    await expect(page.get_by_role("button", name="Failure")).to_have_attribute(
        "aria-pressed", "false"
    )
    await expect(success).to_have_attribute("aria-pressed", "true")
    broken = False
    await page.keyboard.press("s")  # Once more takes it back; the note stays.
    await expect(success).to_have_attribute("aria-pressed", "false")

    page = await look(url, "#/?q=second+box")
    await expect(page.locator(".total")).to_have_text("1 episode")
    await expect(page.locator(".label-mark")).to_have_text("has a note")


async def test_an_episode_that_is_still_running_grows_before_ones_eyes(look, serve, tmp_path):
    folder = tmp_path / "running"
    async with webtraj.JsonTrajectoryCollector(folder) as collector:
        info = webtraj.EpisodeInfo(episode_id="now", task="catch", goal="Catch it.")
        env = TrajectoryCollectingEnvironment(
            webtraj.as_async(fakes.CatchEnvironment()), collector, episode_info=info
        )
        async with env:
            await env.reset()
            await env.step(1)
            url = await serve(folder)
            page = await look(url)
            await expect(page.locator(".badge")).to_have_text("running")
            await page.keyboard.press("Enter")
            steps = page.locator(".timeline .step")
            await expect(steps).to_have_count(2)
            await page.keyboard.press("End")
            timestep = await env.step(1)
            await expect(steps).to_have_count(3)
            await expect(steps.nth(2)).to_have_attribute("aria-current", "step")
            # On an earlier step, what is read stays as it is.
            await page.keyboard.press("k")
            await page.get_by_role("tab", name="Raw").click()
            await page.locator(".raw").evaluate("raw => { raw.dataset.kept = 'yes' }")
            await steps.nth(1).focus()
            timestep = await env.step(1)
            await expect(steps).to_have_count(4)
            await expect(page.locator(".episode-head .facts")).to_contain_text("3 steps")
            await expect(steps.nth(1)).to_have_attribute("aria-current", "step")
            await expect(steps.nth(1)).to_be_focused()
            await expect(page.locator(".raw")).to_have_attribute("data-kept", "yes")
            while not timestep.last():
                timestep = await env.step(1)
        await expect(page.locator(".episode-head .badge")).not_to_have_text("running")
    recorded = webtraj.open_dataset(folder)[-1]
    await expect(steps).to_have_count(len(recorded.steps))


async def test_an_exported_episode_needs_no_server(look, tmp_path, place):
    trajectory, _ = place
    file = tmp_path / "episode.html"
    file.write_text(episode_html(trajectory))
    page = await look(file.as_uri(), "#/episode/this/x/step/1?tab=model")
    await expect(page.get_by_role("heading", level=1)).to_have_text("miniwob/click-checkboxes")
    await expect(page.locator(".timeline .step").nth(1)).to_have_attribute("aria-current", "step")
    await expect(page.locator(".reply")).to_have_text(
        trajectory.steps[1].decision.model_calls[0].text
    )
    loaded = await page.locator(".stage img").evaluate("img => img.decode().then(() => 1)")
    assert loaded == 1
    await page.keyboard.press("k")
    await expect(page.locator(".timeline .step").nth(0)).to_have_attribute("aria-current", "step")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Shortcuts")).to_contain_text("Next step")
    assert await page.get_by_role("button", name=re.compile("Success|Compare")).count() == 0
    assert trajectory.outcome is not Outcome.UNKNOWN
