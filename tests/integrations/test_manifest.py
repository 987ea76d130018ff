"""What an OpenEnv manifest declares."""

import pytest
import yaml

from webtraj.cli import openenv
from webtraj.integrations import manifest as manifest_lib
from webtraj.integrations.manifest import declare, measure

CLICK = ["miniwob/click-test", "miniwob/click-button"]


def declared(measured, **options):
    files = declare(CLICK, measured, options)
    return files, yaml.safe_load(files["openenv.yaml"])["validation"]


def test_the_floor_is_the_random_agents_and_leaves_room_for_another_sample():
    files, validation = declared(
        {"random": [0.0, 0.0, 1.0, 0.0], "oracle": [1.0, 1.0]}, reward="raw"
    )
    assert validation["reward"] == {
        "range": [0.0, 1.0],
        "floor_margin": 0.7,
        "oracle_tolerance": 0.0,
    }
    assert validation["capabilities"]["oracle"] == {"form": "script", "location": "oracle.sh"}
    assert validation["capabilities"]["declared_task_count"] == {"all": 2}
    assert "--agent oracle --preset miniwob/click-test" in files["oracle.sh"]
    assert "--set 'reward=\"raw\"'" in files["oracle.sh"]


def test_without_an_oracle_none_is_declared():
    files, validation = declared({"random": [-1.0, 0.5]})
    assert validation["reward"]["range"] == [-1.0, 1.0]
    assert "oracle" not in validation["capabilities"]
    assert list(files) == ["openenv.yaml"]


def test_an_oracle_that_misses_needs_a_tolerance():
    _, validation = declared({"random": [0.0], "oracle": [1.0] * 9 + [0.5]})
    assert validation["reward"]["oracle_tolerance"] == 0.05


def test_an_oracle_without_a_reward_is_not_declared(tmp_path, monkeypatch, capsys):
    async def measured(presets, **settings):
        return {"random": [0.0, 1.0], "oracle": []}

    monkeypatch.setattr(manifest_lib, "measure", measured)
    openenv.manifest(CLICK, out=tmp_path)
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "random: mean reward 0.500 in 2 episodes",
        "oracle: no episode had a reward, so it is not declared",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["openenv.yaml"]


@pytest.mark.browser
async def test_tasks_are_measured():
    measured = await measure(CLICK, parallel=2)
    assert measured["oracle"] == [1.0, 1.0]
    assert len(measured["random"]) == 2
