"""Tasks of a rollout, and the task files that people and other systems write.

A task is plain data, independent of its source and of the environment that runs it. Files are JSON
lines or Parquet, in a folder or a bucket, and are read one row at a time.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, BinaryIO, Literal, Self
from urllib.parse import urlsplit

import orjson
import pydantic
from pydantic_core import PydanticCustomError

from webtraj import errors
from webtraj.store.places import open_file

__all__ = [
    "Difficulty",
    "FORM",
    "Fact",
    "FactGroup",
    "Facts",
    "TaskSpec",
    "Text",
    "check_same",
    "groups_of",
    "place_of",
    "read_tasks",
    "site_of",
    "spec_of_row",
    "url_of",
]


@dataclasses.dataclass(frozen=True, slots=True)
class Fact:
    """A condition that must hold when the task is done."""

    description: str
    difficulty: int = 1
    """The difficulty, from 1; WebGym counts 1 for each fact."""


@dataclasses.dataclass(frozen=True, slots=True)
class FactGroup:
    """Facts that belong together, such as those about one requested item."""

    facts: tuple[Fact, ...]
    id: str = ""
    description: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One task."""

    name: str
    """The task's name, unique in its set; episodes record it as `task`."""
    preset: str = "web"
    """The preset that runs it: one with a single task, or `web` for any site."""
    goal: str = ""
    """The instruction; empty if the environment provides it."""
    start_url: str = ""
    """The URL to start at, for `web`."""
    site: str = ""
    """The site's host name, without `www.`; by default that of `start_url`."""
    domain: str = ""
    """The broad topic: shopping, travel, ..."""
    subdomain: str = ""
    """The narrow topic."""
    difficulty: int = 0
    """The difficulty, from 1; 0 if not known. In WebGym, the number of facts."""
    facts: tuple[FactGroup, ...] = ()
    """Conditions for a judge to check at the end."""
    reference_answer: str = ""
    """The correct answer, if there is exactly one."""
    coarse: bool = False
    """Whether `goal` only describes the site's possibilities, for an explorer."""
    max_steps: int | None = None
    """The number of steps before truncation; None leaves that to the rollout."""
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """All other fields of the task's row."""

    def __post_init__(self) -> None:
        if self.start_url and not self.site:
            object.__setattr__(self, "site", site_of(self.start_url))

    @property
    def level(self) -> str:
        """The difficulty as a word, in WebGym's bands: easy up to 3, medium up to 6, then hard.

        >>> TaskSpec(name="a", difficulty=4).level
        'medium'
        """
        if self.difficulty < 1:
            return "unknown"
        return "easy" if self.difficulty <= 3 else "medium" if self.difficulty <= 6 else "hard"

    @property
    def is_described(self) -> bool:
        """Whether the task has more than a name and a preset, for a judge or a filter to use."""
        return self != TaskSpec(name=self.name, preset=self.preset)

    def to_data(self) -> dict[str, Any]:
        """Return the task as JSON data, without default values."""
        data: dict[str, Any] = {"name": self.name}
        for field in dataclasses.fields(self)[1:]:
            value = getattr(self, field.name)
            if value and value != field.default:
                data[field.name] = dict(value) if field.name == "metadata" else value
        if self.facts:
            data["facts"] = [dataclasses.asdict(group) for group in self.facts]
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return the task from the data of `to_data`.

        Raises:
            ValueError: The data is malformed; the message names the field.
        """
        from webtraj.store import records

        if not isinstance(data, Mapping):
            raise records.WrongFieldError("", f"is {data!r:.60}; expected an object")
        fields = dict(data)
        metadata = fields.pop("metadata", {})  # Kept as in the file.
        if not isinstance(metadata, Mapping):
            raise records.WrongFieldError("metadata", f"is {metadata!r:.60}; expected an object")
        spec = records.read_object(cls, fields)
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := sorted(map(str, fields.keys() - known)):
            raise records.WrongFieldError(unknown[0], "is not a field of a task")
        return dataclasses.replace(spec, metadata=metadata)


# The forms of a row's facts, as in WebGym's `evaluator_reference`.
#
# A text; or a list whose items are texts, `{description, difficulty}`, or groups
# `{id, description, facts}`, whose facts are texts or `{description, difficulty}`.

Text = Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1)]
Difficulty = Annotated[int, pydantic.Field(ge=0, le=1000)]

FORM = "form"
"""The type of the validation error that lists the accepted forms."""
_FACT = "a text or {description, difficulty}"
_ITEM = "a text, {description, difficulty}, or a group {id, description, facts}"


def _form_of(item: Any) -> str | None:
    """Return which form of facts an item has; None if it has none."""
    if isinstance(item, str):
        return "text"
    if not isinstance(item, Mapping):
        return None
    if item.get("facts") is not None:
        return "group"
    return "fact" if "description" in item else None


def _one_of(expected: str) -> pydantic.Discriminator:
    return pydantic.Discriminator(
        _form_of, custom_error_type=FORM, custom_error_message=f"expected {expected}"
    )


def _as_list(value: Any) -> Any:
    if isinstance(value, str):
        return [value]
    if not isinstance(value, (list, tuple)):
        raise PydanticCustomError(FORM, f"expected a text, or a list whose items are each {_ITEM}")
    return value


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="ignore")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _without_gaps(cls, data: Any) -> Any:
        # Parquet has every column in every row, in nested rows too.
        return {key: value for key, value in data.items() if value is not None}


class _GradedFact(_Part):
    description: Text
    difficulty: Difficulty = 1


_TextForm = Annotated[Text, pydantic.Tag("text")]
_FactForm = Annotated[_GradedFact, pydantic.Tag("fact")]


class _GroupOfFacts(_Part):
    id: str | int = ""
    description: str = ""
    facts: list[Annotated[_TextForm | _FactForm, _one_of(_FACT)]] = pydantic.Field(min_length=1)


_GroupForm = Annotated[_GroupOfFacts, pydantic.Tag("group")]
Facts = Annotated[
    list[Annotated[_TextForm | _FactForm | _GroupForm, _one_of(_ITEM)]],
    pydantic.BeforeValidator(_as_list),
]
_PARTS = frozenset({*_GradedFact.model_fields, *_GroupOfFacts.model_fields})


def groups_of(facts: Facts) -> tuple[FactGroup, ...]:
    """Return facts in groups. A fact without a group becomes a group of its own."""
    return tuple(map(_group, facts))


def _group(item: str | _GradedFact | _GroupOfFacts) -> FactGroup:
    if isinstance(item, _GroupOfFacts):
        return FactGroup(tuple(map(_fact, item.facts)), str(item.id), item.description)
    return FactGroup((_fact(item),))


def _fact(item: str | _GradedFact) -> Fact:
    return Fact(item) if isinstance(item, str) else Fact(item.description, item.difficulty)


def place_of(location: tuple[int | str, ...]) -> str:
    """Return the path of a value in a row, without the names that pydantic adds for types.

    >>> place_of(("facts", 1, "group", "facts", 0, "fact", "difficulty"))
    'facts[1].facts[0].difficulty'
    >>> place_of(("definite_answer", "int"))
    'definite_answer'
    """
    field, *parts = location
    steps = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts]
    known = [isinstance(part, int) or part in _PARTS for part in parts]
    return str(field) + "".join(itertools.compress(steps, known))


# Rows of task files. There are three kinds, recognised by their fields:
#
# * WebGym's: `task_name` (the goal), `website`, `difficulty`, `evaluator_reference`,
#   `definite_answer`, `domain`, `subdomain`; optional `task_id`, `distribution`, `benchmark_name`,
#   `attempt_level`.
# * Coarse tasks, as Orby has them: a site (`url`, `website` or `site`) and a `description` of what
#   can be done there.
# * webtraj's own: `preset`, or the fields of `TaskSpec` by name; `facts` may have any form of
#   WebGym's `evaluator_reference`.
#
# Unknown fields are kept in `metadata`.


def url_of(website: str) -> str:
    """Return a site as a URL: a bare host gets `https://` in front.

    >>> url_of("example.org/shop"), url_of("http://example.org")
    ('https://example.org/shop', 'http://example.org')

    Raises:
        ValueError: It is not a web address.
    """
    url = website.strip()
    if "://" not in url:
        url = f"https://{url}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or " " in url:
        raise ValueError(f"{website!r:.200} is not an http or https address")
    return url


def site_of(url: str) -> str:
    """Return the name of a URL's site.

    >>> site_of("https://www.Example.org:8080/shop")
    'example.org:8080'
    """
    return urlsplit(url).netloc.rpartition("@")[2].lower().removeprefix("www.")


def check_same(one: TaskSpec, other: TaskSpec) -> None:
    """Check that two tasks with the same name are equal.

    Raises:
        InvalidInputError: They have different goals or start URLs.
    """
    if (one.goal, one.start_url) != (other.goal, other.start_url):
        raise errors.InvalidInputError(
            f"Two tasks are named {one.name!r}: {one.goal!r:.80} at {one.start_url!r:.80}, and "
            f"{other.goal!r:.80} at {other.start_url!r:.80}. Give each task a name of its own."
        )


def spec_of_row(row: Any) -> TaskSpec:
    """Return the task in a row of a file.

    Raises:
        InvalidInputError: The row is malformed; the message names the wrong fields.
    """
    if not isinstance(row, Mapping):
        raise errors.InvalidInputError(f"expected an object, got {type(row).__name__}")
    # Parquet has every column in every row.
    present = {key: value for key, value in row.items() if value is not None}
    model: type[_Row]
    if "task_name" in present:
        model = _WebGymRow
    elif "preset" in present or "name" in present:
        model = _OwnRow
    elif "description" in present:
        model = _CoarseRow
    else:
        raise errors.InvalidInputError(
            "expected a field task_name (WebGym), name or preset (webtraj), or description "
            f"(coarse tasks); got {', '.join(sorted(map(str, present))) or 'none'}"
        )
    try:
        return model.model_validate(present).to_spec()
    except pydantic.ValidationError as error:
        raise errors.InvalidInputError(_describe_errors(error)) from error
    except ValueError as error:
        raise errors.InvalidInputError(str(error)) from error


class _Row(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", frozen=True)

    def to_spec(self) -> TaskSpec:
        raise NotImplementedError

    @property
    def _rest(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class _WebGymRow(_Row):
    task_name: Text
    website: Text
    domain: str = ""
    subdomain: str = ""
    difficulty: Annotated[int, pydantic.Field(ge=1, le=1000)]
    evaluator_reference: Facts
    definite_answer: str | bool | int | float = ""
    task_id: str | int | None = None
    max_steps: Annotated[int, pydantic.Field(ge=1)] | None = None

    def to_spec(self) -> TaskSpec:
        url = url_of(self.website)
        name = _make_name(
            site_of(url), self.task_name, self.subdomain, self.website, self.difficulty
        )
        answer = self.definite_answer
        return TaskSpec(
            name=name if self.task_id is None else str(self.task_id),
            goal=self.task_name,
            start_url=url,
            site=site_of(url),
            domain=self.domain,
            subdomain=self.subdomain,
            difficulty=self.difficulty,
            facts=groups_of(self.evaluator_reference),
            reference_answer=answer if isinstance(answer, str) else str(answer),
            max_steps=self.max_steps,
            metadata=self._rest,
        )


class _CoarseRow(_Row):
    description: Text
    url: str | None = None
    website: str | None = None
    site: str | None = None
    task_id: str | int | None = None
    domain: str = ""

    def to_spec(self) -> TaskSpec:
        given = self.url or self.website or self.site
        if not given:
            raise ValueError("url: expected the site's address (or website, or site)")
        url = url_of(given)
        name = _make_name(site_of(url), self.description, "coarse", url)
        return TaskSpec(
            name=name if self.task_id is None else str(self.task_id),
            goal=self.description,
            start_url=url,
            site=site_of(url),
            domain=self.domain,
            coarse=True,
            metadata=self._rest,
        )


class _OwnRow(_Row):
    preset: Text | None = None
    name: Text | None = None
    goal: str = ""
    start_url: str = ""
    site: str = ""
    domain: str = ""
    subdomain: str = ""
    difficulty: Difficulty = 0
    facts: Facts = []
    reference_answer: str = ""
    coarse: bool = False
    max_steps: Annotated[int, pydantic.Field(ge=1)] | None = None
    metadata: dict[str, Any] = {}
    kind: Literal["task"] = "task"

    def to_spec(self) -> TaskSpec:
        preset = self.preset or "web"
        url = url_of(self.start_url) if self.start_url else ""
        if preset == "web" and not (url and self.goal):
            raise ValueError("goal, start_url: a task of the preset 'web' needs both")
        place = site_of(url) if url else preset
        described = _make_name(place, self.goal, preset, url) if url or self.goal else preset
        return TaskSpec(
            name=self.name or described,
            preset=preset,
            goal=self.goal,
            start_url=url,
            site=site_of(url_of(self.site)) if self.site else site_of(url) if url else "",
            domain=self.domain,
            subdomain=self.subdomain,
            difficulty=self.difficulty,
            facts=groups_of(self.facts),
            reference_answer=self.reference_answer,
            coarse=self.coarse,
            max_steps=self.max_steps,
            metadata={**self.metadata, **self._rest},
        )


_LONGEST_WORDS = 48


def _make_name(site: str, goal: str, *parts: object) -> str:
    """Return a name for a row without one: the site, the goal's first words, and a short digest.

    The digest covers everything that distinguishes the task from others.
    """
    words = ""
    for word in re.findall(r"\w+", goal.lower()):
        if words and len(words) + len(word) >= _LONGEST_WORDS:
            break
        words += f"-{word[:_LONGEST_WORDS]}" if words else word[:_LONGEST_WORDS]
    text = "\0".join(map(str, (*parts, goal)))
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return "/".join(filter(None, (site, "-".join(filter(None, (words, digest))))))


def _describe_errors(error: pydantic.ValidationError) -> str:
    """Return the validation errors, one for each field and attempted form."""
    problems: dict[str, None] = {}
    for problem in error.errors(include_url=False):
        what = f"{place_of(problem['loc'])}: {problem['msg']}"
        if problem["type"] == FORM:
            what += f"; got {problem['input']!r:.60}"
        problems[what] = None
    return "; ".join(list(problems)[:4])


# Reading task files: JSON lines or Parquet, one row at a time, from a folder or a bucket.
#
# A file with bad rows is refused as a whole: a rollout that skipped some of its tasks would look
# like one that ran them all. The error lists the first bad rows by number.

_MAX_PROBLEMS = 10
_MAX_LINE = 16 * 2**20
_BATCH = 1024


def read_tasks(
    place: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> Iterator[TaskSpec]:
    """Yield the tasks of a file, in order, with only a few in memory at a time.

    Args:
        place: A `.jsonl` or `.parquet` file: its path, or its URL in a bucket. See above for the
            kinds of rows.
        storage_options: For a bucket, as taken by `webtraj.store.open_storage`.

    Raises:
        InvalidInputError: The file is missing or of another type, or has bad rows, which is
            known once the first of them is reached.
        StorageError: The bucket cannot be read.
    """
    name = os.fspath(place)
    if not name.endswith((".jsonl", ".parquet")):
        raise errors.InvalidInputError(
            f"{name!r} is not a task file: expected a name that ends in .jsonl or .parquet."
        )
    return _read(name, storage_options)


def _read(name: str, storage_options: Mapping[str, Any] | None) -> Iterator[TaskSpec]:
    expected = "a .jsonl or .parquet file"
    with open_file(name, storage_options, what="task file", expected=expected) as file:
        rows = _rows_of_parquet(file, name) if name.endswith(".parquet") else _rows_of_lines(file)
        yield from _check_rows(rows, name)


def _check_rows(rows: Iterable[tuple[int, Any]], name: str) -> Iterator[TaskSpec]:
    problems: list[str] = []
    for number, row in rows:
        try:
            spec = spec_of_row(row() if callable(row) else row)
        except errors.InvalidInputError as error:
            problems.append(f"row {number}: {error}")
            if len(problems) == _MAX_PROBLEMS:
                break
            continue
        if not problems:
            yield spec
    if problems:
        more = " (there may be more)" if len(problems) == _MAX_PROBLEMS else ""
        raise errors.InvalidInputError(
            f"{name!r} has bad rows{more}:\n  " + "\n  ".join(problems) + "\nFix or remove them."
        )


def _rows_of_lines(file: BinaryIO) -> Iterator[tuple[int, Any]]:
    number = 0
    while line := file.readline(_MAX_LINE):
        number += 1
        if len(line) == _MAX_LINE:
            yield number, _raiser(f"longer than {_MAX_LINE} bytes")
            return
        if line.strip():
            yield number, _parser(line)


def _parser(line: bytes) -> Any:
    def parse() -> Any:
        try:
            return orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise errors.InvalidInputError(f"invalid JSON: {error}") from error

    return parse


def _raiser(problem: str) -> Any:
    def fail() -> Any:
        raise errors.InvalidInputError(problem)

    return fail


def _rows_of_parquet(file: BinaryIO, name: str) -> Iterator[tuple[int, Any]]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise errors.missing_dependency(f"Reading {name!r} needs pyarrow", "parquet") from error
    try:
        batches = parquet.ParquetFile(file).iter_batches(_BATCH)
        rows = (row for batch in batches for row in batch.to_pylist())
        yield from enumerate(rows, start=1)
    except pa.ArrowException as error:
        raise errors.InvalidInputError(
            f"{name!r} is not a readable Parquet file: {error}."
        ) from error
