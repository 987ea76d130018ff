"""How often a recorded episode, played again, agrees with its record to the end.

    python benchmarks/forks.py [PRESET ...] [--seeds 3] [--parallel 2] [--out FOLDER]

Each task's oracle plays once for each seed. Then each episode is played again from the record, in a
fresh world with the same seed; every observation, reward and end is compared. The script prints the
share that agrees, with its interval, and the first difference of each other. Tasks without an
oracle, and episodes that their oracle does not solve, are left out and counted. The preset
`fixture/all` is the pages of the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import dataclasses
import sys
import tempfile
import time
from pathlib import Path

from webtraj import Outcome, open_dataset
from webtraj.agents.oracle import OracleAgent
from webtraj.metrics.rates import Rate
from webtraj.rollouts import RunSpec, collect
from webtraj.rollouts.forking import ForkAgent, plan_forks
from webtraj.rollouts.making import close_quietly, make_environment
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
    given = parser.parse_args()
    fixture_site.register_presets()
    sets = {"fixture/all": fixture_site.PRESETS}
    presets = [one for name in given.presets for one in sets.get(name, (name,))]
    with tempfile.TemporaryDirectory() as scratch:
        out = given.out or Path(scratch) / "forks"
        asyncio.run(measure(presets, given.seeds, given.parallel, out))


if __name__ == "__main__":
    main()
