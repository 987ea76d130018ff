"""Whatever a record holds, an exported Playwright script is a few known calls with literals.

Each script is made of an episode with hostile values in every field of every verb, in every place
that a page or another tool fills. WEBTRAJ_FUZZED_SCRIPTS sets how many scripts are tried.
"""

import ast
import os
import re

import pytest

from hostile_records import CODE, VERBS, hostile_record
from webtraj import errors
from webtraj.environments import actions as a
from webtraj.store.values import OpaqueRecord
from webtraj.trajectory import EpisodeInfo, EpisodeTrajectory, StepRecord, StepType
from webtraj_formats.exporters import playwright_code
from webtraj_formats.exporters.playwright import _MINIWOB_START, playwright_script

COUNT = int(os.environ.get("WEBTRAJ_FUZZED_SCRIPTS", "400"))

CALLS = frozenset(
    [
        "bring_to_front",
        "check",
        "clear",
        "click",
        "close",
        "dblclick",
        "down",
        "dispatch_event",
        "drag_to",
        "evaluate",
        "expect_file_chooser",
        "expect_navigation",
        "expect_popup",
        "fill",
        "filter",
        "focus",
        "frame_locator",
        "get_by_label",
        "get_by_role",
        "get_by_test_id",
        "get_by_text",
        "get_by_title",
        "go_back",
        "go_forward",
        "goto",
        "hover",
        "insert_text",
        "locator",
        "move",
        "new_page",
        "nth",
        "on",
        "or_",
        "press",
        "press_sequentially",
        "reload",
        "select_option",
        "set_files",
        "set_input_files",
        "set_viewport_size",
        "to_be_hidden",
        "to_be_visible",
        "to_contain_text",
        "to_have_url",
        "type",
        "uncheck",
        "up",
        "wait_for_function",
        "wait_for_timeout",
        "wheel",
    ]
)
PROPERTIES = frozenset(["content_frame", "context", "first", "keyboard", "mouse", "pages", "value"])
CONSTANT = re.compile(r"[A-Z_][A-Z0-9_]*")


def check_python(script):
    """Raise unless a script is imports, constants, our functions, and known calls of literals."""
    compile(script, "script", "exec")
    module = ast.parse(script)
    helpers = {
        ast.unparse(ast.parse(text).body[0]) for text in playwright_code._PYTHON_HELPERS.values()
    }
    constants = set()
    for statement in module.body:
        match statement:
            case ast.Import(names=[ast.alias(name="os")]):
                pass
            case ast.ImportFrom(module="playwright.sync_api"):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if CONSTANT.fullmatch(name):
                assert name not in constants, f"{name} is set twice"
                constants.add(name)
                if not _is_literal(value, ()):
                    source = ast.unparse(value)
                    given = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
                    allowed = rf"os\.environ\['{name}'\]|os\.environ\.get\('{name}', (?:{given})\)"
                    assert re.fullmatch(allowed, source), source
            case ast.FunctionDef(name=name) if name.startswith("test_"):
                for each in statement.body:
                    _check_statement(each, constants)
            case ast.FunctionDef():
                assert ast.unparse(statement) in helpers
            case ast.If():
                main = playwright_code._PYTHON_MAIN.format(
                    name=re.search(r"def test_(\w+)", script)[1]
                )
                assert ast.unparse(statement) == ast.unparse(ast.parse(main).body[0])
            case _:
                raise AssertionError(ast.unparse(statement))


def _check_statement(statement, constants):
    match statement:
        case ast.Pass():
            pass
        case ast.Expr(value=value):
            _check_chain(value, constants)
        case ast.Assign(targets=[ast.Name(id="page")], value=value):
            _check_chain(value, constants)
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
            _check_chain(left, constants)
            assert _is_literal(right, constants)
        case ast.With(items=[ast.withitem(context_expr=context)], body=body):
            _check_chain(context, constants)
            for each in body:
                _check_statement(each, constants)
        case _:
            raise AssertionError(ast.unparse(statement))


def _check_chain(node, constants):
    match node:
        case ast.Name(id="page" | "chooser" | "popup"):
            pass
        case ast.Attribute(value=value, attr=name) if name in PROPERTIES:
            _check_chain(value, constants)
        case ast.Subscript(value=ast.Attribute(attr="pages") as pages, slice=place):
            _check_chain(pages, constants)
            assert isinstance(ast.literal_eval(place), int)
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=args, keywords=options) if (
            name in CALLS
        ):
            _check_chain(value, constants)
            for each in (*args, *(option.value for option in options)):
                _check_argument(each, constants)
        case ast.Call(func=ast.Name(id="expect"), args=[given], keywords=[]):
            _check_chain(given, constants)
        case ast.Call(func=ast.Name(id="drag"), args=[ast.Name(id="page"), path], keywords=[]):
            assert _is_literal(path, constants)
        case _:
            raise AssertionError(ast.unparse(node))


