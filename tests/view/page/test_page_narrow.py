"""On a phone no page is wider than the screen, whatever names stand on it."""

import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

LONG = "a-benchmark-of-many-tasks/with-a-long-category/and-a-name-that-goes-on-and-on-until-"
NAMES = (f"{LONG}0001", f"{LONG}0002", "x" * 300, "متجر/إضافة إلى عربة التسوق", "🛒" * 40)

REGIONS = "main, .view, .grid, .facets, .panel, .pairs"
"""What never scrolls sideways."""

WIDE = """(REGIONS) => {
  // What is in a region that scrolls, or that is cut off, need not fit.
  const isCut = (element) => {
    for (let e = element.parentElement; e; e = e.parentElement) {
      if (getComputedStyle(e).overflowX !== "visible") return true;
    }
    return false;
  };
  const room = document.documentElement.clientWidth;
  const all = [...document.querySelectorAll("header.top, header.top *, main, main *")];
  const isOutside = (e) => e.getBoundingClientRect().right > room + 1 && !isCut(e);
  const scrolls = (e) => e.scrollWidth > e.clientWidth + 1;
  const named = (found) => found.map((e) => e.outerHTML.slice(0, 80));
  return {
    page: document.documentElement.scrollWidth - room,
    outside: named(all.filter(isOutside)),
    scrolled: named(all.filter((e) => e.matches(REGIONS) && scrolls(e))),
  };
}"""


@pytest.mark.parametrize("width", [390, 1024])
async def test_nothing_is_wider_than_the_page(look, serve, written_episodes, tmp_path, width):
    for number, name in enumerate(NAMES):
        folder = tmp_path / f"iteration-{number}"
        written_episodes(folder, 2, first=1 + 3 * number, task=name, goal=f"{name} " * 4, site=name)
    (tmp_path / "empty").mkdir()
    written_episodes(tmp_path / "empty", 0)
    url = await serve(*(tmp_path / f"iteration-{number}" for number in range(len(NAMES))))
    empty = await serve(tmp_path / "empty")
    one = "#/episode/iteration-1/e0004"
    places = {
        url: (
            ("#/", ".body .row"),
            ("#/?q=nothing", ".none"),
            ("#/iterations", ".plots .card"),
            ("#/compare/iteration-0/e0001/iteration-2/e0007", ".pair"),
            *(
                (f"{one}/step/1?tab={tab}", ".panel")
                for tab in ("page", "model", "errors", "about")
            ),
            ("#/episode/iteration-0/none", ".empty"),
            ("#/run", ".run-notes"),
        ),
        empty: (("#/", ".none code"),),
    }
    found = {}
    for address, views in places.items():
        page = await look(
            address,
            forgive="404",
            viewport={"width": width, "height": 800},
            reduced_motion="reduce",
        )
        for place, shown in views:
            await page.goto(f"{address}{place}")
            await expect(page.locator(shown).first).to_be_visible()
            wide = await page.evaluate(WIDE, REGIONS)
            if wide["page"] > 0 or wide["outside"] or wide["scrolled"]:
                found[place] = wide
    assert found == {}


async def test_filters_are_one_touch_away(look, serve, written_episodes, tmp_path):
    page = await look(
        await serve(written_episodes(tmp_path / "d", 4)), viewport={"width": 390, "height": 800}
    )
    rows = page.locator(".body .row")
    await expect(rows).to_have_count(4)
    blocked = page.get_by_role("button", name="failure 1")
    await expect(blocked).to_be_hidden()
    await page.get_by_role("button", name="Filters").click()
    await blocked.click()
    await expect(rows).to_have_count(1)
