"""What storing web episodes takes, beside AgentLab's and WebGym's way of storing the same.

    make bench-storage        (or: .venv/bin/python benchmarks/storage.py [--quick])

Real episodes are recorded first: MiniWoB++ and fixture-site tasks, played by the oracle in a real
browser, with screenshot, set of marks and axtree. Each decision holds a model call whose context is
the goal and the last five screenshots with their trees, as vision agents send them. Then:

1. Bytes a step and steps/s of writing, the same episodes and the same PNG files each way. webtraj
   waits for the disk once an episode and keeps a journal; the peers' ways do neither. WebGym keeps
   no sets of marks, so there is a line without them, and one with JPEGs, webtraj's default.
   * AgentLab: a folder an episode, `step_{k}.pkl.gz`, `screenshot_step_{k}.png`,
     `screenshot_som_step_{k}.png`, `summary_info.json`. The chat that an agent keeps for each step
     stands in that step's pickle, its images as base64. Without the page's source, which AgentLab
     stores and webtraj does not.
   * WebGym: a list of steps by `torch.save`, a PNG a step beside it; the prompt of each step as
     JSON text, its images by path.
2. S3: plain obstore puts of some objects to `rclone serve s3`; the same with what a push must do as
   well, reading the files and hashing what is sent and what arrived; beside that, `webtraj push` of
   a spool that holds the same episodes, and the collector from the first step on. Then an endpoint
   that is absent: how long until a command names it.
3. One step, or one episode, read at random.
4. A scan over all steps of many small episodes, beside `torch.load` of the same as `.pt`; copying
   those episodes, and opening an index of many lines beside as many files.

torch runs in `.venv-torch`, made on the first run; without a network its figures are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import dataclasses
import functools
import gzip
import hashlib
import io
import json
import logging
import os
import pickle
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table

import peers
import webtraj
from process_tree import ProcessTree
from webtraj.agents.oracle import OracleAgent
from webtraj.collectors import Pauses
from webtraj.datasets import push
from webtraj.datasets.transfer import convert
from webtraj.environments.browser.observation import Observe
from webtraj.store.index import EpisodeSummary, IndexWriter
from webtraj.store.layout import DatasetLayout
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    Outcome,
    StepRecord,
    StepType,
)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
import fixture_site
from bucket_servers import S3Server

MINIWOB = (
    "login-user", "click-checkboxes", "book-flight", "email-inbox", "use-autocomplete",
    "search-engine", "enter-date", "social-media", "choose-list", "buy-ticket", "click-tab-2",
    "count-shape",
)  # fmt: skip
CHANNELS = ("goal", "url", "axtree", "screenshot", "set_of_marks", "focused", "last_action", "info")
CONTEXT = 5
NO_MARKS = "webtraj json, no marks"
JPEG = "the same, JPEG (default)"
AT_MOST, AT_LEAST = 0.5, 0.8
"""Limits: bytes a step beside AgentLab's, and the share of plain puts that a push has."""
OPEN, NAMED = 0.3, 20.0
"""Limits: seconds of CPU to open 100,000 episodes, and seconds to name an absent endpoint."""
TORCH = ("torch==2.13.0+cpu", "numpy")
SYSTEM = "You act in a browser. Answer with one action for the page that you see. " * 20


