"""Frames of another origin: what is seen in them, acting on it, and frames that misbehave."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from webtraj.environments import actions as a
from webtraj.environments.browser.access import WebAccess
from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.environments.browser.observation import Observe, refs_in
from webtraj.environments.browser.pool import BrowserPool, PoolLimits
from webtraj.environments.browser.settle_policy import SettlePolicy
from webtraj.environments.browser.tasks import WebTask
from webtraj.environments.local_server import LocalServer

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]

CHANNELS = ("axtree", "boxes", "focused", "text", "set_of_marks", "last_action", "timings")


class Site:
    """Pages by path. As `localhost` and as `127.0.0.1` it is two sites, in two processes."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        self.asked: list[str] = []
        self.here = self.there = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode()
            self.asked.append(path)
            body = ("<!doctype html><meta charset=utf-8>" + self.pages.get(path, "")).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
            await writer.drain()


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[("--disable-site-isolation-trials",), ("--site-per-process",)],
    ids=["one process", "a process for each site"],
)
async def pool(request) -> AsyncIterator[BrowserPool]:
    limits = PoolLimits(call=10.0, close=3.0)
    async with BrowserPool(confined=False, limits=limits, arguments=request.param) as pool:
        yield pool


@pytest_asyncio.fixture(loop_scope="module")
async def site():
    made = Site()
    async with LocalServer(made.answer) as server:
        made.here = f"http://{server.address}"
        made.there = made.here.replace("127.0.0.1", "localhost")
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def play(pool, site):
    """Gives a function from the page at `/` to its environment, begun, and its observation.

    A frame has until the cap and two seconds more to answer: a machine with much to do needs a high
    cap, which costs a page that settles nothing.
    """
    environments = []

    async def begin(html, *, observe=CHANNELS, cap=30.0, **pages):
        site.pages = {"/": html, **{f"/{name}": source for name, source in pages.items()}}
        environment = BrowserEnvironment(
            WebTask(goal="", start_url=f"{site.here}/"),
            pool=pool,
            observe=observe,
            settle=SettlePolicy(cap=cap),
            policy=WebAccess(network=None),
        )
        environments.append(environment)
        return environment, (await environment.reset()).observation

    yield begin
    for environment in environments:
        await environment.close()


def frame(url, style="position:absolute;left:100px;top:50px;width:300px;height:200px", **more):
    attributes = "".join(f' {name}="{value}"' for name, value in more.items())
    style = f"margin:0;border:5px solid;padding:0;{style}"
    return f'<iframe src="{url}" style="{style}"{attributes}></iframe>'


def ref_of(observation, name):
    (found,) = (ref.ref for ref in refs_in(observation["axtree"]) if ref.name == name)
    return found


BUTTON = (
    "<body style='margin:0'><button style='position:absolute;left:10px;top:20px;width:80px;"
    "height:30px' onclick='this.textContent = event.isTrusted'>Pay</button>"
)


async def test_the_lines_of_a_frame_stand_under_it(play, site):
    _, seen = await play(
        "<p>Before</p>" + frame(f"{site.there}/bank", title="Bank") + "<p>After</p>",
        bank="<h1>Your bank</h1><input aria-label=Card>",
    )
    lines = [line.split("] ", 1)[-1] for line in seen["axtree"].splitlines()]
    assert lines == [
        'paragraph "Before"',
        'iframe "Bank"',
        'heading "Your bank" level=1',
        'textbox "Card"',
        'paragraph "After"',
    ]
    assert seen["axtree"].splitlines()[2].startswith("  [f")
    assert seen["text"].split() == ["Before", "After", "Your", "bank"]


async def test_what_is_in_a_covered_frame_is_covered(play, site):
    layer = "<div style='position:fixed;inset:0;background:white'>Layer</div>"
    _, seen = await play(
        frame(f"{site.there}/bank") + layer, bank="<button>Pay</button><p>a<b>b</b>"
    )
    lines = [line.split("] ", 1)[-1].strip() for line in seen["axtree"].splitlines()]
    assert lines == [
        "iframe covered",
        'button "Pay" covered',
        "paragraph covered",
        'text "a" covered',
        'generic "b" covered',
        'generic "Layer"',
    ]


@pytest.mark.smoke
async def test_elements_are_acted_on_where_they_are_in_the_top_window(play, site):
    environment, seen = await play(frame(f"{site.there}/bank"), bank=BUTTON)
    pay = ref_of(seen, "Pay")
    index = list(seen["boxes"]["refs"]).index(pay)
    assert list(seen["boxes"]["boxes"][index]) == [115, 75, 80, 30]
    timestep = await environment.step(a.Click(pay))
    seen = timestep.observation
    assert seen["last_action"]["error"] == ""
    assert ref_of(seen, "true") == pay
    assert list(seen["last_action"]["box"]) == [115, 75, 80, 30]
    assert seen["last_action"]["frame"] == f"{site.there}/bank"


