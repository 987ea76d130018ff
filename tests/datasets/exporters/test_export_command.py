"""The command, as a person runs it."""

import pytest
import typer
from typer.testing import CliRunner

from webtraj import errors, open_dataset
from webtraj.cli.export import export
from webtraj.datasets.exporters import read_manifest
from webtraj.datasets.sharing import check_shareable


@pytest.fixture
def run(tmp_path):
    app = typer.Typer()
    app.command()(export)

    def run(dataset, *arguments, out="out", code=0):
        words = [str(dataset.path), "--out", str(tmp_path / out), *map(str, arguments)]
        result = CliRunner().invoke(app, words)
        if isinstance(result.exception, errors.WebtrajError):
            raise result.exception
        assert result.exit_code == code, result.output
        return tmp_path / out, result.output

    return run


@pytest.mark.slow
def test_it_says_what_was_written_and_what_is_not_as_it_was(shop, wrecks, run):
    out, said = run(shop, "--format", "minari", out="shop-v0")
    assert f"{out}: 2 episodes of 6 steps written as minari\n" in said
    lines = [line for line in said.splitlines() if "model_calls.messages" in line]
    (line,) = lines
    assert line.split()[-2:] == ["2", "4"]  # Of two episodes, four values.
    out, said = run(wrecks, "--format", "minari", out="wrecks-v0")
    assert "2 episodes" in said
    assert "1 left out" in said
    assert "Minari keeps transitions" in said
    assert wrecks.episode_ids[0] in said


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
def test_filters_choose_episodes_and_are_written_down(case, shop, run):
    words, count = FILTERS[case]
    out, _ = run(shop, "--format", "atif", *words)
    header, _ = read_manifest(out)
    assert header["num_episodes"] == count
    assert header["selection"]
    assert len(list(out.glob("*.json"))) == count


def test_it_exits_with_1_if_an_episode_cannot_be_read(shop, run, tmp_path):
    import shutil

    from webtraj import open_dataset

    shutil.copytree(shop.path, tmp_path / "data")
    episode_id = shop.episode_ids[0]
    (tmp_path / "data" / "episodes" / f"{episode_id}.json").unlink()
    (tmp_path / "data" / "episodes" / f"{episode_id}.json").write_bytes(b"[]")
    out, said = run(open_dataset(tmp_path / "data"), "--format", "atif", code=1)
    assert "it cannot be read" in said
    assert episode_id in said
    assert (out / f"{shop.episode_ids[1]}.json").exists()


def test_what_may_be_shared_has_no_picture_in_any_format(shop, run):
    out, said = run(shop, "--format", "json", "--shareable", "--redact", "email", out="shared")
    assert "2 episodes written" in said
    shared = open_dataset(out)
    assert shared.episode_ids == shop.episode_ids
    for episode in shared:
        check_shareable(episode)
        assert "shareable" in episode.info.metadata
    out, _ = run(shop, "--format", "atif", "--shareable", "--redact", "email", out="atif")
    assert "email redacted" in read_manifest(out)[0]["transform"]
    with pytest.raises(errors.InvalidInputError):  # Pictures are what it is about.
        check_shareable(shop[0])
