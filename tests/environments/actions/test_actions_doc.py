"""What `docs/actions.md` names is what the code has."""

from __future__ import annotations

from pathlib import Path

from webtraj.environments.actions import VERBS
from webtraj.environments.actions.base import summary_of
from webtraj.environments.actions.dialects import DIALECTS
from webtraj.environments.actions.verbs import INVALID_KINDS

DOC = Path(__file__).parents[3] / "docs" / "actions.md"


def test_every_dialect_and_kind_of_failure_is_documented():
    text = DOC.read_text()
    for name in [*DIALECTS, *INVALID_KINDS]:
        assert f"`{name}`" in text
    assert all(summary_of(verb) for verb in VERBS.values())
