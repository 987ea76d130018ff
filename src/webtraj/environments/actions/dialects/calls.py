"""The grammar of calls with literal arguments: `click('12', button='left')`.

Calls are read by Python's own parser and taken apart as a syntax tree. Nothing is evaluated: an
argument is a string, number, True, False, None, or a list of such; all else is refused by name.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from typing import Any

from webtraj.environments.actions.dialects.base import ParseError

__all__ = ["Call", "read_calls", "write_call"]

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