def _check_argument(node, constants):
    if ast.unparse(node) == "lambda dialog: dialog.accept()" or _is_literal(node, constants):
        return
    _check_chain(node, constants)  # The target of `drag_to`.


def _is_literal(node, constants):
    match node:
        case (
            ast.Constant() | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float()))
        ):
            return True
        case ast.Name(id=name):
            return name in constants
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _is_literal(left, constants) and _is_literal(right, constants)
        case ast.List(elts=items):
            return all(_is_literal(item, constants) for item in items)
        case ast.Dict(keys=keys, values=values):
            return all(_is_literal(item, constants) for item in (*keys, *values))
    return False


_TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\\n\r\u2028\u2029]|\\(?:["\\nrt]|u[0-9a-f]{4}|u\{[0-9a-f]+\}))*")'
    r"|(?P<comment>//[^\n\r\u2028\u2029]*)|(?P<number>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_$][\w$]*)|(?P<sign>\?\?|=>|[-.,;:()\[\]{}=!+])|(?P<space>[ \n]+)"
)
_OURS = (
    _MINIWOB_START,
    playwright_code._TYPESCRIPT_SECRET,
    *playwright_code._TYPESCRIPT_HELPERS.values(),
    "(element, delta) => element.scrollBy(delta)",
    "(delta) => window.scrollBy(delta)",
    '() => Reflect.get(window, "WOB_DONE_GLOBAL")',
    '() => Reflect.get(window, "WOB_RAW_REWARD_GLOBAL")',
)
_WORDS = frozenset(
    [
        "Page",
        "Promise",
        "accept",
        "all",
        "async",
        "at",
        "await",
        "button",
        "chooser",
        "clickCount",
        "const",
        "delta",
        "dialog",
        "drag",
        "env",
        "exact",
        "expect",
        "false",
        "from",
        "hasText",
        "height",
        "import",
        "left",
        "modifiers",
        "name",
        "page",
        "popup",
        "position",
        "process",
        "secret",
        "setFiles",
        "test",
        "toBe",
        "top",
        "true",
        "type",
        "visible",
        "waitForEvent",
        "waitForNavigation",
        "width",
        "x",
        "y",
    ]
) | {playwright_code._camel(name) for name in CALLS | PROPERTIES}


def check_typescript(script):
    """Raise unless a script is strings, numbers, comments, our words, and constants it defines."""
    for code in _OURS:
        script = script.replace(code.rstrip("\n"), "")
    constants = set(re.findall(r"^const ([A-Z_][A-Z0-9_]*) =", script, re.MULTILINE))
    place = 0
    while place < len(script):
        found = _TOKEN.match(script, place)
        assert found, f"no token at {script[place : place + 60]!r}"
        if name := found["name"]:
            assert name in _WORDS or name in constants, (
                f"{name!r} at {script[place - 40 : place + 40]!r}"
            )
        place = found.end()


CHECKS = {"python": check_python, "typescript": check_typescript}


@pytest.mark.parametrize("language", CHECKS)
def test_no_field_of_a_record_becomes_code(language):
    written = set()
    for seed in range(COUNT):
        try:
            script = playwright_script(hostile_record(seed), language)
        except errors.InvalidInputError:
            continue
        try:
            CHECKS[language](script)
        except (AssertionError, SyntaxError) as error:
            raise AssertionError(f"seed {seed}: {error}\n{script}") from None
        written.add(seed % len(VERBS))
    assert len(written) > len(VERBS) * 0.8


@pytest.mark.parametrize("index", [f"{code} or '<secret:x>'" for code in CODE])
def test_a_placeholder_excuses_only_the_text_it_is_in(index):
    page = {"url": "http://shop.example/", "axtree": '[1] button "Buy"'}
    steps = [StepRecord(0, StepType.FIRST, page)]
    for number, action in enumerate(
        (a.Click("1"), OpaqueRecord("action/focus_tab", {"index": index}), a.Click("1")), 1
    ):
        steps.append(StepRecord(number, StepType.MID, page, action, 0.0, 1.0))
    for language, check in CHECKS.items():
        script = playwright_script(EpisodeTrajectory(EpisodeInfo(), tuple(steps)), language)
        check(script)
        assert "evil" not in re.sub(r"(?m)^\s*(#|//).*$", "", script)


def test_the_checks_find_code():
    page = {"url": "http://shop.example/", "axtree": '[1] button "Buy"'}
    steps = (
        StepRecord(0, StepType.FIRST, page),
        StepRecord(1, StepType.MID, page, a.Click("1"), 0.0, 1.0),
    )
    for language, check in CHECKS.items():
        script = playwright_script(EpisodeTrajectory(EpisodeInfo(), steps), language)
        check(script)
        for literal in ("evil()", 'f"{evil()}"', "`${evil()}`", 'page.evil("a")', "page[evil]"):
            with pytest.raises((AssertionError, SyntaxError)):
                check(script.replace('"Buy"', literal))
