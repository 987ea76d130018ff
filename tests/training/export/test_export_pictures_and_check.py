"""Pictures are looked into; what LLaMA-Factory would choke on is found by a command."""

import importlib.util
import io
import random
import zlib

import numpy as np
import pytest
from PIL import Image as Pillow
from typer.testing import CliRunner

from rows import each
from webtraj import errors
from webtraj.agents.models.base import Image, Message
from webtraj.cli.app import make_app
from webtraj.training.export import export_samples, pictures
from webtraj.training.export.export_folder import read_export
from webtraj.training.export.pictures import picture_error
from webtraj.training.export.sample_files import open_samples
from webtraj.training.export.sharegpt import ShareGptFormat
from webtraj.training.samples import Sample, SampleKey


def picture(kind, mode="RGB", **options):
    luck = np.random.default_rng(0).integers(0, 255, (40, 50, 3), np.uint8)
    data = io.BytesIO()
    Pillow.fromarray(luck).convert(mode).save(data, kind, **options)
    return data.getvalue()


GOOD = {
    "png": picture("PNG"),
    "png-alpha": picture("PNG", "RGBA"),
    "png-grey": picture("PNG", "L"),
    "png-palette": picture("PNG", "P"),
    "png-two-colours": picture("PNG", "1"),
    "jpeg": picture("JPEG"),
    "jpeg-grey": picture("JPEG", "L"),
    "webp": picture("WEBP"),
    "gif": picture("GIF"),
}


UNPACKERS = ["zlib", *(["zlib_ng.zlib_ng"] if importlib.util.find_spec("zlib_ng") else [])]


@pytest.fixture(params=UNPACKERS)
def unpacker(request, monkeypatch):
    found = importlib.import_module(request.param)
    monkeypatch.setattr(pictures, "import_zlib", lambda: found)


@each("data", GOOD.values())
def test_a_picture_that_is_whole_is_let_in(data):
    assert picture_error(data) == ""


@each("data", GOOD.values())
@each("share", [0.1, 0.5, 0.95])
def test_a_picture_that_is_cut_is_not(data, share):
    assert picture_error(data[: int(len(data) * share)])


def is_shown(data):
    try:
        with Pillow.open(io.BytesIO(data)) as image:
            image.load()
    except Exception:  # Whatever Pillow's decoders raise.
        return False
    return True


