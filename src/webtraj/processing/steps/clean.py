"""`clean` drops episodes that teach nothing; `dedupe` drops duplicates."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from webtraj import trajectory as trajectory_lib
from webtraj.environments.actions.recorded import is_invalid
from webtraj.processing.base import Drop
from webtraj.processing.steps import observations, options
from webtraj.trajectory import EndReason, ended_in_error

__all__ = ["Clean", "Dedupe"]

# `clean`: drops episodes that teach nothing and counts the reasons.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Clean(options.PlainStep):
    """Drops episodes that are empty, too short, incomplete, without valid actions, or cut short.

    The reasons, in the order of checking:

    * `open`, `errored`, `crashed`, ...: the episode did not end by itself.
    * `outcome env_error`, `timeout`, ...: infrastructure failed, or the agent raised.
    * `empty`: no steps, or observations that hold nothing.
    * `too short`: fewer than `min_steps` actions.
    * `gap`: a step could not be recorded.
    * `no observation`, `no action`, `no response`: a required value is None, or a channel that
      other steps have. A model's reply with neither text nor a raw body counts as missing.
    * `no valid action`: no reply could be parsed.

    >>> from webtraj.trajectory import EpisodeInfo
    >>> Clean()(trajectory_lib.EpisodeTrajectory(EpisodeInfo(episode_id="e1"))).reason
    'open'
    """

    name: str = dataclasses.field(default="clean", init=False)
    version: str = dataclasses.field(default="2", init=False)
    min_steps: int = 1
    """The minimum number of actions. Many tasks take a single click, so 1 keeps them."""

    def __post_init__(self) -> None:
        options.check_number(self.name, "min_steps", self.min_steps, least=0)

    def __call__(
        self, trajectory: trajectory_lib.EpisodeTrajectory
    ) -> trajectory_lib.EpisodeTrajectory | Drop:
        """Return the episode unchanged, or a Drop."""
        return next(self._faults(trajectory), trajectory)

    def _faults(self, trajectory: trajectory_lib.EpisodeTrajectory) -> Iterator[Drop]:
        outcome, reason = trajectory.outcome, trajectory.end_reason
        if not (trajectory.terminated or trajectory.truncated):
            error = trajectory.end.error if trajectory.end is not None else None
            yield Drop(
                "open" if reason is EndReason.UNKNOWN else reason.name.lower(),
                f"{error.type}: {error.message}" if error else "",
            )
        if not trajectory.finished or ended_in_error(outcome, reason):
            detail = trajectory.end.detail if trajectory.end is not None else ""
            yield Drop(f"outcome {outcome.name.lower()}", detail)
        if all(observations.is_empty(step.observation) for step in trajectory.steps):
            yield Drop("empty")
        if trajectory.num_steps < self.min_steps:
            yield Drop("too short", f"{trajectory.num_steps} of {self.min_steps}")
        if trajectory.lost_step is not None:
            yield Drop("gap", f"step {trajectory.lost_step}")
        never = observations.never_observed(trajectory)
        for step in trajectory.steps:
            if hole := _hole_in(step, never):
                yield Drop(hole, f"step {step.index}")
        actions = trajectory.steps[1:]
        if actions and all(is_invalid(step) for step in actions):
            yield Drop("no valid action", f"{len(actions)} replies")


def _hole_in(step: trajectory_lib.StepRecord, never: frozenset[str]) -> str:
    if observations.is_unobserved(step.observation, never):
        return "no observation"
    if step.first:
        return ""
    if step.action is None:
        return "no action"
    calls = () if step.decision is None else step.decision.model_calls
    # Earlier failed calls do not matter: the last one was answered.
    if calls and not calls[-1].text and calls[-1].response is None:
        return "no response"
    return ""


# `dedupe`: drops episodes that equal, or nearly equal, an earlier one.

_NUM_HASHES: Final = 64
_BANDS: Final = 16
_PRIME: Final = (1 << 31) - 1
_SHINGLE: Final = 2
"""The number of consecutive steps compared as a unit."""


def _coefficients() -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the hash functions. They are fixed, so that signatures of all runs are comparable."""
    data = hashlib.shake_256(b"webtraj dedupe 1").digest(_NUM_HASHES * 16)
    values = np.array(struct.unpack(f"<{_NUM_HASHES * 2}Q", data), dtype=np.uint64)
    return (values % np.uint64(_PRIME - 1) + np.uint64(1)).reshape(2, _NUM_HASHES)


