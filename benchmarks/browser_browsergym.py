"""The peer half of `browser.py`: BrowserGym on the same tasks, with the same kind of oracle.

Runs in a virtual environment of its own. Prints one JSON object on its last line.
Arguments: task, episodes, 1 for default delays or 0 for none.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time

import browsergym.miniwob  # noqa: F401 (registers the tasks)
import gymnasium

from process_tree import ProcessTree

TASK, EPISODES, DEFAULTS = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1"


def oracle(observation, page):
    """Yields the actions that solve the task, by bid."""
    bid = lambda selector: page.locator(selector).get_attribute("bid")  # noqa: E731
    if TASK == "login-user":
        user, password = re.findall(r'"([^"]*)"', observation["goal"])
        yield f"fill('{bid('#username')}', '{user}')"
        yield f"fill('{bid('#password')}', '{password}')"
    else:
        wanted = observation["goal"].removeprefix("Select ").removesuffix(" and click Submit.")
        for label in page.locator("#boxes label").all():
            if label.inner_text().strip() in wanted.split(", "):
                yield f"click('{label.locator('input').get_attribute('bid')}')"
    yield f"click('{bid('#subbtn')}')"


def main():
    delays = {} if DEFAULTS else {"pre_observation_delay": 0, "slow_mo": 0}
    env = gymnasium.make(
        f"browsergym/miniwob.{TASK}",
        headless=True,
        disable_env_checker=True,
        **delays,
    )
    tree = ProcessTree()
    resets, steps, solved, cpu_steps = [], [], 0, 0.0
    begun = time.perf_counter()
    for episode in range(EPISODES):
        started = time.perf_counter()
        observation, _ = env.reset(seed=episode)
        resets.append(time.perf_counter() - started)
        reward = 0
        for action in oracle(observation, env.unwrapped.page):
            cpu, started = tree.cpu_seconds(), time.perf_counter()
            observation, reward, terminated, *_ = env.step(action)
            steps.append(time.perf_counter() - started)
            cpu_steps += tree.cpu_seconds() - cpu
            if terminated:
                break
        solved += reward > 0
    wall = time.perf_counter() - begun
    processes, memory = tree.count(), tree.private_bytes()
    env.close()
    report = {
        "step_ms": statistics.median(steps) * 1e3,
        "step_ms_min": min(steps) * 1e3,
        "steps_per_s": len(steps) / wall,
        "cpu_ms_per_step": cpu_steps / len(steps) * 1e3,
        "reset_ms": statistics.median(resets) * 1e3,
        "solved": solved / EPISODES,
        "processes": processes,
        "memory_mib": memory / 2**20,
    }
    print(json.dumps(report))


main()
