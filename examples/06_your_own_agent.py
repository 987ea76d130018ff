"""Writes an agent of its own in twenty lines, lets it play, and reads what it thought.

Prerequisites: the extra `web`, and a browser (`webtraj doctor` says how to get one).
Run:           python examples/06_your_own_agent.py [FOLDER]
"""

import asyncio
import re
import sys
from typing import Any

import webtraj
from webtraj.environments.actions import Click
from webtraj.environments.browser import refs_in
from webtraj.rollouts import RunSpec, collect


class PresserActor:
    """An actor: what belongs to one episode, such as what was tried, lives here."""

    def __init__(self) -> None:
        self.tried: set[str] = set()

    async def act(self, observation: dict[str, Any]) -> webtraj.Decision:
        buttons = [e for e in refs_in(observation["axtree"]) if e.role == "button"]
        new = [button for button in buttons if button.ref not in self.tried]
        if not new:
            raise webtraj.errors.EpisodeGivenUpError("all buttons have been pressed")
        words = re.findall(r"\w+", observation["goal"])
        button = min(new, key=lambda e: words.index(e.name) if e.name in words else len(words))
        self.tried.add(button.ref)
        return webtraj.Decision(action=Click(button.ref), thought=f"I press {button.name!r}.")


class Presser:
    """An agent: it is shared by all episodes, and makes an actor for each."""

    name = "presser-1"

    def begin_episode(self, environment: webtraj.Environment) -> PresserActor:
        return PresserActor()


def main(folder: str) -> None:
    tasks = ["miniwob/click-button", "miniwob/click-button-sequence"]
    summary = asyncio.run(
        collect(RunSpec(preset=tasks, episodes=8, parallel=4, out=folder), agent=Presser())
    )
    for task in summary.tasks:
        print(task.task, f"{task.successes} of {task.episodes} solved")
    for trajectory in webtraj.open_dataset(folder):
        thoughts = [step.decision.thought for step in trajectory.steps if step.decision]
        print(trajectory.info.goal, thoughts, trajectory.end_reason.name)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/presser")
