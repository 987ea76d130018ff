"""Exploring episodes as a browser would have left them, on disk, and who proposes for them."""

import json

import dm_env
import numpy as np
import pytest

from webtraj import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    JsonTrajectoryCollector,
    StepRecord,
)
from webtraj.environments import actions as a
from webtraj.environments.browser.observer import describe_action
from webtraj.exploring.seen import read_seen

SITE = "http://shop.example"
HOME = '[1] link "Products"\n[2] searchbox "Search products"\n[3] button "Search"'
PRODUCTS = '[11] heading "Products"\n[12] status "50 products"\n[13] paragraph "Delivery: 3 days"'
LAMPS = '[21] heading "Products"\n[22] status "4 products"\n[23] link "Green Lamp"'
LAMP = (
    '[31] heading "Green Lamp"\n[32] generic "Price: $15.50"\n[33] row\n  [34] cell "Article"\n'
    '  [35] cell "G-29860"\n[36] button "Add to cart"\n[37] link "Cart (0)"'
)
CART = '[41] heading "Cart"\n[42] link "Cart (1)"\n[43] paragraph "Total: $15.50"'

WALK = (
    (None, "", "", "/", "Welcome", HOME),
    (a.Click("1"), "link", "Products", "/products", "Products", PRODUCTS),
    (a.Fill("2", "lamp"), "searchbox", "Search products", "/products", "Products", PRODUCTS),
    (a.Click("3"), "button", "Search", "/products?q=lamp", "Found", LAMPS),
    (a.Click("23"), "link", "Green Lamp", "/products/7", "Green Lamp", LAMP),
    (a.Click("36"), "button", "Add to cart", "/cart", "Cart", CART),
)
"""What was done, to what, and which page was seen then."""


def walked(
    walk, *, episode_id="walk", site=SITE, goal="Look at lamps.", reason=EndReason.TRUNCATED
):
    """Returns the episode that a walk is."""
    steps = []
    for index, (action, role, name, path, title, axtree) in enumerate(walk):
        last = index == len(walk) - 1
        kind = dm_env.StepType.LAST if last else dm_env.StepType.MID
        observation = {
            "goal": goal,
            "url": path if "://" in path else site + path,
            "title": title,
            "axtree": axtree,
            "http_status": 404 if title == "Not found" else 200,
            "last_action": {**describe_action(), "role": role, "name": name, "box": np.zeros(4)},
        }
        steps.append(
            StepRecord(
                index=index,
                step_type=kind if index else dm_env.StepType.FIRST,
                observation=observation,
                action=action,
                reward=0.0 if index else None,
                discount=1.0 if index else None,
                decision=None if action is None else Decision(action=action),
            )
        )
    task = {"name": "coarse-1", "goal": goal, "start_url": f"{site}/", "coarse": True}
    return EpisodeTrajectory(
        EpisodeInfo(
            episode_id=episode_id,
            task="coarse-1",
            goal=goal,
            site=site.rpartition("/")[2],
            policy="curious",
            metadata={"task": task},
        ),
        tuple(steps),
        EpisodeEnd(reason=reason),
        start_time=float(len(episode_id)),
    )


@pytest.fixture
def walk():
    """Makes an episode of steps; by default of one that was played in full."""
    return lambda steps=WALK, **more: walked(steps, **more)


@pytest.fixture
def seen():
    """What that episode saw."""
    return read_seen(walked(WALK))


@pytest.fixture
async def write():
    """Writes episodes as a dataset, in a folder; its collector is the real one."""

    async def write(folder, *trajectories):
        async with JsonTrajectoryCollector(folder) as collector:
            for trajectory in trajectories:
                recorder = collector.begin_episode(trajectory.info)
                for step in trajectory.steps:
                    recorder.record_step(step)
                recorder.end_episode(trajectory.end)

    return write


TASK = {
    "goal": "What does the green lamp cost?",
    "start_url": f"{SITE}/products/7",
    "kind": "information",
    "facts": [{"fact": "The answer is $15.50.", "evidence": [4]}],
    "reference_answer": "$15.50",
}


@pytest.fixture
def task():
    """A proposal that is sound, as a model says it; with other fields if they are given."""
    return lambda **more: {**TASK, **more}


@pytest.fixture
def reply():
    """Makes the reply of a model that proposes."""
    return lambda *tasks: json.dumps({"tasks": list(tasks)})