class Watching:
    """The oracle, as if it were a model with the last screenshots in its context."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._seen: list[dict[str, Any]] = []

    async def act(self, observation: Any) -> webtraj.Decision:
        content = [
            {"type": "text", "text": observation["axtree"]},
            {"type": "image", "image": observation["screenshot"]},
        ]
        self._seen = [*self._seen, {"role": "user", "content": content}][-CONTEXT:]
        decision = await self._inner.act(observation)
        call = webtraj.ModelCall(
            model="oracle",
            messages=(
                {"role": "system", "content": SYSTEM + observation["goal"]},
                *self._seen,
            ),
            text=f"The next action is {decision.action}.",
            finish_reason="stop",
            usage={"prompt_tokens": 9000, "completion_tokens": 12},
        )
        return dataclasses.replace(decision, thought=call.text, model_calls=(call,))


async def record(names: Sequence[str]) -> list[EpisodeTrajectory]:
    """Plays tasks; returns their episodes."""
    collector = webtraj.MemoryTrajectoryCollector()
    for name in names:
        options: dict[str, Any] = {"observe": Observe(CHANNELS, screenshot_format="png")}
        async with webtraj.make(name, trajectory_collector=collector, **options) as environment:
            timestep = await environment.reset()
            agent = Watching(OracleAgent().begin_episode(environment))
            for _ in range(30):
                if timestep.last():
                    break
                timestep = await environment.step(await agent.act(timestep.observation))
    return list(collector.trajectories)


def encoded_as(image_format: str) -> Callable[[bytes], bytes]:
    """Returns what encodes an image anew, as PIL does by default; each image once."""

    @functools.cache
    def encode(image: bytes) -> bytes:
        with Image.open(io.BytesIO(image)) as opened:
            pixels = opened.convert("RGB")
        file = io.BytesIO()
        pixels.save(
            file, format=image_format, **({"quality": 80} if image_format == "JPEG" else {})
        )
        return file.getvalue()

    return encode


def with_images(value: Any, encode: Callable[[bytes], bytes]) -> Any:
    """Returns a value with its images encoded anew."""
    if isinstance(value, bytes):
        return encode(value) if value else value
    if isinstance(value, dict):
        return {key: with_images(item, encode) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([with_images(item, encode) for item in value])
    if isinstance(value, StepRecord | webtraj.Decision | webtraj.ModelCall | EpisodeTrajectory):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return type(value)(**{k: with_images(item, encode) for k, item in fields.items()})
    return value


def without_marks(episode: EpisodeTrajectory) -> EpisodeTrajectory:
    steps = []
    for step in episode.steps:
        observation = {k: v for k, v in step.observation.items() if k != "set_of_marks"}
        steps.append(dataclasses.replace(step, observation=observation))
    return dataclasses.replace(episode, steps=tuple(steps))


# webtraj's ways.


async def collect(collector: Any, episodes: Sequence[EpisodeTrajectory]) -> None:
    """Hands episodes to a collector as an environment does, step by step."""
    for episode in episodes:
        recorder = collector.begin_episode(episode.info)
        for step in episode.steps:
            await collector.drain()
            if not step.first:
                recorder.record_intent(step.action, decision=step.decision)
            recorder.record_step(step)
        recorder.end_episode(episode.end)
    await collector.aclose()


def by_collector(make: Callable[[Path], Any]) -> Callable[[Path, Sequence[Any]], None]:
    def write(folder: Path, episodes: Sequence[EpisodeTrajectory]) -> None:
        asyncio.run(collect(make(folder), episodes))

    return write


# The peers' ways.


def with_base64(value: Any) -> Any:
    """Returns messages with images as data URLs, as chats hold them in memory."""
    if isinstance(value, bytes):
        return f"data:image/png;base64,{base64.b64encode(value).decode()}"
    if isinstance(value, dict):
        return {key: with_base64(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_base64(item) for item in value]
    return value


def plain_observation(observation: Any) -> dict[str, Any]:
    return {
        "chat_messages": ({"role": "user", "timestamp": 0.0, "message": observation["goal"]},),
        "goal": observation["goal"],
        "goal_object": None,
        "open_pages_urls": (observation["url"],),
        "active_page_index": np.array([0]),
        "url": observation["url"],
        "axtree_txt": observation["axtree"],
        "focused_element_bid": observation["focused"],
        "last_action_error": observation["last_action"]["error"],
        "elapsed_time": np.array([1.0]),
    }


def write_agentlab(folder: Path, episodes: Sequence[EpisodeTrajectory]) -> None:
    for episode in episodes:
        place = folder / f"2026-11-20_oracle_on_{episode.info.task.replace('/', '.')}_{id(episode)}"
        place.mkdir(parents=True)
        following: list[StepRecord | None] = [*episode.steps[1:], None]
        for k, (step, after) in enumerate(zip(episode.steps, following, strict=True)):
            decision = after.decision if after is not None else None
            calls = decision.model_calls if decision is not None else ()
            record = {
                "step": k,
                "obs": plain_observation(step.observation),
                "reward": step.reward or 0.0,
                "terminated": step.last,
                "truncated": False,
                "action": None if after is None else str(after.action),
                "agent_info": {
                    "think": decision.thought if decision is not None else None,
                    "chat_messages": [with_base64(call.messages) for call in calls],
                    "stats": {"n_token": 9000},
                },
                "stats": {},
                "profiling": {"env_start": step.start_time, "env_stop": step.end_time},
            }
            with gzip.open(place / f"step_{k}.pkl.gz", "wb") as file:
                pickle.dump(record, file)
            (place / f"screenshot_step_{k}.png").write_bytes(step.observation["screenshot"])
            (place / f"screenshot_som_step_{k}.png").write_bytes(
                step.observation["set_of_marks"]["image"]
            )
        summary = {"n_steps": episode.num_steps, "cum_reward": episode.total_reward}
        (place / "summary_info.json").write_text(json.dumps(summary))


def webgym_steps(folder: Path, index: int, episode: EpisodeTrajectory) -> list[dict[str, Any]]:
    """Returns an episode's steps as WebGym keeps them, and writes their screenshots."""
    place = folder / "images" / f"task_{index:04d}_0123456789ab"
    place.mkdir(parents=True)
    steps = []
    for k, (step, after) in enumerate(zip(episode.steps, episode.steps[1:], strict=False)):
        path = place / f"step_{k:03d}.png"
        path.write_bytes(step.observation["screenshot"])
        call = after.decision.model_calls[0] if after.decision is not None else None

        def shown(value: Any, path: Path = path) -> Any:
            if isinstance(value, bytes):
                return f"file://{path}"
            if isinstance(value, dict):
                return {key: shown(item) for key, item in value.items()}
            return [shown(item) for item in value] if isinstance(value, list | tuple) else value

        steps.append(
            {
                "observation": {
                    "task": {"task_name": episode.info.goal, "website": episode.info.site},
                    "image_path": str(path),
                    "ac_tree": step.observation["axtree"],
                    "page_metadata": {"title": "", "url": step.observation["url"]},
                },
                "action": {"string": str(after.action)},
                "response": {
                    "raw_response": "" if call is None else call.text,
                    "answering_tokens": {"thought": "", "action": str(after.action)},
                    "raw_prompt": json.dumps(shown(call.messages if call else ()), indent=2),
                },
                "reward": {"reward": after.reward, "is_blocked": False},
            }
        )
    return steps


