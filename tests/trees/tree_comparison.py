"""A comparison of the page tree with Chromium's accessibility tree, Playwright's and the words.

What Chromium says of a page comes from the debugging protocol: the accessibility tree of each frame
(`Accessibility.getFullAXTree`), the DOM, and the text that is laid out (`DOMSnapshot`). Its
elements are matched one by one, by their paths in the DOM; Playwright's ARIA snapshot is matched by
role and name; a word is looked for in the lines of the elements around it. Each difference gets a
kind, by rule. `DECIDED` gives the reason for the kinds that stay.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Iterator, Mapping
from typing import Any

import playwright.async_api

from webtraj.environments.browser.observation import is_cut, refs_in, text_in
from webtraj.environments.browser.page_script import sender
from webtraj.environments.browser.recorded_channels import read_string

ROLES = {
    "Date": "textbox",
    "DateTime": "textbox",
    "InputTime": "textbox",
    "ColorWell": "textbox",
    "DisclosureTriangle": "button",
    "image": "img",
    "Iframe": "iframe",
    "Video": "video",
    "Audio": "audio",
    "LabelText": "generic",
    **dict.fromkeys(["doc-backlink", "doc-biblioref", "doc-glossref", "doc-noteref"], "link"),
}
"""Chromium's own names of roles, as ARIA or the tree says them."""

WIDGETS = frozenset({
    "button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "switch",
    "slider", "spinbutton", "tab", "option", "menuitem", "menuitemcheckbox", "menuitemradio",
    "treeitem",
})  # fmt: skip
"""The roles that count as interactive, beside everything that takes the focus."""


@dataclasses.dataclass(eq=False, slots=True)
class Node:
    """A node of the DOM."""

    tag: str
    attributes: dict[str, str]
    parent: Node | None
    path: tuple[int | str, ...] | None
    """From the document; None for what no script can reach, as the parts of a video's controls."""
    document: str = ""
    """The frame of the document of its origin; empty for the page's."""
    ref: str = ""

    def around(self) -> Iterator[Node]:
        """Yield the node and what it is in."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent


@dataclasses.dataclass(frozen=True, slots=True)
class Element:
    """What a tree says of an element."""

    role: str
    name: str
    states: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One element or word for which the trees differ."""

    witness: str
    """Who differs: `chromium`, `playwright` or `words`."""
    kind: str
    """A key of `DECIDED`, or what differs: missing, role, name, state, word."""
    where: str
    theirs: str
    ours: str


@dataclasses.dataclass(slots=True)
class Result:
    """The comparison of one page or many."""

    compared: Counter[str] = dataclasses.field(default_factory=Counter)
    """The number of elements or words, by witness."""
    differences: list[Difference] = dataclasses.field(default_factory=list)

    def add(self, other: Result) -> None:
        """Add the result of another page."""
        self.compared += other.compared
        self.differences += other.differences

    def undecided(self, witness: str) -> list[Difference]:
        """Return the differences of no decided kind."""
        return [d for d in self.differences if d.witness == witness and d.kind not in DECIDED]


