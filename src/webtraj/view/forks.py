"""The forks of an episode as plain JSON data for the page.

* `values`: the value of each forked step: `{"step": 3, "success": {"value": 0.5, "numerator": 4,
  "denominator": 8, "low": 0.2, "high": 0.8}, "not_counted": 0, "episodes": ["..."]}`.
* `lost_at`: the step that lost the episode, or null.
* `of`, only of a fork: its parent and its step. `siblings`: the ids of the other forks there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webtraj.metrics.forks import StepValue, lost_at

__all__ = ["forks_data"]


def forks_data(
    episode: Mapping[str, Any], values: Mapping[str, Sequence[StepValue]]
) -> dict[str, Any] | None:
    """Return the forks of an episode, and what it is a fork of, or None.

    Args:
        episode: The episode's data (`webtraj.view.episode.episode_data`).
        values: The values of the steps in its dataset, by episode.
    """
    own = values.get(episode["id"], ())
    parent = episode["info"]["links"].get("parent", "")
    of = next((value for value in values.get(parent, ()) if episode["id"] in value.episodes), None)
    if not own and of is None:
        return None
    data: dict[str, Any] = {"values": [value.to_data() for value in own], "lost_at": lost_at(own)}
    if of is not None:
        data["of"] = {"parent": parent, "step": of.step}
        data["siblings"] = [one for one in of.episodes if one != episode["id"]]
    return data
