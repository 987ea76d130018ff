"""BrowserGym's dialect: calls such as `click('12', button='left')`, and their grammar."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from webtraj import errors
from webtraj.environments.actions import keys as keys_lib
from webtraj.environments.actions import verbs
from webtraj.environments.actions.base import Action
from webtraj.environments.actions.dialects import replies
from webtraj.environments.actions.dialects.phrases import (
    MAX_REPLY,
    Argument,
    FormatError,
    ParseError,
    Phrase,
    PhrasebookDialect,
    call_prompt,
    group,
    invalid,
    value,
)

__all__ = [
    "BROWSERGYM",
    "BrowserGymDialect",
    "Call",
    "DEFAULT",
    "EXTENSIONS",
    "format_action",
    "parse_action",
    "read_calls",
    "write_action",
]

# BrowserGym's words, and webtraj's additions.
#
# `BROWSERGYM` has the names, argument names, order and units of BrowserGym's high-level action set
# (`browsergym/core/action/functions.py`). `EXTENSIONS` covers all other verbs.


def _one_or_many(name: str, field: str) -> Argument:
    """A string for one, a list for several."""
    return value(
        name,
        field,
        read=lambda wire: (wire,) if isinstance(wire, str) else wire,
        write=lambda held: held[0] if len(held) == 1 else held,
    )


def _ends() -> Argument:
    def write(path: tuple[tuple[float, float], ...]) -> Mapping[str, Any]:
        if len(path) != 2:
            raise FormatError(f"a path of {len(path)} points")
        return dict(zip(names, (*path[0], *path[1]), strict=True))

    names = ("from_x", "from_y", "to_x", "to_y")
    return group(
        {name: {"type": "number"} for name in names},
        ["path"],
        read=lambda from_x, from_y, to_x, to_y: {"path": ((from_x, from_y), (to_x, to_y))},
        write=write,
    )


def _milliseconds() -> Argument:
    def read(wait_ms: Any) -> float:
        if isinstance(wait_ms, bool) or not isinstance(wait_ms, (int, float)):
            raise ValueError(f"wait_ms must be a number of milliseconds; got {wait_ms!r}")
        return wait_ms / 1000

    return value(
        "wait_ms",
        "seconds",
        read=read,
        write=lambda seconds: round(seconds * 1000),
        schema={"type": "number", "minimum": 0},
        optional=True,
    )


def _one_chord(keys: str) -> str:
    # BrowserGym passes the text to Playwright, which presses one chord.
    if " " in keys:
        raise FormatError(f"{keys!r}, only keys held together")
    return keys


def _keys(name: str, *, write: Callable[[str], str] = str) -> Argument:
    return value(name, "keys", read=keys_lib.read_keys, write=write)


_BID = value("bid", "ref")
_X, _Y = value("x"), value("y")
_BUTTON = value("button", optional=True)
_MODIFIERS = value("modifiers", optional=True)
_COUNT = value("count", optional=True)
_ONE, _TWO = {"count": 1}, {"count": 2}

BROWSERGYM = (
    Phrase("click", verbs.Click, (_BID, _BUTTON, _MODIFIERS), fields=_ONE),
    Phrase("dblclick", verbs.Click, (_BID, _BUTTON, _MODIFIERS), fields=_TWO),
    Phrase("hover", verbs.Hover, (_BID,)),
    Phrase("fill", verbs.Fill, (_BID, value("value")), wire={"enable_autocomplete_menu": False}),
    # With the menu enabled, BrowserGym clears the field and types key by key.
    Phrase(
        "fill",
        verbs.TypeInto,
        (_BID, value("value", "text")),
        fields={"clear": True, "submit": False},
        wire={"enable_autocomplete_menu": True},
    ),
    Phrase("select_option", verbs.SelectOption, (_BID, _one_or_many("options", "options"))),
    Phrase("check", verbs.Check, (_BID,)),
    Phrase("uncheck", verbs.Uncheck, (_BID,)),
    Phrase("press", verbs.Press, (_BID, _keys("key_comb", write=_one_chord))),
    Phrase("focus", verbs.Focus, (_BID,)),
    Phrase("clear", verbs.Clear, (_BID,)),
    Phrase(
        "drag_and_drop",
        verbs.DragTo,
        (value("from_bid", "ref"), value("to_bid", "target_ref")),
    ),
    Phrase("upload_file", verbs.UploadFile, (_BID, _one_or_many("file", "paths"))),
    Phrase("scroll", verbs.Scroll, (value("delta_x", "dx"), value("delta_y", "dy"))),
    Phrase("scroll_at", verbs.ScrollAt, (_X, _Y, value("dx"), value("dy"))),
    Phrase("mouse_move", verbs.MoveMouse, (_X, _Y)),
    Phrase("mouse_down", verbs.MouseDown, (_X, _Y, _BUTTON)),
    Phrase("mouse_up", verbs.MouseUp, (_X, _Y, _BUTTON)),
    Phrase("mouse_click", verbs.ClickAt, (_X, _Y, _BUTTON), fields=_ONE),
    Phrase("mouse_dblclick", verbs.ClickAt, (_X, _Y, _BUTTON), fields=_TWO),
    Phrase("mouse_drag_and_drop", verbs.DragAt, (_ends(),)),
    Phrase("mouse_upload_file", verbs.UploadFileAt, (_X, _Y, _one_or_many("file", "paths"))),
    Phrase("keyboard_type", verbs.TypeText, (value("text"),)),
    Phrase("keyboard_insert_text", verbs.InsertText, (value("text"),)),
    Phrase("keyboard_press", verbs.PressKey, (_keys("key", write=_one_chord),)),
    Phrase("keyboard_down", verbs.KeyDown, (value("key"),)),
    Phrase("keyboard_up", verbs.KeyUp, (value("key"),)),
    Phrase("goto", verbs.Goto, (value("url"),)),
    Phrase("go_back", verbs.GoBack),
    Phrase("go_forward", verbs.GoForward),
    Phrase("new_tab", verbs.NewTab),
    Phrase("tab_close", verbs.CloseTab),
    Phrase("tab_focus", verbs.FocusTab, (value("index"),)),
    Phrase("noop", verbs.Wait, (_milliseconds(),)),
    Phrase("send_msg_to_user", verbs.SendMessage, (value("text"),)),
    Phrase("report_infeasible", verbs.ReportInfeasible, (value("reason"),)),
)

_TYPE_FLAGS = (value("clear", optional=True), value("submit", optional=True))

EXTENSIONS = (
    Phrase("click", verbs.Click, (_BID, _BUTTON, _MODIFIERS, _COUNT)),
    Phrase("type_into", verbs.TypeInto, (_BID, value("text"), *_TYPE_FLAGS)),
    Phrase("mouse_click", verbs.ClickAt, (_X, _Y, _BUTTON, _MODIFIERS, _COUNT)),
    Phrase("type_at", verbs.TypeAt, (_X, _Y, value("text"), *_TYPE_FLAGS)),
    Phrase(
        "mouse_down",
        verbs.MouseDown,
        (value("x", optional=True), value("y", optional=True), _BUTTON),
    ),
    Phrase(
        "mouse_up",
        verbs.MouseUp,
        (value("x", optional=True), value("y", optional=True), _BUTTON),
    ),
    Phrase("mouse_drag", verbs.DragAt, (value("path"), _MODIFIERS)),
    Phrase(
        "scroll",
        verbs.Scroll,
        (value("delta_x", "dx"), value("delta_y", "dy"), value("bid", "ref", optional=True)),
    ),
    Phrase("scroll_at", verbs.ScrollAt, (_X, _Y, value("dx"), value("dy"), _MODIFIERS)),
    Phrase("press", verbs.Press, (_BID, _keys("key_comb"))),
    Phrase("keyboard_press", verbs.PressKey, (_keys("key"),)),
    Phrase("hold_key", verbs.HoldKey, (_keys("key"), value("seconds"))),
    Phrase("reload", verbs.Reload),
    Phrase("new_tab", verbs.NewTab, (value("url", optional=True),)),
    Phrase("screenshot", verbs.Screenshot, (value("region", optional=True),)),
    Phrase("cursor_position", verbs.CursorPosition),
    Phrase("answer", verbs.Answer, (value("text"),)),
)


# The grammar of calls with literal arguments: `click('12', button='left')`.
#
# Calls are parsed by Python's own parser into a syntax tree. Nothing is evaluated: an argument is a
# string, number, True, False, None, or a list of these; everything else is rejected by name.

MAX_SYNTAX = 2_000
"""The most characters outside strings in a reply: limits the work and depth of Python's parser."""

