"""Python and TypeScript for Playwright: what a script says, and how each language writes it.

All text goes into a script as a string literal or as a comment of one line, never as code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

__all__ = [
    "Call",
    "Chain",
    "Code",
    "ITEM",
    "Joined",
    "LANGUAGES",
    "Language",
    "Located",
    "Script",
    "Statement",
    "Variable",
    "WRITERS",
    "squeezed",
]

Language = Literal["python", "typescript"]
LANGUAGES: tuple[Language, ...] = ("python", "typescript")

# What a script says, apart from the language that it says it in.


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A call in a chain, by its Python name: `get_by_role("button", name="Save")`."""

    name: str
    arguments: tuple[Any, ...] | None = ()
    """None for a property, such as `first`."""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


Chain = tuple[Call, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the script."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Code:
    """A JavaScript function of ours."""

    code: str


@dataclasses.dataclass(frozen=True, slots=True)
class Located:
    """A locator as an argument."""

    chain: Chain


@dataclasses.dataclass(frozen=True, slots=True)
class Joined:
    """A text of literal parts and variables."""

    parts: tuple[str | Variable, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Statement:
    """A statement: `kind` is what is done with a chain of calls on `page`."""

    kind: Literal[
        "do", "call", "navigate", "let page", "popup", "files", "dialogs", "expect", "equal", "say"
    ]
    chain: Chain = ()
    argument: Any = None
    """`expect`: the matcher's call. `equal`: the value. `files`: the files. `say`: the comment.
    `call`: the arguments after the page, of a helper that is the chain's only name."""


@dataclasses.dataclass(slots=True)
class Script:
    """A script to write."""

    name: str
    """The test's name, as an identifier."""
    header: tuple[str, ...]
    statements: list[Statement] = dataclasses.field(default_factory=list)
    variables: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The values of variables by name."""
    secrets: dict[str, str] = dataclasses.field(default_factory=dict)
    """The environment variables by the secrets' names."""
    origins: dict[str, str] = dataclasses.field(default_factory=dict)
    """The origins by variable: the default of `BASE_URL`, and of others."""
    texts: dict[str, str] = dataclasses.field(default_factory=dict)
    """JavaScript of our own, by variable."""
    helpers: set[str] = dataclasses.field(default_factory=set)
    """The functions that it needs, such as `drag`."""
    notes: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    """What could not be written: the field and why."""

    def add(self, *calls: Call, kind: Any = "do", argument: Any = None) -> None:
        """Add a statement."""
        self.statements.append(Statement(kind, calls, argument))

    def say(self, comment: str) -> None:
        """Add a comment."""
        self.add(kind="say", argument=comment)


ITEM = "[]"
"""The name of a call that takes an item of a list by its position; negative from the end."""

# The languages.


def squeezed(text: str) -> str:
    """Return a text with single spaces, as Playwright compares it.

    >>> squeezed(" a  b ")
    'a b'
    """
    return " ".join(text.replace("\u200b", "").replace("\u00ad", "").split())


_INDENT = "    "
_UNPRINTABLE_NEWLINES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _quoted(text: str, wide: Callable[[int], str]) -> str:
    """Return a text as a literal in double quotes that Python and JavaScript read the same.

    What is not printable is escaped, such as line ends and marks that turn the direction of text.
    """
    parts = []
    for character in text:
        code = ord(character)
        if character in '"\\':
            parts.append("\\" + character)
        elif character in _UNPRINTABLE_NEWLINES:
            parts.append(_UNPRINTABLE_NEWLINES[character])
        elif character.isprintable():
            parts.append(character)
        else:
            parts.append(f"\\u{code:04x}" if code < 0x10000 else wide(code))
    return f'"{"".join(parts)}"'


def _comment(text: str) -> str:
    """Return a text as one line without control characters."""
    shown = squeezed(text)
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)


class _Writer:
    """What the languages have in common."""

    true_and_false: ClassVar[tuple[str, str]]

    def value(self, value: Any) -> str:
        """Return a value as a literal or an expression."""
        match value:
            case Variable(name):
                return name
            case Code(code):
                return self.function(code)
            case Located(chain):
                return self.chain(chain)
            case Joined(parts):
                return " + ".join(map(self.value, parts))
            case bool():
                return self.true_and_false[not value]
            case str():
                return _quoted(value, self.wide)
            case int() | float():
                return repr(int(value) if value == int(value) else value)
            case Mapping():
                return self.mapping(value)
            case Sequence():
                return f"[{', '.join(map(self.value, value))}]"
        raise TypeError(f"No literal for {type(value)}.")

    def chain(self, chain: Chain) -> str:
        """Return calls on the page."""
        return "page" + "".join(map(self.call, chain))

    def wide(self, code: int) -> str:
        """Return the escape of a character beyond the first 65,536."""
        raise NotImplementedError

    def function(self, code: str) -> str:
        """Return a JavaScript function as an argument of `evaluate`."""
        raise NotImplementedError

    def mapping(self, value: Mapping[str, Any]) -> str:
        """Return a mapping as a literal."""
        raise NotImplementedError

    def call(self, call: Call) -> str:
        """Return a call, with its dot."""
        raise NotImplementedError

    def script(self, script: Script) -> str:
        """Return the whole script."""
        raise NotImplementedError


class _Python(_Writer):
    """Writes a script for pytest-playwright, which also runs by itself."""

    true_and_false = ("True", "False")

    def wide(self, code: int) -> str:
        return f"\\U{code:08x}"

    def function(self, code: str) -> str:
        return self.value(code)

    def mapping(self, value: Mapping[str, Any]) -> str:
        items = (f"{self.value(key)}: {self.value(item)}" for key, item in value.items())
        return f"{{{', '.join(items)}}}"

    def call(self, call: Call) -> str:
        if call.arguments is None:
            return f".{call.name}"
        if call.name == ITEM:
            return f"[{call.arguments[0]}]"
        given = [self.value(argument) for argument in call.arguments]
        given += [f"{name}={self.value(value)}" for name, value in call.options.items()]
        return f".{call.name}({', '.join(given)})"

    def _lines(self, statement: Statement) -> list[str]:
        chain = self.chain(statement.chain)
        match statement.kind:
            case "say":
                return [f"# {_comment(statement.argument)}"]
            case "dialogs":
                return ['page.context.on("dialog", lambda dialog: dialog.accept())']
            case "let page":
                return [f"page = {chain}"]
            case "navigate":
                return ["with page.expect_navigation():", f"{_INDENT}{chain}"]
            case "popup":
                return [
                    "with page.expect_popup() as popup:",
                    f"{_INDENT}{chain}",
                    "page = popup.value",
                ]
            case "files":
                files = self.value(statement.argument)
                return [
                    "with page.expect_file_chooser() as chooser:",
                    f"{_INDENT}{chain}",
                    f"chooser.value.set_files({files})",
                ]
            case "expect":
                return [f"expect({chain}){self.call(statement.argument)}"]
            case "equal":
                return [f"assert {chain} == {self.value(statement.argument)}"]
            case "call":
                given = ["page", *map(self.value, statement.argument)]
                return [f"{statement.chain[0].name}({', '.join(given)})"]
        return [chain]

    def script(self, script: Script) -> str:
        body = [line for each in script.statements for line in self._lines(each)]
        used = "\n".join(body)
        reads = bool(script.origins or script.secrets)
        names = ["Page", *(["expect"] if "expect(" in used else []), "sync_playwright"]
        lines = [*(f"# {_comment(line)}".rstrip() for line in script.header), ""]
        lines += ["import os", ""]
        lines += [f"from playwright.sync_api import {', '.join(names)}", ""]
        for name, origin in script.origins.items():
            lines.append(f'{name} = os.environ.get("{name}", {self.value(origin)})')
        for variable in script.secrets.values():
            lines.append(f'{variable} = os.environ["{variable}"]')
        for name, value in script.variables.items():
            lines.append(f"{name} = {self.value(value)}")
        for name, code in script.texts.items():
            lines += ["", f'{name} = """{code}"""']
        if reads or script.variables or script.texts:
            lines.append("")
        for helper in sorted(script.helpers):
            lines += ["", *_PYTHON_HELPERS[helper].splitlines(), ""]
        lines += ["", f"def test_{script.name}(page: Page) -> None:"]
        lines += [_INDENT + line for line in body]
        lines += ["", "", *_PYTHON_MAIN.format(name=script.name).splitlines()]
        return "\n".join(lines) + "\n"


_PYTHON_HELPERS = {
    "drag": """\
def drag(page: Page, path: list[list[float]]) -> None:
    page.mouse.move(*path[0])
    page.mouse.down()
    for x, y in path[1:]:
        page.mouse.move(x, y, steps=5)
    page.mouse.up()
""",
}

_PYTHON_MAIN = """\
if __name__ == "__main__":
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM"))
        test_{name}(browser.new_page())
        browser.close()
"""


class _TypeScript(_Writer):
    """Writes a script for `@playwright/test`."""

    true_and_false = ("true", "false")
    _CALLED = ("first", "content_frame", "context", "pages")
    """Properties in Python that are methods here."""

    def wide(self, code: int) -> str:
        return f"\\u{{{code:x}}}"

    def function(self, code: str) -> str:
        return code

    def mapping(self, value: Mapping[str, Any]) -> str:
        items = (f"{_camel(key)}: {self.value(item)}" for key, item in value.items())
        return f"{{ {', '.join(items)} }}"

    def call(self, call: Call) -> str:
        if call.arguments is None:
            return f".{_camel(call.name)}" + "()" * (call.name in self._CALLED)
        if call.name == ITEM:
            return f".at({call.arguments[0]})!"
        given = [self.value(argument) for argument in call.arguments]
        if call.options:
            given.append(self.value(call.options))
        return f".{_camel(call.name)}({', '.join(given)})"

    def _lines(self, statement: Statement) -> list[str]:
        chain = self.chain(statement.chain)
        match statement.kind:
            case "say":
                return [f"// {_comment(statement.argument)}"]
            case "dialogs":
                return ['page.context().on("dialog", (dialog) => dialog.accept());']
            case "let page":
                return [f"page = await {chain};"]
            case "navigate":
                return [f"await Promise.all([page.waitForNavigation(), {chain}]);"]
            case "popup":
                return [
                    'const popup = page.waitForEvent("popup");',
                    f"await {chain};",
                    "page = await popup;",
                ]
            case "files":
                files = self.value(statement.argument)
                return [
                    'const chooser = page.waitForEvent("filechooser");',
                    f"await {chain};",
                    f"await (await chooser).setFiles({files});",
                ]
            case "expect":
                return [f"await expect({chain}){self.call(statement.argument)};"]
            case "equal":
                return [f"expect(await {chain}).toBe({self.value(statement.argument)});"]
            case "call":
                given = ["page", *map(self.value, statement.argument)]
                return [f"await {statement.chain[0].name}({', '.join(given)});"]
        return [f"await {chain};"]

    def script(self, script: Script) -> str:
        body: list[str] = []
        for statement in script.statements:
            lines = self._lines(statement)
            if statement.kind in ("popup", "files"):  # Its constant is its own.
                lines = ["{", *(f"  {line}" for line in lines), "}"]
            body += lines
        used = "\n".join(body)
        names = [*(["expect"] if "expect(" in used else []), "test"]
        if script.helpers:
            names.append("type Page")
        lines = [*(f"// {_comment(line)}".rstrip() for line in script.header), ""]
        lines += [f'import {{ {", ".join(names)} }} from "@playwright/test";', ""]
        for name, origin in script.origins.items():
            lines.append(f"const {name} = process.env.{name} ?? {self.value(origin)};")
        for variable in script.secrets.values():
            lines.append(f'const {variable} = secret("{variable}");')
        for name, value in script.variables.items():
            lines.append(f"const {name} = {self.value(value)};")
        for name, code in script.texts.items():
            lines += ["", f"const {name} = {code};"]
        if script.origins or script.variables or script.secrets or script.texts:
            lines.append("")
        if script.secrets:
            lines += [*_TYPESCRIPT_SECRET.splitlines(), ""]
        for helper in sorted(script.helpers):
            lines += [*_TYPESCRIPT_HELPERS[helper].splitlines(), ""]
        lines += [f'test("{script.name}", async ({{ page }}) => {{']
        lines += [f"  {line}" for line in body]
        return "\n".join([*lines, "});"]) + "\n"


_TYPESCRIPT_SECRET = """\
function secret(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error("Set the environment variable " + name + ".");
  return value;
}
"""

_TYPESCRIPT_HELPERS = {
    "drag": """\
async function drag(page: Page, path: [number, number][]) {
  await page.mouse.move(...path[0]);
  await page.mouse.down();
  for (const [x, y] of path.slice(1)) await page.mouse.move(x, y, { steps: 5 });
  await page.mouse.up();
}
""",
}


def _camel(name: str) -> str:
    """Return a name as JavaScript spells it.

    >>> _camel("get_by_role")
    'getByRole'
    """
    if name == "to_have_url":
        return "toHaveURL"
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


WRITERS: Mapping[str, _Writer] = {"python": _Python(), "typescript": _TypeScript()}
