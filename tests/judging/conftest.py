"""Labelled trajectories of MiniWoB++ and the fixture site, for whatever judges.

`labelled_dataset` is made once for all tests, also where they are spread over processes, and takes
more than a minute of a real browser; so tests that ask for it are run by `make test-judges`.

* `dataset`: the opened dataset, 300 episodes and more, about 50 tasks, of four policies (oracle,
  hasty, claiming, random). Each step has the channels of `CHANNELS`; there are no screenshots but
  in the fixture site's episodes.
* `labels`: for each episode's id its `Outcome`, SUCCESS or FAILURE, as the environment found it.
* `path`: the dataset's folder. Write nothing into it.
"""

import asyncio
import dataclasses
import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from labelled_episodes import collect_labelled

import fixture_site
from webtraj.datasets.dataset import Dataset, open_dataset
from webtraj.environments.browser.pool import BrowserPool
from webtraj.judging.quality import labels_of_dataset
from webtraj.trajectory import Outcome

CHANNELS = ("goal", "url", "title", "axtree", "text", "last_action", "info")

MINIWOB_TASKS = tuple(f"miniwob/{name}" for name in (
    "choose-list", "click-button", "click-button-sequence", "click-checkboxes", "click-collapsible",
    "click-color", "click-dialog", "click-dialog-2", "click-link", "click-option",
    "click-tab", "click-test", "click-test-2", "click-widget", "email-inbox-delete", "enter-date",
    "enter-password", "enter-text", "enter-text-2", "enter-text-dynamic", "enter-time",
    "find-word", "focus-text", "focus-text-2", "identify-shape", "login-user", "multi-orderings",
    "navigate-tree", "phone-book", "read-table", "simple-algebra", "simple-arithmetic",
    "social-media", "text-transform", "use-spinner",
))  # fmt: skip


@dataclasses.dataclass(frozen=True)
class LabelledDataset:
    path: Path
    dataset: Dataset
    labels: Mapping[str, Outcome]


async def collect_all(path: Path) -> None:
    async with BrowserPool(2, 3) as pool:
        for presets, channels, policies, attempts in (
            (MINIWOB_TASKS, CHANNELS, ("oracle",), 2),
            (MINIWOB_TASKS, CHANNELS, ("hasty", "random"), 1),
            (MINIWOB_TASKS, CHANNELS, ("claiming",), 3),
            (fixture_site.PRESETS, (*CHANNELS, "screenshot"), ("oracle", "hasty", "claiming"), 2),
        ):
            await collect_labelled(
                path,
                presets,
                policies=policies,
                attempts=attempts,
                parallel=6,
                random_steps=3,
                environment_options={"observe": channels},
                browser_pool=pool,
            )


@pytest.fixture(scope="session")
def labelled_dataset(
    tmp_path_factory: pytest.TempPathFactory, fixture_presets: tuple[str, ...]
) -> LabelledDataset:
    if os.environ.get("WEBTRAJ_TEST_JUDGES") != "1":
        pytest.skip("takes long: make test-judges")
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # That of all workers.
    path = root / "labelled"
    with (root / "labelled.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = root / "labelled.done"
        if not done.exists():
            asyncio.run(collect_all(path))
            done.touch()
    dataset = open_dataset(path)
    labels = labels_of_dataset(dataset)
    return LabelledDataset(
        path, dataset, {episode_id: label.outcome for episode_id, label in labels.items()}
    )


@pytest.fixture(autouse=True)
def _needs_a_browser(request: pytest.FixtureRequest) -> None:
    """Tests that use a browser carry the marker `browser`."""
    if "labelled_dataset" in request.fixturenames:
        request.applymarker(pytest.mark.browser)
