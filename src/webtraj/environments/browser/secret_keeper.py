"""Secrets in a browser's episodes: given values, passwords, and what redaction rules match.

A password is any text that an action types into a password field, or that is found in one. The last
observation decides whether the target is such a field. The same applies to elements that match a
rule's selector. Their axtree lines are recorded without their text, whatever its length; the text
counts as a secret from then on, if it is long enough to search for.

Secrets on a screenshot are painted over. Their places come from the browser
(`DOMSnapshot.captureSnapshot`), not from a script in the page: it covers closed shadow roots,
generated content and field values, runs none of the page's code, and takes 2 ms. Elements that
match a CSS selector come from `DOM.querySelectorAll`. The contents of a canvas, image or video
cannot be searched.
"""

from __future__ import annotations

import asyncio
import bisect
import copy
import dataclasses
import io
import itertools
import logging
import math
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from webtraj import errors
from webtraj import trajectory as trajectory_lib
from webtraj.environments import actions as a
from webtraj.environments.actions import keys as keys_lib
from webtraj.environments.actions import spec as spec_lib
from webtraj.environments.browser.observation import selector_path
from webtraj.redaction import MIN_LENGTH, RedactionRules, Redactor
from webtraj.redaction.searcher import INVISIBLE

if TYPE_CHECKING:
    from webtraj.environments.browser.session import BrowserSession

__all__ = [
    "NO_PILLOW",
    "PASSWORD",
    "SNAPSHOT",
    "Box",
    "SecretKeeper",
    "Snapshot",
    "in_view_transition",
    "find_matching_nodes",
    "paint_over",
    "secret_boxes",
    "take_snapshot",
]

PASSWORD: Final = "password"
"""The placeholder name of passwords."""

TOO_MUCH: Final = "private"
"""The placeholder name of a text that holds more private text than can be searched for."""

MAX_PRIVATE: Final = 1000
"""The most texts of private elements that are searched for in one episode."""

_LOGGER = logging.getLogger(__name__)

_TYPED: Final[Mapping[type[a.Action], str]] = {
    a.Fill: "value",
    a.TypeInto: "text",
    a.TypeAt: "text",
    a.TypeText: "text",
    a.InsertText: "text",
    a.Press: "keys",
    a.PressKey: "keys",
    a.HoldKey: "keys",
    a.KeyDown: "key",
    a.KeyUp: "key",
}
"""The field with the typed text, for each verb."""

_KEY_FIELDS = ("key", "keys")
_COMMANDS = {"Control", "ControlLeft", "ControlRight", "ControlOrMeta", "Alt", "AltLeft", "Meta"}
_TYPING_NAMES = (
    "Space", "Backquote", "Minus", "Equal", "Backslash", "BracketLeft", "BracketRight",
    "Semicolon", "Quote", "Comma", "Period", "Slash",
)  # fmt: skip
_TYPING_KEYS = frozenset(_TYPING_NAMES).union(
    key
    for key in keys_lib.KEYS - {"NumpadEnter"}
    if len(key) == 1 or key.startswith(("Digit", "Key", "Numpad"))
)