# Strings, comments and an unclosed quote: one pass, in linear time.
_OPAQUE = re.compile(
    r"""
    (?P<raw>\b(?:[rR][bBfF]?|[bBfF][rR]))?
    (?P<string>
        \'\'\'(?:[^\\]|\\.)*?\'\'\'
      | \"\"\"(?:[^\\]|\\.)*?\"\"\"
      | \'(?:[^\'\\\n]|\\.)*\'
      | \"(?:[^\"\\\n]|\\.)*\"
    )
  | (?P<comment>\#[^\r\n]*)
  | (?P<open>[\'\"].*)
    """,
    re.DOTALL | re.VERBOSE,
)
# Python keeps a backslash before any other character, but with a warning.
_ESCAPE = re.compile(r"\\(?:(?P<known>[\\'\"abfnrtvxuU0-7\n])|.)", re.DOTALL)

_NAMES_OF_CODE = {
    ast.JoinedStr: "an f-string",
    ast.Lambda: "a lambda",
    ast.Attribute: "an attribute",
    ast.Name: "a variable",
    ast.Call: "a call",
    ast.BinOp: "a computation",
    ast.ListComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.Subscript: "a subscript",
    ast.Starred: "an unpacking",
    ast.NamedExpr: "an assignment",
    ast.Await: "an await",
    ast.IfExp: "a condition",
    ast.Dict: "a dict",
    ast.Set: "a set",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A name with literal arguments."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)


def read_calls(text: str) -> list[Call]:
    """Parse a text that consists of one or more calls.

    Raises:
      ParseError: The text is not only calls with literal arguments.
    """
    source, syntax = _prepare(text)
    if len(syntax) > MAX_SYNTAX:
        raise ParseError("malformed", "The reply is not a call: there is too much outside quotes.")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error) or "nested too deeply"
        raise ParseError("malformed", f"The call breaks off or is malformed: {said}.") from None
    return [_call(statement) for statement in tree.body]


