"""The reference has every key, as the models describe it, and every one that is refused."""

import sys
from pathlib import Path

import pytest

from webtraj.configuration import keys_of
from webtraj.rollouts.configuration.rollout import REFUSED, CrawlConfig, RolloutConfig
from webtraj.runs.spec import RunSpec

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
MODELS = {"Runs": RunSpec, "Rollouts": RolloutConfig, "Crawls": CrawlConfig}


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    import docs_keys

    yield docs_keys.keys_reference()
    del sys.modules["docs_keys"]


@pytest.mark.parametrize("heading", MODELS)
def test_page_has_all_keys_with_defaults_and_meanings(heading, page):
    section = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    keys = list(keys_of(MODELS[heading]))
    rows = section[section.index("|---") :].strip().splitlines()[1:]
    assert len(rows) == len(keys)
    for row, (key, field) in zip(rows, keys, strict=True):
        assert row.startswith(f"| `{key}` | ")
        assert row.endswith(f" | {' '.join(field.description.split())} |")


@pytest.mark.parametrize(
    "row",
    [
        "| `env_config.server_size` | `1` |",
        "| `env_config.split` | `train` |",
        "| `env_config.train_tasks` | `''` |",
        "| `env_config.max_steps` | `null` |",
        "| `env_config.save_traj_progress` | `true` |",
        "| `storage_options` | `{}` |",
        "| `save_path` |  |",
    ],
)
def test_defaults_are_as_yaml_has_them(row, page):
    assert row in page


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_key_says_what_it_means(model):
    for key, field in keys_of(model):
        assert field.description, key


def test_page_has_every_key_that_is_not_taken(page):
    for key, reason in REFUSED.items():
        assert f"| `{key}` | {reason} |" in page
