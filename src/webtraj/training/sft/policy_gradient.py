"""Policy-gradient training: advantages of sampled replies, and the clipped loss on their tokens.

    ratio    = exp(logp - logp_old)
    loss     = -min(ratio * A, clip(ratio, 1 - clip_low, 1 + clip_high) * A)

`logp_old` is the recorded log-probability of the token under the weights that sampled it (PPO:
Schulman et al. 2017). With `proximal` it is the log-probability under the weights that the run
starts from, and the loss is multiplied by `min(exp(logp_old - logp_sampled), max_importance)`
(decoupled PPO, truncated importance sampling). `A` is the advantage of the token's episode within
its group.

An episode whose reward is unknown has no advantage and is left out: a failure of the infrastructure
is never a reward of 0.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from webtraj import errors
from webtraj.training.samples import Sample
from webtraj.training.sft.batches import Batch
from webtraj.training.sft.encoding import Encoded
from webtraj.training.sft.settings import PolicySettings
from webtraj.trajectory import Outcome, group_of

__all__ = [
    "SUMS",
    "Advantages",
    "PolicyGradient",
    "advantages_of",
    "is_zero",
    "temperature_of",
    "weigh",
    "with_policy",
]

_LOGGER = logging.getLogger(__name__)

_SPREAD = 1e-9
"""Advantages below this come from rounding: the group has no spread."""
_EPSILON = 1e-4
"""Added to a group's deviation, as TRL does."""
_FURTHEST = 20.0
"""Log-ratios are clamped to this: one odd log-probability must not make the loss infinite."""
SUMS = ("tokens", "ratio", "clipped", "entropy", "mismatch")
"""The sums of a batch for the log."""


def advantages_of(rewards: Mapping[str, float], kind: str) -> dict[str, float]:
    """Return the advantage of each attempt of one group.

    Args:
        rewards: The reward of each attempt, by its name.
        kind: See `PolicySettings.advantage`.

    >>> advantages_of({"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0}, "group_mean")
    {'a': 0.75, 'b': -0.25, 'c': -0.25, 'd': -0.25}
    >>> advantages_of({"a": 1.0, "b": 0.0}, "leave_one_out")
    {'a': 1.0, 'b': -1.0}
    >>> advantages_of({"a": 1.0}, "leave_one_out")
    {'a': 0.0}
    """
    size = len(rewards)
    mean = statistics.fmean(rewards.values())
    scale = 1.0
    if kind == "leave_one_out" and size > 1:
        scale = size / (size - 1)
    elif kind == "group_mean_std" and size > 1:
        scale = 1.0 / (statistics.stdev(rewards.values()) + _EPSILON)
    return {name: (reward - mean) * scale for name, reward in rewards.items()}


class Advantages:
    """The advantages of a run's samples.

    An episode counts once in its group, no matter how many replies it has. If all attempts of a
    group failed, all advantages are 0, even if shaped rewards differ, because none shows how to
    succeed.

    Args:
        samples: All samples of the run.
        settings: The kind of advantage and the largest staleness.

    Raises:
        InvalidInputError: Two samples of one episode have different rewards.
    """

    def __init__(self, samples: Iterable[Sample], settings: PolicySettings) -> None:
        self._settings = settings
        self._newest = 0
        groups: dict[str, dict[str, float]] = collections.defaultdict(dict)
        outcomes: dict[str, set[Outcome]] = collections.defaultdict(set)
        played: dict[str, int] = {}
        for sample in samples:
            if not sample.logprobs:
                continue
            self._newest = max(self._newest, sample.iteration)
            if sample.reward is None:
                continue
            played[_group_of(sample)] = sample.iteration
            outcomes[_group_of(sample)].add(sample.outcome)
            rewards = groups[_group_of(sample)]
            if rewards.setdefault(sample.key.episode_id, sample.reward) != sample.reward:
                raise errors.InvalidInputError(
                    f"Episode {sample.key.episode_id:.100} has the rewards "
                    f"{rewards[sample.key.episode_id]} and {sample.reward}; expected the same "
                    "reward in all of its rows."
                )
        self._of = {
            name: dict.fromkeys(group, 0.0)
            if outcomes[name] == {Outcome.FAILURE}
            else advantages_of(group, settings.advantage)
            for name, group in groups.items()
        }
        fresh = [name for name in groups if not self._is_old(played[name])]
        self.rewards = [tuple(groups[name].values()) for name in fresh]
        """The rewards of each group that is not stale."""
        self.uneven = sum(not all(map(is_zero, self._of[name].values())) for name in fresh)
        """The number of these groups whose attempts have different advantages."""

    def of(self, sample: Sample) -> float | None:
        """Return a sample's advantage; None if its reward is unknown."""
        if self._settings.advantage == "recorded":
            return sample.advantage
        if sample.reward is None:
            return None
        return self._of[_group_of(sample)][sample.key.episode_id]

    def is_stale(self, sample: Sample) -> bool:
        """Return whether a sampled reply is older than `max_staleness` allows."""
        return bool(sample.logprobs) and self._is_old(sample.iteration)

    def age_of(self, sample: Sample) -> int:
        """Return how many iterations a sampled reply is older than the newest one."""
        return self._newest - sample.iteration

    def _is_old(self, iteration: int) -> bool:
        most = self._settings.max_staleness
        return most is not None and self._newest - iteration > most


