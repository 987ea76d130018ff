"""The processing steps that ship, by name. Each is a module; none is imported before it is used.

A step is made of plain options, as a command line or a file gives them. One that asks a model
(`needs_model`) takes a `client` besides; it never closes it.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from webtraj import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webtraj.processing.base import OrderedStep, Step

__all__ = ["STEPS", "step_class"]

STEPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "clean": "webtraj.processing.steps.clean:Clean",
        "drop-no-effect": "webtraj.processing.steps.pruning:DropNoEffect",
        "prune-loops": "webtraj.processing.steps.pruning:PruneLoops",
        "judge": "webtraj.processing.steps.judge:JudgeStep",
        "filter": "webtraj.processing.steps.filters:Filter",
        "filter-outcome": "webtraj.processing.steps.filters:FilterOutcome",
        "filter-site": "webtraj.processing.steps.filters:FilterSite",
        "filter-task": "webtraj.processing.steps.filters:FilterTask",
        "relabel": "webtraj.processing.steps.relabel:Relabel",
        "relabel-clicks": "webtraj.processing.steps.clicks:RelabelClicks",
        "relabel-forms": "webtraj.processing.steps.forms:RelabelForms",
        "describe": "webtraj.processing.steps.describe:Describe",
        "grade-difficulty": "webtraj.processing.steps.difficulty:GradeDifficulty",
        "dedupe": "webtraj.processing.steps.clean:Dedupe",
        "redact": "webtraj.processing.steps.redact:Redact",
    }
)
"""Where the class of each step is: `module:Class`."""


def step_class(name: str) -> type[Step] | type[OrderedStep]:
    """Return the class of a step that ships.

    >>> step_class("clean")(min_steps=1).settings
    {'min_steps': 1}

    Raises:
        InvalidInputError: There is no step of that name.
    """
    if name not in STEPS:
        raise errors.InvalidInputError(
            f"There is no step {name!r:.100}; the steps are {', '.join(STEPS)}."
        )
    module, _, attribute = STEPS[name].partition(":")
    found: Any = getattr(importlib.import_module(module), attribute)
    return found  # type: ignore[no-any-return]
