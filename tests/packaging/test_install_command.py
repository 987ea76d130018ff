"""What a person is told to run is a command that works for the copy that they have."""

import importlib.metadata
import subprocess
import sys

import webtraj
from webtraj import errors
from webtraj.settings import installed


def test_pip_keeps_the_copy_that_is_installed_wherever_it_came_from():
    """The packages of the core are installed, so nothing is to be had from an index."""
    command = [*errors.install_command().split(), "--no-index", "--dry-run"]
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, timeout=60, check=True
    )
    assert "Would install" not in done.stdout


def test_every_extra_that_errors_name_exists():
    names = importlib.metadata.metadata("webtraj").get_all("Provides-Extra")
    assert {"web", "train", "s3", "all", "apps", "formats", "integrations"} <= set(names)
    assert {extra for extras in installed.EXTRAS.values() for extra in extras.values()} <= set(
        names
    )


def test_the_package_is_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "webtraj", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert webtraj.__version__ in done.stdout