async def test_what_can_be_seen_of_a_frame_is_clicked_and_the_rest_refused(play, site):
    zoomed = f"<div style='zoom:1.3'>{frame(f'{site.there}/bank', 'padding:7px')}</div>"
    bent = "perspective:600px;width:300px"
    for style, html, error in (
        ("zoom:1.2", frame(f"{site.here}/outer", "width:500px;height:400px"), ""),
        (bent, frame(f"{site.there}/bank", "transform:rotateY(40deg)"), ""),
        ("width:200px;height:60px;overflow:auto", frame(f"{site.there}/bank", "width:300px"), ""),
        ("", frame(f"{site.there}/bank") + _layer(160), ""),
        ("", frame(f"{site.there}/bank") + _layer(90), "is covered there by"),
    ):
        here = site.there if "/outer" in html else site.here
        environment, seen = await play(
            f"<div style='{style}'>{html.replace(site.here, here)}</div>",
            bank=BUTTON,
            outer=zoomed.replace(site.there, site.here),
        )
        seen = (await environment.step(a.Click(ref_of(seen, "Pay")))).observation
        assert error in seen["last_action"]["error"], style
        assert ref_of(seen, "Pay" if error else "true")


def _layer(left):
    return (
        f"<p style='position:absolute;background:red;left:{left}px;top:0;width:999px;height:999px'>"
    )


async def test_text_goes_into_a_frame_s_field_and_the_focus_is_told(play, site):
    environment, seen = await play(frame(f"{site.there}/bank"), bank="<input aria-label=Card>")
    card = ref_of(seen, "Card")
    timestep = await environment.step(a.Fill(card, "4711"))
    seen = timestep.observation
    assert seen["focused"] == card
    assert 'value="4711"' in seen["axtree"]
    timestep = await environment.step(a.TypeInto(card, "42"))
    assert 'value="4711' in timestep.observation["axtree"]
    assert "42" in timestep.observation["axtree"]


async def test_frames_in_frames_are_looked_into_and_acted_on(play, site):
    environment, seen = await play(
        frame(f"{site.there}/outer", title="Outer"),
        outer=frame(
            f"{site.here}/inner", "position:absolute;left:20px;top:30px;width:200px;height:100px"
        ),
        inner=BUTTON,
    )
    pay = ref_of(seen, "Pay")
    timestep = await environment.step(a.Click(pay))
    assert ref_of(timestep.observation, "true") == pay
    assert list(timestep.observation["last_action"]["box"][:2]) == [140, 110]


async def test_an_element_far_down_in_a_frame_far_down_is_scrolled_to(play, site):
    environment, seen = await play(
        frame(f"{site.there}/bank", "margin-top:3000px;width:300px;height:1500px"),
        bank=f"<div style='height:1200px'></div>{BUTTON.replace('top:20px', 'top:1300px')}",
    )
    timestep = await environment.step(a.Click(ref_of(seen, "Pay")))
    assert timestep.observation["last_action"]["error"] == ""
    assert 'button "true"' in timestep.observation["axtree"]


async def test_a_ref_of_a_document_that_is_gone_names_nothing_in_the_next(play, site):
    environment, seen = await play(
        frame(f"{site.there}/one"),
        one="<button onclick='location=\"two\"'>Next</button>",
        two="<button>Other</button>",
    )
    gone = ref_of(seen, "Next")
    seen = (await environment.step(a.Click(gone))).observation
    while "Other" not in seen["axtree"]:  # The frame's navigation is not the page's to wait for.
        seen = (await environment.step(a.Wait(0.1))).observation
    assert ref_of(seen, "Other") != gone
    seen = (await environment.step(a.Click(gone))).observation
    assert seen["last_action"]["error_kind"] == "gone"


async def test_a_frame_that_is_taken_away_leaves_nothing(play, site):
    environment, seen = await play(
        frame(f"{site.there}/bank", id="f")
        + "<button onclick='document.getElementById(\"f\").remove()'>Close</button>",
        bank=BUTTON,
    )
    pay = ref_of(seen, "Pay")
    seen = (await environment.step(a.Click(ref_of(seen, "Close")))).observation
    assert "Pay" not in seen["axtree"]
    seen = (await environment.step(a.Click(pay))).observation
    assert seen["last_action"]["error_kind"] in ("gone", "no_answer")


