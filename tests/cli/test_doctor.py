"""What `webtraj doctor` finds, and what it makes of it."""

import asyncio
import json
import os
import stat
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webtraj import errors
from webtraj.cli import doctor
from webtraj.cli.doctor import (
    BrowserFinding,
    Diagnosis,
    PackageFinding,
    diagnose,
    read_requirement,
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


@pytest.mark.parametrize(
    ("requirement", "read"),
    [
        ("dm-env>=1.6", ("dm-env", ">=1.6", "")),
        ("rich", ("rich", "", "")),
        ('playwright>=1.59; extra == "browser"', ("playwright", ">=1.59", "browser")),
        ("webtraj[browser,test]; extra == 'dev'", ("webtraj", "", "dev")),
        ('a>=1,<2; python_version < "4" and extra == "x"', ("a", ">=1,<2", "x")),
    ],
)
def test_requirement_is_read_as_packaging_metadata_writes_it(requirement, read):
    assert read_requirement(requirement) == read


@pytest.mark.parametrize(
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


@given(st.lists(st.integers(0, 99), min_size=1, max_size=4))
def test_version_satisfies_itself_as_a_bound(numbers):
    version = ".".join(map(str, numbers))
    assert package(version, f">={version}").ok


@pytest.mark.parametrize(
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


def test_core_is_fit_without_a_browser():
    assert diagnosis(package(), browser_ok=False).core_ok
    assert not diagnosis(package(version="")).core_ok
    assert not diagnosis(package(), python_ok=False).core_ok


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
def test_browser_that_does_not_start_is_exit_code_1(run_webtraj, tmp_path):
    fake = tmp_path / "fake-browser"
    fake.write_text("#!/bin/sh\necho Chromium 1.2.3\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    done = run_webtraj("doctor", "--json", env={**os.environ, "WEBTRAJ_BROWSER": str(fake)})
    found = json.loads(done.stdout)
    assert done.returncode == 1
    assert found["browser"]["version"] == "Chromium 1.2.3"
    assert not found["browser"]["ok"]
    assert found["browser"]["problem"]


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


def test_packages_for_work_on_webtraj_itself_are_missed_by_nobody_else(capsys):
    missing = [package(version="", extra=extra) for extra in ("ray", "test", "docs", "dev")]
    doctor._print_report(diagnosis(package(), *missing))
    shown = capsys.readouterr().out
    assert "thing [ray]" in shown
    assert not any(f"thing [{extra}]" in shown for extra in ("test", "docs", "dev"))


def test_a_machine_without_playwright_and_browser_can_record(monkeypatch):
    monkeypatch.setitem(sys.modules, "playwright", None)
    monkeypatch.setenv("WEBTRAJ_BROWSER", "no-such-browser")
    found = asyncio.run(diagnose())
    assert found.ok
    assert not found.browser.ok