def _prepare(text: str) -> tuple[str, str]:
    """Return the text for Python to parse, and that text without its string literals."""
    source, syntax, last = [], [], 0
    for match in _OPAQUE.finditer(text):
        if match["open"]:
            raise ParseError("malformed", "A quote is never closed, or the call breaks off.")
        between = text[last : match.start()]
        string = match["string"] or ""
        source += [between, match["raw"] or "", string if match["raw"] else _escape(string)]
        syntax += [between, match["raw"] or ""]
        last = match.end()
    return "".join([*source, text[last:]]), "".join([*syntax, text[last:]])


def _escape(string: str) -> str:
    return _ESCAPE.sub(lambda found: found[0] if found["known"] else f"\\{found[0]}", string)


def _call(statement: ast.stmt) -> Call:
    if not isinstance(statement, ast.Expr):
        raise ParseError(
            "code", f"A {type(statement).__name__} statement is code, not an action; {_EXPECTED}"
        )
    node = statement.value
    if isinstance(node, (ast.Constant, ast.Name)):
        raise ParseError("no_action", f"The reply holds no call; {_EXPECTED}")
    if not isinstance(node, ast.Call):
        raise ParseError("code", f"{_name_of(node)} is code, not an action; {_EXPECTED}")
    if not isinstance(node.func, ast.Name):
        raise ParseError("code", f"{_name_of(node.func)} cannot be called; {_EXPECTED}")
    kwargs: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ParseError("code", f"** is code; {_EXPECTED}")
        if keyword.arg in kwargs:
            raise ParseError("bad_arguments", f"{node.func.id} got {keyword.arg!r} twice.")
        kwargs[keyword.arg] = _literal(keyword.value)
    return Call(node.func.id, tuple(_literal(arg) for arg in node.args), kwargs)


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _with_pairs(node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, type(None))):
        return node.value
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        operand = node.operand
        if isinstance(operand, ast.Constant) and type(operand.value) in (int, float):
            assert isinstance(operand.value, (int, float))
            return -operand.value if isinstance(node.op, ast.USub) else operand.value
    raise ParseError("code", f"{_name_of(node)} is not a literal; {_EXPECTED}")


