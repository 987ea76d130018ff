"""Packages import only packages below them, and faces have the names that they list."""

import ast
import graphlib
import importlib.util
import sys
from pathlib import Path

import pytest

import webtraj

ROOT = Path(__file__).parents[2]

SOURCE = Path(webtraj.__file__).parent

_spec = importlib.util.spec_from_file_location("draw_house", ROOT / "scripts/draw_house.py")

house = importlib.util.module_from_spec(_spec)

sys.modules[_spec.name] = house

_spec.loader.exec_module(house)

LAYERS = [names for _, names in house.FLOORS]

"""From the lowest to the highest. In one layer, packages may import each other, in no circle."""


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
    for package, imported, where in house.arrows():
        if package in height and imported in height and height[imported] > height[package]:
            up.setdefault((package, imported), where)
    assert not up


def test_the_packages_beside_the_library_import_public_names_alone():
    private = set()
    for file in ROOT.glob("packages/*/src/**/*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                found = {(one.name, "") for one in node.names}
            elif isinstance(node, ast.ImportFrom):
                found = {(node.module or "", one.name) for one in node.names}
            else:
                continue
            ours = {one for one in found if one[0].partition(".")[0] == "webtraj"}
            private |= {f"{module}:{name}" for module, name in ours if not is_public(module, name)}
    assert private == set()


def is_public(module, name):
    """Return whether a name has no underscore, and its module lists it, or it is a module."""
    if any(part.startswith("_") for part in (*module.split("."), name)):
        return False
    loaded = importlib.import_module(module)
    if not name or name in getattr(loaded, "__all__", ()):
        return True
    is_package = hasattr(loaded, "__path__")
    return is_package and importlib.util.find_spec(f"{module}.{name}") is not None


def test_no_two_packages_of_a_layer_import_each_other():
    both = {(package, imported) for package, imported, _ in house.arrows()}
    layer_of = {name: layer for layer in LAYERS for name in layer.split()}
    circles = {
        (a, b)
        for a, b in both
        if (b, a) in both and layer_of.get(a) is not None and layer_of.get(a) == layer_of.get(b)
    }
    assert not circles


def imports_in(nodes):
    """Yield (module, name) of what is imported, within functions too, but not for types alone."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (("", name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module, name.name) for name in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from imports_in(node.orelse)
        else:
            yield from imports_in(ast.iter_child_nodes(node))


def test_files_import_each_other_in_no_circle():
    """Imports anywhere in a file, and those of strings `webtraj.x:y`; annotations aside."""
    files = {
        ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): (
            ast.parse(file.read_text("utf-8"))
        )
        for source in (SOURCE.parent, *ROOT.glob("packages/*/src"))
        for file in source.rglob("*.py")
    }
    graph = {}
    for name, tree in files.items():
        imported = {
            whole if (whole := f"{module}.{one}".lstrip(".")) in files else module
            for module, one in imports_in(tree.body)
        }
        imported |= {module for module, _ in house.strings(tree)}
        graph[name] = imported & files.keys() - {name}
    assert sum(map(len, graph.values())) > len(graph) > 100
    graphlib.TopologicalSorter(graph).prepare()  # Raises if there is one.


def test_the_library_knows_no_package_beside_it():
    """Not by an import, and not by a name that is imported later."""
    modules = [path.parent.name for path in (ROOT / "packages").glob("*/src/*/__init__.py")]
    assert modules
    found = {
        (path.relative_to(ROOT).as_posix(), module)
        for path in SOURCE.rglob("*.py")
        for module in modules
        if module in path.read_text("utf-8")
    }
    assert not found


@pytest.mark.parametrize(
    "package", ["", ".agents", ".collectors", ".datasets", ".environments", ".environments.browser"]
)
def test_a_face_has_every_name_that_it_shows(package):
    module = importlib.import_module(f"webtraj{package}")
    assert list(module.__all__) == sorted(module.__all__, key=lambda name: (name[0] == "_", name))
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="no attribute 'NoSuchName'"):
        module.NoSuchName  # noqa: B018
