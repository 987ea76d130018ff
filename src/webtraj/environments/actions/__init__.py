"""Actions: one immutable dataclass per verb, independent of the model's dialect.

Create actions directly (`Click("12")`), or parse them from a model's reply with a dialect
(`webtraj.environments.actions.dialects`). They are stored as themselves.

The verbs, in `verbs`, act on an element by ref, at a point, on whatever has the focus (`KEYBOARD`),
or on pages, history and tabs; or they wait, look and talk. `InvalidAction` stands for a reply that
is not an action.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webtraj import _homes
from webtraj.environments.actions.base import VERBS, Action
from webtraj.environments.actions.verbs import *  # noqa: F403
from webtraj.environments.actions.verbs import __all__ as _verbs
from webtraj.store import RECORD_WRITERS

if TYPE_CHECKING:
    from webtraj.environments.actions.dialects.browsergym import format_action as format_action
    from webtraj.environments.actions.dialects.browsergym import parse_action as parse_action
    from webtraj.environments.actions.dialects.browsergym import read_action as read_action

RECORD_WRITERS["action"] = "webtraj.environments.actions.dialects.browsergym:write_action"

_HOMES = dict.fromkeys(("format_action", "parse_action", "read_action"), "dialects.browsergym")

__all__ = ["VERBS", "Action", *_HOMES]
__all__ += _verbs
__getattr__, __dir__ = _homes.face(__name__, _HOMES)
