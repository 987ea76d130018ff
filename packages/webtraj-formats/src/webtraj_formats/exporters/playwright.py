"""Episodes as Playwright scripts that run without webtraj and without a model.

`playwright_script` writes one episode in Python or TypeScript; the exporter writes a dataset, a
file per episode: `test_<id>.py` for pytest-playwright or plain Python, `<id>.spec.ts` for
`@playwright/test`.

A script opens the episode's first page, repeats its actions, and checks its final state: the URL,
what has appeared on the page, and for MiniWoB++ the reward. Elements are found as a person would
find them (see `playwright_locators`). Typed values are variables at the top. A redacted value is an
environment variable: `<secret:password>` is `SECRET_PASSWORD`.

All text of pages, models and people goes into a script as string literals or as comments of one
line, never as code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import urlsplit

from webtraj import errors
from webtraj.datasets.exporters import base
from webtraj.datasets.exporters.plain import action_text
from webtraj.environments import actions as a
from webtraj.environments.actions.base import (
    MAX_COORDINATE,
    KeysRule,
    NumberRule,
    TextRule,
    UrlRule,
)
from webtraj.environments.actions.keys import split_chord
from webtraj.environments.actions.recorded import answer_of, verb_of
from webtraj.environments.browser.recorded_channels import (
    as_number,
    channel_of,
    last_action_of,
    read_string,
    text_of,
    texts_of,
)
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import EpisodeTrajectory, StepRecord
from webtraj_formats.exporters.playwright_code import (
    ITEM,
    LANGUAGES,
    WRITERS,
    Call,
    Chain,
    Code,
    Evaluated,
    Joined,
    Language,
    Located,
    Script,
    Statement,
    Variable,
    squeeze,
)
from webtraj_formats.exporters.playwright_locators import (
    Node,
    Page,
    Target,
    has_placeholder,
    locate,
    locator_kind,
    target_of,
)

__all__ = ["LANGUAGES", "Language", "PlaywrightExporter", "playwright_script"]

# From an episode to a script.

_LONGEST_NAME = 100
_MINIWOB_SIZE = (332, 214)
_MINIWOB_START = """\
(seed = 0) => {
  // Starts the page's task as recorded: from this seed, without a time limit.
  const core = Reflect.get(window, "core");
  core.EPISODE_MAX_TIME = 1e9;
  core.startEpisode = core.countdownTimer = core.clearTimer = () => {};
  document.body.removeEventListener("click", core.canvasDrawClick);
  const style = document.createElement("style");
  style.textContent =
    "#reward-display, #click-canvas, #sync-task-cover { display: none !important }" +
    "#query, #query * { visibility: hidden !important }";
  document.head.append(style);
  Reflect.get(Math, "seedrandom").call(Math, seed);
  core.startEpisodeReal();
}"""
_MINIWOB_DONE = Code('() => Reflect.get(window, "WOB_DONE_GLOBAL")')
_MINIWOB_REWARD = Code('() => Reflect.get(window, "WOB_RAW_REWARD_GLOBAL")')
_MINIWOB_ORIGIN = "http://localhost:8000"
_MINIWOB_PAGES = (
    "The pages are those of the miniwob package: set BASE_URL to file://<the package>/html, or "
    "serve this folder."
)
_APP_PAGES = (
    "The pages are those of a real application. Serve them with: webtraj apps open {} --seed {}; "
    "it prints what BASE_URL and others must be."
)


def playwright_script(trajectory: EpisodeTrajectory, language: Language = "python") -> str:
    """Return an episode as a Playwright script, which needs neither webtraj nor a model.

    Args:
        trajectory: An episode of a browser environment, with its actions and observations.
        language: `python`, for pytest-playwright or plain Python; or `typescript`, for
            `@playwright/test`.

    Raises:
        InvalidInputError: The language is unknown, or the episode does not record what a script
            needs: the URL of its first page, and browser actions.
    """
    return WRITERS[_check_language(language)].script(_convert(trajectory))


def _check_language(language: str) -> str:
    if language not in WRITERS:
        raise errors.InvalidInputError(
            f"language must be one of {', '.join(LANGUAGES)}; got {language!r:.60}."
        )
    return language


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlaywrightExporter:
    """Writes Playwright scripts. See `Exporter`."""

    version: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ()

    language: str = "python"
    """`python` or `typescript`."""

    def export(self, job: base.Job) -> None:
        """See `Exporter.export`."""
        writer = WRITERS[_check_language(self.language)]
        form = "test_{}.py" if self.language == "python" else "{}.spec.ts"
        for episode in job.episodes:
            try:
                script = _convert(episode)
            except errors.InvalidInputError as error:
                named = f"The episode {episode.episode_id!r:.150}"
                job.ledger.leave_out(episode.episode_id, str(error).replace(named, "It"))
                continue
            name = re.sub(r"[^A-Za-z0-9_]", "_", episode.episode_id)[:_LONGEST_NAME]
            path = job.folder / form.format(name)
            if path.exists():  # Ids that differ only in their signs.
                path = job.folder / form.format(f"{name}_{len(list(job.folder.iterdir()))}")
            path.write_text(writer.script(script), encoding="utf-8", newline="\n")
            job.ledger.wrote(episode)
            for field, why in script.notes:
                job.ledger.note(episode.episode_id, field, why)


def _convert(trajectory: EpisodeTrajectory) -> Script:
    info = trajectory.info
    steps = trajectory.steps
    url = _url_of(steps[0]) if steps else ""
    if not url or not any(_can_convert(_action(step)) for step in steps[1:]):
        raise errors.InvalidInputError(
            f"The episode {info.episode_id!r:.150} has no script: a script needs the URL of the "
            "first page and browser actions. Record with the channel url."
        )
    miniwob = info.site == "miniwob" and info.seed is not None
    seed = "" if info.seed is None else f", seed {info.seed}"
    header = [
        f"Goal: {info.goal}",
        (
            f"Recorded by webtraj: episode {info.episode_id}, task {info.task}{seed}, "
            f"outcome {trajectory.outcome.name.lower()}."
        ),
        *([_MINIWOB_PAGES] if miniwob else ()),
        *([_APP_PAGES.format(info.task, info.seed)] if info.task.startswith("apps/") else ()),
    ]
    name = re.sub(r"[^a-z0-9]+", "_", (info.task or "episode").lower())
    name = name[:_LONGEST_NAME].strip("_") or "episode"
    script = Script(name, tuple(header))
    if not miniwob and _may_have_dialogs(steps):
        script.add(kind="dialogs")
    converter = _Converter(script, url)
    converter.open(url, size=_size(steps, miniwob))
    if miniwob:
        script.origins["BASE_URL"] = _MINIWOB_ORIGIN
        script.texts["START"] = _MINIWOB_START
        script.variables["SEED"] = info.seed
        script.add(Call("evaluate", (Variable("START"), Variable("SEED"))))
    for index, (before, after) in enumerate(itertools.pairwise(steps), 2):
        converter.step(before, after)
        if index < len(steps):
            converter.wait(before, after, steps[index])
    reward = _reward(steps[-1])
    if miniwob and trajectory.terminated and reward is not None:
        script.add(Call("wait_for_function", (_MINIWOB_DONE,)))
        script.add(Call("evaluate", (_MINIWOB_REWARD,)), kind="equal", argument=reward)
    elif not miniwob:
        converter.check(steps)
    return script


def _origin_of(url: str) -> str:
    """Return the origin of a web page; empty if it has none, or if it is redacted."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or has_placeholder(parts.netloc):
        return ""
    return f"{parts.scheme}://{parts.netloc}"


