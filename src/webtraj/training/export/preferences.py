"""Preferences: pairs of replies to the same prompt whose episodes got different rewards.

Attempts at one task start alike: until their pages differ, their prompts have identical text and
pixels. If two attempts of a group replied differently to the same prompt and got different rewards,
their replies are a pair. A failed episode is also compared with its forks, at the last step where a
fork succeeded, since the forks' replies repair it. Pairs are found in the tables of the buffer;
samples load lazily, two at a time.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webtraj import errors
from webtraj.datasets.exporters.plain import is_unicode
from webtraj.datasets.place import Place
from webtraj.training.export.base import ExportReport, LeftOut, SampleFormat, fault_of_reply
from webtraj.training.export.export_folder import export_samples
from webtraj.training.replay import Parts, Selection
from webtraj.training.samples import Sample, name_of
from webtraj.trajectory import Outcome

__all__ = [
    "PAIRED",
    "Preferences",
    "Rejected",
    "export_selection",
    "fault_of_pair",
    "find_rejected",
    "pair_of",
    "preferences_of",
    "with_reasoning",
]

# Pairs of replies to the same prompt.
#
# A pair is the sample of the better reply, with the worse one in its metadata.

_NAME = "rejected"


@dataclasses.dataclass(frozen=True, slots=True)
class Rejected:
    """The worse reply of a pair."""

    completion: str
    sample: str
    """The name of its sample."""
    reward: float | None = None
    reasoning: str = ""
    """The reasoning that the server separated from it."""
    finish_reason: str = ""
    """See `Sample.finish_reason`."""


def pair_of(chosen: Sample, rejected: Rejected) -> Sample:
    """Return the pair of a sample and a worse reply."""
    return dataclasses.replace(chosen, metadata={**chosen.metadata, _NAME: rejected})


def find_rejected(sample: Sample) -> Rejected | None:
    """Return the worse reply of a pair; None if the sample is not a pair."""
    found = sample.metadata.get(_NAME)
    return found if isinstance(found, Rejected) else None


def fault_of_pair(sample: Sample) -> LeftOut | None:
    """Return why a sample cannot be exported as a pair; None if it can."""
    rejected = find_rejected(sample)
    if rejected is None:
        return LeftOut("it is compared with no other reply")
    if fault := fault_of_reply(rejected.finish_reason, ends=True):
        return LeftOut(fault.why.replace("its reply", "the reply that it is compared with"))
    if not rejected.completion or not is_unicode(rejected.completion):
        return LeftOut("the reply that it is compared with is empty, or no text")
    return None


def with_reasoning(sample: Sample) -> Sample:
    """Return a sample, or a pair, whose replies begin with their reasoning in `<think>` tags.

    Replies without separate reasoning stay unchanged.
    """
    metadata = dict(sample.metadata)
    rejected = find_rejected(sample)
    if rejected is not None and rejected.completion:
        said = _with_thought(rejected.reasoning, rejected.completion)
        metadata[_NAME] = dataclasses.replace(rejected, completion=said)
    completion = _with_thought(metadata.get("reasoning", ""), sample.completion)
    return dataclasses.replace(sample, completion=completion, metadata=metadata)


def _with_thought(reasoning: str, completion: str) -> str:
    # As in the chat templates of Qwen3.
    return f"<think>\n{reasoning.strip()}\n</think>\n\n{completion}" if reasoning else completion


@dataclasses.dataclass(frozen=True, slots=True)
class Preferences:
    """The pairs of a selection, loaded on iteration."""

    selection: Selection
    pairs: tuple[tuple[int, int], ...]
    """The better and the worse sample of each pair, as rows of the selection's buffer."""
    counts: dict[str, int]
    """Numbers of groups and prompts, and of prompts without a pair by reason."""

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[Sample]:
        rows = np.array(self.pairs, np.int64).reshape(-1)
        samples = iter(self.selection.buffer.select(rows))
        for chosen, rejected in zip(samples, samples, strict=True):
            # No format of preferences has tool calls; they leave out empty replies.
            said = "" if rejected.calls else rejected.completion
            reasoning = rejected.metadata.get("reasoning", "")
            worse = Rejected(
                said,
                name_of(rejected.key),
                rejected.reward,
                reasoning,
                rejected.finish_reason,
            )
            yield pair_of(dataclasses.replace(chosen, loss_weight=1.0), worse)


