"""What the axtree shows of a page."""

import pytest

from webtraj.environments.actions import Click, Focus
from webtraj.environments.browser.observation import refs_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

CASES = {
    "a button is named by its content": ("<button>Log <b>in</b></button>", '[1] button "Log in"'),
    "a link needs a target": (
        "<a href='#x'>there</a> <a>nowhere</a>",
        '[1] link "there"\n[2] generic "nowhere"',
    ),
    "what a script adds beside the body is shown": (
        (
            "<button>Go</button><script>addEventListener('load', () => document.documentElement"
            ".insertAdjacentHTML('beforeend', '<div role=dialog aria-label=Ask><b>Ok?</b></div>'))"
            "</script>"
        ),
        '[1] button "Go"\n[2] dialog "Ask"\n  [3] generic "Ok?"',
    ),
    "a label names its field and is not repeated": (
        "<label>Name <input value=Ann></label>",
        '[1] textbox "Name" value="Ann"',
    ),
    "a calendar that opens in a label shows its days": (
        "<label>Day <input><div><button>May</button> <span>1</span></div></label>",
        '[1] textbox "Day May 1"\n[2] button "May"\n[3] generic "1"',
    ),
    "the label of a hidden box is that box": (
        "<label>Yes <input type=checkbox checked style='display:none'></label>",
        '[1] checkbox "Yes" checked',
    ),
    "a password shows as bullets": (
        "<input type=password value=abc aria-label=PIN>",
        '[1] textbox "PIN" value="•••"',
    ),
    "a placeholder names a field without a label": (
        "<input placeholder=Search type=search>",
        '[1] searchbox "Search"',
    ),
    "states follow the name": (
        "<input type=checkbox checked disabled aria-label=A>",
        '[1] checkbox "A" checked disabled',
    ),
    "options are listed with the chosen one": (
        "<select aria-label=S><option>a<option selected>b</select>",
        '[1] combobox "S" value="b"\n  [2] option "a"\n  [3] option "b" selected',
    ),
    "what the browser suggests for a field is in a list in it": (
        "<input list=l aria-label=S><datalist id=l><option value=a><option value=b>B</datalist>",
        '[1] combobox "S"\n  [2] listbox\n    [3] option "a"\n    [4] option "B" value="b"',
    ),
    "one list for several fields is written out under the first": (
        "<input list=l><input list=l aria-label=S><datalist id=l><option value=a></datalist>",
        ('[1] combobox\n  [2] listbox\n    [3] option "a"\n[4] combobox "S"\n  [2] listbox'),
    ),
    "a suggestion's value stands beside its name where its blanks differ": (
        "<input list=l><datalist id=l><option value='a  b'></datalist>",
        '[1] combobox\n  [2] listbox\n    [3] option "a b" value="a  b"',
    ),
    "choices that are hidden from the tree have no line": (
        (
            "<input list=l aria-label=S><p class=hidden-from-tree><datalist id=l><option value=a>"
            "</datalist></p><select aria-label=T><option>b<option class=hidden-from-tree>c</select>"
        ),
        '[1] combobox "S"\n[2] combobox "T" value="b"\n  [3] option "b" selected',
    ),
    "plain wrappers have no line": (
        "<div><div><section><p>text</p></section></div></div>",
        '[1] paragraph "text"',
    ),
    "mixed content keeps its text in order": (
        "<p>one <em>two</em> three</p>",
        '[1] paragraph\n  text "one"\n  [2] generic "two"\n  text "three"',
    ),
    "what cannot be seen has no line": (
        (
            "<p hidden>a</p><p style='visibility:hidden'>b</p><p aria-hidden=true>c</p>"
            "<p class=hidden-from-tree>d</p><p>e</p>"
        ),
        '[1] paragraph "e"',
    ),
    "what is hidden until it is found has no line": (
        "<div hidden=until-found>a<p>b</p></div><p>c</p>",
        '[1] paragraph "c"',
    ),
    "a visible child of an invisible parent is shown": (
        "<div style='visibility:hidden'>a<p style='visibility:visible'>b</p></div>",
        '[1] paragraph "b"',
    ),
    "open shadow roots are walked": (
        (
            "<div id=h></div><script>h.attachShadow({mode:'open'}).innerHTML="
            "'<button>in shadow</button>'</script>"
        ),
        '[1] button "in shadow"',
    ),
    "slots show what is assigned to them": (
        (
            "<div id=h><i>slotted</i></div><script>h.attachShadow({mode:'open'}).innerHTML="
            "'<p>a<slot></slot></p>'</script>"
        ),
        '[1] paragraph\n  text "a"\n  [2] generic "slotted"',
    ),
    "frames of the same origin are walked": (
        "<iframe title=F srcdoc='<button>framed</button>'></iframe>",
        '[1] iframe "F"\n  [2] button "framed"',
    ),
    "a body that can be edited is a field": (
        "<iframe srcdoc='<body contenteditable aria-label=Mail><p>Dear<p>Ann'></iframe>",
        '[1] iframe\n  [2] textbox "Mail" value="Dear Ann"',
    ),
    "an editor shows what it holds besides text": (
        "<div contenteditable>To <b contenteditable=false>Ann <button>x</button></b></div>",
        '[1] textbox value="To Ann x"\n  [2] button "x"',
    ),
    "what keys act on in a list is active": (
        (
            "<input autofocus aria-activedescendant=b><ul role=listbox>"
            "<li role=option>a<li role=option id=b>b</ul>"
        ),
        '[1] textbox focused\n[2] listbox\n  [3] option "a"\n  [4] option "b" active',
    ),
    "plain elements that invite clicks are shown": (
        (
            "<div onclick='1' style='width:9px;height:9px'></div>"
            "<div style='cursor:pointer;height:9px'></div>"
        ),
        "[1] generic\n[2] generic",
    ),
    "patches of colour are shown": (
        "<div style='width:9px;height:9px;background:red'></div>",
        '[1] generic color="rgb(255, 0, 0)"',
    ),
    "shapes show their fill": (
        "<svg width=9 height=9><circle r=4 cx=4 cy=4 fill=blue /></svg>",
        '[1] img\n  [2] circle fill="rgb(0, 0, 255)"',
    ),
    "text among shapes shows its fill unless it is black": (
        "<svg width=9 height=9><text y=9 fill=blue>4</text><text y=9>5</text></svg>",
        '[1] img\n  [2] generic "4" fill="rgb(0, 0, 255)"\n  [3] generic "5"',
    ),
    "headings show their level": (
        "<h3>Part</h3><p role=heading aria-level=4>Of</p><div role=heading aria-level=x>It</div>",
        '[1] heading "Part" level=3\n[2] heading "Of" level=4\n[3] heading "It" level=2',
    ),
    "the button of details says whether they are open": (
        "<details><summary>More</summary>text</details>",
        '[1] group\n  [2] button "More" expanded=false',
    ),
    "cells have the role of their table": (
        "<table role=grid><tr><th scope=row>a</th><td>b</td></tr></table>",
        '[1] grid\n  [2] row\n    [3] rowheader "a"\n    [4] gridcell "b"',
    ),
    "a document that is edited is a field": (
        "<iframe title=F srcdoc='<body contenteditable>a<br>b'></iframe>",
        '[1] iframe "F"\n  [2] textbox value="a b"',
    ),
    "an anchor without a target shows its sign": (
        "<style>i::before { content: 'x' }</style><a><i></i></a><a id=here></a>",
        "[1] generic",
    ),
    "an empty field shows its hint": (
        (
            "<input aria-label=A placeholder='at most 9'><input aria-label=B placeholder=x value=b>"
            "<textarea placeholder=C></textarea>"
        ),
        (
            '[1] textbox "A" placeholder="at most 9"\n[2] textbox "B" value="b"\n'
            '[3] textbox "C" multiline'
        ),
    ),
    "buttons have the browser's words if no others": (
        "<input type=file><input type=file multiple><input type=image><input type=submit>",
        (
            '[1] button "Choose File" type=file\n[2] button "Choose Files" type=file\n'
            '[3] button "Submit"\n[4] button "Submit"'
        ),
    ),
    "a second label of a field may stand elsewhere": (
        "<label for=i>Name</label><input id=i><hr><label for=i>Name</label><input id=j>",
        '[1] textbox "Name Name"\n[2] separator\ntext "Name"\n[3] textbox',
    ),
    "an item of a tree is not named by those below it": (
        "<ul role=tree><li role=treeitem>Fruit<ul role=group><li role=treeitem>Pear</ul>x</ul>",
        ('[1] tree\n  [2] treeitem "Fruit x"\n    [3] group\n      [4] treeitem "Pear"'),
    ),
    "links of books are links": (
        "<a href=#n role=doc-noteref>1</a>",
        '[1] link "1"',
    ),
    "a field that only ARIA makes read-only": (
        "<div role=textbox aria-readonly=true aria-label=A>b</div>",
        '[1] textbox "A" readonly value="b"\n  text "b"',
    ),
    "quotes and line breaks are escaped": (
        '<button>say "hi" \\\n now</button>',
        '[1] button "say \\"hi\\" \\\\ now"',
    ),
}


