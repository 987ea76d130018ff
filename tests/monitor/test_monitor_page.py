"""The monitor's page: a real server, asked over HTTP and by a real browser."""

import contextlib
import http.client
import json
import re
import signal
import subprocess
import sys

import httpx
import pytest
from anyio.from_thread import start_blocking_portal

from webtraj import errors
from webtraj.local_pages import HEADERS
from webtraj.monitor import RunMonitor
from webtraj.monitor.page import serving

HOSTILE = "<img src=x onerror=\"document.title='hit'\"><script>document.title='hit'</script>"


@contextlib.contextmanager
def served(monitor, **options):
    """Serves in a thread of its own, and yields the URL."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(monitor, **options)) as url,
    ):
        yield httpx.URL(url)


def ask(url, path="/", *, method="GET", **headers):
    """Asks as no client that is careful would: with any header."""
    connection = http.client.HTTPConnection(url.host, url.port, timeout=30)
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
    with served(monitor) as url:
        for path, kind in (
            ("/", "text/html"),
            ("/static/monitor.js", "text/javascript"),
            ("/static/monitor.css", "text/css"),
            ("/api/status", "application/json"),
            ("/api/rows/1", "application/json"),
        ):
            answer = ask(url, path)
            assert answer.status == 200
            assert answer.headers["content-type"].startswith(kind)
            for name, value in HEADERS:
                assert answer.headers[name.decode()] == value.decode()
        status = json.loads(ask(url, "/api/status").content)
        assert status["cells"] == "+-e"
        assert status["counts"] == {"success": 1, "failure": 1, "env_error": 1}
        row = json.loads(ask(url, "/api/rows/1").content)
        assert (row["task"], row["tries"][0]["outcome"]) == ("slip", "failure")
        for missing in ("api/rows/3", "static/monitor.html", "static/..%2fpage.py", "nothing"):
            assert ask(url, f"/{missing}").status == 404


def test_who_asks_by_another_name_or_wants_to_change_something_is_refused(monitor):
    with served(monitor) as url:
        for name in ("evil.example", f"evil.example:{url.port}", "", "127.0.0.1.evil.example"):
            assert ask(url, Host=name).status == 421
        for name in ("localhost", f"localhost:{url.port}", "[::1]", f"127.0.0.1:{url.port}"):
            assert ask(url, Host=name).status == 200
        for site in ("cross-site", "same-site"):
            headers = {"Sec-Fetch-Site": site}
            assert ask(url, "/api/status", **headers).status == 403
            assert ask(url, "/static/monitor.js", **headers).status == 403
            assert ask(url, "/", **headers).status == 200  # By a link.
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert ask(url, "/api/status", method=method).status == 405


def test_an_address_that_others_reach_asks_for_a_token(monitor):
    with (
        served(monitor, host="0.0.0.0") as url,
        httpx.Client(base_url=url.copy_with(query=None), trust_env=False) as client,
    ):
        token = url.params["token"]
        assert len(token) >= 32
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
            assert ask(url, Cookie=cookie).status == 401


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_an_address_of_another_machine_is_refused(monitor, host):
    refused = pytest.raises(errors.InvalidInputError, match="Choose an address of this machine")
    with refused, served(monitor, host=host):
        pass


@pytest.mark.parametrize("token", ["", "short", "quite long; but no token"])
def test_a_token_that_keeps_nobody_out_is_refused(monitor, token):
    refused = pytest.raises(errors.InvalidInputError, match="16 characters")
    with refused, served(monitor, token=token):
        pass


def test_many_who_ask_at_once_are_one_look(monitor, monkeypatch):
    looks = []
    look = RunMonitor.look

    def counted(self):
        looks.append(1)
        return look(self)

    monkeypatch.setattr(RunMonitor, "look", counted)
    with served(monitor, every=3600) as url:
        assert {ask(url, "/api/status").status for _ in range(20)} == {200}
    assert len(looks) == 1


@pytest.mark.slow
def test_the_command_serves_until_a_signal(played):
    command = [sys.executable, "-W", "error", "-m", "webtraj", "monitor", played("climb"), "--web"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        found = re.fullmatch(
            r"Monitor of \S+ at (http://127\.0\.0\.1:\d+/) \(Ctrl-C to stop\)\n", line
        )
        assert found, line
        assert json.loads(ask(httpx.URL(found[1]), "/api/status").content)["cells"] == "+"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.browser
@pytest.mark.slow
def test_a_browser_follows_a_run_and_runs_nothing_that_tasks_are_called(
    held_rollout, wait, tmp_path
):
    from playwright.sync_api import expect, sync_playwright

    from webtraj.rollouts.making import Browsers

    rollout = held_rollout("climb", "crash", "hold-act", HOSTILE)
    monitor = rollout.monitor()
    wait(monitor, lambda seen: seen.cells == "+ea+")
    said = []
    with served(monitor, every=0.05) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=Browsers().find().path)
        page = browser.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(str(url))
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
        expect(page.locator("#underway")).to_contain_text("No episode is running.")
        expect(page).to_have_title(f"4/4 · {monitor.run_id}")
        assert not page.query_selector_all("td img, td script, td i")
        browser.close()
    rollout.finish()
    assert said == []
    assert all(one.startswith((str(url), "data:")) for one in asked)