async def compare(environment: Any, axtree: str) -> Result:
    """Compare the tree of an observation with the page that the environment shows."""
    session = environment.session
    sites = [await _read_site(session, session.page)]
    for frame in session.page.frames[1:]:
        with contextlib.suppress(playwright.async_api.Error):  # In the process around it, or gone.
            sites.append(await _read_site(session, frame))
    aria = [await _aria_snapshot(frame) for frame in session.page.frames]
    foreign = await _foreign_documents(session)
    documents: dict[str, list[Node]] = {"": []}
    owners: dict[str, Node] = {}
    for site in sites:
        document = site.frames[0] if site is not sites[0] else ""
        _note_nodes(site, document, foreign, owners)
        for node in site.nodes.values():
            if node.tag != "#text" and node.path:
                documents.setdefault(node.document, []).append(node)
    for document, within in documents.items():
        paths = [node.path for node in within]
        if document == "":
            found = await session.elements_at(paths, hidden="")
        elif document in foreign:
            found = (await foreign[document]({"paths": paths, "hidden": ""}))["elements"]
        else:
            continue
        for node, known in zip(within, found, strict=True):
            node.ref = known["ref"] if known else ""
    elements = [node for within in documents.values() for node in within]
    by_id = {node.attributes["id"]: node for node in elements if "id" in node.attributes}
    texts = [each for site in sites for each in _laid_out(site.snapshot, site.nodes)]
    ours = Ours(axtree, by_id, {squeeze(text) for node, text in texts if node.tag.startswith("::")})
    result = Result()

    chromium = [
        (node, theirs)
        for site in sites
        for each in site.told
        if (node := site.nodes.get(each.get("backendDOMNodeId", 0))) and (theirs := _element(each))
    ]
    snapshots = [each for snapshot in aria for each in _playwright(snapshot)]
    result.compared.update(chromium=len(chromium), playwright=len(snapshots))
    by_playwright = {(role, name) for _, role, name in snapshots}
    by_chromium: dict[tuple[str, str], str] = {}
    for node, theirs in chromium:
        kind = ""
        for kind, there, here in ours.differences(node, theirs, by_playwright):
            result.differences.append(Difference("chromium", kind, where(node), there, here))
        by_chromium[theirs.role, theirs.name] = kind
    for line, role, name in snapshots:
        if kind := ours.lacks(role, name, by_chromium):
            result.differences.append(Difference("playwright", kind, "", line.strip(), ""))
    hints = [each for site in sites for each in _placeholders(site.told, site.nodes)]
    for node, text in [*texts, *hints]:
        result.compared["words"] += len(words(text))
        for word in ours.missing(node, text):
            kind = ours.why_unsaid(node)
            result.differences.append(Difference("words", kind, where(node), word, ""))
    return result


@dataclasses.dataclass(slots=True)
class _Site:
    """What one process of the browser tells of the frames in it."""

    root: Mapping[str, Any]
    frames: list[str]
    told: list[Mapping[str, Any]]
    """The nodes of the accessibility trees."""
    snapshot: Mapping[str, Any]
    nodes: dict[int, Node] = dataclasses.field(default_factory=dict)
    """By their backend ids."""


async def _read_site(session: Any, frame: Any) -> _Site:
    """Return what the process of a page or frame tells."""
    protocol = await session.page.context.new_cdp_session(frame)
    try:
        await protocol.send("DOM.enable", {"includeWhitespace": "all"})
        document = await protocol.send("DOM.getDocument", {"depth": -1, "pierce": True})
        frames = list(_frames((await protocol.send("Page.getFrameTree"))["frameTree"]))
        told = []
        for each in frames:
            tree = await protocol.send("Accessibility.getFullAXTree", {"frameId": each})
            told += tree["nodes"]
        snapshot = await protocol.send(
            "DOMSnapshot.captureSnapshot", {"computedStyles": ["visibility"]}
        )
    finally:
        await protocol.detach()
    return _Site(document["root"], frames, told, snapshot)


async def _foreign_documents(session: Any) -> dict[str, Callable[[Any], Awaitable[Any]]]:
    """Return the function that asks for elements, by frame of another origin."""
    documents = {}
    for debugger, world in session.foreign_frames.find_entered(session.page):
        send = sender(session, debugger)
        found = await send(
            "Runtime.callFunctionOn",
            {
                "functionDeclaration": "() => document.documentElement",
                "objectId": world.script,
            },
        )
        told = await send("DOM.describeNode", {"objectId": found["result"]["objectId"]})
        documents[told["node"]["frameId"]] = functools.partial(world.call, send, "elementsAt")
    return documents


def words(text: str) -> list[str]:
    """Return the words of a text."""
    return re.findall(r"\w+", text.casefold())


def where(node: Node) -> str:
    """Return the last steps of a node's path, for a reader."""
    told = []
    for each in list(node.around())[:4]:
        given = "".join(
            f"[{key}={each.attributes[key][:30]}]"
            for key in (
                "id",
                "role",
                "type",
                "aria-label",
                "aria-hidden",
                "title",
                "class",
                "tabindex",
            )
            if key in each.attributes
        )
        told.append(each.tag.lower() + given)
    return " > ".join(reversed(told))


