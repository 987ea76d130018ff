"""`RolloutMetrics`: what a set of episodes comes to, counted one by one.

Plain numbers, each with its counts, in memory that does not grow with the number of episodes.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from webtraj.rates import PassAtK, Rate, Ratio, Spread, SpreadTally, pass_at_k
from webtraj.rollouts.metrics.crashes import CrashRule, EpisodeClass, classify
from webtraj.rollouts.metrics.facts import EpisodeFacts, PhaseTimes, StepFacts
from webtraj.trajectory import AGENT_FAILURES, INFRASTRUCTURE_FAILURES, EndReason, Outcome

__all__ = ["BusyTime", "ModelUse", "RolloutMetrics", "Tally", "Throughput"]

# The numbers. Their fields' names are those in `metrics.json`.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """How fast it went."""

    wall_seconds: float | None = None
    """The time during which any episode was under way, a pause of a minute included; None if that
    is not known, and for groups (but policies and runs) that are played among others."""
    episode_seconds: float = 0.0
    """The time of all episodes together, whether they ran at once or not."""
    episodes: int = 0
    """Episodes, however they ended, and"""
    steps: int = 0
    """their steps."""

    @property
    def episodes_per_second(self) -> float | None:
        """Episodes a second of wall time; None if that is not known."""
        return self.episodes / self.wall_seconds if self.wall_seconds else None

    @property
    def steps_per_second(self) -> float | None:
        """Steps a second of wall time; None if that is not known."""
        return self.steps / self.wall_seconds if self.wall_seconds else None

    @property
    def mean_parallel(self) -> float | None:
        """How many episodes were under way at a time, on average."""
        return self.episode_seconds / self.wall_seconds if self.wall_seconds else None

    def to_data(self) -> dict[str, Any]:
        """Returns it as JSON data, with what follows from the counts."""
        return {
            **dataclasses.asdict(self),
            "episodes_per_second": self.episodes_per_second,
            "steps_per_second": self.steps_per_second,
            "mean_parallel": self.mean_parallel,
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """What the models took, in all episodes, those that crashed included."""

    calls: int = 0
    """Calls, failed ones included."""
    failed_calls: int = 0
    """Those of them that gave no reply."""
    uncounted_calls: int = 0
    """Replies whose tokens nobody has counted."""
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """What the calls cost that have a price; None without any prices."""
    unpriced_calls: int = 0
    """Replies of models that no price was given for: what `cost` lacks."""

    def to_data(self) -> dict[str, Any]:
        """Returns it as JSON data."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RolloutMetrics:
    """What a set of episodes comes to.

    Every episode is in exactly one of the classes `valid`, `blocked`, `crashed` and `unfinished`,
    by the rule `crash_rule` (`webtraj.rollouts.metrics.crashes`). What is said of the policy is
    said of valid episodes; what broke is counted beside it, and is in no denominator of it.
    """

    crash_rule: CrashRule = "typed"
    """By which rule an episode is said to have crashed."""

    total: int = 0
    """Episodes that were begun, each try counted."""
    valid: int = 0
    """Those that were played."""
    blocked: int = 0
    """Those that a site refused."""
    crashed: int = 0
    """Those in which something broke."""
    unfinished: int = 0
    """Those that were cut short."""
    successes: int = 0
    """Valid episodes that were a success."""
    failures: int = 0
    """Valid episodes in which the agent failed, those that its own error ended included."""
    ungraded: int = 0
    """Valid episodes that are neither: nobody judged them, or the judge failed."""
    infrastructure_failures: int = 0
    """Episodes whose outcome is env_error, model_error, judge_error or timeout, or unknown after
    an error or a death: whatever the crash rule says, none is in the denominator of
    `success_rate`. An agent's own error (`agent_error`) is a failure of the agent, not of these."""
    retries: int = 0
    """Episodes that tried a row of the plan once more."""
    steps: int = 0
    """Steps of all episodes."""
    with_steps: int = 0
    """Episodes whose steps were read. Numbers that need steps are of these alone."""
    outcomes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Episodes by outcome, every outcome named."""
    end_reasons: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Episodes by end reason, every one named."""

    success_rate: Rate = dataclasses.field(default_factory=Rate)
    """Successes among successes and failures.

    WebGym divides by all valid episodes, and takes those that nobody graded for failures; they are
    `ungraded` here. Where all are graded, the two are the same."""
    crashed_rate: Rate = dataclasses.field(default_factory=Rate)
    """Crashed episodes among all."""
    blocked_rate: Rate = dataclasses.field(default_factory=Rate)
    """Blocked episodes among those that are blocked or valid: WebGym's "non-crashed" ones."""
    avg_steps: Ratio = dataclasses.field(default_factory=Ratio)
    """Steps of valid episodes, by valid episodes."""
    avg_chars_per_response: Ratio = dataclasses.field(default_factory=Ratio)
    """Characters in the models' replies, by replies; of valid episodes. (WebGym divides by steps,
    of which each has one reply there.)"""
    goback_rate: Ratio = dataclasses.field(default_factory=Ratio)
    """Steps that went back to the page before, by steps; of valid episodes."""

    invalid_action_rate: Ratio = dataclasses.field(default_factory=Ratio)
    """Actions that came of a reply that could not be read, by actions chosen; of valid episodes."""
    failed_action_rate: Ratio = dataclasses.field(default_factory=Ratio)
    """Actions that the environment could not do (no such element, covered, ...), by steps whose
    observation says (`last_action`); of valid episodes."""
    repeated_action_rate: Ratio = dataclasses.field(default_factory=Ratio)
    """Steps with the same action as the step before, by steps that have one before; of valid
    episodes."""
    longest_repeat: int = 0
    """The most steps in a row with the same action, in any valid episode."""
    steps_to_success: Spread = dataclasses.field(default_factory=Spread)
    """Steps of successes."""
    reward: Spread = dataclasses.field(default_factory=Spread)
    """Total rewards of valid episodes that ended by themselves; a judge's error leaves none."""
    odd_rewards: int = 0
    """Those of them left out of `reward` that are infinite or no number."""
    pass_at_k: Mapping[int, PassAtK] = dataclasses.field(default_factory=dict)
    """By k: the chance that one of k attempts is a success, as the mean over groups of attempts.
    Attempts that are neither success nor failure do not count."""

    throughput: Throughput = dataclasses.field(default_factory=Throughput)
    """How fast it went, all episodes together."""
    seconds_by_phase: PhaseTimes = dataclasses.field(default_factory=PhaseTimes)
    """Where the time of all episodes went, if their steps were read."""
    models: ModelUse = dataclasses.field(default_factory=ModelUse)
    """What the models took, if the steps were read."""

    @property
    def cost_per_success(self) -> float | None:
        """The cost by the number of successes; None without prices or successes."""
        cost = self.models.cost
        return cost / self.successes if cost is not None and self.successes else None

    def to_data(self) -> dict[str, Any]:
        """Returns the metrics as JSON data, with what follows from the counts."""
        data: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            data[field.name] = value.to_data() if hasattr(value, "to_data") else value
        data["outcomes"] = dict(self.outcomes)
        data["end_reasons"] = dict(self.end_reasons)
        data["pass_at_k"] = {str(k): chance.to_data() for k, chance in self.pass_at_k.items()}
        data["seconds_by_phase"] = dataclasses.asdict(self.seconds_by_phase)
        data["cost_per_success"] = self.cost_per_success
        return data

    def scalars(self) -> dict[str, float]:
        """Returns the numbers to plot, by name; those that are not known are left out.

        >>> RolloutMetrics(total=4, success_rate=Rate(1, 2)).scalars()["success_rate"]
        0.5
        """
        numbers: dict[str, float | None] = {name: getattr(self, name) for name in _COUNTS}
        numbers |= {name: getattr(self, name).value for name in _QUOTIENTS}
        numbers |= {f"pass_at_{k}": chance.value for k, chance in self.pass_at_k.items()}
        numbers |= {
            "steps_to_success": self.steps_to_success.mean,
            "reward_mean": self.reward.mean,
            "reward_std": self.reward.std,
            "episodes_per_second": self.throughput.episodes_per_second,
            "steps_per_second": self.throughput.steps_per_second,
        }
        if self.with_steps:
            phases = dataclasses.asdict(self.seconds_by_phase)
            numbers |= {f"seconds_{name}": seconds for name, seconds in phases.items()}
            numbers |= {
                "model_calls": self.models.calls,
                "output_tokens": self.models.output_tokens,
                "cost": self.models.cost,
            }
        return {name: float(number) for name, number in numbers.items() if number is not None}


