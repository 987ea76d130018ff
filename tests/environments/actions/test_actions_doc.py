"""The table in docs/actions.md is the code's. `python tests/.../test_actions_doc.py` writes it."""

from __future__ import annotations

import itertools
from pathlib import Path

from webtraj.environments.actions import VERBS, InvalidAction
from webtraj.environments.actions.base import summary_of
from webtraj.environments.actions.dialects import DIALECTS, make_dialect
from webtraj.environments.actions.verbs import INVALID_KINDS

DOC = Path(__file__).parents[3] / "docs" / "actions.md"
BEGIN = "<!-- table: begin (written by tests/environments/actions/test_actions_doc.py) -->"
END = "<!-- table: end -->"


COLUMNS = [("webtraj", "browsergym"), ("webgym", "webgym_marks"), ("anthropic",), ("openai",)]
"""Dialects in one column share most words."""


def cell(verb: type, names: tuple[str, ...]) -> str:
    """Returns a verb's words; marked where only the first or second dialect has one."""
    words = [make_dialect(name).words(verb) for name in names]
    marked = []
    for word in dict.fromkeys(itertools.chain(*words)):
        owners = [word in own for own in words]
        marked.append(f"`{word}`" + ("" if all(owners) else "†" if owners[0] else "‡"))
    return ", ".join(marked) or "—"


def verb_table() -> str:
    """Returns the table of verbs by dialects, in Markdown."""
    assert set(itertools.chain(*COLUMNS)) == set(DIALECTS)
    rows = [
        ["verb", *(", ".join(f"`{name}`" for name in names) for names in COLUMNS)],
        ["---"] * (len(COLUMNS) + 1),
    ]
    rows += [
        [f"`{verb.__name__}`", *(cell(verb, names) for names in COLUMNS)]
        for verb in VERBS.values()
        if verb is not InvalidAction
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def written(text: str) -> str:
    """Returns the document with the table as the code has it."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{verb_table()}\n{END}{tail}"


def test_the_table_is_up_to_date():
    text = DOC.read_text()
    assert text == written(text)


def test_every_verb_dialect_and_kind_of_failure_is_documented():
    text = DOC.read_text()
    for verb in VERBS.values():
        assert f"`{verb.__name__}`" in text
        assert summary_of(verb)
    for name in [*DIALECTS, *INVALID_KINDS]:
        assert f"`{name}`" in text


if __name__ == "__main__":
    DOC.write_text(written(DOC.read_text()))