def _with_pairs(text: str) -> str:
    """Return a text with each pair of surrogates replaced by the character that it encodes."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _name_of(node: ast.expr) -> str:
    name = _NAMES_OF_CODE.get(type(node), f"{type(node).__name__} syntax")
    return name[0].upper() + name[1:]


_EXPECTED = "write one call with literal arguments, such as click('12')."


_LABEL = re.compile(
    r"^\s*(?:[-*]\s+)?(?:\*\*)?(?:next |my |the )?action(?:\*\*)?:(?:\*\*)?\s*", re.IGNORECASE
)


class BrowserGymDialect(PhrasebookDialect):
    """BrowserGym's calls. See the module."""

    def __init__(
        self, *, extended: bool = False, verbs: Collection[type[Action]] | None = None
    ) -> None:
        """Make the dialect.

        Args:
          extended: Whether to add webtraj's words for verbs that BrowserGym lacks.
          verbs: The verbs to include, such as `{Click, Fill}`: a smaller action set and a shorter
            prompt. None includes all.

        Raises:
          InvalidInputError: The dialect has no word for one of the verbs.
        """
        phrases = BROWSERGYM + (EXTENSIONS if extended else ())
        if verbs is not None:
            phrases = tuple(phrase for phrase in phrases if phrase.action in verbs)
        super().__init__("webtraj" if extended else "browsergym", phrases)
        if missing := set(verbs or ()) - set(self.verbs):
            names = ", ".join(sorted(verb.__name__ for verb in missing))
            raise errors.InvalidInputError(
                f"The dialect {self.name!r} has no words for {names}; leave them out"
                f"{'' if extended else ', or use extended=True'}."
            )
        if not phrases:
            raise errors.InvalidInputError("A dialect needs at least one verb; got none.")
        self._call = re.compile(rf"\b(?:{'|'.join(self._book.words)})\s*\(")

    def parse(self, reply: Any) -> Action:
        """See `Dialect.parse`. Takes text, or a tool call's `{"name", "arguments"}`."""
        actions = self.parse_all(reply)
        if len(actions) == 1:
            return actions[0]
        reason = f"The reply holds {len(actions)} actions; exactly one was expected."
        return invalid("several_actions", reason, reply)

    def parse_all(self, reply: Any) -> tuple[Action, ...]:
        """Parse a reply as a sequence of actions, at least one.

        If one call is invalid, the whole reply becomes one `InvalidAction`, because the model did
            not mean the other calls alone.
        """
        try:
            if isinstance(reply, Mapping):
                return (self._read_tool_call(reply),)
            if not isinstance(reply, str):
                raise ParseError("malformed", f"A reply is text; got a {type(reply).__name__}.")
            return tuple(self._read_call(call) for call in self._calls_in(reply))
        except ParseError as problem:
            return (invalid(problem.kind, problem.reason, reply),)

    def format(self, action: Action) -> str:
        """See `Dialect.format`."""
        word, args = self._book.write(action)
        first = next(
            phrase for phrase in self._book.by_word[word] if args.keys() <= set(phrase.names)
        )
        positional = []
        for name in first.names:
            if name in first.optional or name not in args:
                break
            positional.append(args.pop(name))
        parts = [repr(arg) for arg in positional]
        parts += [f"{name}={arg!r}" for name, arg in args.items()]
        return f"{word}({', '.join(parts)})"

    def schema(self) -> dict[str, Any]:
        """See `Dialect.schema`. An action's structured form is a tool call."""
        return {
            "oneOf": [
                {
                    "type": "object",
                    "description": self._book.summary(phrase.word),
                    "properties": {"name": {"const": phrase.word}, "arguments": phrase.schema()},
                    "required": ["name", "arguments"],
                }
                for phrase in self._book.phrases
            ]
        }

    def tools(self) -> list[dict[str, Any]]:
        """See `Dialect.tools`. One function for each word."""
        return [
            {
                "name": word,
                "description": self._book.summary(word),
                "parameters": self._book.arguments(word),
            }
            for word in self._book.words
        ]

    def prompt(self) -> str:
        """See `Dialect.prompt`."""
        return call_prompt(self._book)

    def _calls_in(self, reply: str) -> list[Call]:
        if len(reply) <= MAX_REPLY and self._call.match(reply):
            # Only calls, whatever tags or fences their strings may quote.
            with contextlib.suppress(ParseError):
                return read_calls(reply)
        text = replies.strip_reasoning(reply)
        if marked := replies.find_tagged(text, "action") or replies.find_fenced(text):
            text = replies.only(marked)
            if not text:
                raise ParseError("empty", "The reply's action is empty.")
        try:
            calls = read_calls(_LABEL.sub("", text))
        except ParseError as problem:
            # Text that parses as Python is not prose that contains a call.
            prose = problem.kind in ("malformed", "no_action")
            if not prose or not (lines := self._lines_with_calls(text)):
                raise self._why_none(text, problem) from None
            calls = read_calls("\n".join(lines))
        if not calls:
            raise ParseError("no_action", "The reply holds no call; reply with one action.")
        return calls

    def _lines_with_calls(self, text: str) -> list[str]:
        """Return the lines that begin with a call, ignoring all others."""
        stripped = (_LABEL.sub("", line).strip().strip("`") for line in text.splitlines())
        return [line for line in stripped if self._call.match(line)]

    def _why_none(self, text: str, problem: ParseError) -> ParseError:
        if problem.kind != "malformed" or self._call.match(text):
            return problem
        if self._call.search(text):
            reason = "A call inside a sentence is not taken; put it on a line of its own."
            return ParseError("no_action", reason)
        if re.match(r"[A-Za-z_][\w.]*\s*\(", text) or text.startswith(("{", "[", "<")):
            return problem
        return ParseError("no_action", "The reply holds no call; reply with one action.")

    def _read_call(self, call: Call) -> Action:
        names = self._book.names(call.name)
        if call.name in self._book.by_word and len(call.args) > len(names):
            raise ParseError(
                "bad_arguments",
                f"{call.name} takes at most {len(names)} arguments; got {len(call.args)}.",
            )
        args = dict(zip(names, call.args, strict=False))
        if twice := args.keys() & call.kwargs.keys():
            raise ParseError("bad_arguments", f"{call.name} got {min(twice)!r} twice.")
        return self._book.read(call.name, args | call.kwargs)

    def _read_tool_call(self, reply: Mapping[str, Any]) -> Action:
        arguments = replies.arguments_of(reply.get("arguments", reply.get("input")))
        if not isinstance(arguments, Mapping):
            raise ParseError("bad_arguments", "A tool call's arguments are an object.")
        return self._book.read(reply.get("name"), replies.without_nulls(arguments))