@pytest.mark.browser
@pytest.mark.parametrize(("html", "expected"), CASES.values())
async def test_the_tree_of_a_page(open_page, html, expected):
    timestep = await open_page(html).reset()
    assert timestep.observation["axtree"] == expected


@pytest.mark.smoke
async def test_a_ref_names_the_same_element_across_steps(open_page):
    environment = open_page(
        "<button id=b onclick=\"this.textContent='clicked'; this.before(new Option('new'))\">go"
        "</button>"
    )
    (before,) = refs_in((await environment.reset()).observation["axtree"])
    timestep = await environment.step(Click(before.ref))
    names = {element.ref: element.name for element in refs_in(timestep.observation["axtree"])}
    assert names[before.ref] == "clicked"


@pytest.mark.browser
async def test_refs_count_from_one_in_each_episode_and_on_through_navigation(open_page):
    environment = open_page(
        "<a href='?again'>again</a>", policy=None, settle=None or _slow_settle()
    )
    first = await environment.reset()
    assert [element.ref for element in refs_in(first.observation["axtree"])] == ["1"]
    navigated = await environment.step(Click("1"))
    assert [element.ref for element in refs_in(navigated.observation["axtree"])] == ["2"]
    stale = await environment.step(Click("1"))
    assert stale.observation["last_action"]["error_kind"] == "unknown_ref"
    again = await environment.reset()
    assert [element.ref for element in refs_in(again.observation["axtree"])] == ["1"]


def _slow_settle():
    from webtraj.environments.browser.settle_policy import SettlePolicy

    return SettlePolicy(quiet=0.3)


async def test_observing_leaves_the_page_untouched(open_page):
    environment = open_page("<p>a <b>c</b></p><input><svg><rect width=3 height=3 /></svg>")
    await environment.reset()
    page = environment.session.page
    before = await page.evaluate("document.documentElement.outerHTML")
    enumerable = await page.evaluate("Object.keys(window).filter(k => /webtraj/i.test(k))")
    await environment.step(Focus("3"))
    assert await page.evaluate("document.documentElement.outerHTML") == before
    assert enumerable == []


@pytest.mark.browser
async def test_a_page_that_replaces_what_the_script_uses_changes_nothing(open_page):
    environment = open_page(
        "<button>go</button><script>JSON.stringify = () => 'stolen'; "
        "window.getComputedStyle = () => { throw 1 }; performance.now = () => NaN; "
        "window.setTimeout = () => 0</script>"
    )
    timestep = await environment.reset()
    assert timestep.observation["axtree"] == '[1] button "go"'
