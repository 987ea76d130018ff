"""Verbs on an element."""

from __future__ import annotations

from typing import Any

from webtraj.environments import actions as a
from webtraj.environments.browser.acting.hands import Hands, performs

__all__: list[str] = []


@performs(a.Click)
async def _click(hands: Hands, action: a.Click) -> None:
    ready = await hands.prepare("point", action.ref)
    async with hands.holding(action.modifiers):
        await hands.click(ready["point"], button=action.button, count=action.count)


@performs(a.Hover)
async def _hover(hands: Hands, action: a.Hover) -> None:
    ready = await hands.prepare("hover", action.ref)
    await hands.move(*ready["point"])


@performs(a.Fill)
async def _fill(hands: Hands, action: a.Fill) -> None:
    await hands.replace_text(action.ref, action.value)


@performs(a.Clear)
async def _clear(hands: Hands, action: a.Clear) -> None:
    await hands.replace_text(action.ref, "")


@performs(a.TypeInto)
async def _type_into(hands: Hands, action: a.TypeInto) -> None:
    if action.clear:
        await hands.replace_text(action.ref, "")
    else:
        await hands.prepare("focus", action.ref)
    await hands.type(action.text)
    if action.submit:
        await hands.press("Enter")


@performs(a.SelectOption)
async def _select_option(hands: Hands, action: a.SelectOption) -> None:
    await hands.prepare("select", action.ref, options=action.options)


@performs(a.Check)
async def _check(hands: Hands, action: a.Check) -> None:
    await _toggle(hands, action.ref, on=True)


@performs(a.Uncheck)
async def _uncheck(hands: Hands, action: a.Uncheck) -> None:
    await _toggle(hands, action.ref, on=False)


async def _toggle(hands: Hands, ref: str, *, on: bool) -> None:
    ready = await hands.prepare("toggle", ref, on=on)
    if "point" in ready:
        await hands.click(ready["point"])


@performs(a.Focus)
async def _focus(hands: Hands, action: a.Focus) -> None:
    await hands.prepare("focus", action.ref)


@performs(a.Press)
async def _press(hands: Hands, action: a.Press) -> None:
    await hands.prepare("focus", action.ref)
    await hands.press(action.keys)


@performs(a.DragTo)
async def _drag_to(hands: Hands, action: a.DragTo) -> None:
    # Bringing the target into view may move the source, so that is asked for last.
    target = await hands.prepare("hover", action.target_ref)
    source = await hands.prepare("point", action.ref)
    await hands.drag([source["point"], target["point"]])


@performs(a.UploadFile)
async def _upload_file(hands: Hands, action: a.UploadFile) -> None:
    ready = await hands.prepare("file", action.ref)
    await hands.choose_files(action.paths, ready.get("point") or _middle(hands.touched))


def _middle(element: dict[str, Any] | None) -> list[float]:
    x, y, width, height = element["box"] if element else (0.0, 0.0, 0.0, 0.0)
    return [x + width / 2, y + height / 2]
