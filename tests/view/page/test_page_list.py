"""The list: rows, filters, search, order, keys, places in it, and a hundred thousand episodes."""

import pytest
from playwright.async_api import Page, expect

from webtraj.trajectory import Outcome

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]


def rows(page: Page):
    return page.locator(".body .row:not([data-waiting])")


def total(page: Page):
    return page.locator(".total")


async def test_filters_search_and_order(look, serve, written_episodes, tmp_path):
    page = await look(await serve(written_episodes(tmp_path / "d", 45)))
    await expect(total(page)).to_have_text("45 episodes")
    await expect(rows(page).first).to_contain_text("shop/task-0")  # The latest one: 44.

    success = page.get_by_role("button", name="success 5")
    await success.click()
    await expect(total(page)).to_have_text("5 episodes")
    await expect(rows(page)).to_have_count(5)
    assert await rows(page).locator(".badge").all_inner_texts() == ["success"] * 5
    assert "outcome=success" in page.url
    await page.get_by_role("button", name="shop/task-1").click()
    expected = sum(n % len(Outcome) == 1 and n % 4 == 1 for n in range(45))
    await expect(total(page)).to_contain_text(f"{expected} episode")
    await page.get_by_role("button", name="Clear all").click()
    await expect(total(page)).to_have_text("45 episodes")

    await page.keyboard.press("/")
    await page.keyboard.type("number 17.")
    await expect(total(page)).to_have_text("1 episode")
    await expect(rows(page).first).to_contain_text("Do the thing number 17.")
    await page.get_by_role("searchbox").fill("nothing has this")
    await expect(page.get_by_role("heading", name="No episodes")).to_be_visible()
    await page.get_by_role("button", name="Show all episodes").click()
    await expect(total(page)).to_have_text("45 episodes")

    await page.get_by_label("Smallest reward").fill("0.5")
    await page.keyboard.press("Tab")
    await expect(total(page)).to_have_text("5 episodes")
    await page.get_by_label("Smallest reward").fill("much")
    await page.keyboard.press("Tab")
    await expect(page.get_by_label("Smallest reward")).to_have_attribute("aria-invalid", "true")
    await expect(total(page)).to_have_text("5 episodes")


async def test_the_success_rate_follows_the_filters(look, serve, written_episodes, tmp_path):
    page = await look(await serve(written_episodes(tmp_path / "d", 45)))
    rate = page.locator(".rate")
    await expect(rate).to_have_text("36 % success, 17 infrastructure failures")
    await expect(rate).to_have_attribute(
        "title", "5 of 14 graded episodes; 95 % interval: 16 % to 61 %"
    )
    await page.get_by_role("button", name="success 5").click()
    await expect(rate).to_have_text("100 % success")
    await page.get_by_role("button", name="success 5").click()
    await page.get_by_role("button", name="blocked").click()
    await expect(rate).to_have_text("")


async def test_columns_sort_both_ways_and_say_so(look, serve, written_episodes, tmp_path):
    page = await look(await serve(written_episodes(tmp_path / "d", 12)))
    await expect(rows(page)).to_have_count(12)
    task = page.get_by_role("columnheader", name="Task")
    await page.get_by_role("button", name="Task", exact=True).click()
    await expect(task).to_have_attribute("aria-sort", "ascending")
    await expect(page.locator("#row-0")).to_contain_text("shop/task-0")
    await page.get_by_role("button", name="Task", exact=True).click()
    await expect(task).to_have_attribute("aria-sort", "descending")
    await expect(page.locator("#row-0")).to_contain_text("shop/task-3")
    assert "sort=-task" in page.url


async def test_the_list_shows_where_tasks_differ_and_what_has_a_value(
    look, serve, written_episodes, tmp_path
):
    url = await serve(written_episodes(tmp_path / "d", 12))
    page = await look(url)
    await expect(page.get_by_role("columnheader", name="Task")).to_be_visible()
    for empty in ("Iter.", "Label"):
        await expect(page.get_by_role("columnheader", name=empty)).to_have_count(0)
    cell = page.locator("#row-0 .cell.task")
    await cell.evaluate("cell => cell.style.width = '88px'")
    own, family = cell.locator(".family + span"), cell.locator(".family")
    assert await own.evaluate("text => text.scrollWidth <= text.clientWidth + 1")
    assert await family.evaluate("text => text.scrollWidth > text.clientWidth")


async def test_places_in_the_list_are_links_and_back_leads_there(
    look, serve, written_episodes, tmp_path
):
    url = await serve(written_episodes(tmp_path / "d", 45))
    page = await look(url, "#/?outcome=success&sort=start_time")
    await expect(total(page)).to_have_text("5 episodes")
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await expect(page.locator(".row.active")).to_contain_text("number 21.")
    await page.keyboard.press("k")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("shop/task-3")
    assert page.url.endswith("#/episode/d/e0011")
    await page.keyboard.press("]")
    await expect(page.locator(".goal")).to_have_text("Do the thing number 21.")
    await page.keyboard.press("[")
    await expect(page.locator(".goal")).to_have_text("Do the thing number 11.")
    await page.go_back()
    await expect(page.locator(".goal")).to_have_text("Do the thing number 21.")
    await page.keyboard.press("Escape")
    await expect(total(page)).to_have_text("5 episodes")
    assert "outcome=success" in page.url
    await expect(page.locator(".row.active")).to_contain_text("number 11.")


async def test_the_next_episode_is_the_next_one_in_a_list_that_grows(
    look, serve, written_episodes, tmp_path
):
    folder = written_episodes(tmp_path / "d", 8)
    page = await look(await serve(folder))
    await page.locator("#row-3").click()
    await expect(page.locator(".goal")).to_have_text("Do the thing number 4.")
    written_episodes(folder, 5, first=20)  # The list shows the latest first.
    await page.keyboard.press("]")
    await expect(page.locator(".goal")).to_have_text("Do the thing number 3.")
    await page.keyboard.press("[")
    await expect(page.locator(".goal")).to_have_text("Do the thing number 4.")
