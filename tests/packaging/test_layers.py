"""Packages import only packages below them, and faces have the names that they list."""

import ast
import importlib
from pathlib import Path

import pytest

import webtraj

SOURCE = Path(webtraj.__file__).parent
LAYERS = (
    "errors trajectory credentials configuration closing rates hosts http model_names named _homes",
    "proto store tasks",
    "collectors",
    "environments local_pages registry",
    "datasets",
    "agents structured_output",
    "judging",
    "processing",
    "rollouts",
    "exploring training serving reporting",
    "integrations loop monitor viewer",
    "cli testing",
)
"""From the lowest to the highest. In one layer, packages may import each other, in no circle."""

STILL_UP = {
    ("rollouts", "exploring"): "explorers and proposers by name",
    ("registry", "testing"): "presets of the fixture site",
    ("store", "environments"): "Orby's shape has actions in words",
}
"""Imports that still run up, and what they are for."""


def arrows():
    """Yields (package, package that it imports, where)."""
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE)
        package = place.parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            for module in modules:
                top, _, rest = module.partition(".")
                imported = rest.partition(".")[0]
                if top == "webtraj" and imported and imported != package:
                    yield package, imported, f"{place}:{node.lineno}"


def test_every_package_has_a_layer():
    packages = {
        path.name.removesuffix(".py") for path in SOURCE.iterdir() if path.suffix != ".typed"
    }
    layered = {name for layer in LAYERS for name in layer.split()}
    found = {name for name in packages if (SOURCE / f"{name}.py").exists()}
    found |= {name for name in packages if (SOURCE / name / "__init__.py").exists()}
    assert found - {"__init__", "__main__"} == layered


def test_imports_run_down():
    height = {name: number for number, layer in enumerate(LAYERS) for name in layer.split()}
    up = {}
    for package, imported, where in arrows():
        if package in height and imported in height and height[imported] > height[package]:
            up.setdefault((package, imported), where)
    assert up.keys() == STILL_UP.keys(), up


def test_no_two_packages_of_a_layer_import_each_other():
    both = {(package, imported) for package, imported, _ in arrows()}
    layer_of = {name: layer for layer in LAYERS for name in layer.split()}
    circles = {
        (a, b)
        for a, b in both
        if (b, a) in both and layer_of.get(a) is not None and layer_of.get(a) == layer_of.get(b)
    }
    assert not circles


@pytest.mark.parametrize("package", ["", ".agents", ".collectors", ".datasets", ".environments"])
def test_a_face_has_every_name_that_it_shows(package):
    module = importlib.import_module(f"webtraj{package}")
    assert list(module.__all__) == sorted(module.__all__, key=lambda name: (name[0] == "_", name))
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="no attribute 'NoSuchName'"):
        module.NoSuchName  # noqa: B018
