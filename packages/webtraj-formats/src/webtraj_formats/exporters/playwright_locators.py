"""Locators for recorded elements, as a person would write them in a Playwright script.

A locator is chosen from what the episode recorded: the page's tree before the action, where its
uniqueness is decided, and the description of the action's element (`LastAction`). The first that
fits is taken:

1. role and name: `get_by_role("button", name="Save")`; exact if another name contains this name 2.
the role alone, if the page has one such field 3. text: `get_by_text("Save")`; or the label or
title, if that is the name instead of the text 4. test id: `get_by_test_id("save")` 5. role and name
within a row, list item, dialog, ... that can be told apart 6. the element's own id:
`locator("#save")` 7. role or text, and the position among equal ones: `get_by_text("Save").nth(1)`
8. the recorded CSS path

This module knows Playwright's rules for roles, names and texts; it writes no code.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

from webtraj.environments.browser.observation import FIELDS, Ref, refs_in, text_in
from webtraj_formats.exporters.playwright_code import Call, Chain, Located, squeeze

__all__ = ["Node", "Page", "Target", "has_placeholder", "locate", "locator_kind", "target_of"]

_PLACEHOLDER = "<secret:"
_MAX_NAME = 80
"""Longer names are cut at a word; Playwright finds names by a part."""
_MAX_TEXT = 200

_NAMED_BY_CONTENT = frozenset(
    {
        "button", "cell", "checkbox", "gridcell", "heading", "link", "menuitem",
        "menuitemcheckbox", "menuitemradio", "option", "radio", "switch", "tab", "tooltip",
        "treeitem",
    }
)  # fmt: skip
"""Roles that Playwright names by their content, as the tree does."""
_NAMED_BY_AUTHOR = FIELDS | {"img", "dialog", "alertdialog"}
"""Roles that have a name only from a label, a title or the like, in both."""
_UNNAMED = frozenset({"listitem", "row", "article", "paragraph", "status", "alert"})
"""Roles that are found by the text in them."""
_CONTAINERS = ("row", "listitem", "article", "dialog", "alertdialog")

_FILES_BUTTON = "Choose Files"
"""What the browser calls an input of several files; Playwright has another name for it."""
_NO_TEXT = FIELDS | {"img", "iframe", "canvas", "checkbox", "radio", "switch"}
"""Roles whose name is no text of theirs."""


class Node:
    """A line of an axtree."""

    __slots__ = ("children", "depth", "frame", "parent", "ref", "role", "states", "text")

    def __init__(self, line: str, depth: int, parent: Node | None, element: Ref | None) -> None:
        self.depth = depth
        self.parent = parent
        self.children: list[Node] = []
        self.ref = element.ref if element else ""
        self.role = element.role if element else ""
        self.states = element.states if element else ()
        self.text = squeeze(element.name if element else text_in(line) or "")
        """Its name, or what a text line says."""
        inside = parent is not None and parent.role == "iframe"
        self.frame: Node | None = parent if inside else parent.frame if parent else None

    @property
    def words(self) -> str:
        """Its text on the page; empty if its name comes from elsewhere."""
        return "" if self.role in _NO_TEXT or "type=file" in self.states else self.text

    def below(self) -> Iterator[Node]:
        """Yield the nodes below it, in document order."""
        todo = self.children[::-1]
        while todo:
            node = todo.pop()
            yield node
            todo += reversed(node.children)


class Page:
    """A page's tree.

    Args:
        axtree: The page, as `webtraj.environments.browser.observation` describes it.
    """

    def __init__(self, axtree: str) -> None:
        self.nodes: list[Node] = []
        self._by_ref: dict[str, Node] = {}
        above: list[Node] = []
        for line in axtree.split("\n"):  # A name may hold other line ends.
            depth = (len(line) - len(line.lstrip(" "))) // 2
            element = next(iter(refs_in(line)), None)
            if element is None and text_in(line) is None:
                continue  # It counts lines that are cut off, or says that a frame did not answer.
            while above and above[-1].depth >= depth:
                above.pop()
            node = Node(line, depth, above[-1] if above else None, element)
            if above:
                above[-1].children.append(node)
            above.append(node)
            self.nodes.append(node)
            if node.ref in self._by_ref:  # Suggestions for several fields stand under the first.
                node.children = self._by_ref[node.ref].children
            if node.ref:
                self._by_ref[node.ref] = node

    def __getitem__(self, ref: str) -> Node | None:
        return self._by_ref.get(ref)

    @property
    def refs(self) -> Set[str]:
        """The refs of all elements."""
        return self._by_ref.keys()

    def of_role(self, role: str, frame: Node | None) -> list[Node]:
        """Return the nodes of a role in a frame, in document order."""
        return [node for node in self.nodes if node.role == role and node.frame is frame]

    def with_text(self, text: str, frame: Node | None, *, exact: bool) -> list[Node]:
        """Return the innermost nodes of a frame that hold a text, in document order."""
        return [
            node
            for node in self.nodes
            if node.frame is frame
            and _matches(node.words, text, exact=exact)
            and not any(_matches(child.words, text, exact=exact) for child in node.below())
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """What an episode tells about an action's element."""

    node: Node | None = None
    """Its line in the tree before the action; None if it has none."""
    role: str = ""
    name: str = ""
    test_id: str = ""
    named_by: Set[str] = frozenset()
    """The words of `LastAction.named_by`: reasons why Playwright may not find it by its name."""
    selector: str = ""
    """A CSS selector for it, as Playwright reads it; empty if unknown."""
    frame_url: str = ""
    is_described: bool = False
    """Whether the page described it; otherwise only its line in the tree is known."""

    @property
    def tag(self) -> str:
        """The element's tag, taken from its CSS path; empty if it has an id."""
        last = self.selector.rpartition(" > ")[2]
        return "" if last.startswith("#") else re.split(r"[:\[]", last)[0]

    @property
    def takes_files(self) -> bool:
        """Whether it is a file input."""
        return self.tag == "input" or (self.node is not None and "type=file" in self.node.states)

    @property
    def is_checked(self) -> bool | None:
        """Whether it was checked before the action; None if unknown."""
        return None if self.node is None else "checked" in self.node.states

    @property
    def is_behind_label(self) -> bool:
        """Whether its label covers it, so that Playwright refuses to click it."""
        return "behind" in self.named_by

    @property
    def text(self) -> str:
        """Its text; empty if unknown, not its name, redacted, or too long to search for."""
        if self.node is None or self.named_by & {"title", "aria-label", "parts"}:
            return ""
        words = self.node.words
        return words if _usable(words) and len(words) <= _MAX_TEXT else ""


