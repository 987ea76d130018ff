"""Counting episodes one by one, in memory that does not grow with their number."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable

from webtraj.rollouts.metrics.clock import BusyTime
from webtraj.rollouts.metrics.crashes import CrashRule, EpisodeClass, classify
from webtraj.rollouts.metrics.estimators import pass_at_k
from webtraj.rollouts.metrics.facts import EpisodeFacts
from webtraj.rollouts.metrics.metrics import ModelUse, RolloutMetrics, Throughput
from webtraj.rollouts.metrics.phases import PhaseTimes
from webtraj.rollouts.metrics.steps import StepFacts
from webtraj.rollouts.metrics.values import PassAtK, Rate, Ratio, SpreadTally
from webtraj.trajectory import AGENT_FAILURES, INFRASTRUCTURE_FAILURES, EndReason, Outcome

__all__ = ["Tally"]

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
