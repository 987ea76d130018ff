"""Datasets on the Hugging Face Hub: sent by huggingface_hub to a Hub on this machine, read back."""

import json
import os
import subprocess
import sys

import pytest

import webtraj
from hub_server import TOKEN
from webtraj import errors
from webtraj.datasets import copy, merge, verify
from webtraj.datasets.hub import push_to_hub
from webtraj.datasets.judgements import Judgements
from webtraj.datasets.place import open_place
from webtraj.store.hub import HubStorage, parse_hub_url
from webtraj.store.places import open_storage
from webtraj.testing.strategies import same
from webtraj.trajectory import Judgement, Outcome

pytest.importorskip("pyarrow")
# huggingface_hub's own, when it uploads by LFS instead of Xet.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=<...>':DeprecationWarning")

URL = "hf://datasets/lab/shop"


@pytest.fixture
def options(hub):
    return {"token": TOKEN, "endpoint": hub.url}


@pytest.fixture
def push(options):
    def run(source, target=URL, **more):
        return push_to_hub(getattr(source, "url", source), target, **options, **more)

    return run


def same_episodes(found, expected):
    assert found.episode_ids == expected.episode_ids
    assert all(map(same, found, expected))


@pytest.mark.parametrize("format", [None, "pb.zst"])
def test_a_pushed_dataset_is_read_back_identical(hub, push, options, shop, format):  # noqa: A002
    report = push(shop, format=format)
    assert report.complete
    assert report.changed
    assert sorted(report.episodes.added) == sorted(shop.episode_ids)
    opened = webtraj.open_dataset(URL, storage_options=options)
    same_episodes(opened, shop)
    assert len(hub.repositories["lab/shop"].messages) == 2  # The first and one for all files.


def test_files_of_others_are_not_removed_without_being_asked(hub, push, shop):
    push(shop)
    repository = hub.repositories["lab/shop"]
    theirs = {"README.md": b"Ours", "episodes/video.mp4": b"x", "data.csv": b"y"}
    repository.commit("main", theirs, "somebody else's")
    with pytest.raises(errors.InvalidInputError, match=r"such as 'episodes/video\.mp4'"):
        push(shop)
    assert repository.files == theirs
    push(shop, URL + "/webtraj")
    assert repository.files["episodes/video.mp4"] == b"x"
    push(shop, replace=True)
    assert "episodes/video.mp4" not in repository.files
    assert repository.files["data.csv"] == b"y"


def test_the_repository_holds_the_files_byte_for_byte_and_no_host_name(hub, push, shop):
    push(shop)
    repository = hub.repositories["lab/shop"]
    root = shop.place.storage.root
    for path in (*root.glob("episodes/*"), *root.glob("blobs/*/*")):
        assert repository.files[path.relative_to(root).as_posix()] == path.read_bytes()
    assert [name for name in repository.files if name.startswith("index/")] == [
        "index/episodes.jsonl"
    ]
    assert repository.private
    assert any(name.endswith(".parquet") for name in repository.large)


def test_judgements_go_with_their_episodes(hub, push, options, shop, tmp_path):
    copy(shop.url, tmp_path / "shop")
    judged = shop.episode_ids[0]
    with Judgements(open_place(tmp_path / "shop")) as book:
        book.add([(judged, Judgement(judge="anna", outcome=Outcome.BLOCKED))])
    assert push(tmp_path / "shop").changed
    assert not push(tmp_path / "shop").changed
    opened = webtraj.open_dataset(URL, storage_options=options)
    assert opened[judged].end.judgements[-1].judge == "anna"
    assert opened.filter(outcome="blocked").episode_ids == (judged,)
    (name,) = (name for name in hub.repositories["lab/shop"].files if name.startswith("judge"))
    assert name == "judgements/episodes.jsonl"  # No host's name.


def test_pushing_again_makes_no_commit(hub, push, shop):
    first = push(shop)
    again = push(shop)
    assert not again.changed
    assert again.commit == first.commit
    assert len(hub.repositories["lab/shop"].messages) == 2


@pytest.mark.slow
def test_episodes_that_only_the_hub_has_stay_unless_replaced(
    hub, push, options, shop, catch, tmp_path
):
    push(shop)
    before = hub.repositories["lab/shop"].files
    with pytest.raises(errors.InvalidInputError, match="holds 2 episodes that would be removed"):
        push(catch)
    assert hub.repositories["lab/shop"].files == before
    merge([shop.url, catch.url], tmp_path / "both")
    assert len(push(tmp_path / "both").episodes.added) == 5
    assert push(catch, replace=True).changed
    same_episodes(webtraj.open_dataset(URL, storage_options=options), catch)
    files = hub.repositories["lab/shop"].files
    assert sum(name.startswith("episodes/") for name in files) == len(catch)
    assert not any(name.startswith("blobs/") for name in files)


@pytest.mark.slow
def test_a_reader_keeps_the_commit_that_it_opened(push, options, shop, catch):
    push(shop)
    opened = webtraj.open_dataset(URL, storage_options=options)
    push(catch, replace=True)
    same_episodes(opened, shop)


@pytest.mark.slow
def test_folders_and_branches_of_a_repository(hub, push, options, shop, catch):
    push(shop)
    push(catch, f"{URL}/games", tables=False)
    push(catch, f"{URL}@more", replace=True)
    same_episodes(webtraj.open_dataset(f"{URL}/games", storage_options=options), catch)
    same_episodes(webtraj.open_dataset(f"{URL}@more", storage_options=options), catch)
    same_episodes(webtraj.open_dataset(URL, storage_options=options), shop)
    assert "games/dataset.json" in hub.repositories["lab/shop"].files
    assert "games/README.md" not in hub.repositories["lab/shop"].files


