"""What `webtraj doctor` finds, and what it makes of it."""

import json
import os
import subprocess
import sys

import pytest

from rows import each
from webtraj import errors
from webtraj.cli.doctor import (
    BrowserFinding,
    Diagnosis,
    PackageFinding,
)


def package(version="1.0", required=">=1.0", extra=""):
    return PackageFinding(name="thing", extra=extra, version=version, required=required)


def diagnosis(*packages, python_ok=True, browser_ok=True):
    return Diagnosis(
        webtraj="0",
        python="3",
        python_ok=python_ok,
        platform="",
        packages=packages,
        browser=BrowserFinding(ok=browser_ok),
    )


@each(
    ("version", "required", "ok"),
    [
        ("1.6", ">=1.6", True),
        ("1.10", ">=1.9", True),
        ("1.6.1", ">=1.6", True),
        ("2.0rc1", ">=1.6", True),
        ("1.5.9", ">=1.6", False),
        ("1", ">=1.6", False),
        ("", ">=1.6", False),
        ("", "", False),
        ("0.1", "", True),
        ("2026.1", ">=3,<4000", True),
    ],
)
def test_package_is_ok_from_its_lower_bound_on(version, required, ok):
    assert package(version, required).ok is ok


@each(
    ("found", "ok"),
    [
        (diagnosis(package()), True),
        (diagnosis(package(), package(version="", extra="ray")), True),
        (diagnosis(package(version="")), False),
        (diagnosis(package(version="0.9")), False),
        (diagnosis(package(), python_ok=False), False),
        (diagnosis(package(), browser_ok=False), False),
    ],
)
def test_core_and_browser_decide_and_extras_do_not(found, ok):
    assert found.ok is ok


def test_remedy_names_the_extra():
    assert package(extra="web").remedy == errors.install_command("web")
    assert package().remedy == errors.install_command()


@pytest.mark.slow
@pytest.mark.browser
def test_healthy_machine_is_told_so(run_webtraj):
    done = run_webtraj("doctor", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout
    assert found["ok"]
    assert found["browser"]["ok"]
    assert found["browser"]["version"]
    packages = {package["name"]: package for package in found["packages"]}
    assert packages["dm-env"]["ok"]
    assert packages["playwright"]["extra"] == "web"
    report = run_webtraj("doctor")
    assert report.returncode == 0
    assert "webtraj is ready to use." in report.stdout
    assert found["browser"]["version"] in report.stdout


def test_missing_browser_is_exit_code_1_and_says_what_to_run(run_webtraj):
    done = run_webtraj("doctor", env={**os.environ, "WEBTRAJ_BROWSER": "no-such-browser"})
    assert done.returncode == 1
    assert "apt-get install chromium-headless-shell" in done.stdout
    assert "playwright install" in done.stdout
    assert "cannot use a browser yet" in done.stdout


@pytest.mark.slow
def test_without_playwright_all_is_well_and_the_extra_for_playing_is_named():
    program = (
        "import sys, webtraj.cli; sys.modules['playwright'] = None; "
        "sys.argv = ['webtraj', 'doctor']; webtraj.cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "NO" not in done.stdout.split()
    assert "The browser: The browser environment needs Playwright" in done.stdout
    assert errors.install_command("web") in done.stdout
    assert "webtraj can record and read episodes, but cannot use a browser yet." in done.stdout
