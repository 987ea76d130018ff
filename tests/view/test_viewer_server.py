"""The viewer over real HTTP: what it answers, and to whom."""

import dataclasses
import hashlib
import os
import re
import signal
import subprocess
import sys

import httpx
import numpy as np
import pytest
from viewer_server_support import (
    HEADERS,
    HOSTILE,
    SVG,
    get,
    picture,
    rich_episode,
    served,
    small_episode,
    write,
)

import webtraj
from removal import remove
from webtraj import errors
from webtraj.agents.models import Message
from webtraj.testing.fakes import CatchEnvironment
from webtraj.trajectory import EpisodeInfo, ModelCall
from webtraj.view.app import serving
from webtraj.view.episode import call_data
from webtraj.view.values import Values
from webtraj.view.viewer import Viewer

EVERY_PATH = [
    "/",
    "/static/app.js",
    "/static/nothing.js",
    "/api/datasets",
    "/api/episodes",
    "/api/episodes/d/rich",
    "/api/episodes/d/nothing",
    "/api/changes",
    "/nothing",
]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """A dataset that tests leave as it is."""
    return write(tmp_path_factory.mktemp("viewed") / "d", rich_episode(), small_episode(1))


async def test_every_answer_is_shut(dataset):
    async with served(dataset) as (client, _):
        for path in EVERY_PATH:
            reply = await client.get(path)
            policy = reply.headers["content-security-policy"]
            assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy, path
            assert "connect-src 'self'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert reply.headers["referrer-policy"] == "no-referrer"
            assert reply.headers["cross-origin-resource-policy"] == "same-origin"
            assert "access-control-allow-origin" not in reply.headers
            assert "server" not in reply.headers


HOSTS = {
    "127.0.0.1:{port}": 200,
    "localhost:{port}": 200,
    "LOCALHOST": 200,
    "[::1]:9000": 200,  # A port that is forwarded has another number.
    "evil.example": 421,
    "127.0.0.1.evil.example:{port}": 421,
    "localhost.evil.example": 421,
    "10.0.0.1": 421,
    "": 421,
}
WHO_ASKS = [
    ({"Sec-Fetch-Site": "same-origin"}, 200),
    ({"Sec-Fetch-Site": "none"}, 200),
    ({"Sec-Fetch-Site": "cross-site"}, 403),
    ({"Sec-Fetch-Site": "same-site"}, 403),
    ({"Origin": "http://evil.example"}, 403),
    ({"Origin": "null"}, 403),
]


async def test_it_answers_to_its_own_names_and_pages(dataset):
    async with served(dataset) as (client, _):
        for host, status in HOSTS.items():
            given = host.format(port=client.base_url.port)
            reply = await client.get("/api/datasets", headers={"Host": given})
            assert reply.status_code == status, host
        for headers, status in WHO_ASKS:
            reply = await client.get("/api/datasets", headers=headers)
            assert reply.status_code == status, headers
        # A link from elsewhere leads to the page.
        cross_site = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert (await client.get("/", headers=cross_site)).status_code == 200


async def test_a_token_is_given_once_and_is_a_cookie_from_then_on(dataset):
    async with served(dataset, token="a-token-of-enough-length", enter=False) as (client, url):
        assert url.endswith("/?token=a-token-of-enough-length")
        for path in EVERY_PATH:
            assert (await client.get(path)).status_code == 401
        assert (await client.get("/?token=a-token-of-other-length")).status_code == 401
        # The token is for opening the page alone.
        in_api = await client.get("/api/datasets?token=a-token-of-enough-length")
        assert in_api.status_code == 401
        let_in = await client.get(url)
        assert (let_in.status_code, let_in.headers["location"]) == (303, "/")
        cookie = let_in.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        assert (await client.get("/api/datasets")).status_code == 200


async def test_an_address_that_others_reach_has_a_token(dataset):
    async with served(dataset, host="0.0.0.0", enter=False) as (client, url):
        token = re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=([\w-]{32})", url)
        assert token, url
        assert (await client.get("/api/datasets")).status_code == 401
        await client.get(url)
        for host, status in (("192.0.2.7:80", 200), ("[2001:db8::1]", 200), ("evil.example", 421)):
            reply = await client.get("/api/datasets", headers={"Host": host})
            assert reply.status_code == status, host