def _text(step: StepRecord, key: str) -> str:
    return text_of(step.observation, key)


def _url_of(step: StepRecord) -> str:
    """Return a page's URL, or an empty string if a script may not open it."""
    url = _text(step, "url")
    try:
        UrlRule(optional=True).check(_SECRET.sub("secret", url))
    except ValueError:
        return ""
    return url


def _tree(step: StepRecord) -> Page:
    return Page(_text(step, "axtree"))


def _action(step: StepRecord) -> a.Action | None:
    action = step.action
    if isinstance(action, str):
        action = a.parse_action(action)
    if isinstance(action, OpaqueRecord):
        return _read_redacted(action)
    return action if isinstance(action, a.Action) else None


def _read_redacted(record: OpaqueRecord) -> a.Action | None:
    """Return an action with redacted text, which may break the rule of this text but no other."""
    verb = a.VERBS.get(verb_of(record))
    if verb is None or not all(isinstance(name, str) for name in record.fields):
        return None
    redacted = {
        name: value
        for name, value in record.fields.items()
        if isinstance(verb.rules.get(name), (KeysRule, UrlRule))
        and isinstance(value, str)
        and _SECRET.search(value)
    }
    allowed = {
        name: _SECRET.sub("secret", value) if isinstance(verb.rules[name], UrlRule) else "Enter"
        for name, value in redacted.items()
    }
    try:
        action = verb(**{**record.fields, **allowed})
        for name, value in redacted.items():
            object.__setattr__(action, name, TextRule().check(value))
    except (TypeError, ValueError):
        return None
    return action


def _can_convert(action: a.Action | None) -> bool:
    return type(action) in _CONVERTERS or answer_of(action) is not None


