"""The monitor's page: a real server, asked over HTTP and by a real browser."""

import asyncio
import contextlib
import http.client
import json
import threading

import httpx
import pytest

from webtraj import errors
from webtraj.monitor import RunMonitor
from webtraj.monitor.guard import HEADERS
from webtraj.monitor.page import MonitorServer

HOSTILE = "<img src=x onerror=\"document.title='hit'\"><script>document.title='hit'</script>"


@contextlib.contextmanager
def serving(server):
    """Serves in a thread of its own, and yields the server."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(server.serve())

    def run():
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()


def ask(server, path="/", *, method="GET", **headers):
    """Asks as no client that is careful would: with any header."""
    host, port = httpx.URL(server.url).host, httpx.URL(server.url).port
    connection = http.client.HTTPConnection(host, port, timeout=30)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    answer.content = answer.read()
    connection.close()
    return answer


@pytest.fixture
def monitor(played):
    return RunMonitor(played("climb", "slip", "crash"))


def test_the_page_and_what_it_shows_are_served_with_headers_that_keep_it_shut(monitor):
    with serving(MonitorServer(monitor)) as server:
        for path, kind in (
            ("/", "text/html"),
            ("/static/monitor.js", "text/javascript"),
            ("/static/monitor.css", "text/css"),
            ("/api/status", "application/json"),
            ("/api/rows/1", "application/json"),
        ):
            answer = ask(server, path)
            assert answer.status == 200
            assert answer.headers["content-type"].startswith(kind)
            for name, value in HEADERS:
                assert answer.headers[name.decode()] == value.decode()
        status = json.loads(ask(server, "/api/status").content)
        assert status["cells"] == "+-e"
        assert status["counts"] == {"success": 1, "failure": 1, "env_error": 1}
        row = json.loads(ask(server, "/api/rows/1").content)
        assert (row["task"], row["tries"][0]["outcome"]) == ("slip", "failure")
        for missing in ("api/rows/3", "static/monitor.html", "static/..%2fpage.py", "nothing"):
            assert ask(server, f"/{missing}").status == 404


def test_who_asks_by_another_name_or_wants_to_change_something_is_refused(monitor):
    with serving(MonitorServer(monitor)) as server:
        port = httpx.URL(server.url).port
        for name in ("evil.example", f"evil.example:{port}", "", "127.0.0.1.evil.example"):
            assert ask(server, Host=name).status == 421
        for name in ("localhost", f"localhost:{port}", "[::1]", f"127.0.0.1:{port}"):
            assert ask(server, Host=name).status == 200
        for site in ("cross-site", "same-site"):
            headers = {"Sec-Fetch-Site": site}
            assert ask(server, "/api/status", **headers).status == 403
            assert ask(server, "/static/monitor.js", **headers).status == 403
            assert ask(server, "/", **headers).status == 200  # By a link.
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert ask(server, "/api/status", method=method).status == 405


def test_an_address_that_others_reach_asks_for_a_token(monitor):
    server = MonitorServer(monitor, host="0.0.0.0")
    url = httpx.URL(server.url).copy_with(host="127.0.0.1")
    token = url.params["token"]
    assert len(token) >= 32
    with serving(server), httpx.Client(base_url=url.copy_with(query=None)) as client:
        assert client.get("/").status_code == 401
        assert client.get("/api/status").status_code == 401
        assert client.get("/", params={"token": "wrong"}).status_code == 401
        assert client.get("/", params={"token": token[:-1]}).status_code == 401
        entered = client.get("/", params={"token": token})
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        assert "HttpOnly; SameSite=Strict" in entered.headers["set-cookie"]
        assert client.get("/api/status").status_code == 200  # By the cookie.
        name = f"webtraj-monitor-{url.port}"
        assert name in entered.headers["set-cookie"]
        bad = (f"{name}=".encode() + b"\xe4\xff", name, b"=;;=", b"\xff=\xfe", f"{name}={token}x")
        for cookie in bad:
            assert ask(server, Cookie=cookie).status == 401


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_an_address_of_another_machine_is_refused(monitor, host):
    with pytest.raises(errors.InvalidInputError, match="Name an address of this machine"):
        MonitorServer(monitor, host=host)


@pytest.mark.parametrize("token", ["", "short", "quite long; but no token"])
def test_a_token_that_keeps_nobody_out_is_refused(monitor, token):
    with pytest.raises(errors.InvalidInputError, match="16 characters"):
        MonitorServer(monitor, token=token)


def test_many_who_ask_at_once_are_one_look(monitor, monkeypatch):
    looks = []
    look = RunMonitor.look

    def counted(self):
        looks.append(1)
        return look(self)

    monkeypatch.setattr(RunMonitor, "look", counted)
    with serving(MonitorServer(monitor, every=3600)) as server:
        assert {ask(server, "/api/status").status for _ in range(20)} == {200}
    assert len(looks) == 1


@pytest.mark.browser
@pytest.mark.slow
def test_a_browser_follows_a_run_and_runs_nothing_that_tasks_are_called(
    held_rollout, wait, tmp_path
):
    from playwright.sync_api import expect, sync_playwright

    from webtraj.rollouts.browsers import Browsers

    rollout = held_rollout("climb", "crash", "hold-act", HOSTILE)
    monitor = rollout.monitor()
    wait(monitor, lambda seen: seen.cells == "+ea+")
    said = []
    with serving(MonitorServer(monitor, every=0.05)) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=Browsers().find().path)
        page = browser.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(server.url)
        expect(page.locator("#legend")).to_contain_text("acting 1")
        expect(page.locator("#writer")).to_have_text("playing")
        expect(page.locator("#underway tbody tr")).to_have_count(1)
        expect(page.locator("#faults")).to_contain_text("the <i>ladder</i> broke")
        expect(page.locator("#sites")).to_contain_text(HOSTILE)
        page.locator("#grid").focus()
        for _ in range(4):
            page.keyboard.press("ArrowRight")
        expect(page.locator("#row")).to_contain_text(f"row 3: {HOSTILE}")
        rollout.open("hold-act")
        expect(page.locator("#writer")).to_have_text("over")
        expect(page.locator("#underway")).to_contain_text("Nothing is under way.")
        expect(page).to_have_title(f"4/4 · {monitor.run_id}")
        assert not page.query_selector_all("td img, td script, td i")
        browser.close()
    rollout.finish()
    assert said == []
    assert all(url.startswith((server.url, "data:")) for url in asked)
