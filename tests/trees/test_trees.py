"""The page tree matches Chromium's and Playwright's trees, and the words on the screen.

`WEBTRAJ_TREES=build/tree.md` also compares the pages of the packages in `packages.toml`. It writes
the results to that file, and the packages and undecided differences to `REST`.
"""

import asyncio
import contextlib
import os
from collections import Counter
from pathlib import Path
from urllib.parse import quote

import pytest
from tree_comparison import DECIDED, WIDGETS, Difference, Result, compare
from tree_pages import packages, serve_file

import webtraj
from webtraj.environments.browser.access import WebAccess
from webtraj.environments.browser.observation import refs_in
from webtraj.environments.browser.settle_policy import SERVED_PAGE
from webtraj.environments.local_server import HttpServer, Response
from webtraj_formats.exporters.playwright_locators import Page, locate, target_of

pytestmark = pytest.mark.browser

REPORT = os.environ.get("WEBTRAJ_TREES", "")
REST = Path(__file__).parents[2] / "build/tree_packages.md"
LEAST = {"chromium": 0.995, "playwright": 0.99, "words": 0.999}
"""The required share of elements and words without an undecided difference, by witness."""
BROWSERS = 2
_HEAD = "<!doctype html><meta charset=utf-8><title>t</title>"

SMALL = {
    "buttons": "<button>Log <b>in</b></button><input type=submit><input type=reset value=Clear>"
    "<input type=image><input type=image alt=Go><div role=button tabindex=0 aria-pressed=mixed>B",
    "names": "<b id=l>Town</b><input aria-labelledby=l><input title=T><input placeholder=P>"
    "<label>Name <input value=Ann></label><label for=f>For</label><input id=f disabled>",
    "ticks": "<input type=checkbox checked aria-label=A><label><input type=radio checked> B</label>"
    "<input type=checkbox id=i aria-label=M><script>i.indeterminate = true</script>"
    "<div role=switch aria-checked=true tabindex=0>S</div><p role=checkbox aria-checked=mixed>C",
    "choices": "<select aria-label=S><option>a<option selected>b<optgroup label=G><option>c"
    "</select>"
    "<select multiple aria-label=M><option selected>x<option>y</select>"
    "<ul role=listbox aria-label=L><li role=option aria-selected=true>Seat<li role=option>Row</ul>",
    "fields": "<input type=number value=3 aria-label=N><input type=range value=7 aria-label=R>"
    "<textarea aria-label=T>call\nnoon</textarea><input type=search aria-label=Q readonly value=x>"
    "<input type=email aria-label=E placeholder='a@b.c'>"
    "<input type=password value=abc aria-label=P>",
    "suggestions": "<input list=l aria-label=S value=a><datalist id=l><option value=a>"
    "<option value=b>Bee</datalist><input list=l aria-label=T>",
    "forms of fields": "<input type=date aria-label=D value=2026-01-31>"
    "<input type=color aria-label=C>"
    "<input type=time aria-label=I><input type=file aria-label=F><input type=file multiple>",
    "disclosure": "<details><summary>More</summary><a href=#x>hidden</a></details>"
    "<details open><summary>Less</summary><a href=#y>shown</a></details>",
    "expanded": "<button aria-expanded=false>Menu</button><a href=#x aria-expanded=true>Open</a>",
    "grid": "<table role=grid><tr><th scope=row tabindex=0>a<td tabindex=0>b</table>",
    "tabs": "<div role=tablist><b role=tab aria-selected=true tabindex=0>One</b><b role=tab>Two</b>"
    "</div><div role=tabpanel tabindex=0 aria-label=One>first words</div>",
    "a tree": "<ul role=tree><li role=treeitem aria-expanded=true tabindex=0>Fruit<ul role=group>"
    "<li role=treeitem>Pear</ul></ul>",
    "a menu": "<ul role=menu><li role=menuitem tabindex=0>Cut<li role=menuitemcheckbox "
    "aria-checked=true>Wrap<li role=menuitemradio aria-checked=false>Left</ul>",
    "links": "<a href=#x><img alt=Home></a><a href=#y>a <svg><title>b</title></svg></a>"
    "<a>nowhere</a><a href=#z role=doc-noteref>1</a><a href=#n aria-label=Seen><b>12</b> new</a>",
    "frames": "<iframe title=F srcdoc='<button>framed</button><p>words inside'></iframe>"
    "<iframe title=E srcdoc='<body contenteditable>edited <a href=#x>words</a>'></iframe>",
    "shadow": "<div id=o>slotted</div><div id=c></div><script>o.attachShadow({mode: 'open'})."
    "innerHTML = '<button><slot></slot> in</button>'; c.attachShadow({mode: 'closed'}).innerHTML = "
    "'<a href=#x>closed</a> words'</script>",
    "contents": "<form style='display:contents'><label>Town <input></label>"
    "<button>Go</button></form>",
    "hidden": "<p hidden>a</p><div style='visibility:hidden'>b<a href=#x>c</a><p "
    "style='visibility:visible'>d <a href=#y>e</a></div><p aria-hidden=true>f",
    "an editor": "<div contenteditable aria-label=E>first<br>second <a href=#x>third</a></div>"
    "<div role=textbox tabindex=0 aria-label=R aria-readonly=true>fixed</div>",
    "styles": "<style>i::before { content: '\\f00d' } b::after { content: ' *' }</style>"
    "<button><i></i></button><button>Save <b>now</b></button><label>Age<b></b><input></label>",
    "long text": f"<p>{'word ' * 900}<a href=#x>{'name ' * 50}</a>",
    "an image map": "<img usemap=#m width=90 height=90 alt=Plan src='data:image/svg+xml,%3Csvg "
    "xmlns=%22http://www.w3.org/2000/svg%22/%3E'><map name=m>"
    "<area href=#a alt=Hall coords=0,0,9,9>",
    "a list in a label": "<label>Town <input role=combobox value=Y><b role=listbox "
    "aria-label=Found><i role=option aria-selected=true>York</i><i role=option>Ely</i></b></label>",
    "a second label": "<p><label for=n>Name</label></p><p><input id=n><label for=n>too</label>",
}