def _frames(tree: Mapping[str, Any]) -> Iterator[str]:
    yield tree["frame"]["id"]
    for child in tree.get("childFrames", ()):
        yield from _frames(child)


def _note_nodes(
    site: _Site, document: str, foreign: Container[str], owners: dict[str, Node]
) -> None:
    """Note a site's nodes by their backend ids, and the elements of frames by the frames."""

    def walk(told: Mapping[str, Any], parent: Node | None, document: str, path: Any) -> None:
        def below(step: int | str) -> Any:
            return None if path is None else (*path, step)

        given = told.get("attributes", [])
        attributes = dict(zip(given[::2], given[1::2], strict=True))
        node = Node(told["nodeName"], attributes, parent, path, document)
        site.nodes[told["backendNodeId"]] = node
        for number, child in enumerate(told.get("children", ())):
            walk(child, node, document, below(number))
        for root in told.get("shadowRoots", ()):
            is_closed = root["shadowRootType"] == "user-agent"
            walk(root, node, document, None if is_closed else below("shadow"))
        for pseudo in told.get("pseudoElements", ()):
            walk(pseudo, node, document, None)
        frame = told.get("frameId", "") if node.tag != "HTML" else ""
        if frame:
            owners[frame] = node
        if inner := told.get("contentDocument"):
            is_foreign = frame in foreign
            walk(inner, node, *((frame, ()) if is_foreign else (document, below("frame"))))

    walk(site.root, owners.get(document), document, ())


def _element(told: Mapping[str, Any]) -> Element | None:
    """Return an interactive element of Chromium's tree; None for any other node."""
    if told["ignored"]:
        return None
    properties = {each["name"]: each["value"].get("value") for each in told.get("properties", ())}
    role = told["role"]["value"]
    role = ROLES.get(role, role)
    if role in {"RootWebArea", "iframe"}:
        return None
    if role not in WIDGETS and not properties.get("focusable"):
        return None
    states = set()
    for name in ("checked", "pressed"):
        if properties.get(name) in ("true", "mixed", True):
            states.add(name + ("=mixed" if properties[name] == "mixed" else ""))
    for name in ("selected", "disabled"):
        if properties.get(name):
            states.add(name)
    if properties.get("readonly"):
        states.add("readonly")
    if "expanded" in properties:
        states.add(f"expanded={str(properties['expanded']).lower()}")
    value = told.get("value", {}).get("value")
    if value not in (None, ""):
        states.add(f"value={squeeze(str(value))}")
    return Element(role, squeeze(told.get("name", {}).get("value", "")), frozenset(states))


def squeeze(text: str) -> str:
    """Return a text with its white space as single spaces."""
    return " ".join(text.split())


_STATES = re.compile(r"(checked|pressed|selected|disabled|readonly|expanded|value)(=|$)")