_MULTIPLY, _ADD = _coefficients()


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Dedupe(options.PlainStep):
    """Keeps the first of similar episodes, in the dataset's order.

    Only episodes of the same task, goal and outcome are compared. Two are the same if all their
    steps match: the same action on the same page, with the element's role and name in place of its
    ref. They are nearly the same if the Jaccard index of their pairs of consecutive steps is at
    least `threshold` (estimated by 64 min-hashes, with an error of about 0.06).

    With `threshold=1`, only exact duplicates are dropped. With `prefer_reward`, an episode with a
    higher reward than all similar ones is kept too. Episodes that were kept earlier stay.

    Raises:
        InvalidInputError: An option is out of range.
    """

    name: str = dataclasses.field(default="dedupe", init=False)
    version: str = dataclasses.field(default="2", init=False)
    threshold: float = 0.9
    """The similarity from which an episode is dropped; above 0, at most 1."""
    prefer_reward: bool = False
    """Whether to keep an episode with more reward than the earlier ones."""
    same_pages: bool = True
    """Whether the pages must be the same too. If not, two episodes are similar if they took the
    same actions anywhere."""
    _exact: dict[str, _Kept] = dataclasses.field(default_factory=dict, init=False, repr=False)
    _banded: dict[tuple[Any, ...], list[_Kept]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(list), init=False, repr=False
    )

    def __post_init__(self) -> None:
        # The bands reliably find a similarity of one half.
        options.check_number(self.name, "threshold", self.threshold, least=0.5, most=1, whole=False)
        options.check_flags(self)
        self.threshold = float(self.threshold)

    def signature(self, trajectory: trajectory_lib.EpisodeTrajectory) -> dict[str, Any]:
        """Return the episode's signature: about a kilobyte, whatever its length."""
        done = list(_steps_of(trajectory, self.same_pages))
        info = trajectory.info
        group = _hash(info.task, " ".join(info.goal.split()), trajectory.outcome.name)
        return {
            "id": trajectory.episode_id,
            "group": group,
            "exact": _hash(group, *done),
            "minhash": _minhash(done),
            "reward": _plain_reward(trajectory.total_reward),
        }

    def admit(self, signature: Any) -> Drop | None:
        """Return a Drop, or remember the episode and return None."""
        new = _Kept(
            signature["id"],
            signature["exact"],
            np.array(signature["minhash"], dtype=np.uint32),
            signature["reward"],
        )
        group = signature["group"]
        like, likeness = self._most_like(group, new)
        if like is not None and not (self.prefer_reward and new.reward > like.reward):
            exact = likeness == 1 and like.exact == new.exact
            detail = f"like {like.episode_id}, {likeness:.2f}"
            return Drop("the same as another" if exact else "nearly the same as another", detail)
        self._exact[new.exact] = new
        for band in self._bands_of(group, new):
            self._banded[band].append(new)
        return None

    def _most_like(self, group: str, new: _Kept) -> tuple[_Kept | None, float]:
        """Return the similar episode that was kept with the highest reward; the first of equals."""
        found: dict[str, tuple[_Kept, float]] = {}
        if new.exact in self._exact:
            same = self._exact[new.exact]
            found[same.episode_id] = (same, 1.0)
        for band in self._bands_of(group, new):
            for other in self._banded.get(band, ()):
                likeness = float(np.mean(other.minhash == new.minhash))
                if likeness >= self.threshold:
                    found.setdefault(other.episode_id, (other, likeness))
        if not found:
            return None, 0.0
        return max(found.values(), key=lambda pair: pair[0].reward)

    def _bands_of(self, group: str, kept: _Kept) -> Iterator[tuple[Any, ...]]:
        if self.threshold == 1:
            return
        for number, band in enumerate(kept.minhash.reshape(_BANDS, -1).tolist()):
            yield (group, number, *band)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """An episode that was admitted."""

    episode_id: str
    exact: str
    minhash: np.ndarray[Any, np.dtype[np.uint32]]
    reward: float


def _steps_of(trajectory: trajectory_lib.EpisodeTrajectory, same_pages: bool) -> Iterator[str]:
    """Yield a text per step, equal for the same action on the same page."""
    before: Any = None
    for step in trajectory.steps:
        page = _page_of(step.observation) if same_pages else ""
        if step.first:
            yield _hash("first", page)
        else:
            yield _hash(_describe_deed(before, step), page)
        before = step.observation


def _page_of(observation: Any) -> str:
    if not isinstance(observation, Mapping):
        return _hash(repr(observations.content_of(observation)))
    return observations.fingerprint(observation, screenshot=False) or _hash(
        repr(observations.content_of(observation))
    )


def _describe_deed(before: Any, step: trajectory_lib.StepRecord) -> str:
    action = observations.action_of(step.action)
    if action is None or not dataclasses.is_dataclass(action):
        return repr(observations.content_of(step.action))
    element = observations.element_of(before, step)
    fields = {
        field.name: getattr(action, field.name)
        for field in dataclasses.fields(action)
        # Refs depend on the episode; use one only if nothing else is known.
        if not (field.name == "ref" and element.role)
    }
    return repr((action.verb, element.role, element.name, sorted(fields.items())))


def _minhash(done: list[str]) -> list[int]:
    shingles = {_hash(*done[at : at + _SHINGLE]) for at in range(max(len(done) - 1, 1))}
    numbers = np.array(sorted(int(shingle[:8], 16) for shingle in shingles), dtype=np.uint64)
    values = (numbers[:, None] % np.uint64(_PRIME) * _MULTIPLY + _ADD) % np.uint64(_PRIME)
    return [int(value) for value in values.min(axis=0)]


def _plain_reward(reward: float | None) -> float:
    """Return a reward that JSON can hold. A reward that is not a number counts as 0."""
    return reward if reward is not None and math.isfinite(reward) else 0.0


def _hash(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:32]