class SecretKeeper:
    """The secrets of one environment's episodes, and their redaction. See `Redacts`.

    Args:
        secrets: Values by name, searched for everywhere.
        passwords: Whether the contents of password fields are secret. False for synthetic pages
            whose goal names the passwords, as in MiniWoB++.
        rules: What else is secret.
    """

    def __init__(
        self,
        secrets: Mapping[str, str] | None = None,
        *,
        passwords: bool,
        rules: RedactionRules | None = None,
    ) -> None:
        self._secrets, self._rules = secrets, rules or RedactionRules()
        self.watches_passwords = passwords
        self._typed_unfindable = False
        self._apply_rules()

    def add_rules(self, rules: RedactionRules) -> None:
        """Add rules, before the first episode."""
        self._rules = self._rules.merge(rules)
        self._apply_rules()

    def _apply_rules(self) -> None:
        self._redactor = Redactor(self._secrets, rules=self._rules)
        self.selectors = self._rules.selectors_by_name
        """The rules' CSS selectors by name."""
        self.selector = ", ".join(self.selectors.values())
        """All of them as one selector; empty if there are none."""
        self.begin_episode()

    @property
    def covers(self) -> bool:
        """Whether there may be something to cover on the screen."""
        return bool(self._redactor.spellings or self.selector or self._redactor.searches)

    def begin_episode(self) -> None:
        """Forget the passwords of the last episode."""
        self._redactor.forget_learned()
        # Elements whose typed text is secret, with the placeholder name.
        self._refs: dict[str, str] = {}
        self._password_boxes: list[tuple[Box, str]] = []
        self._private_boxes: list[tuple[Box, str]] = []
        self._password_focused = False
        self._private_focused = ""
        self._private: dict[str, str] = {}
        self._short: dict[str, str] = {}
        self._too_many = False
        self._page: Any = None
        """The last observation, as it was before redaction; None before the first one."""

    def saw_passwords(self, passwords: Mapping[str, Any]) -> None:
        """Process the result of the page script's `passwordsSeen`."""
        self._refs.update(dict.fromkeys(passwords["refs"], PASSWORD))
        self._password_boxes = [(_box(box), PASSWORD) for box in passwords["boxes"]]
        self._password_focused = passwords["focused"]
        for value in passwords["values"]:
            if self._page is None:  # Nobody typed yet.
                self._redactor.learn(PASSWORD, value)
            else:
                self._learn_typed(PASSWORD, value)

    def saw_password_field(self, ref: str) -> None:
        """Redact what is typed into a password field that is not in any observation yet."""
        if self.watches_passwords:
            self._refs[ref] = PASSWORD

    def learn_password(self, text: str) -> None:
        """Redact a password that was typed, unless passwords are not secret here."""
        if self.watches_passwords:
            self._learn_typed(PASSWORD, text)

    def _learn_typed(self, name: str, text: str) -> bool:
        """Learn a typed secret. Which of its prefixes are secret depends on the page before."""
        return self._redactor.learn_typed(name, text, shown=_words_of(self._page))

    def hide(self, name: str, selector: str) -> None:
        """Add elements to redact from now on. Several selectors may share a name.

        Args:
            name: The placeholder name.
            selector: The selector of an element in `LastAction`. In a shadow root, only the last
                part is used, and it hides what it finds in any shadow root.
        """
        selector = selector_path(selector)[-1]
        known = self.selectors.get(name)
        self.selectors = {**self.selectors, name: f"{known}, {selector}" if known else selector}
        self.selector = ", ".join(self.selectors.values())

    def saw_private(self, private: Mapping[str, Any]) -> None:
        """Process the result of the page script's `privateSeen`."""
        for name, ref, _ in private["fields"]:
            self._refs.setdefault(ref, name)
        self._refs.pop("", None)
        self._private_boxes = [(_box(box), name) for name, _, box in private["fields"]]
        self._private_focused = private["focused"]
        for name, line, redacted in private["lines"]:
            self._redactor.learn_line(line, redacted, name)
        self._too_many |= private["overflow"]
        for name, text in private["pieces"]:
            if len("".join(text.split())) < MIN_LENGTH:
                self._short.setdefault(text, name)
            elif len(self._private) < MAX_PRIVATE:
                self._private.setdefault(text, name)
            else:
                self._too_many = True
        self._redactor.learn_all(self._private)

    def boxes(
        self,
        before: Snapshot | None,
        after: Snapshot | None,
    ) -> list[Box] | None:
        """Return the boxes of a page's secrets, from snapshots before and after a capture.

        Returns:
            None if they cannot be determined.
        """
        if before is None or after is None or before.in_transition or after.in_transition:
            return None
        noted = before.noted | after.noted if self.selector else None
        find = self._redactor.find if self._redactor.searches else None
        try:
            return [
                box
                for seen in (before, after)
                for box in secret_boxes(
                    seen.shown, self._redactor.spellings, find=find, noted=noted
                )
            ]
        except (TimeoutError, OSError) as error:
            _LOGGER.warning("A screenshot is not recorded: %s", error)
            return None

    def cover(
        self,
        image: bytes,
        boxes: Sequence[Box] | None,
        viewport: tuple[float, float],
    ) -> None:
        """Record a screenshot with boxes painted over, or not at all if that fails.

        Args:
            image: The screenshot, as the agent gets it.
            boxes: The boxes of its secrets; None if unknown.
            viewport: Its width and height in CSS pixels.
        """
        painted: list[bytes] = []

        def paint() -> bytes:
            if not painted:
                painted.append(_paint(image, boxes, viewport))
            return painted[0]

        if boxes or boxes is None:
            self._redactor.cover_image(image, paint)

    def redact_action(self, action: Any) -> Any:
        """See `Redacts.redact_action`."""
        self._typed_unfindable = False
        try:
            meant = spec_lib.to_action(action)
        except errors.InvalidInputError:
            return self._redactor.redact(action)
        field = _TYPED.get(type(meant))
        if field is None:
            return self._redactor.redact(action)
        text, name = getattr(meant, field), self._goes_to(meant)
        if not name:
            for secret, of in self._redactor.secrets_in(text):
                self._learn_typed(of, secret)
            return self._redactor.redact(action)
        if not text or (field in _KEY_FIELDS and not _types_something(text)):
            return action
        self._typed_unfindable = field in _KEY_FIELDS or not self._learn_typed(name, text)
        redacted = copy.copy(meant)
        object.__setattr__(redacted, field, self._redactor.placeholder_of(name))
        return a.format_action(redacted) if isinstance(action, str) else redacted

    def redact(self, value: Any) -> Any:
        """See `Redacts.redact`.

        A decision to type a secret that is too short to search for keeps only its action. The same
        applies to all decisions once private elements hold too much text to search for.
        """
        if isinstance(value, trajectory_lib.Decision) and (
            self._typed_unfindable or self._too_many
        ):
            return self._redactor.redact(trajectory_lib.Decision(action=value.action))
        if isinstance(value, trajectory_lib.StepRecord):
            self._page = value.observation
            if self._short or self._too_many:
                observation = self._without_short(value.observation)
                value = dataclasses.replace(value, observation=observation)
        return self._redactor.redact(value)

    def _without_short(self, observation: Any) -> Any:
        """Return an observation with short private texts removed from its running text."""
        if not isinstance(observation, Mapping):
            return observation
        changed = {}
        for channel in ("text", "title", "aria"):
            text = observation.get(channel)
            if not isinstance(text, str):
                continue
            if self._too_many and text:
                changed[channel] = self._redactor.placeholder_of(TOO_MUCH)
            elif self._short:
                changed[channel] = self._words().sub(self._short_placeholder, text)
        return {**observation, **changed} if changed else observation

    def _words(self) -> re.Pattern[str]:
        words = "|".join(re.escape(text) for text in sorted(self._short, key=len, reverse=True))
        return re.compile(rf"(?<!\w)(?:{words})(?!\w)")

    def _short_placeholder(self, match: re.Match[str]) -> str:
        return self._redactor.placeholder_of(self._short[match[0]])

    def take_redactions(self) -> Mapping[str, int]:
        """See `Redacts.take_redactions`."""
        return self._redactor.take_counts()

    @property
    def _boxes(self) -> list[tuple[Box, str]]:
        return self._password_boxes + self._private_boxes

    @property
    def _focused(self) -> str:
        return PASSWORD if self._password_focused else self._private_focused

    def _goes_to(self, action: Any) -> str:
        """Return the placeholder name of the secret that an action types; empty if none."""
        if hasattr(action, "ref"):
            return self._refs.get(action.ref, "")
        if hasattr(action, "x"):
            for (x, y, width, height), name in self._boxes:
                if x <= action.x <= x + width and y <= action.y <= y + height:
                    return name
            return ""
        return self._focused


