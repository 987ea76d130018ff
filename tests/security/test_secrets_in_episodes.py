"""No file of a dataset recorded in a real browser holds a secret or a typed password."""

import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hostile_web import Response, Site
from PIL import Image, ImageChops

import webtraj
from webtraj.environments import actions as a
from webtraj.environments.browser.access import WebAccess
from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.environments.browser.network_policy import OriginPolicy
from webtraj.environments.browser.observation import CHANNELS, Observe, refs_in
from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.browser.settle_policy import LIVE_SITE
from webtraj.environments.browser.tasks import WebTask
from whole import whole

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser, pytest.mark.gate]

SECRET = "tok-7f3a&9c"
PASSWORD = "hunter2 & co"

PAGE = f"""<!doctype html><meta charset=utf-8><title>{SECRET.replace("&", "&amp;")}</title>
<form action="/welcome"><label>User <input name=user></label>
<label>Password <input type=password name=password id=p></label>
<label>Show <input type=checkbox onchange="p.type = this.checked ? 'text' : 'password'"></label>
<button>Log in</button></form>
<p>Your key is {SECRET.replace("&", "&amp;")}.</p>
<script>console.error("key", {SECRET!r}); setTimeout(() => alert({SECRET!r}))</script>"""


@pytest_asyncio.fixture(loop_scope="module")
async def environment(pool: BrowserPool, site: Site) -> AsyncIterator[BrowserEnvironment]:
    site.pages["/"] = PAGE
    site.pages["/welcome"] = Response("<p>Welcome</p>")
    task = WebTask(goal=f"Log in; the key is {SECRET}.", start_url=site.url(f"/?key={SECRET}"))
    channels = tuple(name for name in CHANNELS if name != "set_of_marks")
    made = BrowserEnvironment(
        task,
        pool=pool,
        policy=WebAccess(),
        settle=LIVE_SITE,  # The last click begins a navigation.
        secrets={"key": SECRET},
        observe=Observe(channels, screenshot_format="png"),
    )
    yield made
    await made.close()


def ref_of(observation: Any, role: str, name: str) -> str:
    found = refs_in(observation["axtree"])
    return next(line.ref for line in found if (line.role, line.name) == (role, name))


async def play(environment: BrowserEnvironment, collector: Any) -> list[Any]:
    recorded = webtraj.TrajectoryCollectingEnvironment(environment, collector)
    seen = [(await recorded.reset()).observation]
    field = ref_of(seen[0], "textbox", "Password")
    box = ref_of(seen[0], "checkbox", "Show")
    actions = [
        f"fill('{field}', '{PASSWORD}')",
        a.Click(box),
        a.Wait(0.05),
        a.Click(ref_of(seen[0], "button", "Log in")),
    ]
    for action in actions:
        call = webtraj.ModelCall(text=f"{action}: {PASSWORD}", completion_token_ids=(1, 2))
        decision = webtraj.Decision(action=action, thought=f"{PASSWORD!r}", model_calls=(call,))
        seen.append((await recorded.step(decision)).observation)
    await recorded.close()
    return seen


async def test_no_file_holds_what_must_not_be_recorded(
    environment: BrowserEnvironment, tmp_path: Path
) -> None:
    async with webtraj.JsonTrajectoryCollector(tmp_path) as collector:
        seen = await play(environment, collector)
    # The agent itself saw all of it.
    assert SECRET in seen[0]["axtree"]
    assert PASSWORD in seen[2]["axtree"]
    assert "hunter2" in seen[4]["url"]
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for spelling in (SECRET, PASSWORD, "hunter2", "tok-7f3a", "7f3a%269c"):
        assert spelling.encode() not in kept, spelling
    assert b"<secret:key>" in kept
    assert b"<secret:password>" in kept


async def test_the_record_says_what_was_done_without_the_password(
    environment: BrowserEnvironment,
) -> None:
    collector = webtraj.MemoryTrajectoryCollector()
    seen = await play(environment, collector)
    (episode,) = collector.trajectories
    field = ref_of(seen[0], "textbox", "Password")
    step = episode.steps[1]
    assert step.action == f"fill('{field}', '<secret:password>')"
    assert step.decision.action == step.action
    assert step.decision.model_calls[0].completion_token_ids == ()
    assert "Your key is <secret:key>." in step.observation["axtree"]
    assert episode.info.goal == "Log in; the key is <secret:key>."
    counts = episode.info.metadata["redactions"]
    assert counts["key"] > 5
    assert counts["password"] > 3
    assert counts["screenshots_painted"] > 2
    assert "screenshots_dropped" not in counts


async def test_recorded_screenshots_are_painted_over_and_the_agent_s_are_not(
    environment: BrowserEnvironment,
) -> None:
    collector = webtraj.MemoryTrajectoryCollector()
    seen = await play(environment, collector)
    (episode,) = collector.trajectories

    def picture(data: bytes) -> Any:
        return Image.open(io.BytesIO(data)).convert("RGB")

    def difference(index: int) -> Any:
        given = picture(seen[index]["screenshot"])
        kept = picture(episode.steps[index].observation["screenshot"])
        return ImageChops.difference(given, kept).getbbox()

    key = difference(0)
    assert key is not None
    assert key[3] - key[1] < 60  # The line with the key, and no more.
    shown = difference(2)  # The password, that the page shows now, and the key below it.
    assert shown[1] < key[1]
    assert difference(4) is None
    assert episode.steps[4].observation["screenshot"] is seen[4]["screenshot"]


