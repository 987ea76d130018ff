"""What a task is to a rollout: data, wherever it comes from and whatever plays it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

__all__ = ["Fact", "FactGroup", "TaskSpec"]


@dataclasses.dataclass(frozen=True, slots=True)
class Fact:
    """Something that has to hold when the task is done."""

    description: str
    difficulty: int = 1
    """How hard it is, from 1; WebGym counts 1 for each."""


@dataclasses.dataclass(frozen=True, slots=True)
class FactGroup:
    """Facts that belong together, such as those of one item that was asked for."""

    facts: tuple[Fact, ...]
    id: str = ""
    description: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One task."""

    name: str
    """The task's name, unique in its set: what episodes have as `task`."""
    preset: str = "web"
    """The preset that plays it: one with a single task, or `web` for any site."""
    goal: str = ""
    """What to do, in words; empty if the environment says it."""
    start_url: str = ""
    """Where it begins, for `web`."""
    site: str = ""
    """The site's host name, without `www.`."""
    domain: str = ""
    """What it is about, in coarse: shopping, travel, ..."""
    subdomain: str = ""
    """What it is about, in fine."""
    difficulty: int = 0
    """How hard it is, from 1; 0 if that is not known. WebGym has the number of its facts here."""
    facts: tuple[FactGroup, ...] = ()
    """What has to hold in the end, for a judge."""
    reference_answer: str = ""
    """The answer that is right, where there is only one."""
    coarse: bool = False
    """Whether `goal` only describes what may be done on the site, for an explorer."""
    max_steps: int | None = None
    """Steps after which it is truncated; None leaves that to the rollout."""
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """All else that its file says of it."""

    @property
    def level(self) -> str:
        """The difficulty in a word, in WebGym's bands: easy to 3, medium to 6, then hard.

        >>> TaskSpec(name="a", difficulty=4).level
        'medium'
        """
        if self.difficulty < 1:
            return "unknown"
        return "easy" if self.difficulty <= 3 else "medium" if self.difficulty <= 6 else "hard"

    @property
    def is_described(self) -> bool:
        """Whether it says more than which preset plays it: what a judge or a filter may go by."""
        return self != TaskSpec(name=self.name, preset=self.preset)

    def to_data(self) -> dict[str, Any]:
        """Returns the task as JSON data, without what is at its default."""
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
        """Return the task that `to_data` made data of.

        Raises:
            ValueError: It is not such data; the message names the field.
        """
        from webtraj.store import records

        if not isinstance(data, Mapping):
            raise records.WrongFieldError("", f"is {data!r:.60}; expected an object")
        fields = dict(data)
        metadata = fields.pop("metadata", {})  # Stays as its file had it.
        if not isinstance(metadata, Mapping):
            raise records.WrongFieldError("metadata", f"is {metadata!r:.60}; expected an object")
        spec = records.read_object(cls, fields)
        known = {field.name for field in dataclasses.fields(cls)}
        if unknown := sorted(map(str, fields.keys() - known)):
            raise records.WrongFieldError(unknown[0], "is not a field of a task")
        return dataclasses.replace(spec, metadata=metadata)
