"""The report's page: one file that shows everything, runs nothing and asks for nothing."""

import html.parser
import json
import re
import urllib.parse

import pytest
from typer.testing import CliRunner

from rows import each
from webtraj import errors, open_dataset
from webtraj.cli.app import make_app
from webtraj.datasets.place import absolute_place
from webtraj.metrics.comparison import subjects_of
from webtraj.metrics.page import (
    MARK,
    VIEWER,
    make_report,
    report_html,
    write_report,
)
from webtraj.view.table import parse_query
from webtraj.view.viewer import Viewer

HOSTILE = (
    "<script>document.title='hit'</script>",
    "\"'><img src=x onerror=\"document.title='hit'\">",
    "</style><svg onload=alert(1)>$\\frac{a}{b}$ & \x00\x1b[31m \u202egnp",
    "_日本語 🙂 $x$",
    "javascript:alert(1)//" + "long " * 40,
    "unbroken" * 40,
)


class Structure(html.parser.HTMLParser):
    """Collects tags with their attributes, and checks that they are nested as they must be."""

    VOID = ("meta", "img")

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def run(*arguments):
    """Calls the command."""
    command = ["metrics", "--html", "report.html", *map(str, arguments)]
    return CliRunner().invoke(make_app(), command)


@pytest.fixture(scope="module")
def hostile(two_named):
    """A report of two datasets whose tasks are called what they should not be."""
    places = two_named(HOSTILE)
    return make_report([subjects_of(place)[0] for place in places], title=HOSTILE[0])


@pytest.fixture(scope="module")
def page(hostile):
    """Its page."""
    return report_html(hostile)


@pytest.mark.slow
def test_page_is_whole_names_everything_and_holds_no_script(page):
    structure = Structure(page)
    names = [tag for tag, _ in structure.tags]
    assert "script" not in names
    assert names.count("style") == 1
    allowed = {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "section",
               "div", "table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "img",
               "strong", "caption", "ul", "li", "a"}  # fmt: skip
    assert set(names) <= allowed
    for _, attributes in structure.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert attributes.get("src", "data:").startswith("data:")
    (policy,) = [a["content"] for _, a in structure.tags if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'sha256-")
    words = "".join(structure.words)
    for name in (HOSTILE[0], HOSTILE[1], HOSTILE[3], HOSTILE[4]):
        assert name in words
    assert "\x00" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_numbers_on_the_page_are_the_comparison_s(hostile, page):
    (comparison,) = hostile.comparisons
    rate = comparison.rates[0]
    assert f"{rate.first.value:.1%} ({rate.first.numerator}/{rate.first.denominator})" in page
    low, high = rate.interval
    assert f"{100 * low:+.1f} to {100 * high:+.1f}" in page
    assert f"Of {comparison.pairs.number} pairs" in page
    assert f"p = {comparison.pairs.p:.3g}" in page


def test_it_begins_with_the_result_and_links_to_the_episodes(play, ends_by, tmp_path):
    place = play("data", ("one", "two"), ends_by(0.5))
    page = report_html(make_report(subjects_of(place)))
    (headline,) = re.findall(r'<section class="headline">(.*?)</section>', page)
    graded = make_report(subjects_of(place)).points[0][1].report.overall.success_rate
    assert f"{graded.value:.1%} success, {graded.numerator} of {graded.denominator}" in headline
    links = [a["href"] for tag, a in Structure(page).tags if tag == "a"]
    assert all(link.startswith(VIEWER) for link in links)
    with Viewer([place]) as viewer:
        for link in links:
            if "#/episode/" in link:
                named, episode = map(urllib.parse.unquote, link.split("/")[-2:])
                assert named == absolute_place(place)
                assert episode in open_dataset(place)
            else:
                query = parse_query(urllib.parse.parse_qsl(link.partition("?")[2]))
                assert 0 < viewer.page(query).total <= len(open_dataset(place))
    port = urllib.parse.urlsplit(VIEWER).port
    assert f"webtraj view {place} --port {port}" in headline


def test_a_report_takes_the_place_of_a_report_and_of_nothing_else(play, ends_by, tmp_path):
    report = make_report(subjects_of(play("data", ("one",), ends_by(0.5)), steps=False))
    path = tmp_path / "new folder" / "report.html"
    write_report(report, path)
    write_report(report, path)
    assert MARK in path.read_text(encoding="utf-8")
    other = tmp_path / "thesis.html"
    other.write_text("<p>years of work</p>")
    with pytest.raises(errors.InvalidInputError, match="is not a webtraj report"):
        write_report(report, other)
    assert other.read_text() == "<p>years of work</p>"
    with pytest.raises(errors.InvalidInputError, match="Cannot write"):
        write_report(report, tmp_path)


def test_command_writes_page_and_pictures(play, ends_by, tmp_path):
    place = play("data", ("one", "two"), ends_by(0.5))
    out, pictures = tmp_path / "out.html", tmp_path / "pictures"
    done = run(place, "--html", out, "--png", pictures, "--title", "Mine")
    assert done.exit_code == 0, done.output
    assert f"Report: {out}" in done.stdout
    assert "<h1>Mine</h1>" in out.read_text()
    assert {path.suffix for path in pictures.iterdir()} == {".png"}


def test_command_prints_json(play, ends_by, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = play("first", ("one", "two"), ends_by(0.2))
    second = play("second", ("one", "two"), ends_by(0.8))
    data = json.loads(run(first, second, "--json").stdout)
    assert [subject["name"] for subject in data["subjects"]] == [first, second]
    (comparison,) = data["comparisons"]
    before, after = comparison["rates"][0]["first"], comparison["rates"][0]["second"]
    assert comparison["rates"][0]["difference"] == pytest.approx(after["value"] - before["value"])
    assert data["subjects"][0]["points"][0]["metrics"]["overall"]["total"] == 8


@each(
    ("arguments", "error", "message"),
    [
        (["nowhere"], errors.NotADatasetError, "No dataset at"),
        (["a", "b", "--each-run"], errors.InvalidInputError, "Give one dataset"),
        (["a", "--each-run", "--run", "last"], errors.InvalidInputError, "leave out --run"),
        (["a", "--where", "1 +"], errors.InvalidInputError, "1 +"),
    ],
)
def test_wrong_input_of_a_report_is_named(arguments, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert isinstance(done.exception, error)
    assert re.search(re.escape(message), str(done.exception))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.browser
@pytest.mark.slow
def test_a_browser_shows_the_page_runs_nothing_and_asks_for_nothing(hostile, page, tmp_path):
    from playwright.sync_api import sync_playwright

    from webtraj.rollouts.making import Browsers

    page_text, path = page, tmp_path / "report.html"
    path.write_text(page_text, encoding="utf-8")
    said, asked = [], []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=Browsers().find().path)
        page = browser.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        assert page.title() == HOSTILE[0]
        sizes = page.evaluate("[...document.images].map((i) => [i.complete, i.naturalWidth])")
        assert len(sizes) == len(hostile.pictures())
        assert all(complete and width > 100 for complete, width in sizes)
        assert page.locator("h1").inner_text() == HOSTILE[0]
        colour = page.evaluate("getComputedStyle(document.querySelector('section')).borderRadius")
        assert colour == "8px"  # Its own style is let through by its policy.
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") == width
        lines = page.evaluate(
            """[...document.querySelectorAll("td:not(.note)")].map((cell) => {
              const range = document.createRange();
              range.selectNodeContents(cell);
              return new Set([...range.getClientRects()].map(({ bottom }) => bottom)).size;
            })"""
        )
        assert max(lines) == 1  # Numbers are not wrapped.
        browser.close()
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
