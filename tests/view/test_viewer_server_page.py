"""An episode without a server: one file, in which what an episode says is data."""

import base64
import hashlib
import html.parser
import json
import re

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner
from viewer_server_support import HOSTILE, SVG, picture, rich_episode, write

from rows import each
from webtraj.cli.app import make_app
from webtraj.datasets.dataset import open_dataset
from webtraj.datasets.exporters import export_dataset
from webtraj.store.blobs import Blob, BlobStore, LazyBlob
from webtraj.trajectory import EpisodeInfo, EpisodeTrajectory, StepRecord, StepType
from webtraj.view import values
from webtraj.view.episode import episode_data
from webtraj.view.page import episode_html


class Parsed(html.parser.HTMLParser):
    """The elements of a page, and what stands in its scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs), ""))
        self.inside = tag in ("script", "style")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            tag, attributes, text = self.found[-1]
            self.found[-1] = (tag, attributes, text + data)

    def all(self, tag):
        return [(attributes, text) for name, attributes, text in self.found if name == tag]


def sha256(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.fixture(scope="module")
def page():
    return Parsed(episode_html(rich_episode()))


def test_the_episode_is_data_and_nothing_it_says_is_markup(page):
    data, script = page.all("script")
    assert data[0] == {"type": "application/json", "id": "page-data"}
    assert json.loads(data[1])["info"]["goal"] == HOSTILE
    assert script[0] == {"type": "module"}
    assert "alert(" not in script[1]
    assert not page.all("svg")
    assert "\u2028" not in data[1]


def test_the_page_runs_its_own_script_and_loads_nothing(page):
    (policy,) = [a["content"] for a, _ in page.all("meta") if "http-equiv" in a]
    (style,) = page.all("style")
    _, script = page.all("script")
    assert policy.split("; ") == [
        "default-src 'none'",
        f"script-src {sha256(script[1])}",
        f"style-src {sha256(style[1])}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    # The policy stands before all that it is for.
    tags = [tag for tag, _, _ in page.found]
    assert tags.index("meta") < tags.index("style") < tags.index("script")
    addresses = [a.get("src") or a.get("href") for _, a, _ in page.found]
    assert not [address for address in addresses if address and not address.startswith("data:")]


def test_pictures_are_in_it(page):
    data = json.loads(page.all("script")[0][1])
    uri = data["steps"][0]["image"]["url"]
    assert uri == f"data:image/jpeg;base64,{base64.b64encode(picture(0)).decode()}"
    assert data["steps"][-1]["image"]["url"].startswith("data:image/png;base64,")
    assert data["steps"][0]["observation"]["file"] == {"$": "bytes", "url": "", "size": len(SVG)}


def test_a_damaged_picture_is_told_and_no_reason_to_fail(tmp_path):
    lazy = LazyBlob(Blob("0" * 64, "png", 3), False, BlobStore(tmp_path))
    step = StepRecord(0, StepType.FIRST, {"screenshot": lazy})
    data = json.loads(
        Parsed(episode_html(EpisodeTrajectory(EpisodeInfo(), (step,)))).all("script")[0][1]
    )
    assert "Cannot read the blob" in data["problems"][0]


def test_a_dataset_is_exported_as_pages(tmp_path):
    place = write(tmp_path / "d", rich_episode(), rich_episode("other"))
    report = export_dataset(open_dataset(place), tmp_path / "out", format="html")
    assert report.complete
    for name in ("rich", "other"):
        text = (tmp_path / f"out/{name}.html").read_text(encoding="utf-8")
        data = json.loads(Parsed(text).all("script")[0][1])
        assert (data["id"], len(data["steps"])) == (name, 4)


def test_the_command_exports_one_episode(tmp_path):
    place = write(tmp_path / "d", rich_episode(), rich_episode("other"))
    command = "export", place, "--format", "html", "--id", "rich", "--out", str(tmp_path / "out")
    done = CliRunner().invoke(make_app(), command)
    assert done.exit_code == 0, done.output
    assert [path.name for path in (tmp_path / "out").glob("*.html")] == ["rich.html"]


@each(("kind", "media_type"), [("JPEG", "jpeg"), ("PNG", "png"), ("WEBP", "webp")])
@each("options", [{}, {"lossless": True}, {"progressive": True}])
def test_pictures_say_how_large_they_are(kind, media_type, options, tmp_path):
    Image.new("RGBA" if kind == "WEBP" else "RGB", (123, 45)).save(tmp_path / "x", kind, **options)
    data = (tmp_path / "x").read_bytes()
    assert values.media_type(data) == f"image/{media_type}"
    assert values.size_of(data) == (123, 45)
    for end in range(min(len(data), 200)):
        values.size_of(data[:end])  # Cut anywhere, it is no reason to fail.


@each("kind", ["JPEG", "PNG", "WEBP"])
@each(
    ("size", "drawn", "content"),
    [
        ((332, 214), (160, 210), [160, 210]),
        ((332, 214), (300, 200), None),  # Almost all of it.
        ((332, 214), (0, 0), None),
        ((1280, 720), (160, 210), None),  # A window, not a small page.
    ],
)
def test_what_a_small_picture_shows_is_told(size, drawn, content, kind, tmp_path):
    image = Image.new("RGB", size, "#555")
    image.paste(Image.effect_noise(drawn, 9).point(lambda value: value + 60), (0, 0))
    image.save(tmp_path / "x", kind)
    data = (tmp_path / "x").read_bytes()
    shown = values.Values(lambda value: "u").picture(data)
    assert (shown["width"], shown["height"]) == size
    assert shown.get("content") == content
    cut = values.Values(lambda value: "u").picture(data[: len(data) // 2])
    assert "content" not in cut


@each("shape", [(9, 12), (9, 12, 1), (9, 12, 3), (9, 12, 4)])
def test_arrays_of_pixels_are_pictures(shape, tmp_path):
    array = np.random.default_rng(0).integers(0, 255, shape, np.uint8)
    (tmp_path / "x.png").write_bytes(values.array_png(array))
    with Image.open(tmp_path / "x.png") as shown:
        assert np.array_equal(np.asarray(shown).reshape(shape), array)


def test_values_of_every_kind_are_data():
    observation = {
        1: b"\x00",
        "nan": float("nan"),
        "big": 2**70,
        "text": "\ud800",
        "array": np.arange(3000),
        "objects": np.array([b"x", None], dtype=object),
        "nested": {"a": [({"b": {1, 2}},)]},
        "svg": b"<svg>",
    }
    steps = (StepRecord(0, StepType.FIRST, observation),)
    data = episode_data(EpisodeTrajectory(EpisodeInfo(), steps), lambda value: "u")
    shown = json.loads(json.dumps(data, allow_nan=False))["steps"][0]["observation"]
    assert shown["1"] == {"$": "bytes", "url": "u", "size": 1}
    assert shown["svg"] == {"$": "bytes", "url": "u", "size": 5}
    assert shown["nan"] == {"$": "float", "v": "nan"}
    assert shown["text"] == "?"
    assert shown["array"]["shape"] == [3000]
    assert re.search(r"1.*2", json.dumps(shown["nested"]))
    assert len(shown["objects"]) == 2