class Ours:
    """The page tree, read.

    Args:
        axtree: The tree.
        by_id: The elements of the page by their ids.
        styled: The texts that styles add to the page.
    """

    def __init__(self, axtree: str, by_id: Mapping[str, Node], styled: Collection[str]) -> None:
        self._by_id = by_id
        self._refs = {ref.ref: ref for ref in refs_in(axtree)}
        self._styled = sorted(filter(None, styled), key=len, reverse=True)
        self._cut = is_cut(axtree)
        self._left = Counter((ref.role, ref.name.casefold()) for ref in self._refs.values())
        self._said: dict[str, list[str]] = {"": [], **{ref: [] for ref in self._refs}}
        self._joined: dict[str, str] = {}
        around: list[tuple[int, str]] = []
        for line in axtree.split("\n"):
            indent = len(line) - len(line.lstrip(" "))
            while around and around[-1][0] >= indent:
                around.pop()
            text = text_in(line) or ""
            for ref in refs_in(line) if not text else ():
                values = [state.partition("=")[2] for state in ref.states]
                text = " ".join([ref.name, *(read_string(v) for v in values if v[:1] == '"')])
                around.append((indent, ref.ref))
            for ref in ("", *(ref for _, ref in around)):
                self._said[ref].append(text)

    def missing(self, node: Node, text: str) -> list[str]:
        """Return the words of a text that are neither in the element around it nor in a name.

        Names are those of all elements around it, and of what a label around it stands for.
        """
        labelled = [
            self._by_id[each.attributes["for"]]
            for each in node.around()
            if each.tag == "LABEL" and each.attributes.get("for") in self._by_id
        ]
        lined = [each.ref for each in node.around() if each.ref in self._refs]
        nearest = lined[0] if lined else ""
        if nearest not in self._joined:
            self._joined[nearest] = _compact(" ".join(self._said[nearest]))
        lined += [each.ref for each in labelled if each.ref in self._refs]
        said = "\n".join([self._joined[nearest], *(_compact(self._refs[r].name) for r in lined)])
        return [] if _compact(text) in said else [word for word in words(text) if word not in said]

    def differences(
        self, node: Node, theirs: Element, by_playwright: Container[tuple[str, str]]
    ) -> Iterator[tuple[str, str, str]]:
        """Yield in what an element differs, or why: the kind, theirs and ours."""
        ref = self._refs.get(node.ref)
        if ref is None:
            yield self._why_missing(node), f"{theirs.role} {theirs.name!r}", ""
            return
        if ref.role != theirs.role:
            yield self._why_role(node, ref.role), theirs.role, ref.role
        # A plain element has its text on its line, or inside.
        plain = ref.role == "generic" and not (ref.name and theirs.name)
        if not plain and ref.name.casefold() != theirs.name.casefold():
            bare = self._without_style(theirs.name)
            if theirs.name and bare in ("", ref.name.casefold()):
                yield "text of a style", theirs.name, ref.name
            else:
                agreed = (ref.role, ref.name) in by_playwright
                yield "as Playwright" if agreed else "name", theirs.name, ref.name
        here = set()
        for state in ref.states:
            if _STATES.match(state):
                key, _, value = state.partition("=")
                value = squeeze(read_string(value)) if value[:1] == '"' else value
                here.add(f"{key}={value}" if value else key)
        for state in sorted(theirs.states - here):
            yield self._why_state(node, state), state, ""
        for state in sorted(here - theirs.states):
            yield self._why_told(node, state), "", state

    def lacks(self, role: str, name: str, by_chromium: Mapping[tuple[str, str], str]) -> str:
        """Take the next element with a role and name; return the kind of difference without one."""
        for kind, wanted in ("", name.casefold()), ("text of a style", self._without_style(name)):
            if self._left[role, wanted] > 0:
                self._left[role, wanted] -= 1
                return kind
        if name and not wanted:
            return "text of a style"
        return "cut" if self._cut else by_chromium.get((role, name), "as Chromium") or "missing"

    def _without_style(self, name: str) -> str:
        for text in self._styled:
            name = name.replace(text, " ")
        return squeeze(re.sub("[\ue000-\uf8ff]", " ", name)).casefold()  # The signs of icon fonts.

    def _why_missing(self, node: Node) -> str:
        if self._cut:
            return "cut"
        if node.path is None:
            return "part of a field"
        return "editor" if self._is_edited(node) else "missing"

    def _is_edited(self, node: Node) -> bool:
        """Return whether a node is an editor, or in one."""
        return any(
            each.tag not in ("INPUT", "TEXTAREA")
            and each.ref in self._refs
            and self._refs[each.ref].role == "textbox"
            for each in node.around()
        )

    def _why_role(self, node: Node, ours: str) -> str:
        if node.tag == "A" and "href" not in node.attributes and ours == "generic":
            return "anchor without href"
        return "editor" if ours == "textbox" and self._is_edited(node) else "role"

    def _why_state(self, node: Node, state: str) -> str:
        key, _, value = state.partition("=")
        if node.tag == "SELECT" and state == "expanded=false":
            return "closed select"
        if key != "value":
            return "state"
        if node.attributes.get("type") == "file":
            return "no file"
        if node.tag == "INPUT" and value == "0":
            return "empty number"
        if self._is_edited(node):
            return "editor"
        return "state" if self.missing(node, value) else "value inside"

    def _why_told(self, node: Node, state: str) -> str:
        if node.tag == "OPTION" and state == "selected":
            return "option of a disabled select"
        if state == "readonly" and "readonly" in node.attributes:
            return "read-only"
        return "editor" if state.startswith("value=") and self._is_edited(node) else "state"

    def why_unsaid(self, node: Node) -> str:
        """Return the kind of a word that is missing."""
        for each in node.around():
            if each.tag.startswith("::"):
                return "text of a style"
            if each.attributes.get("aria-hidden") == "true":
                return "aria-hidden"
        return "cut" if self._cut else "word"