async def _visit(environment, url: str) -> Result:
    """Compare a page. Read it again if it differs: it may have changed in between."""
    step = await environment.step(f"goto({url!r})")
    result = await compare(environment, str(step.observation["axtree"]))
    if _undecided(result):
        step = await environment.step("noop()")
        again = await compare(environment, str(step.observation["axtree"]))
        result = min(result, again, key=lambda each: len(_undecided(each)))
    return result


def _undecided(result: Result) -> list[Difference]:
    return [each for each in result.differences if each.kind not in DECIDED]


def _environment(site: HttpServer, **options):
    task = webtraj.WebTask(goal="", start_url=f"{site.origin}/none")
    return webtraj.make(
        "web", task=task, observe=("axtree",), settle=SERVED_PAGE, max_steps=None, **options
    )


@contextlib.asynccontextmanager
async def _small_pages():
    """Give an environment, and the small pages' URLs by name."""
    pages = [f"{_HEAD}{page}" for page in SMALL.values()]

    def answer(request):
        number = request.path.lstrip("/")
        return Response(body=pages[int(number)].encode() if number.isdecimal() else b"")

    async with HttpServer(answer) as site, _environment(site) as environment:
        await environment.reset()
        yield environment, {name: f"{site.origin}/{n}" for n, name in enumerate(SMALL)}


@pytest.mark.gate
async def test_small_pages_differ_in_decided_ways_only():
    async with _small_pages() as (environment, urls):
        for name, url in urls.items():
            result = await _visit(environment, url)
            assert result.compared.total(), name
            assert not _undecided(result), name


@pytest.mark.gate
async def test_exported_locators_find_their_elements_in_playwright():
    """An exporter knows the recorded tree alone; Playwright computes roles and names itself."""
    found = 0
    async with _small_pages() as (environment, urls):
        for name, url in urls.items():
            step = await environment.step(f"goto({url!r})")
            tree = str(step.observation["axtree"])
            page = Page(tree)
            for ref in refs_in(tree):
                if ref.role not in WIDGETS - {"option", "listbox"} or name == "an image map":
                    continue  # Those of closed lists, and an image's areas, have no box.
                described = (await environment.session.prepare("hover", ref.ref, {}))["element"]
                chain = locate(page, target_of(page, ref.ref, described))
                if chain is None:
                    assert described["selector"].startswith(":scope"), ref  # In a closed root.
                    continue
                locator = environment.session.page
                for call in chain:
                    member = getattr(locator, call.name)
                    given = call.arguments
                    locator = member if given is None else member(*given, **call.options)
                assert await locator.count() == 1, (name, ref, chain)
                box = await locator.bounding_box()
                there = [box["x"], box["y"], box["width"], box["height"]]
                assert there == pytest.approx(described["box"], abs=1), (name, ref, chain)
                found += 1
    assert found > 50


@pytest.mark.gate
async def test_frames_of_other_origins_differ_in_decided_ways_only():
    """The outer frames are of another port and of another host, each with a frame in it."""
    pages: dict[str, str] = {}

    def answer(request):
        return Response(body=pages.get(request.path, "").encode())

    async with HttpServer(answer) as site, HttpServer(answer) as other:
        port = other.origin.removeprefix("http://127.0.0.1:")
        for name, origin in ("port", other.origin), ("host", f"http://localhost:{port}"):
            pages[f"/{name}"] = (
                f"{_HEAD}<iframe title='{name}' src='{origin}/{name}-outer'></iframe>"
            )
            pages[f"/{name}-outer"] = (
                f"{_HEAD}<p>words outside <a href=#x>outer link</a> <label>Town <input value=Ely>"
                f"</label><iframe title=inner src='{site.origin}/inner'></iframe>"
            )
        pages["/inner"] = (
            f"{_HEAD}<p>words inside <button aria-pressed=true>inner button</button>"
            "<iframe title=same srcdoc='deep <select aria-label=S><option>a<option>b</select>'>"
        )
        async with _environment(site, policy=WebAccess(network=None)) as environment:
            await environment.reset()
            for name in "port", "host":
                result = await _visit(environment, f"{site.origin}/{name}")
                assert not _undecided(result), name
                assert result.compared == {"chromium": 6, "playwright": 6, "words": 10}, name


