"""What a frame shows, put into what the document around it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["merge_frame", "no_answer", "shift"]

_NO_ANSWER: Final = "... no answer"


def no_answer() -> dict[str, Any]:
    """Returns what is shown of a frame that does not answer."""
    return {"axtree": _NO_ANSWER}


def shift(box: Sequence[float], origin: Sequence[float]) -> list[float]:
    """Returns a box of a frame's window in the window around it.

    >>> shift([1, 2, 30, 40], [100, 200])
    [101, 202, 30, 40]
    """
    return [box[0] + origin[0], box[1] + origin[1], box[2], box[3]]


def merge_frame(seen: dict[str, Any], place: Mapping[str, Any], inside: Mapping[str, Any]) -> None:
    """Puts what a frame shows into what the document around it shows.

    Args:
        seen: What the page script's `observe` gave for the document around. It is changed.
        place: Where the frame is: its `ref`, its `line` in the axtree from 0, that line's `depth`,
            and the `origin` of its window in the window around.
        inside: What `observe` gave in the frame.
    """
    _merge_axtree(seen, place, inside["axtree"])
    if "boxes" in inside:
        _merge_boxes(seen["boxes"], place, inside["boxes"])
    if "marks" in inside:
        for column in ("refs", "roles", "names"):
            seen["marks"][column] += inside["marks"][column]
        seen["marks"]["boxes"] += [shift(box, place["origin"]) for box in inside["marks"]["boxes"]]
    if seen.get("focused") == place["ref"] and inside.get("focused"):
        seen["focused"] = inside["focused"]
    if inside.get("text"):
        seen["text"] = "\n".join(filter(None, [seen["text"], inside["text"]]))
    if "passwords" in inside:
        _merge_passwords(seen["passwords"], place, inside["passwords"])
    if "private" in inside:
        _merge_private(seen["private"], place, inside["private"])


def _merge_axtree(seen: dict[str, Any], place: Mapping[str, Any], axtree: str) -> None:
    if not axtree:
        return
    lines = seen["axtree"].split("\n")
    indent = "  " * (place["depth"] + 1)
    at = place["line"] + 1
    lines[at:at] = [indent + line for line in axtree.split("\n")]
    seen["axtree"] = "\n".join(lines)


def _merge_boxes(
    boxes: dict[str, list[Any]], place: Mapping[str, Any], inside: Mapping[str, list[Any]]
) -> None:
    if place["ref"] not in boxes["refs"]:
        return  # The frame is outside the viewport, and so is all in it.
    at = boxes["refs"].index(place["ref"]) + 1
    boxes["refs"][at:at] = inside["refs"]
    boxes["boxes"][at:at] = [shift(box, place["origin"]) for box in inside["boxes"]]


def _merge_passwords(
    passwords: dict[str, Any], place: Mapping[str, Any], inside: Mapping[str, Any]
) -> None:
    passwords["refs"] += inside["refs"]
    passwords["values"] += inside["values"]
    passwords["boxes"] += [shift(box, place["origin"]) for box in inside["boxes"]]
    passwords["focused"] = passwords["focused"] or inside["focused"]


def _merge_private(
    private: dict[str, Any], place: Mapping[str, Any], inside: Mapping[str, Any]
) -> None:
    private["lines"] += inside["lines"]
    private["pieces"] += inside["pieces"]
    private["fields"] += [
        [name, ref, shift(box, place["origin"])] for name, ref, box in inside["fields"]
    ]
    private["focused"] = private["focused"] or inside["focused"]
    private["overflow"] = private["overflow"] or inside["overflow"]
