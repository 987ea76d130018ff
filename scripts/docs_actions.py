"""Writes the table of actions by dialect as Markdown.

Run by the documentation's build (`scripts/docs_hooks.py`). By itself it prints the page:

    python scripts/docs_actions.py
"""

from __future__ import annotations

from webtraj.environments.actions import VERBS, Action, InvalidAction
from webtraj.environments.actions.base import summary_of
from webtraj.environments.actions.dialects import DIALECTS, make_dialect

HEAD = """\
# Actions by dialect

Every verb, and its words in each [dialect](../actions.md#dialects). No dialect has a word for
`InvalidAction`.
"""


def actions_reference() -> str:
    """Return the page."""
    verbs = [verb for verb in VERBS.values() if verb is not InvalidAction]
    rows = [["verb", "does", *(f"`{name}`" for name in DIALECTS)], ["---"] * (len(DIALECTS) + 2)]
    rows += [
        [f"`{verb.__name__}`", summary_of(verb), *(_words(verb, name) for name in DIALECTS)]
        for verb in verbs
    ]
    return "\n".join([HEAD, *(f"| {' | '.join(row)} |" for row in rows), ""])


def _words(verb: type[Action], dialect: str) -> str:
    """Return a verb's words in a dialect."""
    words = dict.fromkeys(make_dialect(dialect).words(verb))
    return ", ".join(f"`{word}`" for word in words) or "—"


if __name__ == "__main__":
    print(actions_reference())