async def test_a_frame_that_is_gone_hides_nothing_of_the_next_page(play, site):
    closed = "<div id=c></div><script>c.attachShadow({mode: 'closed'}).innerHTML = '<button>Shut'"
    environment, seen = await play(
        frame(f"{site.there}/bank"), bank=BUTTON, next=f"{closed}</script>"
    )
    assert ref_of(seen, "Pay")
    seen = (await environment.step(a.Goto(f"{site.here}/next"))).observation
    assert ref_of(seen, "Shut")


@pytest.mark.gate
async def test_frames_that_come_and_go_all_the_time_raise_nothing(play, site):
    environment, seen = await play(
        "<button>Here</button><div id=d></div><script>setInterval(() => {"
        f"d.innerHTML = `<iframe src='{site.there}/bank'></iframe>`;}}, 15)</script>",
        bank=BUTTON,
        cap=0.1,
    )
    for _ in range(10):
        seen = (await environment.step(a.Click(ref_of(seen, "Here")))).observation
        assert 'button "Here"' in seen["axtree"]


@pytest.mark.gate
async def test_a_frame_that_hangs_costs_only_itself(play, site, request):
    if "one process" in request.node.name:
        pytest.skip("A page that shares its process with a frame hangs with it.")
    environment, seen = await play(
        "<button onclick='this.textContent = 1'>Here</button>"
        + frame(f"{site.there}/bank", title="Hung")
        + frame(f"{site.here}/plain", "position:absolute;top:400px", sandbox=""),
        bank="<button onclick='setTimeout(() => { for (;;); })'>Hang</button>",
        plain="<h1>Plain</h1>",
        cap=5.0,  # Which the hung frame takes, and no other frame may reach.
    )
    seen = (await environment.step(a.ClickAt(*middle_of(seen, "Hang")))).observation
    assert "    ... no answer" not in seen["axtree"]
    assert "  ... no answer" in seen["axtree"]
    assert 'heading "Plain"' in seen["axtree"]
    timestep = await environment.step(a.Click(ref_of(seen, "Here")))
    assert 'button "1"' in timestep.observation["axtree"]


@pytest.mark.gate
async def test_a_frame_that_was_busy_while_hidden_is_waited_for(play, site, request):
    if "one process" in request.node.name:
        pytest.skip("A page that shares its process with a frame is as busy.")
    style = "display:inline-block;width:300px;height:90px"
    environment, seen = await play(
        '<button onclick=\'f.contentWindow.postMessage(1, "*"); f.style.display ='
        ' f.style.display == "none" ? "" : "none"\'>Turn</button>'
        + frame(f"{site.there}/bank", style, id="f"),
        bank="<button>Pay</button><script>onmessage = () => {"
        "const end = Date.now() + 1500; while (Date.now() < end); }</script>",
    )
    pay = ref_of(seen, "Pay")
    seen = (await environment.step(a.Click(ref_of(seen, "Turn")))).observation
    assert "Pay" not in seen["axtree"]
    seen = (await environment.step(a.Click(ref_of(seen, "Turn")))).observation
    assert ref_of(seen, "Pay") == pay


def middle_of(observation, name):
    boxes = observation["boxes"]
    x, y, width, height = boxes["boxes"][list(boxes["refs"]).index(ref_of(observation, name))]
    return float(x + width / 2), float(y + height / 2)


async def test_no_more_than_ten_frames_are_looked_into(play, site):
    _, seen = await play(
        "".join(frame(f"{site.there}/bank", "width:90px;height:40px") for _ in range(14)),
        bank="<button>Pay</button>",
    )
    assert seen["axtree"].count('button "Pay"') == 10
    assert seen["axtree"].count("iframe") == 14


async def test_frames_share_the_page_s_limit(play, site):
    _, seen = await play(
        "<button>Here</button>" + frame(f"{site.there}/bank"),
        observe=Observe(("axtree",), axtree_limit=200),
        bank="<p>Line</p>" * 200,
    )
    assert len(seen["axtree"]) < 400
    assert "more lines" in seen["axtree"].splitlines()[-1]


async def test_a_picture_taken_while_documents_of_other_sites_come_is_taken(play, site):
    environment, _ = await play("<h1>Here</h1>", other="<h1>There</h1>")
    session = environment.session

    async def go_back_and_forth():
        for number in range(40):
            url = site.here if number % 2 else f"{site.there}/other"
            await session.page.goto(url)
            await asyncio.sleep(number / 1000)  # Each leaves at another moment of the picture.

    going = asyncio.ensure_future(go_back_and_forth())
    while not going.done():
        assert await session.screenshot()
    await going
