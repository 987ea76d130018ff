"""Screenshots show no secret, wherever on a real page it stands."""

import io
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image, ImageChops

from webtraj.environments.browser import blackout
from webtraj.environments.browser.pool import BrowserPool, Lease

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]

VIEWPORT = (600, 400)
STYLE = """<meta charset=utf-8><style>
body { margin: 0; font: 16px monospace } select, option, optgroup { font: inherit }
</style>"""
WORD = "Geheim-7"
OTHER = "anders+8"  # As long as the secret, and not one.


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[BrowserPool]:
    async with BrowserPool() as pool:
        yield pool


@pytest_asyncio.fixture(loop_scope="module", params=[1, 2], ids=["1x", "2x"])
async def lease(pool: BrowserPool, request: Any) -> AsyncIterator[Lease]:
    viewport = {"width": VIEWPORT[0], "height": VIEWPORT[1]}
    async with await pool.lease(viewport=viewport, device_scale_factor=request.param) as lease:
        yield lease


async def photograph(lease: Lease, html: str) -> tuple[bytes, bytes]:
    """Returns a screenshot of a page, and the same painted over."""
    await lease.page.set_content(STYLE + html, wait_until="load")
    session = await lease.context.new_cdp_session(lease.page)
    await lease.page.evaluate("new Promise(r => requestAnimationFrame(() => setTimeout(r)))")
    image = await lease.page.screenshot()
    boxes = blackout.secret_boxes(await session.send(*blackout.SNAPSHOT), [WORD])
    return image, blackout.paint_over(image, boxes, viewport=VIEWPORT)


def same(one: bytes, other: bytes) -> bool:
    first, second = (Image.open(io.BytesIO(data)).convert("RGB") for data in (one, other))
    return ImageChops.difference(first, second).getbbox() is None


SHOWN = {
    "text": "<p>before {} after</p>",
    "upper case": "<p style='text-transform: uppercase'>{}</p>",
    "in the middle of a line": "<p>{} and much more text that has nothing to do with it</p>",
    "wrapped": "<p style='width: 70px; word-break: break-all'>x {} {} y</p>",
    "input": "<input value='my {}'>",
    "set by script": "<input id=i><script>i.value = '{}'</script>",
    "placeholder": "<input placeholder='{}'>",
    "textarea": "<textarea>{}</textarea>",
    "select": "<select><option>a<option selected>{}</select>",
    "list box": "<select multiple><option>a<option>{}</select>",
    "button": "<button>{}</button><input type=submit value='{}'>",
    "generated": "<style>#g::after {{ content: '{}' }}</style><p id=g>x</p>",
    "open shadow root": "<p id=h></p><script>h.attachShadow({{mode: 'open'}}).innerHTML = '{}'"
    "</script>",
    "closed shadow root": "<p id=h></p><script>h.attachShadow({{mode: 'closed'}}).innerHTML = '{}'"
    "</script>",
    "declared shadow root": "<p><template shadowrootmode=closed>{}</template></p>",
    "SVG": "<svg width=300 height=60><text x=20 y=30>{}</text></svg>",
    "transformed": "<p style='width: 200px; transform: translate(60px, 40px) rotate(9deg)'>{}</p>",
    "scrolled page": "<div style='height: 900px'></div><p>{}</p><div style='height: 900px'></div>"
    "<script>scrollTo(0, 700)</script>",
    "scrolled box": "<div id=b style='height: 60px; overflow: auto'><p style='height: 90px'>"
    "<p>{}</p><p style='height: 90px'></div><script>b.scrollTop = 100</script>",
    "fixed": "<div style='height: 2000px'></div><b style='position: fixed; right: 0; bottom: 0'>"
    "{}</b><script>scrollTo(0, 300)</script>",
    "frame": "<p>x</p><iframe srcdoc='<p>inner {}</p>'></iframe>",
    "frame in a frame": "<iframe srcdoc='<iframe srcdoc=\"<p>{}</p>\"></iframe>'></iframe>",
    "editable": "<p contenteditable>{}</p>",
    "bulleted": "<ul><li>{}</ul>",
    "emoji before": "<p>\U0001f600\U0001f600\U0001f600 {} \U0001f600</p>",
    "right to left": "<p dir=rtl>{} \u05d0\u05d1</p>",
    "vertical": "<p style='writing-mode: vertical-rl'>{}</p>",
    "zoomed": "<p style='zoom: 1.7'>{}</p>",
    "summary": "<details open><summary>{}</summary>x {}</details>",
    "alternative text": "<img alt='{}' src='data:,'>",
    "option group": "<select size=4><optgroup label='{}'><option>a</select>",
}  # fmt: skip


@pytest.mark.parametrize("way", SHOWN)
async def test_no_pixel_tells_a_secret(lease: Lease, way: str) -> None:
    html = SHOWN[way]
    image, painted = await photograph(lease, html.format(WORD, WORD))
    shown, innocent = await photograph(lease, html.format(OTHER, OTHER))
    assert not same(image, shown), "The page does not show the difference at all."
    assert same(shown, innocent), "A page without the secret was painted over."
    # Painted where the secret stood, a page that showed something else there looks the same.
    await photograph(lease, html.format(WORD, WORD))
    session = await lease.context.new_cdp_session(lease.page)
    boxes = blackout.secret_boxes(await session.send(*blackout.SNAPSHOT), [WORD])
    assert boxes
    assert same(painted, blackout.paint_over(shown, boxes, viewport=VIEWPORT))


async def test_a_secret_in_pieces_of_markup_is_found(lease: Lease) -> None:
    image, painted = await photograph(lease, "<p>a <b>Ge</b><i>he</i>im-<span>7</span> b</p>")
    assert not same(image, painted)


async def test_most_of_the_page_stays(lease: Lease) -> None:
    lines = "".join(f"<p>line {i} {WORD if i == 3 else OTHER}</p>" for i in range(8))
    image, painted = await photograph(lease, lines)
    first, second = (Image.open(io.BytesIO(data)).convert("RGB") for data in (image, painted))
    _, top, _, bottom = ImageChops.difference(first, second).getbbox()
    assert (bottom - top) / first.height < 0.15


@pytest.mark.parametrize("image_format", ["JPEG", "PNG"])
async def test_the_image_keeps_its_format_and_size(image_format: str) -> None:
    data = io.BytesIO()
    Image.new("RGB", (101, 57), "white").save(data, format=image_format)
    painted = blackout.paint_over(data.getvalue(), [(5, 5, 10, 10)], viewport=(101, 57))
    with Image.open(io.BytesIO(painted)) as image:
        assert (image.format, image.size) == (image_format, (101, 57))
        assert image.convert("RGB").getpixel((8, 8)) == (0, 0, 0)


async def test_boxes_outside_of_the_image_do_no_harm() -> None:
    data = io.BytesIO()
    Image.new("RGB", (100, 100), "white").save(data, format="PNG")
    boxes = [(-500.0, -500.0, 10.0, 10.0), (900.0, 5.0, 5.0, 5.0), (-50.0, 40.0, 55.0, 5.0)]
    painted = blackout.paint_over(data.getvalue(), boxes, viewport=(100, 100))
    with Image.open(io.BytesIO(painted)) as image:
        assert image.convert("RGB").getpixel((50, 50)) == (255, 255, 255)
        assert image.convert("RGB").getpixel((2, 42)) == (0, 0, 0)
