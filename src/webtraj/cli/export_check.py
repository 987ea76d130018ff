"""`webtraj export check`: whether LLaMA-Factory would take an export as it is."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["check"]


def check(
    folder: Annotated[str, typer.Argument(help="The folder of an export, as sharegpt.")],
) -> None:
    """Refuse what LLaMA-Factory would abort on, or leave out without a word. Exits with 1 then."""
    raise NotImplementedError(folder)