@pytest.mark.parametrize("token", ["", "short", "a-token-of-enough;length"])
async def test_a_token_that_keeps_no_one_out_is_refused(dataset, token):
    with Viewer([dataset]) as viewer, pytest.raises(errors.InvalidInputError, match="token"):
        async with serving(viewer, token=token):
            pass


async def test_the_page_and_its_files_are_there(dataset):
    async with served(dataset) as (client, _):
        page = await client.get("/")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        named = re.findall(r'(?:src|href)="(static/[^"]+)"', page.text)
        assert named
        for path in named:
            reply = await client.get(path)
            assert reply.status_code == 200
            assert reply.headers["content-type"].startswith(("text/javascript", "text/css"))
        hidden = ("..%2fapp.py", "%2e%2e/app.py", "export.html", ".x.js", "__init__.py", "x%00.js")
        for name in hidden:
            assert (await client.get(f"/static/{name}")).status_code == 404, name


async def test_an_episode_is_data_with_all_that_there_is(dataset):
    async with served(dataset) as (client, _):
        data = await get(client, "/api/episodes/d/rich")
    assert data["info"]["goal"] == HOSTILE
    first, clicked, pointed, last = data["steps"]
    assert first["action"] is None
    assert (first["url"], first["viewport"]) == ("http://shop.example/0", [320.0, 240.0])
    assert first["axtree"].startswith('[1] button "Go 0"')
    assert (first["image"]["width"], first["image"]["height"]) == (160, 120)
    assert clicked["action"]["text"] == "click('a')"
    assert clicked["action"]["verb"] == "click"
    assert clicked["action"]["point"] is None
    assert clicked["action"]["box"] == [1.0, 2.0, 3.0, 4.0]
    assert clicked["timings"] == {
        "act": 0.1, "settle": 0.2, "observe": 0.01, "total": 0.4, "model": 0.25,
    }  # fmt: skip
    assert pointed["action"]["point"] == [5.0, 6.0]
    assert pointed["action"]["box"] is None
    assert pointed["action"]["error"] == "covered"
    assert pointed["reward"] is None  # NaN is no number.
    assert last["image"]["width"] == 16
    assert last["observation"] == {}
    (made,) = clicked["decision"]["calls"]
    assert made["reply"] == "click('a')"
    assert made["reasoning"] == "hm"
    assert made["policy_version"] == "w7"
    assert made["tokens"] == [
        {"text": "cl", "id": 5, "logprob": -0.1, "top": [{"token": "go", "logprob": -3.0}]},
        {"text": "ick", "id": 6, "logprob": -0.2, "top": []},
    ]
    assert made["response"]["other"] == "kept"
    said, shown, elsewhere = made["messages"][1]["parts"]
    assert said == {"text": HOSTILE}
    assert shown["image"].startswith("/api/blobs/d/")
    assert "evil.example" in elsewhere["text"]  # Named, and never a picture to be loaded.
    assert "image" not in elsewhere
    assert data["end"]["error"]["message"] == HOSTILE
    assert data["end"]["in_flight_action"]["path"] == [[1.0, 2.0], [3.0, 4.0]]
    assert data["judgements"][0]["evidence"] == {"criteria": [HOSTILE]}
    assert (data["problems"], data["state"], data["label"]) == ([], "", "")


@pytest.mark.parametrize("format_name", ["json", "pb"])
async def test_pictures_are_pictures_and_all_else_is_a_file(tmp_path, format_name):
    place = write(tmp_path / "d", rich_episode(), format=format_name)
    async with served(place) as (client, _):
        data = await get(client, "/api/episodes/d/rich")
        step, last = data["steps"][0], data["steps"][-1]
        shot = await client.get(step["image"]["url"])
        assert shot.headers["content-type"] == "image/jpeg"
        assert shot.content == picture(0)
        assert "immutable" in shot.headers["cache-control"]
        file = await client.get(step["observation"]["file"]["url"])
        assert file.headers["content-type"] == "application/octet-stream"
        assert file.headers["content-disposition"].startswith("attachment")
        assert file.content == SVG
        made = await client.get(last["image"]["url"])
        assert made.headers["content-type"] == "image/png"
    # Also by who has never asked for the episode.
    async with served(place) as (client, _):
        again = await client.get(last["image"]["url"])
        assert again.content == made.content