def _box(given: Sequence[float]) -> Box:
    x, y, width, height = given
    return x, y, width, height


def _words_of(value: Any) -> str:
    """Return all text of a recorded value, and the keys of its mappings, as one text."""
    todo, texts = [value], []
    while todo:
        match todo.pop():
            case str() as text:
                texts.append(text)
            case Mapping() as mapping:
                todo += [*mapping.keys(), *mapping.values()]
            case np.ndarray(dtype=np.dtype(kind="U")) as array:
                texts += array.ravel().tolist()
            case list() | tuple() as items:
                todo += items
    return "\n".join(texts)


def _types_something(keys: str) -> bool:
    """Return whether pressing keys types a character, rather than moving or giving a command."""
    chords = (keys_lib.split_chord(chord) for chord in keys.split(" "))
    return any(
        chord[-1] in _TYPING_KEYS and not _COMMANDS.intersection(chord[:-1]) for chord in chords
    )


def _paint(image: bytes, boxes: Sequence[Box] | None, viewport: tuple[float, float]) -> bytes:
    if boxes is None:
        return b""
    try:
        return paint_over(image, boxes, viewport=viewport)
    except (errors.MissingDependencyError, OSError) as error:
        _LOGGER.warning("A screenshot with secrets on it is not recorded: %s", error)
        return b""


