"""A rollout in the viewer while it runs: a real server, asked over HTTP and by a real browser."""

import contextlib
import re
import signal
import subprocess
import sys

import httpx
import pytest
from anyio.from_thread import start_blocking_portal

from rows import each
from webtraj import errors
from webtraj.view import RunMonitor
from webtraj.view.app import serving
from webtraj.view.viewer import Viewer

HOSTILE = "<img src=x onerror=\"document.title='hit'\"><script>document.title='hit'</script>"


@contextlib.contextmanager
def served(out):
    """Serves a dataset in a thread of its own, and yields the URL."""
    with (
        Viewer([out]) as viewer,
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serving(viewer)) as url,
    ):
        yield url


@pytest.fixture
def client(played):
    """Asks the viewer of a rollout that was played to its end."""
    with (
        served(played("climb", "slip", "crash")) as url,
        httpx.Client(base_url=httpx.URL(url).copy_with(query=None), trust_env=False) as client,
    ):
        client.get(url)
        yield client


def test_a_run_is_told_with_its_rows(client):
    (dataset,) = client.get("/api/datasets").json()["datasets"]
    status = client.get("/api/runs/data").json()
    assert dataset["runs"] == [status["run_id"]]
    assert status["cells"] == "+-e"
    assert status["counts"] == {"success": 1, "failure": 1, "env_error": 1}
    row = client.get("/api/runs/data/rows/1", params={"run": status["run_id"]}).json()
    assert (row["task"], row["tries"][0]["outcome"]) == ("slip", "failure")


@each(
    ("path", "status", "told"),
    [
        ("nothing", 404, "No dataset 'nothing'"),
        ("data?run=another", 400, "No run 'another'"),
        ("data?run=..%2f..%2fx", 400, "Invalid run id '../../x'"),
        ("data/rows/3", 400, "rows 0 to 2"),
        ("data/rows/x", 404, "No such page"),
    ],
)
def test_what_is_not_there_is_told(client, path, status, told):
    answer = client.get(f"/api/runs/{path}")
    assert answer.status_code == status
    assert told in answer.json()["error"]


def test_a_dataset_without_a_rollout_has_no_run(tmp_path):
    from webtraj.datasets.writer import DatasetWriter

    DatasetWriter(tmp_path / "data").close()
    with Viewer([str(tmp_path / "data")]) as viewer:
        assert viewer.datasets()[0]["runs"] == []
        with pytest.raises(errors.InvalidInputError, match="No run in"):
            viewer.run("data")


def test_a_later_run_takes_the_place_of_the_one_before(played):
    with Viewer([out := played("climb")]) as viewer:
        first = viewer.run("data")
        assert first["cells"] == "+"
        played("slip", "slip", out=out)
        assert viewer.run("data")["cells"] == "--"
        assert viewer.run("data", first["run_id"])["cells"] == "+"


@pytest.mark.slow
def test_the_command_serves_until_a_signal(played):
    run = RunMonitor(out := played("climb")).run_id
    command = [sys.executable, "-W", "error", "-m", "webtraj", "view", out, "--run", run]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        address = r"(http://127\.0\.0\.1:\d+/\?token=[\w-]+)#/run\?run=\S+"
        found = re.fullmatch(rf"Viewer at {address} \(Ctrl-C to stop\)\n", line)
        assert found, line
        with httpx.Client(trust_env=False) as client:
            client.get(found[1])
            told = client.get(httpx.URL(found[1]).join("/api/runs/data")).json()
        assert told["cells"] == "+"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 128 + signal.SIGINT
    finally:
        process.kill()
        process.communicate()


@pytest.mark.browser
@pytest.mark.slow
def test_a_run_links_to_the_others(played):
    from playwright.sync_api import expect, sync_playwright

    from webtraj.rollouts.episode_environment import Browsers

    out = played("climb")
    first = RunMonitor(out).run_id
    played("slip", "slip", out=out)
    with served(out) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=Browsers().find().path)
        page = browser.new_page()
        page.goto(f"{url}#/run")
        title, other = page.locator("h1 bdi"), page.locator(".other-runs a")
        expect(other).to_have_text([first])
        latest = title.text_content()
        other.click()
        expect(title).to_have_text(first)
        expect(other).to_have_text([latest])
        browser.close()


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.gate
def test_a_browser_follows_a_run_and_runs_nothing_that_tasks_are_called(
    held_rollout, wait, tmp_path
):
    from playwright.sync_api import expect, sync_playwright

    from webtraj.rollouts.episode_environment import Browsers

    rollout = held_rollout("climb", "crash", "hold-act", HOSTILE)
    monitor = rollout.monitor()
    wait(monitor, lambda seen: seen.cells == "+ea+")
    said = []
    with served(rollout.out) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=Browsers().find().path)
        page = browser.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{url}#/run")
        expect(page.locator(".plot-legend")).to_contain_text("acting 1")
        expect(page.locator(".writer")).to_have_text("playing")
        expect(page.locator("[aria-label='Running episodes'] tbody tr")).to_have_count(1)
        expect(page.locator("[aria-label='Errors']")).to_contain_text("the <i>ladder</i> broke")
        expect(page.locator("[aria-label='Slowest sites']")).to_contain_text(HOSTILE)
        page.locator(".run-grid").focus()
        for _ in range(4):
            page.keyboard.press("ArrowRight")
        expect(page.locator(".run-told")).to_contain_text(f"row 3: {HOSTILE}")
        rollout.open("hold-act")
        expect(page.locator(".writer")).to_have_text("over")
        expect(page.locator("[aria-label='Running episodes']")).to_contain_text(
            "No episode is running."
        )
        expect(page).to_have_title(f"4/4 · {monitor.run_id}")
        assert not page.query_selector_all("td img, td script, td i, td h1")
        browser.close()
    rollout.finish()
    assert said == []
    assert all(one.startswith((url.partition("?")[0], "data:")) for one in asked)
