"""Dialects: the formats in which models express actions.

Each parses a reply as an `Action` (it never raises on a model's text and never guesses) and formats
an action in its own words. See `webtraj.environments.actions.dialects.phrases.Dialect`.

* `webtraj`: calls, with a word for every verb. `step` accepts strings in this dialect.
* `browsergym`: BrowserGym's strings, limited to what BrowserGym itself can run.
* `webgym`, `webgym_marks`: WebGym's `<tool_call>` JSON, by coordinates or by labels.
* `anthropic`, `openai`: computer use.
"""

from __future__ import annotations

from collections.abc import Callable

from webtraj import errors
from webtraj.environments.actions.dialects.anthropic import AnthropicDialect
from webtraj.environments.actions.dialects.browsergym import BrowserGymDialect
from webtraj.environments.actions.dialects.openai import OpenAIDialect
from webtraj.environments.actions.dialects.phrases import Dialect
from webtraj.environments.actions.dialects.webgym import WebGymDialect, WebGymMarksDialect

__all__ = [
    "DIALECTS",
    "AnthropicDialect",
    "BrowserGymDialect",
    "Dialect",
    "OpenAIDialect",
    "TOOL_DIALECTS",
    "WebGymDialect",
    "WebGymMarksDialect",
    "make_dialect",
]

DIALECTS: dict[str, Callable[..., Dialect]] = {
    "webtraj": lambda viewport: BrowserGymDialect(extended=True),
    "browsergym": lambda viewport: BrowserGymDialect(),
    "webgym": WebGymDialect,
    "webgym_marks": WebGymMarksDialect,
    "anthropic": AnthropicDialect,
    "openai": OpenAIDialect,
}
"""Factories of dialects by name, for a viewport (width, height) in CSS pixels."""


TOOL_DIALECTS = ("anthropic", "openai")
"""The dialects of tools that providers build into their models, in several versions."""


def make_dialect(
    name: str, viewport: tuple[int, int] = (1280, 720), *, shown: tuple[int, int] | None = None
) -> Dialect:
    """Create a dialect by name.

    >>> from webtraj.environments.actions import Click
    >>> make_dialect("browsergym").format(Click("12"))
    "click('12')"

    Args:
      name: A key of `DIALECTS`. A colon and the type of a provider's tool may follow:
          `anthropic:computer_20250124`, `openai:computer_use_preview`.
      viewport: Width and height in CSS pixels, for dialects that have coordinates of their own.
      shown: Width and height of the pictures that the model sees; None means the viewport's.
          Providers' tools use the pixels of these pictures as coordinates.

    Raises:
      InvalidInputError: The dialect or tool is unknown, or the viewport is not a valid size.
    """
    base, _, tool = name.partition(":")
    if base not in DIALECTS or (tool and base not in TOOL_DIALECTS):
        raise errors.InvalidInputError(
            f"Unknown dialect {name!r}; expected one of {', '.join(DIALECTS)}."
        )
    if base in TOOL_DIALECTS:
        return DIALECTS[base](viewport, tool=tool, shown=shown)
    return DIALECTS[base](viewport)
