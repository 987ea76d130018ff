"""Nothing that people hand on tells where it was made.

People record on their own machines, train on what they recorded and publish it. Neither the records
nor the prompts, training samples or copies hold a folder of the machine or a port that
differs from run to run.
"""

import re
import sys
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

import webtraj
from webtraj.agents.model import ModelAgent
from webtraj.agents.models import OpenAICompatibleClient
from webtraj.cli.app import make_app
from webtraj.environments.browser.observation import CHANNELS
from webtraj.environments.miniwob import tasks
from webtraj.rollouts import RunSpec, collect
from webtraj.testing.model_server import FakeModelServer

PRESETS = ("miniwob/click-test", "miniwob/use-slider", "fixture/add-to-cart", "fixture/pay-by-card")
LOCAL = (
    os_path
    for os_path in {
        str(Path.home()),
        sys.prefix,
        str(Path(webtraj.__file__).parents[1]),
        tempfile.gettempdir(),
        "site-packages",
        "file://",
    }
    if len(os_path) > 1
)
PLACES = re.compile("|".join(map(re.escape, LOCAL)) + r"|127\.0\.0\.1:\d+|\[::1\]:\d+")


def found_in(folder: Path, apart_from: str) -> set[str]:
    """Return the places that the text files of a folder name.

    An export's manifest is left out: it says which dataset it was made from, as its maker gave it.
    """
    text = "".join(
        path.read_text(errors="replace").replace(apart_from, "SERVER")
        for path in sorted(folder.rglob("*.json*"))
        if path.name != "webtraj-export.jsonl"
    )
    assert text
    return set(PLACES.findall(text))


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.usefixtures("fixture_presets")
async def test_no_record_prompt_or_export_names_a_place_on_this_machine(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded"
    with FakeModelServer(lambda _: "Thought: Look.\nAction: click('1')") as server:
        base = server.url.removesuffix("/v1")
        async with OpenAICompatibleClient("fake-model", server.url) as client:
            agent = ModelAgent(client=client, dialect="webtraj", prompt="plain")
            observe = {"observe": CHANNELS, "max_steps": 2}
            for preset in PRESETS:
                out = recorded / preset.replace("/", "-")
                await collect(
                    RunSpec(preset=preset, out=out, environment_options=observe), agent=agent
                )
                assert found_in(out / "episodes", base) == set(), preset
        assert len(server.requests) >= len(PRESETS)
        assert all(not PLACES.search(request.text) for request in server.requests)
    for number, preset in enumerate(PRESETS):
        out = recorded / preset.replace("/", "-")
        copied = tmp_path / f"copy-{number}"
        done = CliRunner().invoke(make_app(), ["copy", str(out), str(copied), "--without", "html"])
        assert done.exit_code == 0, done.output
        assert found_in(copied / "episodes", base) == set(), preset
        forms: dict[str, tuple[str, ...]] = {}
        if preset == "miniwob/click-test":  # The one that the model's only reply solves.
            forms["sharegpt"] = ("--filter", "min_steps=1")
        for form, options in forms.items():
            made = tmp_path / f"{form}-{number}"
            command = ["train", "export", str(out), "--format", form, "--out", str(made), *options]
            done = CliRunner().invoke(make_app(), command)
            assert done.exit_code == 0, done.output
            assert found_in(made, base) == set(), (preset, form)


@pytest.mark.browser
async def test_an_error_is_recorded_without_the_folders_of_this_machine() -> None:
    collector = webtraj.MemoryTrajectoryCollector()
    task = webtraj.WebTask(goal="Look.", start_url="http://no-such-host.invalid/")
    async with webtraj.make("web", task=task, trajectory_collector=collector) as env:
        with pytest.raises(webtraj.errors.PageLoadError):
            await env.reset()
    (trajectory,) = collector.trajectories
    assert trajectory.end is not None
    assert trajectory.end.error is not None
    told = trajectory.end.error.traceback
    assert 'File "webtraj/environments/browser/session.py"' in told
    assert not PLACES.search(told), told


def test_bundled_pages_have_the_same_address_everywhere() -> None:
    assert tasks.page_url("click-test") == "http://miniwob.localhost/miniwob/click-test.html"
