"""Pages as real sites have them: what their tree shows, and where a click on them lands."""

import pytest

from webtraj.environments import actions as a
from webtraj.environments.browser.access import WebAccess
from webtraj.environments.browser.observation import refs_in

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser, pytest.mark.gate]

_LONG = "word " * 400
_PRESSED = 'onclick="top.document.title = this.textContent"'
_ROWS = "<body style='margin:0'>" + "".join(
    f"<button {_PRESSED} style='display:block;width:150px;height:40px'>{name}</button>"
    for name in ("North", "East", "South")
)


def _frame(style: str) -> str:
    return (
        f"<iframe style='width:300px;height:200px;{style}' srcdoc=\"{_escaped(_ROWS)}\"></iframe>"
    )


def _escaped(html: str) -> str:
    return html.replace("&", "&amp;").replace('"', "&quot;")


IN_A_FRAME = {
    "padding": _frame("padding:45px 0 0 80px;border:9px solid"),
    "scaled": f"<div style='transform:scale(1.6);transform-origin:0 0'>{_frame('')}</div>",
    "the property scale": f"<div style='scale:0.6 0.8;transform-origin:0 0'>{_frame('')}</div>",
    "turned": f"<div style='rotate:20deg;margin:150px'>{_frame('padding:20px')}</div>",
    "turned and scaled": (
        "<div style='transform:rotate(90deg) scale(1.1);display:inline-block;margin:80px'>"
        f"{_frame('')}</div>"
    ),
    "in an inline box, which is not transformed": (
        f"<span style='transform:scale(2)'>{_frame('')}</span>"
    ),
    "turned by three numbers": f"<div style='rotate:0 0 1 15deg;margin:120px'>{_frame('')}</div>",
    "mirrored": f"<div style='transform:scaleX(-1)'>{_frame('')}</div>",
    "zoomed": f"<div style='zoom:1.4'>{_frame('padding:20px')}</div>",
    "zoomed and scaled": (
        f"<div style='zoom:1.3'><div style='transform:scale(.8)'>{_frame('')}</div></div>"
    ),
    "seen from the side": (
        "<div style='perspective:600px;margin:60px;width:300px'>"
        f"<div style='transform:rotateY(40deg)'>{_frame('')}</div></div>"
    ),
    "bent itself": (
        "<div style='margin:90px'>"
        f"{_frame('padding:9px;transform:perspective(500px) rotateX(35deg) rotateZ(10deg)')}</div>"
    ),
    "in a frame": (
        "<iframe style='padding:30px;width:500px;height:300px' srcdoc=\""
        + _escaped(f"<div style='zoom:1.2'>{_frame('padding:20px')}</div>")
        + '"></iframe>'
    ),
}


async def test_a_click_reaches_its_element_in_any_frame(open_page):
    for case, html in IN_A_FRAME.items():
        environment = open_page(html)
        timestep = await environment.reset()
        for element in refs_in(timestep.observation["axtree"]):
            if element.role != "button":
                continue
            step = await environment.step(a.Click(element.ref))
            assert not step.observation["last_action"]["error"], case
            assert await environment.session.page.title() == element.name, case


