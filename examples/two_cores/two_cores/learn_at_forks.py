"""Learn from groups at forks, and from groups at the start, with equal environment steps.

    python -m two_cores.learn_at_forks --out runs/learn_at_forks          # Half an hour.
    python -m two_cores.learn_at_forks --out runs/learn_a_little --small  # To see that it runs.

It needs a browser, and no PyTorch: the policy is log-linear in features of the page and the replies
of a pointing agent. Steps:

1. The policy imitates the oracle for a while, on `CANDIDATES`.
2. It plays each candidate. The ten tasks nearest to 50 % success are learned.
3. From this policy, both arms learn by policy gradient, with each of three seeds:

   * `start`: groups of eight episodes that begin at the start of a world.
   * `forks`: one episode in a world; two forks at up to four of its steps, its start among them;
     then six more at the step where outcomes differ most, if they differ anywhere. The forks at a
     step are a group.

   An iteration ends when its environment steps are spent. Steps that forks repeat count.
4. Both play worlds that were not trained on, the same for all.

`two_cores.experiments` says what is in `--out`.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import random
import re
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from two_cores import experiments
from two_cores.decisions import decisions_of
from two_cores.experiments import HELD_OUT, fresh
from two_cores.pointing import CHANNELS, CLICK, Prompt, items_of, make_prompt
from webtraj import Decision, EpisodeTrajectory, Outcome, open_dataset
from webtraj.agents.base import seed_text
from webtraj.environments.actions import InvalidAction
from webtraj.environments.base import description_of
from webtraj.metrics.rates import mean_of_tasks, paired_difference_interval
from webtraj.rollouts import RunSpec, collect
from webtraj.rollouts.forks import ForkAgent, plan_forks
from webtraj.runs.plan import ForkPoint, PlannedEpisode, plan_episodes
from webtraj.runs.run import EpisodeResult
from webtraj.training.sft.policy_gradient import advantages_of

CANDIDATES = """
    click-button-sequence click-checkboxes click-checkboxes-transfer click-collapsible
    click-collapsible-2 click-option click-tab-2 click-tab-2-hard click-tab-2-medium
    choose-list enter-text enter-text-dynamic enter-password login-user login-user-popup
    multi-layouts multi-orderings navigate-tree search-engine social-media use-autocomplete
""".split()  # noqa: SIM905  (reads better)
"""Tasks of several steps."""
ARMS = ("start", "forks")
CHOOSING = 2_000_000
"""The run seed of the choice of tasks; learning has smaller ones."""
MAX_STEPS = 8
GROUP, PAIR, PLACES = 8, 2, 4
AT_ONCE = 4
"""Worlds that are played in one rollout."""
BITS = 18
"""The policy has two to this power of weights; features share them by their hash."""
RATE, PASSES, CLIP = 0.05, 20, 0.2
"""Adam's learning rate, passes over an iteration's decisions, and the clipping of their ratios."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is played and trained."""

    candidates: Sequence[str] = tuple(CANDIDATES)
    demonstrations: int = 40
    """Of each candidate."""
    start_passes: int = 6
    """Passes over the demonstrations, from weights of zero."""
    probes: int = 16
    """Episodes of each candidate, to choose the tasks."""
    tasks: int = 10
    seeds: Sequence[int] = (1, 2, 3)
    iterations: int = 4
    budget: int = 500
    """Environment steps of an iteration."""
    episodes: int = 20
    """Of each task in the evaluations, before and after the last iteration."""


SMALL = Scale(
    candidates=("click-button-sequence", "click-option"), demonstrations=3, start_passes=2,
    probes=2, tasks=2, seeds=(1,), iterations=1, budget=12, episodes=2,
)  # fmt: skip


