"""Perturbations: the same task in other surroundings, to see whether an agent depends on them.

A perturbation changes the window, the style, the language, or the names or the order of controls,
or covers each site with a cookie dialog. The task, its seed, its world and its judge stay the same,
so episodes with and without it are pairs.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final

from webtraj import errors
from webtraj.environments.browser import page as page_lib
from webtraj.settings import named

__all__ = ["PERTURBATIONS", "Perturbation"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Perturbation:
    """A change of a task's surroundings."""

    name: str
    """Its name in records and metrics."""
    context_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """For Playwright's `Browser.new_context`, on top of the environment's and the task's."""
    scale: tuple[float, float] = (1.0, 1.0)
    """Factors of the viewport's width and height."""
    css: str = ""
    """A style for every document in a tab; frames keep theirs."""
    consent: bool = False
    """Whether a cookie dialog covers each site until it is answered."""
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Other names for buttons and links, by their text in lower case."""
    shuffle: int | None = None
    """The seed of another order of the controls in rows of buttons, toolbars and menus; None leaves
    their order. It depends on their texts too. A form's buttons move in the layout only, because
    Enter presses the first one in the document."""

    @classmethod
    def of(cls, given: str | Perturbation | None) -> Perturbation:
        """Return a perturbation by its name; None for no perturbation.

        Raises:
            InvalidInputError: There is no such perturbation.
        """
        if isinstance(given, Perturbation):
            return given
        if given is None:
            return NONE
        name, _, seed = given.partition(":") if isinstance(given, str) else ("", "", "")
        if name == _SHUFFLED and seed.isdecimal():
            return Perturbation(name=given, shuffle=int(seed))
        if not isinstance(given, str) or given not in PERTURBATIONS:
            hint = named.nearest(str(given), PERTURBATIONS)
            raise errors.InvalidInputError(
                f"Unknown perturbation {given!r:.60}; expected one of {', '.join(PERTURBATIONS)}, "
                f"{_SHUFFLED}:SEED, or a Perturbation. {hint}".rstrip()
            )
        return PERTURBATIONS[given]

    def options(self, usual: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a context that usually has `usual`."""
        changed = {**usual, **self.context_options}
        if self.scale != (1.0, 1.0) and (size := changed.get("viewport")):
            width, height = self.scale
            changed["viewport"] = {
                "width": round(size["width"] * width), "height": round(size["height"] * height)
            }  # fmt: skip
        return changed

    @property
    def script(self) -> str:
        """The script that makes the change in each document; empty if there is none."""
        if not (self.css or self.consent or self.names or self.shuffle is not None):
            return ""
        names = ("css", "consent", "names", "shuffle")
        changes = json.dumps({name: getattr(self, name) for name in names}, default=dict)
        return f"({page_lib.read_script('surroundings')})({changes});"

    @property
    def dismiss(self) -> str:
        """A CSS selector of the button that closes the dialog; empty if there is none."""
        return "#cookie-consent button" if self.consent else ""


NONE: Final = Perturbation(name="")
_SHUFFLED: Final = "shuffled"

PERTURBATIONS: Final[Mapping[str, Perturbation]] = {
    one.name: one
    for one in (
        Perturbation(name="small-window", scale=(0.95, 7 / 9)),
        Perturbation(name="large-window", scale=(1.5, 1.5)),
        Perturbation(name="dark", context_options={"color_scheme": "dark"}),
        Perturbation(
            name="inverted",
            css="html { filter: invert(1) hue-rotate(180deg); background: white; }",
        ),
        Perturbation(name="moved", css="body { margin: 40px 24px 40px 88px !important; }"),
        Perturbation(name=_SHUFFLED, shuffle=0),
        Perturbation(
            name="renamed",
            names={
                "add": "Insert",
                "apply": "Use these settings",
                "cancel": "Never mind",
                "confirm": "Go ahead",
                "create": "Make new",
                "delete": "Erase",
                "edit": "Modify",
                "log out": "Leave",
                "publish": "Make public",
                "remove": "Take away",
                "save": "Keep changes",
                "search": "Find",
                "send": "Dispatch",
                "submit": "Hand in",
                "update": "Apply changes",
            },
        ),
        Perturbation(
            name="german",
            context_options={"locale": "de-DE", "timezone_id": "Europe/Berlin"},
        ),
        Perturbation(name="consent", consent=True),
    )
}
"""The built-in perturbations, by name."""
