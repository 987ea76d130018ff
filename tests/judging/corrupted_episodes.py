"""Corrupted trajectories: successes that are made failures in a way that leaves no doubt.

A corruption applies only where its label is known, by a rule that goes with it; elsewhere it gives
nothing. All but the last need an environment that shows in each observation whether the task is
done (`info.success`), which MiniWoB++ and the fixture site do:

* `cut`: the last actions never happened. The environment itself showed, after the last one that is
  left, that the task was not done.
* `claimed`: the same, and then the agent says that it is done. A message changes nothing.
* `idle`: instead of the action that did it, the agent waited, and saw what it saw before.
* `no-answer`: of a task that the answer decided, the answer is that there is none. What answers
  nothing cannot be right.
* `foreign-goal`: the goal is one of another site, which the agent never saw, and it gave no answer.
  Nothing that it did can have done what is asked for there.

What the environment showed of success, after what was changed, is changed with it. The corrupted
episode's outcome is UNKNOWN: what it is worth stands in its label alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import webtraj
from webtraj import errors
from webtraj.environments import actions
from webtraj.environments.actions.recorded import answer_of, final_answer
from webtraj.judging.quality import Label
from webtraj.trajectory import (
    Derivation,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Outcome,
    StepRecord,
    StepType,
)

if TYPE_CHECKING:
    from webtraj.datasets.dataset import Dataset
    from webtraj.datasets.writer import DatasetWriter

__all__ = ["CORRUPTIONS", "Corrupted", "corrupt", "corrupt_dataset"]

_VERSION = "1"
_LONGEST_ID = 128
_CLAIM = "I have done what was asked for."
_NO_ANSWER = "I have no answer to that."


@dataclasses.dataclass(frozen=True, slots=True)
class Corrupted:
    """A corrupted episode, and what it is worth."""

    trajectory: EpisodeTrajectory
    label: Label
    """FAILURE; its source names the corruption: `corruption/cut`."""


def corrupt(
    trajectory: EpisodeTrajectory, kind: str, *, foreign: EpisodeInfo | None = None
) -> Corrupted | None:
    """Returns an episode corrupted; None if its label would not be known.

    The same episode and kind give the same result, its id included.

    Args:
        trajectory: An episode that the environment found a success.
        kind: A key of `CORRUPTIONS`.
        foreign: For `foreign-goal`: an episode of another site, whose goal is taken.

    Raises:
        InvalidInputError: There is no such corruption.
    """
    if kind not in CORRUPTIONS:
        raise errors.InvalidInputError(
            f"There is no corruption {kind!r}; expected one of {', '.join(CORRUPTIONS)}."
        )
    if not _is_success(trajectory):
        return None
    made = CORRUPTIONS[kind](trajectory, foreign)
    if made is None:
        return None
    episode_id = _new_id(trajectory.episode_id, kind)
    derivation = Derivation(
        step=f"corrupt/{kind}",
        version=_VERSION,
        software=f"webtraj {webtraj.__version__}",
        source_episode_id=trajectory.episode_id,
    )
    info = dataclasses.replace(
        made.info, episode_id=episode_id, derivation=(*made.info.derivation, derivation)
    )
    made = dataclasses.replace(made, info=info)
    return Corrupted(made, Label(episode_id, Outcome.FAILURE, f"corruption/{kind}"))


def corrupt_dataset(
    dataset: Dataset, writer: DatasetWriter, *, kinds: Sequence[str] = ()
) -> dict[str, Label]:
    """Writes every corruption of a dataset's successes whose label is known.

    Args:
        dataset: The recorded episodes; they are left as they are.
        writer: Takes the corrupted ones: of another dataset, which is left open.
        kinds: Keys of `CORRUPTIONS`; by default all.

    Returns:
        The labels of what was written.

    Raises:
        InvalidInputError: There is no such corruption.
        StorageError: Something cannot be written.
    """
    labels: dict[str, Label] = {}
    foreign = _Foreign(dataset)
    for summary in dataset.filter(outcome=Outcome.SUCCESS).summaries:
        trajectory = dataset[summary.episode_id]
        for kind in kinds or CORRUPTIONS:
            info = foreign.to(trajectory.info) if kind == "foreign-goal" else None
            made = corrupt(trajectory, kind, foreign=info)
            if made is not None:
                writer.add(made.trajectory)
                labels[made.label.episode_id] = made.label
    return labels


class _Foreign:
    """Finds for each episode one of another site, always the same one."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._by_site: dict[str, list[str]] = {}
        self._infos: dict[str, EpisodeInfo] = {}
        for summary in dataset.summaries:
            if summary.site and summary.goal:
                self._by_site.setdefault(summary.site, []).append(summary.episode_id)

    def to(self, info: EpisodeInfo) -> EpisodeInfo | None:
        others = sorted(
            episode_id
            for site, episode_ids in self._by_site.items()
            if site != info.site
            for episode_id in episode_ids
        )
        if not others:
            return None
        digest = hashlib.blake2b(info.episode_id.encode(), digest_size=8).digest()
        chosen = others[int.from_bytes(digest, "big") % len(others)]
        if chosen not in self._infos:
            self._infos[chosen] = self._dataset[chosen].info
        return self._infos[chosen]


