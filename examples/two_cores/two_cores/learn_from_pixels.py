"""Train a policy on what can only be seen: random, then supervised, then policy gradient.

    python -m two_cores.learn_from_pixels --out runs/pixels
    python -m two_cores.learn_from_pixels --out runs/a_few_pixels --small   # To see that it runs.

It needs a browser and webtraj[train]. Each seed has its own weights, its own order of the samples
and its own pages to practise on. The stages of a seed:

1. `random`: the model of `two_cores.pixel_model`, its weights random.
2. `supervised`: trained on the oracle's clicks, the same demonstrations for all seeds, which are
   exported in the format `openai`, with the prompts that the model will get.
3. `faded`: the same model on faded pages, of which there are no demonstrations.
4. `policy gradient`: groups of eight attempts at new faded pages, sampled by the model itself,
   exported in the format `tokens`, and trained on with the group's mean as baseline; repeated, at a
   learning rate that falls to 0. Rewards are all that it learns from.

These are the steps of `webtraj rollout`, `webtraj train export` and `webtraj train`, called from
Python in one process.

All stages play the same held-out pages, which no seed trains on, with the likeliest reply; `random`
samples, as its likeliest reply is the same for all pages. `clicks` is an agent that clicks cells at
random. `two_cores.experiments` says what is in `--out`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from two_cores import experiments
from two_cores.experiments import HELD_OUT, fresh
from two_cores.local_model import LocalModel
from two_cores.pixel_model import CHANNELS, OPTIONS, make_model
from two_cores.pixel_tasks import CELL, KINDS, SIZE
from webtraj import Outcome
from webtraj.agents import ModelAgent, OracleAgent
from webtraj.agents.base import Act, Agent
from webtraj.agents.models import ModelClient, Sampling
from webtraj.agents.options import read_options
from webtraj.environments.actions import ClickAt
from webtraj.metrics.rates import wilson_interval
from webtraj.rollouts import RolloutSummary, RunSpec, collect
from webtraj.training.export import export_samples
from webtraj.training.export.sample_files import open_samples
from webtraj.training.replay import AgentRenderer, Filters, ReplayBuffer, weights
from webtraj.training.sft import SftSettings, publish, train

SHOWN, PRACTICE = 7, 3_000_000
"""Run seeds of the demonstrations, and of the pages for policy gradient."""
GROUP: Final = 8
STAGES: Final = ("clicks", "random", "supervised", "faded", "policy gradient")
_CHANCE: Final = random.Random(HELD_OUT)
_T: Final = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}
"""The 97.5 % quantile of Student's distribution by its degrees of freedom."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is played and trained."""

    seeds: Sequence[int] = (1, 2, 3)
    demonstrations: int = 12_800
    """Of all kinds together."""
    steps: int = 3000
    """Supervised steps, of `batch_size` samples each."""
    batch_size: int = 32
    learning_rate: float = 1e-3
    iterations: int = 16
    """Of policy gradient."""
    groups: int = 64
    """New pages in an iteration."""
    policy_rate: float = 1.5e-4
    """The learning rate of the first iteration."""
    epochs: int = 1
    """Passes over an iteration's episodes."""
    episodes: int = 120
    """Held-out pages of each evaluation."""


SMALL: Final = Scale(
    seeds=(1,), demonstrations=8, steps=2, batch_size=4, iterations=1, groups=2, epochs=1,
    episodes=4,
)  # fmt: skip


