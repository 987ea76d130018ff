"""Operation limits: fair, cancellable, cheap, seen in the timings, and at the real operations."""

import asyncio

import pytest

from rows import each
from webtraj import WebTask, errors
from webtraj.environments import actions as a
from webtraj.environments.browser.environment import BrowserEnvironment
from webtraj.environments.browser.executor import PERFORMERS
from webtraj.environments.browser.lease import OperationLimits, OperationQueue, Operations
from webtraj.environments.browser.pool import BrowserPool

TIMED = ("axtree", "last_action", "timings")


class Clock:
    """Moves when somebody sleeps."""

    def __init__(self):
        self.now = 0.0
        self.slept = []

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


# The limits.


def test_without_limits_nothing_waits():
    turns = OperationQueue(Operations())
    assert turns.at("execute") is turns.at("navigate") is turns.at(None)


@pytest.mark.parametrize("value", [-1, 1.5, "many", float("nan")])
def test_limits_that_are_none_are_refused(value):
    with pytest.raises(errors.InvalidInputError, match="'navigate' is"):
        OperationLimits(navigate=value)


@each(
    ("action", "operation"),
    [
        (a.Click("1"), "execute"),
        (a.PressKey("Enter"), "execute"),
        (a.FocusTab(0), "execute"),
        (a.GoBack(), "navigate"),
        (a.Reload(), "navigate"),
        (a.Goto("https://example.com"), None),  # Opening a URL takes its turn itself.
        (a.Wait(3), None),
        (a.Answer("42"), None),
    ],
)
def test_what_an_action_counts_as(action, operation):
    assert PERFORMERS[type(action)][1] == operation


# Turns.


async def test_turns_come_in_the_order_of_asking():
    operations, order = Operations(OperationLimits(execute=1)), []

    async def work(number):
        async with OperationQueue(operations).at("execute"):
            order.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*(work(number) for number in range(20)))
    assert order == list(range(20))


async def test_one_that_is_cancelled_while_it_waits_has_used_nothing_up():
    operations, turns = Operations(OperationLimits(execute=1)), []

    async def work():
        turns.append(OperationQueue(operations))
        async with turns[-1].at("execute"):
            await release.wait()

    release = asyncio.Event()
    first, second, third = (asyncio.ensure_future(work()) for _ in range(3))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    assert not third.done()
    release.set()
    await asyncio.gather(first, third)
    assert not operations.gate("execute").locked()
    assert [one.waited > 0 for one in turns] == [False, True, True]


async def test_what_fails_gives_its_turn_back():
    turns = OperationQueue(Operations(OperationLimits(execute=1)))
    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            async with turns.at("execute"):
                raise ValueError("no")


async def test_pages_of_one_site_are_loaded_evenly():
    clock = Clock()
    limits = OperationLimits(requests_per_minute=30)
    operations = Operations(limits, clock=clock, sleep=clock.sleep)
    for url in ("http://a.test/1", "http://b.test/1", "file:///a", "http://a.test/2"):
        await operations.pace(url)
    assert (clock.now, clock.slept) == (2.0, [2.0])
    turns = OperationQueue(operations)
    await turns.pace("https://b.test/2")  # It has rested by now.
    assert turns.waited == 0.0
    await turns.pace("https://a.test:8443/3")
    assert turns.waited == 2.0


# At the real operations.


def button_page(folder):
    """Returns a task on a page with a button that counts its clicks."""
    page = folder / "page.html"
    page.write_text("<button onclick='this.textContent = 1 + +this.textContent'>0</button>")
    return WebTask(goal="Click.", start_url=page.as_uri())


class Queue(Operations):
    """Notes who asks for a turn."""

    def __init__(self, limits):
        super().__init__(limits)
        self.asked = []

    def gate(self, operation):
        self.asked.append(operation)
        return super().gate(operation)

    async def has(self, operation):
        """Waits until one more has asked for a turn, and waits for it."""
        before = self.asked.count(operation)
        while self.asked.count(operation) == before:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0)


@pytest.mark.browser
async def test_waiting_is_in_the_timings_of_the_step_that_waited(open_page_alone):
    pool, environment = open_page_alone
    pool.operations = Queue(OperationLimits(execute=1))
    timestep = await environment.reset()
    assert timestep.observation["timings"]["waiting"] == 0.0
    other = OperationQueue(pool.operations)
    async with other.at("execute"):
        step = asyncio.ensure_future(environment.step("mouse_click(20, 20)"))
        await pool.operations.has("execute")
        assert not step.done()
    timings = (await step).observation["timings"]
    assert 0 < timings["waiting"] <= timings["act"] <= timings["total"]
    timings = (await environment.step("noop()")).observation["timings"]
    assert timings["waiting"] == 0.0
    environment.observation_spec()["timings"]["waiting"].validate(timings["waiting"])


@pytest.mark.browser
async def test_a_step_that_is_cancelled_while_it_waits_leaves_the_pool_whole(open_page_alone):
    pool, environment = open_page_alone
    pool.operations = Queue(OperationLimits(ac_tree=1))
    await environment.reset()
    async with OperationQueue(pool.operations).at("observe"):
        step = asyncio.ensure_future(environment.step("mouse_click(20, 20)"))
        await pool.operations.has("observe")
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
    assert not pool.operations.gate("observe").locked()
    assert not (await environment.reset()).last()
    assert pool.stats.leases == 1


@pytest.fixture
async def open_page_alone(tmp_path):
    """Gives a pool of the test's own, and an environment in it."""

    class Roaming:
        """Lets the agent go wherever it likes."""

        network = None

        def open(self, url):
            return True

        def travel(self):
            return True

        def upload(self, path):
            return None

    async with (
        BrowserPool() as pool,
        BrowserEnvironment(
            button_page(tmp_path), pool=pool, observe=TIMED, policy=Roaming()
        ) as environment,
    ):
        yield pool, environment
