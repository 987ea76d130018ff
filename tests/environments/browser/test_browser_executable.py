"""Which browser is found, and in which order."""

import shutil
import stat

import pytest

from webtraj import errors
from webtraj.environments.browser import processes as processes_lib
from webtraj.environments.browser.processes import find_browser


def make_program(path, output="Chromium 1.2.3", code=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {output}\nexit {code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine without any browser: an empty PATH and an empty download folder."""
    shell = shutil.which("sh")
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "sh").symlink_to(shell)
    monkeypatch.setenv("PATH", str(bin_folder))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "downloads"))
    monkeypatch.delenv("WEBTRAJ_BROWSER", raising=False)
    return tmp_path


def test_without_any_browser_the_error_says_what_to_run(machine):
    with pytest.raises(errors.BrowserNotFoundError) as caught:
        find_browser()
    for advice in ("playwright install", "apt-get install chromium-headless-shell", "WEBTRAJ"):
        assert advice in str(caught.value)


def test_the_system_s_headless_shell_comes_before_its_chromium(machine):
    make_program(machine / "bin" / "chromium")
    assert find_browser().path == str(machine / "bin" / "chromium")
    make_program(machine / "bin" / "chromium-headless-shell", "Chromium 9")
    found = find_browser()
    assert found == processes_lib.BrowserExecutable(
        str(machine / "bin" / "chromium-headless-shell"), "Chromium 9", "system"
    )


def test_playwright_s_download_comes_before_the_system_and_the_newest_first(machine):
    make_program(machine / "bin" / "chromium")
    for revision in (999, 1255):
        make_program(
            machine / f"downloads/chromium_headless_shell-{revision}/chrome-linux/headless_shell"
        )
    found = find_browser()
    assert found.source == "playwright"
    assert "-1255/" in found.path


def test_what_the_user_names_comes_first(machine, monkeypatch):
    make_program(machine / "bin" / "chromium")
    named = make_program(machine / "mine", "Mine 7")
    monkeypatch.setenv("WEBTRAJ_BROWSER", str(named))
    assert find_browser() == processes_lib.BrowserExecutable(
        str(named), "Mine 7", "WEBTRAJ_BROWSER"
    )


@pytest.mark.parametrize("broken", [False, True], ids=["missing", "broken"])
def test_what_the_user_names_is_never_passed_over(machine, monkeypatch, broken):
    make_program(machine / "bin" / "chromium")
    if broken:
        make_program(machine / "mine", code=1)
    monkeypatch.setenv("WEBTRAJ_BROWSER", str(machine / "mine"))
    with pytest.raises(errors.BrowserNotFoundError, match="mine"):
        find_browser()