def test_a_shareable_version_has_no_pictures(hub, push, options, shop):
    report = push(shop, shareable=True)
    assert report.episodes.dropped["images"]
    opened = webtraj.open_dataset(URL, storage_options=options)
    assert opened[0].info.metadata["shareable"]["dropped"]["images"]
    assert opened[0].steps[0].observation["screenshot"] == b""
    files = hub.repositories["lab/shop"].files
    pictures = {step.observation["screenshot"] for episode in shop for step in episode.steps}
    assert pictures
    assert not any(picture in content for picture in pictures for content in files.values())


@pytest.mark.slow
def test_a_dataset_on_the_hub_is_verified_and_copied(push, options, shop, tmp_path):
    push(shop)
    assert verify(URL, storage_options=options).clean
    assert copy(URL, tmp_path / "copy", source_options=options).complete
    same_episodes(webtraj.open_dataset(tmp_path / "copy"), shop)


def test_a_passing_failure_is_retried(hub, push, options, shop):
    push(shop)
    storage = open_storage(URL, {**options, "retry": {"first_delay": 0.01, "longest_delay": 0.01}})
    hub.failures = [503, 503]
    assert json.loads(storage.read("dataset.json"))["format"] == "json"
    once = open_storage(URL, {**options, "retry": {"deadline": 0}})
    hub.failures = [503]
    with pytest.raises(errors.StorageUnavailableError):
        once.read("dataset.json")


def test_what_is_missing_or_denied_says_so(hub, push, options, shop):
    with pytest.raises(errors.NotADatasetError, match="hf auth login"):
        webtraj.open_dataset("hf://datasets/lab/none", storage_options=options)
    push(shop)
    anonymous = {"endpoint": hub.url}
    with pytest.raises(errors.NotADatasetError):  # Private.
        webtraj.open_dataset(URL, storage_options=anonymous)
    with pytest.raises(errors.StorageDeniedError, match="could not be created"):
        push_to_hub(shop.url, "hf://datasets/lab/other", endpoint=hub.url)
    storage = open_storage(URL, options)
    assert storage.size("nothing.json") is None
    assert storage.size("dataset.json") == len(storage.read("dataset.json"))
    assert list(storage.list("nothing/")) == []
    with pytest.raises(errors.StorageMissingError):
        storage.read("nothing.json")
    for change in (lambda: storage.write("x", b""), lambda: storage.delete("dataset.json")):
        with pytest.raises(errors.StorageDeniedError, match="webtraj push FOLDER"):
            change()
    with pytest.raises(errors.NotADatasetError):
        push_to_hub("nowhere", "hf://datasets/lab/new", **options)
    assert "lab/new" not in hub.repositories


@pytest.mark.parametrize(
    "url", ["hf://lab/shop", "hf://datasets/shop", "hf://models/a/b", "hf://datasets/a/b/../c",
            "hf://user:secret@datasets/a/b"],
)  # fmt: skip
def test_other_urls_are_refused(url):
    with pytest.raises(errors.InvalidInputError) as caught:
        parse_hub_url(url)
    assert "secret" not in str(caught.value)


def test_unknown_options_are_refused():
    with pytest.raises(errors.InvalidInputError, match="Unknown storage option region"):
        open_storage(URL, {"region": "eu"})
    assert HubStorage(f"{URL}/").url == URL


LOAD = """
import io, json, sys
from datasets import Image, load_dataset
steps = load_dataset("lab/shop", "steps", split="train")
episodes = load_dataset("lab/shop", "trajectories", split="train")
assert isinstance(steps.features["screenshot"], Image), steps.features
pixels = [row["screenshot"].size for row in steps if row["screenshot"] is not None]
print(json.dumps({"ids": steps["episode_id"][:], "episodes": episodes["episode_id"][:],
                  "actions": steps["action"][:], "pixels": pixels}))
"""


@pytest.mark.slow
def test_load_dataset_and_the_commands(hub, shop, tmp_path):
    env = {
        **os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
    }  # fmt: skip

    def run(*command):
        done = subprocess.run(
            [sys.executable, *command], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    pushed = run("-m", "webtraj", "push", shop.url, URL, "--set", "license=mit", "--public")
    assert pushed.startswith(f"{URL}: 2 episodes at commit ")
    repository = hub.repositories["lab/shop"]
    assert not repository.private
    card = repository.files["README.md"].decode()
    assert "license: mit" in card
    assert 'load_dataset("lab/shop", "steps")' in card
    assert f'webtraj.open_dataset("{URL}")' in card
    assert shop.episode_ids[0] in run("-m", "webtraj", "ls", URL)
    found = json.loads(run("-c", LOAD).splitlines()[-1])
    steps = [(episode.episode_id, step) for episode in shop for step in episode.steps]
    assert found["ids"] == [episode_id for episode_id, _ in steps]
    assert found["episodes"] == list(shop.episode_ids)
    assert found["actions"][:2] == [None, "click('1')"]
    assert len(found["pixels"]) == len(steps)
    run("-m", "webtraj", "copy", URL, str(tmp_path / "copy"))
    same_episodes(webtraj.open_dataset(tmp_path / "copy"), shop)
