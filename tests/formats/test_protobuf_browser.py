"""Episodes of a real browser, with everything that it can be asked to observe."""

import orjson
import pytest

import webtraj
from webtraj.environments.actions import Answer
from webtraj.environments.browser.observation import CHANNELS, refs_in
from webtraj.environments.miniwob import MiniwobEnvironment
from webtraj.store.blobs import BlobStore
from webtraj.store.formats import format_named
from webtraj.store.proto.webtraj.v1 import trajectory_pb2 as pb
from webtraj.trajectory import Decision

TASKS = ["click-test", "enter-text", "click-tab-2"]


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.browser
async def test_a_recorded_browser_episode_is_the_same_as_json_and_as_protobuf(tmp_path):
    collector = webtraj.JsonTrajectoryCollector(tmp_path, fsync="never")
    inner = MiniwobEnvironment(TASKS, observe=CHANNELS)
    async with collector, webtraj.TrajectoryCollectingEnvironment(inner, collector) as env:
        for _ in TASKS:
            timestep = await env.reset()
            ref = next(r.ref for r in refs_in(timestep.observation["axtree"]) if r.role != "text")
            for action in (f"click('{ref}')", "noop()", Decision(action=Answer("x"), thought="!")):
                if not timestep.last():
                    timestep = await env.step(action)
    stored = sorted((tmp_path / "episodes").iterdir())
    assert len(stored) == len(TASKS)
    for path in stored:
        content = path.read_bytes()
        for name in ("pb", "pb.zst"):
            made = format_named(name)
            back = made.decode(
                made.encode(orjson.loads(content), BlobStore(tmp_path / "blobs")), "it"
            )
            assert orjson.dumps(back.data) == content
        plain = format_named("pb").encode(back.data, back.blobs)
        _check_shape(pb.TrajectoryData.FromString(plain), orjson.loads(content))


def _check_shape(message, data):
    assert message.goal == data["info"]["goal"]
    for action, step in zip(message.actions, data["steps"], strict=True):
        state, seen = action.after_state, step["observation"]
        assert state.url == seen["url"]
        assert state.viewport.screenshot.mime_type == "image/jpeg"
        assert state.viewport.viewport_rect.height > 0
        assert len(state.browser_gym_observation.open_pages_urls) == 1
        assert action.browser_gym_action.action_string
