"""Contexts: what a model is shown of an episode.

* `settings`: how much of it, in what form.
* `pages`: what of an observation is shown.
* `building`: from goal, history and page to messages.
* `cutting`: texts that do not fit, and counting their tokens.
"""

from webtraj.agents.contexts.building import Context, Conversation, Round, build_context
from webtraj.agents.contexts.cutting import CountTokens, Cut, cut_lines, estimate_tokens
from webtraj.agents.contexts.pages import Page, page_of
from webtraj.agents.contexts.settings import MODES, ContextSettings, Mode

__all__ = [
    "MODES",
    "Context",
    "ContextSettings",
    "Conversation",
    "CountTokens",
    "Cut",
    "Mode",
    "Page",
    "Round",
    "build_context",
    "cut_lines",
    "estimate_tokens",
    "page_of",
]
