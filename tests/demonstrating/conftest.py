"""Fixtures: a browser, a small site of our own, and recorders of what a hand does there."""

import asyncio
import contextlib
import http.server
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio
from hand import Hand, until

import webtraj
from webtraj.collectors.memory import MemoryTrajectoryCollector
from webtraj.demonstrating import Progress, Recorder, page_environment
from webtraj.environments.browser.pool import BrowserPool
from webtraj.redaction import RedactionRules

CHANNELS = (
    "goal", "url", "title", "axtree", "scroll", "screenshot", "tabs", "dialogs", "last_action"
)  # fmt: skip
PAGES = {
    "/": """<title>Start</title><h1>Start</h1><a href="/form">To the form</a>
        <a href="/other" target="_blank">In a new tab</a>
        <button onclick="this.textContent = 'Thanks'">Say thanks</button>
        <button onclick="setTimeout(() => document.body.insertAdjacentHTML('beforeend',
            '<button id=late onclick=this.remove()>Late</button>'), 700)">Make more</button>""",
    "/form": """<title>Form</title><form action="/done" method="get">
        <label>Name <input name="n"></label>
        <label>Password <input type="password" name="p"></label>
        <label>Card <input name="c"></label>
        <label>City <select name="s"><option>Bonn</option><option>Ulm</option></select></label>
        <label>News <input type="checkbox" name="b"></label>
        <label>Size <input type="range" name="r" min="0" max="100" value="0"></label>
        <button>Send</button></form>""",
    "/done": "<title>Done</title><p>Thanks</p><div style='height:3000px'>Long</div>",
    "/other": "<title>Other</title><p>Another tab</p><button>Here</button>",
    "/upload": """<title>Upload</title><input type="file" multiple>""",
    "/sort": """<title>Sort</title><ul><li draggable="true">One<li draggable="true">Two</ul>
        <ul id="inbox" style="height: 50px">Inbox</ul><script>
        let held;
        document.addEventListener("dragstart", event => { held = event.target; });
        document.addEventListener("dragover", event => {
          event.preventDefault();
          if (event.target.localName === "li" && event.target !== held) event.target.before(held);
        });
        </script>""",
    "/widgets": """<title>Widgets</title><style>
        li { width: 400px; list-style: none } i { display: inline-block; width: 16px; height: 16px }
        #keys { opacity: 0; width: 20px; height: 10px }</style>
        <button id="bold">Bold</button><div id="story" contenteditable>Once</div>
        <label>Code <input id="code"></label>
        <div id="editor" style="height: 20px">Editor</div>
        <textarea id="keys" aria-label="Keys"></textarea><pre id="program"></pre>
        <ul role="tree"><li role="treeitem" id="row"><i></i>Birds</li></ul>
        <label>Filter <input id="filter"></label><ul><li id="ulm">Ulm<li id="bonn">Bonn</ul>
        <button id="choose">Choose</button><input type="file" hidden><script>
        bold.onmousedown = event => event.preventDefault();
        bold.onclick = () => document.execCommand("bold");
        code.onkeydown = event => {
          if (event.key.length > 1) return;
          event.preventDefault();
          code.value += event.key.toUpperCase() + "-";
        };
        editor.onclick = () => keys.focus();
        keys.oninput = () => { program.textContent += keys.value.trim(); keys.value = "\\n"; };
        filter.onkeyup = () => { bonn.hidden = !"bonn".startsWith(filter.value); };
        row.onclick = event => {
          row.className += event.target === row ? " chosen" : " open";
        };
        choose.onclick = () => document.querySelector("[type=file]").click();
        </script>""",
    "/count": """<title>0</title><button autofocus>Count</button><script>
        onkeydown = event => { if (event.key === "ArrowDown") document.title++; };</script>""",
    "/ask": """<title>Ask</title>
        <button onclick="this.textContent = confirm('Sure?')">Ask</button>""",
    "/odd": """<title>Odd</title><div id="host"></div>
        <iframe srcdoc="<button onclick='this.textContent=1'>Framed</button>"></iframe>
        <script>host.attachShadow({mode: "open"}).innerHTML = "<button>In the shadow</button>";
        </script>""",
    "/hostile": """<title>Hostile</title><button id="real">Real</button>
        <button id="forged">Forged</button><pre id="found"></pre><script>
        forged.click();
        forged.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true, isTrusted: true}));
        forged.dispatchEvent(new PointerEvent("pointerup", {bubbles: true, isTrusted: true}));
        const seen = () => [...Object.getOwnPropertyNames(window),
            ...Object.getOwnPropertySymbols(window).map(String)].filter(n => /webtraj/i.test(n));
        for (const name of ["webtrajTell", "webtrajCommand"]) {
            try { window[name]?.('{"kind": "text"}'); window[name]?.("success"); } catch {}
        }
        window.open("", "webtraj record")?.close();
        window.webtrajTell = message => { (window.stolen ??= []).push(message); };
        document.querySelector("#real").onclick = () => {
            found.textContent = JSON.stringify([seen(), window.stolen ?? null]);
        };</script>""",
}
FORGERIES = (
    # A page's ways to change itself; each is done to fields that the person never touches.
    "t.focus(); document.execCommand('insertText', false, 'forged')",
    "t.focus(); document.execCommand('delete')",
    "t.focus(); document.execCommand('selectAll'); document.execCommand('cut')",
    "t.focus(); document.execCommand('copy'); document.execCommand('paste')",
    "t.focus(); document.execCommand('undo'); document.execCommand('redo')",
    "a.focus(); document.execCommand('insertText', false, 'forged')",
    "a.focus(); document.execCommand('insertLineBreak')",
    "e.focus(); document.execCommand('insertText', false, 'forged')",
    "e.focus(); document.execCommand('insertHTML', false, '<b>forged</b>')",
    "e.focus(); document.execCommand('insertParagraph')",
    "e.focus(); document.execCommand('bold')",
    "n.focus(); document.execCommand('insertText', false, '7')",
    "p.focus(); document.execCommand('insertText', false, 'forged')",
    "t.value = 'forged'",
    "t.value = 'forged'; t.dispatchEvent(new InputEvent('input', {inputType: 'insertText'}))",
    "t.setRangeText('forged'); t.dispatchEvent(new Event('change', {bubbles: true}))",
    "t.dispatchEvent(new InputEvent('beforeinput', {inputType: 'insertText', data: 'forged'}))",
    "t.dispatchEvent(new KeyboardEvent('keydown', {bubbles: true, key: 'Enter'}))",
    "t.dispatchEvent(new ClipboardEvent('paste', {bubbles: true}))",
    "t.dispatchEvent(new CompositionEvent('compositionend', {bubbles: true, data: 'forged'}))",
    "t.form.requestSubmit(); t.form.reset()",
    "c.click()",
    "c.checked = !c.checked; c.dispatchEvent(new Event('change', {bubbles: true}))",
    "l.click()",
    "r.click()",
    "s.selectedIndex = 1; s.dispatchEvent(new Event('change', {bubbles: true}))",
    "s.options[1].click(); s.click()",
    "m.options[1].selected = true; m.options[1].click()",
    "n.stepUp(); n.dispatchEvent(new Event('input', {bubbles: true}))",
    "k.click(); k.dispatchEvent(new MouseEvent('dblclick', {bubbles: true}))",
    "k.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true, pointerId: 1}))",
    "k.dispatchEvent(new PointerEvent('pointerup', {bubbles: true, pointerId: 1}))",
    "k.dispatchEvent(new WheelEvent('wheel', {bubbles: true, deltaY: 99})); scrollBy(0, 99)",
    "k.dispatchEvent(new DragEvent('dragstart', {bubbles: true}))",
    "t.dispatchEvent(new DragEvent('drop', {bubbles: true}))",
    "d.open = true; d.querySelector('summary').click()",
    "f.dispatchEvent(new Event('change', {bubbles: true}))",
    "inner('#t').focus(); w.contentDocument.execCommand('insertText', false, 'forged')",
    "inner('#e').focus(); w.contentDocument.execCommand('insertText', false, 'forged')",
    "inner('#c').click()",
    "inner('label').click()",
    "history.pushState({}, '', '#forged'); history.back()",
)
PAGES["/forge"] = f"""<title>Forge</title><button id=go>Go</button>
    <input id=own aria-label=City autocomplete=off>
    <form onsubmit="return false"><input id=t aria-label=Name><textarea id=a></textarea>
    <div id=e contenteditable>Text</div><input id=n type=number><input id=p type=password>
    <input id=c type=checkbox><label id=l>News <input type=checkbox></label>
    <input id=r type=radio name=g><input type=radio name=g>
    <select id=s><option>Bonn<option>Ulm</select>
    <select id=m multiple><option>Bonn<option>Ulm</select><button id=k>Other</button>
    <input id=f type=file></form><details id=d><summary>More</summary>Text</details>
    <iframe id=w srcdoc="<input id=t><div id=e contenteditable></div><input id=c type=checkbox>
      <label>News <input type=checkbox></label>"></iframe>
    <script>
    const inner = selector => w.contentDocument.querySelector(selector);
    const ways = [{", ".join(f"() => {{ {way}; }}" for way in FORGERIES)}];
    window.done = 0;
    let busy = false;
    const forge = () => {{
      if (busy) return;  // Its own events are heard, too.
      busy = true;
      const focused = document.activeElement;
      for (const way of ways) {{ try {{ way(); }} catch {{}} }}
      focused.focus();
      busy = false;
      window.done++;
    }};
    const EVENTS = ["keydown", "keypress", "beforeinput", "input", "keyup"];
    for (const type of EVENTS) own.addEventListener(type, forge);
    for (const type of ["pointerdown", "mouseup", "click"]) go.addEventListener(type, forge);
    go.addEventListener("click", () => {{
      Promise.resolve().then(forge); setTimeout(forge); setTimeout(forge, 700);
    }});
    </script>"""


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = PAGES.get(self.path.partition("?")[0], "").encode()
        self.send_response(200 if page else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(b"<!doctype html>" + page)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """A site's origin."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[BrowserPool]:
    async with BrowserPool(1, 4) as pool:
        yield pool


class Demonstration:
    """A recording in progress, and the hand that acts in it."""

    def __init__(self, environment: Any, recorder: Recorder, hand: Hand, done: Any) -> None:
        self.environment = environment
        self.recorder = recorder
        self.hand = hand
        self.done = done
        self.progress: list[Progress] = []
        self.collector: Any = None

    @property
    def goal(self) -> str:
        return str(self.environment.describe_episode()["goal"])

    async def steps(self, number: int) -> None:
        """Wait until so many steps are there, the one held back included."""
        await until(lambda: self.done.done() or self.progress[-1].steps >= number)

    async def settled(self) -> None:
        """Wait until the step held back has its result."""
        await until(lambda: self.recorder.is_settled)

    async def stopped(self, *args: Any, **options: Any) -> Any:
        """Stop, and return the recorded episode."""
        self.recorder.stop(*args, **options)
        return await self.finished()

    async def finished(self) -> Any:
        """Return the recorded episode of a task that has ended."""
        async with asyncio.timeout(60):
            await self.done
        await self.recorder.close()
        (trajectory,) = self.collector.trajectories
        return trajectory


@contextlib.asynccontextmanager
async def demonstrating(environment: Any) -> AsyncIterator[Demonstration]:
    """Record what a hand does in an environment."""
    collector, progress = MemoryTrajectoryCollector(), []
    recorder = Recorder(environment, collector, on_progress=progress.append)
    done = asyncio.ensure_future(recorder.record_episode())
    try:
        await until(lambda: progress or done.done())
        if done.done():
            await done
        hand = await Hand.on(environment.session.page)
        made = Demonstration(environment, recorder, hand, done)
        made.progress, made.collector = progress, collector
        yield made
    finally:
        done.cancel()
        await asyncio.gather(done, return_exceptions=True)
        await recorder.close()


@pytest.fixture
def on_environment() -> Callable[..., Any]:
    """Gives a function from an environment to its demonstration."""
    return demonstrating


@pytest.fixture
def on_task(pool: BrowserPool) -> Callable[..., Any]:
    """Gives a function from a preset to its demonstration."""

    def begin(selector: str, *, seed: int = 3) -> Any:
        return demonstrating(webtraj.make(selector, seed=seed, pool=pool, max_steps=None))

    return begin


@pytest.fixture
def open_page(site: str, pool: BrowserPool) -> Callable[..., Any]:
    """Gives a function from a path of the site to its environment."""

    def begin(path: str = "/", *, redaction: RedactionRules | None = None) -> Any:
        return page_environment(
            site + path,
            pool=pool,
            goal="Do it",
            viewport=(800, 600),
            redaction=redaction,
            observe=CHANNELS,
        )

    return begin


@pytest.fixture
def on_page(open_page: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a function from a path of the site to its demonstration."""
    return lambda path="/", **options: demonstrating(open_page(path, **options))