def temperature_of(samples: Iterable[Sample], settings: PolicySettings) -> float:
    """Return the temperature at which replies were sampled.

    If a reply's temperature was not recorded, the one in the settings is used, or else 1 with a
    warning.

    Raises:
        InvalidInputError: A row was sampled at another temperature than other rows, or than the
            settings say; or some rows do not say, and others were not sampled at 1.
    """
    wanted = settings.temperature
    unknown = 0
    for sample in samples:
        found = sample.temperature
        if not sample.logprobs:
            continue
        if found is None:
            if settings.temperature is not None:
                continue
            unknown += 1
            found = 1.0
        if wanted is None:
            wanted = found
        if found != wanted or not found:
            raise errors.InvalidInputError(
                f"Episode {sample.key.episode_id:.100} was sampled at temperature {found:g}"
                f"{' (assumed, since none is on record)' if sample.temperature is None else ''}; "
                f"expected {f'{wanted:g}' if wanted else 'one above 0'}, as policy.temperature or "
                "earlier rows have it. Train on rows of one temperature, or set "
                "policy.temperature if it is known."
            )
    if unknown:
        _LOGGER.warning(
            "%d replies have no temperature on record, and 1 is assumed. If the server chose "
            "another one, or cuts off unlikely tokens (top_p, top_k), ratios are wrong: sample "
            "with temperature=1, top_p=1 and top_k=-1, or set policy.temperature.",
            unknown,
        )
    return 1.0 if wanted is None else wanted


def is_zero(advantage: float) -> bool:
    """Return whether an advantage is zero, because the attempts of its group did equally well."""
    return abs(advantage) < _SPREAD


def with_policy(encoded: Encoded, advantage: float | None, settings: PolicySettings) -> Encoded:
    """Return an encoded sample with its advantage, and its weight by the normalizer.

    Raises:
        InvalidInputError: It has an advantage but no recorded token ids. To imitate it instead
            would teach failures.
    """
    if advantage is not None and encoded.behaviour is None:
        raise errors.InvalidInputError(
            f"{encoded.name} has log-probabilities but lacks recorded token ids; add those of its "
            "prompt and completion, or leave out its log-probabilities to imitate it."
        )
    weight = encoded.weight * (settings.supervised_weight if advantage is None else 1.0)
    weight, mass = weigh(weight, int(encoded.trained.sum()), settings)
    return dataclasses.replace(encoded, advantage=advantage, weight=weight, mass=mass)


def weigh(weight: float, trained_tokens: int, settings: PolicySettings) -> tuple[float, float]:
    """Return the weight of each token of a sample, and its share of the loss's denominator.

    >>> weigh(1.0, 4, PolicySettings(normalizer="tokens"))
    (1.0, 4.0)
    >>> weigh(1.0, 4, PolicySettings(normalizer="sequences"))
    (0.25, 1.0)
    >>> weigh(1.0, 4, PolicySettings(normalizer="constant", constant=100))
    (1.0, 100.0)
    """
    match settings.normalizer:
        case "tokens":
            return weight, weight * trained_tokens
        case "sequences":
            return weight / trained_tokens, weight
        case _:
            return weight, weight * settings.constant


def _group_of(sample: Sample) -> str:
    # As in the replay buffer: attempts in another iteration came from other weights.
    return f"{sample.iteration}\0{group_of(sample.group_id, sample.policy, sample.task)}"


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyGradient:
    """The loss of each trained token of a batch."""

    settings: PolicySettings

    def __call__(self, nll: Any, batch: Batch) -> tuple[Any, dict[str, Any]]:
        """Return the loss of each trained token, and sums for the log.

        Args:
            nll: The negative log-likelihood of each trained token of the batch, with a gradient.
            batch: The batch.
        """
        import torch

        if batch.policy is None:
            return nll, {}
        wanted = batch.targets >= 0
        advantages, behaviour, old = (
            part[wanted].to(nll.device)
            for part in (batch.policy.advantages, batch.policy.behaviour, batch.policy.proximal)
        )
        sampled = ~torch.isnan(advantages)
        advantages = torch.where(sampled, advantages, 0.0)
        log_ratio = torch.where(sampled, -nll - old, 0.0).clamp(-_FURTHEST, _FURTHEST)
        ratio = log_ratio.exp()
        low, high = 1 - self.settings.clip_low, 1 + self.settings.clip_high
        clipped = ratio.clamp(low, high)
        loss = -torch.minimum(ratio * advantages, clipped * advantages)
        if self.settings.proximal:
            loss = loss * (old - behaviour).exp().clamp(max=self.settings.max_importance)
        with torch.no_grad():
            is_clipped = (ratio * advantages > clipped * advantages) & sampled
            sums = {
                "tokens": sampled.sum(),
                "ratio": ratio[sampled].sum(),
                "clipped": is_clipped.sum(),
                "entropy": nll[sampled].sum(),
                "mismatch": (-nll - behaviour)[sampled].abs().sum(),
            }
        return torch.where(sampled, loss, nll), sums

    def read(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return a step's log entry from its sums over all batches.

        `ratio` is the mean probability ratio, `clipped` the share of tokens whose ratio was
        clipped, and `entropy` the mean negative log-likelihood of the sampled tokens. `mismatch` is
        the mean distance between log-probabilities here and at sampling: in the first step on fresh
        samples, the mismatch of serving and training.
        """
        tokens = sums.get("tokens", 0.0)
        if not tokens or not math.isfinite(tokens):
            return {}
        return {
            f"policy_{name}": float(value) / tokens
            for name, value in sums.items()
            if name != "tokens"
        }
