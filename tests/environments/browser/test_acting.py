"""What each verb does to a page, and what is refused."""

import pytest

from webtraj.environments import actions as a
from webtraj.environments.browser.observation import refs_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Notes every event of interest, with whether a person (or we) could have made it.
_LOG = """<script>
window.log = [];
for (const type of ["click", "dblclick", "contextmenu", "mousedown", "mouseup", "input", "change",
                    "keydown", "keyup", "focus", "dragstart", "drop", "mouseover", "wheel"]) {
  addEventListener(type, e => log.push(type + (e.isTrusted ? "" : " (untrusted)")
    + (e.key ? " " + e.key : "") + (e.target.id ? " " + e.target.id : "")), true);
}
</script>"""


async def play(open_page, html, *actions, **options):
    """Resets, steps through the actions, and returns the last timestep and the environment."""
    environment = open_page(_LOG + html, **options)
    timestep = await environment.reset()
    for action in actions:
        timestep = await environment.step(action)
    return timestep, environment


def failure(timestep):
    last = timestep.observation["last_action"]
    return last["error_kind"], last["error"]


async def log_of(environment):
    return await environment.session.page.evaluate("log")


async def value_of(environment, selector="input, textarea, select"):
    return await environment.session.page.evaluate(f"document.querySelector({selector!r}).value")


DONE = {
    "click": ("<button id=b>go", [a.Click("1")], "document.title = 'x'", ["click b"]),
    "click with a modifier": (
        "<button id=b onclick=\"log.push('shift=' + event.shiftKey)\">go",
        [a.Click("1", modifiers=["Shift"])],
        None,
        ["shift=true"],
    ),
    "double click": ("<button id=b>go", [a.Click("1", count=2)], None, ["dblclick b"]),
    "right click": ("<button id=b>go", [a.Click("1", button="right")], None, ["contextmenu b"]),
    "hover": ("<button id=b>go", [a.Hover("1")], None, ["mouseover b"]),
    "fill": ("<input id=i value=old>", [a.Fill("1", "new")], None, ["focus i", "input i"]),
    "type key by key": (
        "<input id=i>",
        [a.TypeInto("1", "ab", submit=True)],
        None,
        ["keydown a i", "input i", "keydown Enter i"],
    ),
    "press on an element": ("<input id=i>", [a.Press("1", "ArrowUp")], None, ["keydown ArrowUp i"]),
    "press where the focus is": (
        "<input id=i autofocus>",
        [a.Focus("1"), a.PressKey("x y")],
        None,
        ["keydown x i", "keydown y i"],
    ),
    "type where the focus is": (
        "<input id=i>",
        [a.Focus("1"), a.TypeText("h")],
        None,
        ["keydown h i", "keyup h i"],
    ),
    "hold a key down and release it": (
        "<input id=i>",
        [a.Focus("1"), a.KeyDown("Shift"), a.KeyUp("Shift")],
        None,
        ["keydown Shift i", "keyup Shift i"],
    ),
    "tick": ("<input id=i type=checkbox>", [a.Check("1")], None, ["click i", "change i"]),
    "click at a point": (
        "<button id=b style='width:300px;height:300px'>go",
        [a.ClickAt(100, 100)],
        None,
        ["click b"],
    ),
    "press and release the mouse": (
        "<button id=b style='width:300px;height:300px'>go",
        [a.MouseDown(100, 100), a.MouseUp()],
        None,
        ["mousedown b", "mouseup b"],
    ),
}


@pytest.mark.browser
@pytest.mark.parametrize(("html", "actions", "after", "events"), DONE.values())
async def test_a_verb_sends_trusted_events(open_page, html, actions, after, events):
    timestep, environment = await play(open_page, html, *actions)
    assert failure(timestep) == ("", "")
    log = await log_of(environment)
    rest = iter(log)
    assert all(event in rest for event in events), log  # In this order, others between them.
    assert not [event for event in log if "untrusted" in event]


SUGGESTIONS = "<datalist id=l><option value=a><option value=b>B</datalist>"