def _size(steps: Sequence[StepRecord], miniwob: bool) -> tuple[int, int] | None:
    """Return the viewport's size; None if it was not recorded."""
    scroll = channel_of(steps[0].observation, "scroll")
    if isinstance(scroll, Mapping):
        sides = [scroll.get("width"), scroll.get("height")]
        try:
            width, height = (int(NumberRule(1, MAX_COORDINATE).check(side)) for side in sides)
        except ValueError:
            return None
        return width, height
    return _MINIWOB_SIZE if miniwob else None


def _may_have_dialogs(steps: Sequence[StepRecord]) -> bool:
    """Return whether a dialog opened, or may have opened, since the channel is optional."""
    return any(texts_of(step.observation, "dialogs") != [] for step in steps)


def _reward(step: StepRecord) -> float | None:
    """Return the page's raw reward."""
    info = channel_of(step.observation, "info")
    return as_number(info.get("raw_reward") if isinstance(info, Mapping) else step.reward)


_SECRET = re.compile(r"<secret:([A-Za-z0-9][A-Za-z0-9_.-]{0,63})>")
_CLICKED = frozenset(
    {
        "button", "link", "checkbox", "radio", "switch", "tab", "menuitem", "menuitemcheckbox",
        "menuitemradio", "option", "textbox", "searchbox", "spinbutton", "combobox", "heading",
    }
)  # fmt: skip
"""Roles of elements that are the same to a click wherever it meets them."""
_SHOWING = ("alert", "status", "heading", "dialog")
"""Roles of what tells how things went; what has appeared is looked for among these first."""
_PASSING = re.compile(r"\d:\d\d|(?:\.\.\.|\N{HORIZONTAL ELLIPSIS})$")
"""Times of day, and what is shown while one waits."""
_RANDOM = re.compile(r"[0-9a-f]{12}")
"""An id in a URL, which another run would not have."""
_TOLD = frozenset({"alert", "status", "dialog"})
_PLAIN = frozenset(
    {
        "", "generic", "heading", "paragraph", "cell", "gridcell", "columnheader", "listitem",
        "menuitem",
    }
)  # fmt: skip
"""Roles whose text is on the page as it is in the tree, if nothing else is in them."""
_MOST_CHECKED = 2