# Each page gives its title `done` where the right place is pressed.
_DONE = "onclick=\"document.title = 'done'\""
_OTHER = "onclick=\"event.stopPropagation(); document.title = 'OTHER'\""
PRESSED = {
    "a card with a button in its middle": (
        (
            f"<div role=button aria-label=Card {_DONE} style='width:300px;text-align:center'>"
            f"<p>top</p><button {_OTHER}>Cancel</button></div>"
        ),
        "Card",
    ),
    "a label with a link": (
        (
            "<input type=checkbox id=k style='display:none' onchange=\"document.title = 'done'\">"
            "<label for=k style='display:block;text-align:center'>"
            f"Yes, <a href=#x {_OTHER}>policy</a> fine"
        ),
        "Yes, policy fine",
    ),
    "an item that is its link": (
        f"<ul role=menu><li role=menuitem><a href=#x style='display:block' {_DONE}>Home</a></ul>",
        "Home",
    ),
    "a floating picture": (
        (
            f"<a href=#x {_DONE}><svg role=img aria-label=Cart width=9 height=9 style='float:left'>"
            "<rect width=40 height=40 /></svg></a>"
        ),
        "Cart",
    ),
    "content laid over a row": (
        (
            "<div style='position:relative;height:80px'>"
            f"<a href=#x {_DONE}><div style='position:absolute;inset:0'>Room</div></a></div>"
        ),
        "Room",
    ),
    "a box far away": (
        (
            "<input type=radio id=x style='position:fixed;top:-999px' "
            "onchange=\"document.title = 'done'\">"
            "<label for=x>Express</label>"
        ),
        "Express",
    ),
    "a box without a box": (
        f"<button style='display:contents' {_DONE}>Start</button>",
        "Start",
    ),
    "an area of a map": (
        (
            "<img usemap=#m width=300 height=90 alt=Plan src='data:image/svg+xml,%3Csvg "
            "xmlns=%22http://www.w3.org/2000/svg%22/%3E'><map name=m>"
            "<area href=#a alt=Hall shape=circle coords='50,45,30'>"
            f"<area href=#b alt=Garden coords='200,10,290,80' {_DONE}></map>"
        ),
        "Garden",
    ),
    "a button beside a mark with a deed of its own": (
        (
            f"<button {_DONE} style='position:relative;width:99px;height:40px'>Open"
            f"<span {_OTHER} style='position:absolute;left:20px;top:8px;width:60px;height:20px'>x"
            "</span></button>"
        ),
        "Open x",
    ),
    "a link of a drawing": (
        f"<svg width=99 height=40><a href=#x {_DONE}><text y=30>Lake</text></a></svg>",
        "Lake",
    ),
    "what is in a slot": (
        (
            "<div id=h><b>slotted</b></div><script>h.attachShadow({mode: 'open'}).innerHTML = "
            "'<button id=s><slot></slot></button>'; h.shadowRoot.getElementById('s').onclick = "
            "() => { document.title = 'done' }</script>"
        ),
        "slotted",
    ),
}


async def test_a_click_presses_the_element_itself(open_page):
    for case, (html, name) in PRESSED.items():
        environment = open_page(html)
        timestep = await environment.reset()
        ref = next(e.ref for e in refs_in(timestep.observation["axtree"]) if e.name == name)
        step = await environment.step(a.Click(ref))
        assert not step.observation["last_action"]["error"], case
        assert await environment.session.page.title() == "done", case


async def test_an_element_under_a_control_of_its_own_is_refused(open_page):
    environment = open_page(
        f"<div role=button aria-label=Card {_DONE} style='position:relative;height:60px'>"
        f"<button style='position:absolute;inset:0' {_OTHER}>Cancel</button></div>"
    )
    await environment.reset()
    last = (await environment.step(a.Click("1"))).observation["last_action"]
    assert last["error_kind"] == "covered"
    assert 'button "Cancel"' in last["error"]
    assert await environment.session.page.title() == "Do it"


_FILE = "<input type=file aria-label=Scan onchange='document.title = this.files[0].name' "
UPLOADS = {
    "below the fold": f"<div style='height:3000px'></div>{_FILE}>",
    "clipped away": f"{_FILE}style='position:absolute;width:1px;height:1px;clip:rect(0 0 0 0)'>",
    "under a link": (
        "<div style='position:relative'><a href=#other style='position:absolute;inset:0;z-index:2'>"
        f"Other</a>{_FILE}style='opacity:.01'></div>"
    ),
    "behind a label": f"<label>Scan{_FILE.replace('aria-label=Scan', '')}hidden></label>",
}


