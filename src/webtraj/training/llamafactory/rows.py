"""A check of `dataset_info.json` and ShareGPT rows, following LLaMA-Factory step by step.

It follows `llamafactory.data.parser`, `converter` and `mm_plugin`, which drop a row with a warning
or abort the run.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj import errors
from webtraj.agents.models.base import Message
from webtraj.agents.models.messages import estimate_tokens
from webtraj.training.export.pictures import picture_error
from webtraj.training.export.sharegpt import TAGS
from webtraj.training.llamafactory.facts import Effect, Problem, Template, read_json, run_python
from webtraj.training.llamafactory.train_config import FILE
from webtraj.training.rows import read_rows

__all__ = [
    "Attributes",
    "Found",
    "attributes_of",
    "check",
    "count",
    "estimate",
    "image_tokens",
    "images_of",
]

_MARKS = {"<image>": "images", "<video>": "videos", "<audio>": "audios"}
_COLUMNS = {"messages": "conversations", "system": None, "images": None, "videos": None,
            "audios": None, "tools": None}  # fmt: skip
_SUFFIXES = (".json", ".jsonl")


@dataclasses.dataclass(frozen=True, slots=True)
class Attributes:
    """Columns and tags of a dataset. If only some are named, the others are None."""

    columns: Mapping[str, str | None]
    tags: Mapping[str, str | None]


@dataclasses.dataclass(slots=True)
class Found:
    """The findings in one dataset."""

    problems: list[Problem] = dataclasses.field(default_factory=list)
    rows: int = 0
    with_images: bool = False


def attributes_of(entry: Mapping[str, Any]) -> Attributes:
    """Return the columns and tags for an entry of `dataset_info.json`.

    >>> attributes_of({"tags": {"role_tag": "role"}}).tags["user_tag"] is None
    True
    """
    columns: Mapping[str, str | None] = _COLUMNS
    tags: Mapping[str, str | None] = TAGS
    if isinstance(entry.get("columns"), Mapping):
        columns = {name: entry["columns"].get(name) for name in _COLUMNS}
    if isinstance(entry.get("tags"), Mapping):
        tags = {name: entry["tags"].get(name) for name in TAGS}
    return Attributes(columns, tags)


def check(name: str, entry: Any, folder: Path, media: Path, template: Template | None) -> Found:
    """Check one dataset.

    Args:
        name: The dataset's name in `dataset_info.json`.
        entry: Its entry there.
        folder: The folder of its file.
        media: The folder of its pictures.
        template: The template of the training, if known.
    """
    found = Found()
    where = f"dataset_info.json, {name}"
    if not isinstance(entry, Mapping) or not isinstance(entry.get("file_name"), str):
        found.problems.append(Problem(where, "it names no file_name", "Name the file of its rows."))
        return found
    if entry.get("formatting") != "sharegpt" or entry.get("ranking"):
        found.problems.append(
            Problem(where, f"its formatting is {entry.get('formatting')!r}, which is not checked "
                  "here" if not entry.get("ranking") else "it is of pairs, which are not checked "
                  "here", "Write rows of ShareGPT's format, and say so.")
        )  # fmt: skip
        return found
    attributes = attributes_of(entry)
    if missing := [
        key
        for key in ("role_tag", "content_tag", "user_tag", "assistant_tag", "system_tag",
                    "observation_tag", "function_tag")
        if attributes.tags[key] is None
    ]:  # fmt: skip
        found.problems.append(
            Problem(where, f"its tags do not name {', '.join(missing)}, which become None",
                  "Name all tags, or none.", "drops it")
        )  # fmt: skip
    if attributes.columns["messages"] is None:
        found.problems.append(
            Problem(where, "its columns do not name messages", "Name the column of conversations.")
        )
        return found
    path = folder / entry["file_name"]
    if path.suffix not in _SUFFIXES or not path.is_file():
        found.problems.append(
            Problem(where, f"the file {entry['file_name']!r} of JSON or JSON lines is missing",
                  "Export again.")
        )  # fmt: skip
        return found
    _check_rows(found, path, attributes, media, template)
    return found


def _check_rows(
    found: Found, path: Path, attributes: Attributes, media: Path, template: Template | None
) -> None:
    filled = dict.fromkeys(attributes.columns, False)
    pictures: dict[str, str] = {}
    try:
        for number, row in enumerate(read_rows(path)):
            found.rows += 1
            for column, key in attributes.columns.items():
                filled[column] = filled[column] or (key is not None and key in row)
            for what, effect, to_do in _row_problems(row, attributes, template):
                found.problems.append(Problem(f"{path.name}, row {number}", what, to_do, effect))
            for image in images_of(row, attributes):
                found.with_images = True
                if image not in pictures:
                    pictures[image] = _picture_problem(media, image)
                if pictures[image]:
                    found.problems.append(
                        Problem(
                            f"{path.name}, row {number}", f"its picture {image!r:.200} "
                            f"{pictures[image]}",
                            "Put it there, or leave the row out; an export by webtraj has whole "
                            "pictures.",
                        )
                    )  # fmt: skip
    except ValueError as error:
        found.problems.append(Problem(path.name, f"it cannot be read: {error}", "Export again."))
        return
    if not found.rows:
        found.problems.append(Problem(path.name, "it has no rows", "Export some."))
    for column, key in attributes.columns.items():
        if key is not None and found.rows and not filled[column]:
            found.problems.append(
                Problem("dataset_info.json", f"it names the column {key!r} for {column}, which no "
                      f"row of {path.name} has", "Leave the column out there.")
            )  # fmt: skip


def images_of(row: Mapping[str, Any], attributes: Attributes) -> list[str]:
    """Return the paths of a row's pictures."""
    key = attributes.columns["images"]
    value = row.get(key) if key is not None else None
    if isinstance(value, str):
        return [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _row_problems(
    row: Mapping[str, Any], attributes: Attributes, template: Template | None
) -> Iterator[tuple[str, Effect, str]]:
    tags = attributes.tags
    messages = row.get(attributes.columns["messages"] or "")
    if not isinstance(messages, list) or not all(isinstance(one, Mapping) for one in messages):
        yield "it has no list of messages", "aborts", "Remove the row."
        return
    system_key = attributes.columns["system"]
    system = row.get(system_key) if system_key is not None else ""
    roles = [one.get(tags["role_tag"] or "") for one in messages]
    contents = [one.get(tags["content_tag"] or "") for one in messages]
    if roles and tags["system_tag"] is not None and roles[0] == tags["system_tag"]:
        system, roles, contents = contents[0], roles[1:], contents[1:]
    if not (system is None or isinstance(system, str)) or not all(
        isinstance(one, str) for one in contents
    ):
        yield "one of its messages is not text", "aborts", "Remove the row."
        return
    turns = (
        {tags["user_tag"], tags["observation_tag"]} - {None},
        {tags["assistant_tag"], tags["function_tag"]} - {None},
    )
    for turn, role in enumerate(roles):
        if role not in turns[turn % 2]:
            yield (
                f"message {turn} is of {role!r:.60}, where {_either(turns[turn % 2])} was expected",
                "drops it",
                "Merge consecutive messages of one role.",
            )
            return
    if not roles or len(roles) % 2:
        yield (
            f"it has {len(roles)} messages; expected pairs of a prompt and a reply",
            "drops it",
            "End it with a reply.",
        )
        return
    texts = [*contents, *([system] if system else [])]
    for mark, column in _MARKS.items():
        count = sum(text.count(mark) for text in contents)
        key = attributes.columns[column]
        value = row.get(key) if key is not None else None
        given = len(value) if isinstance(value, list) else int(value is not None)
        if count != given:
            yield (
                f"its text has {count} times {mark}, and it has {given} {column}",
                "aborts",
                ("Change text that looks like a mark, as webtraj's export does."),
            )
    if template is not None:
        for token in (template.image, template.video):
            if token and token not in _MARKS and any(token in text for text in texts):
                yield (
                    f"its text has {token}, which the model reads as a picture",
                    "aborts",
                    "Remove the row, or change the text.",
                )
    weight = row.get("loss_weight", 1.0)
    if weight != 1.0:
        yield (
            f"its loss_weight is {weight!r:.30}",
            "ignores it",
            "Export with weights=copies: samples that count more are there more often.",
        )


def _either(names: set[Any]) -> str:
    return " or ".join(sorted(map(repr, names)))


def _picture_problem(media: Path, image: str) -> str:
    path = media / image
    if not path.is_file():
        path = Path(image)
        if not path.is_absolute() or not path.is_file():
            return f"is not in {str(media)!r}"
    if error := picture_error(path.read_bytes()):
        return f"cannot be decoded: {error}"
    return ""


# Lengths of rows in tokens, pictures included: exact by LLaMA-Factory, or an estimate.
#
# LLaMA-Factory silently cuts rows longer than `cutoff_len`, whole turns of history first. If
# it cuts a picture's tokens, the run aborts during training.

_TO_DO = "Raise cutoff_len, lower image_max_pixels, or remove the row."
_MAX_PIXELS, _MIN_PIXELS = 768 * 768, 32 * 32
"""LLaMA-Factory's defaults."""
_CUTOFF = 2048


def count(folder: Path, python: str | os.PathLike[str]) -> tuple[int, list[Problem]]:
    """Encode all rows with LLaMA-Factory. Return the longest length and the problems.

    Raises:
        InvalidInputError: LLaMA-Factory cannot encode the rows.
    """
    from webtraj.training.llamafactory import encoding

    script = str(Path(encoding.__file__))
    output, wrong = run_python(Path(python).absolute(), script, FILE, folder=folder)
    lines = [line for line in output.splitlines() if line.startswith('{"webtraj"')]
    entries = [orjson.loads(line)["webtraj"] for line in lines]
    if wrong or not entries or "longest" not in entries[-1]:
        raise errors.InvalidInputError(
            f"LLaMA-Factory cannot encode the rows of {str(folder)!r}: {wrong or 'no message'}. "
            "Check the model and its processor."
        )
    problems = []
    for entry in entries[:-1]:
        where = f"{entry['file']}, row {entry['row']}"
        if "error" in entry:
            problems.append(Problem(where, entry["error"], "Remove the row."))
        else:
            problems.append(_too_long(where, f"{entry['tokens']}", entry["cutoff"]))
    return entries[-1]["longest"], problems


def estimate(
    name: str, entry: Mapping[str, Any], folder: Path, media: Path, values: Mapping[str, Any]
) -> Iterator[Problem]:
    """Yield the rows that are too long by an estimate.

    It counts characters, and the pictures if the model's folder is that of a Qwen-like model.
    """
    sizes = _sizes(Path(str(values["model_name_or_path"])))
    attributes = attributes_of(entry)
    cutoff = int(values.get("cutoff_len", _CUTOFF))
    known: dict[str, int] = {}
    path = folder / entry["file_name"]
    for number, row in enumerate(read_rows(path)):
        pictures = 0
        for image in images_of(row, attributes) if sizes is not None else ():
            assert sizes is not None
            if image not in known:
                known[image] = image_tokens(
                    _dimensions(media / image),
                    sizes,
                    most=int(values.get("image_max_pixels", _MAX_PIXELS)),
                    least=int(values.get("image_min_pixels", _MIN_PIXELS)),
                )
            pictures += known[image]
        text = "".join(_texts_of(row, attributes))
        total = pictures + estimate_tokens([Message.of("user", text)])
        if pictures >= cutoff:
            yield _too_long(f"{path.name}, row {number}", f"at least {pictures}", cutoff)
        elif total > cutoff:
            yield _too_long(f"{path.name}, row {number}", f"about {total}", cutoff)


def _texts_of(row: Mapping[str, Any], attributes: Attributes) -> Iterator[str]:
    """Yield the texts of a row that was checked."""
    content, system = attributes.tags["content_tag"], attributes.columns["system"]
    yield str(row.get(system or "") or "")
    for turn in row[attributes.columns["messages"] or ""]:
        yield str(turn.get(content or "") or "").replace("<image>", "")


def image_tokens(size: tuple[int, int], sizes: Mapping[str, int], *, most: int, least: int) -> int:
    """Return the number of tokens for a picture, for Qwen-like models.

    An estimate without transformers: `webtraj.training.sft.encoding.ImageTokens`, which our trainer
    uses, asks the model's own processor.

    Args:
        size: Its width and height in pixels.
        sizes: The processor's sizes: `factor`, the side of a token in pixels; `shortest` and
            `longest`, the fewest and most pixels of a picture.
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
        data = read_json(model / name)
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
    return Problem(where, f"it has {tokens} tokens, and cutoff_len is {cutoff}", _TO_DO, "cuts it")
