"""What LLaMA-Factory makes of `dataset_info.json` and of rows of ShareGPT, step by step.

It follows `llamafactory.data.parser`, `converter` and `mm_plugin`, where a row is dropped with a
warning, or the run is aborted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from webtraj.training.export.pictures import picture_error
from webtraj.training.export.sharegpt_rows import TAGS
from webtraj.training.llamafactory.facts import Template
from webtraj.training.llamafactory.problems import Effect, Problem

__all__ = ["Attributes", "Found", "attributes_of", "check", "images_of", "read"]

_MARKS = {"<image>": "images", "<video>": "videos", "<audio>": "audios"}
_COLUMNS = {"messages": "conversations", "system": None, "images": None, "videos": None,
            "audios": None, "tools": None}  # fmt: skip
_SUFFIXES = (".json", ".jsonl")


@dataclasses.dataclass(frozen=True, slots=True)
class Attributes:
    """Columns and tags of a set of data. What is not named beside others that are is None."""

    columns: Mapping[str, str | None]
    tags: Mapping[str, str | None]


@dataclasses.dataclass(slots=True)
class Found:
    """What was found in one set of data."""

    problems: list[Problem] = dataclasses.field(default_factory=list)
    rows: int = 0
    with_images: bool = False


def attributes_of(entry: Mapping[str, Any]) -> Attributes:
    """Returns the columns and tags that an entry of `dataset_info.json` leads to.

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
    """Checks one set of data.

    Args:
        name: What `dataset_info.json` calls it.
        entry: What it says.
        folder: Where the file is.
        media: Where pictures are.
        template: The one that is trained with, if it is known.
    """
    found = Found()
    where = f"dataset_info.json, {name}"
    if not isinstance(entry, Mapping) or not isinstance(entry.get("file_name"), str):
        found.problems.append(_said(where, "it names no file_name", "Name the file of its rows."))
        return found
    if entry.get("formatting") != "sharegpt" or entry.get("ranking"):
        found.problems.append(
            _said(where, f"its formatting is {entry.get('formatting')!r}, which is not checked "
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
            _said(where, f"its tags do not name {', '.join(missing)}, which are None then",
                  "Name all tags, or none.", "drops it")
        )  # fmt: skip
    if attributes.columns["messages"] is None:
        found.problems.append(
            _said(where, "its columns do not name messages", "Name the column of conversations.")
        )
        return found
    path = folder / entry["file_name"]
    if path.suffix not in _SUFFIXES or not path.is_file():
        found.problems.append(
            _said(where, f"there is no file {entry['file_name']!r} of JSON or JSON lines",
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
        for number, row in enumerate(read(path)):
            found.rows += 1
            for column, key in attributes.columns.items():
                filled[column] = filled[column] or (key is not None and key in row)
            for what, effect, to_do in _row_problems(row, attributes, template):
                found.problems.append(Problem(f"{path.name}, row {number}", what, effect, to_do))
            for image in images_of(row, attributes):
                found.with_images = True
                if image not in pictures:
                    pictures[image] = _picture_problem(media, image)
                if pictures[image]:
                    found.problems.append(
                        Problem(
                            f"{path.name}, row {number}", f"its picture {image!r:.200} "
                            f"{pictures[image]}", "aborts",
                            "Put it there, or leave the row out; an export by webtraj has whole "
                            "pictures.",
                        )
                    )  # fmt: skip
    except ValueError as error:
        found.problems.append(_said(path.name, f"it cannot be read: {error}", "Export again."))
        return
    if not found.rows:
        found.problems.append(_said(path.name, "it has no rows", "Export some."))
    for column, key in attributes.columns.items():
        if key is not None and found.rows and not filled[column]:
            found.problems.append(
                _said("dataset_info.json", f"it names the column {key!r} for {column}, which no "
                      f"row of {path.name} has", "Leave the column out there.")
            )  # fmt: skip


def read(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yields a file's rows; one row a line is read as it comes.

    Raises:
        ValueError: It holds no rows.
    """
    with path.open("rb") as file:
        first = file.readline().strip()
        by_lines = path.suffix == ".jsonl" or first in (b"[", b"[]")
        if by_lines:
            file.seek(0)
            for number, line in enumerate(file, start=1):
                text = line.strip()
                if text in (b"", b"[", b"]", b"[]"):
                    continue
                yield _object(text.removesuffix(b","), f"line {number}")
            return
        file.seek(0)
        data = orjson.loads(file.read())
    if not isinstance(data, list):
        raise ValueError("it is no list of rows")
    for number, row in enumerate(data):
        if not isinstance(row, dict):
            raise ValueError(f"row {number} is no object")
        yield row


def _object(text: bytes, where: str) -> Mapping[str, Any]:
    row = orjson.loads(text)
    if not isinstance(row, dict):
        raise ValueError(f"{where} is no object")
    return row


def images_of(row: Mapping[str, Any], attributes: Attributes) -> list[str]:
    """Returns the paths of a row's pictures."""
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
        yield "it has no list of messages", "aborts", "Leave the row out."
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
        yield "a message of it is no text", "aborts", "Leave the row out."
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
                "Messages of one role in a row have to be made one.",
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
                (
                    "Text of pages and replies that looks like a mark has to be changed, as "
                    "webtraj's export does."
                ),
            )
    if template is not None:
        for token in (template.image, template.video):
            if token and token not in _MARKS and any(token in text for text in texts):
                yield (
                    f"its text has {token}, which the model takes for a picture's place",
                    "aborts",
                    "Leave the row out, or change the text.",
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


def _said(where: str, what: str, to_do: str, effect: Effect = "aborts") -> Problem:
    return Problem(where, what, effect, to_do)