NOT_THERE = [
    ("/api/episodes/d/nothing", 404),
    ("/api/episodes/nothing/rich", 404),
    ("/api/episodes/d/..%2f..%2fetc%2fpasswd", 404),
    ("/api/episodes/d/%00", 404),
    (f"/api/blobs/d/{'0' * 64}.png?episode=rich&size=3", 422),
    (f"/api/blobs/d/{'0' * 64}.png?episode=rich", 404),
    (f"/api/blobs/d/{'0' * 64}.png", 404),
    ("/api/blobs/d/..%2fdataset.json?episode=rich", 404),
    ("/api/blobs/d/short.png?episode=rich", 404),
    (f"/api/blobs/d/{'0' * 64}.png?episode=rich&size=-1", 400),
    ("/api/episodes?sort=nothing", 400),
    ("/api/episodes?limit=0", 400),
    ("/api/episodes?limit=1001", 400),
    ("/api/episodes?offset=-1", 400),
    ("/api/episodes?min_reward=nan", 400),
    ("/api/episodes?nothing=1", 400),
]


async def test_what_is_not_there_is_told(dataset):
    async with served(dataset) as (client, _):
        for path, status in NOT_THERE:
            reply = await client.get(path)
            assert reply.status_code == status, path
            assert reply.json()["error"]


async def test_damage_is_told_where_it_is_and_the_rest_is_shown(tmp_path):
    dataset = write(tmp_path / "d", rich_episode(), small_episode(1))
    shot = hashlib.sha256(picture(0)).hexdigest()
    (tmp_path / "d/blobs" / shot[:2] / f"{shot}.jpg").write_bytes(b"other")
    (tmp_path / "d/episodes/e1.json").write_bytes(b"{")
    async with served(dataset) as (client, _):
        data = await get(client, "/api/episodes/d/rich")
        broken = await client.get("/api/episodes/d/e1")
        assert (await get(client, "/api/episodes"))["total"] == 2
    assert data["steps"][0]["image"]["url"] == ""
    assert "damaged" in data["problems"][0]
    assert data["steps"][1]["image"]["width"] == 160
    assert broken.status_code == 422


@pytest.mark.parametrize(
    "make", [webtraj.JsonTrajectoryCollector, webtraj.ProtobufTrajectoryCollector]
)
async def test_an_episode_is_seen_while_it_is_recorded(tmp_path, make):
    place = tmp_path / "d"
    async with (
        make(place, fsync="never") as collector,
        served(str(place)) as (client, _),
    ):
        assert (await get(client, "/api/episodes"))["total"] == 0
        before = await get(client, "/api/changes", since="")
        env = webtraj.TrajectoryCollectingEnvironment(
            CatchEnvironment(), collector, episode_info=EpisodeInfo(task="catch", goal="g")
        )
        await env.reset()
        after = await get(client, "/api/changes", since=before["version"])
        assert after["changed"]
        (told,) = after["datasets"]
        assert told["writing"]
        (row,) = (await get(client, "/api/episodes"))["rows"]
        assert (row["outcome"], row["steps"], row["task"]) == ("running", 0, "catch")
        assert told["open"] == [row["id"]]
        timestep = await env.step(1)
        assert (await get(client, "/api/episodes"))["rows"][0]["steps"] == 1
        data = await get(client, f"/api/episodes/d/{row['id']}")
        assert (data["state"], data["end"], len(data["steps"])) == ("running", None, 2)
        assert (await get(client, "/api/datasets"))["datasets"][0]["writing"]
        while not timestep.last():
            timestep = await env.step(1)
        await collector.flush()
        page = await get(client, "/api/episodes")
        assert (page["total"], page["rows"][0]["end_reason"]) == (1, "terminated")
        data = await get(client, f"/api/episodes/d/{row['id']}")
        assert (data["state"], data["end"]["reason"]) == ("", "terminated")
        await env.close()


