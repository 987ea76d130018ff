"""Splitting a dataset: by shares, where what belongs together stays so, or by conditions.

A split by shares is a function of the episodes, the seed and what is kept together. It orders the
groups by a hash of the seed and their names, and deals them out so that each part gets its share of
the episodes as nearly as whole groups allow.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from webtraj import errors
from webtraj.datasets.conditions import parse_condition
from webtraj.datasets.dataset import open_dataset
from webtraj.datasets.place import Place
from webtraj.datasets.transfer import TransferReport, transfer
from webtraj.datasets.writer import DatasetWriter
from webtraj.store.index import EpisodeSummary
from webtraj.store.places import is_url

__all__ = ["Together", "assign", "split"]

Together = Literal["episode", "task", "site", "group"]
"""What is kept in one part: each episode alone, or all of a task, of a site, of a group."""

_KEYS: dict[str, Callable[[EpisodeSummary], str]] = {
    "episode": lambda summary: summary.episode_id,
    "task": lambda summary: summary.task,
    "site": lambda summary: summary.site,
    # An episode that is in no group is one of its own.
    "group": lambda summary: summary.group_id or f"episode {summary.episode_id}",
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
    """Copies the episodes of a dataset into several, each a folder of its own under `into`.

    Args:
        source: The dataset's folder, or its URL.
        into: The folder or URL under which the parts go.
        parts: What goes to each part, by its name: a share, such as 0.8, or a condition, such as
            "outcome == 'success'" (see `webtraj.datasets.conditions`). Shares add up to 1 at most.
            An episode that meets several conditions goes to the first such part.
        together: For shares: what is kept in one part.
        seed: For shares: another one gives another split.
        source_options: For a bucket: what `webtraj.store.bucket.BucketStorage` takes.
        target_options: Likewise.

    Returns:
        What became of the episodes of each part.

    Raises:
        InvalidInputError: The parts are no such shares or conditions.
        NotADatasetError: The source is no dataset, or a part's place holds other things.
        StorageError: One of them could not be read or written; run it again.
    """
    dataset = open_dataset(source, storage_options=source_options, complete=True)
    assigned = assign(dataset.summaries, parts, together=together, seed=seed)
    reports = {}
    for name, episode_ids in assigned.items():
        wanted = frozenset(episode_ids)
        part = dataset.filter(lambda summary, wanted=wanted: summary.episode_id in wanted)  # type: ignore[misc]
        target = _under(into, name)
        header = dataset.place.header
        with DatasetWriter(target, format=header.format, storage_options=target_options) as writer:
            reports[name] = transfer(part, writer)
    return reports


def assign(
    summaries: Iterable[EpisodeSummary],
    parts: Mapping[str, float | str],
    *,
    together: Together = "episode",
    seed: int = 0,
) -> dict[str, list[str]]:
    """Returns the ids of the episodes that go to each part; see `split`.

    >>> episodes = [EpisodeSummary(episode_id=f"e{n}") for n in range(10)]
    >>> {name: len(ids) for name, ids in assign(episodes, {"train": 0.8, "test": 0.2}).items()}
    {'train': 8, 'test': 2}

    Raises:
        InvalidInputError: The parts are no such shares or conditions.
    """
    for name in parts:
        if not _PART_NAME.fullmatch(name):
            raise errors.InvalidInputError(
                f"{name!r:.100} cannot name a part; expected letters, digits, . _ and -."
            )
    shares = {n: float(p) for n, p in parts.items() if isinstance(p, (int, float))}
    conditions = {name: part for name, part in parts.items() if isinstance(part, str)}
    if not parts or len(shares) not in (0, len(parts)):
        raise errors.InvalidInputError(
            f"The parts are {dict(parts)!r:.300}; expected shares, or conditions, not both."
        )
    if conditions:
        return _by_conditions(summaries, conditions)
    if together not in _KEYS:
        raise errors.InvalidInputError(
            f"together={together!r} is not known; expected one of {', '.join(_KEYS)}."
        )
    total = math.fsum(shares.values())
    if not (all(share > 0.0 for share in shares.values()) and total <= 1.0 + 1e-9):
        raise errors.InvalidInputError(
            f"The shares are {shares!r:.300}; expected numbers above 0 that add up to 1 at most."
        )
    return _by_shares(list(summaries), shares, _KEYS[together], seed)


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
    key_of: Callable[[EpisodeSummary], str],
    seed: int,
) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for summary in summaries:
        groups.setdefault(key_of(summary), []).append(summary.episode_id)
    found: dict[str, list[str]] = {name: [] for name in shares}
    # What no part asks for goes to none.
    rest = max(0.0, 1.0 - math.fsum(shares.values()))
    wanted: dict[str | None, float] = {name: s * len(summaries) for name, s in shares.items()}
    if rest > 1e-9:
        wanted[None] = rest * len(summaries)
    given: dict[str | None, int] = dict.fromkeys(wanted, 0)
    for name in sorted(groups, key=lambda name: _hash(seed, name)):
        # To whom the most is owed; of equals, to the first.
        target = max(wanted, key=lambda part: wanted[part] - given[part])
        given[target] += len(groups[name])
        if target is not None:
            found[target].extend(groups[name])
    return found


def _hash(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode("utf-8", "surrogatepass")).digest()


def _under(place: Place, name: str) -> Place:
    if is_url(place):
        return f"{os.fspath(place).rstrip('/')}/{name}"
    return os.path.join(place, name)  # noqa: PTH118  (As given: a path need not be a Path.)