def preferences_of(
    selection: Selection, *, pairs_per_prompt: int = 1, least_margin: float = 0.0
) -> Preferences:
    """Return the pairs of replies to the same prompt, within groups, whose rewards differ.

    A failed episode is also compared with its forks, at the last step where a fork succeeded. If
    several attempts gave the same reply, it gets their mean reward. Groups without a success have
    no pairs, even if shaped rewards differ. The best reply is paired with the worst, the second
    best with the second worst, and so on.

    Args:
        selection: Samples, failures included.
        pairs_per_prompt: The maximum number of pairs per prompt.
        least_margin: The smallest difference between the rewards; 0 takes any.

    Raises:
        InvalidInputError: There is no pair, or a number is out of range.
    """
    if pairs_per_prompt < 1 or not least_margin >= 0.0:
        raise errors.InvalidInputError(
            f"pairs_per_prompt={pairs_per_prompt!r}, least_margin={least_margin!r}: expected at "
            "least 1 pair and a margin of at least 0."
        )
    counts = collections.Counter(dict.fromkeys(_COUNTS, 0))
    keys, rewards = _keys(selection), selection.view.reward
    solved = selection.buffer.contents.group_solved[keys["group"]]
    graded = np.flatnonzero(np.isfinite(rewards) & solved)
    counts["samples_without_reward"] = int(np.sum(~np.isfinite(rewards)))
    repaired, joined = _find_repaired(selection, keys)
    failed = np.isfinite(rewards) & ~solved
    failed[repaired] = False
    counts["samples_of_failed_groups"] = int(np.sum(failed))
    members, keys = np.r_[graded, repaired], np.concatenate([keys[graded], joined])
    order = np.argsort(keys, order=list(_KEY.names or ()), kind="stable")
    pairs: list[tuple[int, int]] = []
    groups: set[int] = set()
    paired: set[int] = set()
    for bucket in _buckets(keys[order][_PROMPT]):
        alike, positions = keys[order[bucket]], members[order[bucket]]
        group = int(alike["group"][0])
        groups.add(group)
        counts["prompts"] += 1
        replies = _replies(alike[["reply_0", "reply_1"]], rewards[positions])
        if len(replies) < 2:
            counts["prompts_with_one_reply"] += 1
            continue
        found = 0
        for worse in range(min(pairs_per_prompt, len(replies) // 2)):
            (low, rejected), (high, chosen) = replies[worse], replies[-1 - worse]
            if high - low <= 0.0 or high - low < least_margin:
                break
            rows = selection.rows[positions[chosen]], selection.rows[positions[rejected]]
            pairs.append((int(rows[0]), int(rows[1])))
            found += 1
        counts["prompts_without_contrast"] += not found
        if found:
            paired.add(group)
    counts["groups"] = len(groups)
    counts["groups_without_pairs"] = len(groups - paired)
    counts["pairs"] = len(pairs)
    if not pairs:
        told = ", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in counts.items())
        raise errors.InvalidInputError(
            f"No pair among {len(selection)} samples ({told}). Pairs need several "
            "attempts at the same task and seed, or forks of an episode, some better than others, "
            "and filters that keep failures (filter_successful_only=False)."
        )
    return Preferences(selection, tuple(sorted(pairs)), dict(sorted(counts.items())))


_COUNTS = ("prompts", "prompts_with_one_reply", "prompts_without_contrast")
_KEY = np.dtype(
    [
        ("group", "<i8"), ("prompt_0", "<u8"), ("prompt_1", "<u8"), ("reply_0", "<u8"),
        ("reply_1", "<u8"),
    ]
)  # fmt: skip
_PROMPT = ["group", "prompt_0", "prompt_1"]


def _keys(selection: Selection) -> NDArray[Any]:
    """Return the group, prompt and reply of each sample as numbers."""
    records, contents = selection.records, selection.buffer.contents
    keys = np.zeros(len(records), _KEY)
    keys["group"] = contents.episodes["group"][records["episode"]]
    for name, of in (("prompt", "prompt"), ("reply", "sample")):
        halves = np.ascontiguousarray(records[of]).view("<u8").reshape(-1, 2)
        keys[f"{name}_0"], keys[f"{name}_1"] = halves[:, 0], halves[:, 1]
    return keys


_NO_FORK = (-1, -1)
"""The step and group of an episode without a successful fork."""


def _find_repaired(
    selection: Selection, keys: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the samples of failed episodes to compare with forks, and their keys in the group."""
    contents = selection.buffer.contents
    groups = contents.episodes["group"].tolist()
    last: dict[str, tuple[int, int]] = {}
    for (parent, step), group in zip(contents.forks, groups, strict=True):
        if parent and contents.group_solved[group]:
            last[parent] = max(last.get(parent, _NO_FORK), (step, group))
    compared = np.array([last.get(name, _NO_FORK)[1] for name in contents.episode_ids], np.int64)
    compared[contents.episodes["outcome"] == Outcome.SUCCESS] = -1
    compared = compared[selection.records["episode"]]
    found = np.flatnonzero((compared >= 0) & np.isfinite(selection.view.reward))
    joined = keys[found]
    joined["group"] = compared[found]
    kept = np.isin(joined[_PROMPT], keys[_PROMPT])  # Only where the forks had the same prompt.
    return found[kept], joined[kept]


def _buckets(ordered: NDArray[Any]) -> Iterator[slice]:
    """Yield the runs of equal values."""
    if not len(ordered):
        return
    starts: list[int] = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]).tolist()
    for start, end in zip(starts, [*starts[1:], len(ordered)], strict=True):
        yield slice(start, end)


def _replies(ordered: NDArray[Any], rewards: NDArray[np.float64]) -> list[tuple[float, int]]:
    """Return each reply's reward and the position of its first sample, worst first."""
    return sorted((float(rewards[bucket].mean()), bucket.start) for bucket in _buckets(ordered))


# Exporting a selection of a replay buffer: samples or pairs.

PAIRED = ("preferences", "trl-preferences")
"""Formats whose rows are pairs."""


def export_selection(
    selection: Selection | Parts,
    out: Place,
    *,
    format: str | SampleFormat = "sharegpt",  # noqa: A002  (As in export_dataset.)
    options: Mapping[str, Any] | None = None,
    pairs_per_prompt: int = 1,
    least_margin: float = 0.0,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> ExportReport:
    """Export samples of a replay buffer for a trainer, with their provenance.

    Args:
        selection: A selection, or both parts of a split selection.
        out: A new folder or bucket URL.
        format: A format, or the name of one.
        options: Options of a named format.
        pairs_per_prompt: For formats of pairs: see `preferences_of`.
        least_margin: For formats of pairs: see `preferences_of`.
        overwrite: Whether to replace an earlier export.
        storage_options: Options for a bucket: see `webtraj.store.open_storage`.

    Raises:
        InvalidInputError: `out` exists, or there is nothing to write.
        CorruptDataError: An episode has changed, or a row does not read back.
        MissingDependencyError: The format needs a package that is not installed.
        StorageError: `out` cannot be written.
    """
    splits = {"train": selection} if isinstance(selection, Selection) else selection.splits
    name = format if isinstance(format, str) else format.name
    origin: dict[str, Any] = {}
    episodes: dict[str, str] = {}
    samples: dict[str, Iterable[Sample]] = dict(splits)
    for split, part in splits.items():
        if not len(part):
            part.buffer.require_samples()
            raise errors.InvalidInputError(f"No samples to export in the split {split!r:.100}.")
        provenance = part.provenance()
        episodes |= {one["episode_id"]: one["sha256"] for one in provenance.pop("episodes")}
        chosen = {key: provenance.pop(key) for key in ("selection", "num_samples", "sha256")}
        if name in PAIRED:
            pairs = preferences_of(
                part, pairs_per_prompt=pairs_per_prompt, least_margin=least_margin
            )
            samples[split] = pairs
            chosen["preferences"] = {
                "pairs_per_prompt": pairs_per_prompt,
                "least_margin": least_margin,
                **pairs.counts,
            }
        origin = {**provenance, "splits": {**origin.get("splits", {}), split: chosen}}
    report = next(iter(splits.values())).buffer.report()
    origin["left_out"] = {"episodes": report.dropped_episodes, "steps": report.dropped_steps}
    return export_samples(
        samples,
        out,
        format=format,
        options=options,
        origin=origin,
        episodes=episodes,
        overwrite=overwrite,
        storage_options=storage_options,
    )