Weights = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Choice:
    """The replies to one page, and their features."""

    replies: Sequence[str]
    features: NDArray[np.int64]
    """The places of each reply's features among the weights: a row for each reply, filled up with
    the place 0, whose weight is 0."""

    @classmethod
    def of(cls, task: str, goal: str, prompt: Prompt, done: Sequence[tuple[str, str]]) -> Choice:
        """Return the replies to a prompt: clicks on its elements, and the goal's words typed."""
        told = _told(prompt)
        fields = [name for name, item in prompt.elements.items() if item.editable]
        empty = sum(not prompt.elements[name].text for name in fields)
        open_same = sum("<same>" in one and "<was>" not in one for one in told.values())
        ahead, goal_text = _words_before(goal), goal.lower()
        found: dict[str, list[str]] = {}
        for place, (name, item) in enumerate(prompt.elements.items()):
            about = told[name]
            role = "text" if item.prose else about.partition(" ")[0]
            mark = next((one for one in ("<same>", "<some>") if one in about), "")
            was = "<was>" in about
            states = [one for one in _STATES if f" {one}" in about]
            said = [word for word in item.name.lower().split() if word in goal_text]
            common = [
                role, f"{role} {mark}", f"{role} {mark} {was}", f"{role} {states} {mark} {was}",
                f"{role} {mark} {was} open {min(open_same, 3)} done {min(len(done), 4)}",
                f"{role} shared {len(said)} of {len(item.name.split())}",
                f"name {item.name.lower()[:30]}",
                f"last {place == len(prompt.elements) - 1} {role}",
                f"{role} filled {bool(item.text)} empty {empty}",
            ]  # fmt: skip
            found[f"{name}{CLICK}"] = [f"click {one}" for one in common]
            if not item.editable:
                continue
            for word, text in prompt.words.items():
                if text not in ahead:  # A word of the page.
                    continue
                before, number, quoted = ahead[text]
                fits = bool(set(before) & set(item.name.lower().split()))
                same, full = number == fields.index(name), bool(item.text)
                found[f"{name}{word}"] = [
                    f"type {one}" for one in (
                        role, f"quoted {quoted}", f"quoted {quoted} fits {fits} full {full}",
                        f"quoted {quoted} same place {same} full {full}",
                        f"{before[-1:]} into {item.name.lower()[:20]} {quoted} full {full}",
                        f"held {item.text == text} full {full} {was}",
                    )
                ]  # fmt: skip
        width = 2 * max((len(each) for each in found.values()), default=0)
        features = np.zeros((len(found), width), np.int64)
        for row, each in enumerate(found.values()):
            hashed = [_hash(one) for one in each] + [_hash(f"{task} {one}") for one in each]
            features[row, : len(hashed)] = hashed
        return cls(tuple(found), features)

    def logprobs(self, weights: Weights) -> Weights:
        """Return the log-probability of each reply."""
        scores: Weights = weights[self.features].sum(axis=1)
        scores -= scores.max()
        logs: Weights = scores - np.log(np.exp(scores).sum())
        return logs


_STATES = ("checked", "selected", "focused", "shut", "open", "chosen", "covered", "disabled")
_ELEMENT = re.compile(r"(<e\d+>)")


def _hash(feature: str) -> int:
    return zlib.crc32(feature.encode()) % ((1 << BITS) - 1) + 1


def _told(prompt: Prompt) -> dict[str, str]:
    """Return what a prompt says of each element, marks included."""
    parts = _ELEMENT.split(prompt.text.partition("<page>")[2])
    return dict(zip(parts[1::2], map(str.strip, parts[::2]), strict=False))


def _words_before(goal: str) -> dict[str, tuple[list[str], int, bool]]:
    """Return the words before each text of a goal, its number among quoted ones, and if it is.

    >>> _words_before('Enter "Bob" as name')["Bob"]
    (['enter'], 0, True)
    """
    found: dict[str, tuple[list[str], int, bool]] = {}
    before: list[str] = []
    number = 0
    for match in re.finditer(r'"([^"]*)"|[^\s"]+', goal):
        quoted = match[1] is not None
        text = match[1] if quoted else match[0].strip(".,:;!?()")
        found.setdefault(text, (before[-4:], number, quoted))
        number += quoted
        before.append(text.lower())
    return found


@dataclasses.dataclass(frozen=True)
class LinearAgent:
    """An agent that samples replies of a log-linear policy."""

    weights: Weights
    seed: int = 0
    name: str = "log-linear"
    channels: tuple[str, ...] = CHANNELS

    def begin_episode(self, environment: Any) -> _Actor:
        """Return an actor that remembers its past actions."""
        task = str(description_of(environment).get("task", ""))
        return _Actor(self, task, random.Random(seed_text(self.seed, environment)))