_COUNTS = (
    "total", "valid", "blocked", "crashed", "unfinished", "successes", "failures", "ungraded",
    "infrastructure_failures", "retries", "steps",
)  # fmt: skip
_QUOTIENTS = (
    "success_rate", "crashed_rate", "blocked_rate", "avg_steps", "avg_chars_per_response",
    "goback_rate", "invalid_action_rate", "failed_action_rate", "repeated_action_rate",
)  # fmt: skip


# How long it took in all: the time during which any episode was under way.

PAUSE = 60.0
"""Seconds between two episodes that still belong to the rollout. A longer pause does not: a run is
gone on with the next day, and a dataset has the runs of a month."""


class BusyTime:
    """Takes the spans of episodes in any order; keeps few, since those close together are one."""

    __slots__ = ("_ends", "_pause", "_starts")

    def __init__(self, pause: float = PAUSE) -> None:
        self._pause = pause
        self._starts: list[float] = []
        self._ends: list[float] = []

    def add(self, start: float, end: float) -> None:
        """Takes a span. One that ends before it begins, by a clock set back, has no length."""
        end = max(start, end)
        first = bisect.bisect_left(self._ends, start - self._pause)
        last = bisect.bisect_right(self._starts, end + self._pause)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    @property
    def seconds(self) -> float | None:
        """The length of all spans together; None if there were none."""
        if not self._starts:
            return None
        return math.fsum(self._ends) - math.fsum(self._starts)


