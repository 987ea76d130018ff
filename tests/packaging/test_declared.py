"""Every package that the library or a package beside it imports is one that it declares."""

import ast
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
CHECKOUT = {"dev", "docs"}
"""The extras that only this checkout needs."""
# LLaMA-Factory is imported in its own environment, TRL, verl and SkyRL by the user's trainer.
OF_ANOTHER_ENVIRONMENT = {"llamafactory", "trl", "verl", "skyrl", "skyrl_gym"}
# Imported under another name than that of the package, where the package need not be installed.
IMPORTED_AS = {
    "pyyaml": {"yaml"},
    "pillow": {"PIL"},
    "protobuf": {"google"},
    "pydantic": {"pydantic_core"},
}


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(project):
    """Return what users of a package can ask for: its dependencies, and extras but a checkout's."""
    extras = project["optional-dependencies"]
    lists = [project["dependencies"], *(extras[name] for name in extras if name not in CHECKOUT)]
    return {normalized(re.match(r"[\w.-]+", each)[0]) for every in lists for each in every}


def imported(sources):
    """Return the top-level name of each import, with a file that has it."""
    found = {}
    for path in sorted(sources.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if text.startswith("# mypy: ignore-errors"):  # It runs in another environment.
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            else:
                continue
            for name in names:
                found.setdefault(name.partition(".")[0], path.relative_to(ROOT).as_posix())
    return found


def test_every_import_is_declared():
    distributions = importlib.metadata.packages_distributions()
    of_the_library = set()
    for file in (ROOT / "pyproject.toml", *sorted(ROOT.glob("packages/*/pyproject.toml"))):
        project = tomllib.loads(file.read_text())["project"]
        known = declared(project)
        of_the_library = of_the_library or known
        own = {path.parent.name for path in file.parent.glob("src/*/__init__.py")}
        # Hosts of applications run outside the package, and import its modules by their own names.
        own |= {path.stem for path in file.parent.glob("src/webtraj_apps/*.py")}
        undeclared = {}
        for name, path in imported(file.parent / "src").items():
            provided = {normalized(each) for each in distributions.get(name, [name])}
            provided |= {package for package, names in IMPORTED_AS.items() if name in names}
            if name in sys.stdlib_module_names or name in own | OF_ANOTHER_ENVIRONMENT:
                continue
            if not provided & (known | of_the_library):
                undeclared[name] = path
        assert not undeclared, f"not in {file.relative_to(ROOT)}: {undeclared}"