async def test_pictures_are_seen_while_they_are_recorded(tmp_path):
    info = EpisodeInfo(episode_id="open")
    async with (
        webtraj.ProtobufTrajectoryCollector(tmp_path / "d", fsync="never") as collector,
        served(str(tmp_path / "d")) as (client, _),
    ):
        recorder = collector.begin_episode(info)
        for step in rich_episode().steps[:2]:
            recorder.record_step(step)
        data = await get(client, "/api/episodes/d/open")
        reply = await client.get(data["steps"][1]["image"]["url"])
        assert reply.content == picture(1)
        journal = tmp_path / "d/journal/open.jsonl"
        os.utime(journal, (1, 1))
        (row,) = (await get(client, "/api/episodes"))["rows"]
        assert row["state"] == row["outcome"] == "unsealed"
        assert (await get(client, "/api/datasets"))["datasets"][0]["open"] == 1


async def test_what_is_written_and_indexed_anew_is_followed(tmp_path):
    place = write(tmp_path / "d", *map(small_episode, range(3)))
    async with served(place) as (client, _):
        assert (await get(client, "/api/episodes"))["total"] == 3
        first = await get(client, "/api/changes", since="")
        same = await get(client, "/api/changes", since=first["version"])
        assert not same["changed"]
        write(place, small_episode(3), small_episode(4))
        assert (await get(client, "/api/changes", since=first["version"]))["changed"]
        assert (await get(client, "/api/episodes"))["total"] == 5
        remove(place, "e1")
        assert {row["id"] for row in (await get(client, "/api/episodes"))["rows"]} == {
            "e0", "e2", "e3", "e4",
        }  # fmt: skip
        write(place, small_episode(5))
        assert (await get(client, "/api/episodes"))["total"] == 5
        assert (await client.get("/api/episodes/d/e1")).status_code == 404


async def test_a_torn_index_line_is_not_read_before_it_is_whole(tmp_path):
    place = write(tmp_path / "d", small_episode(0))
    other = write(tmp_path / "other", small_episode(1))
    (line,) = [p.read_bytes() for p in (tmp_path / "other/index").glob("*.jsonl")]
    async with served(place) as (client, _):
        index = tmp_path / "d/index/slow.jsonl"
        (tmp_path / "d/episodes/e1.json").write_bytes(
            (tmp_path / "other/episodes/e1.json").read_bytes()
        )
        index.write_bytes(line[:40])
        assert (await get(client, "/api/episodes"))["total"] == 1
        index.write_bytes(line)
        assert (await get(client, "/api/episodes"))["total"] == 2
        assert (await get(client, "/api/episodes/d/e1"))["info"]["task"] == "t1"
    assert other


async def test_an_index_that_cannot_be_read_is_told_and_read_whole_later(tmp_path):
    place = write(tmp_path / "d", *map(small_episode, range(3)))
    async with served(place) as (client, _):
        newer = tmp_path / "d/index/newer.jsonl"
        newer.write_bytes(b'{"schema_version": 99, "episode_id": "e9"}\n')
        move_lines(tmp_path / "d")
        assert (await get(client, "/api/episodes"))["total"] == 3
        assert "newer" in (await get(client, "/api/datasets"))["datasets"][0]["problem"]
        newer.unlink()
        assert (await get(client, "/api/episodes"))["total"] == 3
        assert (await get(client, "/api/datasets"))["datasets"][0]["problem"] == ""
    with Viewer([place]) as viewer:
        assert viewer.datasets()[0]["episodes"] == 3


def move_lines(folder):
    """Moves all lines into another file, as a rebuild does, whatever else is in the index."""
    for number, file in enumerate(folder.glob("index/*-*.jsonl")):
        file.rename(folder / f"index/moved{number}.jsonl")


