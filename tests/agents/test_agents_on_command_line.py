"""Agents of `webtraj rollout`, by name and option."""

import subprocess
import sys

import pytest

from webtraj import Outcome, open_dataset


def rollout(folder, *arguments):
    command = [sys.executable, "-m", "webtraj", "rollout", "--preset", "miniwob/click-test"]
    return subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--agent", "oracle", "--model", "tiny"], "'oracle' does not take 'model'"),
        (["--agent", "replay"], "needs 'dataset'"),
        (["--agent", "model"], "The agent 'model' needs a model: give --model NAME"),
        (
            ["--model", "tiny", "--agent-set", "mode=pixels"],
            "'text', 'aria', 'marks' or 'coordinates'",
        ),
        (["--agent-set", "mode"], "--agent-set got 'mode'; expected KEY=VALUE"),
        (["--agent", "scripted", "--agent-set", "script=none.txt"], "cannot be read"),
    ],
    ids=["not taken", "no dataset", "no model", "mode", "no value", "no script"],
)
def test_wrong_options_are_one_line_and_nothing_is_written(arguments, words, tmp_path):
    done = rollout(tmp_path, *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.browser
def test_what_was_played_is_played_again(tmp_path):
    (tmp_path / "script.txt").write_text("# The only button.\nclick('1')\n")
    scripted = ("--agent", "scripted", "--agent-set", "script=script.txt", "--out", "first")
    assert rollout(tmp_path, *scripted).returncode == 0
    replayed = ("--agent", "replay", "--agent-set", "dataset=first", "--out", "second")
    assert rollout(tmp_path, *replayed).returncode == 0
    (first,), (second,) = (open_dataset(tmp_path / name) for name in ("first", "second"))
    assert [first.info.policy, second.info.policy] == ["scripted", "replay"]
    assert first.info.seed == second.info.seed
    assert first.outcome is second.outcome is Outcome.SUCCESS
    assert second.steps[1].decision.metadata["replay"]["episode_id"] == first.episode_id
