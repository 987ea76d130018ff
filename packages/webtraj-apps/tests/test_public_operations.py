"""A module reaches others of the package by their public names alone.

What tasks over several applications need is public in each of them: operations such as `reply`,
steps such as `find_topic`, and worlds prepared with `prepare_topic`.
"""

import ast
from pathlib import Path

import webtraj_apps

FOLDER = Path(webtraj_apps.__file__).parent


def private_uses(source):
    """Return the private names of other modules of the package that a module uses."""
    tree, modules, found = ast.parse(source), set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("webtraj_apps"):
            modules.update(one.asname or one.name for one in node.names)
            found += [one.name for one in node.names if one.name.startswith("_")]
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in modules
            and node.attr.startswith("_")
            and not node.attr.startswith("__")
        ):
            found.append(f"{node.value.id}.{node.attr}")
    return found


def test_no_module_uses_a_private_name_of_another():
    files = sorted(FOLDER.rglob("*.py"))
    found = {str(file.relative_to(FOLDER)): private_uses(file.read_text()) for file in files}
    assert len(found) > 50
    assert {file: names for file, names in found.items() if names} == {}


def test_private_names_are_found():
    source = "from webtraj_apps.forum import tasks as forum\nfrom webtraj_apps.app import _Host\n"
    assert private_uses(f"{source}forum._search('x')\n") == ["_Host", "forum._search"]
    assert private_uses(f"{source}forum.find_topic('x')\nself._x\n") == ["_Host"]
