"""What holds for every format: whole or not at all, the same each time, and everything told."""

import secrets

import pytest

from export_episodes import NEEDS
from exporter_contract import ExporterContract, snapshot
from rows import each
from webtraj import errors
from webtraj.datasets.exporters import FORMATS, export_dataset
from webtraj.datasets.exporters.base import make_exporter
from webtraj.store.places import open_storage


class TestBuiltInFormats(ExporterContract):
    @pytest.fixture(params=FORMATS)
    def format_name(self, request):
        pytest.importorskip(NEEDS.get(request.param, "numpy"))
        return request.param


def test_what_is_there_stays_unless_it_is_an_export_and_to_be_replaced(shop, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    export_dataset(shop, out, format="huggingface")  # An empty folder is as good as none.
    before = snapshot(out)
    with pytest.raises(errors.InvalidInputError, match="an earlier export"):
        export_dataset(shop, out, format="html")
    with pytest.raises(RuntimeError):
        export_dataset(shop, out, format="html", overwrite=True, transform=_broken)
    assert snapshot(out) == before
    export_dataset(shop, out, format="html", overwrite=True)
    assert {name.rpartition(".")[2] for name in snapshot(out)} == {"html", "jsonl"}
    other = tmp_path / "mine"
    other.mkdir()
    (other / "thesis.txt").write_text("all of it")
    for overwrite in (False, True):
        with pytest.raises(errors.InvalidInputError, match="choose a new folder"):
            export_dataset(shop, other, format="huggingface", overwrite=overwrite)
    with pytest.raises(errors.InvalidInputError, match="not a folder"):
        export_dataset(shop, other / "thesis.txt", format="huggingface", overwrite=True)
    assert snapshot(other) == {"thesis.txt": b"all of it"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out"]


@pytest.mark.parametrize("where", ["folder", "bucket"])
@pytest.mark.parametrize("name", ["notes.txt", "nested/webtraj-export.jsonl", "images/mine.png"])
def test_an_earlier_export_is_not_replaced_while_other_files_are_there(shop, tmp_path, where, name):
    out = str(tmp_path / "out")
    if where == "bucket":
        pytest.importorskip("obstore")
        out = f"memory://{secrets.token_hex(8)}/out"
    export_dataset(shop, out, format="huggingface")
    storage = open_storage(out)
    storage.write(name, b"mine")
    before = {entry.key for entry in storage.list()}
    with pytest.raises(errors.InvalidInputError, match=f"holds '{name}', which the earlier"):
        export_dataset(shop, out, format="html", overwrite=True)
    assert {entry.key for entry in storage.list()} == before
    storage.delete(name)
    export_dataset(shop, out, format="html", overwrite=True)
    assert {entry.key.rpartition(".")[2] for entry in storage.list()} == {"html", "jsonl"}


def _broken(episode):
    raise RuntimeError("the transform broke")


def test_a_dataset_is_no_place_for_exports(shop):
    for out in (shop.path, shop.path / "exports" / "a"):
        with pytest.raises(errors.InvalidInputError, match="only episodes"):
            export_dataset(shop, out, format="huggingface", overwrite=True)


UNKNOWN = {
    "htlm": "Did you mean 'html'",
    "HuggingFaces": "Did you mean 'huggingface'",
    "lance": "The formats are .*huggingface, html",
}


@each("name", UNKNOWN)
def test_an_unknown_format_is_refused_with_the_nearest(name):
    with pytest.raises(errors.InvalidInputError, match=UNKNOWN[name]):
        make_exporter(name)
