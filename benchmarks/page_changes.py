"""Prompt tokens with whole pages and with their changes (`ContextSettings(changes=True)`).

    .venv/bin/python benchmarks/page_changes.py [--tasks 60] [--seed 0]

Plays the oracle on MiniWoB++ tasks and on every task of the fixture site, records the episodes, and
builds the prompt of every step from the records, as an agent would that gave the same actions. Only
episodes of at least two actions count: with one there is nothing to compare. Tokens are
`estimate_tokens`, one per three bytes. That the changes give exactly the page is a property test,
`tests/agents/contexts/test_page_changes.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

import webtraj
from webtraj.agents.contexts import (
    ContextSettings,
    Conversation,
    Round,
    build_context,
    estimate_tokens,
    page_of,
)
from webtraj.agents.models.base import Text
from webtraj.environments.actions import format_action
from webtraj.environments.browser.pool import BrowserPool

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
import fixture_site

SETTINGS = ContextSettings(memory=False)


async def record(folder: Path, presets: list[str], seed: int) -> None:
    async def play(preset: str) -> None:
        async with webtraj.make(
            preset,
            seed=seed,
            trajectory_collector=collector,
            observe=SETTINGS.channels,
            pool=pool,
        ) as env:
            timestep = await env.reset()
            while not timestep.last() and (action := await env.cheat()) is not None:
                timestep = await env.step(action)

    async with (
        webtraj.JsonTrajectoryCollector(folder, fsync="never") as collector,
        BrowserPool() as pool,
    ):
        for preset in presets:
            await play(preset)


def prompts(episode: webtraj.EpisodeTrajectory, settings: ContextSettings) -> list[int]:
    """Return the tokens of each step's prompt."""
    counts = []
    rounds: list[Round] = []
    for step, after in zip(episode.steps, episode.steps[1:], strict=False):
        page = page_of(step.observation, settings)
        conversation = Conversation(
            system="",
            goal=step.observation["goal"],
            page=page,
            rounds=tuple(rounds),
            ask="Thought and action?",
        )
        context = build_context(conversation, settings)
        texts = [part.text for m in context.messages for part in m.parts if isinstance(part, Text)]
        counts.append(sum(map(estimate_tokens, texts)))
        reply = f"Action: {format_action(after.action)}"
        rounds.append(Round(page, reply, f"{reply} -> done"))
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=60, help="MiniWoB++ tasks")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    from webtraj.environments.miniwob.oracles import list_solved_tasks

    fixture_site.register_presets()
    every = [f"miniwob/{task}" for task in list_solved_tasks()]
    sets = {
        "MiniWoB++": every[:: max(len(every) // options.tasks, 1)],
        "fixture site": list(fixture_site.PRESETS),
    }
    table = Table(
        "pages", "rounds shown", "episodes", "prompts", "whole", "changes", "per prompt",
        "per episode", "shorter prompts",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        for name, presets in sets.items():
            folder = Path(scratch, name.replace(" ", "-").replace("+", "p"))
            asyncio.run(record(folder, presets, options.seed))
            episodes = [one for one in webtraj.open_dataset(folder) if one.num_steps >= 2]
            for rounds in (4, 12):
                whole = dataclasses.replace(SETTINGS, full_rounds=rounds)
                changes = dataclasses.replace(whole, changes=True)
                pairs = [
                    (before, after)
                    for episode in episodes
                    for before, after in zip(
                        prompts(episode, whole), prompts(episode, changes), strict=True
                    )
                ]
                before, after = (sum(column) for column in zip(*pairs, strict=True))
                table.add_row(
                    name,
                    str(rounds),
                    str(len(episodes)),
                    str(len(pairs)),
                    f"{before:,}",
                    f"{after:,}",
                    f"{before / len(pairs):,.0f} -> {after / len(pairs):,.0f}",
                    f"{before / len(episodes):,.0f} -> {after / len(episodes):,.0f}",
                    f"{sum(b > a for b, a in pairs)} (longer: {sum(b < a for b, a in pairs)})",
                )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
