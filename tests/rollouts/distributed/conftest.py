"""Machines in this process: real nodes and a real store, and a network that can be cut."""

import asyncio
import dataclasses

import pytest

from webtraj.datasets.place import create_place
from webtraj.rollouts import RunSpec, plan_episodes
from webtraj.rollouts.distributed.driver import Driver
from webtraj.rollouts.distributed.node import Cluster, NodeLostError, NodeRunner, Place, Work
from webtraj.rollouts.results import NullRolloutObserver
from webtraj.rollouts.rollout import episodes_on_record
from webtraj.rollouts.scheduler import RetryPolicy, Turn
from webtraj.runs.run import Progress, progress_of
from webtraj.store.layout import DatasetHeader
from webtraj.store.places import is_url

LEASE = 2.0


class Line:
    """A node as the driver sees it, over a line that can be cut. What it says on it is kept."""

    def __init__(self, node, found):
        self.node = node
        self.found = found
        self.cut = asyncio.Event()
        self.accepted = []
        self.shares = []
        self.got_turns_untold = False
        self.before_play = None

    async def _call(self, coroutine):
        call = asyncio.ensure_future(coroutine)
        cut = asyncio.ensure_future(self.cut.wait())
        done, _ = await asyncio.wait({call, cut}, return_when=asyncio.FIRST_COMPLETED)
        cut.cancel()
        if self.cut.is_set() and call not in done:
            raise NodeLostError("cut off")
        return call.result()

    def _check(self):
        if self.cut.is_set():
            raise NodeLostError("cut off")

    async def open(self):
        self._check()
        opened = await self._call(self.node.open())
        return dataclasses.replace(opened, stored=(*opened.stored, *self.found))

    async def play(self, turn):
        self._check()
        self.got_turns_untold |= not self.shares
        self.accepted.append(turn)
        if self.before_play is not None:
            await self.before_play()
        return await self._call(self.node.play(turn))

    async def beat(self, share, hurry):
        self._check()
        if share:
            self.shares.append(share)
        return await self._call(self.node.beat(share, hurry))

    async def close(self):
        self._check()
        return await self._call(self.node.close())


class Machines:
    """A cluster whose machines are `sizes`: episodes at once, by name."""

    def __init__(self, out, climber, **sizes):
        self.out = str(out)
        self.agent = climber
        self.sizes = dict(sizes)
        self.lines = {}
        self.gone = set()
        self.started = []
        self.setup = None
        self.before_start = None
        self.before_play = None
        self.after_gathering = None
        self.found = {}  # What a machine says it had, besides what it had.

    async def places(self):
        return [
            Place(name, name, episodes)
            for name, episodes in self.sizes.items()
            if name not in self.gone
        ]

    async def start(self, place):
        if self.before_start is not None:
            self.before_start(place)
        self.started.append(place.name)
        line = Line(NodeRunner(self.work, place.episodes), self.found.get(place.name, ()))
        line.before_play = self.before_play
        self.lines[place.name] = line
        return line, await line.open()

    async def end(self, node):
        pass

    def cut(self, name):
        """Cuts a machine off for good; what runs there goes on."""
        self.gone.add(name)
        self.lines[name].cut.set()

    def play_together(self, has="accepted"):
        """Lets no machine play before all have a turn, or `shares`: one might be done before."""

        async def wait():
            async with asyncio.timeout(60):
                while not all(getattr(self.lines.get(name), has, ()) for name in self.sizes):
                    await asyncio.sleep(0.01)

        self.before_play = wait

    async def play(
        self, tasks=(), *, episodes=None, resume=None, settings=None, parallel=None, observer=None,
        join_timeout=30, format_name="json", note_interval=10.0,
    ):  # fmt: skip
        """Plays a run called `one`; returns its results and the driver."""
        spec = RunSpec(**{"parallel": parallel, **(settings or {})})
        if not is_url(self.out):
            create_place(self.out, DatasetHeader(format=format_name))
        self.work = Work(
            run_id="one",
            spec=spec.model_copy(update={"out": self.out, "format": format_name}),
            agent=self.agent,
            cluster=Cluster(
                lease=LEASE, setup=self.setup, close_timeout=10, join_timeout=join_timeout
            ),
        )
        run = self.work.open_run()
        driver = Driver(
            cluster=self, work=self.work, observer=observer or NullRolloutObserver(),
            note_interval=note_interval,
        )  # fmt: skip
        async with driver:
            if resume:
                await driver.gather()
                if self.after_gathering is not None:
                    await self.after_gathering(driver)
                progress = progress_of(
                    run, run.read_plan(), episodes_on_record(self.out, None), RetryPolicy.of(spec)
                )
            else:
                plan = plan_episodes(tasks, episodes=episodes)
                run.write_plan(plan, seed=0, settings={})
                progress = Progress((), tuple(Turn(planned=planned) for planned in plan))
            session = run.begin_session(resumed=bool(resume))
            results = await driver.play(progress.left, session=session)
        return results, driver


@pytest.fixture
def slow_climber(climber):
    """An agent that plays an episode in 30 ms."""

    class Slow(climber):
        async def act(self, observation):
            await asyncio.sleep(0.01)
            return await super().act(observation)

    return Slow


@pytest.fixture
def machines(climber, tmp_path):
    """Makes machines that share a folder."""
    return lambda **sizes: Machines(tmp_path / "out", climber, **sizes)


@pytest.fixture
def machines_of_bucket(climber, tmp_path, monkeypatch):
    """Makes machines that share a bucket, each process with its spool."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return lambda url, **sizes: Machines(url, climber, **sizes)
