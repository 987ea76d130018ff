"""Versions of an application share a folder: each adds only what differs, and none removes another.

The versions are copies of the errands of the examples, which need no packages.
"""

import ast
import dataclasses
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from webtraj_apps import app as app_lib
from webtraj_apps.app import find_app, find_apps
from webtraj_apps.commands import commands


@pytest.fixture
def version(tmp_path, monkeypatch):
    """Make a version of the application, with other texts or requirements."""
    monkeypatch.setenv("WEBTRAJ_APPS", str(tmp_path / "apps"))

    def make(name, *, text="", requirements=""):
        app = dataclasses.replace(find_app("errands"), folder=tmp_path / name)
        shutil.copytree(find_app("errands").folder, app.folder)
        with (app.folder / "host.py").open("a") as host:
            host.write(text)
        (app.folder / "requirements.txt").write_text(requirements)
        return app

    return make


@pytest.mark.slow
def test_another_text_builds_contents_but_keeps_the_packages_and_the_other_version(version):
    mine, theirs = version("mine"), version("theirs", text="# Another text.\n")
    mine.install()
    mark = mine.packages / "installed once"
    mark.touch()
    assert not theirs.installed
    theirs.install()
    assert mark.exists()
    assert mine.installed
    assert theirs.installed
    assert mine.facts(0) == theirs.facts(0)
    mine.remove(old=True)
    assert mine.installed
    assert not theirs.installed
    mine.remove()
    assert not mine.installed
    assert not mine.packages.exists()


def test_other_requirements_are_other_packages_and_other_contents(version):
    plain, other = version("plain"), version("other", requirements="six==1.17.0\n")
    assert plain.packages != other.packages
    assert plain.contents != other.contents


def test_every_module_of_this_package_that_builds_contents_is_part_of_their_key():
    ours = {file.name for file in Path(app_lib.__file__).parent.glob("*.py")}
    used = set()
    for app in find_apps():
        for file in app.folder.glob("*.py"):
            if file.name not in app_lib._BUILDS_NOT:
                for node in ast.walk(ast.parse(file.read_text())):
                    if isinstance(node, ast.Import):
                        used |= {f"{one.name}.py" for one in node.names}
                    elif isinstance(node, ast.ImportFrom) and not node.level:
                        used.add(f"{node.module}.py")
    assert used & ours
    assert used & ours <= {*app_lib._BUILDS_ALL}


def test_removing_needs_a_name_or_old(version):
    version("mine")
    assert CliRunner().invoke(commands, ["remove"]).exit_code == 2
    assert CliRunner().invoke(commands, ["remove", "--old"]).exit_code == 0