VALUES = {
    "fill replaces": ("<input value=old>", a.Fill("1", "new text"), "new text"),
    "fill with nothing empties": ("<input value=old>", a.Fill("1", ""), ""),
    "clear empties": ("<textarea>old</textarea>", a.Clear("1"), ""),
    "fill keeps unicode": ("<input>", a.Fill("1", "żółw 🐢"), "żółw 🐢"),
    "fill keeps lines of a text area": ("<textarea></textarea>", a.Fill("1", "a\nb"), "a\nb"),
    "fill sets a date": ("<input type=date>", a.Fill("1", "2016-12-24"), "2016-12-24"),
    "fill sets a date as people write it": (
        "<input type=date>",
        a.Fill("1", "6/12/2016"),
        "2016-06-12",
    ),
    "fill sets a time as people write it": ("<input type=time>", a.Fill("1", "8:25 PM"), "20:25"),
    "fill sets a colour": ("<input type=color>", a.Fill("1", "#ff0000"), "#ff0000"),
    "fill sets a colour in upper case": ("<input type=color>", a.Fill("1", "#FF00AA"), "#ff00aa"),
    "fill sets a time with zero seconds": (
        "<input type=datetime-local>",
        a.Fill("1", "2026-01-02 08:30:00"),
        "2026-01-02T08:30",
    ),
    "fill sets a slider": ("<input type=range>", a.Fill("1", "80"), "80"),
    "type adds to what is there": ("<input value=a>", a.TypeInto("1", "b", clear=True), "b"),
    "select by label": (
        "<select><option value=1>One<option value=2>Two</select>",
        a.SelectOption("1", ["Two"]),
        "2",
    ),
    "select by a label that is another's value": (
        "<select><option value=1>2<option value=2>3</select>",
        a.SelectOption("1", ["2"]),
        "1",
    ),
    "select an option by its ref": (
        "<select><option value=a>One<optgroup label=More><option value=b>One</select>",
        a.SelectOption("4", ["One"]),
        "b",
    ),
    "click an option": (
        "<select><option value=a>One<option value=b>Two</select>",
        a.Click("3"),
        "b",
    ),
    "select by value": (
        "<select><option value=1>One<option value=2>Two</select>",
        a.SelectOption("1", ["2"]),
        "2",
    ),
    "select a suggestion by label": (
        f"<input list=l>{SUGGESTIONS}",
        a.SelectOption("1", ["B"]),
        "b",
    ),
    "select a suggestion by value": (
        f"<input list=l>{SUGGESTIONS}",
        a.SelectOption("1", ["a"]),
        "a",
    ),
    "click a suggestion": (f"<input list=l value=x>{SUGGESTIONS}", a.Click("4"), "b"),
    "click a suggestion for one of the fields": (
        f"<input list=l><input list=l readonly><input list=l disabled>{SUGGESTIONS}",
        a.Click("4"),
        "b",
    ),
    "select a suggestion with several blanks": (
        "<input list=l><datalist id=l><option value='a  b'></datalist>",
        a.SelectOption("1", ["a b"]),
        "a  b",
    ),
    "select a suggested colour in upper case": (
        "<input type=color list=l><datalist id=l><option value=#FF00AA></datalist>",
        a.SelectOption("1", ["#FF00AA"]),
        "#ff00aa",
    ),
    "type a suggestion": (f"<input list=l>{SUGGESTIONS}", a.Fill("1", "a"), "a"),
}


@pytest.mark.browser
@pytest.mark.parametrize(("html", "action", "value"), VALUES.values())
async def test_a_field_gets_its_value(open_page, html, action, value):
    timestep, environment = await play(open_page, html, action)
    assert failure(timestep) == ("", "")
    assert await value_of(environment) == value