def click_somewhere(observation: Any) -> ClickAt:
    """Click the middle of a random cell."""
    x, y = (CELL * _CHANCE.randrange(SIZE // CELL) + CELL // 2 for _ in range(2))
    return ClickAt(x, y)


class Lab(experiments.Lab[Scale]):
    """Plays and trains."""

    async def play(
        self,
        out: Path,
        agent: Agent | Act,
        episodes: int,
        seed: int,
        group: int = 1,
        *,
        faded: bool = False,
    ) -> RolloutSummary:
        """Play pages of all kinds."""
        spec = RunSpec(
            preset=["pixels/all"], episodes=episodes, seed=seed, group_size=group, out=str(out),
            observe=list(CHANNELS), parallel=self.parallel, max_retries=2,
            environment_options={"faded": faded},
        )  # fmt: skip
        return await collect(spec, agent=agent, pool=self.pool)

    async def evaluated(
        self, name: str, agent: Agent | Act, *, faded: bool = False
    ) -> dict[str, list[int]]:
        """Return successes and episodes of each kind on the held-out pages."""
        name = f"evaluation/{name}"
        found: dict[str, list[int]] = await self.kept(name, self._evaluated(name, agent, faded))
        return found

    async def _evaluated(self, name: str, agent: Agent | Act, faded: bool) -> dict[str, list[int]]:
        played = await self.play(
            fresh(self.out / name), agent, self.scale.episodes, HELD_OUT, faded=faded
        )
        found = {kind: [0, 0] for kind in KINDS}
        for result in played.results:
            if result.counts:
                kind = found[result.task.rpartition("/")[2]]
                kind[0] += result.outcome is Outcome.SUCCESS
                kind[1] += 1
        print(f"{name}: {percent(pooled(found.values()))}, {found}", flush=True)
        return found

    async def demonstrations(self) -> Path:
        """Return rows of the oracle's clicks, with the prompts that the model will get."""
        rows = self.out / "demonstrations/rows"
        if not rows.exists():
            episodes = self.out / "demonstrations/episodes"
            await self.play(fresh(episodes), OracleAgent(), self.scale.demonstrations, SHOWN)
            shown = ReplayBuffer.from_datasets(episodes, render=AgentRenderer.of(OPTIONS))
            export_samples({"train": shown.all}, rows, format="openai")
        return rows

    async def trained(self, folder: Path, model: Path, rows: Path, **settings: Any) -> Path:
        """Train a model on rows, and return the result."""
        made = folder / "model.pt"
        if not made.exists():
            asked = SftSettings(
                model=str(model), out=str(folder), image_backend="pil", no_samples="keep",
                cutoff_len=128, log_steps=10, save_steps=100, **settings,
            )  # fmt: skip
            await asyncio.to_thread(train, asked, open_samples([rows]))
            publish(folder, folder)
        return made

    async def learned(
        self, seed: int
    ) -> tuple[dict[str, dict[str, list[int]]], list[tuple[int, int]]]:
        """Take a seed through all stages.

        Returns:
            What each stage's model achieves by kind; and on faded pages, before policy gradient and
            after each of its iterations, successes and episodes.
        """
        scale, folder = self.scale, self.out / f"seed_{seed}"
        base = folder / "base"
        if not base.exists():
            make_model(base, seed=seed)
        found = {"random": await self.evaluated(f"random_{seed}", agent_of(base, 1.0, seed))}
        model = await self.trained(
            folder / "supervised", base, await self.demonstrations(), seed=seed,
            learning_rate=scale.learning_rate, batch_size=scale.batch_size, max_steps=scale.steps,
            schedule="linear", warmup_steps=min(50, scale.steps - 1), adam_beta2=0.98,
        )  # fmt: skip
        found["supervised"] = await self.evaluated(f"supervised_{seed}", agent_of(model, 0.0))
        found["faded"] = await self.evaluated(f"faded_{seed}", agent_of(model, 0.0), faded=True)
        found["policy gradient"] = found["faded"]
        curve = [pooled(found["faded"].values())]
        for number in range(1, scale.iterations + 1):
            model = await self._practised(folder / f"iteration_{number}", model, seed, number)
            found["policy gradient"] = await self.evaluated(
                f"iteration_{number}_{seed}", agent_of(model, 0.0), faded=True
            )
            curve.append(pooled(found["policy gradient"].values()))
        return found, curve

    async def _practised(self, folder: Path, model: Path, seed: int, number: int) -> Path:
        """Play groups of faded pages, and train on them."""
        scale, pages = self.scale, PRACTICE + 1000 * seed + number
        rows = await self.sampled(
            folder, agent_of(model, 1.0, pages), model, groups=scale.groups, seed=pages
        )
        rate = scale.policy_rate * (1 - (number - 1) / scale.iterations)
        return await self.trained(
            folder / "run", model, rows, policy={"advantage": "group_mean"}, seed=seed,
            learning_rate=rate, batch_size=scale.batch_size, epochs=scale.epochs,
            schedule="constant", adam_beta2=0.99,
        )  # fmt: skip

    async def sampled(
        self, folder: Path, agent: Agent, model: Path, *, groups: int, seed: int
    ) -> Path:
        """Return rows of groups of attempts at faded pages, as the model saw and sampled them."""
        rows = folder / "rows"
        if not rows.exists():
            episodes = fresh(folder / "episodes")
            await self.play(episodes, agent, GROUP * groups, seed, GROUP, faded=True)
            every = Filters(
                filter_successful_only=False, distinct=False, valid_actions_only=False,
                filter_same_screenshot=False,
            )  # fmt: skip
            found = ReplayBuffer.from_datasets(
                episodes, filters=every, loss_weights=weights.uniform
            )
            export_samples(
                {"train": found.all}, rows, format="tokens", options={"model": str(model)}
            )
        return rows


def agent_of(model: Path | ModelClient, temperature: float, seed: int | None = None) -> ModelAgent:
    """Return the agent `model`, with the options of its prompts.

    Args:
        model: A client; or the folder of a model, to sample from in this process.
        temperature: The temperature; 0 takes the likeliest reply.
        seed: The seed of the samples.
    """
    options = read_options({"model": "", **OPTIONS})
    return ModelAgent(
        client=LocalModel(model) if isinstance(model, Path) else model,
        dialect=options.dialect_or_usual,
        prompt=options.prompt_or_usual,
        context=options.make_context(),
        sampling=Sampling(temperature=temperature, max_tokens=3),
        seed=seed,
    )


def pooled(rates: Any) -> tuple[int, int]:
    """Return the sums of successes and episodes."""
    pairs = list(rates)
    return sum(won for won, _ in pairs), sum(of for _, of in pairs)


def percent(rate: Sequence[int]) -> str:
    """Return a rate with Wilson's interval.

    >>> percent((8, 10))
    '80% (49 to 94)'
    """
    interval = wilson_interval(rate[0], rate[1])
    if interval is None:
        return "none"
    return f"{rate[0] / rate[1]:.0%} ({100 * interval[0]:.0f} to {100 * interval[1]:.0f})"


def mean_of_seeds(rates: Sequence[float]) -> str:
    """Return the mean of the seeds' rates, with its 95 % interval by Student's t.

    >>> mean_of_seeds([0.5, 0.6, 0.7])
    '60% (35 to 85)'
    """
    mean = statistics.fmean(rates)
    if len(rates) - 1 not in _T:
        return f"{mean:.0%}"
    spread = _T[len(rates) - 1] * statistics.stdev(rates) / math.sqrt(len(rates))
    low, high = max(mean - spread, 0.0), min(mean + spread, 1.0)
    return f"{mean:.0%} ({100 * low:.0f} to {100 * high:.0f})"


def table_of(results: Mapping[str, Any]) -> str:
    """Return the results as Markdown: kinds by stages, seeds by stages, and seeds by iterations."""
    seeds: Mapping[str, Mapping[str, Mapping[str, Sequence[int]]]] = results["seeds"]
    found = list(seeds.values())
    heading = [f"| {' | '.join(('', *STAGES))} |", "|---" * (1 + len(STAGES)) + "|"]
    lines = [*heading]
    for kind in KINDS:
        cells = [percent(pooled(one[stage][kind] for one in found)) for stage in STAGES]
        lines.append(f"| {' | '.join((kind, *cells))} |")
    rates = {
        stage: [won / max(of, 1) for won, of in (pooled(one[stage].values()) for one in found)]
        for stage in STAGES
    }
    lines.append(f"| {' | '.join(('mean', *(mean_of_seeds(rates[s]) for s in STAGES)))} |")
    lines += ["", *heading]
    for number, seed in enumerate(seeds):
        cells = [f"{rates[stage][number]:.1%}" for stage in STAGES]
        lines.append(f"| {' | '.join((f'seed {seed}', *cells))} |")
    curves = {
        seed: [won / max(of, 1) for won, of in curve] for seed, curve in results["curves"].items()
    }
    lines += ["", f"| {' | '.join(('iteration', *(f'seed {seed}' for seed in curves), 'mean'))} |"]
    lines.append("|---" * (2 + len(curves)) + "|")
    for number, found_then in enumerate(zip(*curves.values(), strict=True)):
        cells = [*(f"{rate:.0%}" for rate in found_then), mean_of_seeds(found_then)]
        lines.append(f"| {' | '.join((str(number), *cells))} |")
    return "\n".join(lines) + "\n"


async def experiment(lab: Lab) -> dict[str, Any]:
    """Do all of it."""
    import torch

    torch.set_num_threads(1)
    learned = {str(seed): await lab.learned(seed) for seed in lab.scale.seeds}
    clicks = await lab.evaluated("clicks", click_somewhere)
    return {
        "seeds": {seed: {"clicks": clicks, **found} for seed, (found, _) in learned.items()},
        "curves": {seed: curve for seed, (_, curve) in learned.items()},
    }


if __name__ == "__main__":
    experiments.run(
        Lab, experiment, table_of, about=__doc__, out="runs/pixels", scale=Scale(), small=SMALL,
        counts=("demonstrations", "steps", "iterations", "groups", "episodes"),
    )  # fmt: skip
