"""Set-of-marks pictures: what is marked, where the numbers go, and that the page is untouched."""

import io

import pytest
from PIL import Image

from rows import each
from webtraj.environments.browser.observer import (
    color_of,
    draw_marks,
    place_label,
    rework,
)


def picture(size=(200, 100), picture_format="PNG", color="white"):
    encoded = io.BytesIO()
    Image.new("RGB", size, color).save(encoded, format=picture_format)
    return encoded.getvalue()


def opened(encoded):
    return Image.open(io.BytesIO(encoded))


def test_boxes_are_in_css_pixels_whatever_the_picture_s_resolution():
    image = Image.new("RGB", (400, 200), "white")
    draw_marks(image, [(50, 50, 100, 40)], viewport=(200, 100))
    assert image.getpixel((100, 150)) == color_of(1)
    assert image.getpixel((299, 179)) == color_of(1)
    assert image.getpixel((200, 140)) == (255, 255, 255)


def overlap(one, other):
    return min(one[2], other[2]) > max(one[0], other[0]) and min(one[3], other[3]) > max(
        one[1], other[1]
    )


def test_labels_of_neighbours_do_not_overlap():
    boxes = [(10.0 + 14 * i, 40.0, 22.0 + 14 * i, 52.0) for i in range(12)]
    placed = []
    for box in boxes:
        placed.append(place_label(box, (14, 13), placed=placed, boxes=boxes, size=(200, 100)))
    pairs = [(a, b) for i, a in enumerate(placed) for b in placed[:i]]
    assert not any(overlap(a, b) for a, b in pairs)


@pytest.mark.parametrize("box", [(0, 0, 5, 5), (195, 95, 200, 100), (-50, -50, 300, 300)])
def test_labels_stay_in_the_picture(box):
    left, top, right, bottom = place_label(box, (14, 13), placed=[], boxes=[box], size=(200, 100))
    assert 0 <= left < right <= 200
    assert 0 <= top < bottom <= 100


@each("picture_format", ["jpeg", "webp", "png"])
@each("scale", [1.0, 0.5, 0.33, 0.001])
def test_scaled_pictures_have_the_asked_for_size_and_format(picture_format, scale):
    done = opened(
        rework(picture((300, 120), "JPEG"), picture_format=picture_format, quality=80, scale=scale)
    )
    assert done.size == (max(1, round(300 * scale)), max(1, round(120 * scale)))
    assert done.format == picture_format.upper()
    assert done.getpixel((0, 0)) == (255, 255, 255)


def test_what_is_no_picture_raises_an_error_of_the_system():
    with pytest.raises(OSError, match="identify"):
        rework(b"no picture", picture_format="png", quality=80)
