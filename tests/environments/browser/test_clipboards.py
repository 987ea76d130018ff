"""The clipboard: each episode pastes what its own pages copied, and nothing else."""

import asyncio
import html as html_lib

import pytest

from webtraj.environments import actions as a
from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.environments.browser.observation import refs_in
from webtraj.environments.browser.tasks import WebTask

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser, pytest.mark.gate]

FRAMED = html_lib.escape("<input aria-label=Framed value='in a frame'>")
SET_BY_THE_PAGE = """<p id=s>selected</p><button onclick="
    getSelection().selectAllChildren(s); document.execCommand('copy')">Copy</button><script>
    s.oncopy = event => {
      event.preventDefault();
      event.stopPropagation();
      event.clipboardData.setData('text/plain', 'set by the page');
    };
</script>"""
TARGET = "<textarea aria-label=To></textarea>"
COPIED = {
    "from a field": (
        "<input aria-label=From value='a card'>",
        ("From", "Control+a Control+c"),
        "a card",
    ),
    "from an address": (
        "<input aria-label=From type=email value='a@b.test'>",
        ("From", "Control+a Control+c"),
        "a@b.test",
    ),
    "from a frame": (
        f'<iframe srcdoc="{FRAMED}"></iframe>',
        ("Framed", "Control+a Control+x"),
        "in a frame",
    ),
    "from a frame of another origin": (
        f'<iframe sandbox=allow-scripts srcdoc="{FRAMED}"></iframe>',
        ("Framed", "Control+a Control+x"),
        "in a frame",
    ),
    "by a script": (SET_BY_THE_PAGE, ("Copy", "Enter"), "set by the page"),
    "from a document that was written anew": (
        f"""<button onclick='document.open(); document.write("{TARGET}<input aria-label=From "
        + "value=anew>"); document.close()'>Write</button>""",
        ("Write", "Enter", "From", "Control+a Control+c"),
        "anew",
    ),
    "by the page's own interface": (
        (
            "<input aria-label=From><script>onkeydown = async () => { onkeydown = null;"
            "await navigator.clipboard.writeText('written');"
            "await navigator.clipboard.writeText(await navigator.clipboard.readText() + ', read') }"
            "</script>"
        ),
        ("From", "x"),
        "written, read",
    ),
    "read by the page": (
        (
            "<input aria-label=From value=mine><script>onkeyup = async event => {"
            "if (event.key === 'c') await navigator.clipboard.writeText("
            "`${(await navigator.clipboard.readText())} again`) }</script>"
        ),
        ("From", "Control+a Control+c"),
        "mine again",
    ),
    "nothing": ("<input aria-label=From>", ("From", "Control+a Control+c"), ""),
    "a password": (
        "<input type=password aria-label=From value=hunter2>",
        ("From", "Control+a Control+c"),
        "",
    ),
}


def element(seen, name):
    return next(each for each in refs_in(seen["axtree"]) if each.name == name)


async def test_each_episode_pastes_what_it_copied_itself(pool, tmp_path):
    def page(case, html):
        path = tmp_path / f"{case}.html"
        path.write_text(f"<!doctype html>{TARGET}{html}")
        return path.as_uri()

    async def play(case, html, copying):
        task = WebTask(goal="", start_url=page(case, html))
        async with BrowserEnvironment(task, pool=pool, observe=("axtree",)) as environment:
            seen = (await environment.reset()).observation
            for name, keys in zip(copying[::2], copying[1::2], strict=True):
                action = a.Press(element(seen, name).ref, keys)
                seen = (await environment.step(action)).observation
            await barrier.wait()
            await environment.step(a.Focus(element(seen, "To").ref))
            seen = (await environment.step(a.PressKey("ControlOrMeta+v"))).observation
            states = element(seen, "To").states
            return case, next((s for s in states if s.startswith("value=")), 'value=""')

    barrier = asyncio.Barrier(len(COPIED))
    pasted = await asyncio.gather(
        *(play(case, html, copying) for case, (html, copying, _) in COPIED.items())
    )
    assert dict(pasted) == {case: f'value="{text}"' for case, (_, _, text) in COPIED.items()}
