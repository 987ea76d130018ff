"""Split datasets by shares, keeping related episodes together, or by conditions.

A split by shares depends only on the episodes, the seed, `together` and the parts' present content.
It orders the groups by a hash of the seed and their names, and deals them out so that each part
gets its share of the episodes as nearly as whole groups allow.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from webtraj import errors
from webtraj.datasets.dataset import Dataset, open_dataset, parse_condition
from webtraj.datasets.place import Place
from webtraj.datasets.transfer import Options, TransferReport, transfer
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.index import EpisodeSummary
from webtraj.store.layout import HEADER
from webtraj.store.places import is_url, open_storage
from webtraj.store.storage import FolderStorage
from webtraj.store.tries import rows_of

__all__ = ["Together", "assign", "split"]

Together = Literal["episode", "task", "site", "group"]
"""What stays in one part: single episodes, or all episodes of a task, a site or a group. The tries
of a row are one episode."""

_KEYS: dict[str, Callable[[EpisodeSummary, str], str]] = {
    "episode": lambda summary, row: row,
    "task": lambda summary, row: summary.task,
    "site": lambda summary, row: summary.site,
    # An episode without a group is a group by itself.
    "group": lambda summary, row: summary.group_id or f"episode {row}",
}
_PART_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def split(
    source: Place,
    into: Place,
    parts: Mapping[str, float | str],
    *,
    together: Together = "episode",
    seed: int = 0,
    source_options: Mapping[str, Any] | None = None,
    target_options: Mapping[str, Any] | None = None,
) -> dict[str, TransferReport]:
    """Split the episodes of a dataset into several datasets, each in its own folder.

    An episode that an earlier split put into a part stays there. With shares, so does its task,
    site or group. So no episode gets into two parts when the dataset grows.

    Args:
        source: The dataset's folder or URL.
        into: The folder or URL that gets a folder per part.
        parts: For each part's name, a share, such as 0.8, or a condition, such as
            "outcome == 'success'" (see `webtraj.datasets.dataset`). Shares add up to 1 at most.
            An episode that meets several conditions goes to the first such part.
        together: For shares: what stays in one part.
        seed: For shares: another seed gives another split.
        source_options: Bucket options; see `webtraj.store.bucket.BucketStorage`.
        target_options: The same, for the parts.

    Returns:
        The result for each part, by name.

    Raises:
        InvalidInputError: The shares or conditions are invalid, or would put episodes into another
            part than the one that has them; or `into` is inside the source, or has a dataset of
            some of its episodes that is not one of the parts.
        NotADatasetError: The source is not a dataset, or a part's folder holds other files.
        StorageError: One of them could not be read or written; run it again.
    """
    dataset = open_dataset(source, storage_options=source_options, complete=True)
    _check_names(parts)
    targets = {name: _under(into, name) for name in parts}
    dataset.place.check_outside(into)
    _check_others(dataset, into, parts, target_options)
    placed = _find_placed(targets, target_options)
    assigned = assign(dataset.summaries, parts, together=together, seed=seed, placed=placed)
    moved = [
        (episode_id, placed[episode_id], name)
        for name, episode_ids in assigned.items()
        for episode_id in episode_ids
        if placed.get(episode_id, name) != name
    ]
    if moved:
        episode_id, had, wanted_in = moved[0]
        raise errors.InvalidInputError(
            f"{len(moved)} episodes would get into a second part: {episode_id!r} is in {had!r}, "
            f"and would be in {wanted_in!r} now. Choose a new folder instead of "
            f"{os.fspath(into)!r}."
        )
    reports = {}
    for name, episode_ids in assigned.items():
        wanted = frozenset(episode_ids)
        part = dataset.filter(lambda summary, wanted=wanted: summary.episode_id in wanted)  # type: ignore[misc]
        target = targets[name]
        header = dataset.place.header
        with DatasetWriter(target, format=header.format, storage_options=target_options) as writer:
            reports[name] = transfer(part, writer)
    return reports


def _check_others(
    dataset: Dataset, into: Place, parts: Iterable[str], options: Options | None
) -> None:
    """Check that no other dataset next to the parts has episodes of this dataset."""
    for name in _datasets_in(into, options):
        place = _under(into, name)
        if name in parts or dataset.place.is_at(place):
            continue
        there = open_dataset(place, storage_options=options, complete=True)
        if both := sorted(set(there.episode_ids) & set(dataset.episode_ids)):
            raise errors.InvalidInputError(
                f"{os.fspath(into)!r} has a dataset {name!r}, which is not one of the parts "
                f"{', '.join(parts)} and has {len(both)} of the episodes, such as {both[0]!r}. "
                "Name the parts as before, or choose a new folder."
            )


def _datasets_in(place: Place, options: Options | None) -> list[str]:
    """Return the names of the datasets directly in a folder or under a URL."""
    storage = open_storage(place, options)
    if isinstance(storage, FolderStorage):
        return sorted(path.parent.name for path in storage.root.glob(f"[!.]*/{HEADER}"))
    keys = (entry.key.partition("/") for entry in storage.list())
    return sorted(name for name, _, rest in keys if rest == HEADER)


def _find_placed(targets: Mapping[str, Place], options: Options | None) -> dict[str, str]:
    """Return the part that each episode is in already, by episode id."""
    placed: dict[str, str] = {}
    for name, target in targets.items():
        with contextlib.suppress(errors.NotADatasetError):
            there = open_dataset(target, storage_options=options, complete=True)
            placed.update(dict.fromkeys(there.episode_ids, name))
    return placed


def _check_names(parts: Iterable[str]) -> None:
    for name in parts:
        if not _PART_NAME.fullmatch(name):
            raise errors.InvalidInputError(
                f"Invalid part name {name!r:.100}; expected letters, digits, . _ and -."
            )


def assign(
    summaries: Iterable[EpisodeSummary],
    parts: Mapping[str, float | str],
    *,
    together: Together = "episode",
    seed: int = 0,
    placed: Mapping[str, str] | None = None,
) -> dict[str, list[str]]:
    """Return the ids of the episodes in each part; see `split`.

    With shares, episodes that are `placed` in a part stay there.

    >>> episodes = [EpisodeSummary(episode_id=f"e{n}") for n in range(10)]
    >>> {name: len(ids) for name, ids in assign(episodes, {"train": 0.8, "test": 0.2}).items()}
    {'train': 8, 'test': 2}

    Raises:
        InvalidInputError: The shares or conditions are invalid.
    """
    _check_names(parts)
    shares = {n: float(p) for n, p in parts.items() if isinstance(p, (int, float))}
    conditions = {name: part for name, part in parts.items() if isinstance(part, str)}
    if not parts or len(shares) not in (0, len(parts)):
        raise errors.InvalidInputError(
            f"The parts are {dict(parts)!r:.300}; expected all shares or all conditions, not both."
        )
    if conditions:
        return _by_conditions(summaries, conditions)
    if together not in _KEYS:
        raise errors.InvalidInputError(
            f"Cannot keep episodes together by {together!r}; expected one of {', '.join(_KEYS)}."
        )
    total = math.fsum(shares.values())
    if not (all(share > 0.0 for share in shares.values()) and total <= 1.0 + 1e-9):
        raise errors.InvalidInputError(
            f"The shares are {shares!r:.300}; expected numbers above 0 that sum to at most 1."
        )
    return _by_shares(list(summaries), shares, _KEYS[together], seed, placed or {})


def _by_conditions(
    summaries: Iterable[EpisodeSummary], conditions: Mapping[str, str]
) -> dict[str, list[str]]:
    tests = {name: parse_condition(text) for name, text in conditions.items()}
    found: dict[str, list[str]] = {name: [] for name in conditions}
    for summary in summaries:
        for name, met in tests.items():
            if met(summary):
                found[name].append(summary.episode_id)
                break
    return found


def _by_shares(
    summaries: Sequence[EpisodeSummary],
    shares: Mapping[str, float],
    key_of: Callable[[EpisodeSummary, str], str],
    seed: int,
    placed: Mapping[str, str],
) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    rows = rows_of(summaries)
    for summary in summaries:
        name = summary.episode_id
        groups.setdefault(key_of(summary, rows.get(name, name)), []).append(name)
    found: dict[str, list[str]] = {name: [] for name in shares}
    # What the shares do not cover goes to no part.
    rest = max(0.0, 1.0 - math.fsum(shares.values()))
    wanted: dict[str | None, float] = {name: s * len(summaries) for name, s in shares.items()}
    if rest > 1e-9:
        wanted[None] = rest * len(summaries)
    given: dict[str | None, int] = dict.fromkeys(wanted, 0)
    hashes = {n: hashlib.sha256(f"{seed}:{n}".encode("utf-8", "surrogatepass")) for n in groups}
    for name in sorted(groups, key=lambda name: hashes[name].digest()):
        # Its part of before, or the one furthest below its share; the first if several are equal.
        target = next(
            (placed[episode_id] for episode_id in groups[name] if episode_id in placed),
            max(wanted, key=lambda part: wanted[part] - given[part]),
        )
        given[target] += len(groups[name])
        if target is not None:
            found[target].extend(groups[name])
    return found


def _under(place: Place, name: str) -> Place:
    if is_url(place):
        return f"{os.fspath(place).rstrip('/')}/{name}"
    return os.path.join(place, name)  # noqa: PTH118  (As given: a path need not be a Path.)