@pytest.mark.timeout(2400)
@pytest.mark.skipif(not REPORT, reason="WEBTRAJ_TREES names no file for the table")
async def test_real_pages_have_the_trees_of_the_references():
    listed = packages()
    missing = [told for each in listed if (told := each.fetch())]
    assert not missing, "packages are missing:\n" + "\n".join(missing)
    chosen = {each: each.choose() for each in listed}
    todo = [(each, path) for each, paths in chosen.items() for path in paths]
    results = {each: Result() for each in listed}

    async def read_pages(site: HttpServer) -> None:
        async with _environment(site) as environment:
            await environment.reset()
            while todo:
                package, path = todo.pop()
                results[package].add(await _visit(environment, f"{site.origin}/{quote(path)}"))

    count = len(todo)
    async with HttpServer(serve_file) as site:
        await asyncio.gather(*(read_pages(site) for _ in range(BROWSERS)))
    whole = Result()
    for result in results.values():
        whole.add(result)
    for path in (Path(REPORT), REST):
        path.parent.mkdir(parents=True, exist_ok=True)
    Path(REPORT).write_text(_report(whole, count), encoding="utf-8")
    rest = "\n".join([*_pages_table(results, chosen), "", *_undecided_table(whole)])
    REST.write_text(f"{rest}\n", encoding="utf-8")
    assert count >= 300
    for witness, least in LEAST.items():
        share = _share(whole, witness)
        assert share >= least, (witness, share, whole.undecided(witness)[:20])


def _share(result: Result, witness: str) -> float:
    return 1 - len(result.undecided(witness)) / max(1, result.compared[witness])


def _report(whole: Result, pages: int) -> str:
    """Return the page `benchmarks/results/tree.md`."""
    kinds = Counter((each.kind, each.witness) for each in whole.differences)
    plain = {
        witness: 1 - sum(n for (_, w), n in kinds.items() if w == witness) / whole.compared[witness]
        for witness in LEAST
    }
    lines = [
        "# The page tree beside Chromium's and Playwright's",
        "",
        "<!-- not run: it fetches packages, and takes minutes -->",
        "```sh",
        "make test-trees                                    # writes build/tree.md",
        "make test-trees TREES=benchmarks/results/tree.md  # writes this page",
        "```",
        "",
        "The lane compares the `axtree` channel with three references,",
        f"on {pages} pages of npm and Debian packages:",
        "",
        "- Chromium's accessibility tree: role, name and states of interactive elements",
        "- Playwright's `aria_snapshot`: role and name of interactive elements",
        "- the words that Chromium lays out",
        "",
        "Rules in `tests/trees/tree_comparison.py` sort the differences into kinds.",
        "A kind with a reason is intended. `build/tree_packages.md` lists the others.",
        "",
        "| reference | elements or words | identical | identical or intended | required |",
        "|---|---|---|---|---|",
        *(
            f"| {w} | {whole.compared[w]:,} | {plain[w]:.2%} | {_share(whole, w):.3%} | "
            f"{least:.1%} |"
            for w, least in LEAST.items()
        ),
        "",
        "## Differences",
        "",
        "| kind | chromium | playwright | words | reason |",
        "|---|---|---|---|---|",
    ]
    names = sorted({kind for kind, _ in kinds}, key=lambda kind: (kind not in DECIDED, kind))
    for kind in names:
        counts = " | ".join(f"{kinds[kind, witness]:,}" for witness in LEAST)
        lines.append(f"| {kind} | {counts} | {DECIDED.get(kind, 'undecided')} |")
    return "\n".join(lines) + "\n"


def _pages_table(results: dict, chosen: dict) -> list[str]:
    """Return the counts of each package, as a table."""
    return [
        "| package | version | pages | elements | words | undecided |",
        "|---|---|---|---|---|---|",
        *(
            f"| {p.name} ({p.kind}) | {p.version} | {len(chosen[p])} | "
            f"{r.compared['chromium']:,} | {r.compared['words']:,} | {len(_undecided(r))} |"
            for p, r in results.items()
            if chosen[p]
        ),
    ]


def _undecided_table(whole: Result) -> list[str]:
    """Return the most frequent undecided differences, as a table."""
    left = Counter((e.witness, e.kind, e.theirs, e.ours) for e in _undecided(whole))
    lines = ["| count | witness | what | theirs | ours |", "|---|---|---|---|---|"]
    for (witness, kind, *both), count in left.most_common(40):
        told = " | ".join(f"`{text[:60]}`" if text else "" for text in both)
        lines.append(f"| {count} | {witness} | {kind} | {told.replace('`|`', '')} |")
    return lines