@pytest.mark.parametrize("s3_server", ["rclone"], indirect=True)
async def test_a_bucket_is_looked_at(bucket_url, bucket_options):
    place = f"{bucket_url}/runs/one"
    write(place, rich_episode(), storage_options=bucket_options)
    async with served(place, storage_options=bucket_options) as (client, _):
        (found,) = (await get(client, "/api/datasets"))["datasets"]
        assert (found["name"], found["place"]) == ("one", place)
        data = await get(client, "/api/episodes/one/rich")
        assert data["steps"][0]["image"]["width"] == 160
        shot = await client.get(data["steps"][0]["image"]["url"])
        assert shot.content == picture(0)
        write(place, small_episode(1), storage_options=bucket_options)
        assert (await get(client, "/api/episodes"))["total"] == 2
        label = {"label": "failure", "note": "n"}
        for episode_id in ("rich", "e1"):
            path = f"/api/labels/one/{episode_id}"
            assert (await client.put(path, json=label, headers=HEADERS)).status_code == 200
    async with served(place, storage_options=bucket_options) as (client, _):
        page = await get(client, "/api/episodes", label="failure")
        assert [row["note"] for row in page["rows"]] == ["n", "n"]


def webtraj_view(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "webtraj", "view", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **options},
    )


@pytest.mark.slow
def test_the_command_serves_until_a_signal(tmp_path):
    write(tmp_path / "runs/train_trajectories/iteration_0001", small_episode(1))
    write(tmp_path / "runs/train_trajectories/iteration_0002", small_episode(1))
    process = webtraj_view(tmp_path / "runs", "--no-open", WEBTRAJ_VIEW_TOKEN="0123456789abcdef")
    try:
        line = process.stdout.readline()
        found = re.fullmatch(r"Viewer at (http://127\.0\.0\.1:\d+/\?token=\w+) .*\n", line)
        assert found, line + process.stderr.read()
        with httpx.Client(trust_env=False, timeout=60) as client:
            assert client.get(found[1], follow_redirects=True).status_code == 200
            names = client.get(httpx.URL(found[1]).join("/api/datasets")).json()["datasets"]
        assert [found["name"] for found in names] == [
            "train-iteration_0001",
            "train-iteration_0002",
        ]
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("", "")
        assert process.returncode == 130
    finally:
        process.kill()
        process.communicate()


def test_a_call_made_with_message_objects_shows_its_messages():
    messages = (Message.of("system", "Act."), Message.of("user", "Press the button"))
    call = ModelCall(model="mine", messages=messages, text="click('1')")
    shown = call_data(Values(lambda blob: ""), call)["messages"]
    assert shown == [
        {"role": "system", "parts": [{"text": "Act."}]},
        {"role": "user", "parts": [{"text": "Press the button"}]},
    ]


def test_tools_results_show_their_pictures_and_texts():
    png = b"\x89PNG\r\n\x1a\n" + b"\0" * 16
    source = {"type": "base64", "media_type": "image/png", "data": png}
    parts = [{"type": "image", "source": source}, {"type": "text", "text": "Page: Shop"}]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": parts}
    screenshot = {"type": "computer_screenshot", "image_url": png}
    output = {"type": "computer_call_output", "call_id": "c1", "output": screenshot}
    call = ModelCall(messages=({"role": "user", "content": [result]}, output))
    anthropic, openai = call_data(Values(lambda blob: ""), call)["messages"]
    assert anthropic["role"] == "user"
    named, shown, said = anthropic["parts"]
    assert "t1" in named["text"]
    assert said == {"text": "Page: Shop"}
    assert openai["role"] == "computer_call_output"
    assert "image" in shown
    assert "image" in openai["parts"][0]
    assert "c1" in openai["parts"][1]["text"]


async def test_integers_that_browsers_would_round_are_sent_as_text(tmp_path):
    seed = 2**63 + 1
    episode = small_episode(1, seed=seed)
    first = dataclasses.replace(
        episode.steps[0],
        observation={"n": -seed, "ids": np.array([2**60 + 1, 7]), "count": 2**53 - 1},
    )
    place = write(tmp_path / "d", dataclasses.replace(episode, steps=(first, *episode.steps[1:])))
    async with served(place) as (client, _):
        row = (await get(client, "/api/episodes"))["rows"][0]
        shown = await get(client, "/api/episodes/d/e1")
    assert (row["seed"], shown["info"]["seed"]) == (str(seed), str(seed))
    assert str(-seed) in str(shown["steps"][0])
    assert f"'{2**60 + 1}', 7" in str(shown["steps"][0])
    assert f"'count': {2**53 - 1}" in str(shown["steps"][0])