class _Actor:
    def __init__(self, agent: LinearAgent, task: str, source: random.Random) -> None:
        self._agent = agent
        self._task = task
        self._random = source
        self._done: list[tuple[str, str]] = []

    def _prompt(self, observation: Mapping[str, Any]) -> Prompt:
        items = items_of(observation["axtree"])
        return make_prompt(observation["goal"], items, self._done, names=random.Random(0))

    def remember(self, observation: Any, decision: Decision) -> None:
        """Take a repeated step of a fork for its own."""
        self._note(self._prompt(observation), decision.action)

    async def act(self, observation: Any) -> Decision:
        """Return a sampled decision."""
        prompt = self._prompt(observation)
        choice = Choice.of(self._task, observation["goal"], prompt, self._done)
        if not choice.replies:
            return Decision(action=InvalidAction(reason="The page has no element."))
        chances = np.exp(choice.logprobs(self._agent.weights))
        (reply,) = self._random.choices(choice.replies, chances.tolist())
        action = prompt.read(reply)
        self._note(prompt, action)
        return Decision(action=action)

    def _note(self, prompt: Prompt, action: Any) -> None:
        if not isinstance(action, InvalidAction) and (done := prompt.done_as(action)):
            self._done.append(done)


Taken = tuple[Choice, int]
"""A choice, and the number of the reply that was taken."""


def taken_in(episode: EpisodeTrajectory) -> Iterator[Taken]:
    """Yield the choices of an episode that its agent made, without those that a fork repeats."""
    for decided in decisions_of(episode):
        decision = episode.steps[decided.step].decision
        if decision is not None and "fork" in decision.metadata:
            continue
        prompt = make_prompt(decided.goal, decided.items, decided.done, names=random.Random(0))
        choice = Choice.of(episode.info.task, decided.goal, prompt, decided.done)
        reply = prompt.reply_for(decided.action)
        if reply in choice.replies:
            yield choice, choice.replies.index(reply)


def learned_from(
    weights: Weights, decisions: Sequence[tuple[Taken, float]], passes: int
) -> Weights:
    """Return the weights after a policy gradient on decisions with advantages.

    The loss is the clipped one of PPO; with the advantage 1 for all and few passes, it imitates.
    """
    weights = weights.copy()
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    old = [choice.logprobs(weights)[reply] for (choice, reply), _ in decisions]
    for step in range(1, passes + 1):
        gradient = np.zeros_like(weights)
        for ((choice, reply), advantage), before in zip(decisions, old, strict=True):
            logs = choice.logprobs(weights)
            ratio = math.exp(logs[reply] - before)
            if (ratio > 1 + CLIP and advantage > 0) or (ratio < 1 - CLIP and advantage < 0):
                continue
            push = -np.exp(logs)
            push[reply] += 1.0
            np.add.at(gradient, choice.features, (ratio * advantage * push)[:, None])
        gradient[0] = 0.0
        gradient /= max(len(decisions), 1)
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient**2
        pace = np.sqrt(second / (1 - 0.99**step)) + 1e-8
        weights += RATE * first / (1 - 0.9**step) / pace
    return weights


@dataclasses.dataclass
class Counts:
    """What an iteration played."""

    episodes: int = 0
    decided: int = 0
    """Environment steps that the policy decided."""
    repeated: int = 0
    """Environment steps that forks repeated from the record."""
    departed: int = 0
    """Forks whose world differed from the record."""
    groups: int = 0
    uneven: int = 0
    """Groups with successes and failures."""

    @property
    def steps(self) -> int:
        """All environment steps."""
        return self.decided + self.repeated


@dataclasses.dataclass(frozen=True)
class Played:
    """An episode that was played, and where it began to be the policy's own."""

    result: EpisodeResult
    planned: PlannedEpisode

    @property
    def won(self) -> bool:
        """Whether it succeeded."""
        return self.result.outcome is Outcome.SUCCESS

    @property
    def repeated(self) -> int:
        """The number of its steps that were repeated."""
        fork = self.planned.fork
        return 0 if fork is None else min(fork.step, self.result.num_steps)


