"""`clean` drops episodes that there is nothing to learn from, `dedupe` those that were there."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import numpy as np

from webtraj import trajectory as trajectory_lib
from webtraj.processing.base import Drop
from webtraj.processing.steps import looking, options
from webtraj.trajectory import INFRASTRUCTURE_FAILURES, EndReason, Outcome

__all__ = ["Clean", "Dedupe"]

# `clean`: drops episodes that there is nothing to learn from, for reasons that are counted.

_BROKEN_ENDS = {
    EndReason.UNKNOWN: "open",
    EndReason.INTERRUPTED: "interrupted",
    EndReason.CLOSED: "closed",
    EndReason.ERRORED: "errored",
    EndReason.CANCELLED: "cancelled",
    EndReason.CRASHED: "crashed",
}
_BROKEN = (*INFRASTRUCTURE_FAILURES, Outcome.AGENT_ERROR, Outcome.CANCELLED)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """Drops what is empty, too short, has holes, holds no action at all, or was cut short.

    The reasons, in the order in which they are looked for:

    * `open`, `errored`, `crashed`, ...: the record did not end by the episode's own end.
    * `outcome env_error`, `timeout`, ...: infrastructure failed, or the agent raised.
    * `empty`: no steps, or observations that hold nothing.
    * `too short`: fewer than `min_steps` actions.
    * `no observation`, `no action`, `no response`: None where there has to be something. A model's
      reply is none if it has neither text nor a raw body.
    * `no valid action`: every reply was one that could not be read.

    >>> from webtraj.trajectory import EpisodeInfo
    >>> Clean()(trajectory_lib.EpisodeTrajectory(EpisodeInfo(episode_id="e1"))).reason
    'open'
    """

    name: str = dataclasses.field(default="clean", init=False)
    version: str = dataclasses.field(default="1", init=False)
    needs_model: ClassVar[bool] = False
    min_steps: int = 1
    """Actions that an episode must have. Many tasks take a single click, so 1 keeps them."""

    def __post_init__(self) -> None:
        options.check_number(self.name, "min_steps", self.min_steps, least=0)

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was told."""
        return options.settings_of(self)

    def __call__(
        self, trajectory: trajectory_lib.EpisodeTrajectory
    ) -> trajectory_lib.EpisodeTrajectory | Drop:
        """Return the episode itself, or why it is dropped."""
        return next(self._faults(trajectory), trajectory)

    def _faults(self, trajectory: trajectory_lib.EpisodeTrajectory) -> Iterator[Drop]:
        if trajectory.end_reason in _BROKEN_ENDS:
            error = trajectory.end.error if trajectory.end is not None else None
            yield Drop(
                _BROKEN_ENDS[trajectory.end_reason],
                f"{error.type}: {error.message}" if error else "",
            )
        if trajectory.outcome in _BROKEN:
            detail = trajectory.end.detail if trajectory.end is not None else ""
            yield Drop(f"outcome {trajectory.outcome.name.lower()}", detail)
        if all(looking.is_empty(step.observation) for step in trajectory.steps):
            yield Drop("empty")
        if trajectory.num_steps < self.min_steps:
            yield Drop("too short", f"{trajectory.num_steps} of {self.min_steps}")
        for step in trajectory.steps:
            if hole := _hole_in(step):
                yield Drop(hole, f"step {step.index}")
        actions = trajectory.steps[1:]
        if actions and all(looking.is_invalid(step) for step in actions):
            yield Drop("no valid action", f"{len(actions)} replies")


def _hole_in(step: trajectory_lib.StepRecord) -> str:
    observation = step.observation
    if looking.is_empty(observation):
        return "no observation"
    if isinstance(observation, Mapping) and any(value is None for value in observation.values()):
        return "no observation"
    if step.first:
        return ""
    if step.action is None:
        return "no action"
    calls = () if step.decision is None else step.decision.model_calls
    # Calls that failed before are no hole: the last one was answered.
    if calls and not calls[-1].text and calls[-1].response is None:
        return "no response"
    return ""


# `dedupe`: drops episodes that are the same as, or nearly the same as, one before.

_NUM_HASHES: Final = 64
_BANDS: Final = 16
_PRIME: Final = (1 << 31) - 1
_SHINGLE: Final = 2
"""How many steps that follow each other are compared as one."""