def write_webgym(folder: Path, episodes: Sequence[EpisodeTrajectory]) -> None:
    # Pickled as torch.save does, which stores what is no tensor as one uncompressed pickle.
    steps = [webgym_steps(folder, index, episode) for index, episode in enumerate(episodes)]
    with (folder / "train_trajectories.pt.iteration1").open("wb") as file:
        pickle.dump({"trajectories": steps, "metadata": {}}, file, protocol=2)


# Measuring.


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def storing(
    episodes: Sequence[EpisodeTrajectory], place: Path, repeats: int
) -> dict[str, tuple[int, float]]:
    """Returns bytes and seconds of each way; leaves what it wrote under `place`."""
    plain = [without_marks(episode) for episode in episodes]
    jpeg = [with_images(episode, encoded_as("JPEG")) for episode in plain]
    given = {NO_MARKS: plain, JPEG: jpeg}
    ways: dict[str, Callable[[Path, Sequence[Any]], None]] = {
        "webtraj json": by_collector(webtraj.JsonTrajectoryCollector),
        "webtraj pb": by_collector(webtraj.ProtobufTrajectoryCollector),
        "webtraj pb.zst": by_collector(
            lambda folder: webtraj.ProtobufTrajectoryCollector(folder, compression="zst")
        ),
        "AgentLab": write_agentlab,
        NO_MARKS: by_collector(webtraj.JsonTrajectoryCollector),
        JPEG: by_collector(webtraj.JsonTrajectoryCollector),
        "WebGym": write_webgym,
    }
    best = dict.fromkeys(ways, float("inf"))
    order = list(ways)
    for repeat in range(repeats):
        random.Random(repeat).shuffle(order)
        for name in order:
            folder = place / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            started = time.perf_counter()
            ways[name](folder, given.get(name, episodes))
            best[name] = min(best[name], time.perf_counter() - started)
    return {name: (size_of(place / name), best[name]) for name in ways}