# Secrets on a screenshot: where they are, and painting them over.

NO_PILLOW: Final = "Scaled screenshots, set-of-marks pictures and secrets painted over need Pillow"

_STYLES: Final = ("text-shadow", "filter", "-webkit-box-reflect", "column-count", "column-width")
"""Styles that move text away from its place in the snapshot. The first is computed exactly; for the
others the whole page is covered."""

SNAPSHOT: Final[tuple[str, dict[str, Any]]] = (
    "DOMSnapshot.captureSnapshot",
    {"computedStyles": list(_STYLES)},
)
"""The call whose answer `secret_boxes` reads."""

Box = tuple[float, float, float, float]
"""x, y, width and height in CSS pixels of the viewport."""

_EVERYTHING: Final[Box] = (-1e6, -1e6, 2e6, 2e6)

_COPIES = {"USE", "PATTERN", "MASK", "MARKER", "FEIMAGE"}
"""SVG elements that repeat other elements, which may be hidden."""
_SHADOW = re.compile(r"(-?[\d.e+-]+)px (-?[\d.e+-]+)px ([\d.e+-]+)px")

_NEVER_SHOWN = {"SCRIPT", "STYLE", "TEMPLATE", "NOSCRIPT", "HEAD", "TITLE"}
_FRAMES = {"IFRAME", "FRAME", "OBJECT", "EMBED", "FENCEDFRAME"}
_SHOWN_ATTRIBUTES = ("value", "placeholder", "alt", "label")

_BLOCK: Final = 16
"""Side of a JPEG block; painting affects the whole block."""

_NEAR: Final = 8.0
"""The largest gap between texts on one line that are read as one, in CSS pixels."""

Send = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""A function that calls a method of the browser's debugging protocol."""

Find = Callable[[str], Iterable[str]]
"""A function that returns the secret parts of a text."""


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """A page's content at one moment."""

    shown: Mapping[str, Any]
    """The answer to `SNAPSHOT`."""
    noted: frozenset[int] = frozenset()
    """The result of `find_matching_nodes`."""
    in_transition: bool = False
    """Whether images of the page's previous content are on the screen."""


async def take_snapshot(session: BrowserSession, selector: str = "") -> Snapshot | None:
    """Return a snapshot of a session's active tab; None if it is unavailable.

    Args:
        session: The session.
        selector: A CSS selector of elements to note; empty for none.
    """
    send = (await session.debugger(session.page)).send
    try:
        noted = await session.run(find_matching_nodes(send, selector), what="find private elements")
        shown = await session.run(send(*SNAPSHOT), what="tell what it shows")
        moving = await session.run(in_view_transition(send), what="tell what it shows")
    except errors.BrowserCrashedError:
        raise
    except (errors.BrowserError, LookupError):
        return None
    return Snapshot(shown, noted, moving)


async def in_view_transition(send: Send) -> bool:
    """Return whether a view transition shows images of the previous page."""
    root = (await send("DOM.getDocument", {"depth": 0}))["root"]["nodeId"]
    try:
        query = {"nodeId": root, "selector": ":active-view-transition"}
        return bool((await send("DOM.querySelector", query))["nodeId"])
    finally:
        await send("DOM.disable", {})


async def find_matching_nodes(send: Send, selector: str) -> frozenset[int]:
    """Return the nodes of a page that a CSS selector matches, as the snapshot numbers them.

    It searches all documents of the page's process and all shadow roots, including closed ones.

    Raises:
        LookupError: The page kept changing.
    """
    if not selector:
        return frozenset()
    try:
        top = (await send("DOM.getDocument", {"depth": -1, "pierce": True}))["root"]
        number_by_id, roots = _nodes_below(top)
        told = await asyncio.gather(
            *(send("DOM.querySelectorAll", {"nodeId": r, "selector": selector}) for r in roots)
        )
        ids = {node_id for answer in told for node_id in answer["nodeIds"]}
        new = await asyncio.gather(
            *(send("DOM.describeNode", {"nodeId": i}) for i in ids - number_by_id.keys())
        )
        known = {number_by_id[node_id] for node_id in ids & number_by_id.keys()}
        return frozenset(known.union(answer["node"]["backendNodeId"] for answer in new))
    finally:
        await send("DOM.disable", {})  # Otherwise it would report every later change.


