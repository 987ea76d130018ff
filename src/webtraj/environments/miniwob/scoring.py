"""What a MiniWoB++ episode is worth.

A page gives a raw reward, mostly 1 or -1 and now and then a fraction, and scales it down by the
time taken. Time limits are lifted here, so wall time decides nothing; what the page would have
given under its own limit is kept beside the raw reward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from webtraj import errors as errors_lib
from webtraj.environments.browser import tasks as tasks_lib

__all__ = ["SUCCESS_RULES", "RewardKind", "judge", "success_rule"]

RewardKind = Literal["raw", "scaled", "binary"]
"""What `TimeStep.reward` is: the page's raw reward; that scaled by wall time, as the page itself
would; or 1.0 for success and 0.0 for all else."""

SUCCESS_RULES: Final[Mapping[str, Callable[[float], bool]]] = MappingProxyType(
    {
        "full": lambda raw: raw >= 1.0,
        "positive": lambda raw: raw > 0.0,
    }
)
"""Rules from raw reward to success. `full` is the default; `positive` is BrowserGym's, which counts
a reward of 0.1 as solved."""


def success_rule(name: str) -> Callable[[float], bool]:
    """Returns the success rule of that name.

    Raises:
        InvalidInputError: There is none.
    """
    if name not in SUCCESS_RULES:
        raise errors_lib.InvalidInputError(
            f"success is one of {', '.join(SUCCESS_RULES)}; got {name!r}."
        )
    return SUCCESS_RULES[name]


def judge(
    state: Mapping[str, Any], *, reward: RewardKind, success: Callable[[float], bool]
) -> tasks_lib.Verdict:
    """Returns the verdict on what `page.js` tells of the episode."""
    raw, scaled, done = float(state["raw"]), float(state["scaled"]), bool(state["done"])
    succeeded = done and success(raw)
    rewards = {"raw": raw, "scaled": scaled, "binary": float(succeeded)}
    return tasks_lib.Verdict(
        done=done,
        reward=rewards[reward] if done else 0.0,
        success=succeeded,
        raw_reward=raw,
        scaled_reward=scaled,
        reason=state["reason"],
    )
