"""The command, as a person runs it."""

import pytest

from webtraj import open_dataset
from webtraj.datasets.exporters import read_manifest

FILTERS = {
    "task": (["--task", "shop/tea"], 2),
    "another task": (["--task", "shop"], 0),
    "site": (["--site", "shop.example"], 2),
    "policy": (["--policy", "tester"], 2),
    "outcome": (["--outcome", "success"], 1),
    "end": (["--end-reason", "closed"], 1),
    "a condition": (["--where", "num_steps == 4"], 1),
    "a limit": (["--limit", "1"], 1),
    "several": (["--outcome", "success", "--end-reason", "closed"], 0),
}


@pytest.mark.parametrize("case", FILTERS)
def test_filters_choose_episodes_and_are_written_down(case, shop, run_export):
    words, count = FILTERS[case]
    out, _ = run_export(shop, "--format", "html", *words)
    header, _ = read_manifest(out)
    assert header["num_episodes"] == count
    assert header["selection"]
    assert len(list(out.glob("*.html"))) == count


def test_it_exits_with_1_if_an_episode_cannot_be_read(shop, run_export, tmp_path):
    import shutil

    shutil.copytree(shop.path, tmp_path / "data")
    episode_id = shop.episode_ids[0]
    (tmp_path / "data" / "episodes" / f"{episode_id}.json").unlink()
    (tmp_path / "data" / "episodes" / f"{episode_id}.json").write_bytes(b"[]")
    out, said = run_export(open_dataset(tmp_path / "data"), "--format", "html", code=1)
    assert "it cannot be read" in said
    assert episode_id in said
    assert (out / f"{shop.episode_ids[1]}.html").exists()
