"""Every package that the library imports is one that it declares."""

import ast
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
# LLaMA-Factory is imported in its own environment, TRL, verl and SkyRL by the user's trainer.
OF_ANOTHER_ENVIRONMENT = {"llamafactory", "trl", "verl", "skyrl_gym"}
# Imported under another name than that of the package, where the package need not be installed.
IMPORTED_AS = {
    "pyyaml": {"yaml"},
    "pillow": {"PIL"},
    "protobuf": {"google"},
    "pydantic": {"pydantic_core"},
}


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def declared():
    """Return what users can ask for: the dependencies and every extra but those of a checkout."""
    lists = []
    for file in (ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(file.read_text())["project"]
        extras = project["optional-dependencies"]
        lists.append(project["dependencies"])
        lists += (extras[name] for name in extras if name not in ("dev", "docs"))
    return {normalized(re.match(r"[\w.-]+", each)[0]) for every in lists for each in every}


def runs_elsewhere(path):
    """Return whether a file runs in an application's own environment, not in webtraj's."""
    if path.parent.parent.name == "webtraj_apps":
        return path.stem not in ("__init__", "tasks", "state")
    return path.parent.name == "webtraj_apps" and path.stem in ("serve", "django_worlds")


def imported():
    """Return the top-level name of each third-party import, with a file that has it."""
    found = {}
    for path in sorted([*ROOT.glob("src/**/*.py"), *ROOT.glob("packages/*/src/**/*.py")]):
        if runs_elsewhere(path):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            else:
                continue
            for name in names:
                found.setdefault(name.partition(".")[0], path.relative_to(ROOT).as_posix())
    packages = {path.parent.name for path in ROOT.glob("packages/*/src/*/__init__.py")}
    ours = {*sys.stdlib_module_names, "webtraj", *packages} | OF_ANOTHER_ENVIRONMENT
    return {name: path for name, path in found.items() if name not in ours}


def test_every_import_is_declared():
    distributions = importlib.metadata.packages_distributions()
    files = imported()
    provided = {
        name: {normalized(each) for each in distributions.get(name, [name])} for name in files
    }
    for package, names in IMPORTED_AS.items():
        for name in names & provided.keys():
            provided[name].add(package)
    known = declared()
    undeclared = {name: files[name] for name in files if not provided[name] & known}
    assert not undeclared, f"not in pyproject.toml: {undeclared}"
