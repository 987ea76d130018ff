"""How often a recorded episode, played again, agrees with its record to the end.

    python benchmarks/forks.py [PRESET ...] [--seeds 3] [--parallel 2] [--out FOLDER] [--forks 8]

Each task's oracle plays once for each seed. Then each episode is played again from the record, in a
fresh world with the same seed; every observation, reward and end is compared. The script prints the
share that agrees, with its interval, and the first difference of each other. Tasks without an
oracle, and episodes that their oracle does not solve, are left out and counted. The preset
`fixture/all` is the pages of the tests.

With `--forks N`, each episode is forked N times before its last action instead, and the seconds of
these forks are printed: where they start from copies of the world, and where each repeats the
record. The recorded last action follows, so every fork ends as the record does.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import dataclasses
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from webtraj import Environment, Outcome, open_dataset
from webtraj.agents.oracle import OracleAgent
from webtraj.datasets import Dataset
from webtraj.environments.actions import read_action
from webtraj.environments.base import description_of
from webtraj.metrics.rates import Rate
from webtraj.rollouts import RunSpec, collect
from webtraj.rollouts.episode_environment import close_quietly, make_environment
from webtraj.rollouts.forks import ForkAgent, plan_forks
from webtraj.runs.plan import ForkPoint, PlannedEpisode, plan_episodes

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
import fixture_site


async def with_oracle(plan: tuple[PlannedEpisode, ...]) -> list[PlannedEpisode]:
    """Return the episodes of a plan that an oracle can play, with new rows."""
    agent, playable = OracleAgent(), {}
    for planned in plan:
        if planned.spec.preset not in playable:
            environment = make_environment(planned, {}, None)
            playable[planned.spec.preset] = agent.can_play(environment)
            await close_quietly(environment)
    chosen = [planned for planned in plan if playable[planned.spec.preset]]
    return [dataclasses.replace(planned, row=row) for row, planned in enumerate(chosen)]


class LastOnRecord:
    """Takes the last recorded action, in an environment that has repeated the others."""

    name = "last-on-record"

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def begin_episode(self, environment: Environment) -> Callable[[Any], Any]:
        """Return a function that does so."""
        parent = self._dataset[description_of(environment)["fork"].episode_id]

        async def act(observation: Any) -> Any:
            return read_action(parent.steps[-1].action)

        return act


async def measure_forks(
    presets: list[str], seeds: int, parallel: int, out: Path, forks: int
) -> None:
    """Record, fork with and without copies, and print."""
    plan = await with_oracle(plan_episodes(presets, episodes=seeds * len(plan_episodes(presets))))
    spec = RunSpec(out=out, parallel=parallel)
    await collect(spec, agent=OracleAgent(), tasks=plan)
    dataset = open_dataset(out)
    solved = [
        summary
        for summary in dataset.summaries
        if summary.outcome is Outcome.SUCCESS and summary.num_steps > 1
    ]
    print("| task | steps repeated | forks | copying, s | same end | repeating, s | same end |")
    print("|---|---|---|---|---|---|---|")
    for summary in solved:
        point = ForkPoint(summary.episode_id, summary.num_steps - 1)
        row: list[str] = [summary.task, str(point.step), str(forks)]
        for copies in (True, False):
            agent = ForkAgent(LastOnRecord(dataset), dataset, copies=copies)
            begun = time.monotonic()
            played = await collect(
                spec, agent=agent, tasks=plan_forks(dataset, [point], group_size=forks)
            )
            ends = sum(result.outcome is Outcome.SUCCESS for result in played.results)
            row += [f"{time.monotonic() - begun:.1f}", str(ends)]
        print(f"| {' | '.join(row)} |", flush=True)


async def measure(presets: list[str], seeds: int, parallel: int, out: Path) -> None:
    """Record, play again, and print."""
    tasks = len(plan_episodes(presets))
    plan = await with_oracle(plan_episodes(presets, episodes=seeds * tasks))
    spec = RunSpec(out=out, parallel=parallel)
    await collect(spec, agent=OracleAgent(), tasks=plan)
    dataset = open_dataset(out)
    again = []
    for summary in dataset.summaries:
        if summary.outcome is Outcome.SUCCESS:
            before_end = ForkPoint(summary.episode_id, summary.num_steps - 1)
            (planned,) = plan_forks(dataset, [before_end])
            whole = ForkPoint(summary.episode_id, summary.num_steps)
            again.append(dataclasses.replace(planned, row=len(again), fork=whole))
    begun = time.monotonic()
    forks = await collect(spec, agent=ForkAgent(OracleAgent(), dataset), tasks=again)
    seconds = time.monotonic() - begun
    agreed = Rate(sum(not result.error for result in forks.results), len(forks.results))
    low, high = agreed.interval or (0.0, 0.0)
    print(
        f"{', '.join(presets):.200}: {seeds} seeds of {tasks} tasks, {seeds * tasks - len(plan)} "
        f"without an oracle, {len(plan) - len(again)} not solved by it\n"
        f"agree to the end: {agreed.numerator} of {agreed.denominator}, {agreed.value:.1%} "
        f"({low:.1%} to {high:.1%}), {len(forks.results) / seconds:.1f} episodes/s"
    )
    differ = collections.Counter(
        (result.task, result.error.partition(": ")[2].partition(" departs ")[2])
        for result in forks.results
        if result.error
    )
    for (task, why), times in sorted(differ.items()):
        print(f"{task}, {times} times: departs {why}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("presets", nargs="*", default=["miniwob/all"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--out", type=Path, help="Keep the episodes here.")
    parser.add_argument("--forks", type=int, help="Measure this many forks of each episode.")
    given = parser.parse_args()
    fixture_site.register_presets()
    sets = {"fixture/all": fixture_site.PRESETS}
    presets = [one for name in given.presets for one in sets.get(name, (name,))]
    with tempfile.TemporaryDirectory() as scratch:
        out = given.out or Path(scratch) / "forks"
        if given.forks:
            asyncio.run(measure_forks(presets, given.seeds, given.parallel, out, given.forks))
        else:
            asyncio.run(measure(presets, given.seeds, given.parallel, out))


if __name__ == "__main__":
    main()
