"""Verbs that leave the page alone."""

from __future__ import annotations

import asyncio

from webtraj.environments import actions as a
from webtraj.environments.browser.acting.hands import ActionRefused, Hands, performs

__all__: list[str] = []


@performs(a.Wait)
async def _wait(hands: Hands, action: a.Wait) -> None:
    await asyncio.sleep(action.seconds)


@performs(a.Screenshot, a.CursorPosition, a.SendMessage, a.Answer, a.ReportInfeasible)
async def _nothing(hands: Hands, action: a.Action) -> None:
    pass


@performs(a.InvalidAction)
async def _invalid(hands: Hands, action: a.InvalidAction) -> None:
    raise ActionRefused(f"invalid_{action.kind}", action.reason or "That was no action.")
