"""Python and TypeScript for Playwright: what a script says, and how each language writes it.

All values go into a script through `_Writer.value`, which writes literals, or as a comment of one
line (`_comment`), never as code. Names of calls and variables are ours.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, ClassVar, Literal

__all__ = [
    "Call",
    "Chain",
    "Code",
    "Evaluated",
    "ITEM",
    "Joined",
    "LANGUAGES",
    "Language",
    "Located",
    "Script",
    "Statement",
    "Variable",
    "WRITERS",
    "squeeze",
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
class Evaluated:
    """What a chain of calls gives, as an argument."""

    chain: Chain


@dataclasses.dataclass(frozen=True, slots=True)
class Joined:
    """A text of literal parts and variables."""

    parts: tuple[str | Variable, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Statement:
    """A statement. `kind` says what is done with a chain of calls on `page`."""

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

    @property
    def kinds(self) -> Set[str]:
        """The kinds of its statements."""
        return {statement.kind for statement in self.statements}

    def add(self, *calls: Call, kind: Any = "do", argument: Any = None) -> None:
        """Add a statement."""
        self.statements.append(Statement(kind, calls, argument))

    def say(self, comment: str) -> None:
        """Add a comment."""
        self.add(kind="say", argument=comment)


ITEM = "[]"
"""The name of a call that takes an item of a list by its position; negative from the end."""

# The languages.


def squeeze(text: str) -> str:
    """Return a text with single spaces, the form that Playwright compares.

    >>> squeeze(" a  b ")
    'a b'
    """
    return " ".join(text.replace("\u200b", "").replace("\u00ad", "").split())


_UNPRINTABLE_NEWLINES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _quote(text: str, wide: Callable[[int], str]) -> str:
    """Return a text as a literal in double quotes that Python and JavaScript read the same.

    Characters that are not printable are escaped, such as line ends and marks that change the
    direction of text.
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
    shown = squeeze(text)
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)


class _Writer:
    """What the languages have in common."""

    true_and_false: ClassVar[tuple[str, str]]
    awaits: ClassVar[str] = ""
    comment: ClassVar[str]
    statements: ClassVar[Mapping[str, str]]
    """The lines of each kind of statement: its `chain`, and its argument as `given`."""
    origin: ClassVar[str]
    secret: ClassVar[str]
    variable: ClassVar[str]
    text: ClassVar[str]

    def value(self, value: Any) -> str:
        """Return a value as a literal or an expression."""
        match value:
            case Variable(name):
                return name
            case Code(code):
                return self.function(code)
            case Located(chain):
                return self.chain(chain)
            case Evaluated(chain):
                return self.awaits + self.chain(chain)
            case Joined(parts):
                return " + ".join(map(self.value, parts))
            case bool():
                return self.true_and_false[not value]
            case str():
                return _quote(value, self.wide)
            case int() | float() if math.isfinite(value):
                return repr(int(value) if value == int(value) else float(value))
            case Mapping():
                return self.mapping(value)
            case Sequence():
                return f"[{', '.join(map(self.value, value))}]"
        raise TypeError(f"No literal for {type(value)}.")

    def chain(self, chain: Chain) -> str:
        """Return calls on the page."""
        return "page" + "".join(map(self.call, chain))

    def header(self, script: Script) -> list[str]:
        """Return the comment above a script."""
        return [*(f"{self.comment} {_comment(line)}".rstrip() for line in script.header), ""]

    def definitions(self, script: Script) -> list[str]:
        """Return the lines that give a script's variables their values."""
        lines = [self.origin.format(n, self.value(url)) for n, url in script.origins.items()]
        lines += map(self.secret.format, script.secrets.values())
        lines += [self.variable.format(n, self.value(v)) for n, v in script.variables.items()]
        for name, code in script.texts.items():
            lines += ["", self.text.format(name, code)]
        return [*lines, ""] if lines else []

    def body(self, script: Script) -> list[str]:
        """Return the lines of a script's statements."""
        return [line for each in script.statements for line in self._lines(each)]

    def _lines(self, statement: Statement) -> list[str]:
        chain, given = self.chain(statement.chain), statement.argument
        match statement.kind:
            case "say":
                given = _comment(given)
            case "expect":
                given = self.call(given)
            case "equal" | "files":
                given = self.value(given)
            case "call":
                chain = statement.chain[0].name
                given = ", ".join(["page", *map(self.value, given)])
        return self.statements[statement.kind].format(chain=chain, given=given).split("\n")

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
    comment = "#"
    origin = '{0} = os.environ.get("{0}", {1})'
    secret = '{0} = os.environ["{0}"]'
    variable = "{} = {}"
    text = '{} = """{}"""'
    statements: ClassVar = {
        "do": "{chain}",
        "say": "# {given}",
        "dialogs": 'page.context.on("dialog", lambda dialog: dialog.accept())',
        "let page": "page = {chain}",
        "navigate": "with page.expect_navigation():\n    {chain}",
        "popup": "with page.expect_popup() as popup:\n    {chain}\npage = popup.value",
        "files": "with page.expect_file_chooser() as chooser:\n    {chain}\n"
        "chooser.value.set_files({given})",
        "expect": "expect({chain}){given}",
        "equal": "assert {chain} == {given}",
        "call": "{chain}({given})",
    }

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
            return f"[{self.value(call.arguments[0])}]"
        given = [self.value(argument) for argument in call.arguments]
        given += [f"{name}={self.value(value)}" for name, value in call.options.items()]
        return f".{call.name}({', '.join(given)})"

    def script(self, script: Script) -> str:
        body = self.body(script)
        names = ["Page", *(["expect"] if "expect" in script.kinds else []), "sync_playwright"]
        lines = [*self.header(script), "import os", ""]
        lines += [f"from playwright.sync_api import {', '.join(names)}", ""]
        lines += self.definitions(script)
        for helper in sorted(script.helpers):
            lines += ["", *_PYTHON_HELPERS[helper].splitlines(), ""]
        lines += ["", f"def test_{script.name}(page: Page) -> None:"]
        lines += [f"    {line}" for line in body]
        lines += ["", "", *_PYTHON_MAIN.format(name=script.name).splitlines()]
        return "\n".join(lines) + "\n"


