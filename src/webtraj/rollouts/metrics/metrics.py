"""`RolloutMetrics`: what a set of episodes comes to. Plain numbers, each with its counts.

The names of the fields are the names in `metrics.json`; they do not change within a
`SCHEMA_VERSION`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from webtraj.rollouts.metrics.crashes import CrashRule
from webtraj.rollouts.metrics.phases import PhaseTimes
from webtraj.rollouts.metrics.values import PassAtK, Rate, Ratio, Spread

__all__ = ["ModelUse", "RolloutMetrics", "Throughput"]


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