class _Converter:
    """Turns steps into statements of a script."""

    def __init__(self, script: Script, url: str) -> None:
        self._script = script
        self.add = script.add
        if origin := _origin_of(url):
            script.origins["BASE_URL"] = origin
        self._page = Page("")
        self._shown_at = ("", frozenset[tuple[str, str]]())
        """The URL of the page, and what it showed when it was first seen there."""

    def open(self, url: str, *, size: tuple[int, int] | None) -> None:
        """Open the first page."""
        if size is not None:
            self.add(Call("set_viewport_size", ({"width": size[0], "height": size[1]},)))
        if url != "about:blank":
            self.add(Call("goto", (self._url(url),)))

    def step(self, before: StepRecord, after: StepRecord) -> None:
        """Repeat an action."""
        action = _action(after)
        last = last_action_of(after.observation)
        if last.get("error"):
            self._script.say(f"Step {after.index} failed: {action_text(after.action) or ''}")
            return
        said = action_text(after.action) or "no action"
        if action is None or type(action) not in _CONVERTERS:
            if action is not None and (answer := answer_of(action)) is not None:
                self._script.say(f"The agent said: {answer}")
            elif not isinstance(action, _SILENT):
                self._leave_out(after, f"{said} is no browser action")
            return
        self._page = _tree(before)
        if self._shown_at[0] != (url := _text(before, "url")):
            self._shown_at = (url, frozenset(_texts(self._page)))
        tabs, tabs_after = (texts_of(step.observation, "tabs") for step in (before, after))
        start = len(self._script.statements)
        try:
            _CONVERTERS[type(action)](self, action, last)
        except LookupError:
            del self._script.statements[start:]
            self._leave_out(after, f"nothing identifies the element of {said}")
            return
        followed = tabs is not None and tabs_after is not None
        if followed and not isinstance(action, _OF_TABS):
            self._follow_tab(len(tabs or ()), len(tabs_after or ()), start)
        self._follow_navigation(before, after, start)

    def key(self, method: str, text: Any) -> None:
        """Use the keyboard."""
        self.add(_KEYBOARD, Call(method, (text,)))

    def mouse(self, method: str, x: float, y: float) -> None:
        """Use the mouse."""
        self.add(_MOUSE, Call(method, (x, y)))

    @contextlib.contextmanager
    def holding(self, keys: Sequence[str]) -> Iterator[None]:
        """Hold keys down while the context lasts."""
        for key in keys:
            self.key("down", key)
        yield
        for key in reversed(keys):
            self.key("up", key)

    def take_tab(self, index: int) -> None:
        """Go on in another tab."""
        self.add(Call("context", None), Call("pages", None), Call(ITEM, (index,)), kind="let page")

    def _leave_out(self, step: StepRecord, why: str) -> None:
        self._script.say(f"Step {step.index} is left out: {why}")
        self._script.notes.append(("steps.action", f"left out: {why.partition(' of ')[0]}"))

    def _follow_tab(self, count: int, now: int, start: int) -> None:
        """Continue in the tab that the action opened, or in the tab left after it closed one."""
        statements = self._script.statements
        if now > count and len(statements) > start and statements[-1].kind == "do":
            statements[-1] = dataclasses.replace(statements[-1], kind="popup")
        elif now != count:
            self.take_tab(-1)

    def _follow_navigation(self, before: StepRecord, after: StepRecord, start: int) -> None:
        """Wait for the action's new document, since the next action may fit the old one too."""
        statements = self._script.statements
        if len(statements) == start or statements[-1].kind != "do" or self._loads(statements[-1]):
            return
        old, new = self._page, _tree(after)
        if not old.refs or not new.refs or not old.refs.isdisjoint(new.refs):
            return  # A new document shows no element of the old one.
        texts = _texts(new)
        urls = {_text(step, "url").partition("#")[0] for step in (before, after)}
        # Scripts replace all that a page shows, too; then it does not look the same.
        if len(urls) > 1 or 2 * len(texts & _texts(old)) >= len(texts):
            statements[-1] = dataclasses.replace(statements[-1], kind="navigate")

    @staticmethod
    def _loads(statement: Statement) -> bool:
        """Return whether Playwright waits for the new document by itself, or a timer led there."""
        return statement.chain[-1].name in (
            "goto", "go_back", "go_forward", "reload", "wait_for_timeout",
        )  # fmt: skip

    # Values.

    def literal(self, text: str) -> Any:
        """Return a recorded text, in which redacted parts are environment variables."""
        parts: list[str | Variable] = []
        for index, part in enumerate(_SECRET.split(text)):
            if index % 2:
                parts.append(self._secret(part))
            elif part:
                parts.append(part)
        if len(parts) == 1 and parts[0] == text:
            return text
        return Joined(tuple(parts)) if parts else text

    def _secret(self, name: str) -> Variable:
        known = self._script.secrets
        if name not in known:
            known[name] = self._free(f"SECRET_{_identifier(name)}")
        return Variable(known[name])

    def _free(self, wanted: str) -> str:
        """Return a name that no variable of the script has: the wanted name or a similar one."""
        script = self._script
        taken = {*_TAKEN, *script.variables, *script.secrets.values(), *script.origins}
        number, name = 2, wanted
        while name in taken:
            name, number = f"{wanted}_{number}", number + 1
        return name

    def value(self, text: str, wanted: str) -> Any:
        """Return the variable of a typed text, under the wanted name or a similar one."""
        if not text or has_placeholder(text):
            return self.literal(text)
        wanted = wanted or "TEXT"
        variables = self._script.variables
        if wanted in variables and variables[wanted] == text:
            return Variable(wanted)
        name = self._free(wanted)
        variables[name] = text
        return Variable(name)

    def _url(self, url: str) -> Any:
        """Return a URL, whose origin is a variable if others may serve the same pages."""
        origins = self._script.origins
        origin = _origin_of(url)
        if origin.endswith(".test") and origin not in origins.values():  # Only ever a local name.
            site = _identifier(origin.partition("://")[2].removesuffix(".test"))
            origins[self._free(f"{site}_URL")] = origin
        name = next((name for name, known in origins.items() if known == origin), None)
        if name is None:
            return self.literal(url)
        path = self.literal(url.removeprefix(origin))
        parts = path.parts if isinstance(path, Joined) else (path,)
        return Joined((Variable(name), *parts))

    # Elements.

    def target(self, ref: str, last: Mapping[str, Any]) -> tuple[Target, Chain]:
        """Return an action's element and its locator.

        Raises:
            LookupError: Nothing identifies it.
        """
        target = target_of(self._page, ref, last)
        chain = locate(self._page, target)
        if chain is None:
            raise LookupError(ref)
        came_up = (target.role, target.name) not in self._shown_at[1]
        if (came_up or target.named_by) and chain[-1].name in ("get_by_text", "get_by_label"):
            chain = (*chain, _VISIBLE)  # Skip hidden elements with the same text.
        return target, chain

    def point(self, x: float, y: float, last: Mapping[str, Any]) -> tuple[Target, Chain, Any]:
        """Return the element at a point, its locator, and options with the point in it.

        The locator is empty if nothing identifies the element.
        """
        target = target_of(self._page, None, last)
        chain = locate(self._page, target) if last.get("ref") else None
        if chain is None or target.frame_url:
            return target, (), {}
        if locator_kind(chain) != "css" and target.role in _CLICKED:
            return target, chain, {}
        if "box" not in last:
            return target, (), {}
        left, top, width, height = last["box"]
        if not (left <= x <= left + width and top <= y <= top + height):
            return target, (), {}
        return target, chain, {"position": {"x": round(x - left, 1), "y": round(y - top, 1)}}

    def wait(self, before: StepRecord, after: StepRecord, coming: StepRecord) -> None:
        """Wait for an action's effect, if the next action would not wait by itself."""
        if isinstance(_action(coming), _BLIND) or self._fits_before(before, after, coming):
            old, new = (_tree(step) for step in (before, after))
            appeared = next(_find_new(new, _texts(old), spoken=False), None)
            if appeared is not None:
                self.add(*appeared, kind="expect", argument=Call("to_be_visible"))
                return
            target = new[str(getattr(_action(coming), "ref", ""))]
            if target is not None and isinstance(_action(after), _FILTERS):
                removed = _find_removed(old, new, target.role)
                if removed is not None:
                    self.add(*removed, kind="expect", argument=Call("to_be_hidden"))
                    return
        if isinstance(_action(after), _UNSETTLED):
            self.add(Call("wait_for_timeout", (_pause(after, coming),)))

    def _fits_before(self, before: StepRecord, after: StepRecord, coming: StepRecord) -> bool:
        """Return whether the next action's element, or a similar one, was there before."""
        if not isinstance(_action(after), _REACTED_TO) or _action(coming) is None:
            return False
        if self._script.statements[-1:] and self._script.statements[-1].kind == "navigate":
            return False
        old, new = (_tree(step) for step in (before, after))
        node = new[str(getattr(_action(coming), "ref", ""))]
        if node is None:
            return False
        return any((each.role, each.text) == (node.role, node.text) for each in old.nodes)

    def check(self, steps: Sequence[StepRecord]) -> None:
        """Check the final state: the URL, what has appeared, and the answer."""
        url = _url_of(steps[-1])
        is_page = url.startswith(("http:", "https:"))
        if is_page and not has_placeholder(url) and not _RANDOM.search(url):
            self.add(kind="expect", argument=Call("to_have_url", (self._url(url),)))
        page = _tree(steps[-1])
        known = _texts(_tree(_before_last_change(steps)))
        appeared = tuple(itertools.islice(_find_new(page, known), _MOST_CHECKED))
        if not appeared:  # Or the script would end before the page sends what it was given.
            self.add(Call("wait_for_timeout", (_PAUSES[1],)))
        for chain in appeared:
            self.add(*chain, kind="expect", argument=Call("to_be_visible"))
        answers = [answer_of(step.action) for step in steps[1:]]
        answer = next((answer for answer in reversed(answers) if answer), "")
        shown = any(squeeze(answer) in node.words for node in page.nodes if node.frame is None)
        if answer and shown and not has_placeholder(answer):
            self._script.variables["ANSWER"] = answer
            self.add(
                Call("locator", ("body",)),
                kind="expect",
                argument=Call("to_contain_text", (Variable("ANSWER"),)),
            )