def target_of(page: Page, ref: str | None, last: Mapping[str, Any]) -> Target:
    """Return the target of an action.

    Args:
        page: The page before the action.
        ref: The action's ref; None to use the ref in `last`.
        last: The `last_action` of the observation after the action; empty if it is about another
            element.
    """
    if ref is not None and last.get("ref") != ref:
        last = {}
    node = page[ref if ref is not None else str(last.get("ref", ""))]
    return Target(
        node=node,
        role=node.role if node else str(last.get("role", "")),
        name=node.text if node else squeeze(str(last.get("name", ""))),
        test_id=str(last.get("test_id", "")),
        named_by=frozenset(str(last.get("named_by", "")).split()),
        selector=str(last.get("selector", "")),
        frame_url=str(last.get("frame", "")),
        is_described=bool(last.get("ref")),
    )


def locate(page: Page, target: Target) -> Chain | None:
    """Return the calls that find an element, from `page` on; None if nothing identifies it."""
    if target.selector.startswith(":scope"):
        return None  # It is in a closed shadow root.
    frame = target.node.frame if target.node else None
    within = _frame(page, frame)
    for find in _FINDERS:
        found = find(page, target, frame)
        if found is not None:
            return (*within, *found)
    return None


def locator_kind(chain: Chain) -> str:
    """Return how a locator finds its element: `role`, `text`, `test id` or `css`."""
    names = {call.name for call in chain}
    kinds = {
        "get_by_role": "role", "get_by_text": "text", "get_by_label": "text",
        "get_by_test_id": "test id",
    }  # fmt: skip
    return next((kind for name, kind in kinds.items() if name in names), "css")


def has_placeholder(text: str) -> bool:
    """Return whether a recorded text has a placeholder, which is not on the page."""
    return _PLACEHOLDER in text


def _matches(text: str, wanted: str, *, exact: bool) -> bool:
    return text == wanted if exact else wanted.lower() in text.lower()