def _cut(trajectory: EpisodeTrajectory, _: EpisodeInfo | None) -> EpisodeTrajectory | None:
    """The first half of the actions, one at least, and never all."""
    kept = max(trajectory.num_steps // 2, 1)
    if kept >= trajectory.num_steps or not _not_done(trajectory.steps[: kept + 1]):
        return None
    *before, last = trajectory.steps[: kept + 1]
    return _ended(trajectory, (*before, _as_last(last)), "the corruption 'cut'")


def _claimed(trajectory: EpisodeTrajectory, _: EpisodeInfo | None) -> EpisodeTrajectory | None:
    kept = max(trajectory.num_steps // 2, 1)
    before = trajectory.steps[: kept + 1]
    if kept >= trajectory.num_steps or not _not_done(before):
        return None
    claim = _idle_step(before[-1], actions.SendMessage(_CLAIM))
    return _ended(trajectory, (*before, claim), "the corruption 'claimed'")


def _idle(trajectory: EpisodeTrajectory, _: EpisodeInfo | None) -> EpisodeTrajectory | None:
    *before, last = trajectory.steps
    if not _not_done(before) or answer_of(last.action) is not None:
        return None
    return _ended(
        trajectory, (*before, _idle_step(before[-1], actions.Wait())), "the corruption 'idle'"
    )


def _no_answer(trajectory: EpisodeTrajectory, _: EpisodeInfo | None) -> EpisodeTrajectory | None:
    *before, last = trajectory.steps
    if not _not_done(before) or not isinstance(last.action, actions.Answer):
        return None
    changed = dataclasses.replace(
        last,
        observation=_undone(last.observation),
        action=actions.Answer(_NO_ANSWER),
        reward=0.0,
        decision=None,
    )
    end = EpisodeEnd(reason=EndReason.TERMINATED)
    return dataclasses.replace(trajectory, steps=(*before, changed), end=end)


def _foreign_goal(
    trajectory: EpisodeTrajectory, foreign: EpisodeInfo | None
) -> EpisodeTrajectory | None:
    if foreign is None or not foreign.goal or final_answer(trajectory) is not None:
        return None
    if not (foreign.site and trajectory.info.site) or foreign.site == trajectory.info.site:
        return None
    metadata = {key: value for key, value in trajectory.info.metadata.items() if key != "task"}
    if "task" in foreign.metadata:
        metadata["task"] = foreign.metadata["task"]
    info = dataclasses.replace(
        trajectory.info,
        task=foreign.task,
        goal=foreign.goal,
        group_id="",
        metadata=metadata,
    )
    steps = tuple(
        dataclasses.replace(
            step,
            observation=_undone(step.observation, goal=foreign.goal),
            reward=None if step.first else 0.0,
            decision=None,
        )
        for step in trajectory.steps
    )
    end = EpisodeEnd(reason=EndReason.TERMINATED)
    return dataclasses.replace(trajectory, info=info, steps=steps, end=end)


CORRUPTIONS: Mapping[
    str, Callable[[EpisodeTrajectory, EpisodeInfo | None], EpisodeTrajectory | None]
] = {
    "cut": _cut,
    "claimed": _claimed,
    "idle": _idle,
    "no-answer": _no_answer,
    "foreign-goal": _foreign_goal,
}
"""The corruptions by name; what each does stands at the top of this module."""


def _is_success(trajectory: EpisodeTrajectory) -> bool:
    return (
        trajectory.end_reason is EndReason.TERMINATED
        and trajectory.outcome is Outcome.SUCCESS
        and trajectory.num_steps > 0
        and trajectory.steps[0].first
    )


def _not_done(steps: Sequence[StepRecord]) -> bool:
    """Returns whether the environment showed at each of these steps that the task was not done."""
    return bool(steps) and all(shown is False for shown in map(_shown, _observations(steps)))


def _observations(steps: Sequence[StepRecord]) -> Iterator[Any]:
    return (step.observation for step in steps)


def _shown(observation: Any) -> bool | None:
    info = observation.get("info") if isinstance(observation, Mapping) else None
    success = info.get("success") if isinstance(info, Mapping) else None
    return None if success is None else bool(success)


def _undone(observation: Any, **changed: Any) -> Any:
    """Returns an observation that shows no success and no reward."""
    if not isinstance(observation, Mapping):
        return observation
    made = {key: changed.get(key, value) for key, value in observation.items()}
    info = made.get("info")
    if isinstance(info, Mapping):
        no_reward = {"raw_reward": 0.0, "scaled_reward": 0.0, "reason": ""}
        made["info"] = {**info, "success": False, **no_reward}
    return made


def _as_last(step: StepRecord) -> StepRecord:
    return dataclasses.replace(step, step_type=StepType.LAST, discount=1.0)


def _idle_step(before: StepRecord, action: actions.Action) -> StepRecord:
    """Returns a last step whose action changed nothing."""
    observation = before.observation
    if isinstance(observation, Mapping) and isinstance(observation.get("last_action"), Mapping):
        from webtraj.environments.browser.observer import describe_action

        observation = {**observation, "last_action": dict(describe_action())}
    return StepRecord(
        before.index + 1,
        StepType.LAST,
        observation,
        action,
        0.0,
        1.0,
        start_time=before.end_time,
        end_time=before.end_time,
    )


def _ended(
    trajectory: EpisodeTrajectory, steps: tuple[StepRecord, ...], detail: str
) -> EpisodeTrajectory:
    end = EpisodeEnd(reason=EndReason.TRUNCATED, detail=detail)
    return dataclasses.replace(trajectory, steps=steps, end=end, end_time=steps[-1].end_time)


def _new_id(episode_id: str, kind: str) -> str:
    made = f"{episode_id}.{kind}"
    if len(made) <= _LONGEST_ID:
        return made
    digest = hashlib.sha256(episode_id.encode()).hexdigest()
    return f"{digest}.{kind}"
