"""The documentation's site, built as `make docs` does and opened in a real browser."""

import asyncio
import functools
import http.server
import importlib
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from documented_blocks import DOCS, ROOT

from webtraj.environments.browser.processes import find_browser

# It takes some twenty seconds to build, on a busy machine minutes.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site. A dead link, a dead anchor or a page that is nowhere ends the build."""
    folder = tmp_path_factory.mktemp("site")
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return folder


def test_site_has_every_page_and_every_command(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS).with_suffix(".html")).exists(), page
    from webtraj.cli.app import COMMANDS

    reference = (site / "reference/cli.html").read_text()
    for command in COMMANDS:
        assert f'id="webtraj-{command.replace(" ", "-")}"' in reference, command
    for example in (ROOT / "examples").glob("[0-9]*.py"):
        assert example.name in (site / "examples.html").read_text()


def test_api_reference_has_what_the_docs_import(site: Path) -> None:
    pages = {page.stem: page.read_text() for page in (site / "reference/api").glob("*.html")}
    for name in (
        "webtraj.trajectory.EpisodeTrajectory",
        "webtraj.environments.collecting.TrajectoryCollectingEnvironment",
        "webtraj.collectors.base.TrajectoryCollector",
        "webtraj.rollouts.collect",
        "webtraj.errors.CollectorError",
    ):
        package = ".".join(name.split(".")[:2])
        assert name in re.findall(r'id="(webtraj[^"]*)"', pages[package]), name
    for package in ("", ".agents", ".collectors", ".datasets", ".environments"):
        name = f"webtraj{package}"
        shown = re.findall(rf"<li><a[^>]*><code>{name}\.(\w+)</code>", pages[name])
        face = importlib.import_module(name).__all__
        assert set(shown) == set(face) - {"__version__"}, name


async def test_a_reader_finds_things_and_asks_no_other_site(site: Path) -> None:
    from playwright.async_api import async_playwright

    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{server.server_port}"
    asked, errors = [], []
    try:
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=find_browser().path)
            page = await browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(120_000)
            page.on("request", lambda request: asked.append(request.url))
            page.on("pageerror", lambda error: errors.append(str(error)))
            await page.goto(f"{origin}/index.html")
            await page.get_by_role("link", name="Guides", exact=True).first.click()
            await page.get_by_role("heading", name="Wrap your own environment").wait_for()
            # What is typed before the page's scripts are ready is searched for by nobody.
            found = page.locator(".md-search-result__item")
            async with asyncio.timeout(120):
                while not await found.count():
                    await page.get_by_role("textbox", name="Search").fill("")
                    await page.get_by_role("textbox", name="Search").fill("object store spool")
                    await asyncio.sleep(2)
            await page.goto(f"{origin}/concepts/house.html")
            width = await page.locator("img[src$='house.svg']").evaluate(
                "image => image.naturalWidth"
            )
            assert width > 0
            await browser.close()
    finally:
        server.shutdown()
        server.server_close()
    assert not errors
    assert {url.split("/")[2] for url in asked if not url.startswith("data:")} == {origin[7:]}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_) -> None:
        pass