REFUSED = {
    "a ref that never was": ("<p>x", a.Click("99"), "unknown_ref", "No element [99]"),
    "a covered element": (
        (
            "<button id=b>go</button><div style='position:fixed;inset:0;background:#fff'>"
            "<h1>Cookies!</h1></div>"
        ),
        a.Click("1"),
        "covered",
        'button "go" is covered by',
    ),
    "a disabled element": ("<button disabled>go</button>", a.Click("1"), "disabled", "is disabled"),
    "an inert element": ("<div inert><button>go</button></div>", a.Click("1"), "disabled", ""),
    "a read-only field": ("<input readonly>", a.Fill("1", "x"), "not_editable", "read-only"),
    "a field that is none": ("<button>x</button>", a.Fill("1", "x"), "not_editable", "no text"),
    "a date in another format": ("<input type=date>", a.Fill("1", "12/24"), "bad_value", "date"),
    "text in a number field": ("<input type=number>", a.Fill("1", "many"), "bad_value", "number"),
    "an option that does not exist": (
        "<select><option>One<option>Two</select>",
        a.SelectOption("1", ["Three"]),
        "no_such_option",
        'it has "One", "Two"',
    ),
    "an option of a disabled group": (
        "<select><option>One<optgroup label=More disabled><option>Two</select>",
        a.SelectOption("1", ["Two"]),
        "disabled",
        'Option "Two" is disabled',
    ),
    "a colour by name": ("<input type=color>", a.Fill("1", "red"), "bad_value", "color"),
    "a slider beyond its end": ("<input type=range>", a.Fill("1", "300"), "bad_value", "range"),
    "two options where one is taken": (
        "<select><option>One<option>Two</select>",
        a.SelectOption("1", ["One", "Two"]),
        "bad_value",
        "",
    ),
    "one of two options with that label": (
        "<select><option>One<optgroup label=More><option>One</select>",
        a.SelectOption("1", ["One"]),
        "ambiguous",
        'One" in "More"',
    ),
    "a suggestion for two fields": (
        f"<input list=l><input list=l aria-label=T>{SUGGESTIONS}",
        a.Click("3"),
        "ambiguous",
        'several fields: [1] combobox, [5] combobox "T"',
    ),
    "a suggestion that the field cannot hold": (
        "<input type=number list=l value=1><datalist id=l><option value=abc></datalist>",
        a.SelectOption("1", ["abc"]),
        "bad_value",
        'does not take "abc"',
    ),
    "a read-only field's suggestion": (
        f"<input list=l readonly>{SUGGESTIONS}",
        a.Click("3"),
        "not_editable",
        "read-only",
    ),
    "a box that is none": ("<button>x</button>", a.Check("1"), "not_checkable", ""),
    "a radio button unticked": (
        "<input type=radio checked>",
        a.Uncheck("1"),
        "not_checkable",
        "another",
    ),
    "focus of what takes none": ("<p>x</p>", a.Focus("1"), "not_focusable", ""),
    "a scroll that nothing does": ("<p>x</p>", a.Scroll(0, 10), "no_scroll", ""),
    "a point outside": ("<p>x</p>", a.ClickAt(5000, 5), "outside", "outside the viewport"),
    "a page of another site": ("<p>x</p>", a.Goto("https://example.com/"), "blocked", "example"),
    "going back": ("<p>x</p>", a.GoBack(), "blocked", ""),
    "a tab of one's own": ("<p>x</p>", a.NewTab(), "blocked", ""),
    "a file of the host": ("<input type=file>", a.UploadFile("1", ["/etc/passwd"]), "blocked", ""),
    "a reply that was no action": ("<p>x</p>", "import os", "invalid_code", ""),
    "an empty reply": ("<p>x</p>", "", "invalid_empty", ""),
}


@pytest.mark.browser
@pytest.mark.parametrize(("html", "action", "kind", "words"), REFUSED.values())
async def test_what_cannot_be_done_is_refused_and_leaves_the_page_alone(
    open_page, html, action, kind, words
):
    environment = open_page(_LOG + html)
    before = await environment.reset()
    after = await environment.step(action)
    assert after.mid()
    assert failure(after)[0].startswith(kind.partition("_")[0])
    assert failure(after)[0] == kind or kind.startswith("invalid")
    assert words in failure(after)[1]
    assert after.observation["axtree"] == before.observation["axtree"]
    # The browser itself reports where the mouse rests.
    assert set(await log_of(environment)) <= {"mouseover"}


async def test_a_gone_element_is_told_from_one_that_never_was(open_page):
    timestep, _ = await play(
        open_page, "<button onclick='this.remove()'>go</button>", a.Click("1"), a.Click("1")
    )
    assert failure(timestep)[0] == "gone"


async def test_an_element_that_was_hidden_since_is_refused(open_page):
    timestep, _ = await play(
        open_page,
        "<button onclick='o.hidden = true'>hide</button><button id=o>other</button>",
        a.Click("1"),
        a.Click("2"),
    )
    assert failure(timestep)[0] == "hidden"


_ROWS = "".join(f"<div style='height:40px'>row {n}</div>" for n in range(9))
HIDDEN_BY_SCROLLING = {
    "below the end of its list": f"<div style='height:100px;overflow:auto'>{_ROWS}<button id=b>go",
    "under a bar at the top": (
        "<div style='position:sticky;top:0;height:60px;background:#fff'>bar</div>"
        f"{_ROWS * 4}<button id=b>go</button>{_ROWS * 4}<script>b.scrollIntoView()</script>"
    ),
    "in a list that is in a list": (
        f"<div style='height:200px;overflow:auto'>{_ROWS}"
        f"<div style='height:80px;overflow:auto'>{_ROWS}<button id=b>go</button></div></div>"
    ),
}


