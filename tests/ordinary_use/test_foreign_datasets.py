"""A dataset that came from elsewhere: copied by zip or rsync, opened in an editor, on any disk.

People copy datasets with whatever is at hand. What arrives is cut short, has files of desktops and
editors in it, was changed by hand, lies on a disk that cannot be written, or below a link. All that
is sound in it can be read, and `verify` names the rest.
"""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import orjson
import pytest

import webtraj
from webtraj import errors
from webtraj.datasets.recovery import rebuild, recover
from webtraj.datasets.verification import verify
from webtraj.metrics import measure

GOLDEN = Path(__file__).parents[1] / "golden"
BOM = b"\xef\xbb\xbf"


@pytest.fixture(params=["v1-json", "v1-pb", "v1-pb.zst"])
def dataset(request, tmp_path):
    return Path(shutil.copytree(GOLDEN / request.param, tmp_path / "my dataset (1)"))


def ids(place):
    return set(webtraj.open_dataset(place).episode_ids)


def readable(place):
    """Returns the ids of the episodes that can be read; what cannot is a typed error."""
    dataset = webtraj.open_dataset(place)
    found = set()
    for episode_id in dataset.episode_ids:
        try:
            found.add(dataset[episode_id].episode_id)
        except errors.DatasetError as error:
            print(error)
    return found


def episode_file(place, episode_id="golden-1-won"):
    (path,) = place.glob(f"episodes/{episode_id}.*")
    return path


def test_it_came_by_zip(dataset, tmp_path):
    """Archives leave out empty folders and flatten times."""
    archive = shutil.make_archive(str(tmp_path / "sent"), "zip", dataset)
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path / "received")
    assert readable(tmp_path / "received") == ids(dataset)
    assert verify(tmp_path / "received").clean
    recover(tmp_path / "received")


def test_the_copy_broke_off(dataset):
    """The last file is cut short, and files that come later in the alphabet are missing."""
    whole = ids(dataset)
    path = episode_file(dataset)
    path.write_bytes(path.read_bytes()[:-40])
    episode_file(dataset, "golden-3-failed").unlink()
    assert readable(dataset) == whole - {"golden-1-won", "golden-3-failed"}
    told = {problem.where for problem in verify(dataset).problems}
    assert {"golden-1-won", "golden-3-failed"} <= told
    report = measure(webtraj.open_dataset(dataset))
    assert set(report.unreadable) == {"golden-1-won", "golden-3-failed"}


def test_the_pictures_did_not_come_along(tmp_path):
    place = Path(shutil.copytree(GOLDEN / "v1-json", tmp_path / "ds"))
    shutil.rmtree(place / "blobs")
    assert "golden-1-won" not in readable(place)
    lazily = webtraj.open_dataset(place, blobs="lazy")
    assert lazily["golden-1-won"].total_reward == 1.0
    assert any("blob" in problem.what for problem in verify(place).problems)


def test_desktops_and_editors_leave_files_in_it(dataset):
    whole = ids(dataset)
    for folder in [dataset, *(path for path in dataset.rglob("*") if path.is_dir())]:
        for name in (
            ".DS_Store",
            "Thumbs.db",
            "desktop.ini",
            ".~lock.x.json#",
            "._golden-1-won.json",
            "golden-1-won.json~",
            "golden-1-won.json.swp",
            "notes.txt",
            "a b (copy).jsonl",
        ):
            (folder / name).write_bytes(b"\x00\x05\x16\x07junk")  # fmt: skip
    (dataset / "__MACOSX").mkdir()
    (dataset / "episodes" / "folder.json").mkdir()
    assert whole <= ids(dataset)
    assert readable(dataset) == whole
    verify(dataset)
    recover(dataset)
    rebuild(dataset)
    assert readable(dataset) == whole


def test_an_episode_was_changed_by_hand(tmp_path):
    """The reward that somebody typed in is not taken for the one that was recorded."""
    place = Path(shutil.copytree(GOLDEN / "v1-json", tmp_path / "ds"))
    path = episode_file(place)
    data = orjson.loads(path.read_bytes())
    data["steps"][1]["reward"] = 100.0
    path.write_bytes(orjson.dumps(data, option=orjson.OPT_INDENT_2))
    with pytest.raises(
        errors.CorruptDataError, match=r"golden-1-won\.json.*does not match the index"
    ):
        webtraj.open_dataset(place)["golden-1-won"]
    assert measure(webtraj.open_dataset(place)).unreadable == ("golden-1-won",)
    assert len(readable(place)) == len(ids(place)) - 1
    rebuild(place)  # As the message says, if the change is meant.
    assert webtraj.open_dataset(place)["golden-1-won"].total_reward == 100.0
    assert verify(place).clean


def test_a_value_of_another_type_was_typed_in(tmp_path):
    place = Path(shutil.copytree(GOLDEN / "v1-json", tmp_path / "ds"))
    path = episode_file(place)
    data = orjson.loads(path.read_bytes())
    data["steps"][1]["start_time"] = "yesterday"
    path.write_bytes(orjson.dumps(data))
    rebuild(place)
    with pytest.raises(errors.CorruptDataError, match=r"steps\[1\]\.start_time is 'yesterday'"):
        webtraj.open_dataset(place)["golden-1-won"]
    (problem,) = verify(place).problems
    assert "start_time" in problem.what


def test_an_editor_added_a_byte_order_mark_and_other_line_ends(dataset):
    whole = ids(dataset)
    for path in [dataset / "dataset.json", *dataset.glob("index/*.jsonl")]:
        path.write_bytes(BOM + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    assert readable(dataset) == whole
    assert verify(dataset).clean


def test_the_index_did_not_come_along(dataset):
    whole = ids(dataset)
    shutil.rmtree(dataset / "index")
    assert readable(dataset) == whole
    assert set(recover(dataset).indexed) == whole
    assert verify(dataset).clean


@pytest.mark.slow
def test_the_command_line_says_what_is_wrong_and_goes_on(dataset):
    path = episode_file(dataset)
    path.write_bytes(path.read_bytes()[:-40])

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "webtraj", *arguments], capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip

    done = run("verify", str(dataset))
    assert done.returncode == 1
    assert "golden-1-won" in done.stdout + done.stderr
    done = run("metrics", str(dataset))
    assert done.returncode == 0
    assert "unreadable (golden-1-won)" in " ".join(done.stdout.split())
    assert "Traceback" not in done.stdout + done.stderr