# Counting episodes one by one, in memory that does not grow with their number.

_BROKEN_ENDS = (EndReason.ERRORED, EndReason.CRASHED)
_GRADES = (Outcome.SUCCESS, *AGENT_FAILURES)


class Tally:
    """Takes episodes and gives their metrics, at any time.

    It holds counts alone: two for each group of attempts, for pass@k, and otherwise a fixed number.

    Args:
        crash_rule: By which rule an episode is said to have crashed.
        ks: Which pass@k to give; by default 1, 2, 4, 8 and so on, up to the largest group.
        priced: Whether prices were given, so that a cost of 0 is one.
        timed: Whether to tell wall time. It is that of a whole; tasks that are played among others
            have none of their own.
    """

    def __init__(
        self,
        crash_rule: CrashRule = "typed",
        *,
        ks: Iterable[int] | None = None,
        priced: bool = False,
        timed: bool = True,
    ) -> None:
        self._rule: CrashRule = crash_rule
        self._ks = None if ks is None else sorted(set(ks))
        self._priced = priced
        self._classes: collections.Counter[EpisodeClass] = collections.Counter()
        self._outcomes: collections.Counter[Outcome] = collections.Counter()
        self._end_reasons: collections.Counter[EndReason] = collections.Counter()
        self._grades: collections.Counter[Outcome] = collections.Counter()
        self._attempts: dict[str, tuple[int, int]] = {}
        self._broken = self._retries = self._steps = self._valid_steps = 0
        self._steps_to_success, self._rewards = SpreadTally(), SpreadTally()
        self._odd_rewards = 0
        self._busy = BusyTime() if timed else None
        self._episode_seconds = 0.0
        # Of valid episodes whose steps were read, and of all such episodes.
        self._behaviour: collections.Counter[str] = collections.Counter()
        self._longest_repeat = 0
        self._with_steps = 0
        self._times = PhaseTimes()
        self._models: collections.Counter[str] = collections.Counter()
        self._cost = 0.0

    def add(self, facts: EpisodeFacts) -> None:
        """Takes an episode.

        Raises:
            InvalidInputError: The crash rule needs its steps, and they were not read.
        """
        kind = classify(facts, self._rule)
        self._classes[kind] += 1
        self._outcomes[facts.outcome] += 1
        self._end_reasons[facts.end_reason] += 1
        self._broken += facts.outcome in INFRASTRUCTURE_FAILURES or (
            facts.outcome is Outcome.UNKNOWN and facts.end_reason in _BROKEN_ENDS
        )
        self._retries += facts.origin.number > 0
        self._steps += facts.num_steps
        if facts.seconds is not None:
            self._episode_seconds += facts.seconds
        start, end = facts.start_time, facts.end_time
        if self._busy is not None and start is not None and end is not None:
            self._busy.add(start, end)
        if facts.steps is not None:
            self._add_use(facts.steps)
        if kind is EpisodeClass.VALID:
            self._add_valid(facts)

    def metrics(self, *, wall_seconds: float | None = None) -> RolloutMetrics:
        """Returns the metrics of what was taken so far.

        Args:
            wall_seconds: How long it took, if that is known better than by the episodes' times.
        """
        if wall_seconds is None and self._busy is not None:
            wall_seconds = self._busy.seconds
        classes, grades, seen = self._classes, self._grades, self._behaviour
        valid, blocked = classes[EpisodeClass.VALID], classes[EpisodeClass.BLOCKED]
        crashed, total = classes[EpisodeClass.CRASHED], classes.total()
        successes = grades[Outcome.SUCCESS]
        failures = grades.total() - successes
        return RolloutMetrics(
            crash_rule=self._rule,
            total=total,
            valid=valid,
            blocked=blocked,
            crashed=crashed,
            unfinished=classes[EpisodeClass.UNFINISHED],
            successes=successes,
            failures=failures,
            ungraded=valid - successes - failures,
            infrastructure_failures=self._broken,
            retries=self._retries,
            steps=self._steps,
            with_steps=self._with_steps,
            outcomes={member.name.lower(): self._outcomes[member] for member in Outcome},
            end_reasons={member.name.lower(): self._end_reasons[member] for member in EndReason},
            success_rate=Rate(successes, successes + failures),
            crashed_rate=Rate(crashed, total),
            blocked_rate=Rate(blocked, blocked + valid),
            avg_steps=Ratio(self._valid_steps, valid),
            avg_chars_per_response=Ratio(seen["reply_characters"], seen["replies"]),
            goback_rate=Ratio(seen["go_backs"], seen["steps"]),
            invalid_action_rate=Ratio(seen["invalid_choices"], seen["choices"]),
            failed_action_rate=Ratio(seen["failed_actions"], seen["judged_actions"]),
            repeated_action_rate=Ratio(seen["repeated"], seen["followers"]),
            longest_repeat=self._longest_repeat,
            steps_to_success=self._steps_to_success.spread(),
            reward=self._rewards.spread(),
            odd_rewards=self._odd_rewards,
            pass_at_k=self._pass_at_k(),
            throughput=Throughput(
                wall_seconds=wall_seconds,
                episode_seconds=self._episode_seconds,
                episodes=total,
                steps=self._steps,
            ),
            seconds_by_phase=self._times,
            models=ModelUse(**self._models, cost=self._cost if self._priced else None),
        )

    def _add_valid(self, facts: EpisodeFacts) -> None:
        self._valid_steps += facts.num_steps
        if facts.outcome in _GRADES:
            self._grades[facts.outcome] += 1
            made, solved = self._attempts.get(facts.attempts_key, (0, 0))
            success = facts.outcome is Outcome.SUCCESS
            self._attempts[facts.attempts_key] = (made + 1, solved + success)
            if success:
                self._steps_to_success.add(facts.num_steps)
        if facts.reward is not None and facts.outcome is not Outcome.JUDGE_ERROR:
            if math.isfinite(facts.reward):
                self._rewards.add(facts.reward)
            else:
                self._odd_rewards += 1
        steps = facts.steps
        if steps is not None:
            for name in _COUNTED:
                self._behaviour[name] += getattr(steps, name)
            self._behaviour["steps"] += facts.num_steps
            self._behaviour["followers"] += max(facts.num_steps - 1, 0)
            self._longest_repeat = max(self._longest_repeat, steps.longest_repeat)

    def _add_use(self, steps: StepFacts) -> None:
        account, tokens = steps.account, steps.account.tokens
        self._with_steps += 1
        self._times += steps.times
        self._cost += account.cost
        self._models.update(
            calls=account.calls,
            failed_calls=account.failures,
            uncounted_calls=account.uncounted,
            input_tokens=tokens.input,
            cached_input_tokens=tokens.cached_input,
            cache_write_tokens=tokens.cache_write,
            output_tokens=tokens.output,
            unpriced_calls=sum(account.unpriced.values()),
        )

    def _pass_at_k(self) -> dict[int, PassAtK]:
        # Many groups have the same counts, so that few estimates are made.
        shapes = collections.Counter(self._attempts.values())
        largest = max((made for made, _ in shapes), default=0)
        ks = self._ks
        if ks is None:
            ks = [2**power for power in range(largest.bit_length())]
        chances = {}
        for k in ks:
            enough = {shape: count for shape, count in shapes.items() if shape[0] >= k}
            groups = sum(enough.values())
            chances[k] = PassAtK(
                k,
                math.fsum(n * pass_at_k(*shape, k) for shape, n in enough.items()),
                groups,
                len(self._attempts) - groups,
            )
        return chances


_COUNTED = (
    "replies", "reply_characters", "go_backs", "choices", "invalid_choices", "judged_actions",
    "failed_actions", "repeated",
)  # fmt: skip