def _pause(step: StepRecord, coming: StepRecord) -> int:
    """Return the recorded pause in milliseconds, limited to what an attentive person takes."""
    if step.start_time is None or coming.start_time is None:
        return _PAUSES[0]
    passed = min(max(coming.start_time - step.start_time, 0.0), _PAUSES[1] / 1000)
    return max(math.ceil(passed * 100) * 10, _PAUSES[0])


def _find_new(page: Page, known: set[tuple[str, str]], *, spoken: bool = True) -> Iterator[Chain]:
    """Yield locators of the most telling elements that the first page did not have.

    Messages for screen readers (`spoken`) may be replaced at once.
    """
    new = [
        node
        for node in page.nodes
        if (node.role, node.text) not in known
        and node.frame is None
        and (spoken or not _is_spoken(node))
        and 2 < len(node.words) <= 80
        and not _PASSING.search(node.words)
        and (node.role in _TOLD or (node.role in _PLAIN and not node.children))
    ]
    new.sort(key=lambda node: (_rank(node.role), any(map(str.isdigit, node.words))))
    for node in new:
        chain = locate(page, Target(node=node, role=node.role, name=node.text))
        if chain is None or locator_kind(chain) not in ("role", "text"):
            continue
        if chain[-1].name not in ("nth", "first"):
            if locator_kind(chain) == "text":
                # A second element may have the text: a hidden one, or one about to disappear.
                chain = (*chain, _VISIBLE, Call("first", None))
            yield chain