async def test_passwords_of_made_up_pages_are_kept_where_that_is_wanted(
    pool: BrowserPool, site: Site
) -> None:
    site.pages["/"] = "<input type=password aria-label=p>"
    collector = webtraj.MemoryTrajectoryCollector()
    task = WebTask(goal="Type hunter2", start_url=site.url())
    environment = BrowserEnvironment(
        task, pool=pool, policy=WebAccess(), redact_passwords=False, observe=("axtree",)
    )
    async with webtraj.TrajectoryCollectingEnvironment(environment, collector) as recorded:
        await recorded.reset()
        await recorded.step(a.Fill("1", "hunter2"))
    assert collector.trajectories[0].steps[1].action == a.Fill("1", "hunter2")


WAYS = {
    "element": [a.Fill("1", "hunter2")],
    "keyboard": [a.Focus("1"), a.TypeText("hunter2")],
    "keys": [a.Focus("1"), a.PressKey("h u n t e r 2")],
    "key by key": [a.Focus("1"), *(a.PressKey(key) for key in "hunter2")],
    "point": [a.TypeAt(60, 20, "hunter2")],
    "pieces": [a.Click("1"), a.TypeText("hunt"), a.InsertText("er2")],
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", ["page", "frame", "frame of another origin", "shadow root"])
async def test_a_password_is_kept_secret_however_and_wherever_it_is_typed(
    pool: BrowserPool, site: Site, way: str, place: str
) -> None:
    field = "<input type=password style='position: fixed; top: 0; left: 0; width: 200px'>"
    page = {
        "page": field,
        "frame": f'<iframe style="border: 0" srcdoc="{field}"></iframe>',
        "frame of another origin": f"<iframe style='border: 0' src='http://localhost:{site.port}"
        "/frame'></iframe>",
        "shadow root": "<div id=h></div><script>h.attachShadow({mode: 'open'}).innerHTML = "
        f"`{field}`</script>",
    }[place]
    style = "<!doctype html><style>* { margin: 0 }</style>"
    site.pages["/"], site.pages["/frame"] = style + page, style + field
    collector = webtraj.MemoryTrajectoryCollector()
    task = WebTask(goal="x", start_url=site.url())
    environment = BrowserEnvironment(
        task,
        pool=pool,
        policy=WebAccess(OriginPolicy(allow=(f"localhost:{site.port}",))),
        observe=("axtree", "last_action"),
    )
    async with webtraj.TrajectoryCollectingEnvironment(environment, collector) as recorded:
        first = await recorded.reset()
        ref = next(
            line.ref for line in refs_in(first.observation["axtree"]) if line.role == "textbox"
        )
        seen = first
        for action in WAYS[way]:
            if hasattr(action, "ref"):
                action = type(action)(ref, *(["hunter2"] if isinstance(action, a.Fill) else []))
            seen = await recorded.step(action)
            assert seen.observation["last_action"]["error"] == ""
    assert "•••••••" in seen.observation["axtree"]
    (episode,) = collector.trajectories
    assert "<secret:password>" in whole(episode)
    typed = [getattr(s.action, "text", "") + getattr(s.action, "keys", "") for s in episode.steps]
    assert not any(piece in "".join(typed).replace("<secret:password>", "") for piece in "hunt2")


@pytest.mark.parametrize("channels", [("goal", "screenshot"), ("goal", "screenshot", "axtree")])
async def test_a_password_in_a_frame_of_another_origin_is_kept_secret_whatever_is_observed(
    pool: BrowserPool, site: Site, channels: tuple[str, ...]
) -> None:
    site.pages["/frame"] = "<body style='margin: 0'><input type=password style='width: 200px'>"
    place = "position: absolute; left: 0; top: 0; border: 0"
    site.pages["/"] = f"<iframe style='{place}' src='http://localhost:{site.port}/frame'></iframe>"
    policy = WebAccess(OriginPolicy(allow=(f"localhost:{site.port}",)))
    task = WebTask(goal="Log in.", start_url=site.url())
    collector = webtraj.MemoryTrajectoryCollector()
    inner = BrowserEnvironment(task, pool=pool, policy=policy, observe=channels)
    async with webtraj.TrajectoryCollectingEnvironment(inner, collector) as environment:
        await environment.reset()
        await environment.step(a.ClickAt(20, 10))
        await environment.step(a.TypeText("hunter2"))
        seen = (await environment.step(a.TypeAt(20, 10, "hunter2"))).observation
    (episode,) = collector.trajectories
    assert "hunter2" not in whole(episode)
    assert [step.action.text for step in episode.steps[2:]] == ["<secret:password>"] * 2
    assert set(seen) <= {*channels, "marks"}
