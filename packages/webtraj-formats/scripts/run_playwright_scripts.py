"""Run exported Playwright scripts with nothing but Playwright, all in one browser.

    python run_playwright_scripts.py FOLDER [--executable PATH] [--compare]

Each `test_*.py` runs in a context of its own. Writes a line of JSON for each: the file, the test's
name, the error (empty if it passed) with the line that raised it, and with `--compare` the selector
of each element that was acted on, as the script has it and as Playwright's own generator, that of
its code generator, writes it. A script whose settings name a `state`, a JavaScript expression, has
its value at the end.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Error, Locator, sync_playwright

ACTIONS = (
    "click", "dblclick", "fill", "clear", "press", "press_sequentially", "select_option", "check",
    "uncheck", "hover", "focus", "drag_to", "set_input_files",
)  # fmt: skip


def main() -> None:
    """Run the scripts that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--executable", help="A browser to run instead of Playwright's own.")
    parser.add_argument("--part", default="0/1", help="Every n-th script from the k-th on: k/n.")
    parser.add_argument("--only", default="", help="Only scripts with this in their name.")
    parser.add_argument("--timeout", type=float, default=30.0, help="Seconds for an action.")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument(
        "--settings",
        type=Path,
        help='JSON by file: {"open": a page to visit first, "variables": of the environment, '
        '"state": what to evaluate in the last page}.',
    )
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    settings = json.loads(options.settings.read_text()) if options.settings else {}
    compared: list[tuple[str, str]] = []
    if options.compare:
        watch(compared)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.executable)
        paths = (path for path in options.folder.glob("test_*.py") if options.only in path.name)
        for path in sorted(paths)[part::parts]:
            compared.clear()
            row = run(browser, path, options.timeout, settings.get(path.name, {}))
            print(json.dumps({"file": path.name, **row, "compared": compared}), flush=True)
        browser.close()
    assert "webtraj" not in sys.modules


def run(browser: Browser, path: Path, timeout: float, settings: dict[str, Any]) -> dict[str, Any]:
    """Run a script; return its test's name, the error and the state at the end."""
    context = browser.new_context()
    context.set_default_timeout(timeout * 1000)
    os.environ.update(settings.get("variables", {}))
    name, state = "", None
    try:
        page = context.new_page()
        if "open" in settings:
            page.goto(settings["open"])
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        (name,) = (name for name in vars(module) if name.startswith("test_"))
        getattr(module, name)(page)
        if "state" in settings:
            page.wait_for_timeout(500)
            state = json.loads(page.evaluate(f"() => JSON.stringify({settings['state']}) ?? null"))
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((frame.line for frame in frames if frame.filename == str(path)), "")
        failed = f"{line}: {type(error).__name__}: {error!s:.500}"
        return {"test": name, "error": failed, "state": None}
    finally:
        context.close()
    return {"test": name, "error": "", "state": state}


def watch(compared: list[tuple[str, str]]) -> None:
    """Note the selector of each element before it is acted on."""
    for action in ACTIONS:
        setattr(Locator, action, _watched(getattr(Locator, action), compared))


def _watched(method, compared):
    def act(self, *arguments, **options):
        try:
            generated = self.normalize()._impl_obj._selector
        except Error:
            generated = ""  # The action itself reports what is wrong.
        compared.append((self._impl_obj._selector, generated))
        return method(self, *arguments, **options)

    return act


if __name__ == "__main__":
    main()
