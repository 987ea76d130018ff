"""Sessions that a trainer's threads and event loops share: see trainers/ for the trainers."""

import asyncio
import dataclasses
import functools
import io
import re
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

import webtraj
from webtraj import errors
from webtraj.trajectory import EndReason, Outcome
from webtraj_integrations.sessions import EpisodeFailedError, Sessions, Turn
from webtraj_integrations.trainers import (
    PICTURES,
    SharedSessions,
    again,
    as_data_uri,
    decode_picture,
    first_messages,
    message_of,
    require_reward,
    reward_of,
    task_rows,
)

ROOT = Path(__file__).parents[3]


def test_rows_have_a_seed_each():
    rows = task_rows(["miniwob/click-test", "miniwob/enter-text"], 3, seed=5, env_class="web")
    assert [(row["task"], row["seed"]) for row in rows] == [
        ("click-test", 5),
        ("enter-text", 6),
        ("click-test", 7),
    ]
    assert rows[1]["prompt"] == [{"role": "user", "content": "Task enter-text, seed 6."}]
    assert {row["env_class"] for row in rows} == {"web"}


def test_the_documented_versions_are_the_pinned_ones():
    pinned = {}
    for name in ("openenv", "trainers"):
        file = ROOT / "scripts" / f"{name}_requirements.txt"
        pinned |= re.findall(r"^([\w-]+)==([\d.]+)", file.read_text(), re.MULTILINE)
    page = (ROOT / "docs/trainers.md").read_text()
    for trainer, package in (
        ("TRL", "trl"),
        ("verl", "verl"),
        ("SkyRL", "skyrl-gym"),
        ("OpenEnv", "openenv"),
    ):
        told = re.findall(rf"^\| \[?{trainer}\b[^|]*\| ([\d.]+) \|", page, re.MULTILINE)
        assert {*told} == {pinned[package]}


def test_a_page_is_a_picture_and_its_text():
    seen = io.BytesIO()
    Image.new("RGB", (4, 2), "red").save(seen, "JPEG")
    shown = {"task": "t", "seed": 0, "episode_id": "", "step": 0}
    turn = Turn(**shown, goal="Go.", heading="A (b)", page="[1] link", notices=("It is late.",))
    words = "Goal: Go.\nClick.\nA (b)\n[1] link"
    first = dataclasses.replace(turn, instructions="Click.", image=seen.getvalue())
    row = [{"role": "system", "content": "Be good."}, {"role": "user", "content": "Task t."}]
    system, page = first_messages(row, first, decode_picture)
    assert system == row[0]
    assert page["role"] == "user"
    picture, text = page["content"]
    assert text == {"type": "text", "text": words}
    assert picture.keys() == {"type", "image"}
    assert (picture["image"].mode, picture["image"].size) == ("RGB", (4, 2))
    url = as_data_uri(first.image)["image_url"]["url"]
    assert url.startswith("data:image/jpeg;base64,")
    assert urllib.request.urlopen(url).read() == first.image
    assert message_of(turn, decode_picture)["content"] == "It is late.\nA (b)\n[1] link"


def test_an_unfinished_episode_is_worth_nothing_only_with_a_judge():
    shown = {"task": "t", "goal": "g", "seed": 0, "episode_id": "", "heading": "", "page": ""}
    for step in (0, 1):
        assert reward_of(None, Turn(**shown, step=step, judged=True)) == 0.0
        assert reward_of(None, Turn(**shown, step=step)) is None


@pytest.mark.parametrize(
    ("outcome", "total", "by_outcome", "by_environment"),
    [
        (Outcome.SUCCESS, 0.25, 1.0, 0.25),
        (Outcome.FAILURE, -0.5, 0.0, -0.5),
        (Outcome.FAILURE, 0.75, 0.0, 0.75),
        (Outcome.ENV_ERROR, 0.0, None, None),
        (Outcome.JUDGE_ERROR, 1.0, None, None),
        (Outcome.BLOCKED, 0.0, None, None),
    ],
)
def test_trainers_learn_from_the_outcome_unless_asked(outcome, total, by_outcome, by_environment):
    shown = {"task": "t", "goal": "g", "seed": 0, "episode_id": "", "heading": "", "page": ""}
    turn = Turn(**shown, step=1, reward=total, done=True, judged=True, outcome=outcome)
    for kind, wanted in (("outcome", by_outcome), ("environment", by_environment)):
        session = Sessions("miniwob/click-test", reward=kind).session()
        session._turn, session._total = turn, total
        found = reward_of(session, turn)
        assert found == wanted
        if found is None:  # Played again: a failure of the machinery is never a reward.
            with pytest.raises(EpisodeFailedError):
                require_reward(found, turn)
    with pytest.raises(errors.InvalidInputError, match="Unknown reward"):
        Sessions("miniwob/click-test", reward="shaped")


async def test_a_failed_episode_is_played_again():
    failure = EpisodeFailedError("The browser died.", Outcome.ENV_ERROR)
    results = [failure, failure, "played"]

    async def play():
        result = results.pop(0)
        if result is failure:
            raise failure
        return result

    assert await again(play) == "played"
    results += [failure] * 4
    with pytest.raises(EpisodeFailedError):
        await again(play)
    assert len(results) == 1


@pytest.mark.browser
def test_threads_and_loops_play_in_one_pool(tmp_path):
    def play(shared, seed):
        session = shared.sessions.session()
        turn = shared.run(functools.partial(session.reset, seed=seed))
        shared.run(session.close)
        return turn.seed

    async def arun(shared):
        session = shared.sessions.session()
        async with shared.room():
            turn = await shared.arun(functools.partial(session.reset, seed=4))
        shared.leave(session)
        return turn.seed

    with SharedSessions("miniwob/click-test", sessions=4, out=tmp_path / "out") as shared:
        assert shared.sessions.pictures == PICTURES
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(functools.partial(play, shared), range(4))) == [0, 1, 2, 3]
        assert [asyncio.run(arun(shared)) for _ in range(2)] == [4, 4]
    assert sorted(one.info.seed for one in webtraj.open_dataset(tmp_path / "out")) == [
        *range(5),
        4,
    ]


@pytest.mark.browser
def test_the_process_seals_what_nobody_closed(tmp_path):
    program = """
import functools
import sys
from webtraj_integrations.trainers import shared_sessions

shared = shared_sessions(presets="miniwob/click-test", out=sys.argv[1])
session = shared.sessions.session()
shared.run(functools.partial(session.reset, seed=1))
"""
    subprocess.run([sys.executable, "-c", program, tmp_path / "out"], check=True, timeout=120)
    [episode] = webtraj.open_dataset(tmp_path / "out")
    assert episode.end.reason is EndReason.CLOSED
