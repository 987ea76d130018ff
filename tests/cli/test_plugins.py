"""Commands of other packages."""

import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from installed import install
from webtraj import errors, registry
from webtraj.cli import app as app_lib
from webtraj.cli import plugins
from webtraj.datasets.exporters.base import make_exporter
from webtraj.datasets.importers import Source, detect, read_episodes

GREETING = '''"""Greet people."""
import sys
import typer

print("loaded", file=sys.stderr)

def greet(name: str, loud: bool = False) -> None:
    """Greet one person."""
    print(name.upper() if loud else name)
'''
GROUP = '''"""Look after the garden.

More.
"""
import typer

garden = typer.Typer()

@garden.command()
def water(litres: int = 1) -> None:
    """Water the plants."""
    print(litres, "litres")
'''


@pytest.fixture
def installed(tmp_path):
    """Returns a folder with a package's commands, some of which are broken."""
    modules = {
        "stranger": GREETING,
        "stranger_garden": GROUP,
        "stranger_broken": "import no_such_module",
        "stranger_leaving": "import sys; sys.exit(3)",
        "stranger_not": "command = 5",
    }
    commands = {
        "greet": "stranger:greet",
        "garden": "stranger_garden:garden",
        "broken": "stranger_broken:app",
        "leaving": "stranger_leaving:app",
        "not-one": "stranger_not:command",
        "gone": "stranger_gone:app",
        "ls": "stranger:greet",
    }
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder, modules, commands=commands)
    return folder


@pytest.fixture
def call(installed, tmp_path):
    """Runs `webtraj` where the package is installed."""

    def call(*arguments, **variables):
        env = {**os.environ, "PYTHONPATH": str(installed), **variables}
        return subprocess.run(
            [sys.executable, "-m", "webtraj", *arguments],
            cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    return call


def test_help_lists_them_with_their_summaries_and_loads_none(call):
    done = call("--help")
    assert "\n  greet    Greet people.\n" in done.stdout
    assert "\n  garden   Look after the garden.\n" in done.stdout
    assert all(f"\n  {name}" in done.stdout for name in ("broken", "gone", "not-one"))
    assert done.stderr == ""


def test_they_are_called_by_their_names_like_any_other(call):
    cases = {
        ("greet", "Ann", "--loud"): "ANN\n",
        ("garden", "water", "--litres", "3"): "3 litres\n",
    }
    for arguments, printed in cases.items():
        assert call(*arguments).stdout == printed
    assert "Water the plants." in call("garden", "--help").stdout
    assert "Possible options: --loud" in call("greet", "Ann", "--lout").stderr


def test_a_broken_one_is_one_line_that_names_its_package_and_breaks_no_other(call):
    for name in ("broken", "leaving", "not-one", "gone"):
        done = call(name)
        assert (done.returncode, done.stdout) == (1, "")
        (line,) = done.stderr.splitlines()
        assert f"Cannot load the command {name!r} of the package stranger" in line
    assert call("doctor", "--help").returncode == 0


def test_built_in_ones_are_not_replaced(call):
    assert "List a dataset's episodes." in call("--help").stdout
    assert "NotADataset" not in call("ls", "nowhere").stdout
    assert "No dataset at 'nowhere'" in call("ls", "nowhere").stderr


def test_shells_complete_them(call):
    def completed(line):
        words = {"COMP_WORDS": f"webtraj {line}", "COMP_CWORD": str(len(line.split()))}
        return call(_WEBTRAJ_COMPLETE="complete_bash", **words).stdout.split()

    assert completed("gre") == ["greet"]
    assert completed("garden wa") == ["water"]


@pytest.mark.parametrize(
    "entry_point", entry_points(group=plugins.ENTRY_POINT_GROUP), ids=lambda one: one.name
)
def test_those_of_webtraj_explain_themselves(entry_point):
    summary = plugins.read_summaries()[entry_point.name]
    command = app_lib.make_offered(entry_point)
    assert summary
    for one in (command, *getattr(command, "commands", {}).values()):
        assert one.help


def test_a_name_whose_package_is_not_installed_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr("webtraj.settings.installed.entry_points", lambda *_: {})
    for name, value in (("_presets", {}), ("_builtin_loaded", True), ("_plugins_loaded", True)):
        monkeypatch.setattr(registry, name, value)
    (tmp_path / "x.json").write_text("{}")
    cases = {
        "apps": lambda: plugins.find_command("apps"),
        "integrations": lambda: plugins.find_command("mcp"),
        "apps ": lambda: registry.make("apps/shop/all"),
        "formats": lambda: make_exporter("atif"),
        "formats ": lambda: read_episodes(Source(path=tmp_path), "webgym"),
    }
    for extra, use in cases.items():
        with pytest.raises(errors.MissingDependencyError, match=rf"\[{extra.strip()}\]"):
            use()
    for unknown in (lambda: make_exporter("x"), lambda: detect(tmp_path)):
        with pytest.raises(errors.InvalidInputError, match=r"with webtraj\[formats\] also .*atif"):
            unknown()