def _nodes_below(top: Mapping[str, Any]) -> tuple[dict[int, int], list[int]]:
    """Return the numbers of nodes by id, and the ids of documents and shadow roots."""
    numbers: dict[int, int] = {}
    roots: list[int] = []
    waiting = [top]
    while waiting:
        node = waiting.pop()
        numbers[node["nodeId"]] = node["backendNodeId"]
        if node["nodeName"] in ("#document", "#document-fragment"):
            roots.append(node["nodeId"])
        waiting += node.get("children", ())
        waiting += (r for r in node.get("shadowRoots", ()) if r["shadowRootType"] != "user-agent")
        if "contentDocument" in node:
            waiting.append(node["contentDocument"])
    return numbers, roots


def secret_boxes(
    snapshot: Mapping[str, Any],
    spellings: Collection[str],
    *,
    find: Find | None = None,
    noted: Collection[int] | None = None,
) -> list[Box]:
    """Return where a page shows secrets.

    A frame that shows a secret is covered completely, and so is a frame of another process, which
    the snapshot cannot see.

    Args:
        snapshot: The answer to `SNAPSHOT`.
        spellings: What to look for. Case and white space do not matter.
        find: Returns further secret parts of a text.
        noted: Completely secret nodes, from `find_matching_nodes`; None if there is no selector.
    """
    given = set(map(_normalize, spellings)) - {""}
    if not given and find is None and noted is None:
        return []
    nodes = frozenset(noted or ())
    documents = [_Document(raw, snapshot["strings"]) for raw in snapshot["documents"]]
    boxes_of = [list(d.find_shown(given | d.find_parts(find), nodes)) for d in documents]
    found = dict.fromkeys(range(len(documents)), False)
    # Documents come after their parents.
    for index in reversed(range(len(documents))):
        inner = documents[index].framed_documents.values()
        found[index] = bool(boxes_of[index]) or any(found.get(i, True) for i in inner)
    top = documents[0]
    boxes = boxes_of[0]
    for node in top.frames():
        framed = top.framed_documents.get(node)
        if framed is None or found.get(framed, True):
            boxes += top.boxes_of(node)
    x, y = top.scroll
    return [(left - x, top_ - y, width, height) for left, top_, width, height in boxes]


def paint_over(image: bytes, boxes: Iterable[Box], *, viewport: tuple[float, float]) -> bytes:
    """Return an image with boxes painted black, in its original format.

    Args:
        image: A JPEG or PNG of the viewport.
        boxes: What to paint over.
        viewport: Width and height of the viewport in CSS pixels.

    Raises:
        MissingDependencyError: Pillow is not installed.
        OSError: The image cannot be read.
    """
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise errors.missing_dependency(NO_PILLOW, "web") from error
    with Image.open(io.BytesIO(image)) as opened:
        picture = opened.convert("RGB")
        image_format = opened.format or "PNG"
    draw = ImageDraw.Draw(picture)
    scale_x, scale_y = picture.width / viewport[0], picture.height / viewport[1]
    for x, y, width, height in boxes:
        left, top = _block_before(x * scale_x), _block_before(y * scale_y)
        right, bottom = _block_after((x + width) * scale_x), _block_after((y + height) * scale_y)
        if right > 0 and bottom > 0 and left < picture.width and top < picture.height:
            draw.rectangle((left, top, right - 1, bottom - 1), fill="black")
    painted = io.BytesIO()
    options = {"quality": 85} if image_format == "JPEG" else {}
    picture.save(painted, format=image_format, **options)
    return painted.getvalue()


def _block_before(position: float) -> int:
    return math.floor((position - 1) / _BLOCK) * _BLOCK


def _block_after(position: float) -> int:
    return math.ceil((position + 1) / _BLOCK) * _BLOCK


