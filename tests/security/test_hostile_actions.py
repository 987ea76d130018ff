"""What a model does, or a page leads it to, ends at the boundary of its policy, and is told."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from hostile_web import Response, Site

from webtraj import errors
from webtraj.environments import actions as a
from webtraj.environments.browser.access import NoAccess, WebAccess
from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.environments.browser.network_policy import OriginPolicy
from webtraj.environments.browser.observation import refs_in
from webtraj.environments.browser.pool import BrowserPool
from webtraj.environments.browser.tasks import WebTask

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser, pytest.mark.gate]

CHANNELS = ("url", "axtree", "tabs", "blocked", "http_status", "last_action")

Opened = Callable[..., Any]


@pytest_asyncio.fixture(loop_scope="module")
async def opened(pool: BrowserPool, site: Site) -> AsyncIterator[Opened]:
    """Gives a function from HTML to an environment on it, with only `site` allowed."""
    environments: list[BrowserEnvironment] = []

    async def open_page(html: str, *, policy: Any = None, **options: Any) -> BrowserEnvironment:
        site.pages["/"] = html
        policy = policy or WebAccess(OriginPolicy(allow=(site.host,)))
        task = WebTask(goal="x", start_url=site.url())
        environment = BrowserEnvironment(
            task, pool=pool, observe=CHANNELS, policy=policy, **options
        )
        environments.append(environment)
        await environment.reset()
        return environment

    yield open_page
    for environment in environments:
        await environment.close()


async def click(environment: BrowserEnvironment, name: str) -> Any:
    seen = (await environment.step(a.Wait(0))).observation
    (ref,) = [line.ref for line in refs_in(seen["axtree"]) if line.name == name]
    return (await environment.step(a.Click(ref))).observation


@pytest.mark.parametrize("action", [a.Goto, a.NewTab])
async def test_a_model_opens_only_what_is_allowed(
    opened: Opened, site: Site, forbidden: Site, action: Any
) -> None:
    environment = await opened("<p>home</p>")
    seen = (await environment.step(action(forbidden.url("/x")))).observation
    assert seen["last_action"]["error_kind"] == "blocked"
    assert (seen["url"], len(seen["tabs"])) == (site.url(), 1)
    assert forbidden.asked == []


NO_PAGES = ["file:///etc/passwd", "chrome://version", "data:text/html,x", "javascript:alert(1)",
    "view-source:http://x.test", "blob:http://x.test/1", "about:config", "ftp://x.test",
    "chrome-extension://a/b", "devtools://devtools", "filesystem:http://x.test/a", "ws://x.test",
    "FILE:///etc/passwd", "//etc/passwd", "/etc/passwd", "http:\\\\x.test", "http://"]  # fmt: skip


@pytest.mark.parametrize("verb", ["goto", "new_tab"])
async def test_a_model_opens_no_other_scheme(opened: Opened, site: Site, verb: str) -> None:
    environment = await opened("<p>home</p>")
    for url in NO_PAGES:
        with pytest.raises(errors.InvalidInputError):
            a.Goto(url)
        seen = (await environment.step(f"{verb}({url!r})")).observation
        assert seen["last_action"]["error_kind"].startswith("invalid"), url
        assert (seen["url"], len(seen["tabs"])) == (site.url(), 1), url


LEADS = {
    "link": "<a href='TARGET'>go</a>",
    "link to a new tab": "<a href='TARGET' target=_blank>go</a>",
    "form": "<form action='TARGET'><button>go</button></form>",
    "script": "<button onclick=\"location = 'TARGET'\">go</button>",
    "popup": "<button onclick=\"window.open('TARGET')\">go</button>",
    "redirect": "<a href='/redirect'>go</a>",
    "meta refresh": "<a href='/refresh'>go</a>",
}


@pytest.mark.parametrize("way", LEADS)
async def test_who_is_led_astray_is_brought_back_and_told(
    opened: Opened, site: Site, forbidden: Site, way: str
) -> None:
    target = forbidden.url("/trap")
    site.pages["/redirect"] = Response(status=302, headers={"Location": target})
    site.pages["/refresh"] = f"<meta http-equiv=refresh content='0; url={target}'>"
    environment = await opened("<p>home</p>" + LEADS[way].replace("TARGET", target))
    seen = await click(environment, "go")
    for _ in range(50):  # A page that leads on by itself takes its time.
        if any(target in line for line in seen["blocked"]):
            break
        seen = (await environment.step(a.Wait(0.1))).observation
    else:
        pytest.fail("It was never told.")
    seen = (await environment.step(a.Wait(0.1))).observation
    assert forbidden.asked == []
    assert len(seen["tabs"]) == 1
    assert seen["url"].startswith(site.url())


async def test_being_brought_back_is_the_action_s_error(
    opened: Opened, site: Site, forbidden: Site
) -> None:
    environment = await opened(f"<p>home</p><a href='{forbidden.url()}'>go</a>")
    seen = await click(environment, "go")
    assert seen["last_action"]["error_kind"] == "blocked"
    assert forbidden.url() in seen["last_action"]["error"]
    assert "home" in seen["axtree"]


async def test_requests_that_were_denied_are_told_once(opened: Opened, forbidden: Site) -> None:
    environment = await opened(f"<img src='{forbidden.url('/pixel')}'><p>home</p>")
    told: list[str] = []
    for _ in range(3):
        told += (await environment.step(a.Wait(0.1))).observation["blocked"].tolist()
    # What was denied before the first observation was told by that.
    assert [line for line in told if "/pixel" in line] == []
    assert forbidden.asked == []


async def test_a_download_is_refused_and_told(opened: Opened, site: Site) -> None:
    site.pages["/file"] = Response(
        "data", headers={"Content-Disposition": "attachment; filename=../../evil.sh"}
    )
    environment = await opened("<p>home</p><a href='/file'>go</a>")
    seen = await click(environment, "go")
    for _ in range(50):
        if len(seen["blocked"]):
            break
        seen = (await environment.step(a.Wait(0.1))).observation
    (told,) = seen["blocked"]
    assert told == f"{site.url('/file')}: downloads are not allowed"
    assert seen["url"] == site.url()


@pytest.mark.smoke
async def test_a_page_without_network_access_loads_only_itself(
    opened: Opened, site: Site, forbidden: Site
) -> None:
    environment = await opened(
        f"<p>home</p><img src='{forbidden.url('/x')}'><img src='/own'>", policy=NoAccess()
    )
    seen = (await environment.step(a.Goto(site.url("/other")))).observation
    assert seen["last_action"]["error_kind"] == "blocked"
    assert "/own" in site.paths
    assert forbidden.asked == []


async def test_an_upload_that_is_refused_leaves_the_page_alone(
    opened: Opened, site: Site, folder: Path
) -> None:
    policy = WebAccess(OriginPolicy(allow=(site.host,)), uploads=folder)
    environment = await opened(
        "<input type=file id=f aria-label=file onchange=\"document.title = 'got it'\">",
        policy=policy,
    )
    for path in ("../secret.txt", "link", "/etc/passwd"):
        seen = (await environment.step(a.UploadFile("1", (path,)))).observation
        assert seen["last_action"]["error_kind"] == "blocked"
    assert await environment.session.page.evaluate("f.files.length") == 0
    seen = (await environment.step(a.UploadFile("1", ("ok.txt",)))).observation
    assert seen["last_action"]["error"] == ""
    assert await environment.session.page.evaluate("f.files[0].name") == "ok.txt"


PERMISSIONS = """async () => {
  const ask = promise => Promise.race([
    promise.then(() => "granted", () => "denied"),
    new Promise(done => setTimeout(() => done("nobody answered"), 3000)),
  ]);
  return {
    geolocation: await ask(new Promise((yes, no) => navigator.geolocation.getCurrentPosition(yes, no))),
    notifications: await Notification.requestPermission(),
    camera: await ask(navigator.mediaDevices.getUserMedia({video: true})),
    microphone: await ask(navigator.mediaDevices.getUserMedia({audio: true})),
    screen: await ask(navigator.mediaDevices.getDisplayMedia()),
    clipboard: await ask(navigator.clipboard.readText()),
    midi: await ask(navigator.requestMIDIAccess({sysex: true})),
    usb: await ask(navigator.usb.requestDevice({filters: []})),
    serial: await ask(navigator.serial.requestPort()),
    persistent: String(await navigator.storage.persist()),
    idle: await IdleDetector.requestPermission(),
    files: await ask(showDirectoryPicker()),
    screens: await ask(getScreenDetails()),
  };
}"""  # noqa: E501


async def test_every_permission_is_denied_at_once(opened: Opened) -> None:
    environment = await opened("<button>x</button>")
    await click(environment, "x")  # Some are denied anyway to whom nobody has clicked on.
    told = await environment.session.page.evaluate(PERMISSIONS)
    assert set(told.values()) <= {"denied", "default", "false", "prompt"}, told


async def test_a_proxy_beside_the_policy_is_an_error(pool: BrowserPool, site: Site) -> None:
    task = WebTask(goal="x", start_url=site.url())
    options = {"proxy": {"server": "http://proxy.test:3128"}}
    environment = BrowserEnvironment(task, pool=pool, policy=WebAccess(), context_options=options)
    with pytest.raises(errors.InvalidInputError, match="a proxy of its own"):
        await environment.reset()
    await environment.close()
