"""axe finds nothing in any view, in light and in dark; the focus is seen wherever it goes."""

import pytest
from playwright.async_api import expect

from axe_support import violations

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing(look, serve, written_episodes, tmp_path, scheme):
    url = await serve(written_episodes(tmp_path / "d", 13))
    # Roles, names and order are the same in the dark; colours are not.
    rules = () if scheme == "light" else ("color-contrast",)
    found = {}
    page = await look(url, "#/?outcome=failure", color_scheme=scheme, reduced_motion="reduce")
    await expect(page.locator(".body .row")).to_have_count(2)
    await page.keyboard.press("x")
    found["list"] = await violations(page, rules)
    places = [
        ("e0002", "tab=page"), ("e0002", "page=changes"), ("e0001", "tab=model"),
        ("e0004", "tab=errors"), ("e0001", "tab=about"), ("e0001", "tab=raw"),
    ]  # fmt: skip
    for episode_id, query in places:
        await page.goto(f"{url}#/episode/d/{episode_id}/step/1?{query}")
        await expect(page.locator(".timeline .step[aria-current]")).to_have_count(1)
        found[query] = await violations(page, rules)
    await page.keyboard.press("n")
    await expect(page.get_by_role("textbox", name="Note")).to_be_focused()
    found["note"] = await violations(page, rules)
    await page.keyboard.press("Escape")
    await page.keyboard.press("?")
    found["keys"] = await violations(page, rules)
    await page.keyboard.press("Escape")
    await page.goto(url + "#/compare/d/e0001/d/e0002/step/1")
    await expect(page.locator(".pair")).to_have_count(2)
    found["compare"] = await violations(page, rules)
    assert {place: lines for place, lines in found.items() if lines} == {}


async def test_axe_is_awake(look, serve, written_episodes, tmp_path):
    page = await look(await serve(written_episodes(tmp_path / "d", 1)))
    await expect(page.locator(".body .row")).to_have_count(1)
    await page.evaluate("document.querySelector('#theme').textContent = ''")
    assert any("button-name" in line for line in await violations(page))


async def test_focus_is_seen_and_goes_through_all_there_is(look, serve, written_episodes, tmp_path):
    page = await look(await serve(written_episodes(tmp_path / "d", 2)), "#/episode/d/e0001")
    await expect(page.locator(".timeline .step")).to_have_count(2)
    reached = []
    for _ in range(40):
        await page.keyboard.press("Tab")
        seen = await page.evaluate(
            """() => {
              const e = document.activeElement;
              const style = getComputedStyle(e);
              if (e === document.body) return ["", true];
              const name = e.getAttribute("aria-label") || e.textContent.trim().slice(0, 20);
              return [name, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
            }"""
        )
        if reached and seen[0] == reached[0][0]:
            break
        reached.append(seen)
    names = [name for name, _ in reached]
    assert {"Success", "Failure", "Note", "Compare…", "Next episode", "After", "Page"} <= {*names}
    assert [name for name, outlined in reached if not outlined and name] == []
