"""The built-in processing steps, by name. Modules are imported on first use.

A step takes plain options, as a command line or a file gives them. A step that asks a model
(`needs_model`) also takes a `client`, which it never closes.
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
        "drop-no-effect": "webtraj.processing.steps.prune:DropNoEffect",
        "prune-loops": "webtraj.processing.steps.prune:PruneLoops",
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
"""The class of each step: `module:Class`."""


def step_class(name: str) -> type[Step] | type[OrderedStep]:
    """Return the class of a built-in step.

    >>> step_class("clean")(min_steps=1).settings
    {'min_steps': 1}

    Raises:
        InvalidInputError: The name is unknown.
    """
    if name not in STEPS:
        raise errors.InvalidInputError(
            f"No step is named {name!r:.100}; choose one of: {', '.join(STEPS)}."
        )
    module, _, attribute = STEPS[name].partition(":")
    found: Any = getattr(importlib.import_module(module), attribute)
    return found  # type: ignore[no-any-return]
