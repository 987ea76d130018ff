"""Commands that take an episode's position: -1 is the last episode, not an option."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand

__all__ = ["PositionCommand"]

_POSITION = re.compile(r"-\d+")


class PositionCommand(TyperCommand):
    """A command that takes `-1` as an argument. Everything else with a dash is an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See click's `Command.parse_args`."""
        if any(map(_POSITION.fullmatch, args)):
            ctx.ignore_unknown_options = True
        return super().parse_args(ctx, args)
