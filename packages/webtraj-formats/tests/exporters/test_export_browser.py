"""An episode of a real browser, with everything that it can be asked to observe, in each format."""

import asyncio
import io
import json

import numpy as np
import pytest

import webtraj
from webtraj.datasets.exporters import export_dataset
from webtraj.datasets.exporters.plain import action_text, plain
from webtraj.datasets.importers import Source, read_episodes
from webtraj.environments.actions import Answer, Click
from webtraj.environments.browser.observation import CHANNELS, refs_in
from webtraj.trajectory import Decision

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A dataset of two episodes of MiniWoB++."""
    from webtraj.environments.miniwob import MiniwobEnvironment

    folder = tmp_path_factory.mktemp("played")

    async def run():
        collector = webtraj.JsonTrajectoryCollector(folder, fsync="never")
        inner = MiniwobEnvironment(["click-test", "enter-text"], observe=CHANNELS)
        async with collector, webtraj.TrajectoryCollectingEnvironment(inner, collector) as env:
            for _ in range(2):
                timestep = await env.reset()
                seen = refs_in(timestep.observation["axtree"])
                ref = next(r.ref for r in seen if r.role != "text")
                for action in ("noop()", Click(ref), Decision(action=Answer("x"), thought="!")):
                    if not timestep.last():
                        timestep = await env.step(action)

    asyncio.run(run())
    dataset = webtraj.open_dataset(folder)
    assert len(dataset) == 2
    assert all(episode.num_steps for episode in dataset)
    return dataset


@pytest.mark.slow
def test_atif(played, tmp_path):
    report = export_dataset(played, tmp_path / "out", format="atif")
    assert report.notes == ()
    found = list(read_episodes(Source(path=tmp_path / "out"), "atif"))
    by_id = {e.info.metadata["webtraj"]["info"]["episode_id"]: e for e in found}
    for old in played:
        new = by_id[old.episode_id]
        assert [action_text(s.action) for s in new.steps] == [
            action_text(s.action) for s in old.steps
        ]
        assert [s.reward for s in new.steps] == [s.reward for s in old.steps]
        assert (new.end_reason, new.outcome) == (old.end_reason, old.outcome)
        for one, other in zip(new.steps, old.steps, strict=True):
            assert one.observation["screenshot"] == other.observation["screenshot"]
            if other.index:
                assert one.observation["boxes"] == plain(other.observation["boxes"])
                assert one.observation["axtree"] == other.observation["axtree"]


@pytest.mark.slow
def test_minari(played, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    image = pytest.importorskip("PIL.Image")
    export_dataset(played, tmp_path / "played-v0", format="minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    for old, new in zip(played, minari.load_dataset("played-v0"), strict=True):
        assert new.actions == [action_text(step.action) for step in old.steps[1:]]
        assert new.rewards.tolist() == [step.reward for step in old.steps[1:]]
        for i, step in enumerate(old.steps):
            shot = np.asarray(image.open(io.BytesIO(step.observation["screenshot"])))
            assert np.array_equal(new.observations["screenshot"][i], shot)


def test_huggingface(played, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    report = export_dataset(played, tmp_path / "out", format="huggingface")
    assert report.notes == ()
    rows = pq.read_table(tmp_path / "out" / "steps").to_pylist()
    steps = [step for episode in played for step in episode.steps]
    for row, step in zip(rows, steps, strict=True):
        assert row["screenshot"]["bytes"] == step.observation["screenshot"]
        marks = json.loads(row["observation"])["set_of_marks"]["image"]
        assert row["images"][marks["index"]]["bytes"] == step.observation["set_of_marks"]["image"]
        assert row["title"] == step.observation["title"]
