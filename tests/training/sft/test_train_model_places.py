"""Which models are looked for on this machine alone: what needs no PyTorch."""

import sys

import pytest

from rows import each
from webtraj import errors
from webtraj.training.sft import encoding


@pytest.fixture(autouse=True)
def runs(tmp_path, monkeypatch):
    """A folder to be in, which has `runs/there`."""
    (tmp_path / "runs" / "there").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)


@each(
    ("model", "why"),
    [
        ("", ""),
        (".hidden", ""),
        ("./policy", ""),
        ("../gone/policy", ""),
        ("/gone/policy", ""),
        ("gone/loop/policy", ""),
        ("~/policy", ": ~ is not expanded here, write the path in full"),
        ("runs/tiny", " (a path and not a name on the Hub, since the folder 'runs' exists)"),
    ],
)
def test_a_path_that_is_not_there_is_no_question_for_the_hub(monkeypatch, model, why):
    # Whoever went on to ask would come by here.
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(errors.InvalidInputError) as caught:
        encoding.load_tools(model)
    assert str(caught.value).startswith(f"No model folder at {model!r}{why}. Expected a folder")


@each("model", ["gpt2", "Qwen/Qwen3-0.6B", "gone/tiny", "runs/there", "./runs/there", "runs"])
def test_names_on_the_hub_and_folders_are_loaded(monkeypatch, model):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(errors.MissingDependencyError, match="Training needs"):
        encoding.load_tools(model)
