"""The names of the tasks, apart from the tasks themselves, so that listing them is cheap."""

from __future__ import annotations

from typing import Final

import webtraj

__all__ = ["TASKS", "register_presets"]

_FACTORY = "webtraj.testing.site:FixtureEnvironment"

TASKS: Final = (
    "add-to-cart",
    "answer-discount",
    "answer-order-total",
    "answer-return-days",
    "answer-worst-review",
    "apply-partner-coupon",
    "cancel-item",
    "change-password",
    "checkout-express-gift",
    "checkout-plain",
    "checkout-until-it-works",
    "choose-currency",
    "delete-post",
    "download-invoice",
    "drag-card",
    "edit-post",
    "like-in-feed",
    "log-in",
    "log-out",
    "move-house",
    "pay-by-card",
    "rate-shop",
    "reply",
    "review-product",
    "set-quantity",
    "start-thread",
    "subscribe-in-frame",
    "upload-document",
    "vote-most-popular",
    "vote-up",
    "wish-affordable",
    "wish-cheapest",
    "write-note",
)
"""The tasks of the fixture site, in the order of the alphabet."""


def register_presets() -> None:
    """Register the presets `fixture/all` and `fixture/TASK`."""
    for task in TASKS:
        _register(task, f"The task {task} of the fixture site.", (task,))
    _register("all", "All tasks of the fixture site, one after the other.", TASKS)


def _register(name: str, description: str, tasks: tuple[str, ...]) -> None:
    webtraj.register(
        f"fixture/{name}", _FACTORY, description=description, tasks=tasks, uses_browser=True
    )
