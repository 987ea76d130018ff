"""The documentation has every key, as the models describe it, and every one that is refused."""

from pathlib import Path

import pytest

from webtraj.configuration import keys_of
from webtraj.rollouts.configuration.rollout import REFUSED, CrawlConfig, RolloutConfig

PAGE = Path(__file__).resolve().parents[3] / "docs" / "rollouts.md"


@pytest.mark.parametrize("model", [RolloutConfig, CrawlConfig], ids=["rollout", "crawl"])
def test_page_has_the_table_of_all_keys(model):
    assert reference(model) in PAGE.read_text()


@pytest.mark.parametrize("model", [RolloutConfig, CrawlConfig], ids=["rollout", "crawl"])
def test_every_key_says_what_it_means(model):
    for key, field in keys_of(model):
        assert field.description, key


def test_page_has_every_key_that_is_not_taken():
    for key, reason in REFUSED.items():
        assert f"| `{key}` | {reason} |" in PAGE.read_text()


def reference(model):
    """Returns a table in Markdown of all keys, with their defaults and what they mean."""
    rows = ["| key | default | |", "|---|---|---|"]
    for key, field in keys_of(model):
        default = (
            ""
            if field.is_required()
            else f"`{_written(field.get_default(call_default_factory=True, validated_data={}))}`"
        )
        meaning = " ".join((field.description or "").split()).replace("|", "\\|")
        rows.append(f"| `{key}` | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


def _written(value):
    """Returns a value as YAML has it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return "''" if value == "" else str(value)