Group = Sequence[Played]
World = Sequence[Group]
"""All groups that were played in one world."""


class Lab(experiments.Lab[Scale]):
    """Plays and trains."""

    async def play(self, out: Path, plan: Sequence[PlannedEpisode], agent: Any) -> list[Played]:
        """Play a plan; return what was played, in the plan's order."""
        spec = RunSpec(out=str(out), parallel=self.parallel, max_steps=MAX_STEPS, max_retries=1)
        done = await collect(spec, agent=agent, tasks=plan, pool=self.pool)
        last = {result.row: result for result in done.results}
        return [Played(last[planned.row], planned) for planned in plan if planned.row in last]

    async def first_weights(self) -> Weights:
        """Return the weights of a policy that imitates the oracle a little."""
        file, scale = self.out / "first.npy", self.scale
        if file.exists():
            return np.asarray(np.load(file))
        folder = fresh(self.out / "demonstrations")
        spec = RunSpec(
            preset=presets(scale.candidates), attempts=scale.demonstrations, agent="oracle",
            observe=list(CHANNELS), out=str(folder), parallel=self.parallel,
        )  # fmt: skip
        await collect(spec, pool=self.pool)
        shown = [(taken, 1.0) for episode in open_dataset(folder) for taken in taken_in(episode)]
        weights = np.zeros(2**BITS)
        for _ in range(scale.start_passes):  # One pass each, so that no ratio is clipped.
            weights = learned_from(weights, shown, 1)
        np.save(file, weights)
        return weights

    async def chosen_tasks(self, weights: Weights) -> dict[str, tuple[int, int]]:
        """Return the tasks to learn, with the first policy's successes and episodes."""
        scale = self.scale
        found = await self.kept("tasks", self.evaluated(
            weights, scale.candidates, scale.probes, CHOOSING, "choosing"
        ))  # fmt: skip
        rates = {task: rate_of(won) for task, won in found.items() if rate_of(won)[1]}
        near = sorted(rates, key=lambda task: abs(rates[task][0] / rates[task][1] - 0.5))
        return {task: rates[task] for task in near[: scale.tasks]}

    async def evaluated(
        self, weights: Weights, tasks: Sequence[str], episodes: int, seed: int, name: str
    ) -> dict[str, list[int | None]]:
        """Return which episodes of each task succeed; None where the machinery failed."""
        plan = plan_episodes(presets(tasks), episodes=episodes * len(tasks), seed=seed)
        played = await self.play(fresh(self.out / "evaluation" / name), plan, LinearAgent(weights))
        found: dict[str, list[int | None]] = {task: [] for task in tasks}
        for one in played:
            won = int(one.won) if one.result.counts else None
            found[one.planned.task.removeprefix("miniwob/")].append(won)
        return found

    async def learned(
        self, arm: str, seed: int, weights: Weights, tasks: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Learn in one arm with one seed; return what each iteration did."""
        folder = fresh(self.out / arm / f"seed_{seed}")
        log: list[dict[str, Any]] = []
        for number in range(1, self.scale.iterations + 1):
            recorded = folder / f"episodes_{number}"
            groups, counts = await self._iteration(arm, seed, number, recorded, weights, tasks)
            weights = updated(weights, recorded, groups)
            entry: dict[str, Any] = {
                "iteration": number, **dataclasses.asdict(counts), "steps": counts.steps,
            }  # fmt: skip
            if number == self.scale.iterations:
                entry["evaluation"] = await self.evaluated(
                    weights, tasks, self.scale.episodes, HELD_OUT, f"{arm}_{seed}"
                )
            log.append(entry)
            print(f"{arm}, seed {seed}: {summary_of(entry)}", flush=True)
        return log

    async def _iteration(
        self, arm: str, seed: int, number: int, out: Path, weights: Weights, tasks: Sequence[str]
    ) -> tuple[list[Group], Counts]:
        """Play worlds until the steps are spent. The world that spends them is the last."""
        playing = self._from_start if arm == "start" else self._at_forks
        counts, kept = Counts(), []
        for wave in range(self.scale.budget):
            world_seed = (seed * 100 + number) * 1000 + wave
            order = random.Random(world_seed).sample(tasks, len(tasks))
            for first in range(0, len(order), AT_ONCE):
                chosen = order[first : first + AT_ONCE]
                async for world in playing(out, weights, chosen, world_seed):
                    kept += [group for group in world if add(counts, group)]
                    if counts.steps >= self.scale.budget:
                        return kept, counts
        raise RuntimeError("The episodes have no steps.")

    async def _from_start(
        self, out: Path, weights: Weights, tasks: Sequence[str], seed: int
    ) -> AsyncIterator[World]:
        plan = plan_episodes(
            presets(tasks), episodes=GROUP * len(tasks), seed=seed, group_size=GROUP
        )
        played = await self.play(out, plan, LinearAgent(weights, seed))
        for one in range(0, len(played), GROUP):
            yield [played[one : one + GROUP]]

    async def _at_forks(
        self, out: Path, weights: Weights, tasks: Sequence[str], seed: int
    ) -> AsyncIterator[World]:
        plan = plan_episodes(presets(tasks), episodes=len(tasks), seed=seed)
        parents = await self.play(out, plan, LinearAgent(weights, seed))
        points = [
            ForkPoint(parent.result.episode_id, step)
            for parent in parents
            if parent.result.counts and parent.result.num_steps
            for step in places(parent.result.num_steps)
        ]
        groups: dict[ForkPoint, list[Played]] = {point: [] for point in points}
        for parent in parents:
            groups.setdefault(ForkPoint(parent.result.episode_id, 0), []).append(parent)
        await self._fork(out, weights, groups, points, PAIR, seed + 1)
        chosen = [
            point
            for parent in parents
            if (point := most_open(groups, parent.result.episode_id)) is not None
        ]
        await self._fork(out, weights, groups, chosen, GROUP - PAIR, seed + 2)
        for parent in parents:
            name = parent.result.episode_id
            yield [group for point, group in groups.items() if point.episode_id == name]

    async def _fork(
        self, out: Path, weights: Weights, groups: Mapping[ForkPoint, list[Played]],
        points: Sequence[ForkPoint], size: int, seed: int,
    ) -> None:  # fmt: skip
        if points:
            dataset = open_dataset(out)
            plan = plan_forks(dataset, points, group_size=size)
            agent = ForkAgent(LinearAgent(weights, seed), dataset)
            for one in await self.play(out, plan, agent):
                assert one.planned.fork is not None
                groups[one.planned.fork].append(one)


def presets(tasks: Iterable[str]) -> list[str]:
    """Return the tasks' presets."""
    return [f"miniwob/{task}" for task in tasks]


def places(steps: int) -> list[int]:
    """Return the steps of an episode at which to fork first.

    >>> places(2), places(7)
    ([0, 1], [0, 2, 4, 6])
    """
    last = max(steps - 1, 0)
    return sorted({round(last * place / (PLACES - 1)) for place in range(PLACES)})


def most_open(groups: Mapping[ForkPoint, Group], episode: str) -> ForkPoint | None:
    """Return the fork of an episode where outcomes differ most; None if they do nowhere."""
    spreads = {}
    for point, group in groups.items():
        won = [one.won for one in group if one.result.counts]
        if point.episode_id == episode and won:
            rate = sum(won) / len(won)
            spreads[point] = rate * (1 - rate)
    best = max(spreads, key=lambda point: (spreads[point], -point.step), default=None)
    return best if best is not None and spreads[best] else None


def add(counts: Counts, group: Group) -> bool:
    """Count a group; return whether its episodes can be compared."""
    won = [one.won for one in group if one.result.counts]
    counts.episodes += len(group)
    counts.repeated += sum(one.repeated for one in group)
    counts.decided += sum(one.result.num_steps - one.repeated for one in group)
    counts.departed += sum("departs from the record" in one.result.error for one in group)
    counts.groups += 1
    counts.uneven += len(set(won)) > 1
    return len(set(won)) > 1


def updated(weights: Weights, recorded: Path, groups: Sequence[Group]) -> Weights:
    """Return the weights after a policy gradient on groups, by their episodes' records."""
    dataset = open_dataset(recorded)
    decisions = []
    for group in groups:
        rewards = {one.result.episode_id: float(one.won) for one in group if one.result.counts}
        for name, advantage in advantages_of(rewards, "group_mean").items():
            decisions += [(taken, advantage) for taken in taken_in(dataset[name])]
    return learned_from(weights, decisions, PASSES)


def summary_of(entry: Mapping[str, Any]) -> str:
    """Return an iteration in a few words."""
    told = (
        f"iteration {entry['iteration']}, {entry['steps']} steps, {entry['repeated']} of them "
        f"repeated, {entry['uneven']} of {entry['groups']} groups uneven, "
        f"{entry['departed']} forks departed"
    )
    return told + (f", success {percent(entry['evaluation'])}" if "evaluation" in entry else "")


def rate_of(won: Sequence[int | None]) -> tuple[int, int]:
    """Return the successes and the episodes that count."""
    counted = [one for one in won if one is not None]
    return sum(counted), len(counted)


def percent(won: Mapping[str, Sequence[int | None]]) -> str:
    """Return the mean success of the tasks, with its interval."""
    mean = mean_of_tasks([rate for each in won.values() if (rate := rate_of(each))[1]])
    return f"{mean['value']:.1%} ({mean['low']:.1%} to {mean['high']:.1%})"


def table_of(results: Mapping[str, Any]) -> str:
    """Return the results as Markdown."""
    lines = [
        "| seed | arm | steps | decided | repeated | groups, uneven | success |",
        "|---|---|---|---|---|---|---|",
        f"| | before | | | | | {percent(results['before'])} |",
    ]
    pairs: collections.Counter[tuple[int, int]] = collections.Counter()
    for seed, arms in results["seeds"].items():
        for arm in ARMS:
            steps, decided, repeated, groups, uneven = (
                sum(entry[name] for entry in arms[arm])
                for name in ("steps", "decided", "repeated", "groups", "uneven")
            )
            lines.append(
                f"| {seed} | {arm} | {steps:,} | {decided:,} | {repeated:,} | {groups}, {uneven} | "
                f"{percent(arms[arm][-1]['evaluation'])} |"
            )
        for task, won in arms["start"][-1]["evaluation"].items():
            both = zip(won, arms["forks"][-1]["evaluation"][task], strict=True)
            pairs.update(pair for pair in both if None not in pair)
    counts = [pairs[pair] for pair in ((1, 1), (1, 0), (0, 1), (0, 0))]
    interval = paired_difference_interval(*counts)
    assert interval is not None
    shares = [(counts[0] + counts[1]) / pairs.total(), (counts[0] + counts[2]) / pairs.total()]
    lines += ["", (
        f"All seeds: from the start {shares[0]:.1%}, at forks {shares[1]:.1%}; difference "
        f"{100 * (shares[1] - shares[0]):+.1f} points ({100 * interval[0]:+.1f} to "
        f"{100 * interval[1]:+.1f}), {pairs.total()} pairs of episodes."
    )]  # fmt: skip
    return "\n".join(lines) + "\n"


async def experiment(lab: Lab) -> dict[str, Any]:
    """Do all of it."""
    scale = lab.scale
    first = await lab.first_weights()
    tasks = await lab.chosen_tasks(first)
    print("tasks:", ", ".join(f"{t} {won}/{of}" for t, (won, of) in tasks.items()), flush=True)
    before = await lab.kept(
        "before", lab.evaluated(first, [*tasks], scale.episodes, HELD_OUT, "before")
    )
    print(f"before: {percent(before)}", flush=True)
    seeds: dict[str, dict[str, Any]] = {}
    for seed in scale.seeds:
        for arm in ARMS:
            learned = lab.learned(arm, seed, first, [*tasks])
            seeds.setdefault(str(seed), {})[arm] = await lab.kept(f"{arm}_{seed}", learned)
    return {"tasks": tasks, "before": before, "seeds": seeds}


if __name__ == "__main__":
    experiments.run(
        Lab, experiment, table_of, about=__doc__, out="runs/learn_at_forks", scale=Scale(),
        small=SMALL, counts=("iterations", "budget", "episodes"),
    )  # fmt: skip