def _part(name: str) -> str:
    """Return a name, cut at a word if it is long, and without the sign of a link to a heading."""
    name = name.partition(" \N{PILCROW SIGN}")[0]
    if len(name) <= _MAX_NAME:
        return name
    return name[:_MAX_NAME].rpartition(" ")[0] or name[:_MAX_NAME]


def _usable(name: str) -> bool:
    return bool(name) and not has_placeholder(name)


def _is_summary(node: Node) -> bool:
    """Whether it is a `summary`, which has no role for Playwright."""
    above = node.parent
    return (
        node.role == "button"
        and above is not None
        and above.role == "group"
        and above.children[0] is node
        and any(state.startswith("expanded=") for state in node.states)
    )


def _role_is_known(target: Target) -> bool:
    """Return whether Playwright gives the element the same role as the tree."""
    if target.node is None or _is_summary(target.node):
        return False
    if "type=file" in target.node.states and target.name == _FILES_BUTTON:
        return False
    if target.tag == "area":
        return False  # Playwright takes it for hidden.
    if target.named_by & {"title", "label"} or target.named_by >= {"icon", "parts"}:
        return False
    if target.role in ("textbox", "searchbox") and target.tag not in ("", "input", "textarea"):
        return False  # Editable content.
    return target.role in _NAMED_BY_CONTENT | _NAMED_BY_AUTHOR


def _frame(page: Page, frame: Node | None) -> Chain:
    chain: Chain = ()
    while frame is not None:
        frames = page.of_role("iframe", frame.frame)
        if _usable(frame.text) and sum(other.text == frame.text for other in frames) == 1:
            calls: Chain = (Call("frame_locator", (f"iframe[title={_css_string(frame.text)}]",)),)
        elif len(frames) == 1:
            calls = (Call("frame_locator", ("iframe:visible",)),)
        else:
            position = Call("nth", (frames.index(frame),))
            calls = (Call("locator", ("iframe:visible",)), position, Call("content_frame", None))
        chain = (*calls, *chain)
        frame = frame.frame
    return chain


def _css_string(text: str) -> str:
    r"""Return a text as a CSS string.

    >>> print(_css_string("it's\n"))
    'it\'s\a '
    """
    safe = re.sub(r"[\x00-\x1f\x7f'\\]", _css_escape, text)
    return f"'{safe}'"


def _css_escape(found: re.Match[str]) -> str:
    character = found[0]
    return f"\\{character}" if character in "'\\" else f"\\{ord(character):x} "


def _by_role(page: Page, target: Target, frame: Node | None) -> Chain | None:
    """A role and a name that no other element has."""
    if not _role_is_known(target) or not _usable(target.name):
        return None
    return _find_by_name(page.of_role(target.role, frame), target)


def _find_by_name(peers: list[Node], target: Target) -> Chain | None:
    role, name = target.role, target.name
    for exact in (False, True)[: 1 if "icon" in target.named_by else 2]:
        wanted = name if exact else _part(name)
        if sum(_matches(peer.text, wanted, exact=exact) for peer in peers) == 1:
            options = {"name": wanted, **({"exact": True} if exact else {})}
            return (Call("get_by_role", (role,), options),)
    return None


def _by_attribute(page: Page, target: Target, frame: Node | None) -> Chain | None:
    """A label or title that no other element has."""
    known = {"aria-label": "get_by_label", "title": "get_by_title"}
    calls = [call for attribute, call in known.items() if attribute in target.named_by]
    if not calls or not _usable(target.name) or len(target.name) > _MAX_TEXT:
        return None
    if sum(node.text == target.name and node.frame is frame for node in page.nodes) != 1:
        return None
    return (Call(calls[0], (target.name,), {"exact": True}),)


def _by_role_alone(page: Page, target: Target, frame: Node | None) -> Chain | None:
    if not _role_is_known(target) or target.role not in FIELDS | {"dialog", "alertdialog"}:
        return None
    if len(page.of_role(target.role, frame)) > 1:
        return None
    return (Call("get_by_role", (target.role,)),)


