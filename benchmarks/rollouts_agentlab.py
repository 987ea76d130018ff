"""The peer half of `rollouts.py`: AgentLab plays the same tasks, by an agent that knows how.

Runs in a virtual environment of its own. Prints one JSON object on its last line.
Arguments: episodes, jobs, 1 for BrowserGym's default `slow_mo` or 0 for none (AgentLab
has no option for its other delay, half a second before each observation), tasks.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import sys
import tempfile
import time
from pathlib import Path

import bgym
import browsergym.experiments.loop
import browsergym.miniwob  # Registers the tasks.
from agentlab.agents.agent_args import AgentArgs
from agentlab.experiments.launch_exp import run_experiments

from process_tree import ProcessTree

ELEMENT = re.compile(r"\[(\w+)\] (\w+) '(.*?)'(.*)")


class Oracle(bgym.Agent):
    """Reads the solution off the page's text, so that all workers can do it."""

    action_set = bgym.HighLevelActionSet(["bid"])

    def get_action(self, obs):
        return solve(obs["goal"], ELEMENT.findall(obs["axtree_txt"])), {}


def solve(goal, page):
    """Returns the next action, for a page as tuples of bid, role, name and the rest."""
    if goal.startswith("Select "):
        wanted = goal.removeprefix("Select ").removesuffix(" and click Submit.").split(", ")
        for bid, role, name, rest in page:
            if role == "checkbox" and name in wanted and "checked='true'" not in rest:
                return f"click('{bid}')"
    else:
        fields = [(bid, rest) for bid, role, _, rest in page if role == "textbox"]
        for (bid, rest), text in zip(fields, re.findall(r'"([^"]*)"', goal), strict=True):
            if "value=" not in rest:
                return f"fill('{bid}', '{text}')"
    return next(f"click('{bid}')" for bid, role, *_ in page if role == "button")


@dataclasses.dataclass
class OracleArgs(AgentArgs):
    agent_name: str = "oracle"

    def make_agent(self):
        # In the worker: BrowserGym counts tokens with a vocabulary that it downloads. Words cost
        # less, and need no network.
        browsergym.experiments.loop.count_tokens = lambda text: len(text.split())
        return Oracle()


def main():
    episodes, jobs, defaults = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "1"
    tasks = sys.argv[4:]
    logging.disable(logging.INFO)
    experiments = [
        bgym.ExpArgs(
            agent_args=OracleArgs(),
            env_args=bgym.EnvArgs(
                task_name=f"miniwob.{tasks[number % len(tasks)]}",
                task_seed=number,
                max_steps=10,
                headless=True,
                slow_mo=None if defaults else 0,
            ),
            logging_level=logging.ERROR,
            logging_level_stdout=logging.ERROR,
        )
        for number in range(episodes)
    ]
    tree = ProcessTree()
    with tempfile.TemporaryDirectory() as folder:
        cpu, started = tree.cpu_seconds(), time.perf_counter()
        run_experiments(jobs, experiments, folder, "joblib" if jobs > 1 else "sequential")
        wall, cpu = time.perf_counter() - started, tree.cpu_seconds() - cpu
        results = [json.loads(p.read_text()) for p in Path(folder).rglob("summary_info.json")]
        size = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
    steps = sum(result["n_steps"] for result in results)
    report = {
        "episodes": len(results),
        "steps": steps,
        "wall": wall,
        "cpu": cpu,
        "solved": sum(result["cum_reward"] > 0 for result in results),
        "bytes": size,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