def _find_removed(old: Page, new: Page, role: str) -> Chain | None:
    """Return a locator of an element with this role that a filter removed; None without one."""
    known = _texts(new)
    gone = [
        node
        for node in old.of_role(role, None)
        if node.ref not in new.refs and (role, node.text) not in known
    ]
    if len(gone) < 2:  # The name of a single element may have been edited in place.
        return None
    for node in gone:
        chain = locate(old, Target(node=node, role=role, name=node.text))
        if chain is not None and [call.name for call in chain] == ["get_by_role"]:
            return chain
    return None


def _is_spoken(node: Node) -> bool:
    above: Node | None = node
    while above is not None and above.role not in ("status", "log"):
        above = above.parent
    return above is not None


def _before_last_change(steps: Sequence[StepRecord]) -> StepRecord:
    """Return the last step whose page differs from the final one."""
    final = _texts(_tree(steps[-1]))
    for step in reversed(steps[:-1]):
        if final - _texts(_tree(step)):
            return step
    return steps[0]


def _texts(page: Page) -> set[tuple[str, str]]:
    return {(node.role, node.text) for node in page.nodes}


def _rank(role: str) -> int:
    return _SHOWING.index(role) if role in _SHOWING else len(_SHOWING) + (role != "")


_TAKEN = ("BASE_URL", "SEED", "START", "ANSWER")


def _identifier(text: str) -> str:
    """Return a name for a constant, made of the words of a text; empty if it has no words.

    >>> _identifier("Your e-mail:"), _identifier("2nd"), _identifier("é")
    ('YOUR_E_MAIL', 'TEXT_2ND', '')
    """
    words = re.findall(r"[A-Z0-9]+", "" if has_placeholder(text) else text[:60].upper())
    name = "_".join(words)[:30].strip("_")
    return f"TEXT_{name}" if name[:1].isdigit() else name


_OF_TABS = (a.NewTab, a.CloseTab, a.FocusTab)
_SILENT = (a.Screenshot, a.CursorPosition)
_BLIND = (
    *a.KEYBOARD, a.Press, a.ClickAt, a.TypeAt, a.DragAt, a.MoveMouse, a.MouseDown, a.MouseUp,
    a.ScrollAt, a.Scroll,
)  # fmt: skip
"""Actions that do not wait for an element of their own, or for one that was there before."""
_UNSETTLED = (a.Press, a.PressKey, a.ClickAt, a.MoveMouse, a.MouseDown, a.MouseUp, a.DragAt)
"""Actions after which Playwright waits for nothing, though pages react to them late."""
_FILTERS = (a.Fill, a.TypeInto, a.TypeText)
"""Actions by which a person filters a list."""
_REACTED_TO = (a.Click, a.Check, a.Uncheck, a.SelectOption, a.Press, *_FILTERS)
"""Actions to which pages react by changing what they show."""
_PAUSES = (50, 500)
"""The shortest and the longest wait for a page's reaction, in milliseconds."""

_VISIBLE = Call("filter", (), {"visible": True})
_KEYBOARD = Call("keyboard", None)
_MOUSE = Call("mouse", None)
_DISPATCHED_CLICK = Call("dispatch_event", ("click",))
"""A click on a checkbox or radio button that its label covers, or on an image's area."""
_ELEMENT_SCROLL = Code("(element, delta) => element.scrollBy(delta)")
_INDEX = Code("(option) => option.index")
_PAGE_SCROLL = Code("(delta) => window.scrollBy(delta)")


def _click_method(action: Any) -> tuple[str, dict[str, Any]]:
    """Return the method and options of a click."""
    options: dict[str, Any] = {}
    if action.button != "left":
        options["button"] = action.button
    if action.modifiers:
        options["modifiers"] = list(action.modifiers)
    if action.count == 2:
        return "dblclick", options
    if action.count > 2:
        options["click_count"] = action.count
    return "click", options


def _click(to: _Converter, action: a.Click, last: Mapping[str, Any]) -> None:
    target, chain = to.target(action.ref, last)
    chooser = _chooser_of(target.node)
    if target.tag == "option" and chooser is not None and chooser.role == "combobox":
        _select(to, a.SelectOption(action.ref, (target.name,)), last)  # Its list was closed.
        return
    method, options = _click_method(action)
    click = Call(method, (), options)
    if (target.is_behind_label or target.tag == "area") and click == Call("click"):
        click = _DISPATCHED_CLICK
    to.add(*chain, click)


def _click_at(to: _Converter, action: a.ClickAt, last: Mapping[str, Any]) -> None:
    _, chain, position = to.point(action.x, action.y, last)
    method, options = _click_method(action)
    if chain:
        to.add(*chain, Call(method, (), {**options, **position}))
        return
    with to.holding(options.pop("modifiers", [])):
        to.add(_MOUSE, Call(method, (action.x, action.y), options))


