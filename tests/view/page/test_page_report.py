"""A report as a page: one file that draws its numbers and requests nothing."""

import json
import shutil

import pytest
from playwright.async_api import expect
from test_page_hostile import ATTACK, is_unharmed
from test_page_iterations import MEAN, drawing, recording
from typer.testing import CliRunner

from axe_support import violations
from webtraj.cli.app import make_app
from webtraj.view.report import VIEWER

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

TASKS = ("shop/easy", ATTACK, "__proto__", "_日本語 🙂 \u202egnp", "unbroken" * 40)


def metrics(*arguments):
    """Calls the command and returns its output."""
    done = CliRunner().invoke(make_app(), ["metrics", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A report on two datasets, its JSON, and the datasets' places."""
    folder = tmp_path_factory.mktemp("compared")
    places = [recording.record(folder / f"d{n}", n, TASKS) for n in (1, 3)]
    file = folder / "report.html"
    metrics(*places, "--html", file, "--title", ATTACK)
    return file, json.loads(metrics(*places, "--html", file, "--json")), places


@pytest.mark.smoke
async def test_the_numbers_are_those_of_the_command(look, compared):
    file, data, places = compared
    page = await look(file.as_uri())
    await expect(page.get_by_role("heading", level=1)).to_have_text(ATTACK)
    await is_unharmed(page, VIEWER)
    await expect(page).to_have_title(ATTACK)
    rows = page.get_by_role("region", name="Overview").get_by_role("row")
    for number, subject in enumerate(data["subjects"], start=1):
        rate = subject["points"][0]["metrics"]["overall"]["success_rate"]
        cells = await rows.nth(number).locator("th, td").all_inner_texts()
        assert cells[0] == places[number - 1]
        assert cells[3] == f"{100 * rate['value']:.1f}%"
        assert cells[4] == f"{rate['numerator']} of {rate['denominator']}"
        strip = rows.nth(number).get_by_role("img")
        said = await strip.get_attribute("aria-label")
        low, high = 100 * rate["low"], 100 * rate["high"]
        assert said == f"{100 * rate['value']:.1f} %; 95 %: {low:.1f} % to {high:.1f} %"
        # The mark stands where its number is.
        box = await strip.bounding_box()
        mark = await strip.locator(".mark").bounding_box()
        at = (mark["x"] + mark["width"] / 2 - box["x"]) / box["width"]
        assert at == pytest.approx(rate["value"], abs=0.02)
    (comparison,) = data["comparisons"]
    title = f"{places[1]} compared with {places[0]}"
    told = page.get_by_role("region", name=title).first.get_by_role("row").nth(1)
    value = f"{100 * comparison['rates'][0]['difference']:+.1f}"
    assert (await told.get_by_role("cell").all_inner_texts())[3] == value
    names = await page.get_by_role("region", name="By task").get_by_role("rowheader").all()
    assert {await name.text_content() for name in names} == set(TASKS)


async def test_it_fits_and_is_accessible_in_both_themes(look, compared):
    for width, theme in ((390, "dark"), (1440, "light")):
        viewport = {"width": width, "height": 800}
        page = await look(compared[0].as_uri(), viewport=viewport, color_scheme=theme)
        assert not await violations(page)
        for element in ("document.documentElement", "document.querySelector('.report')"):
            assert await page.evaluate(f"{element}.scrollWidth") <= width
        ground = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == {"dark": "rgb(14, 17, 22)", "light": "rgb(245, 246, 248)"}[theme]


async def test_a_loop_is_drawn_as_the_viewer_draws_it(look, serve, tmp_path):
    out = tmp_path / "loop"
    for number in (1, 2):
        recording.record(out / f"train_trajectories/iteration_000{number}", number)
        recording.record(out / f"test_trajectories/iteration_000{number}", number, better=1)
    (out / "state.jsonl").write_bytes(b"")
    lines = [{"iteration": number, "loss": 1 / number} for number in (1, 2)]
    (out / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    file = tmp_path / "report.html"
    metrics(out, "--html", file)
    words = "all => all.map((one) => one.getAttribute('aria-label'))"
    said = []
    for page in (await look(file.as_uri()), await look(await serve(out), "#/iterations")):
        await expect(drawing(page, MEAN)).to_have_count(4)
        said.append([await drawing(page, one).evaluate_all(words) for one in (MEAN, "shop/hard")])
    assert said[0] == said[1]
    page = await look(file.as_uri())
    loss = page.get_by_role("group", name="loss", exact=True).get_by_role("img")
    assert await loss.evaluate_all(words) == ["loss, iteration 1: 1.", "loss, iteration 2: 0.5."]
    await page.get_by_label("Search tasks").fill("hard")
    await expect(page.locator(".iterations-panel .plots .card")).to_have_count(1)
    shutil.rmtree(out)  # The page needs no other file.
    await page.reload()
    await expect(drawing(page, MEAN)).to_have_count(4)
