"""The documentation has every key, as the models describe it, and every one that is refused."""

from pathlib import Path

import pytest

from webtraj.rollouts.configuration.checking import keys_of
from webtraj.rollouts.configuration.crawl import CrawlConfig
from webtraj.rollouts.configuration.reference import reference
from webtraj.rollouts.configuration.refusals import REFUSED
from webtraj.rollouts.configuration.rollout import RolloutConfig

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
