"""What shells complete: values of options, and second words."""

import os

import pytest

from rows import each
from webtraj.agents.catalog import AGENTS
from webtraj.cli import completion
from webtraj.datasets.exporters.base import FORMATS
from webtraj.environments.actions.dialects import DIALECTS
from webtraj.judging.catalog import JUDGES
from webtraj.store.layout import FORMATS as EPISODE_FILES
from webtraj.training.export.export_folder import FORMATS as OF_SAMPLES


def test_names_are_those_of_the_tables():
    assert set(completion.AGENTS) == {*AGENTS, "curious", "explorer"}
    assert set(completion.JUDGES) == set(JUDGES)
    assert set(completion.DIALECTS) == set(DIALECTS)
    assert set(completion.EPISODE_FILES) == set(EPISODE_FILES)
    assert set(completion.EXPORTS) == set(FORMATS)
    assert set(completion.SAMPLES) == set(OF_SAMPLES)


@pytest.fixture
def completed(run_webtraj):
    def complete(line):
        words = line.split(" ")
        variables = {
            "_WEBTRAJ_COMPLETE": "complete_bash",
            "COMP_WORDS": f"webtraj {line}",
            "COMP_CWORD": str(len(words)),
        }
        return run_webtraj(env={**os.environ, **variables}).stdout.split()

    return complete


@each(("line", "words"), [
        ("rollout su", ["submit"]),
        ("train up", ["update"]),
        ("train ", ["export", "preview", "update"]),
        ("train update x", []),
        ("train pr", ["preview"]),
        ("rollout --agent or", ["oracle"]),
        ("rollout submit --agent cur", ["curious"]),
        ("rollout --preset miniwob/click-butt", [
            "miniwob/click-button", "miniwob/click-button-sequence"
        ]),
        ("judge run d --judge r", ["rules"]),
        ("train export d --format share", ["sharegpt"]),
        ("copy d e --format p", ["pb", "pb.zst", "pb.xz"]),
        ("openenv serve --dialect web", ["webtraj", "webgym", "webgym_marks"]),
    ])  # fmt: skip
def test_values_and_second_words_are_completed(line, words, completed):
    assert completed(line) == words