_PYTHON_HELPERS = {
    "drag": """\
def drag(page: Page, path: list[list[float]]) -> None:
    page.mouse.move(*path[0])
    page.mouse.down()
    for x, y in path[1:]:
        page.mouse.move(x, y, steps=5)
    page.wait_for_timeout(100)  # Pages that sort during a drag skip moves that come too fast.
    page.mouse.move(*path[-1])
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
    awaits = "await "
    comment = "//"
    origin = "const {0} = process.env.{0} ?? {1};"
    secret = 'const {0} = secret("{0}");'
    variable = "const {} = {};"
    text = "const {} = {};"
    statements: ClassVar = {
        "do": "await {chain};",
        "say": "// {given}",
        "dialogs": 'page.context().on("dialog", (dialog) => dialog.accept());',
        "let page": "page = await {chain};",
        "navigate": "await Promise.all([page.waitForNavigation(), {chain}]);",
        "popup": '{{\n  const popup = page.waitForEvent("popup");\n  await {chain};\n'
        "  page = await popup;\n}}",
        "files": '{{\n  const chooser = page.waitForEvent("filechooser");\n  await {chain};\n'
        "  await (await chooser).setFiles({given});\n}}",
        "expect": "await expect({chain}){given};",
        "equal": "expect(await {chain}).toBe({given});",
        "call": "await {chain}({given});",
    }
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
            return f".at({self.value(call.arguments[0])})!"
        given = [self.value(argument) for argument in call.arguments]
        if call.name == "select_option" and isinstance(labels := call.options.get("label"), list):
            given.append(self.value([{"label": label} for label in labels]))
        elif call.options:
            given.append(self.value(call.options))
        return f".{_camel(call.name)}({', '.join(given)})"

    def script(self, script: Script) -> str:
        body = self.body(script)
        expects = not script.kinds.isdisjoint(("expect", "equal"))
        names = [*(["expect"] if expects else []), "test"]
        names += ["type Page"] if script.helpers else []
        lines = self.header(script)
        lines += [f'import {{ {", ".join(names)} }} from "@playwright/test";', ""]
        lines += self.definitions(script)
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
  await page.waitForTimeout(100); // Pages that sort during a drag skip moves that come too fast.
  await page.mouse.move(...path.at(-1)!);
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