def _click_there(to: _Converter, action: Any, last: Mapping[str, Any]) -> tuple[Target, Chain]:
    """Return the element at an action's point, and a click on the element, or on the point."""
    target, chain, position = to.point(action.x, action.y, last)
    if chain:
        return target, (*chain, Call("click", (), position))
    return target, (_MOUSE, Call("click", (action.x, action.y)))


def _type_at(to: _Converter, action: a.TypeAt, last: Mapping[str, Any]) -> None:
    target, click = _click_there(to, action, last)
    to.add(*click)
    if action.clear:
        to.key("press", "ControlOrMeta+a")
        to.key("press", "Delete")
    to.key("type", to.value(action.text, _identifier(target.name)))
    if action.submit:
        to.key("press", "Enter")


def _fill(to: _Converter, action: a.Fill, last: Mapping[str, Any]) -> None:
    target, chain = to.target(action.ref, last)
    to.add(*chain, Call("fill", (to.value(action.value, _identifier(target.name)),)))


def _type_into(to: _Converter, action: a.TypeInto, last: Mapping[str, Any]) -> None:
    target, chain = to.target(action.ref, last)
    if action.clear:
        to.add(*chain, Call("clear"))
    text = to.value(action.text, _identifier(target.name))
    to.add(*chain, Call("press_sequentially", (text,)))
    if action.submit:
        to.add(*chain, Call("press", ("Enter",)))


def _chooser_of(node: Node | None) -> Node | None:
    """Return an option's select element or text field; for other nodes, the node itself."""
    while node is not None and node.role in ("option", "group"):
        node = node.parent
    if node is not None and node.role == "listbox" and node.parent is not None:
        return node.parent if node.parent.role == "combobox" else node
    return node


def _suggestion_text(options: Sequence[Node], option: Node | None, wanted: str) -> str:
    """Return the text that choosing one of a field's suggestions puts into it."""
    if option not in options:
        option = next((each for each in options if each.text == wanted), None)
    if option is None:
        return wanted
    values = [state for state in option.states if state.startswith("value=")]
    return read_string(values[0].partition("=")[2]) if values else option.text


def _select(to: _Converter, action: a.SelectOption, last: Mapping[str, Any]) -> None:
    option = to._page[action.ref]
    node = _chooser_of(option)
    _, chain = to.target(node.ref if node else action.ref, last)
    options = [] if node is None else [each for each in node.below() if each.role == "option"]
    labels = [each.text for each in options]
    wanted = [squeeze(each) for each in action.options]
    chosen = [to.literal(each) for each in action.options]
    given = chosen[0] if len(chosen) == 1 else chosen
    if node is not None and any(each.role == "listbox" for each in node.children) and wanted:
        to.add(*chain, Call("fill", (to.literal(_suggestion_text(options, option, wanted[0])),)))
        return
    if option in options and len(wanted) <= 1:  # The ref decides, whatever its value is.
        if labels.count(option.text) > 1:
            # Its place among all options, of which the tree shows only those that can be seen.
            _, place = to.target(action.ref, last)
            index = Evaluated((*place, Call("evaluate", (_INDEX,))))
            call = Call("select_option", (), {"index": index})
        else:
            call = Call("select_option", (), {"label": to.literal(option.text)})
    elif wanted and set(labels).issuperset(wanted):
        call = Call("select_option", (), {"label": given})
    else:  # To Playwright, a label or a value.
        call = Call("select_option", (given,))
    to.add(*chain, call)


def _set_checked(to: _Converter, action: a.Check | a.Uncheck, last: Mapping[str, Any]) -> None:
    target, chain = to.target(action.ref, last)
    wanted = isinstance(action, a.Check)
    if not target.is_behind_label:
        to.add(*chain, Call(action.verb))
    elif target.is_checked != wanted:
        to.add(*chain, _DISPATCHED_CLICK)


def _simple(to: _Converter, action: Any, last: Mapping[str, Any]) -> None:
    _, chain = to.target(action.ref, last)
    to.add(*chain, Call(action.verb))


def _press(to: _Converter, action: a.Press, last: Mapping[str, Any]) -> None:
    _, chain = to.target(action.ref, last)
    if has_placeholder(action.keys):
        to.add(*chain, Call("press_sequentially", (to.literal(action.keys),)))
        return
    for chord in action.keys.split(" "):
        to.add(*chain, Call("press", (chord,)))


def _drag_to(to: _Converter, action: a.DragTo, last: Mapping[str, Any]) -> None:
    _, source = to.target(action.ref, last)
    _, target = to.target(action.target_ref, {})
    to.add(*source, Call("drag_to", (Located(target),)))


