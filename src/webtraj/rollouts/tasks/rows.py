"""Rows of task files, as other systems and people write them, to `TaskSpec`.

Three kinds of row are known, told apart by their fields:

* WebGym's: `task_name` (the goal), `website`, `difficulty`, `evaluator_reference`,
  `definite_answer`, `domain`, `subdomain`; optional `task_id`, `distribution`, `benchmark_name`,
  `attempt_level`.
* Coarse tasks as Orby has them: a site (`url`, `website` or `site`) and a `description` of what may
  be done there.
* webtraj's own: `preset`, or the fields of `TaskSpec` by their names; `facts` may be in any form of
  WebGym's `evaluator_reference`.

Fields that are not known are kept in `metadata`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import pydantic

from webtraj import errors
from webtraj.rollouts.tasks import facts as facts_lib
from webtraj.rollouts.tasks.spec import TaskSpec

__all__ = ["site_of", "spec_of_row", "url_of"]


def url_of(website: str) -> str:
    """Returns a site as a URL: `https://` goes in front of a bare host.

    >>> url_of("example.org/shop"), url_of("http://example.org")
    ('https://example.org/shop', 'http://example.org')

    Raises:
        ValueError: It is no web address.
    """
    url = website.strip()
    if "://" not in url:
        url = f"https://{url}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or " " in url:
        raise ValueError(f"{website!r:.200} is no http or https address")
    return url


def site_of(url: str) -> str:
    """Returns the name of the site that a URL leads to.

    >>> site_of("https://www.Example.org:8080/shop")
    'example.org:8080'
    """
    return urlsplit(url).netloc.rpartition("@")[2].lower().removeprefix("www.")


def spec_of_row(row: Any) -> TaskSpec:
    """Returns the task that a row of a file means.

    Raises:
        InvalidInputError: It is none; the message names the fields that are wrong.
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
        raise errors.InvalidInputError(_told(error)) from error
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
    task_name: facts_lib.Text
    website: facts_lib.Text
    domain: str = ""
    subdomain: str = ""
    difficulty: Annotated[int, pydantic.Field(ge=1, le=1000)]
    evaluator_reference: facts_lib.Facts
    definite_answer: str | bool | int | float = ""
    task_id: str | int | None = None
    max_steps: Annotated[int, pydantic.Field(ge=1)] | None = None

    def to_spec(self) -> TaskSpec:
        url = url_of(self.website)
        name = _digest(self.subdomain, self.website, self.difficulty, self.task_name)
        answer = self.definite_answer
        return TaskSpec(
            name=name if self.task_id is None else str(self.task_id),
            goal=self.task_name,
            start_url=url,
            site=site_of(url),
            domain=self.domain,
            subdomain=self.subdomain,
            difficulty=self.difficulty,
            facts=facts_lib.groups_of(self.evaluator_reference),
            reference_answer=answer if isinstance(answer, str) else str(answer),
            max_steps=self.max_steps,
            metadata=self._rest,
        )


class _CoarseRow(_Row):
    description: facts_lib.Text
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
        name = _digest("coarse", url, self.description)
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
    preset: facts_lib.Text | None = None
    name: facts_lib.Text | None = None
    goal: str = ""
    start_url: str = ""
    site: str = ""
    domain: str = ""
    subdomain: str = ""
    difficulty: facts_lib.Difficulty = 0
    facts: facts_lib.Facts = []
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
        return TaskSpec(
            name=self.name or preset,
            preset=preset,
            goal=self.goal,
            start_url=url,
            site=self.site or (site_of(url) if url else ""),
            domain=self.domain,
            subdomain=self.subdomain,
            difficulty=self.difficulty,
            facts=facts_lib.groups_of(self.facts),
            reference_answer=self.reference_answer,
            coarse=self.coarse,
            max_steps=self.max_steps,
            metadata={**self.metadata, **self._rest},
        )


def _digest(*parts: object) -> str:
    """Returns a name that follows from what a task says, for rows without one."""
    text = "\0".join(map(str, parts))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _told(error: pydantic.ValidationError) -> str:
    """Returns what is wrong, by field; a union's attempts at one field in a line of their own."""
    problems: dict[str, None] = {}
    for problem in error.errors(include_url=False):
        what = f"{facts_lib.place_of(problem['loc'])}: {problem['msg']}"
        if problem["type"] == facts_lib.FORM:
            what += f"; got {problem['input']!r:.60}"
        problems[what] = None
    return "; ".join(list(problems)[:4])