class _Document:
    """One document of a snapshot: columns of nodes, layout boxes and lines of text."""

    def __init__(self, raw: Mapping[str, Any], strings: Sequence[str]) -> None:
        self._strings = strings
        self._nodes: Mapping[str, Any] = raw["nodes"]
        self._layout: Mapping[str, Any] = raw["layout"]
        self._lines: Mapping[str, Any] = raw["textBoxes"]
        self._layout_of: dict[int, list[int]] = {}
        for layout, node in enumerate(self._layout["nodeIndex"]):
            self._layout_of.setdefault(node, []).append(layout)
        plain = {i for i, string in enumerate(strings) if string in ("none", "auto", "")}
        self._styled = {
            layout: [strings[i] if i >= 0 else "" for i in styles]
            for layout, styles in enumerate(self._layout.get("styles", ()))
            if not plain.issuperset(styles)
        }
        """The values of `_STYLES` by layout, where any has one."""
        self.scroll = (raw.get("scrollOffsetX", 0.0), raw.get("scrollOffsetY", 0.0))
        framed = self._nodes["contentDocumentIndex"]
        self.framed_documents = dict(zip(framed["index"], framed["value"], strict=True))
        """Index of the document in a frame, by node."""

    def find_parts(self, find: Find | None) -> set[str]:
        """Return the secret parts of the document's texts, without white space."""
        if find is None:
            return set()
        pieces = {piece for text in self._texts() for piece in find(text)}
        return set(map(_normalize, pieces)) - {""}

    def find_shown(self, needles: Collection[str], noted: Collection[int]) -> Iterator[Box]:
        """Yield the boxes of everything that shows a needle, in document coordinates.

        Args:
            needles: What to look for, in lower case and without white space.
            noted: Nodes whose boxes are yielded too, with all their descendants'.
        """
        if noted:
            yield from self._find_noted_boxes(noted)
        if needles:
            yield from self._text_boxes(needles)
            yield from self._field_boxes(needles)
            yield from self._find_copied_boxes(needles)

    def _find_noted_boxes(self, noted: Collection[int]) -> Iterator[Box]:
        parents, numbers = self._nodes["parentIndex"], self._nodes["backendNodeId"]
        within = [False] * len(parents)
        for node, number in enumerate(numbers):  # Parents come before their children.
            parent = parents[node]
            within[node] = number in noted or (parent >= 0 and within[parent])
        for layout, node in enumerate(self._layout["nodeIndex"]):
            if within[node]:
                yield from self._visible_boxes(layout, _box(self._layout["bounds"][layout]))

    def _texts(self) -> Iterator[str]:
        """Yield the document's texts, and also adjacent texts joined."""
        joined: list[str] = []
        last: Box | None = None
        for index, bounds in zip(self._layout["text"], self._layout["bounds"], strict=True):
            text = self._string(index)
            if not text.strip():
                continue
            yield text
            box = _box(bounds)
            if last is not None and _side_by_side(last, box):
                joined.append(text)
            else:
                if len(joined) > 1:
                    yield "".join(joined)
                joined = [text]
            last = box
        if len(joined) > 1:
            yield "".join(joined)
        for _, text in self._values():
            yield text

    def frames(self) -> Iterator[int]:
        """Yield the nodes that frame other documents."""
        for node, name in enumerate(self._nodes["nodeName"]):
            if self._string(name).upper() in _FRAMES:
                yield node

    def boxes_of(self, node: int) -> list[Box]:
        """Return the boxes of a node, or of its nearest ancestor that has boxes."""
        while node >= 0 and self._name(node) not in _NEVER_SHOWN:
            if node in self._layout_of:
                return [
                    box
                    for layout in self._layout_of[node]
                    for box in self._visible_boxes(layout, _box(self._layout["bounds"][layout]))
                ]
            node = self._nodes["parentIndex"][node]
        return []

    def _text_boxes(self, needles: Collection[str]) -> Iterator[Box]:
        """Yield the lines of text with a needle, which may span several elements."""
        pieces = [self._string(index) for index in self._layout["text"]]
        squeezed = list(map(_normalize, pieces))
        text = "".join(squeezed)
        starts = list(itertools.accumulate(map(len, squeezed), initial=0))
        touched: set[tuple[int, str]] = set()
        for needle in needles:
            at = text.find(needle)
            while at >= 0:
                first = bisect.bisect_right(starts, at) - 1
                last = bisect.bisect_left(starts, at + len(needle))
                touched.update((i, needle) for i in range(first, last) if squeezed[i])
                at = text.find(needle, at + 1)
        for layout, needle in touched:
            yield from self._line_boxes(layout, pieces[layout], needle)

    def _line_boxes(self, layout: int, piece: str, needle: str) -> Iterator[Box]:
        """Yield the boxes of the lines that contain a needle."""
        lines = [i for i, index in enumerate(self._lines["layoutIndex"]) if index == layout]
        starts, lengths = self._lines["start"], self._lines["length"]
        within = [
            line
            for line in lines
            # A line that contains it; otherwise it spans lines or leaves this text.
            if needle in _normalize(piece[starts[line] : starts[line] + lengths[line]])
        ]
        # Python and the browser count characters outside the BMP differently.
        precise = within and piece.isascii() and _normalize(piece).count(needle) == len(within)
        for line in within if precise else lines:
            yield from self._visible_boxes(layout, _box(self._lines["bounds"][line]))
        if not lines:
            yield from self._visible_boxes(layout, _box(self._layout["bounds"][layout]))

    def _field_boxes(self, needles: Collection[str]) -> Iterator[Box]:
        """Yield the boxes of fields, options and images that show a needle as a value."""
        for node, text in self._values():
            squeezed = _normalize(text)
            if any(needle in squeezed for needle in needles):
                yield from self.boxes_of(node)

    def _find_copied_boxes(self, needles: Collection[str]) -> Iterator[Box]:
        """Yield all SVG boxes if any SVG, even hidden, holds a needle and any is copied."""
        names = [self._string(name).upper() for name in self._nodes["nodeName"]]
        if _COPIES.isdisjoint(names):
            return
        parents, inside, texts = self._nodes["parentIndex"], [False] * len(names), []
        for node, name in enumerate(names):  # Parents come before their children.
            inside[node] = name == "SVG" or (parents[node] >= 0 and inside[parents[node]])
            if inside[node] and name == "#TEXT":
                texts.append(self._string(self._nodes["nodeValue"][node]))
        text = _normalize("".join(texts))
        if any(needle in text for needle in needles):
            for layout, node in enumerate(self._layout["nodeIndex"]):
                if inside[node]:
                    yield _box(self._layout["bounds"][layout])

    def _visible_boxes(self, layout: int, box: Box) -> Iterator[Box]:
        """Yield the places where a box is visible: its own, and copies made by styles."""
        yield box
        if not self._styled:
            return
        x, y, width, height = box
        for shadow in _SHADOW.findall(self._styled.get(layout, ("",))[0]):
            right, down, blur = map(float, shadow)
            blurred = (width + 2 * blur, height + 2 * blur)
            yield (x + right - blur, y + down - blur, *blurred)
        node = self._layout["nodeIndex"][layout]
        while node >= 0:
            for at in self._layout_of.get(node, ()):
                if _moves(self._styled.get(at, ())):
                    yield _EVERYTHING
                    return
            node = self._nodes["parentIndex"][node]

    def _values(self) -> Iterator[tuple[int, str]]:
        for column in ("inputValue", "textValue"):
            values = self._nodes[column]
            for node, value in zip(values["index"], values["value"], strict=True):
                yield node, self._string(value)
        for node, attributes in enumerate(self._nodes["attributes"]):
            for name, value in zip(attributes[::2], attributes[1::2], strict=True):
                if self._string(name) in _SHOWN_ATTRIBUTES:
                    yield node, self._string(value)
        for node, value in enumerate(self._nodes["nodeValue"]):
            # A select element's visible option is not laid out as its text.
            if value >= 0 and self._name(self._nodes["parentIndex"][node]) == "OPTION":
                yield node, self._string(value)

    def _name(self, node: int) -> str:
        return self._string(self._nodes["nodeName"][node]).upper() if node >= 0 else ""

    def _string(self, index: int) -> str:
        return self._strings[index] if index >= 0 else ""


def _moves(styles: Sequence[str]) -> bool:
    """Return whether something with these styles may appear away from its layout box."""
    _, effects, *others = styles or ("", "")
    shifts = "drop-shadow" in effects or "url(" in effects
    return shifts or any(style not in ("none", "auto", "") for style in others)


_UNSEEN = re.compile(f"[\\s{INVISIBLE}]+")
"""White space and invisible characters."""


def _normalize(text: str) -> str:
    """Normalize a text for comparison: lower case, without invisible characters."""
    lowered = text.lower()
    return "".join(lowered.split()) if text.isascii() else _UNSEEN.sub("", lowered)


def _side_by_side(left: Box, right: Box) -> bool:
    """Return whether a text continues in another on the same line."""
    near = abs(right[0] - (left[0] + left[2])) <= _NEAR
    return near and right[1] < left[1] + left[3] and left[1] < right[1] + right[3]