def _compact(text: str) -> str:
    return "".join(words(text))


def _laid_out(snapshot: Mapping[str, Any], nodes: dict[int, Node]) -> Iterator[tuple[Node, str]]:
    """Yield the texts that have an area and are visible."""
    strings = snapshot["strings"]
    for document in snapshot["documents"]:
        layout, ids = document["layout"], document["nodes"]["backendNodeId"]
        for at, text, styles, bounds in zip(
            layout["nodeIndex"], layout["text"], layout["styles"], layout["bounds"], strict=True
        ):
            if text < 0 or bounds[2] <= 0 or bounds[3] <= 0:
                continue
            if styles and strings[styles[0]] != "visible":
                continue
            node = nodes.get(ids[at])
            if node is not None:
                yield node, strings[text]


def _placeholders(
    told: Iterable[Mapping[str, Any]], nodes: Mapping[int, Node]
) -> Iterator[tuple[Node, str]]:
    """Yield what empty fields show."""
    for each in told:
        node = nodes.get(each.get("backendDOMNodeId", 0))
        if node and node.tag in ("INPUT", "TEXTAREA") and not each.get("value", {}).get("value"):
            yield node, node.attributes.get("placeholder", "")


_PLAYWRIGHT = 10
"""Deadline in seconds. A script that writes its frame anew can leave Playwright without a world in
it, and `count` has no deadline of its own."""
_LINE = re.compile(r'^ *- (?P<role>[a-z]+)(?: (?P<name>"(?:[^"\\]|\\.)*"))?(?:[ :]|$)')


async def _aria_snapshot(frame: Any) -> str:
    """Return Playwright's snapshot; empty for a frame that Playwright waits for in vain."""
    body = frame.locator("body")
    try:
        async with asyncio.timeout(_PLAYWRIGHT):
            return str(await body.aria_snapshot()) if await body.count() == 1 else ""
    except TimeoutError:
        return ""


def _playwright(snapshot: str) -> Iterator[tuple[str, str, str]]:
    """Yield the line, role and name of each interactive element of an ARIA snapshot."""
    for line in snapshot.split("\n"):
        quoted = re.match(r"( *- )'((?:[^']|'')*)'", line)  # YAML's quotes around all of it.
        found = _LINE.match(quoted[1] + quoted[2].replace("''", "'") if quoted else line)
        if found and found["role"] in WIDGETS:
            yield line, found["role"], squeeze(read_string(found["name"] or ""))


DECIDED: dict[str, str] = {
    "cut": "The tree reached its size limit. Its last line counts the lines left out.",
    "part of a field": "A field is one line. The parts that the browser draws in it have none.",
    "anchor without href": "Generic, as in Playwright and HTML-AAM. It may have a handler.",
    "editor": "An editable region is one textbox. Its value has all words in it.",
    "as Playwright": "Chromium and Playwright disagree on the name. Our tree has Playwright's.",
    "as Chromium": "Playwright and Chromium disagree on the role or name. Our tree has Chromium's.",
    "text of a style": "Text added by CSS is left out. Most of it is characters of icon fonts.",
    "closed select": "A select always lists its options, so it is neither open nor closed.",
    "no file": "The line has type=file, and a value once a file is chosen.",
    "empty number": "An empty field has no value. Chromium reports 0.",
    "read-only": "A read-only field of any role is marked. Chromium marks plain text fields alone.",
    "value inside": "The value of a control built from other elements is the text inside it.",
    "option of a disabled select": "The chosen option is selected even if the select is disabled.",
    "aria-hidden": "Left out as the page asks, and as in Chromium's and Playwright's trees.",
}
"""The kinds of differences that are intended, with the reason."""