def reading(place: Path, tries: int) -> dict[str, tuple[float, float]]:
    """Returns the median seconds to read one step's screenshot and text, and one episode."""
    rng = random.Random(0)

    def timed(read: Callable[[], Any]) -> float:
        times = []
        for _ in range(tries):
            started = time.perf_counter()
            read()
            times.append(time.perf_counter() - started)
        return statistics.median(times)

    found: dict[str, tuple[float, float]] = {}
    for name in ("webtraj json", "webtraj pb", "webtraj pb.zst", NO_MARKS, JPEG):
        eager = webtraj.open_dataset(place / name)
        lazy = webtraj.open_dataset(place / name, blobs="lazy")

        def one_step(lazy: Any = lazy) -> Any:
            step = rng.choice(lazy[rng.randrange(len(lazy))].steps)
            image = step.observation["screenshot"]
            return image if isinstance(image, bytes) else image.load()

        found[name] = (
            timed(one_step),
            timed(lambda eager=eager: eager[rng.randrange(len(eager))]),
        )
    folders = sorted((place / "AgentLab").iterdir())

    def agentlab_step(path: Path) -> Any:
        with gzip.open(path, "rb") as file:
            record = pickle.load(file)
        image = path.with_name(path.name.replace("step_", "screenshot_step_", 1))
        return record, image.with_suffix("").with_suffix(".png").read_bytes()

    def agentlab_episode() -> Any:
        return [agentlab_step(path) for path in rng.choice(folders).glob("step_*.pkl.gz")]

    found["AgentLab"] = (
        timed(lambda: agentlab_step(rng.choice(list(rng.choice(folders).glob("step_*.pkl.gz"))))),
        timed(agentlab_episode),
    )

    def webgym_episode() -> Any:
        with (place / "WebGym" / "train_trajectories.pt.iteration1").open("rb") as file:
            steps = rng.choice(pickle.load(file)["trajectories"])
        return steps, [Path(step["observation"]["image_path"]).read_bytes() for step in steps]

    def webgym_step() -> Any:
        with (place / "WebGym" / "train_trajectories.pt.iteration1").open("rb") as file:
            step = rng.choice(rng.choice(pickle.load(file)["trajectories"]))
        return step, Path(step["observation"]["image_path"]).read_bytes()

    found["WebGym"] = timed(webgym_step), timed(webgym_episode)
    return found


@dataclasses.dataclass(frozen=True)
class Cost:
    seconds: float
    cpu: float
    """Processor time, the server's included: a busy machine changes it less."""

    @classmethod
    def of(cls, call: Callable[[], object]) -> Cost:
        started, used = time.perf_counter(), ProcessTree().cpu_seconds()
        call()
        return cls(time.perf_counter() - started, ProcessTree().cpu_seconds() - used)

    @classmethod
    def median(cls, costs: Sequence[Cost]) -> Cost:
        return cls(
            statistics.median(cost.seconds for cost in costs),
            statistics.median(cost.cpu for cost in costs),
        )