async def test_files_are_given_to_the_input_wherever_it_lies(open_page, tmp_path):
    (tmp_path / "scan.pdf").write_text("x")
    for case, html in UPLOADS.items():
        environment = open_page(html, policy=WebAccess(uploads=tmp_path))
        timestep = await environment.reset()
        ref = next(e.ref for e in refs_in(timestep.observation["axtree"]) if e.name == "Scan")
        step = await environment.step(a.UploadFile(ref, ["scan.pdf"]))
        assert not step.observation["last_action"]["error"], case
        assert await environment.session.page.title() == "scan.pdf", case
        assert "#other" not in environment.session.page.url, case


async def test_a_click_that_asks_for_files_says_so(open_page):
    environment = open_page("<label>Photo<input type=file hidden></label>")
    await environment.reset()
    last = (await environment.step(a.Click("1"))).observation["last_action"]
    assert last["error_kind"] == "file_chooser"
    assert "upload_file" in last["error"]


async def test_ticking_an_option_leaves_what_is_selected(open_page):
    html = "".join(
        f"<div role=option aria-selected={on} tabindex=0 "
        f"onclick='this.ariaSelected = this.ariaSelected !== \"true\"'>{on}</div>"
        for on in ("true", "false")
    )
    for action, selected in (
        (a.Check("1"), [True, False]),
        (a.Uncheck("1"), [False, False]),
        (a.Check("2"), [True, True]),
        (a.Uncheck("2"), [True, False]),
    ):
        environment = open_page(html)
        await environment.reset()
        step = await environment.step(action)
        found = refs_in(step.observation["axtree"])
        assert ["selected" in element.states for element in found] == selected, action


TREES = {
    "display: contents": (
        "<form style='display:contents'><label>Town <input></label></form>",
        '[1] form\n  [2] textbox "Town"',
    ),
    "display: contents in what is hidden": (
        "<div style='display:none'><p style='display:contents'>a</p></div><p>b",
        '[1] paragraph "b"',
    ),
    "groups of options": (
        "<select aria-label=S><option>a<optgroup label=G disabled><option>b</select>",
        (
            '[1] combobox "S" value="a"\n  [2] option "a" selected\n  [3] group "G" disabled\n'
            '    [4] option "b" disabled'
        ),
    ),
    "words that the label leaves out": (
        "<button aria-label=News><b>12</b> new</button>",
        '[1] button "News"\n  [2] generic "12"\n  text "new"',
    ),
    "a sign that the label stands for": (
        "<button aria-label=Close>+</button>",
        '[1] button "Close"',
    ),
    "a visible label that names nothing": (
        "<label>Seen<input aria-label=Said></label>",
        'text "Seen"\n[1] textbox "Said"',
    ),
    "text of a visible child of what is invisible": (
        "<div style='visibility:hidden'>a<div style='visibility:visible'>b</div></div>",
        '[1] generic "b"',
    ),
    "a title in a drawing": (
        "<a href=#s><svg width=9 height=9><title>Settings</title><circle r=5 /></svg></a>",
        '[1] link "Settings"\n  [2] img "Settings"\n    [3] circle fill="rgb(0, 0, 0)"',
    ),
    "a field in its own label": (
        "<label>Note <textarea>hello</textarea></label>",
        '[1] textbox "Note" multiline value="hello"',
    ),
    "lines of an editor": (
        "<div contenteditable aria-label=E>a<br>b<p>c</p></div>",
        '[1] textbox "E" value="a b c"',
    ),
    "neither on nor off": (
        (
            "<input type=checkbox id=i aria-label=A><script>i.indeterminate = true</script>"
            "<div role=checkbox aria-checked=mixed>B</div>"
        ),
        '[1] checkbox "A" checked=mixed\n[2] checkbox "B" checked=mixed',
    ),
    "fields of one form": (
        "<input type=date aria-label=D><input type=datetime-local aria-label=T>",
        '[1] textbox "D" type=date\n[2] textbox "T" type=datetime-local',
    ),
    "an object": (
        (
            "<object type=text/html data='data:text/html,x'></object>"
            "<iframe title=F srcdoc='<p>framed'></iframe>"
        ),
        None,
    ),
    "what is covered": (
        (
            "<p>below <b>it</b></p><div style='position:fixed;inset:0;background:#fff'>"
            "<p>on it</p></div>"
        ),
        (
            '[1] paragraph covered\n  text "below" covered\n  [2] generic "it" covered\n'
            '[3] paragraph "on it"'
        ),
    ),
    "a transparent link over a card": (
        (
            "<div style='position:relative'><p>card</p>"
            "<a href=#x aria-label=Open style='position:absolute;inset:0'></a></div>"
        ),
        '[1] paragraph "card"\n[2] link "Open"',
    ),
    "below a modal dialog": (
        "<button>below</button><dialog id=d><p>Sign in</p></dialog><script>d.showModal()</script>",
        '[1] button "below" covered\n[2] dialog focused\n  [3] paragraph "Sign in"',
    ),
    "below the modal dialog that was opened last": (
        (
            "<dialog id=c><button>Yes</button></dialog><dialog id=e><p>edit</p></dialog>"
            "<script>e.showModal(); c.showModal()</script>"
        ),
        (
            '[1] dialog\n  [2] button "Yes" focused\n'
            '[3] dialog covered\n  [4] paragraph "edit" covered'
        ),
    ),
    "options in another element": (
        "<select aria-label=S><div><option>A</option></div></select>",
        '[1] combobox "S" value="A"\n  [2] option "A" selected',
    ),
    "elements that only look like HTML's": (
        (
            "<p>x</p><script>for (const name of ['SELECT', 'OPTION', 'SLOT', 'IMG']) "
            "document.body.append(document.createElementNS('http://www.w3.org/1999/xhtml', name))"
            "</script>"
        ),
        '[1] paragraph "x"',
    ),
    "scrolled out of a list": (
        (
            "<div style='height:40px;overflow:auto'><p style='height:90px'>a</p><p>b</p></div>"
            "<div style='height:300px;background:red'><p>c"
        ),
        '[1] generic scrollable\n  [2] paragraph "a"\n  [3] paragraph "b"\n[4] paragraph "c"',
    ),
}


