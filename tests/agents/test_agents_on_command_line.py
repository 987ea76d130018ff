"""Agents of `webtraj rollout`, by name and option."""

import subprocess
import sys

import pytest

from rows import each


def rollout(folder, *arguments):
    command = [sys.executable, "-m", "webtraj", "rollout", "--preset", "miniwob/click-test"]
    return subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.slow
@each(
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
)
def test_wrong_options_are_one_line_and_nothing_is_written(arguments, words, tmp_path):
    done = rollout(tmp_path, *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
