"""How long rows are, in tokens, pictures included: exactly, by LLaMA-Factory, or a lower bound.

It cuts what is longer than `cutoff_len` without a word, whole turns of history first; where a
picture's tokens are cut, the run aborts in the middle of training.
"""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.training.llamafactory import rows
from webtraj.training.llamafactory.problems import Problem
from webtraj.training.llamafactory.train_config import FILE

__all__ = ["count", "estimate", "image_tokens"]

_TO_DO = "Raise cutoff_len, lower image_max_pixels, or leave the row out."
_MAX_PIXELS, _MIN_PIXELS = 768 * 768, 32 * 32
"""LLaMA-Factory's defaults."""
_CUTOFF = 2048


def count(folder: Path, python: str | os.PathLike[str]) -> tuple[int, list[Problem]]:
    """Encodes all rows by LLaMA-Factory, and returns the longest's length, and what is too long.

    Raises:
        InvalidInputError: LLaMA-Factory cannot do it.
    """
    from webtraj.training.llamafactory import encoding

    done = subprocess.run(
        [str(Path(python).absolute()), "-W", "ignore", str(Path(encoding.__file__)), FILE],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"webtraj"')]
    entries = [orjson.loads(line)["webtraj"] for line in lines]
    if done.returncode or not entries or "longest" not in entries[-1]:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise errors.InvalidInputError(
            f"LLaMA-Factory cannot encode the rows of {str(folder)!r}: {last}. Is the model there, "
            "and its processor?"
        )
    problems = []
    for entry in entries[:-1]:
        where = f"{entry['file']}, row {entry['row']}"
        if "error" in entry:
            problems.append(Problem(where, entry["error"], "aborts", "Leave the row out."))
        else:
            problems.append(_too_long(where, f"{entry['tokens']}", entry["cutoff"]))
    return entries[-1]["longest"], problems


def estimate(
    name: str, entry: Mapping[str, Any], folder: Path, media: Path, values: Mapping[str, Any]
) -> Iterator[Problem]:
    """Yields what is too long by its pictures alone, for models of Qwen's kind."""
    sizes = _sizes(Path(str(values["model_name_or_path"])))
    if sizes is None:
        return
    attributes = rows.attributes_of(entry)
    cutoff = int(values.get("cutoff_len", _CUTOFF))
    known: dict[str, int] = {}
    path = folder / entry["file_name"]
    for number, row in enumerate(rows.read(path)):
        total = 0
        for image in rows.images_of(row, attributes):
            if image not in known:
                known[image] = image_tokens(
                    _dimensions(media / image),
                    sizes,
                    most=int(values.get("image_max_pixels", _MAX_PIXELS)),
                    least=int(values.get("image_min_pixels", _MIN_PIXELS)),
                )
            total += known[image]
        if total >= cutoff:
            yield _too_long(f"{path.name}, row {number}", f"at least {total}", cutoff)


def image_tokens(size: tuple[int, int], sizes: Mapping[str, int], *, most: int, least: int) -> int:
    """Returns how many tokens a picture is, for models of Qwen's kind.

    Args:
        size: Its width and height.
        sizes: Of the model's processor: `factor`, the side of what becomes a token; `shortest` and
            `longest`, the pixels that a picture may have.
        most: LLaMA-Factory's `image_max_pixels`.
        least: Its `image_min_pixels`.

    >>> sizes = {"factor": 28, "shortest": 784, "longest": 65536}
    >>> image_tokens((160, 210), sizes, most=768 * 768, least=32 * 32)
    48
    """
    width, height = size
    for limit, over in ((most, True), (least, False)):
        if (width * height > limit) if over else (width * height < limit):
            scale = math.sqrt(limit / (width * height))
            width, height = max(1, int(width * scale)), max(1, int(height * scale))
    width, height = max(width, 28), max(height, 28)
    factor = sizes["factor"]
    wide, high = (max(factor, round(side / factor) * factor) for side in (width, height))
    if wide * high > sizes["longest"]:
        scale = math.sqrt(width * height / sizes["longest"])
        wide, high = (
            max(factor, math.floor(side / scale / factor) * factor) for side in (width, height)
        )
    elif wide * high < sizes["shortest"]:
        scale = math.sqrt(sizes["shortest"] / (width * height))
        wide, high = (math.ceil(side * scale / factor) * factor for side in (width, height))
    return wide * high // factor**2


def _sizes(model: Path) -> Mapping[str, int] | None:
    for name in ("preprocessor_config.json", "processor_config.json"):
        try:
            data = orjson.loads((model / name).read_bytes())
        except (OSError, ValueError):
            continue
        data = data.get("image_processor", data)
        kind = str(data.get("image_processor_type", ""))
        size = data.get("size") or {}
        if kind.startswith(("Qwen2VL", "Qwen3VL")):
            return {
                "factor": int(data.get("patch_size", 14)) * int(data.get("merge_size", 2)),
                "shortest": int(data.get("min_pixels") or size.get("shortest_edge", 56 * 56)),
                "longest": int(data.get("max_pixels") or size.get("longest_edge", 28 * 28 * 1280)),
            }
    return None


def _dimensions(path: Path) -> tuple[int, int]:
    from PIL import Image

    with Image.open(path) as image:
        return image.size


def _too_long(where: str, tokens: str, cutoff: int) -> Problem:
    return Problem(where, f"it has {tokens} tokens, and cutoff_len is {cutoff}", "cuts it", _TO_DO)