def sending(
    episodes: Sequence[EpisodeTrajectory], copies: int, place: Path
) -> tuple[int, Cost, Cost, Cost, Cost, Cost]:
    """Returns bytes, and costs: plain puts, checked puts, a push, the collector, recorded only.

    Medians of five, the last the only one.
    """
    import obstore
    from obstore.store import S3Store

    many = [
        dataclasses.replace(
            episode,
            info=dataclasses.replace(episode.info, episode_id=f"copy{n}-{index}"),
            steps=tuple(freshly(step, n) for step in episode.steps),
        )
        for n in range(copies)
        for index, episode in enumerate(episodes)
    ]
    local = place / "to-send"
    recorded = Cost.of(lambda: asyncio.run(collect(webtraj.JsonTrajectoryCollector(local), many)))
    kinds = ("episodes", "blobs")
    objects = {
        str(path.relative_to(local)): path.read_bytes()
        for kind in kinds
        for path in (local / kind).rglob("*")
        if path.is_file()
    }
    server = S3Server("rclone")
    server.start()
    plain, checked, pushed, collected = [], [], [], []
    try:
        for attempt in range(5):
            bucket, target = server.make_bucket(), f"{server.make_bucket()}/data"
            make_store = functools.partial(
                S3Store,
                bucket.removeprefix("s3://"),
                endpoint=server.endpoint,
                region="us-east-1",
                access_key_id=server.access_key_id,
                secret_access_key=server.secret_access_key,
                client_options={"allow_http": True},
            )

            def put_all(make_store: Any = make_store) -> None:
                put = functools.partial(obstore.put, make_store())
                with ThreadPoolExecutor(16) as threads:
                    list(threads.map(put, objects.keys(), objects.values()))

            def put_checked(make_store: Any = make_store) -> None:
                store = make_store(prefix="checked", checksum_algorithm="SHA256")

                def put(key: str) -> None:
                    data = (local / key).read_bytes()
                    hashlib.sha256(data)
                    arrived = obstore.put(store, key, data)["e_tag"]
                    assert arrived is not None
                    assert (
                        arrived.strip('"') == hashlib.md5(data, usedforsecurity=False).hexdigest()
                    )

                with ThreadPoolExecutor(16) as threads:
                    list(threads.map(put, objects))

            def collect_all(target: str = target, spool: Path = place / f"spool{attempt}") -> None:
                collector = webtraj.S3TrajectoryCollector(
                    target, spool=spool, storage_options=server.options()
                )
                asyncio.run(collect(collector, many))

            plain.append(Cost.of(put_all))
            checked.append(Cost.of(put_checked))
            collected.append(Cost.of(collect_all))
            sent = webtraj.open_dataset(target, storage_options=server.options())
            assert len(sent) == len(many)
            pushed.append(pushing(many, place / f"push{attempt}", server))
    finally:
        server.close()
    size = sum(map(len, objects.values()))
    measured = map(Cost.median, (plain, checked, pushed, collected))
    return (size, *measured, recorded)


def pushing(episodes: Sequence[EpisodeTrajectory], spool: Path, server: S3Server) -> Cost:
    """Returns what `webtraj push` takes for episodes that wait in a spool."""
    target = f"{server.make_bucket()}/data"
    fill_spool(episodes, spool, server.options(endpoint="http://127.0.0.1:9"), target)

    def send() -> None:
        assert push(spool, storage_options=server.options()).sent_episodes == len(episodes)

    return Cost.of(send)


def fill_spool(
    episodes: Sequence[EpisodeTrajectory],
    spool: Path,
    away: dict[str, Any],
    target: str = "s3://bucket/data",
) -> None:
    """Records episodes that wait in a spool, because their bucket is away."""
    collector = webtraj.BucketTrajectoryCollector(
        target,
        spool=spool,
        storage_options={**away, "retry": {"deadline": 0.01}},
        check_timeout=0.0,
        close_timeout=0.0,
        pauses=Pauses(first=1e6, cap=1e6, uniform=lambda _, most: most),
    )
    with contextlib.suppress(webtraj.WebtrajError):  # Nothing is sent.
        asyncio.run(collect(collector, episodes))


