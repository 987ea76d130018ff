"""A group of commands one of which goes without its name."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

__all__ = ["DEFAULT", "DefaultGroup"]

DEFAULT = "dataset"
"""The command that is meant where none is named."""

_NO_NAME = ""


class DefaultGroup(TyperGroup):
    """Takes a first word that names no command, or an option, for the default command's.

    A folder that is called like a command is named with its place: `./check`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts the default command first where no command is named."""
        if not args or args[0] == DEFAULT or args[0] not in self.commands:
            args = [DEFAULT, *args] if args else [DEFAULT, "--help"]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Returns the command that the first word names; the default one without its name."""
        name, command, rest = super().resolve_command(ctx, args)
        return _NO_NAME if name == DEFAULT else name, command, rest
