"""What a script in an isolated world cannot see: closed shadow roots, handlers of the page."""

import html as html_lib

import pytest

from webtraj.environments import actions as a
from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.environments.browser.observation import refs_in
from webtraj.environments.browser.tasks import WebTask

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser, pytest.mark.gate]

SHADE = """<script>
const shade = (host, html, mode = "closed") => {
  const root = host.attachShadow({mode});
  root.innerHTML = html;
  return root;
};
</script>"""
IN_A_FRAME = html_lib.escape(
    f"<div id=h></div>{SHADE}<script>shade(h, '<button>NAME</button>');</script>"
)
PAGE = f"""<!doctype html>{SHADE}
<section id=top>slotted</section>
<div id=open></div>
<p><template shadowrootmode=closed><button>Declared</button></template></p>
<iframe srcdoc="{IN_A_FRAME.replace("NAME", "Framed")}"></iframe>
<iframe sandbox=allow-scripts srcdoc="{IN_A_FRAME.replace("NAME", "Foreign")}"></iframe>
<div id=late></div>
<script>
const root = shade(document.getElementById("top"),
  "<h2>Inside</h2><slot></slot><button>More</button><input type=password aria-label=Pass>");
shade(shade(document.getElementById("open"), "<div></div>", "open").firstChild,
  "<button>Nested</button>");
root.querySelector("button").onclick = () => shade(late, "<button>Late</button>");
</script>"""


async def test_what_is_in_closed_roots_is_seen_acted_on_and_kept_secret(pool, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(PAGE)
    task = WebTask(goal="", start_url=path.as_uri())
    async with BrowserEnvironment(task, pool=pool, observe=("axtree", "last_action")) as env:
        seen = (await env.reset()).observation
        assert 'heading "Inside"' in seen["axtree"]
        assert 'text "slotted"' in seen["axtree"]
        found = {element.name: element.ref for element in refs_in(seen["axtree"])}
        assert found.keys() >= {"Declared", "Framed", "Foreign", "Nested"}
        seen = (await env.step(a.Click(found["More"]))).observation
        assert not seen["last_action"]["error"]
        assert 'button "Late"' in seen["axtree"]
        action = a.Fill(found["Pass"], "hunter2-hunter2")
        assert "hunter2" not in str(env.redact_action(action))
        seen = (await env.step(action)).observation
        assert 'textbox "Pass" value="•••••••••••••••" focused' in seen["axtree"]
        assert "hunter2" not in str(env.redact("I typed hunter2-hunter2."))


HANDLERS = """<!doctype html><body><p id=property>Property</p><p id=listener>Listener</p>
<p onclick="1">Attribute</p><p>Plain</p><ul id=list><li>One <button>Go</button></li></ul>
<iframe srcdoc="<p id=p>Framed</p><script>p.onclick = () => {}</script>"></iframe>
<p id=later>Later</p>
<script>
property.onclick = () => { later.onclick = property.onclick; property.onclick = null; };
for (const element of [listener, list, document.body, document]) {
  element.addEventListener("click", () => {});
}
</script>"""


async def test_what_the_page_s_handlers_make_clickable_has_a_mark(pool, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(HANDLERS)
    task = WebTask(goal="", start_url=path.as_uri())
    async with BrowserEnvironment(task, pool=pool, observe=("axtree", "set_of_marks")) as env:
        seen = (await env.reset()).observation
        expected = ["Property", "Listener", "Attribute", "Go", "Framed"]
        assert list(seen["set_of_marks"]["names"]) == expected
        seen = (await env.step(a.Click(seen["set_of_marks"]["refs"][0]))).observation
        assert list(seen["set_of_marks"]["names"]) == [*expected[1:], "Later"]
