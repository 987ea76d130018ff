"""Measure judges on episodes whose worth is known, because the applications' state decides it.

    python packages/webtraj-apps/benchmarks/judges.py [--sample 24] [--model NAME --base-url URL]

Policies play the same tasks with the same seeds: the oracle, the oracle with each fault of the
agent `broken`, chance, and one that refuses or answers at once. Each judge then judges all of their
episodes. A run that is in the folder already is not played again, even if it was killed: the page
says which runs lack episodes. The page is `results/judges.md`.
The applications must be installed (`webtraj apps install --all`).
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import webtraj
from webtraj.agents.broken import FAULTS
from webtraj.judging.catalog import make_judge
from webtraj.judging.quality import Confusion, evaluate, labels_of_dataset
from webtraj.metrics.rates import Rate
from webtraj.rollouts import RunSpec, collect
from webtraj.trajectory import Outcome
from webtraj_apps.names import sources, subsets

HERE = Path(__file__).parent
PAGE = HERE.parent / "results/judges.md"
JUDGES = {
    "environment": "environment",
    "claims": f"rules:{HERE / 'judges/claims.yaml'}",
    "acts": f"rules:{HERE / 'judges/acts.yaml'}",
}
"""The judges that need no model, by the name that the page gives them."""
SCRIPTS = {"refuse": "report_infeasible('It cannot be done.')", "answer": "answer('done')"}
"""The policies of one action."""
SAID = {
    "oracle": "the oracle",
    "broken/wrong-value": "mistypes the last value",
    "broken/side-effect": "does another task's deeds too",
    "broken/stops-early": "leaves out the last deed",
    "broken/answer-only": "gives the right answer, without the deed",
    "random": "acts at random",
    "curious": "tries what is new",
    "refuse": "refuses at once",
    "answer": "answers `done` at once",
}
"""What the policies do."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/judges"), help="the folder")
    parser.add_argument("--preset", nargs="+", default=["apps/test"], help="sets of tasks")
    parser.add_argument("--sample", type=int, default=0, help="so many of them; 0 for all")
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument(
        "--observe",
        nargs="+",
        help="channels to record, such as axtree and url; default: the preset's",
    )
    parser.add_argument("--model", help="a model, for the judge 'model'")
    parser.add_argument("--base-url")
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args()
    specs = {name: (spec, {}) for name, spec in JUDGES.items()}
    if args.model:
        given = {"model": args.model, "base_url": args.base_url}
        options = {name: value for name, value in given.items() if value}
        specs[f"model: {args.model}"] = ("model", options)
    args.runs.mkdir(parents=True, exist_ok=True)
    for name, action in SCRIPTS.items():
        (args.runs / f"{name}.txt").write_text(f"{action}\n")
    tasks = sample(args.preset, args.sample)
    asyncio.run(play(args.runs, tasks, parallel=args.parallel, observe=args.observe))
    measured = asyncio.run(measure(args.runs, specs))
    scored = {one.policy: one.succeeded.denominator for one in measured}
    missing = {
        policy: len(tasks) - scored.get(policy, 0)
        for policy in policies(args.runs)
        if scored.get(policy, 0) < len(tasks)
    }
    command = f"judges.py --preset {' '.join(args.preset)} --sample {args.sample}"
    if args.observe:
        command += f" --observe {' '.join(args.observe)}"
    args.page.write_text(page(measured, missing, command), "utf-8")
    print(f"The page is {args.page}")


def sample(presets: Sequence[str], count: int) -> list[str]:
    """Return the presets of some tasks of sets, always the same ones; 0 for all."""
    tasks = [f"apps/{name}" for preset in presets for name in members(preset)]
    return sorted(random.Random(0).sample(tasks, count)) if count else tasks


def members(preset: str) -> tuple[str, ...]:
    """Return the templates of a set, such as `apps/test` or `apps/shop/test`."""
    subset = preset.removeprefix("apps/")
    found = {}
    for source in sources().values():
        if source.is_ours or subset.startswith(f"{source.name}/"):
            found |= source.templates()
    return subsets(found)[subset]