def absences(place: Path) -> dict[str, float]:
    """Returns the seconds after which each command names an endpoint that is absent.

    One endpoint refuses connections; the other drops them, as a firewall does.
    """
    with contextlib.ExitStack() as stack:
        refusing, silent = (
            stack.enter_context(contextlib.closing(socket.socket())) for _ in range(2)
        )
        for each in (refusing, silent):
            each.bind(("127.0.0.1", 0))
        silent.listen(0)
        for _ in range(2):  # A full queue.
            waiting = stack.enter_context(contextlib.closing(socket.socket()))
            waiting.setblocking(False)
            waiting.connect_ex(silent.getsockname())
        ways = {"open": open_at, "push": push_to, "collector": collect_into}
        named = [
            (f"{name}, {kind}", functools.partial(way, place / f"{name}-{kind}", endpoint))
            for kind, each in (("refused", refusing), ("dropped", silent))
            for endpoint in (f"http://127.0.0.1:{each.getsockname()[1]}",)
            for name, way in ways.items()
        ]
        with ThreadPoolExecutor(len(named)) as threads:  # They only wait.
            seconds = threads.map(lambda one: one[1](), named)
            return {name: taken for (name, _), taken in zip(named, seconds, strict=True)}


def away(endpoint: str) -> dict[str, Any]:
    """Returns the options of a bucket at an endpoint."""
    keys = {"access_key_id": "key", "secret_access_key": "secret"}
    return {"endpoint": endpoint, "region": "us-east-1", "allow_http": True, **keys}


def seconds_to_name(endpoint: str, call: Callable[[], object]) -> float:
    """Returns the seconds until a call fails with an error that names the endpoint."""
    said, started = "", time.perf_counter()
    try:
        said = str(call())
    except webtraj.WebtrajError as error:
        said = str(error)
    assert endpoint in said, said
    return time.perf_counter() - started


def open_at(_: Path, endpoint: str) -> float:
    """Opens a dataset there."""
    options = away(endpoint)
    return seconds_to_name(
        endpoint, lambda: webtraj.open_dataset("s3://bucket/data", storage_options=options)
    )


def push_to(spool: Path, endpoint: str) -> float:
    """Pushes a spool of many episodes there."""
    fill_spool(small_episodes(32 * 5, 5), spool, away(endpoint))
    return seconds_to_name(endpoint, lambda: push(spool, storage_options=away(endpoint)))


def collect_into(spool: Path, endpoint: str) -> float:
    """Records an episode for a bucket there."""

    def record_one() -> None:
        collector = webtraj.S3TrajectoryCollector(
            "s3://bucket/data", spool=spool, storage_options=away(endpoint)
        )
        asyncio.run(collect(collector, small_episodes(5, 5)))

    return seconds_to_name(endpoint, record_one)


def freshly(step: StepRecord, n: int) -> StepRecord:
    """Returns a step whose screenshot is another file, as that of another episode is."""
    observation = dict(step.observation)
    observation["screenshot"] += b"%d" % n
    return dataclasses.replace(step, observation=observation)


LENGTH = 50
"""Steps of an episode where nothing else is said."""


