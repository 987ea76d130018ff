"""What holds for every export format: a base of test classes.

A subclass has a fixture `format_name`, with the formats to test. The other fixtures are those of
`exported_datasets`.
"""

import dataclasses
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from export_episodes import info, play_shop, recorded, shop_script
from webtraj import errors, open_dataset
from webtraj.datasets.exporters import MANIFEST, export_dataset, read_manifest
from webtraj.datasets.exporters.base import make_exporter
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.places import open_storage
from webtraj.testing import strategies

NAME = "shop-v0"
"""A name that every format takes."""


def snapshot(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


KILLED = """
import os, signal, sys
from webtraj import open_dataset
from webtraj.datasets.exporters import export_dataset

seen = []

def die(episode):
    seen.append(episode)
    if len(seen) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return episode

export_dataset(open_dataset(sys.argv[1]), sys.argv[2], format=sys.argv[3], transform=die)
"""


def without_screenshots(episode):
    """Returns an episode without its pictures."""
    steps = [
        dataclasses.replace(
            step,
            observation={k: v for k, v in step.observation.items() if k != "screenshot"},
            decision=None,
        )
        for step in episode.steps
    ]
    return dataclasses.replace(episode, steps=tuple(steps))


class ExporterContract:
    """Whole or not at all, the same each time, and everything told."""

    @pytest.fixture
    def damaged(self, tmp_path):
        """A dataset one of whose episodes cannot be read; gives that one's id too."""
        for number in (1, 2, 3):
            recorded(tmp_path / "data", shop_script(), play_shop, info(number))
        dataset = open_dataset(tmp_path / "data")
        broken = dataset.episode_ids[1]
        (tmp_path / "data" / "episodes" / f"{broken}.json").write_bytes(b"{")
        return open_dataset(tmp_path / "data"), broken

    def test_the_same_dataset_gives_the_same_bytes(self, format_name, shop, tmp_path):
        copied = tmp_path / "copied"
        shutil.copytree(shop.path, copied)
        export_dataset(shop, tmp_path / "a" / NAME, format=format_name)
        export_dataset(open_dataset(copied), tmp_path / "b" / NAME, format=format_name)
        assert snapshot(tmp_path / "a") == snapshot(tmp_path / "b")

    def test_the_manifest_says_what_there_is(self, format_name, shop, wrecks, export):
        out, report = export(wrecks, format_name, NAME, selection={"where": "num_steps >= 0"})
        header, episodes = read_manifest(out)
        assert header["format"] == format_name
        assert header["selection"] == {"where": "num_steps >= 0"}
        assert header["num_episodes"] == len(report.written)
        assert header["options"] == dataclasses.asdict(make_exporter(format_name))
        files = snapshot(out)
        del files[MANIFEST]
        assert files.keys() == header["files"].keys()
        for name, data in files.items():
            said = header["files"][name]
            assert (said["size"], said["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
        assert [line["episode_id"] for line in episodes] == list(wrecks.episode_ids)
        for line, summary in zip(episodes, wrecks.summaries, strict=True):
            assert line["sha256"] == summary.sha256
            assert ("left_out" in line) or line["finished"] is False
        noted = {
            (line["episode_id"], n["field"]) for line in episodes for n in line.get("notes", ())
        }
        assert noted == {(note.episode_id, note.field) for note in report.notes}
        assert {w.episode_id for w in report.written} | {
            x.episode_id for x in report.left_out
        } == set(wrecks.episode_ids)

    def test_an_episode_that_cannot_be_read_is_told_and_the_others_go_on(
        self, format_name, damaged, export
    ):
        dataset, broken = damaged
        out, report = export(dataset, format_name, NAME)
        (left,) = report.left_out
        assert (left.episode_id, left.failed) == (broken, True)
        assert not report.complete
        assert [w.episode_id for w in report.written] == [
            i for i in dataset.episode_ids if i != broken
        ]
        _, episodes = read_manifest(out)
        assert "cannot be read" in episodes[1]["left_out"]

    def test_a_failure_in_the_middle_leaves_nothing(self, format_name, shop, tmp_path):
        out = tmp_path / "new" / NAME
        seen = []

        def fail(episode):
            seen.append(episode)
            if len(seen) == 2:
                raise RuntimeError("the transform broke")
            return episode

        with pytest.raises(RuntimeError, match="broke"):
            export_dataset(shop, out, format=format_name, transform=fail)
        assert list(out.parent.iterdir()) == []

    def test_a_kill_in_the_middle_leaves_nothing_of_that_name(self, format_name, shop, tmp_path):
        passes = 2 if format_name == "minari" else 1
        code = KILLED.replace(
            "== 4", f"== {2 * passes}"
        )  # At the last reading of the last episode.
        out = tmp_path / NAME
        command = [sys.executable, "-c", code, str(shop.path), str(out), format_name]
        died = subprocess.run(command, check=False, timeout=120)
        assert died.returncode == -signal.SIGKILL
        assert not out.exists()
        assert all(path.name.startswith(".") for path in tmp_path.iterdir())
        export_dataset(shop, out, format=format_name)
        assert (out / MANIFEST).exists()

    def test_a_bucket_gets_the_same_bytes_and_the_manifest_last(
        self, format_name, shop, tmp_path, request
    ):
        pytest.importorskip("obstore")
        url = f"memory://export-{os.getpid()}-{format_name}/deep/{NAME}"
        export_dataset(shop, url, format=format_name)
        export_dataset(shop, tmp_path / NAME, format=format_name)
        storage = open_storage(url)
        local = snapshot(tmp_path / NAME)
        assert {entry.key for entry in storage.list()} == local.keys()
        assert all(storage.read(key) == data for key, data in local.items())
        with pytest.raises(errors.InvalidInputError, match="an earlier export"):
            export_dataset(shop, url, format=format_name)
        one = export_dataset(shop[:1], url, format=format_name, overwrite=True)
        assert len(one.written) == 1
        header = json.loads(storage.read(MANIFEST).splitlines()[0])
        assert {entry.key for entry in storage.list()} == {*header["files"], MANIFEST}

    def test_a_transform_makes_what_is_exported_and_is_named(self, format_name, shop, export):
        out, _ = export(shop, format_name, NAME, transform=without_screenshots)
        header, _ = read_manifest(out)
        assert header["transform"] == "exporter_contract.without_screenshots"
        assert not any(b"\x89PNG" in data for data in snapshot(out).values())

    @pytest.mark.slow
    def test_any_episode_is_exported_or_left_out_and_told(self, format_name):
        @settings(
            max_examples=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(st.lists(strategies.trajectories(), max_size=2, unique_by=lambda e: e.episode_id))
        def run(trajectories):
            trajectories = [t for t in trajectories if t.end is not None]
            with tempfile.TemporaryDirectory() as folder:
                data, out = Path(folder) / "data", Path(folder) / NAME
                with DatasetWriter(data) as writer:
                    for trajectory in trajectories:
                        writer.add(trajectory)
                report = export_dataset(open_dataset(data), out, format=format_name)
                told = {w.episode_id for w in report.written} | {
                    x.episode_id for x in report.left_out
                }
                assert told == {t.episode_id for t in trajectories}
                assert report.complete
                header, _ = read_manifest(out)
                assert header["num_episodes"] == len(report.written)

        run()
