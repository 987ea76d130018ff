"""webtraj's pytest plugin. pytest finds it by its entry point once webtraj is installed.

It provides fixtures:

* `trajectory_collector`: a fresh collector that keeps episodes in memory.
* `recorded_environment`: a function that records an environment with that collector and closes it
  after the test.
* `page_environment`: a small environment with a real page in a real browser.
* `model_server`: a fake model server with scripted replies.

If a test that used `trajectory_collector` fails, its episodes are saved as HTML files in pytest's
temporary folder and named in its report: open them in a browser.

Environments match the test: asynchronous in an `async def` test, synchronous (by `webtraj.as_sync`)
in a plain one. No fixture is a coroutine, so any plugin can run asynchronous tests.

Everything is imported on first use of a fixture, because every test run loads this module wherever
webtraj is installed.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from webtraj.collectors.memory import MemoryTrajectoryCollector
    from webtraj.testing.model_server import FakeModelServer

__all__ = ["model_server", "page_environment", "recorded_environment", "trajectory_collector"]

_OPENED = pytest.StashKey[list[Any]]()
_COLLECTOR = pytest.StashKey["MemoryTrajectoryCollector"]()
_FAILED = pytest.StashKey[bool]()

_PAGES = "webtraj-episodes"
_MOST_PAGES = 10
_LONGEST_NAME = 100


@pytest.fixture
def trajectory_collector(request: pytest.FixtureRequest) -> MemoryTrajectoryCollector:
    """A fresh collector that keeps episodes in memory, in `trajectories`."""
    from webtraj.collectors import memory

    collector = memory.MemoryTrajectoryCollector()
    request.node.stash[_COLLECTOR] = collector
    return collector


@pytest.fixture
def recorded_environment(
    request: pytest.FixtureRequest, trajectory_collector: MemoryTrajectoryCollector
) -> Iterator[Callable[..., Any]]:
    """A function that records an environment with `trajectory_collector`.

    `recorded_environment(env, **kwargs)` returns a `TrajectoryCollectingEnvironment` over `env`
    with those keyword arguments. After the test, all are closed in reverse order, and no episode
    may be left open::

        def test_it_is_solved(recorded_environment, trajectory_collector):
            env = recorded_environment(MyEnvironment())
            ...
            assert_ended(trajectory_collector.trajectories[-1], "terminated")
    """
    from webtraj.environments import collecting_environment
    from webtraj.testing import assertions

    lend = _lender(request)

    def record(environment: Any, **kwargs: Any) -> Any:
        return lend(
            collecting_environment.TrajectoryCollectingEnvironment(
                environment, trajectory_collector, **kwargs
            )
        )

    yield record
    _close_synchronous(request)
    assertions.assert_no_open_episode(trajectory_collector)


@pytest.fixture
def page_environment(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A small environment with a real page: MiniWoB++'s "click-test", whose button ends an episode.

    It needs webtraj[web] and a browser; without them, the test fails with an error that names
    what to install.
    """
    from webtraj.environments import miniwob

    yield _lender(request)(miniwob.MiniwobEnvironment("click-test"))
    _close_synchronous(request)


@pytest.fixture
def model_server() -> Iterator[FakeModelServer]:
    """A running `webtraj.testing.model_server.FakeModelServer`: real HTTP, scripted replies.

    It echoes requests until `script` gives it replies. The test fails if a rule raises::

        def test_my_agent(model_server):
            model_server.script("click('12')", "noop()")
            run_my_agent(base_url=model_server.url)
            assert len(model_server.requests) == 2
    """
    from webtraj.testing import model_server as server_lib

    with server_lib.FakeModelServer() as server:
        yield server
    assert not server.errors, f"The fake model server could not answer: {server.errors!r}"


def _lender(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Return a function that adapts environments to the test and closes them after it."""
    # Checked now: while the test runs, pytest-asyncio replaces it with a plain function.
    is_async = inspect.iscoroutinefunction(request.function)
    opened = request.node.stash.setdefault(_OPENED, [])

    def lend(environment: Any) -> Any:
        if not is_async:
            from webtraj.environments import bridges

            environment = bridges.as_sync(environment)
        opened.append(environment)
        return environment

    return lend


def _close_synchronous(request: pytest.FixtureRequest) -> None:
    with contextlib.ExitStack() as stack:
        for environment in _take(request.node.stash.get(_OPENED, [])):
            stack.callback(_close, environment)


def _close(environment: Any) -> None:
    if inspect.iscoroutinefunction(environment.close):
        # Its test never ran, because another fixture failed, so it has no event loop.
        import asyncio

        asyncio.run(environment.close())
    else:
        environment.close()


def _take(opened: list[Any]) -> list[Any]:
    taken = list(opened)
    opened.clear()
    return taken


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Close the environments of asynchronous tests at the end of the test.

    This needs the test's own event loop, which plugins may close before fixtures are torn down.
    """
    if (
        isinstance(item, pytest.Function)
        and inspect.iscoroutinefunction(item.obj)
        and not {"recorded_environment", "page_environment"}.isdisjoint(item.fixturenames)
    ):
        item.obj = _close_after(item.obj, item.stash.setdefault(_OPENED, []))


def _close_after(test: Callable[..., Any], opened: list[Any]) -> Callable[..., Any]:
    @functools.wraps(test)
    async def run(*args: Any, **kwargs: Any) -> None:
        async with contextlib.AsyncExitStack() as stack:
            try:
                await test(*args, **kwargs)
            finally:
                for environment in _take(opened):
                    stack.push_async_callback(environment.close)

    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Save the episodes of a failed test after its fixtures have closed the environments."""
    report = yield
    item.stash[_FAILED] = report.failed or item.stash.get(_FAILED, False)
    collector = item.stash.get(_COLLECTOR, None)
    if report.when == "teardown" and item.stash[_FAILED] and collector is not None:
        # In a test's last report, pytest shows the sections with this word in their names.
        report.sections.append(("webtraj: episodes, kept at teardown", _keep(item, collector)))
    return report


def _keep(item: pytest.Item, collector: MemoryTrajectoryCollector) -> str:
    """Write the latest episodes as HTML and return a summary."""
    from webtraj.view import page

    lines = []
    try:
        folder = _folder_for_pages(item)
        for trajectory in collector.trajectories[-_MOST_PAGES:]:
            path = folder / f"{trajectory.episode_id}.html"
            path.write_text(page.episode_html(trajectory), encoding="utf-8")
            lines.append(str(path))
    except Exception as error:  # The test's own failure matters more.
        lines.append(f"An episode could not be saved: {error!r}")
    return "\n".join(lines) or "None had ended."


def _folder_for_pages(item: pytest.Item) -> Path:
    factory = getattr(item.config, "_tmp_path_factory", None)  # Missing with `-p no:tmpdir`.
    base = Path(tempfile.mkdtemp()) if factory is None else factory.getbasetemp()
    name = re.sub(r"[^A-Za-z0-9]+", "-", item.nodeid).strip("-")[-_LONGEST_NAME:]
    folder: Path = base / _PAGES / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
