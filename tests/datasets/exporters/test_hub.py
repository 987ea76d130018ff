"""Datasets on the Hugging Face Hub: sent by huggingface_hub to a Hub on this machine, read back."""

import json

import pytest

import webtraj
from hub_server import TOKEN
from webtraj import errors
from webtraj.datasets import merge
from webtraj.datasets.hub import push_to_hub
from webtraj.store.places import open_storage
from webtraj.testing.strategies import same

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
