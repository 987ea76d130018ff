"""Oracles of tasks whose fields help or resist: suggestions, colours, a terminal."""

from __future__ import annotations

from webtraj.environments.actions import Click, Fill, Press, TypeInto
from webtraj.environments.miniwob.oracles.registry import Actions, oracle
from webtraj.environments.miniwob.oracles.steps import submit
from webtraj.environments.miniwob.oracles.view import OracleError, OracleView, matched


@oracle("use-autocomplete", "use-autocomplete-nodelay")
async def use_autocomplete(page: OracleView) -> Actions:
    """Types the beginning, has suggestions shown at once by the arrow down, and takes the one.

    The page's own search, delayed by 300 ms from the typing, would show the suggestions again if
    it came after the choice, over the button; leaving the field calls it off.
    """
    start, end = matched(
        r'Enter an item that starts with "(.+?)"(?: and ends with "(.+)")?\.', page.goal
    )
    field = (await page.one("#tags")).ref
    yield Fill(field, start)
    yield Press(field, "ArrowDown")
    for item in await page.all(".ui-autocomplete li"):
        if item.visible and item.text.startswith(start) and item.text.endswith(end):
            yield Click(item.ref)
            break
    else:
        raise OracleError(f"The page suggests nothing of the form {start}...{end}.")
    yield Press(field, "Tab")
    yield await submit(page)


@oracle("use-colorwheel", "use-colorwheel-2")
async def use_colorwheel(page: OracleView) -> Actions:
    """Types the colour's number into the field of the wheel, and submits.

    The number of a named colour is read from the page's list of all such names. That of a colour
    shown in the query, which no text says, is read from the query's markup.
    """
    (name,) = matched(
        r"Select (?:the following color|(\w+)) with the color picker and hit Submit\.", page.goal
    )
    if name:
        number = await page.evaluate("name => ui_utils.colorNameToHex(name)", name)
    else:
        style = (await page.one("#query .cc")).attributes["style"]
        (number,) = matched(r"background-color: ?(#\w+);?", style)
    field = (await page.one("#col")).ref
    yield Fill(field, number.removeprefix("#"))
    yield await submit(page)


@oracle("terminal")
async def terminal(page: OracleView) -> Actions:
    """Lists the files, and removes one with the extension that the goal names, or without any."""
    (extension,) = matched(
        r"Use the terminal below to delete a file "
        r"(?:ending with the extension (\.[\w.]+)|that has no file extension\.)",
        page.goal,
    )
    prompt = (await page.one("#terminal-target")).ref
    yield TypeInto(prompt, "ls", submit=True)
    files = (await page.all("#terminal .output"))[-1].text.split(" ")
    for file in files:
        if file.endswith(extension) if extension else "." not in file:
            yield TypeInto(prompt, f"rm {file}", submit=True)
            return
    raise OracleError(f"None of {files} ends with {extension!r}.")