async def test_the_tree_shows_what_a_person_could_use_or_read(open_page):
    for case, (html, expected) in TREES.items():
        tree = await _tree_of(open_page, html)
        if expected is None:
            assert "framed" in tree, case
        else:
            assert tree == expected, case


async def test_text_of_any_length_is_in_the_tree(open_page):
    for html in (
        f"<li>{_LONG} LAST</li>",
        f"<p>{_LONG} LAST <a href=#>edit</a></p>",
        f"<a href=#>{_LONG} LAST</a>",
        f"<table><td>{_LONG} LAST",
    ):
        assert "LAST" in await _tree_of(open_page, html), html[:10]


async def _tree_of(open_page, html):
    async with open_page(html) as environment:
        return (await environment.reset()).observation["axtree"]


async def test_a_tick_that_does_nothing_is_an_error(open_page):
    environment = open_page("<div role=option aria-selected=true>x</div>")
    await environment.reset()
    last = (await environment.step(a.Uncheck("1"))).observation["last_action"]
    assert last["error_kind"] == "unchanged"
    assert "still on" in last["error"]


async def test_an_axis_around_a_frame_stops_no_episode(open_page):
    for turn in ("rotate:y 20deg", "rotate:1 1 0 20deg"):
        tree = await _tree_of(open_page, f"<div style='{turn}'>{_frame('')}</div>")
        assert 'button "North"' in tree, turn


async def test_an_option_of_a_closed_select_cannot_be_dragged(open_page):
    environment = open_page("<select><option>a<option>b</select><div role=button>here</div>")
    await environment.reset()
    last = (await environment.step(a.DragTo("3", "4"))).observation["last_action"]
    assert last["error_kind"] == "hidden"
