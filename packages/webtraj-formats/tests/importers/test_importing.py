"""From a source to a dataset: found out, whole or not at all, once, and resumable."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from imported_validity import assert_valid
from typer.testing import CliRunner

from rows import each
from webtraj import errors, open_dataset
from webtraj.cli.transfer import import_
from webtraj.datasets.importers import (
    Source,
    detect,
    import_episodes,
    iterations_of,
    read_episodes,
)
from webtraj.datasets.verification import verify
from webtraj.datasets.writer import DatasetWriter
from webtraj.testing.strategies import same

DATA = Path(__file__).parent / "data"
COUNTS = {"browsergym": ("agentlab", 4), "webgym": ("webgym", 9), "demos": ("miniwob-demos", 4)}


@pytest.fixture
def atif(tmp_path):
    folder = tmp_path / "atif"
    folder.mkdir()
    (folder / "t.json").write_text(
        '{"schema_version": "ATIF-v1.8", "steps": [{"source": "agent", "message": "hi"}]}'
    )
    return folder


@pytest.mark.parametrize("name", COUNTS)
def test_a_source_is_found_out(name):
    assert detect(DATA / name) == COUNTS[name][0]


def test_what_comes_from_nowhere_that_is_known_is_refused(tmp_path):
    (tmp_path / "readme.txt").write_text("hello")
    for path in (tmp_path, tmp_path / "readme.txt"):
        with pytest.raises(errors.InvalidInputError, match="Cannot tell which system"):
            import_episodes(Source(path=path), tmp_path / "out")
    DatasetWriter(tmp_path / "ours").close()
    with pytest.raises(errors.InvalidInputError, match="is already a webtraj dataset"):
        import_episodes(Source(path=tmp_path / "ours"), tmp_path / "out")
    with pytest.raises(errors.InvalidInputError, match="Nothing to import at"):
        import_episodes(Source(path=tmp_path / "none"), tmp_path / "out", system="atif")
    with pytest.raises(errors.InvalidInputError, match="Cannot import from the system"):
        import_episodes(Source(path=tmp_path), tmp_path / "out", system="excel")
    with pytest.raises(errors.InvalidInputError, match="is not a folder"):
        import_episodes(Source(path=tmp_path / "readme.txt"), tmp_path / "out", system="agentlab")
    assert not (tmp_path / "out").exists()


@each("format_name", ["json", "pb.zst"])
@each("name", COUNTS)
def test_what_is_imported_comes_back_equal(name, format_name, tmp_path):
    system, count = COUNTS[name]
    report = import_episodes(Source(path=DATA / name), tmp_path / "out", format=format_name)
    assert (report.system, len(report.imported), report.problems) == (system, count, ())
    assert verify(tmp_path / "out").clean
    dataset = open_dataset(tmp_path / "out")
    read = [one for one in read_episodes(Source(path=DATA / name)) if hasattr(one, "steps")]
    assert len(dataset) == len(read) == count
    for episode in read:
        assert_valid(episode)
        assert same(dataset[episode.episode_id], episode)


@pytest.mark.parametrize("name", COUNTS)
def test_importing_twice_adds_nothing_twice(name, tmp_path):
    source = Source(path=DATA / name)
    import_episodes(source, tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out" / "episodes").iterdir()}
    again = import_episodes(source, tmp_path / "out")
    assert again.imported == ()
    assert len(again.skipped) >= COUNTS[name][1]
    after = {path: path.read_bytes() for path in (tmp_path / "out" / "episodes").iterdir()}
    assert before == after


def test_a_place_that_holds_other_things_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(errors.NotADatasetError):
        import_episodes(Source(path=DATA / "demos"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


KILLED = """
import os, signal, sys
from pathlib import Path
from webtraj.datasets.importers import Source, import_episodes

def count(found, seen=[]):
    seen.append(found)
    if len(seen) == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

import_episodes(Source(path=Path(sys.argv[1])), sys.argv[2], on_found=count)
"""


@pytest.mark.parametrize("after", [1, 5, 8])
def test_an_import_that_was_killed_is_run_again(after, tmp_path):
    command = [
        sys.executable,
        "-c",
        KILLED,
        str(DATA / "webgym"),
        str(tmp_path / "out"),
        str(after),
    ]
    assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
    assert len(open_dataset(tmp_path / "out")) == after
    report = import_episodes(Source(path=DATA / "webgym"), tmp_path / "out")
    assert len(report.imported) == 9 - after
    assert verify(tmp_path / "out").clean


# The command.


@pytest.fixture
def run(monkeypatch):
    app = typer.Typer()
    app.command("import")(import_)

    def invoke(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke


def test_the_command_fails_if_anything_failed_and_imports_the_rest(run, tmp_path):
    shutil.copytree(DATA / "demos", tmp_path / "in")
    (tmp_path / "in" / "\x1b[31mevil.json").write_text("{")
    result = run(tmp_path / "in", "--out", tmp_path / "out", "--format", "pb", "--quiet")
    assert result.exit_code == 1
    assert "\x1b" not in result.output
    assert "evil.json" in result.output
    assert "4 imported, 0 skipped, 1 failed" in result.output
    assert "imported miniwob" not in result.output
    assert len(open_dataset(tmp_path / "out")) == 4


def test_files_of_several_iterations_are_told_apart(tmp_path):
    source = tmp_path / "logs"
    for name in (
        "train_trajectories.pt.iteration2_rank_0",
        "train_trajectories.pt.iteration2_rank_1",
        "test_trajectories.pt.iteration1",
        "sub/train_trajectories.pt.iteration10",
    ):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(b"x")
    found = iterations_of(source, "webgym")
    assert {key: sorted(names) for key, names in found.items()} == {
        ("train", 2): [
            "train_trajectories.pt.iteration2_rank_0", "train_trajectories.pt.iteration2_rank_1",
        ],
        ("test", 1): ["test_trajectories.pt.iteration1"],
        ("train", 10): ["sub/train_trajectories.pt.iteration10"],
    }  # fmt: skip
    read = Source(path=source, only=found["train", 10]).files(lambda name: True)
    assert [path.name for path in read] == ["train_trajectories.pt.iteration10"]
    (source / "checkpoint.pt").write_bytes(b"x")  # Of which iteration, nobody knows.
    assert iterations_of(source, "webgym") == {}
    assert iterations_of(source, "atif") == {}
