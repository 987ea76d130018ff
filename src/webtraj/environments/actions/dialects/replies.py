"""Finding the one action in a model's reply, and reading calls such as `click('12')`."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from webtraj.environments.actions.dialects.phrases import MAX_REPLY, ParseError

__all__ = [
    "Call",
    "fenced",
    "json_object",
    "only",
    "read_calls",
    "spoken_part",
    "structured",
    "tagged",
    "without_nulls",
    "write_call",
]

# Finding the one action in a model's reply: reasoning, prose, fences and tags around it.
#
# The rules are few and safe. Reasoning (`<think>...</think>`) is set aside. Then what is tagged or
# fenced as the action is it. Text around it is let pass, a second candidate never is.

_FENCE = re.compile(r"^[ \t]*```[\w+-]*[ \t]*\n(.*?)\n?^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)
_END_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "</s>")


def spoken_part(reply: str) -> str:
    """Returns a reply without the model's reasoning and end tokens.

    Raises:
      ParseError: If nothing is left, or there is far too much.
    """
    if len(reply) > MAX_REPLY:
        raise ParseError(
            "too_long", f"The reply has {len(reply)} characters; at most {MAX_REPLY} are read."
        )
    # The opening tag is often part of the prompt, so that only the closing one is in the reply.
    before, closed, after = reply.partition("</think>")
    text = after if closed else before
    for token in _END_TOKENS:
        text = text.strip().removesuffix(token)
    text = text.strip()
    if not text:
        raise ParseError("empty", "The reply is empty; reply with one action.")
    if "</think>" in text:
        raise ParseError("malformed", "The reply ends its reasoning twice; reply with one action.")
    if "<think>" in text:
        raise ParseError("no_action", "The reply breaks off while thinking; reply with one action.")
    return text


def tagged(text: str, tag: str) -> list[str]:
    """Returns what stands in `<tag>...</tag>`. The last closing tag may be missing.

    A server that stops at the closing tag leaves it out.
    """
    parts = text.split(f"<{tag}>")[1:]
    return [part.partition(f"</{tag}>")[0].strip() for part in parts]


def fenced(text: str) -> list[str]:
    """Returns the contents of the code fences in a text."""
    if text.count("```") == 2 and text.startswith("```") and text.endswith("```"):
        inner = text[3:-3]
        if "\n" not in inner:
            return [inner.strip()]
    return [match.strip() for match in _FENCE.findall(text)]


def only(candidates: list[str]) -> str:
    """Returns the only candidate; raises `ParseError` if there are several."""
    if len(candidates) > 1:
        raise ParseError(
            "several_actions",
            f"The reply holds {len(candidates)} actions; exactly one was expected.",
        )
    return candidates[0]


def structured(reply: Any) -> Any:
    """Returns a structured reply as it is, and text as the one JSON object that it holds."""
    if not isinstance(reply, str):
        return reply
    text = spoken_part(reply)
    candidates = fenced(text)
    if not candidates and not text.startswith("{"):
        raise ParseError("no_action", "The reply holds no call; reply with one action.")
    return json_object(only(candidates or [text]))


def without_nulls(args: Mapping[Any, Any]) -> dict[str, Any]:
    """Returns arguments without those that are null: JSON's way of leaving one out.

    Raises:
      ParseError: If a name is no string.
    """
    if not all(isinstance(name, str) for name in args):
        raise ParseError("bad_arguments", "The arguments' names are not strings.")
    return {name: arg for name, arg in args.items() if arg is not None}


def json_object(text: str) -> dict[str, Any]:
    """Returns the JSON object that a text is, read strictly.

    Raises:
      ParseError: On anything but one object: broken JSON, NaN, a key given twice, another type.
    """
    try:
        parsed = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=float
        )
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise ParseError(
                "several_actions", "More follows the JSON object; exactly one was expected."
            ) from None
        raise ParseError(
            "malformed",
            f"The JSON breaks off or is malformed at character {error.pos}: {error.msg}.",
        ) from None
    except RecursionError:
        raise ParseError("malformed", "The JSON is nested too deeply.") from None
    except ValueError as error:
        raise ParseError("malformed", f"The JSON is malformed: {error}.") from None
    if not isinstance(parsed, dict):
        raise ParseError("malformed", f"A JSON object was expected; got a {type(parsed).__name__}.")
    return parsed


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


# The grammar of calls with literal arguments: `click('12', button='left')`.
#
# Calls are read by Python's own parser and taken apart as a syntax tree. Nothing is evaluated: an
# argument is a string, number, True, False, None, or a list of such; all else is refused by name.

MAX_SYNTAX = 2_000
"""Characters outside strings in one reply: bounds the work, and the depth, of Python's parser."""

# Strings and comments, and a quote that nothing closes: one pass, in linear time.
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
# A backslash before any other character is kept by Python, with a warning that would be ours.
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
    """Returns the calls that a text consists of, one or more.

    Raises:
      ParseError: If the text is anything but calls with literal arguments.
    """
    source, syntax = _prepared(text)
    if len(syntax) > MAX_SYNTAX:
        raise ParseError("malformed", "The reply is no call: there is too much outside quotes.")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error) or "nested too deeply"
        raise ParseError("malformed", f"The call breaks off or is malformed: {said}.") from None
    return [_call(statement) for statement in tree.body]


def write_call(call: Call) -> str:
    """Returns the text of a call: the inverse of `read_calls` for one call."""
    parts = [repr(arg) for arg in call.args]
    parts += [f"{name}={arg!r}" for name, arg in call.kwargs.items()]
    return f"{call.name}({', '.join(parts)})"


def _prepared(text: str) -> tuple[str, str]:
    """Returns what Python is to parse, and all of that which is not inside a string."""
    source, syntax, last = [], [], 0
    for match in _OPAQUE.finditer(text):
        if match["open"]:
            raise ParseError("malformed", "A quote is never closed, or the call breaks off.")
        between = text[last : match.start()]
        string = match["string"] or ""
        source += [between, match["raw"] or "", string if match["raw"] else _escaped(string)]
        syntax += [between, match["raw"] or ""]
        last = match.end()
    return "".join([*source, text[last:]]), "".join([*syntax, text[last:]])


def _escaped(string: str) -> str:
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
    if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float, type(None))):
        return node.value
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_literal(item) for item in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        operand = node.operand
        if isinstance(operand, ast.Constant) and type(operand.value) in (int, float):
            assert isinstance(operand.value, (int, float))
            return -operand.value if isinstance(node.op, ast.USub) else operand.value
    raise ParseError("code", f"{_name_of(node)} is no literal argument; {_EXPECTED}")


def _name_of(node: ast.expr) -> str:
    name = _NAMES_OF_CODE.get(type(node), f"{type(node).__name__} syntax")
    return name[0].upper() + name[1:]


_EXPECTED = "write one call with literal arguments, such as click('12')."
