"""Verbs of the keyboard."""

from __future__ import annotations

import asyncio

from webtraj.environments import actions as a
from webtraj.environments.actions import keys as keys_lib
from webtraj.environments.browser.acting.hands import Hands, performs

__all__: list[str] = []


@performs(a.TypeText)
async def _type_text(hands: Hands, action: a.TypeText) -> None:
    await hands.type(action.text)


@performs(a.InsertText)
async def _insert_text(hands: Hands, action: a.InsertText) -> None:
    await hands.run(hands.session.page.keyboard.insert_text(action.text), "insert text")


@performs(a.PressKey)
async def _press_key(hands: Hands, action: a.PressKey) -> None:
    await hands.press(action.keys)


@performs(a.KeyDown)
async def _key_down(hands: Hands, action: a.KeyDown) -> None:
    await hands.key_down(action.key)


@performs(a.KeyUp)
async def _key_up(hands: Hands, action: a.KeyUp) -> None:
    await hands.key_up(action.key)


@performs(a.HoldKey)
async def _hold_key(hands: Hands, action: a.HoldKey) -> None:
    async with hands.holding(keys_lib.split_chord(action.keys)):
        await asyncio.sleep(action.seconds)