def _by_text(page: Page, target: Target, frame: Node | None) -> Chain | None:
    """Find by a text that no other element has. Exact, because hidden texts are found too."""
    node, text = target.node, target.text
    if node is None or not text:
        return None
    wanted = _part(text)
    # Playwright compares an element's whole text, that of others in it included.
    alone = bool(node.role) or node.parent is None or len(node.parent.children) == 1
    exact = wanted == text and alone
    if page.with_text(wanted, frame, exact=exact) != [node]:
        return None
    found = _text_call(wanted, exact=exact)
    if target.is_described or node.role != "generic":
        return (found,)
    # The tree does not show whether its name is its text or its label.
    if sum(_matches(each.text, wanted, exact=exact) for each in page.nodes) > 1:
        return None
    label = (*_frame(page, frame), Call("get_by_label", found.arguments, found.options))
    return (found, Call("or_", (Located(label),)))


def _text_call(text: str, *, exact: bool) -> Call:
    return Call("get_by_text", (text,), {"exact": True} if exact else {})


def _by_test_id(page: Page, target: Target, frame: Node | None) -> Chain | None:
    usable = _usable(target.test_id)
    return (Call("get_by_test_id", (target.test_id,)),) if usable else None


def _by_container(page: Page, target: Target, frame: Node | None) -> Chain | None:
    """A role and a name, in a container that can be told apart."""
    node = target.node
    if node is None:
        return None
    if node.role in _UNNAMED:
        return _with_text(page, node)
    if not _role_is_known(target):
        return None
    above = node.parent
    while above is not None and above.frame is frame:
        if above.role in _CONTAINERS:
            peers = [each for each in above.below() if each.role == node.role]
            outer = _with_text(page, above)
            if _usable(target.name):
                inner = _find_by_name(peers, target)
            else:
                inner = (Call("get_by_role", (target.role,)),) if len(peers) == 1 else None
            if outer is not None and inner is not None:
                return outer + inner
        above = above.parent
    return None


def _with_text(page: Page, node: Node) -> Chain | None:
    """Return the container of a text, if no other container of the same role has the text."""
    peers = page.of_role(node.role, node.frame)
    if any(peer in node.below() for peer in peers):
        return None  # A text would be in both.
    call = Call("get_by_role", (node.role,))
    if len(peers) == 1:
        return (call,)
    texts = [_all_words(peer) for peer in peers]
    # Playwright joins the texts of a part that has parts itself in a way of its own.
    inner = [each for each in (node, *node.below()) if not each.children]
    for each in sorted(inner, key=lambda each: each.role in _ALSO_NAMED):
        text = _part(each.words)
        if _usable(text) and sum(_matches(other, text, exact=False) for other in texts) == 1:
            return (call, Call("filter", (), {"has_text": text}))
    return None


def _all_words(node: Node) -> str:
    return "\n".join(each.words for each in (node, *node.below()))


_ALSO_NAMED = frozenset({"button", "link", "menuitem", "tab"})
"""Roles whose name may be no text of theirs, such as that of a button with a picture."""

_ID = re.compile(r"#(?:[A-Za-z_-]|\\[^0-9A-Fa-f])(?:[\w-]|\\.)*")
_GENERATED = re.compile(r"\d{4}")
"""A number in an id that may differ in the next run."""


def _by_id(page: Page, target: Target, frame: Node | None) -> Chain | None:
    if not _ID.fullmatch(target.selector) or has_placeholder(target.selector):
        return None
    if _GENERATED.search(target.selector):
        return None
    return (Call("locator", (target.selector,)),)


def _by_position(page: Page, target: Target, frame: Node | None) -> Chain | None:
    node = target.node
    if node is None:
        return None
    if _role_is_known(target) and "icon" not in target.named_by:
        peers = page.of_role(target.role, frame)
        call = Call("get_by_role", (target.role,))
        if _usable(target.name):
            peers = [peer for peer in peers if peer.text == target.name]
            call = Call("get_by_role", (target.role,), {"name": target.name, "exact": True})
        return (call, *_nth(peers.index(node)))
    if target.text and not target.selector:
        peers = page.with_text(target.text, frame, exact=True)
        if node in peers:
            return (_text_call(target.text, exact=True), *_nth(peers.index(node)))
    return None


def _nth(position: int) -> Chain:
    return (Call("first", None),) if position == 0 else (Call("nth", (position,)),)


def _by_path(page: Page, target: Target, frame: Node | None) -> Chain | None:
    if not target.selector or has_placeholder(target.selector):
        return None
    return (Call("locator", (target.selector,)),)


_FINDERS = (
    _by_role,
    _by_attribute,
    _by_role_alone,
    _by_text,
    _by_test_id,
    _by_container,
    _by_id,
    _by_position,
    _by_path,
)
