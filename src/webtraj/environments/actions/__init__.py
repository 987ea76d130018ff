"""Actions: one immutable dataclass a verb, whatever dialect a model speaks.

Actions are made by name (`Click("12")`), or read from a model's reply by a dialect
(`webtraj.environments.actions.dialects`). They are stored as themselves.

The verbs, by module:

* `element`: on an element, by ref.
* `pointer`: at a point.
* `keyboard`: to whatever has the focus.
* `navigation`: pages, history, tabs.
* `conversation`: waiting, looking, talking; and `InvalidAction`, what was no action.
"""

from webtraj.environments.actions.base import VERBS, Action
from webtraj.environments.actions.dialects.browsergym import format_action, parse_action
from webtraj.environments.actions.verbs import (
    Answer,
    Check,
    Clear,
    Click,
    ClickAt,
    CloseTab,
    CursorPosition,
    DragAt,
    DragTo,
    Fill,
    Focus,
    FocusTab,
    GoBack,
    GoForward,
    Goto,
    HoldKey,
    Hover,
    InsertText,
    InvalidAction,
    KeyDown,
    KeyUp,
    MouseDown,
    MouseUp,
    MoveMouse,
    NewTab,
    Press,
    PressKey,
    Reload,
    ReportInfeasible,
    Screenshot,
    Scroll,
    ScrollAt,
    SelectOption,
    SendMessage,
    TypeAt,
    TypeInto,
    TypeText,
    Uncheck,
    UploadFile,
    UploadFileAt,
    Wait,
)

__all__ = [
    "VERBS",
    "Action",
    "Answer",
    "Check",
    "Clear",
    "Click",
    "ClickAt",
    "CloseTab",
    "CursorPosition",
    "DragAt",
    "DragTo",
    "Fill",
    "Focus",
    "FocusTab",
    "GoBack",
    "GoForward",
    "Goto",
    "HoldKey",
    "Hover",
    "InsertText",
    "InvalidAction",
    "KeyDown",
    "KeyUp",
    "MouseDown",
    "MouseUp",
    "MoveMouse",
    "NewTab",
    "Press",
    "PressKey",
    "Reload",
    "ReportInfeasible",
    "Screenshot",
    "Scroll",
    "ScrollAt",
    "SelectOption",
    "SendMessage",
    "TypeAt",
    "TypeInto",
    "TypeText",
    "Uncheck",
    "UploadFile",
    "UploadFileAt",
    "Wait",
    "format_action",
    "parse_action",
]
