"""Verbs at a point."""

from __future__ import annotations

from webtraj.environments import actions as a
from webtraj.environments.browser.acting.hands import Hands, performs

__all__: list[str] = []


@performs(a.ClickAt)
async def _click_at(hands: Hands, action: a.ClickAt) -> None:
    point = await hands.look_at(action.x, action.y)
    async with hands.holding(action.modifiers):
        await hands.click(point, button=action.button, count=action.count)


@performs(a.TypeAt)
async def _type_at(hands: Hands, action: a.TypeAt) -> None:
    await hands.click(await hands.look_at(action.x, action.y))
    if action.clear:
        await hands.press("ControlOrMeta+a Delete")
    await hands.type(action.text)
    if action.submit:
        await hands.press("Enter")


@performs(a.MoveMouse)
async def _move_mouse(hands: Hands, action: a.MoveMouse) -> None:
    await hands.move(*await hands.look_at(action.x, action.y))


@performs(a.MouseDown)
async def _mouse_down(hands: Hands, action: a.MouseDown) -> None:
    await _move_if_told(hands, action.x, action.y)
    await hands.button_down(action.button)


@performs(a.MouseUp)
async def _mouse_up(hands: Hands, action: a.MouseUp) -> None:
    await _move_if_told(hands, action.x, action.y)
    await hands.button_up(action.button)


@performs(a.DragAt)
async def _drag_at(hands: Hands, action: a.DragAt) -> None:
    for x, y in action.path[1:]:
        await hands.look_at(x, y)
    await hands.look_at(*action.path[0])
    await hands.drag(action.path)


@performs(a.ScrollAt)
async def _scroll_at(hands: Hands, action: a.ScrollAt) -> None:
    mouse = hands.session.page.mouse
    await hands.move(*await hands.look_at(action.x, action.y))
    await hands.run(mouse.wheel(action.dx, action.dy), "turn the mouse wheel")


@performs(a.UploadFileAt)
async def _upload_file_at(hands: Hands, action: a.UploadFileAt) -> None:
    point = await hands.look_at(action.x, action.y)
    await hands.choose_files(action.paths, point)


async def _move_if_told(hands: Hands, x: float | None, y: float | None) -> None:
    if x is not None and y is not None:
        point = await hands.look_at(x, y)
        await hands.move(*point)


@performs(a.Scroll)
async def _scroll(hands: Hands, action: a.Scroll) -> None:
    await hands.prepare("scroll", action.ref, dx=action.dx, dy=action.dy)
