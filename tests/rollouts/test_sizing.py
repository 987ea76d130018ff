"""How many episodes a machine plays at a time."""

import json
import os

import pytest

from rows import each
from webtraj import errors
from webtraj.rollouts import RunSpec, collect, node_size
from webtraj.rollouts.node_size import NodeSizing, episodes_here


@each(
    ("resources", "episodes"),
    [
        ({"CPU": 4.0, "memory": 64e9}, 16),
        ({"CPU": 4.0, "memory": 1 << 30}, 4),
        ({"CPU": 0.1, "memory": 64e9}, 1),
        ({"memory": 64e9}, 0),
        ({"CPU": 4.0, "rank_load_weight": 2.0}, 32),
        ({"CPU": 4.0, "rank_load_weight": 0.01}, 1),
    ],
)
def test_a_machine_plays_what_its_resources_allow(resources, episodes):
    sizing = NodeSizing()
    assert sizing.episodes(resources) == episodes
    reserved = sizing.reserve(resources, episodes)
    assert all(0 <= amount <= resources[name] for name, amount in reserved.items())


@pytest.mark.parametrize(
    "options",
    [{"cpus_per_episode": 0}, {"memory_per_episode": 0}, {"load_weights": {"a": -1}}],
    ids=["processors", "memory", "weight"],
)
def test_sizes_that_make_no_sense(options):
    with pytest.raises(errors.InvalidInputError):
        NodeSizing(**options)


async def test_auto_is_a_number_of_the_machines_processors(ladder, climber, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert episodes_here() == 4
    spec = RunSpec(preset="ladder/climb", episodes=40, parallel="auto", out=tmp_path)
    summary = await collect(spec, agent=climber(), run_id="r")
    assert len(summary.results) == 40
    assert ladder.most_playing == 4
    told = json.loads((tmp_path / "runs" / "r" / "settings.json").read_text())
    assert told["parallel"] == "auto"


def test_auto_is_less_where_memory_is_short(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1 << 18, "SC_PAGE_SIZE": 4096}.get)
    assert episodes_here() == 4


@each(
    ("limits", "episodes"),
    [
        ({"cpu.max": "150000 100000\n", "memory.max": "max\n"}, 6),
        ({"cpu.max": "max 100000\n", "memory.max": f"{1 << 30}\n"}, 4),
        ({}, 32),
    ],
)
def test_auto_keeps_to_the_limits_of_a_container(limits, episodes, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1 << 24, "SC_PAGE_SIZE": 4096}.get)
    monkeypatch.setattr(node_size, "_CGROUP", tmp_path)
    for name, limit in limits.items():
        (tmp_path / name).write_text(limit)
    assert episodes_here() == episodes
