"""Tests of the built-in trainer. Those that train need PyTorch: `scripts/test_train.sh`.

The models are made on the spot, of random weights; what they learn from was recorded here too.
"""

import os

import pytest

ENABLED = "WEBTRAJ_TEST_TRAIN"

collect_ignore_glob = ["*conftest.py", "training_runs.py"]
# What needs no PyTorch runs with all other tests, and has what it needs there.
unwanted = "test_train_*.py" if os.environ.get(ENABLED) == "1" else "test_trainer_*.py"
collect_ignore_glob += [unwanted]


def pytest_collection_modifyitems(items):
    """Lets transformers and peft warn of each other's future: it is no business of webtraj's."""
    for item in items:
        if item.path.name.startswith("test_trainer_"):
            item.add_marker(pytest.mark.filterwarnings("default::FutureWarning"))
            item.add_marker(pytest.mark.filterwarnings("default::DeprecationWarning"))


@pytest.fixture(scope="session")
def text_model(tmp_path_factory):
    from training_runs import CORPUS

    from webtraj.testing.tiny_models import make_text_model

    return make_text_model(tmp_path_factory.mktemp("models") / "text", CORPUS)


@pytest.fixture(scope="session")
def vision_model(tmp_path_factory):
    from training_runs import CORPUS

    from webtraj.testing.tiny_models import make_vision_model

    return make_vision_model(tmp_path_factory.mktemp("models") / "vision", CORPUS, spread=0.1)
