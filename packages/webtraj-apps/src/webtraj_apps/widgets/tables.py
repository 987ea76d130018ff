"""Tables, trees and long lists."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

from webtraj.environments import actions as a
from webtraj.environments.browser.oracles import OracleView, Step, click, fill, press, select
from webtraj_apps.tasks import join_names
from webtraj_apps.widgets.environment import Goal, double_click, key, type_text, widget


@widget(state="table.getData().map(row => row.pieces)")
def tabulator(rng: random.Random) -> Goal:
    """A cell that is edited."""
    row, pieces = rng.randrange(6), rng.randint(60, 99)
    thing = ("chairs", "desks", "lamps", "mugs", "rugs", "shelves")[row]
    cell = f".tabulator-row:nth-child({row + 1}) [tabulator-field=pieces]"
    return Goal(
        f"There are {pieces} {thing} now. Correct the stock.",
        [pieces if at == row else 7 * at + 3 for at in range(6)],
        click(cell),
        fill(f"{cell} input", str(pieces)),
        press(f"{cell} input", "Enter"),
    )


@widget(state="table.getSelectedData().map(row => row.name).sort()")
def tabulator_filter(rng: random.Random) -> Goal:
    """Filters above the columns."""
    names = ("Amir", "Beth", "Carl", "Dana", "Eli", "Fay", "Gus", "Hana", "Ivan", "June", "Kim")
    first, second = rng.sample(names, 2)
    search, row = "[tabulator-field=name] input", ".tabulator-row"
    return Goal(
        f"Select the rows of {first} and {second}.",
        sorted([first, second]),
        [
            step
            for one in (first, second)
            for step in (
                press(search, "Control+a"),
                type_text(one),
                click(f"{row} [tabulator-field=name]", one),
            )
        ],
    )


@widget(state="grid.getSelectedRows().map(row => row.firm).sort()")
def ag_grid(rng: random.Random) -> Goal:
    """Rows that are ticked."""
    firms = ("Acorn", "Birch", "Cedar", "Elm", "Fir", "Hazel", "Larch", "Maple")
    rows = sorted(rng.sample(range(8), 2))
    return Goal(
        f"Tick the rows of {join_names([firms[row] for row in rows])}.",
        [firms[row] for row in rows],
        [click(f".ag-row[row-index='{row}'] input") for row in rows],
    )


@widget(state="grid.getColumnState().filter(one => one.sort).map(one => [one.colId, one.sort])")
def ag_grid_sort(rng: random.Random) -> Goal:
    """A column that sorts."""
    column, order = rng.choice(("town", "rain", "sun")), rng.choice(("asc", "desc"))
    direction = "ascending" if order == "asc" else "descending"
    header = f".ag-header-cell[col-id={column}] .ag-header-cell-label"
    return Goal(
        f"Sort the table by {column}, in {direction} order.",
        [[column, order]],
        [click(header)] * (1 if order == "asc" else 2),
    )


@widget(state="called")
def gridjs(rng: random.Random) -> Goal:
    """A search over pages."""
    name = rng.choice(("Eve", "Finn", "Gwen", "Hal", "Iris", "Jack", "Kate", "Luke"))
    return Goal(
        f"Call {name} by a click on the row.",
        name,
        fill(".gridjs-search-input", name),
        click(".gridjs-tr td", name),
    )


@widget(state="[table.search(), table.order().map(([column, order]) => [column, order])]")
def datatables(rng: random.Random) -> Goal:
    """A search and a column that sorts."""
    text = rng.choice(("an", "el", "um", "wa"))
    return Goal(
        f'Search the books for "{text}" and sort them by year, the newest first.',
        [text, [[1, "desc"]]],
        fill("input[type=search]", text),
        [click("th[data-dt-column='1']")] * 2,
    )


@widget(
    state="[table.options.perPage, [...document.querySelectorAll('tbody td:first-child')]"
    ".map(cell => cell.textContent)]"
)
def simple_datatables(rng: random.Random) -> Goal:
    """A column that sorts down."""
    down = rng.random() < 0.5
    fruit = ["Mango", "Lemon", "Fig", "Cherry", "Banana", "Apple"]
    by_price = ["Banana", "Lemon", "Apple", "Fig", "Mango", "Cherry"]
    return Goal(
        f"Show all fruit on one page, sorted by {'name, from Z to A' if down else 'price'}.",
        [6, fruit if down else by_price],
        select(".datatable-selector", "6"),
        [click(".datatable-sorter", "Fruit")] * 2 if down else click(".datatable-sorter", "Price"),
    )


@widget(state="sheet.getData().slice(0, 4).map(row => Number(row[1]))")
def jspreadsheet(rng: random.Random) -> Goal:
    """A sheet of cells."""
    row, pounds = rng.randrange(4), rng.randint(1000, 1999)
    what = ("rent", "food", "travel", "other things")[row]
    return Goal(
        f"The budget for {what} is {pounds} pounds from now on.",
        [pounds if at == row else was for at, was in enumerate((900, 350, 120, 80))],
        double_click(f"td[data-x='1'][data-y='{row}']"),
        key("Control+a"),
        type_text(str(pounds)),
        key("Enter"),
    )


@widget(state="$('#tree').jstree('get_selected')")
def jstree(rng: random.Random) -> Goal:
    """A folder inside another."""
    folder, inner = rng.choice(
        (("letters", "Sent"), ("pictures", "Summer"), ("pictures", "Winter"), ("music", "Opera"))
    )
    return Goal(
        f'Select the folder "{inner}" in "{folder.capitalize()}".',
        [inner.lower()],
        click(f"#{folder} > .jstree-ocl"),
        click(f"#{inner.lower()} > .jstree-anchor"),
    )


@widget(state="$('#tree').jstree('get_bottom_checked').sort()")
def jstree_checkbox(rng: random.Random) -> Goal:
    """Boxes in a tree."""
    chosen = sorted(rng.sample(("read", "write", "invite", "remove"), 2))
    return Goal(
        f"Give the permissions to {join_names(chosen)}, and no others.",
        chosen,
        [click(f"#{one} > .jstree-anchor") for one in chosen],
    )


@widget(state="tree.getActiveNode()?.title")
def wunderbaum(rng: random.Random) -> Goal:
    """A tree that draws only what is seen."""
    row, kind, thing = rng.choice(
        ((1, "Drinks", "Cocoa"), (1, "Drinks", "Tea"), (2, "Grains", "Oats"), (3, "Spices", "Mace"))
    )
    return Goal(
        f'Open "{kind}" and choose "{thing}".',
        thing,
        click(f".wb-row:nth-child({row}) .wb-expander"),
        click(".wb-title", thing),
    )


@widget(state="called")
def clusterize(rng: random.Random) -> Goal:
    """A long list that draws only what is seen."""
    room = rng.randint(100, 400)
    return Goal(
        f"Call room {room}.",
        f"Room {room}",
        _scroll_to("#scroll", "#content button", f"Room {room}", by=1200),
        click("#content button", f"Room {room}"),
    )


@widget(state="[...taken]")
def react_window(rng: random.Random) -> Goal:
    """A long list of boxes in React."""
    seat = rng.randint(30, 80)
    return Goal(
        f"Take seat {seat}.",
        [seat],
        _scroll_to("#root > div", "label", f"Seat {seat}", by=280),
        click(f"label[style*='top: {30 * (seat - 1)}px'] input"),
    )


def _scroll_to(box: str, selector: str, text: str, *, by: int) -> Step:
    """Scroll a box down until it has an element."""

    async def step(page: OracleView) -> AsyncIterator[a.Action]:
        while await page.find((selector,), text) is None:
            ref = await page.find((box,))
            yield a.Scroll(0, by, ref=ref)
        yield a.Wait(0.3)  # Some lists take no clicks for a moment after they have scrolled.

    return step
