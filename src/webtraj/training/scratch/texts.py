"""Texts of recorded pages and goals, for training a tokenizer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import webtraj
from webtraj.agents.pointing import items_of
from webtraj.training.replay.cutting import loaded

__all__ = ["texts_of"]


def texts_of(
    places: Iterable[str | os.PathLike[str]],
    *,
    episodes: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """Yield the texts of goals and pages as pointing prompts show them, each page once per episode.

    Args:
        places: Folders or URLs of datasets.
        episodes: The most episodes to read from each.
        storage_options: Options for buckets.

    Raises:
        NotADatasetError: There is no dataset.
        CorruptDataError: An episode is damaged.
    """
    for place in places:
        dataset = webtraj.open_dataset(place, storage_options=storage_options)
        for number, trajectory in enumerate(dataset):
            if episodes is not None and number >= episodes:
                break
            seen: set[str] = set()
            yield trajectory.info.goal
            for step in trajectory.steps:
                observed = step.observation if isinstance(step.observation, Mapping) else {}
                tree = loaded(observed.get("axtree"))
                if isinstance(tree, str) and tree not in seen:
                    seen.add(tree)
                    yield " ".join(item.words for item in items_of(tree))
