"""The script that looks into pages and helps to act there: one source, the files in `page/`.

It writes nothing into the DOM, and is reached through one property of `window`, keyed by a symbol
and not enumerable. Which world it runs in, and so whether the page can see that property, stands in
`worlds`.
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any

__all__ = ["SCRIPT_PROPERTY", "call", "page_script"]

SCRIPT_PROPERTY = 'window[Symbol.for("webtraj")]'
"""How the script's functions are reached in a page."""

_FILES = (
    "natives",
    "refs",
    "roles",
    "tree",
    "settle",
    "locate",
    "act",
    "secrets",
    "private",
    "marks",
    "foreign",
    "observe",
)

_WRAPPER = """\
(() => {{
"use strict";
if ({property}) return;
const page = {{task: null, furniture: ""}};
{body}
Object.defineProperty(window, Symbol.for("webtraj"), {{value: page}});
}})();
"""


@functools.cache
def page_script(task_script: str = "") -> str:
    """Returns the script's source.

    Args:
        task_script: Source that a task adds. It sees `page`, and sets `page.task` to an object with
            `begin(argument)` and `state()`, and `page.furniture` to a CSS selector of elements that
            are not part of the task, whose changes do not count.
    """
    folder = resources.files("webtraj.environments.browser") / "page"
    parts = [(folder / f"{name}.js").read_text(encoding="utf-8") for name in _FILES]
    return _WRAPPER.format(property=SCRIPT_PROPERTY, body="\n".join([*parts, task_script]))


def call(function: str) -> str:
    """Returns the JavaScript that calls one of the script's functions with one argument.

    In a page that was there before the script was added it gives null.
    """
    return f"argument => {SCRIPT_PROPERTY}?.{function}(argument) ?? null"


def to_argument(value: Any) -> str:
    """Returns a value as the JSON text that the script's functions take."""
    return json.dumps(value, separators=(",", ":"))
