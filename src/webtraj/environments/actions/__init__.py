"""Actions: one immutable dataclass per verb, independent of the model's dialect.

Create actions directly (`Click("12")`), or parse them from a model's reply with a dialect
(`webtraj.environments.actions.dialects`). They are stored as themselves.

The verbs, in `verbs`, act on an element by ref, at a point, on whatever has the focus (`KEYBOARD`),
or on pages, history and tabs; or they wait, look and talk. `InvalidAction` stands for a reply that
is not an action.
"""

from webtraj.environments.actions.base import VERBS, Action
from webtraj.environments.actions.dialects.browsergym import (
    format_action,
    parse_action,
    read_action,
)
from webtraj.environments.actions.verbs import *  # noqa: F403
from webtraj.environments.actions.verbs import __all__ as _verbs

__all__ = ["VERBS", "Action", "format_action", "parse_action", "read_action"]
__all__ += _verbs