def policies(runs: Path) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return the agents and their options by policy, the oracle first: the others need its run."""
    broken = {
        f"broken/{fault}": ("broken", {"dataset": str(runs / "oracle"), "fault": fault})
        for fault in FAULTS
    }
    return {
        "oracle": ("oracle", {}),
        **broken,
        **{name: ("scripted", {"script": str(runs / f"{name}.txt")}) for name in SCRIPTS},
        "random": ("random", {"untouched": 0.5, "ends": 0.05}),
        "curious": ("curious", {"ends": 0.05}),
    }


async def play(
    runs: Path, tasks: Sequence[str], *, parallel: int, observe: Sequence[str] | None
) -> None:
    """Play what is not there yet, a dataset for each policy."""
    for policy, (agent, options) in policies(runs).items():
        out = folder(runs, policy)
        if not out.exists():
            print(f"Playing {policy}", flush=True)
            await collect(
                RunSpec(
                    preset=list(tasks),
                    agent=agent,
                    agent_options=dict(options),
                    environment_options={"observe": observe} if observe else {},
                    parallel=parallel,
                    out=out,
                )
            )


def folder(runs: Path, policy: str) -> Path:
    """Return the dataset of a policy."""
    return runs / policy.replace("/", "-")


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """The verdicts of all judges on the episodes of one policy."""

    policy: str
    succeeded: Rate
    """The successes among the episodes that the environment could score."""
    verdicts: Mapping[str, Confusion]
    """Labels and verdicts, by judge."""


async def measure(
    runs: Path, judges: Mapping[str, tuple[str, Mapping[str, Any]]]
) -> list[Measured]:
    """Judge what was played; the labels are what the environment found."""
    found = []
    for policy in policies(runs):
        dataset = webtraj.open_dataset(folder(runs, policy))
        labels = labels_of_dataset(dataset)
        if not labels:
            continue
        verdicts = {}
        for name, (spec, options) in judges.items():
            judge = make_judge(spec, options=options)
            try:
                if (check := getattr(judge, "check", None)) is not None:
                    await check()
                verdicts[name] = (await evaluate(judge, dataset, labels)).overall
            finally:
                if (aclose := getattr(judge, "aclose", None)) is not None:
                    await aclose()
        good = sum(label.outcome is Outcome.SUCCESS for label in labels.values())
        found.append(Measured(policy, Rate(good, len(labels)), verdicts))
    return found


def page(measured: Sequence[Measured], missing: Mapping[str, int], command: str) -> str:
    """Return the page, in Markdown.

    Args:
        measured: What was measured, a policy each.
        missing: How many episodes each policy lacks, if it does.
        command: How the page was made.
    """
    lacks = ", ".join(f"{SAID[policy]} ({count})" for policy, count in missing.items())
    warning = (
        "**Incomplete.** Some episodes were not scored, because a run was killed or an application "
        f"failed: {lacks}. Delete the folder of such a run to play it again.\n\n"
        if lacks
        else ""
    )
    judges = list(measured[0].verdicts)
    total = {name: _sum([one.verdicts[name] for one in measured]) for name in judges}
    rows = [
        [SAID[one.policy], one.succeeded.denominator, one.succeeded.numerator]
        + [_right(one.verdicts[name]) for name in judges]
        for one in measured
    ]
    summary = [
        [
            f"`{name}`",
            _percent(_accuracy(total[name])),
            _percent(total[name].precision),
            _percent(total[name].recall),
            _percent(total[name].coverage),
        ]
        for name in judges
    ]
    columns = ["the policy", "episodes", "successes", *(f"`{name}`" for name in judges)]
    return f"""# Judges, measured

The applications' own state decides what an episode is worth, so judges can be measured on it.
Each policy played the same tasks with the same seeds. Where a fault does no harm, the episode is a
success. The columns of judges count their right verdicts; a missing verdict counts as wrong.

{warning}{_table(columns, rows)}

{_table(["judge", "right", "of its successes, true", "successes found", "verdicts"], summary)}

With 95 % Wilson intervals. `environment` reads the environment's own verdict, so it is right by
definition; it is here as a check of the machinery. `claims` believes whoever answers, and `acts`
whoever did anything before: a judge that is worth its price beats them. Without rules for a task,
the judge `rules` gives no verdict. The judge `model` needs a model: one more column by
`--model NAME --base-url http://127.0.0.1:8000/v1`.

Measured on {datetime.now(UTC).date()}: `python packages/webtraj-apps/benchmarks/{command}`.
"""


def _sum(parts: Sequence[Confusion]) -> Confusion:
    counts: dict[tuple[Outcome, Outcome], int] = {}
    for part in parts:
        for key, number in part.counts.items():
            counts[key] = counts.get(key, 0) + number
    return Confusion(counts)


def _accuracy(found: Confusion) -> Rate:
    return Rate(found.agreement.numerator, found.judged)


def _right(found: Confusion) -> str:
    return f"{found.agreement.numerator} of {found.judged}"


def _percent(rate: Rate) -> str:
    from webtraj.metrics.sentences import interval_of, percent

    return "-" if rate.value is None else f"{percent(rate.value)} ({interval_of(rate)})"


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


if __name__ == "__main__":
    main()