def small_episodes(steps: int, length: int = LENGTH) -> list[EpisodeTrajectory]:
    """Returns episodes of this length, each step with three small values."""
    return [
        EpisodeTrajectory(
            EpisodeInfo(episode_id=f"e{n:06}", task="small"),
            tuple(
                StepRecord(
                    k,
                    step_type(k, length),
                    {"position": k * 0.5, "text": f"at {k} of {n}", "ok": True},
                    action=None if k == 0 else k % 4,
                    reward=None if k == 0 else 0.0,
                    discount=None if k == 0 else 1.0,
                )
                for k in range(length)
            ),
            EpisodeEnd(reason=EndReason.CLOSED),
        )
        for n in range(steps // length)
    ]


def scanning(steps: int, place: Path) -> list[tuple[str, float, int]]:
    """Returns (way, steps/s, bytes) for a scan over many small episodes."""
    episodes = small_episodes(steps)
    rows = []
    for name, collector in (
        ("webtraj json", webtraj.JsonTrajectoryCollector),
        ("webtraj pb", webtraj.ProtobufTrajectoryCollector),
    ):
        folder = place / f"small {name}"
        asyncio.run(collect(collector(folder, fsync="never"), episodes))
        times = []
        for _ in range(3):
            started = time.perf_counter()
            seen = sum(len(episode.steps) for episode in webtraj.open_dataset(folder))
            times.append(time.perf_counter() - started)
            assert seen == steps
        rows.append((name, steps / min(times), size_of(folder)))
    plain = {"trajectories": plain_trajectories(episodes), "metadata": {}}
    source = place / "small.pkl"
    source.write_bytes(pickle.dumps(plain))
    try:
        python = peers.make_venv("torch", TORCH)
        script = Path(__file__).with_name("storage_torch.py")
        told = peers.run_peer(python, script, str(source), str(place / "small.pt"))
    except subprocess.CalledProcessError as error:
        print(f"torch.load is left out: {error}", file=sys.stderr)
    else:
        assert told["steps"] == steps
        rows.append((f"torch {told['torch']} load", steps / told["load"], told["bytes"]))
    return rows


def plain_trajectories(episodes: Sequence[EpisodeTrajectory]) -> list[list[dict[str, Any]]]:
    """Returns the same steps as plain dictionaries."""
    return [
        [
            {
                "observation": step.observation,
                "action": step.action,
                "reward": step.reward,
                "discount": step.discount,
            }
            for step in episode.steps
        ]
        for episode in episodes
    ]


def copying(place: Path) -> list[tuple[str, float, float]]:
    """Returns (way, episodes/s, CPU ms an episode) for copies of small episodes of two lengths."""
    short = 5
    collector = webtraj.JsonTrajectoryCollector(place / f"{short} json", fsync="never")
    asyncio.run(collect(collector, small_episodes(1000 * short, short)))
    rows = []
    for length, folder, source, target in (
        (short, f"{short} json", "json", "pb"),
        (LENGTH, "small webtraj json", "json", "json"),
        (LENGTH, "small webtraj json", "json", "pb"),
        (LENGTH, "small webtraj json", "json", "pb.zst"),
        (LENGTH, "small webtraj pb", "pb", "json"),
    ):
        copy = place / f"copied {length} {source} {target}"
        wall, cpu = time.perf_counter(), time.process_time()
        report = convert(place / folder, copy, format=target)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        name = f"{source} to {target}, {length} steps each"
        rows.append((name, len(report.added) / wall, cpu / len(report.added)))
    return rows


def opening(count: int, place: Path) -> tuple[float, float]:
    """Returns the seconds of CPU to open a dataset of many episodes, and to filter it then.

    Each the best of 3.
    """
    root = make_many(count, place / "many")
    opened, filtered = [], []
    for _ in range(3):
        started = time.process_time()
        dataset = webtraj.open_dataset(root)
        assert len(dataset) == count
        between = time.process_time()
        assert len(dataset.filter(outcome=Outcome.SUCCESS)) == count // 2
        opened.append(between - started)
        filtered.append(time.process_time() - between)
        del dataset  # So that the next turn does not pay for it.
    return min(opened), min(filtered)


def make_many(count: int, root: Path) -> Path:
    """Makes a dataset of many episodes with an index; their files are empty."""
    layout = DatasetLayout(root)
    layout.create()
    index = IndexWriter(layout.index)
    outcomes = (Outcome.FAILURE, Outcome.SUCCESS)
    for n in range(count):
        summary = EpisodeSummary(
            episode_id=f"20261120T130405-{n:016x}", task=f"task-{n % 50}", goal=f"Click on {n}.",
            environment="BrowserEnvironment", policy="oracle", seed=n, group_id=f"g{n // 8}",
            end_reason=EndReason.TERMINATED, outcome=outcomes[n % 2], num_steps=n % 30,
            total_reward=float(n % 2), start_time=1.7e9 + n, end_time=1.7e9 + n + 5.5,
            sha256=f"{n:064x}",
        )  # fmt: skip
        index.append(summary)
        layout.episode(summary.episode_id).touch()
    index.close()
    return root


def step_type(k: int, length: int) -> StepType:
    return StepType.FIRST if k == 0 else StepType.LAST if k == length - 1 else StepType.MID


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few episodes, to see that it runs")
    parser.add_argument("--folder", type=Path, default=Path(), help="where datasets are made")
    options = parser.parse_args()
    logging.getLogger("webtraj.collectors").setLevel(logging.ERROR)  # One bucket is away.
    fixture_site.register_presets()
    per_kind = 1 if options.quick else len(MINIWOB)
    names = [f"miniwob/{task}" for task in MINIWOB[:per_kind]]
    names += fixture_site.PRESETS[:per_kind]
    repeats, tries, scan = (1, 5, 1_000) if options.quick else (4, 100, 100_000)
    console = Console(width=100)
    # The same files for all, as PIL writes them: the browser's own are made for speed, not size.
    episodes = with_images(asyncio.run(record(names)), encoded_as("PNG"))
    steps = sum(len(episode.steps) for episode in episodes)
    console.print(
        f"{len(episodes)} episodes, {steps} steps, {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f}. Figures from a shared machine are to be taken again on a "
        "quiet one."
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        place = Path(folder)
        stored = storing(episodes, place, repeats)
        read = reading(place, tries)
        sent = sending(episodes, 1 if options.quick else 4, place)
        absent = absences(place)
        scanned = scanning(scan, place)
        copied = copying(place)
        opened, filtered = opening(scan, place)
    table = Table(title=f"The same {steps} steps, best of {repeats}; reads: median of {tries}")
    for column in (
        "way",
        "KiB/step",
        f"of AgentLab's (≤ {AT_MOST:.0%})",
        "steps/s",
        "one step ms",
        "episode ms",
    ):
        table.add_column(column, justify="left" if column == "way" else "right")
    for name, (size, seconds) in stored.items():
        table.add_row(
            name,
            f"{size / steps / 1024:.1f}",
            f"{size / stored['AgentLab'][0]:.0%}",
            f"{steps / seconds:.0f}",
            f"{read[name][0] * 1e3:.2f}",
            f"{read[name][1] * 1e3:.2f}",
        )
    console.print(table)
    size, plain, checked, pushed, collected, recorded = sent
    console.print(
        f"S3 (rclone serve s3): {size / 2**20:.0f} MiB; plain puts "
        f"{size / plain.seconds / 2**20:.1f} MiB/s in {plain.seconds:.2f} s; puts that read and "
        f"hash {plain.seconds / checked.seconds:.0%} of that, and {plain.cpu / checked.cpu:.0%} by "
        f"processor time; webtraj push "
        f"{plain.seconds / pushed.seconds:.0%} of that, {pushed.seconds:.2f} s, and "
        f"{plain.cpu / pushed.cpu:.0%} by processor time, {pushed.cpu:.2f} s with the server's (at "
        f"least {AT_LEAST:.0%}); the collector from the first step on "
        f"{plain.seconds / collected.seconds:.0%}, {collected.seconds:.2f} s, and recording to a "
        f"folder alone {recorded.seconds:.2f} s. Medians of five."
    )
    table = Table(title=f"A scan over {scan} small steps, best of 3")
    for column in ("way", "steps/s", "bytes/step"):
        table.add_column(column, justify="left" if column == "way" else "right")
    for name, rate, size in scanned:
        table.add_row(name, f"{rate:,.0f}", f"{size / scan:.0f}")
    console.print(table)
    for name, rate, cpu in copied:
        console.print(f"copy {name}: {rate:.0f} episodes/s, {cpu * 1e3:.2f} ms of CPU each")
    console.print(
        f"opening {scan:,} episodes: {opened:.3f} s of CPU (at most {OPEN} for 100,000); "
        f"filtering them then: {filtered:.3f} s"
    )
    for name, seconds in absent.items():
        console.print(f"absent endpoint, {name}: named after {seconds:.1f} s (at most {NAMED:.0f})")


if __name__ == "__main__":
    main()
