"""Screenshots show no secret, wherever on a real page it stands."""

import io
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from PIL import Image, ImageChops

from webtraj.environments.browser import secret_keeper
from webtraj.environments.browser.lease import Lease
from webtraj.environments.browser.pool import BrowserPool

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
    await lease.page.evaluate(
        "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(r))))"
    )
    image = await lease.page.screenshot()
    boxes = secret_keeper.secret_boxes(await session.send(*secret_keeper.SNAPSHOT), [WORD])
    return image, secret_keeper.paint_over(image, boxes, viewport=VIEWPORT)


def same(one: bytes, other: bytes) -> bool:
    first, second = (Image.open(io.BytesIO(data)).convert("RGB") for data in (one, other))
    return ImageChops.difference(first, second).getbbox() is None


SPELT = "{{0[{}]}}"
"""One letter of the secret."""
LETTERS = [SPELT.format(index) for index in range(len(WORD))]

SHOWN = {
    "columns": "<p style='columns: 3; width: 200px; height: 20px; word-break: break-all'>xx{}</p>",
    "narrow columns": "<p style='columns: 4 20px; column-gap: 40px; width: 500px; height: 60px;"
    " word-break: break-all'>{}</p>",
    "soft hyphens": "<p>" + "&shy;".join(LETTERS) + "</p>",
    "spaces of no width": "<p>" + "&#8203;".join(LETTERS) + "</p>",
    "joiners": "<p>" + "&#8288;".join(LETTERS) + "&#xfeff;</p>",
    "word breaks": "<p style='width: 40px'>" + "<wbr>".join(LETTERS) + "</p>",
    "shadow alone": "<p style='color: transparent; text-shadow: 150px 60px 0 black'>{}</p>",
    "two blurred shadows": "<p style='text-shadow: 9px 90px 4px red, 200px 2em green'>{}</p>",
    "shadow of a field": "<input style='text-shadow: 0 80px black' value='{}'>",
    "drop shadow": "<div style='filter: drop-shadow(90px 90px 0 red)'><p>{}</p></div>",
    "reflection": "<div style='-webkit-box-reflect: below 60px'><p>{}</p></div>",
    "SVG use": "<svg width=300 height=90><defs><text id=t>{}</text></defs>"
    "<use href=#t x=20 y=30 /></svg>",
    "SVG symbol": "<svg width=0 height=0><symbol id=t><text y=20>{}</text></symbol></svg>"
    "<p>x</p><svg width=300 height=90><use href=#t x=20 y=30 /></svg>",
    "SVG use of what is shown": "<svg width=300 height=90><text id=t y=20>{}</text>"
    "<use href=#t x=20 y=50 /></svg>",
    "SVG pattern": "<svg width=300 height=90><pattern id=t width=150 height=40"
    " patternUnits=userSpaceOnUse><text y=20>{}</text></pattern>"
    "<rect width=300 height=90 fill='url(#t)' /></svg>",
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
    boxes = secret_keeper.secret_boxes(await session.send(*secret_keeper.SNAPSHOT), [WORD])
    assert boxes
    assert same(painted, secret_keeper.paint_over(shown, boxes, viewport=VIEWPORT))


async def test_pictures_of_what_was_shown_before_are_told(lease: Lease) -> None:
    session = await lease.context.new_cdp_session(lease.page)
    style = "<style>::view-transition-group(*) { animation-duration: 1000s }</style>"
    await lease.page.set_content(style + f"<p id=p>{WORD}</p>", wait_until="load")
    assert not await secret_keeper.in_view_transition(session.send)
    await lease.page.evaluate("document.startViewTransition(() => p.textContent = 'x').ready")
    assert await secret_keeper.in_view_transition(session.send)
    assert not secret_keeper.secret_boxes(await session.send(*secret_keeper.SNAPSHOT), [WORD])


async def test_most_of_the_page_stays(lease: Lease) -> None:
    lines = "".join(f"<p>line {i} {WORD if i == 3 else OTHER}</p>" for i in range(8))
    image, painted = await photograph(lease, lines)
    first, second = (Image.open(io.BytesIO(data)).convert("RGB") for data in (image, painted))
    _, top, _, bottom = ImageChops.difference(first, second).getbbox()
    assert (bottom - top) / first.height < 0.15
