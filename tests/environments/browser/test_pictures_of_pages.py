"""Pictures in observations: what is marked on real pages, how pictures are scaled, when taken."""

import io

import numpy as np
import playwright.async_api
import pytest
from PIL import Image

from rows import each
from webtraj.environments import actions as a
from webtraj.environments.browser.observation import Observe, refs_in
from webtraj.environments.browser.settle_policy import SettlePolicy

pytestmark = pytest.mark.asyncio(loop_scope="module")

MARKS = ("axtree", "set_of_marks", "screenshot", "timings")


async def names_marked(environment):
    marks = (await environment.reset()).observation["set_of_marks"]
    return list(marks["names"])


@pytest.mark.browser
@each(
    ("html", "marked"),
    [
        ("<button>Go</button><a href=x>Link</a><p>Text</p>", ["Go", "Link"]),
        ("<input aria-label=In><select aria-label=Of><option>1</select>", ["In", "Of"]),
        ("<div onclick=x()>Handler</div><div>None</div>", ["Handler"]),
        ("<button disabled>Off</button>", []),
        ("<button style='visibility:hidden'>Unseen</button>", []),
        ("<button style='position:absolute;top:5000px'>Below</button>", []),
        (
            "<button>Under</button><div style='position:fixed;inset:0;background:red'></div>",
            [],
        ),
        (
            "<p id=h></p><script>h.attachShadow({mode: 'open'}).innerHTML = '<button>In'</script>",
            ["In"],
        ),
        ('<iframe srcdoc="<button>Framed</button>"></iframe>', ["Framed"]),
    ],
)
async def test_marked_is_what_can_be_seen_and_acted_on(open_page, html, marked):
    assert await names_marked(open_page(html, observe=MARKS)) == marked


async def test_a_set_of_marks_follows_its_spec_and_is_drawn_where_the_elements_are(open_page):
    environment = open_page(
        "<body style='margin:0;background:white'><button style='position:absolute;left:100px;"
        "top:200px;width:80px;height:40px'>Go</button>",
        observe=Observe(MARKS, screenshot_format="png"),
    )
    observation = (await environment.reset()).observation
    marks, spec = observation["set_of_marks"], environment.observation_spec()["set_of_marks"]
    for key, value in marks.items():
        spec[key].validate(value)
    np.testing.assert_array_equal(marks["boxes"], [[100, 200, 80, 40]])
    assert list(marks["roles"]) == ["button"]
    plain, marked = (
        Image.open(io.BytesIO(image)).convert("RGB")
        for image in (observation["screenshot"], marks["image"])
    )
    assert plain.size == marked.size == (1280, 720)
    assert plain.getpixel((100, 230)) != marked.getpixel((100, 230))
    assert plain.getpixel((600, 600)) == marked.getpixel((600, 600))


@pytest.mark.smoke
@pytest.mark.browser
async def test_marking_leaves_no_trace_in_the_page(open_page):
    environment = open_page(
        "<button>Go</button><script>new MutationObserver(() => window.finished = 1).observe("
        "document, {subtree: true, childList: true, attributes: true})</script>",
        observe=MARKS,
    )
    await environment.reset()
    for _ in range(2):
        assert not (await environment.step(a.Wait(0))).last()


PAINTS = """
<body style='margin:0'><button onclick='{handler}' style='position:absolute;top:600px'>Go</button>
<script>const paint = () => document.body.style.background = "rgb(0, 0, 255)";</script>
"""


@pytest.mark.browser
@pytest.mark.parametrize(
    "handler",
    [
        "paint()",
        "setTimeout(paint, 10)",
        "requestAnimationFrame(() => requestAnimationFrame(paint))",
        "fetch(location).then(paint, paint)",
        'document.body.style.transition = "background 60ms"; paint()',
    ],
)
async def test_a_picture_shows_the_page_as_it_has_settled(open_page, handler):
    environment = open_page(
        PAINTS.format(handler=handler),
        observe=Observe(("axtree", "screenshot"), "png"),
        settle=SettlePolicy(quiet=0.5),  # A busy machine's frames may be far more than 16 ms apart.
    )
    timestep = await environment.reset()
    (button,) = refs_in(timestep.observation["axtree"])
    for _ in range(2):  # The second time, from a page that is blue already.
        timestep = await environment.step(a.Click(button.ref))
        picture = Image.open(io.BytesIO(timestep.observation["screenshot"])).convert("RGB")
        assert picture.getpixel((640, 300)) == (0, 0, 255)


@pytest.mark.browser
@pytest.mark.parametrize("limit", [50, 333, 2000])
async def test_a_page_too_large_is_cut_and_says_how_much_is_left_out(open_page, limit):
    html = "".join(f"<button>Button {i}</button>" for i in range(300))
    whole = (await open_page(html, observe=("axtree",)).reset()).observation["axtree"]
    observe = Observe(("axtree", "set_of_marks"), axtree_limit=limit)
    observation = (await open_page(html, observe=observe).reset()).observation
    *kept, marker = observation["axtree"].splitlines()
    assert kept == whole.splitlines()[: len(kept)]
    assert marker == f"... {300 - len(kept)} more lines"
    assert limit <= len("\n".join(kept)) + 1 < limit + 30
    assert [ref.ref for ref in refs_in(observation["axtree"])] == [
        str(i + 1) for i in range(len(kept))
    ]
    assert set(observation["set_of_marks"]["refs"]) <= {str(i + 1) for i in range(len(kept))}


LONG = f"<b>Go</b><p>{'word ' * 1000}"
DEEP = """<button>Go</button>
<script>
  for (let i = 1200, e = document.body; i--;) e = e.appendChild(document.createElement("i"))
</script>"""


@pytest.mark.browser
@pytest.mark.parametrize(
    ("html", "last"),
    [
        (LONG, ['  text "word word word word word …"', "... 1 more lines"]),
        (DEEP, ['[1] button "Go"', "... 600 more lines"]),
    ],
)
async def test_what_is_too_long_or_too_deep_to_read_is_counted(open_page, html, last):
    observe = Observe(("axtree",), axtree_limit=60)
    observation = (await open_page(html, observe=observe).reset()).observation
    assert observation["axtree"].splitlines()[-2:] == last


@pytest.mark.browser
async def test_a_picture_is_taken_again_if_the_document_was_not_drawn_yet(open_page, monkeypatch):
    environment = open_page("<button>Go</button>", observe=("axtree", "screenshot"))
    await environment.reset()
    debugger = await environment.session.debugger(environment.session.page)
    send, failures = debugger.send, []

    async def fails_once(method, options=None):
        if method == "Page.captureScreenshot" and not failures:
            failures.append(method)
            message = "Protocol error (Page.captureScreenshot): Unable to capture screenshot"
            raise playwright.async_api.Error(message)
        return await send(method, options)

    monkeypatch.setattr(debugger, "send", fails_once)
    assert Image.open(io.BytesIO(await environment.session.screenshot())).size == (1280, 720)
    assert failures
