"""The package of CONTRIBUTING.md adds one of each kind, by its entry points alone."""

import os
import subprocess
import sys
import tomllib

import pytest
from documented_blocks import ROOT, blocks_of

import webtraj

BLOCKS = blocks_of(ROOT / "CONTRIBUTING.md")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs a command in a folder, with the package installed as far as import and metadata go."""
    packages, folder = tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("runs")
    files = {block.title: block.text for block in BLOCKS if block.title}
    project = tomllib.loads(files.pop("pyproject.toml"))["project"]
    for name, text in files.items():
        (packages / name).parent.mkdir(exist_ok=True)
        (packages / name).write_text(text)
    metadata = packages / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {home}" for name, home in points.items()), ""]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    path = os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "webtraj", *arguments],
            cwd=folder, env={**os.environ, "PYTHONPATH": path},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    run.folder = folder
    return run


@pytest.fixture(scope="module")
def played(run):
    """Everything that the page's commands leave behind."""
    commands = [
        block.text
        for block in BLOCKS
        if block.language == "sh" and "--preset corridor" in block.text
    ]
    for line in "".join(commands).splitlines():
        done = run(*line.split()[1:])
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return run.folder


@pytest.mark.slow
def test_commands_of_the_page_play_judge_process_export_and_import(played):
    recorded = list(webtraj.open_dataset(played / "runs/a"))
    assert [episode.info.policy for episode in recorded] == ["walker"] * 4
    assert all(episode.total_reward == 1.0 for episode in recorded)

    judged = list(webtraj.open_dataset(played / "runs/b"))
    assert {episode.end.judgements[-1].judge for episode in judged} == {"quick"}
    assert {episode.info.goal for episode in judged} == {"walk"}

    moves = (played / "moves/moves.txt").read_text().splitlines()
    assert [len(line.split()) for line in moves] == [episode.num_steps for episode in judged]
    imported = list(webtraj.open_dataset(played / "runs/c"))
    assert {" ".join(step.action for step in each.steps[1:]) for each in imported} == set(moves)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rollout", "--preset", "corridor", "--agent", "walkr"], "Did you mean 'walker'?"),
        (
            ["rollout", "--preset", "corridor", "--agent", "walker", "--agent-set", "fear=1"],
            "The agent 'walker' has no option 'fear'. Its options: seed, courage, name.",
        ),
        (["rollout", "--preset", "corridor", "--judge", "quik"], "Did you mean 'quick'?"),
        (
            ["postprocess", "--read", "runs/a", "--write", "runs/z", "--step", "forget-goals"],
            "Did you mean 'forget-goal'?",
        ),
        (["export", "runs/a", "--format", "movs", "--out", "x"], "Did you mean 'moves'?"),
        (["import", "moves", "--from", "move", "--out", "x"], "miniwob-demos, webgym, moves"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_names_of_the_package_are_among_those_that_messages_list(run, played, arguments, words):
    done = run(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
