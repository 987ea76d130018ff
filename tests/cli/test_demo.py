"""`webtraj demo` plays, continues, and shows."""

import os
import subprocess
import sys

import pytest

import webtraj

SMALL = (
    "from webtraj.cli import app, demo, view\n"
    "demo.EPISODES = 2\n"
    "view.view = lambda places: print('the viewer shows', *places)\n"
    "app.main()\n"
)


@pytest.fixture
def play(tmp_path):
    """Runs a demo of two episodes for each agent, with a viewer that only says what it shows."""

    def play(*arguments):
        return subprocess.run(
            [sys.executable, "-c", SMALL, "demo", *arguments],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    return play


@pytest.mark.browser
@pytest.mark.smoke
def test_demo_records_both_agents_and_says_how_to_look(play, tmp_path):
    done = play()
    assert done.returncode == 0, done.stderr
    assert ", oracle 100% (2 of 2)." in done.stdout
    assert done.stdout.endswith("    webtraj view runs/demo\n")
    episodes = list(webtraj.open_dataset(tmp_path / "runs/demo"))
    assert len(episodes) == 4
    assert any(episode.info.task == "miniwob/click-button" for episode in episodes)

    again = play("--view")
    assert again.stdout.count("Nothing left to run in runs/demo.") == 2
    assert "oracle 100% (2 of 2)" in again.stdout
    assert again.stdout.endswith("the viewer shows runs/demo\n")


@pytest.mark.slow
@pytest.mark.browser
def test_demo_continues_what_was_interrupted(play, tmp_path):
    first = play("--out", "a b")
    assert first.returncode == 0
    assert "webtraj view 'a b'" in first.stdout
    for file in (tmp_path / "a b").glob("runs/*/settings.json"):
        if b'"random"' in file.read_bytes():
            for left in file.parent.iterdir():
                left.unlink()
    done = play("--out", "a b")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Nothing left to run") == 1
    assert len(webtraj.open_dataset(tmp_path / "a b")) == 6


def test_demo_without_a_browser_says_what_to_do(run_webtraj, tmp_path):
    done = run_webtraj("demo", env={**os.environ, "WEBTRAJ_BROWSER": "no-such-browser"})
    assert done.returncode == 1
    assert "python -m playwright install" in done.stderr
    assert not (tmp_path / "runs").exists()
