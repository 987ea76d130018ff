"""What an OpenEnv manifest declares."""

import pytest
import yaml

from webtraj_integrations.manifest import declare, measure

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


def test_an_oracle_that_misses_needs_a_tolerance():
    _, validation = declared({"random": [0.0], "oracle": [1.0] * 9 + [0.5]})
    assert validation["reward"]["oracle_tolerance"] == 0.05


@pytest.mark.browser
async def test_tasks_are_measured():
    measured = await measure(CLICK, parallel=2)
    assert measured["oracle"] == [1.0, 1.0]
    assert len(measured["random"]) == 2