def _upload(to: _Converter, action: a.UploadFile, last: Mapping[str, Any]) -> None:
    target, chain = to.target(action.ref, last)
    files = [to.value(path, "FILE") for path in action.paths]
    if target.takes_files:
        to.add(*chain, Call("set_input_files", (files,)))
    else:
        to.add(*chain, Call("click"), kind="files", argument=files)


def _upload_at(to: _Converter, action: a.UploadFileAt, last: Mapping[str, Any]) -> None:
    _, click = _click_there(to, action, last)
    to.add(*click, kind="files", argument=[to.value(path, "FILE") for path in action.paths])


def _scroll(to: _Converter, action: a.Scroll, last: Mapping[str, Any]) -> None:
    delta = {"left": action.dx, "top": action.dy}
    if action.ref is None:
        to.add(Call("evaluate", (_PAGE_SCROLL, delta)))
        return
    _, chain = to.target(action.ref, last)
    to.add(*chain, Call("evaluate", (_ELEMENT_SCROLL, delta)))


def _scroll_at(to: _Converter, action: a.ScrollAt, last: Mapping[str, Any]) -> None:
    to.mouse("move", action.x, action.y)
    to.mouse("wheel", action.dx, action.dy)


def _button(to: _Converter, action: Any, last: Mapping[str, Any]) -> None:
    if action.x is not None:
        to.mouse("move", action.x, action.y)
    options = {} if action.button == "left" else {"button": action.button}
    method = "down" if isinstance(action, a.MouseDown) else "up"
    to.add(_MOUSE, Call(method, (), options))


def _drag_at(to: _Converter, action: a.DragAt, last: Mapping[str, Any]) -> None:
    to._script.helpers.add("drag")
    with to.holding(action.modifiers):
        path = [list(point) for point in action.path]
        to.add(Call("drag"), kind="call", argument=(path,))


def _press_key(to: _Converter, action: a.PressKey, last: Mapping[str, Any]) -> None:
    if has_placeholder(action.keys):
        to.key("type", to.literal(action.keys))
        return
    for chord in action.keys.split(" "):
        to.key("press", chord)


def _wait(to: _Converter, action: a.Wait | a.HoldKey, last: Mapping[str, Any]) -> None:
    held = split_chord(action.keys) if isinstance(action, a.HoldKey) else ()
    with to.holding([to.literal(key) for key in held]):
        to.add(Call("wait_for_timeout", (action.seconds * 1000,)))


def _new_tab(to: _Converter, action: a.NewTab, last: Mapping[str, Any]) -> None:
    to.add(Call("context", None), Call("new_page"), kind="let page")
    if action.url:
        to.add(Call("goto", (to._url(action.url),)))


def _close_tab(to: _Converter, action: a.CloseTab, last: Mapping[str, Any]) -> None:
    to.add(Call("close"))
    to.take_tab(-1)


def _focus_tab(to: _Converter, action: a.FocusTab, last: Mapping[str, Any]) -> None:
    to.take_tab(action.index)
    to.add(Call("bring_to_front"))


_CONVERTERS: dict[type[a.Action], Callable[[_Converter, Any, Mapping[str, Any]], None]] = {
    a.Click: _click,
    a.ClickAt: _click_at,
    a.TypeAt: _type_at,
    a.Fill: _fill,
    a.TypeInto: _type_into,
    a.SelectOption: _select,
    **dict.fromkeys((a.Check, a.Uncheck), _set_checked),
    **dict.fromkeys((a.Clear, a.Hover, a.Focus), _simple),
    a.Press: _press,
    a.DragTo: _drag_to,
    a.UploadFile: _upload,
    a.UploadFileAt: _upload_at,
    a.Scroll: _scroll,
    a.ScrollAt: _scroll_at,
    a.MoveMouse: lambda to, action, _: to.mouse("move", action.x, action.y),
    **dict.fromkeys((a.MouseDown, a.MouseUp), _button),
    a.DragAt: _drag_at,
    a.TypeText: lambda to, action, _: to.key("type", to.value(action.text, "TEXT")),
    a.InsertText: lambda to, action, _: to.key("insert_text", to.value(action.text, "TEXT")),
    a.PressKey: _press_key,
    a.KeyDown: lambda to, action, _: to.key("down", to.literal(action.key)),
    a.KeyUp: lambda to, action, _: to.key("up", to.literal(action.key)),
    **dict.fromkeys((a.HoldKey, a.Wait), _wait),
    a.Goto: lambda to, action, _: to.add(Call("goto", (to._url(action.url),))),
    **dict.fromkeys(
        (a.GoBack, a.GoForward, a.Reload), lambda to, action, _: to.add(Call(action.verb))
    ),
    a.NewTab: _new_tab,
    a.CloseTab: _close_tab,
    a.FocusTab: _focus_tab,
}
"""How each action becomes statements, given what the page told of it (see `LastAction`)."""
