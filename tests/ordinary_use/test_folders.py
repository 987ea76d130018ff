"""People record into folders with any name, on read-only machines and in other locales.

A folder that can be used is, under exactly the name given; one that cannot is named in an error
that says why.
"""

import os
import subprocess
import sys
from pathlib import Path

import dm_env
import pytest

import webtraj
from rows import each
from webtraj import errors
from webtraj.trajectory import EndReason


class Env:
    def __init__(self, size=10):
        self.size = size

    async def reset(self):
        return dm_env.restart(b"1" * self.size)

    async def step(self, action):
        return dm_env.transition(0.0, os.urandom(self.size))

    async def close(self):
        pass


async def record(folder, make=webtraj.JsonTrajectoryCollector, steps=1, size=10):
    async with (
        make(folder) as collector,
        webtraj.TrajectoryCollectingEnvironment(Env(size), collector) as env,
    ):
        await env.reset()
        for _ in range(steps):
            await env.step("go")


NAMES = {
    "Windows": r"C:\runs\x",
    "spaces": " my runs / of today ",
    "not ASCII": "прогон/实验/é",
    "decomposed": "e\N{COMBINING ACUTE ACCENT}",
    "right to left": "ריצה",
    "emoji": "\N{SURFER}",
    "newline": "one\ntwo",
    "home": "~/runs",
    "percent and hash": "50%20#?x&y=z",
    "braces and stars": "{a}[b]*",
    "an option": "-rf",
    "long": "x" * 255,
    "long path": "/".join(["y" * 100] * 20),
    "hidden": ".runs",
    "a comma": "a,b;c:d",
    "a quote": 'it\'s "x"',
}


@each("name", NAMES.values())
async def test_a_folder_has_the_name_that_it_was_given(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    await record(name)
    found = [folder for folder, _, files in os.walk(".") if "dataset.json" in files]
    assert found == [f"./{name}"]
    dataset = webtraj.open_dataset(name)
    assert [episode.end.reason for episode in dataset] == [EndReason.CLOSED]
    assert len(dataset.summaries) == 1


async def test_a_program_that_changes_its_folder_goes_on_in_the_first(tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    collector = webtraj.JsonTrajectoryCollector("runs")
    env = webtraj.TrajectoryCollectingEnvironment(Env(5000), collector)
    await env.reset()
    monkeypatch.chdir(tmp_path / "two")
    await env.step("go")
    await env.close()
    await env.reset()
    await env.close()
    await collector.aclose()
    assert not list((tmp_path / "two").iterdir())
    dataset = webtraj.open_dataset(tmp_path / "one" / "runs")
    assert [len(episode.steps) for episode in dataset] == [2, 1]


async def test_a_private_umask_is_kept(tmp_path):
    before = os.umask(0o077)
    try:
        await record(tmp_path / "runs", size=5000)
    finally:
        os.umask(before)
    open_to_others = [p for p in (tmp_path / "runs").rglob("*") if p.stat().st_mode & 0o077]
    assert not open_to_others


TESTS = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
PROGRAM = """
import asyncio, os, sys, tempfile
sys.path[:0] = {tests!r}
from test_folders import Env, record
import webtraj
os.chdir({cwd!r})
if {uid}:
    with tempfile.TemporaryDirectory() as warm:  # The other user may not read Python's own files.
        asyncio.run(record(warm))
        list(webtraj.open_dataset(warm))
    os.setgid({uid}); os.setuid({uid})
asyncio.run(record({folder!r}))
print(len(webtraj.open_dataset({folder!r})))
"""


def run_as(folder, cwd, uid=0, **environment):
    source = PROGRAM.format(tests=TESTS, folder=str(folder), cwd=str(cwd),
                            uid=uid)  # fmt: skip
    env = {**os.environ, **environment}
    env = {name: value for name, value in env.items() if value is not None}
    return subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True, encoding="utf-8", timeout=240, check=False, env=env,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [
        {"HOME": None},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["no home", "not UTF-8"],
)
def test_other_environments(tmp_path, environment):
    done = run_as(tmp_path / "runs", cwd=tmp_path, **environment)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder],
        capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip("cannot mount a tmpfs here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("policy", ["raise", "warn"])
async def test_a_disk_that_fills_up_loses_nothing_recorded_before(small_disk, policy):
    collector = webtraj.JsonTrajectoryCollector(small_disk / "runs")
    env = webtraj.TrajectoryCollectingEnvironment(Env(30_000), collector, on_collector_error=policy)
    await env.reset()
    recorded = 1
    failure = None
    for _ in range(20):
        try:
            assert (await env.step("go")).reward == 0.0
            recorded += failure is None
        except errors.CollectorError as error:
            failure = error
            break
    assert (failure is None) == (policy == "warn")
    if failure is not None:
        assert "No space left" in str(failure)
        assert str(small_disk) in str(failure)
    subprocess.run(["mount", "-o", "remount,size=4m", small_disk], check=True)
    await env.close()
    await collector.aclose()
    (episode,) = webtraj.open_dataset(small_disk / "runs")
    if policy == "raise":
        assert len(episode.steps) == recorded
    else:
        assert 3 < len(episode.steps) < 21
    assert any("No space left" in error for error in episode.end.recording_errors)
