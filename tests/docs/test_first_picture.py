"""The animated picture: the pieces that it is made of, and the file."""

import importlib.util
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location(
        "first_picture", ROOT / "scripts/first_picture.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.parametrize(
    ("printed", "lines"),
    [
        ("a\r\nb", ["a", "b"]),
        ("bar 1\r\x1b[2Kbar 2", ["bar 2"]),
        ("\x1b[?25lbar\r\n\x1b[?25h\x1b[1A\x1b[2Ktable\r\nend", ["table", "end"]),
        ("\x1b[36m$\x1b[0m ls", ["\x1b[36m$\x1b[0m ls"]),
    ],
)
def test_screen_shows_what_a_terminal_would(script, printed, lines):
    screen = script.Screen()
    screen.feed(printed)
    assert screen.lines == lines


def test_terminal_becomes_text_in_colours(script):
    shown = script.terminal_html(["gone"] * 99 + ["\x1b[1;36m<b>\x1b[0m c"])
    assert '<span class="s1 s36">&lt;b&gt;</span> c' in shown
    assert shown.count("gone") == script.ROWS - 1


def test_commands_are_typed_to_their_end(script):
    for command in script.COMMANDS:
        *_, (last, _) = script.typing(command)
        assert last == command


def test_prints_are_joined_and_none_is_lost(script):
    prints = [(0.0, "a"), (0.2, "b"), (1.1, "c"), (1.2, "d"), (9.0, "e")]
    assert list(script.pieces(prints, 1.0)) == ["ab", "cd", "e"]


def test_picture_is_written_with_its_times(script, tmp_path):
    pictures = [Image.new("RGB", (40, 20), colour) for colour in ("black", "teal", "white")]
    frames = [script.Frame(picture, 100 * (1 + at)) for at, picture in enumerate(pictures)]
    script.write(frames, tmp_path / "a.webp")
    with Image.open(tmp_path / "a.webp") as written:
        assert written.n_frames == 3


def test_the_picture_in_the_checkout_is_animated_and_small(script):
    assert script.FILE.stat().st_size < script.LARGEST
    with Image.open(script.FILE) as picture:
        assert picture.n_frames > 50
