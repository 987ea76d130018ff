"""`RolloutMetrics`: metrics of a set of episodes, counted one by one.

The metrics are plain numbers with their counts. Memory does not grow with the number of episodes.
"""

from __future__ import annotations

import bisect
import collections
import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from webtraj.metrics.facts import (
    CrashRule,
    EpisodeClass,
    EpisodeFacts,
    PhaseTimes,
    StepFacts,
    classify,
)
from webtraj.metrics.rates import (
    PassRate,
    Rate,
    Ratio,
    Spread,
    SpreadTally,
    pass_at_k,
    pass_hat_k,
    success_rate,
)
from webtraj.trajectory import EndReason, Outcome, has_succeeded, is_broken, is_scored

__all__ = ["HEALTH", "BusyTime", "ModelUse", "RolloutMetrics", "Tally", "Throughput"]

# The metrics. Field names are the keys of `metrics.json`.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Speed of a rollout."""

    wall_seconds: float | None = None
    """Time during which any episode was running, with pauses of up to a minute. None if unknown,
    and for groups other than policies and runs, whose episodes run among others."""
    episode_seconds: float = 0.0
    """Total time of all episodes, counting concurrent ones separately."""
    episodes: int = 0
    """Number of episodes, however they ended."""
    steps: int = 0
    """Number of their steps."""

    @property
    def episodes_per_second(self) -> float | None:
        """Episodes per second of wall time; None if that is unknown."""
        return self.episodes / self.wall_seconds if self.wall_seconds else None

    @property
    def steps_per_second(self) -> float | None:
        """Steps per second of wall time; None if that is unknown."""
        return self.steps / self.wall_seconds if self.wall_seconds else None

    @property
    def mean_parallel(self) -> float | None:
        """Mean number of concurrent episodes."""
        return self.episode_seconds / self.wall_seconds if self.wall_seconds else None

    def to_data(self) -> dict[str, Any]:
        """Return JSON data, derived values included."""
        return {
            **dataclasses.asdict(self),
            "episodes_per_second": self.episodes_per_second,
            "steps_per_second": self.steps_per_second,
            "mean_parallel": self.mean_parallel,
        }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """Model usage of all episodes, crashed ones included."""

    calls: int = 0
    """Calls, failed ones included."""
    failed_calls: int = 0
    """Calls without a reply."""
    failed_attempts: int = 0
    """Attempts without a reply, of all calls."""
    uncounted_calls: int = 0
    """Replies without token counts."""
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """Cost of the calls with a known price; None if no prices were given."""
    unpriced_calls: int = 0
    """Replies of models without a price, missing from `cost`."""

    def to_data(self) -> dict[str, Any]:
        """Return JSON data."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RolloutMetrics:
    """Metrics of a set of episodes.

    The rule `crash_rule` puts every episode into exactly one of the classes `valid`, `blocked`,
    `crashed`, `unfinished` and `superseded` (`webtraj.metrics.facts`). Metrics of the policy cover
    valid episodes, at most one try of each planned row (`webtraj.store.tries`). Infrastructure
    failures are counted separately and are in none of their denominators.
    """

    crash_rule: CrashRule = "typed"
    """Rule that decides which episodes crashed."""

    total: int = 0
    """Started episodes, counting each try."""
    valid: int = 0
    """Episodes that count for the policy."""
    blocked: int = 0
    """Episodes that a site refused."""
    crashed: int = 0
    """Episodes that an error broke."""
    unfinished: int = 0
    """Episodes that were cut short."""
    superseded: int = 0
    """Episodes that were played, but another try of their row counts."""
    successes: int = 0
    """Valid episodes that succeeded."""
    failures: int = 0
    """Valid episodes in which the agent failed, including by its own error."""
    ungraded: int = 0
    """Valid episodes without a verdict: not judged, or the judge failed."""
    infrastructure_failures: int = 0
    """Episodes whose outcome is env_error, model_error, judge_error or timeout, or unknown after an
    error or a crash. Whatever the crash rule, none is in the denominator of `success_rate`. An
    agent's own error (`agent_error`) is an agent failure and not counted here."""
    retries: int = 0
    """Episodes that retried a row of the plan."""
    steps: int = 0
    """Steps of all episodes."""
    with_steps: int = 0
    """Episodes whose steps were read. Metrics that need steps cover only these."""
    outcomes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Episodes by outcome, every outcome listed."""
    end_reasons: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Episodes by end reason, every reason listed."""

    health: Mapping[str, Ratio] = dataclasses.field(default_factory=dict)
    """What limits trust in the rates, by name (`HEALTH`): the number of affected episodes, replies
    or observations, of how many."""
    success_rate: Rate = dataclasses.field(default_factory=Rate)
    """Successes among successes and failures.

    WebGym divides by all valid episodes, counting ungraded ones as failures; here they are
    `ungraded`. The two agree if every episode is graded."""
    crashed_rate: Rate = dataclasses.field(default_factory=Rate)
    """Share of crashed episodes among all."""
    blocked_rate: Rate = dataclasses.field(default_factory=Rate)
    """Share of blocked episodes among blocked and valid ones, WebGym's "non-crashed"."""
    avg_steps: Ratio = dataclasses.field(default_factory=Ratio)
    """Steps per valid episode."""
    avg_chars_per_response: Ratio = dataclasses.field(default_factory=Ratio)
    """Characters per model reply in valid episodes. (WebGym divides by steps, which have one reply
    each there.)"""
    goback_rate: Ratio = dataclasses.field(default_factory=Ratio)
    """Share of steps that went back to the previous page, in valid episodes."""

    invalid_action_rate: Ratio = dataclasses.field(default_factory=Ratio)
    """Share of chosen actions whose reply could not be parsed, in valid episodes."""
    failed_action_rate: Ratio = dataclasses.field(default_factory=Ratio)
    """Share of actions that the environment could not perform (no such element, covered, ...),
    among steps whose observation reports it (`last_action`), in valid episodes."""
    repeated_action_rate: Ratio = dataclasses.field(default_factory=Ratio)
    """Share of steps that repeat the previous step's action, among steps that have one, in valid
    episodes."""
    longest_repeat: int = 0
    """Most steps in a row with the same action, in any valid episode."""
    steps_to_success: Spread = dataclasses.field(default_factory=Spread)
    """Steps of successful episodes."""
    seconds_to_success: Spread = dataclasses.field(default_factory=Spread)
    """Durations of successful episodes, in seconds."""
    tokens_to_success: Spread = dataclasses.field(default_factory=Spread)
    """Input and output tokens of successful episodes, cached ones included. Episodes with a model
    call without token counts are left out."""
    reward: Spread = dataclasses.field(default_factory=Spread)
    """Total rewards of valid episodes that were scored."""
    odd_rewards: int = 0
    """Infinite and NaN rewards, left out of `reward`."""
    pass_at_k: Mapping[int, PassRate] = dataclasses.field(default_factory=dict)
    """By k: the chance that at least one of k attempts succeeds, averaged over groups of attempts.
    Attempts that are neither success nor failure do not count."""
    pass_hat_k: Mapping[int, PassRate] = dataclasses.field(default_factory=dict)
    """By k: pass^k, the chance that all of k attempts succeed, over the same groups."""

    throughput: Throughput = dataclasses.field(default_factory=Throughput)
    """Speed of all episodes together."""
    seconds_by_phase: PhaseTimes = dataclasses.field(default_factory=PhaseTimes)
    """Time of all episodes by phase, if their steps were read."""
    models: ModelUse = dataclasses.field(default_factory=ModelUse)
    """Model usage, if the steps were read."""

    @property
    def cost_per_success(self) -> float | None:
        """Cost per success; None without prices or successes."""
        cost = self.models.cost
        return cost / self.successes if cost is not None and self.successes else None

    def to_data(self) -> dict[str, Any]:
        """Return the metrics as JSON data, derived values included."""
        data: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            data[field.name] = value.to_data() if hasattr(value, "to_data") else value
        data["outcomes"] = dict(self.outcomes)
        data["end_reasons"] = dict(self.end_reasons)
        data["health"] = {name: share.to_data() for name, share in self.health.items()}
        for name in ("pass_at_k", "pass_hat_k"):
            data[name] = {str(k): rate.to_data() for k, rate in getattr(self, name).items()}
        data["seconds_by_phase"] = dataclasses.asdict(self.seconds_by_phase)
        data["cost_per_success"] = self.cost_per_success
        return data

    def scalars(self) -> dict[str, float]:
        """Return the numbers to plot, by name, without the unknown ones.

        >>> RolloutMetrics(total=4, success_rate=Rate(1, 2)).scalars()["success_rate"]
        0.5
        """
        numbers: dict[str, float | None] = {name: getattr(self, name) for name in _COUNTS}
        numbers |= {name: getattr(self, name).value for name in _QUOTIENTS}
        numbers |= {f"health_{name}": share.value for name, share in self.health.items()}
        numbers |= {f"pass_at_{k}": rate.value for k, rate in self.pass_at_k.items()}
        numbers |= {f"pass_hat_{k}": rate.value for k, rate in self.pass_hat_k.items()}
        numbers |= {
            "steps_to_success": self.steps_to_success.mean,
            "seconds_to_success": self.seconds_to_success.mean,
            "tokens_to_success": self.tokens_to_success.mean,
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


HEALTH = (
    "infrastructure_failures", "unfinished", "blocked", "ungraded", "unscored", "replies_cut_off",
    "replies_refused", "observations_unsettled", "observations_repeated",
)  # fmt: skip
"""The names in `RolloutMetrics.health`. The first three are shares of all episodes, the others of
valid episodes, their model replies, and their observations."""

_COUNTS = (
    "total", "valid", "blocked", "crashed", "unfinished", "superseded", "successes", "failures",
    "ungraded", "infrastructure_failures", "retries", "steps",
)  # fmt: skip
_QUOTIENTS = (
    "success_rate", "crashed_rate", "blocked_rate", "avg_steps", "avg_chars_per_response",
    "goback_rate", "invalid_action_rate", "failed_action_rate", "repeated_action_rate",
)  # fmt: skip


# Wall time: the time during which any episode was running.

PAUSE = 60.0
"""Longest gap in seconds between episodes of one rollout. A longer gap does not count, since a run
may be resumed the next day, and a dataset may hold the runs of a month."""


class BusyTime:
    """Total length of time spans added in any order; neighbouring spans are merged."""

    __slots__ = ("_ends", "_pause", "_starts")

    def __init__(self, pause: float = PAUSE) -> None:
        self._pause = pause
        self._starts: list[float] = []
        self._ends: list[float] = []

    def add(self, start: float, end: float) -> None:
        """Add a span. Its length is 0 if it ends before it starts: the clock was set back."""
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
        """Total length of all spans; None without spans."""
        if not self._starts:
            return None
        return math.fsum(self._ends) - math.fsum(self._starts)


# Counting episodes one by one, in memory that does not grow with their number.


class Tally:
    """Counts episodes and returns their metrics at any time.

    It holds only counts: two for each group of attempts (for pass@k and pass^k), and a fixed number
    of others.

    Args:
        crash_rule: Rule that decides which episodes crashed.
        ks: Values of k for pass@k and pass^k. Default: 1, 2, 4, 8 and so on, up to the largest
            group.
        priced: Whether prices were given, so that a cost of 0 is a known cost.
        timed: Whether to measure wall time. Only a whole rollout has a wall time, because episodes
            of different tasks run at the same time.
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
        self._attempts: dict[str, dict[str, tuple[int, int]]] = {}  # By task and group.
        self._broken = self._retries = self._steps = self._valid_steps = 0
        self._steps_to_success, self._rewards = SpreadTally(), SpreadTally()
        self._seconds_to_success, self._tokens_to_success = SpreadTally(), SpreadTally()
        self._odd_rewards = 0
        self._busy = BusyTime() if timed else None
        self._episode_seconds = 0.0
        # Of valid episodes whose steps were read, then of all such episodes.
        self._behaviour: collections.Counter[str] = collections.Counter()
        self._longest_repeat = 0
        self._with_steps = 0
        self._times = PhaseTimes()
        self._models: collections.Counter[str] = collections.Counter()
        self._cost = 0.0

    def add(self, facts: EpisodeFacts) -> None:
        """Add an episode.

        Raises:
            InvalidInputError: The crash rule needs the episode's steps, which were not read.
        """
        kind = classify(facts, self._rule)
        self._classes[kind] += 1
        self._outcomes[facts.outcome] += 1
        self._end_reasons[facts.end_reason] += 1
        self._broken += is_broken(facts.outcome, facts.end_reason)
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
        """Return the metrics of the episodes added so far.

        Args:
            wall_seconds: Duration, if known better than from the episodes' times.
        """
        if wall_seconds is None and self._busy is not None:
            wall_seconds = self._busy.seconds
        classes, grades, seen = self._classes, self._grades, self._behaviour
        valid, blocked = classes[EpisodeClass.VALID], classes[EpisodeClass.BLOCKED]
        crashed, total = classes[EpisodeClass.CRASHED], classes.total()
        rate = success_rate(grades)
        ks, tasks = self._pass_values()
        successes, failures = rate.numerator, rate.denominator - rate.numerator
        ungraded = valid - rate.denominator
        return RolloutMetrics(
            crash_rule=self._rule,
            total=total,
            valid=valid,
            blocked=blocked,
            crashed=crashed,
            unfinished=classes[EpisodeClass.UNFINISHED],
            superseded=classes[EpisodeClass.SUPERSEDED],
            successes=successes,
            failures=failures,
            ungraded=ungraded,
            infrastructure_failures=self._broken,
            retries=self._retries,
            steps=self._steps,
            with_steps=self._with_steps,
            outcomes={member.name.lower(): self._outcomes[member] for member in Outcome},
            end_reasons={member.name.lower(): self._end_reasons[member] for member in EndReason},
            health=self._health(ungraded),
            success_rate=rate,
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
            seconds_to_success=self._seconds_to_success.spread(),
            tokens_to_success=self._tokens_to_success.spread(),
            reward=self._rewards.spread(),
            odd_rewards=self._odd_rewards,
            pass_at_k={k: _pass_rate(k, tasks, pass_at_k) for k in ks},
            pass_hat_k={k: _pass_rate(k, tasks, pass_hat_k) for k in ks},
            throughput=Throughput(
                wall_seconds=wall_seconds,
                episode_seconds=self._episode_seconds,
                episodes=total,
                steps=self._steps,
            ),
            seconds_by_phase=self._times,
            models=ModelUse(**self._models, cost=self._cost if self._priced else None),
        )

    def _health(self, ungraded: int) -> dict[str, Ratio]:
        classes, seen = self._classes, self._behaviour
        valid, total = classes[EpisodeClass.VALID], classes.total()
        counts = (
            (self._broken, total),
            (classes[EpisodeClass.UNFINISHED], total),
            (classes[EpisodeClass.BLOCKED], total),
            (ungraded, valid),
            (valid - self._rewards.spread().count, valid),
            (seen["cut_replies"], seen["replies"]),
            (seen["refused_replies"], seen["replies"]),
            (seen["unsettled"], seen["settle_reports"]),
            (seen["repeated_pages"], seen["page_pairs"]),
        )
        return {name: Ratio(*pair) for name, pair in zip(HEALTH, counts, strict=True)}

    def _add_valid(self, facts: EpisodeFacts) -> None:
        self._valid_steps += facts.num_steps
        success = has_succeeded(facts.outcome, facts.end_reason)
        if success is not None:
            self._grades[facts.outcome] += 1
            groups = self._attempts.setdefault(facts.task, {})
            made, solved = groups.get(facts.attempts_key, (0, 0))
            groups[facts.attempts_key] = (made + 1, solved + success)
            if success:
                self._add_success(facts)
        if facts.reward is not None and is_scored(facts.outcome, facts.end_reason):
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

    def _add_success(self, facts: EpisodeFacts) -> None:
        self._steps_to_success.add(facts.num_steps)
        if facts.seconds is not None:
            self._seconds_to_success.add(facts.seconds)
        account = None if facts.steps is None else facts.steps.account
        if account is not None and account.calls and not account.uncounted:
            self._tokens_to_success.add(account.tokens.total)

    def _add_use(self, steps: StepFacts) -> None:
        account, tokens = steps.account, steps.account.tokens
        self._with_steps += 1
        self._times += steps.times
        self._cost += account.cost
        self._models.update(
            calls=account.calls,
            failed_calls=account.failures,
            failed_attempts=account.failed_attempts,
            uncounted_calls=account.uncounted,
            input_tokens=tokens.input,
            cached_input_tokens=tokens.cached_input,
            cache_write_tokens=tokens.cache_write,
            output_tokens=tokens.output,
            unpriced_calls=sum(account.unpriced.values()),
        )

    def _pass_values(self) -> tuple[Sequence[int], Mapping[_Task, int]]:
        """Return the values of k, and how many tasks have each number of attempts and successes."""
        tasks = collections.Counter(
            tuple(sorted(groups.values())) for groups in self._attempts.values()
        )
        if self._ks is not None:
            return self._ks, tasks
        largest = max((made for groups in tasks for made, _ in groups), default=0)
        return [2**power for power in range(largest.bit_length())], tasks


_Task = tuple[tuple[int, int], ...]
"""The attempts and successes of each group of attempts at a task."""


def _pass_rate(
    k: int, tasks: Mapping[_Task, int], chance: Callable[[int, int, int], float]
) -> PassRate:
    found: list[tuple[float, int, int]] = []
    left_out = 0
    for groups, number in tasks.items():
        chances = [chance(made, solved, k) for made, solved in groups if made >= k]
        left_out += (len(groups) - len(chances)) * number
        if chances:
            found.append((math.fsum(chances), len(chances), number))
    return PassRate(k, tuple(sorted(found)), left_out)


_COUNTED = (
    "cut_replies", "refused_replies", "settle_reports", "unsettled", "page_pairs", "repeated_pages",
    "replies", "reply_characters", "go_backs", "choices", "invalid_choices", "judged_actions",
    "failed_actions", "repeated",
)  # fmt: skip