@each("data", GOOD.values())
def test_what_pillow_cannot_show_is_never_let_in(data, unpacker):
    luck = random.Random(0)
    wrong = [data[:end] for end in range(0, len(data), max(1, len(data) // 40))]
    for _ in range(120):
        at = luck.randrange(len(data))
        wrong.append(data[:at] + bytes([data[at] ^ luck.randrange(1, 256)]) + data[at + 1 :])
    shown = [is_shown(one) for one in wrong]
    assert not all(shown)
    let_in = [picture_error(one) == "" for one in wrong]
    assert [i for i, ok in enumerate(let_in) if ok and not shown[i]] == []


def chunk(kind, data):
    return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)


def png_of(rows):
    header = (5).to_bytes(4) + (4).to_bytes(4) + bytes([8, 0, 0, 0, 0])
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


WRONG_PNGS = {
    "few-rows": (png_of(bytes(6) * 3), "rows have 18 bytes; expected 24"),
    "many-rows": (png_of(bytes(6) * 5), "rows have 30 bytes; expected 24"),
    "unknown-filter": (png_of(bytes(18) + b"\x09" + bytes(5)), "a filter that there is not"),
    "damaged": (GOOD["png"][:200] + b"?" + GOOD["png"][201:], "is damaged"),
}


@each(("data", "why"), WRONG_PNGS.values())
def test_a_png_whose_rows_are_wrong_is_refused_as_by_pillow(data, why, unpacker):
    assert picture_error(png_of(bytes(6) * 4)) == ""
    assert why in picture_error(data)


def sample(index, **fields):
    known = {"completion": "click('1')", "messages": (Message.of("user", Image(GOOD["png"])),)}
    return Sample(key=SampleKey(f"e{index}", 1), **(known | fields))


def test_a_bomb_is_not_unpacked_to_its_end(unpacker):
    bomb = png_of(bytes(20_000_000))
    assert len(bomb) < 100_000
    unpacked = int(picture_error(bomb).split()[4])
    assert 24 < unpacked < 10_000_000


def test_what_the_disk_has_changed_is_not_exported(tmp_path):
    class Damaged(ShareGptFormat):
        def write(self, rows, folder, split):
            super().write(rows, folder, split)
            (image,) = (folder / "images").iterdir()
            image.write_bytes(GOOD["png-grey"])

    with pytest.raises(errors.CorruptDataError, match="is damaged"):
        export_samples({"train": [sample(0)]}, tmp_path / "x", format=Damaged())
    assert not (tmp_path / "x").exists()


ROWS = {
    "elsewhere": ("images/", "../../", "expected images/<sha256>.png"),
    "missing": (".png", ".gif", "Cannot read the picture"),
    "no-reply": ('"gpt"', "3", "Row 0 does not follow the format"),
    "no-column": ('"sample"', '"simple"', "KeyError"),
}


@each(("old", "new", "message"), ROWS.values())
def test_an_export_that_was_changed_is_not_trusted(tmp_path, old, new, message):
    export_samples({"train": [sample(0)]}, tmp_path / "x")
    file = tmp_path / "x/finetune_train.json"
    changed = file.read_text().replace(old, new)
    if old == '"gpt"':
        changed = changed.replace('"value":"click(\'1\')"', '"value2":1')
    file.write_text(changed)
    with pytest.raises(errors.CorruptDataError, match=message):
        list(read_export(tmp_path / "x"))


def test_a_picture_that_was_changed_is_not_trusted(tmp_path):
    export_samples({"train": [sample(0)]}, tmp_path / "x")
    (image,) = (tmp_path / "x/images").iterdir()
    image.write_bytes(GOOD["png-grey"])
    with pytest.raises(errors.CorruptDataError, match="is damaged"):
        list(read_export(tmp_path / "x"))
    with pytest.raises(errors.InvalidInputError, match="is damaged"):
        open_samples([tmp_path / "x"])[0]


def test_preview_hides_what_a_terminal_would_obey(tmp_path):
    hostile = sample(0, messages=(Message.of("user", "page \x1b[2J"),), completion="a\x07")
    export_samples({"train": [hostile]}, tmp_path / "x")
    done = CliRunner().invoke(make_app(), ["train", "preview", str(tmp_path / "x")])
    assert r"page \x1b[2J" in done.output
    assert r"a\x07" in done.output
    assert "\x1b[2J" not in done.output


def test_the_validation_split_goes_to_a_file_of_its_own(tmp_path):
    from webtraj import trajectory as t
    from webtraj.datasets.exporters.base import read_manifest
    from webtraj.datasets.writer import DatasetWriter
    from webtraj.environments import actions as a

    def episode(number):
        steps = [t.StepRecord(0, t.StepType.FIRST, {"axtree": f"page {number}"})]
        for step in (1, 2):
            call = t.ModelCall(
                messages=({"role": "user", "content": f"Task {number}, step {step}"},),
                text=f"click('{step}')",
            )
            action = a.Click(str(step))
            decision = t.Decision(action=action, model_calls=(call,))
            kind = t.StepType.LAST if step == 2 else t.StepType.MID
            seen = {"axtree": f"page {number} {step}"}
            steps.append(
                t.StepRecord(
                    step, kind, seen, action=action, reward=0.0, discount=1.0, decision=decision
                )
            )
        info = t.EpisodeInfo(episode_id=f"e{number:02}", task="t")
        end = t.EpisodeEnd(reason=t.EndReason.TERMINATED, outcome=t.Outcome.SUCCESS)
        return t.EpisodeTrajectory(info, tuple(steps), end, start_time=1.0, end_time=2.0)

    with DatasetWriter(str(tmp_path / "d")) as writer:
        for number in range(20):
            writer.add(episode(number))
    words = [str(tmp_path / "d"), "--format", "sharegpt", "--val-split", "0.2", "--seed", "1"]
    for name in ("x", "y"):
        given = ["train", "export", *words, "--out", str(tmp_path / name)]
        done = CliRunner().invoke(make_app(), given)
        assert done.exit_code == 0, (done.output, done.exception)
    header, episodes = read_manifest(tmp_path / "x")
    parts = [tuple(line["samples"]) for line in episodes]
    assert len(parts) == 20
    assert all(part in (("train",), ("val",)) for part in parts)
    assert 0 < parts.count(("val",)) < 10
    assert sum(split["rows"] for split in header["splits"].values()) == 40
    for path in (tmp_path / "x").iterdir():
        assert path.read_bytes() == (tmp_path / "y" / path.name).read_bytes()
