"""Versions of an application share a folder: each adds only what differs, and none removes another.

The versions are copies of the errands of the examples, which need no packages.
"""

import ast
import dataclasses
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from webtraj import errors
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


def test_what_cannot_be_removed_is_an_error_that_names_the_folder(tmp_path, monkeypatch):
    (tmp_path / "apps").write_text("A file where the folder of the applications should be.")
    monkeypatch.setenv("WEBTRAJ_APPS", str(tmp_path / "apps"))
    with pytest.raises(errors.InvalidInputError, match=r"Errands cannot be removed from .*apps"):
        find_app("errands").remove()


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


@pytest.mark.slow
def test_an_application_that_cannot_be_installed_stops_no_other(version, monkeypatch):
    bad = version("bad")
    bad.folder.joinpath("host.py").write_text("raise ValueError('It cannot be built.')")
    good = dataclasses.replace(version("good"), name="good", title="Other errands")
    monkeypatch.setattr(app_lib, "find_apps", lambda: (bad, good))
    done = CliRunner().invoke(commands, ["install"])
    assert done.exit_code == 1
    assert "It cannot be built." in done.stderr
    assert "Other errands is ready: " in done.stdout
    assert "1 application of 2 not installed" in done.stderr
    assert good.installed
    assert not bad.installed


@pytest.mark.slow
def test_what_is_built_while_its_files_change_is_not_kept(version):
    app = version("mine")
    host = app.folder / "host.py"
    before = host.read_text()
    host.write_text(f"{before}\nopen(__file__, 'a').write('# Changed.')\n")
    with pytest.raises(errors.InvalidInputError, match="changed while its worlds were filled"):
        app.install()
    assert not app.installed
    host.write_text(before)
    app.install()
    assert app.installed


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(version, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    app = version("mine")
    monkeypatch.setenv("WEBTRAJ_APPS", str(tmp_path / "file"))
    with pytest.raises(errors.InvalidInputError, match=r"in .*file: .*WEBTRAJ_APPS names another"):
        app.install()


def test_removing_needs_a_name_or_old(version):
    assert CliRunner().invoke(commands, ["remove"]).exit_code == 2
    assert CliRunner().invoke(commands, ["remove", "--old"]).exit_code == 0