DEFAULT = BrowserGymDialect(extended=True)
"""The dialect of strings passed to `step`: BrowserGym's, with words for all other verbs."""


@functools.lru_cache(maxsize=256)  # A step parses twice: to redact and to act.
def parse_action(text: str) -> Action:
    """Parse a reply in the default dialect. Never raises: see `Dialect.parse`.

    >>> parse_action("click('12', button='right')")
    Click(ref='12', button='right', modifiers=(), count=1)
    >>> parse_action("click(12)").kind
    'bad_arguments'
    """
    return DEFAULT.parse(text)


def read_action(action: Any) -> Any:
    """Return a recorded action, parsed if it is text in the default dialect, else unchanged.

    >>> read_action("click('12')"), read_action("left")
    (Click(ref='12', button='left', modifiers=(), count=1), 'left')
    """
    if not isinstance(action, str):
        return action
    read = parse_action(action)
    return action if isinstance(read, verbs.InvalidAction) else read


def format_action(action: Action) -> str:
    """Format an action in the default dialect. It has words for every verb but `InvalidAction`.

    >>> from webtraj.environments.actions import Click
    >>> format_action(Click("12", count=2))
    "dblclick('12')"

    Raises:
      UnsupportedActionError: If the action is an `InvalidAction`.
    """
    return DEFAULT.format(action)


def write_action(action: Action) -> str:
    """Return an action in the default dialect; empty if the dialect cannot express it."""
    try:
        return format_action(action)
    except errors.UnsupportedActionError:
        return ""
