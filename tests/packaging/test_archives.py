"""What a package index gets: a source archive and a wheel with all that users need, and no more."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from rows import each

ROOT = Path(__file__).parents[2]
TOP = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "MANIFEST.in"}
BUILD = """
import sys
from setuptools import build_meta
folder = sys.argv[1]  # Building changes the arguments.
build_meta.build_sdist(folder)
build_meta.build_wheel(folder)
"""
"""Needs no network, as setuptools is installed."""

pytestmark = pytest.mark.slow


def files_of(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy with tests in it, since a build must leave them out."""
    folder = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in TOP:
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture(scope="module")
def package(checkout):
    """The files of the package, as `webtraj/...`."""
    return {f"webtraj/{name}" for name in files_of(checkout / "src" / "webtraj")}


@pytest.fixture(scope="module")
def archives(checkout, package, tmp_path_factory):
    folder = tmp_path_factory.mktemp("archives")
    subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)],
        cwd=checkout,
        check=True,
        capture_output=True,
        timeout=300,
    )
    return folder


@pytest.fixture
def source(archives):
    with tarfile.open(next(archives.glob("*.tar.gz"))) as archive:
        return {one.name.partition("/")[2] for one in archive.getmembers() if one.isfile()}


@pytest.fixture
def wheel(archives):
    with zipfile.ZipFile(next(archives.glob("*.whl"))) as archive:
        return set(archive.namelist())


def test_the_wheel_is_the_package_and_its_licence(wheel, package):
    assert {name for name in wheel if ".dist-info/" not in name} == package
    about = {name.partition(".dist-info/")[2] for name in wheel if ".dist-info/" in name}
    known = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "top_level.txt"}
    assert about == {*known, "licenses/LICENSE"}


def test_the_source_archive_is_the_package_and_what_builds_it(source, package):
    made = {name for name in source if name in ("PKG-INFO", "setup.cfg") or ".egg-info/" in name}
    assert source - made == {*(f"src/{name}" for name in package), *TOP}


@each(
    "name",
    [
        "py.typed",
        "agents/prompts/v1/plain.txt",
        "environments/browser/page/observe.js",
        "loop/files/one_gpu.yaml",
        "store/proto/webtraj/v1/trajectory.proto",
        "rollouts/configuration/files/rollout.yaml",
        "view/static/style.css",
    ],
)
def test_the_wheel_has_files_that_are_not_python(wheel, name):
    assert f"webtraj/{name}" in wheel