@pytest.mark.browser
@pytest.mark.parametrize("html", HIDDEN_BY_SCROLLING.values(), ids=HIDDEN_BY_SCROLLING.keys())
async def test_an_element_that_its_list_hides_is_scrolled_to(open_page, html):
    environment = open_page(_LOG + html)
    timestep = await environment.reset()
    (button,) = (e.ref for e in refs_in(timestep.observation["axtree"]) if e.name == "go")
    timestep = await environment.step(a.Click(button))
    assert failure(timestep) == ("", "")
    assert "click b" in await log_of(environment)


async def test_an_element_that_takes_no_clicks_for_a_moment_is_clicked_after_it(open_page):
    timestep, environment = await play(
        open_page,
        "<button id=a onclick=\"b.style.pointerEvents = 'none';"
        " setTimeout(() => b.removeAttribute('style'), 250)\">freeze</button>"
        "<button id=b>go</button>",
        a.Click("1"),
        a.Click("2"),
    )
    assert failure(timestep) == ("", "")
    assert "click b" in await log_of(environment)


async def test_a_half_covered_element_is_clicked_where_it_can_be_seen(open_page):
    timestep, environment = await play(
        open_page,
        "<button id=b style='position:absolute;left:0;top:0;width:100px;height:40px'>go</button>"
        "<div style='position:absolute;left:10px;top:0;width:100px;height:40px;background:red'>",
        a.Click("1"),
    )
    assert failure(timestep) == ("", "")
    assert "click b" in await log_of(environment)


@pytest.mark.smoke
@pytest.mark.browser
async def test_elements_in_frames_and_shadow_roots_are_clicked(open_page):
    timestep, environment = await play(
        open_page,
        "<p>first</p><iframe style='margin:40px' srcdoc=\"<div style='height:50px'></div>"
        "<button onclick='parent.framed = true'>framed</button>\"></iframe><div id=h></div>"
        "<script>h.attachShadow({mode:'open'}).innerHTML="
        "'<button onclick=\"window.shadowed = true\">shadowed</button>'</script>",
        a.Wait(0),
    )
    refs = {e.name: e.ref for e in refs_in(timestep.observation["axtree"])}
    for name in ("framed", "shadowed"):
        timestep = await environment.step(a.Click(refs[name]))
        assert failure(timestep) == ("", "")
    assert await environment.session.page.evaluate("window.framed && window.shadowed") is True


@pytest.mark.smoke
@pytest.mark.browser
async def test_dragging_drops_on_the_target(open_page):
    timestep, environment = await play(
        open_page,
        "<div id=s draggable=true style='height:30px;background:red'>source</div>"
        "<div id=t style='height:60px;background:blue' ondragover='event.preventDefault()'>target",
        a.DragTo("1", "2"),
    )
    assert failure(timestep) == ("", "")
    log = await log_of(environment)
    assert "dragstart s" in log
    assert "drop t" in log


async def test_scrolling_moves_the_page_and_inner_boxes(open_page):
    html = (
        "<div style='height:100px;overflow:auto' id=d><p style='height:900px'>a</p></div>"
        "<div style='height:3000px'></div>"
    )
    _, environment = await play(open_page, html, a.Scroll(0, 50, ref="1"), a.Scroll(0, 200))
    page = environment.session.page
    assert await page.evaluate("[d.scrollTop, scrollY]") == [50, 200]


@pytest.mark.browser
async def test_a_held_key_is_released_by_the_next_episode(open_page):
    environment = open_page("<input id=i>")
    await environment.reset()
    await environment.step(a.KeyDown("Shift"))
    await environment.reset()
    await environment.step(a.Focus("1"))
    await environment.step(a.PressKey("a"))
    assert await value_of(environment) == "a"


async def test_the_element_acted_on_is_described(open_page):
    timestep, _ = await play(
        open_page,
        "<p>x</p><button id=b data-testid=go style='width:90px'>Go</button>",
        a.Click("2"),
    )
    last = timestep.observation["last_action"]
    described = {key: last[key] for key in ("ref", "role", "name", "test_id", "selector", "frame")}
    assert described == {
        "ref": "2",
        "role": "button",
        "name": "Go",
        "test_id": "go",
        "selector": "#b",
        "frame": "",
    }
    assert last["box"][2] == 90