def _coefficients() -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the hash functions. They are fixed: signatures of all times compare."""
    data = hashlib.shake_256(b"webtraj dedupe 1").digest(_NUM_HASHES * 16)
    values = np.array(struct.unpack(f"<{_NUM_HASHES * 2}Q", data), dtype=np.uint64)
    return (values % np.uint64(_PRIME - 1) + np.uint64(1)).reshape(2, _NUM_HASHES)


_MULTIPLY, _ADD = _coefficients()


class Dedupe:
    """Keeps the first of episodes that are alike, in the dataset's order.

    Only episodes of the same task, goal and outcome are compared. They are the same if they did the
    same, step for step: the action with the element's role and name in place of its ref, on the
    same page. They are nearly the same if the pairs of steps that they have in common are at least
    `threshold` of all that either has (Jaccard's index, estimated by 64 min-hashes, so that it is
    right within about 0.06).

    With `threshold=1` only the same ones go, which is exact. An episode that is better than all
    like it stays too with `prefer_reward`: what was kept before is not taken back.

    Args:
        threshold: From which likeness on an episode is dropped; above 0, at most 1.
        prefer_reward: Whether one with more reward than those before stays.
        same_pages: Whether the pages have to be the same, too. Without, two episodes are alike if
            they did the same anywhere.

    Raises:
        InvalidInputError: An option is out of its range.
    """

    name = "dedupe"
    version = "1"
    needs_model = False

    def __init__(
        self,
        *,
        threshold: float = 0.9,
        prefer_reward: bool = False,
        same_pages: bool = True,
    ) -> None:
        # A likeness of a half is what the bands are sure to find.
        options.check_number(self.name, "threshold", threshold, least=0.5, most=1, whole=False)
        options.check_flags(self.name, prefer_reward=prefer_reward, same_pages=same_pages)
        self._threshold = float(threshold)
        self._prefer_reward = prefer_reward
        self._same_pages = same_pages
        self._exact: dict[str, _Kept] = {}
        self._banded: collections.defaultdict[tuple[Any, ...], list[_Kept]] = (
            collections.defaultdict(list)
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        """What it was told."""
        return {
            "threshold": self._threshold,
            "prefer_reward": self._prefer_reward,
            "same_pages": self._same_pages,
        }

    def signature(self, trajectory: trajectory_lib.EpisodeTrajectory) -> dict[str, Any]:
        """Return what tells the episode from others: about a kilobyte, whatever its length."""
        done = list(_steps_of(trajectory, self._same_pages))
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
        """Return why an episode is dropped; keeps it in mind if it is not."""
        new = _Kept(
            signature["id"],
            signature["exact"],
            np.array(signature["minhash"], dtype=np.uint32),
            signature["reward"],
        )
        group = signature["group"]
        like, likeness = self._most_like(group, new)
        if like is not None and not (self._prefer_reward and new.reward > like.reward):
            exact = likeness == 1 and like.exact == new.exact
            detail = f"like {like.episode_id}, {likeness:.2f}"
            return Drop("the same as another" if exact else "nearly the same as another", detail)
        self._exact[new.exact] = new
        for band in self._bands_of(group, new):
            self._banded[band].append(new)
        return None

    def _most_like(self, group: str, new: _Kept) -> tuple[_Kept | None, float]:
        """Return the best one kept that is alike: the one with the most reward, then the first."""
        found: dict[str, tuple[_Kept, float]] = {}
        if new.exact in self._exact:
            same = self._exact[new.exact]
            found[same.episode_id] = (same, 1.0)
        for band in self._bands_of(group, new):
            for other in self._banded.get(band, ()):
                likeness = float(np.mean(other.minhash == new.minhash))
                if likeness >= self._threshold:
                    found.setdefault(other.episode_id, (other, likeness))
        if not found:
            return None, 0.0
        return max(found.values(), key=lambda pair: pair[0].reward)

    def _bands_of(self, group: str, kept: _Kept) -> Iterator[tuple[Any, ...]]:
        if self._threshold == 1:
            return
        for number, band in enumerate(kept.minhash.reshape(_BANDS, -1).tolist()):
            yield (group, number, *band)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """An episode that was let in."""

    episode_id: str
    exact: str
    minhash: np.ndarray[Any, np.dtype[np.uint32]]
    reward: float


def _steps_of(trajectory: trajectory_lib.EpisodeTrajectory, same_pages: bool) -> Iterator[str]:
    """Yield what each step was, so that the same done on the same page is the same text."""
    before: Any = None
    for step in trajectory.steps:
        page = _page_of(step.observation) if same_pages else ""
        if step.first:
            yield _hash("first", page)
        else:
            yield _hash(_done(before, step), page)
        before = step.observation


def _page_of(observation: Any) -> str:
    if not isinstance(observation, Mapping):
        return _hash(repr(looking.content_of(observation)))
    return looking.fingerprint(observation, screenshot=False) or _hash(
        repr(looking.content_of(observation))
    )


def _done(before: Any, step: trajectory_lib.StepRecord) -> str:
    action = looking.action_of(step.action)
    if action is None or not dataclasses.is_dataclass(action):
        return repr(looking.content_of(step.action))
    element = looking.element_of(before, step)
    fields = {
        field.name: getattr(action, field.name)
        for field in dataclasses.fields(action)
        # A ref counts the elements of an episode; where nothing else is known, it has to do.
        if not (field.name == "ref" and element.role)
    }
    return repr((action.verb, element.role, element.name, sorted(fields.items())))


def _minhash(done: list[str]) -> list[int]:
    shingles = {_hash(*done[at : at + _SHINGLE]) for at in range(max(len(done) - 1, 1))}
    numbers = np.array(sorted(int(shingle[:8], 16) for shingle in shingles), dtype=np.uint64)
    values = (numbers[:, None] % np.uint64(_PRIME) * _MULTIPLY + _ADD) % np.uint64(_PRIME)
    return [int(value) for value in values.min(axis=0)]


def _plain_reward(reward: float) -> float:
    """Return a reward as JSON can hold it; what is no number counts as 0."""
    return reward if math.isfinite(reward) else 0.0


def _hash(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:32]
