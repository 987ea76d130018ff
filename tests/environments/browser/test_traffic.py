"""Network traffic as HAR: complete, without secrets, readable by others, and replayable."""

import http.server
import json
import threading

import haralyzer
import pytest

import webtraj
from webtraj.datasets.exporters import export_dataset
from webtraj.environments.actions import Click, Fill
from webtraj.environments.browser.access import WebAccess
from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.environments.browser.observation import DEFAULT_CHANNELS, Observe, refs_in
from webtraj.environments.browser.settle_policy import SERVED_PAGE

pytestmark = pytest.mark.asyncio(loop_scope="module")

PASSWORD = "tea & p4nc@kes"
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
LOGIN = """<!doctype html><title>Log in</title><img src=/pixel.png alt="">
<form method=post action=/welcome>
<input name=user aria-label=User><input type=password name=pin aria-label=Password>
<button>Log in</button></form>"""
WELCOME = """<!doctype html><title>Welcome</title><p id=said>...</p><script>
const headers = {Authorization: 'Bearer ' + 't0p' + 'secret-t0ken-1234'};
fetch('/api/tea?api_key=' + 'sk-li' + 've-0123456789abcdefghij', {headers})
  .then(r => r.json()).then(d => { document.getElementById('said').textContent = d.tea })
</script>"""


@pytest.fixture
def site():
    """A site that logs one in; what a server would not like to see recorded is in each answer."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append((self.command, self.path, dict(self.headers), body))
            pages = {
                "/": ("text/html", LOGIN.encode()),
                "/pixel.png": ("image/png", PIXEL),
                "/welcome": ("text/html", WELCOME.encode()),
                "/api/tea": ("application/json", b'{"tea": "Assam"}'),
            }
            kind, content = pages.get(self.path.partition("?")[0], ("text/plain", b""))
            self.send_response(200 if content else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Set-Cookie", "session=c00kie-v4lue-of-a-session")
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self):
            self.answer()

        def do_POST(self):
            self.answer()

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever).start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    server.server_close()


async def log_in(pool, url, folder, observe):
    """Records an episode that logs in at the site; returns the dataset."""
    env = BrowserEnvironment(
        webtraj.WebTask(goal="Log in", start_url=f"{url}/"),
        pool=pool,
        observe=observe,
        policy=WebAccess(),
        settle=SERVED_PAGE,
        max_steps=3,
    )
    async with (
        webtraj.JsonTrajectoryCollector(folder, fsync="never") as collector,
        webtraj.TrajectoryCollectingEnvironment(env, collector) as env,
    ):
        timestep = await env.reset()
        found = {ref.name: ref.ref for ref in refs_in(timestep.observation["axtree"]) if ref.name}
        await env.step(Fill(found["User"], "ann"))
        await env.step(Fill(found["Password"], PASSWORD))
        await env.step(Click(found["Log in"]))
    return webtraj.open_dataset(folder)


def har_of(dataset, out):
    report = export_dataset(dataset, out, format="har")
    assert (report.left_out, report.notes) == ((), ())
    (path,) = out.glob("*.har")
    return path


@pytest.mark.smoke
async def test_an_episodes_traffic_is_a_har_that_others_read_and_replay(pool, site, tmp_path):
    url, seen = site
    observe = Observe((*DEFAULT_CHANNELS, "network"), body_limit=100_000)
    dataset = await log_in(pool, url, tmp_path / "data", observe)
    path = har_of(dataset, tmp_path / "har")

    parsed = haralyzer.HarParser(json.loads(path.read_text()))
    assert parsed.version == "1.2"
    assert [page.page_id for page in parsed.pages] == ["step_0", "step_3"]
    assert [
        (entry.request.method, entry.request.url, entry.status) for entry in parsed.pages[1]
    ] == [
        ("POST", f"{url}/welcome", 200),
        ("GET", f"{url}/api/tea?api_key=<hidden>", 200),
    ]
    assert parsed.pages[0].url == f"{url}/"
    assert all(entry.time >= 0 for page in parsed.pages for entry in page)

    # The server is not asked again: Playwright answers from the file.
    before = len(seen)
    lease = await pool.lease(owner="replay")
    try:
        await lease.context.route_from_har(path, not_found="abort")
        await lease.page.goto(f"{url}/")
        assert await lease.page.title() == "Log in"
        width = (
            "async () => { const i = document.images[0]; await i.decode(); return i.naturalWidth }"
        )
        assert await lease.page.evaluate(width) == 1
    finally:
        await lease.release()
    assert len(seen) == before


@pytest.mark.gate
async def test_secrets_are_in_no_file(pool, site, tmp_path):
    url, seen = site
    observe = Observe((*DEFAULT_CHANNELS, "network"), body_limit=100_000)
    dataset = await log_in(pool, url, tmp_path / "data", observe)
    har_of(dataset, tmp_path / "har")
    sent = str(seen)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in (b"c00kie-v4lue", b"t0psecret", b"sk-live-0123", b"p4nc", b"p4nc%40kes"):
        assert secret not in stored
    for secret in ("c00kie-v4lue", "t0psecret", "sk-live-0123", "p4nc%40kes"):
        assert secret in sent  # So they were there to be found.
    assert b"user=ann" in stored


async def test_bodies_are_recorded_only_if_asked_for(pool, site, tmp_path):
    dataset = await log_in(pool, site[0], tmp_path / "data", (*DEFAULT_CHANNELS, "network"))
    log = json.loads(har_of(dataset, tmp_path / "har").read_text())["log"]
    assert len(log["entries"]) >= 4
    assert not any("postData" in entry["request"] for entry in log["entries"])
    assert not any("text" in entry["response"]["content"] for entry in log["entries"])


async def test_an_episode_without_traffic_is_left_out_and_a_damaged_line_is_told(
    pool, open_page, tmp_path
):
    env = open_page("<p>hi</p>")
    async with (
        webtraj.JsonTrajectoryCollector(tmp_path / "data", fsync="never") as collector,
        webtraj.TrajectoryCollectingEnvironment(env, collector) as env,
    ):
        await env.reset()
    dataset = webtraj.open_dataset(tmp_path / "data")
    report = export_dataset(dataset, tmp_path / "none", format="har")
    assert "--set har=true" in report.left_out[0].why

    def damage(episode):
        (step,) = episode.steps
        step.observation["network"] = '{"startedDateTime": "2026-01-01T00:00:00Z"}\n{broken\n3\n'
        return episode

    report = export_dataset(dataset, tmp_path / "some", format="har", transform=damage)
    assert [(note.field, note.count) for note in report.notes] == [("steps.observation.network", 2)]
    (path,) = (tmp_path / "some").glob("*.har")
    assert len(json.loads(path.read_text())["log"]["entries"]) == 1
