"""Formats of training data that other packages add through entry points."""

import pytest

from installed import install
from webtraj import errors
from webtraj.agents.models.base import Message
from webtraj.training.export import export_samples, make_format, read_export
from webtraj.training.export.export_folder import all_formats
from webtraj.training.export.sample_files import open_samples
from webtraj.training.export.tokens import TokensFormat
from webtraj.training.samples import Sample, SampleKey, name_of

STRANGER = """
import dataclasses
from typing import ClassVar
from webtraj.training.export import Row, SampleFormat
from webtraj.training.samples import name_of

@dataclasses.dataclass(frozen=True)
class Short(SampleFormat):
    name: ClassVar[str] = "short"
    before: str = ""

    def row(self, sample, pictures):
        (message,) = sample.messages
        said = [{"role": message.role, "content": self.before + message.parts[0].text}]
        row = {"messages": said, "completion": sample.completion, "sample": name_of(sample.key)}
        return Row(row)

    def digest(self, sample):
        return sample.completion.encode()

class Pairs(Short):
    imitated: ClassVar[bool] = False
    name: ClassVar[str] = "short-pairs"
"""


@pytest.fixture(autouse=True)
def stranger(tmp_path, monkeypatch):
    home = "stranger_formats"
    formats = {"short": f"{home}:Short", "short-pairs": f"{home}:Pairs", "tokens": "no_such:One"}
    install(tmp_path, {home: STRANGER}, training_formats=formats)
    monkeypatch.syspath_prepend(str(tmp_path))


SAMPLE = Sample(
    key=SampleKey("e1", 1), messages=(Message.of("user", "Click OK."),), completion="click('4')"
)


def test_they_are_written_read_back_and_trained_on(tmp_path):
    export_samples({"train": [SAMPLE]}, tmp_path / "out", format="short", options={"before": "> "})
    (back,) = read_export(tmp_path / "out")
    assert (name_of(back.key), back.completion) == ("e1/1/0", "click('4')")
    (trained,) = open_samples([tmp_path / "out"])
    assert trained.messages[0].parts[0].text == "> Click OK."


def test_one_that_is_not_imitated_is_refused(tmp_path):
    export_samples({"train": [SAMPLE]}, tmp_path / "out", format="short-pairs")
    with pytest.raises(errors.InvalidInputError, match="'short-pairs', which cannot be imitated"):
        open_samples([tmp_path / "out"])


def test_built_in_ones_are_not_replaced_and_all_are_named():
    assert isinstance(make_format("tokens"), TokensFormat)
    assert {"short", "sharegpt"} <= set(all_formats())
    with pytest.raises(errors.InvalidInputError, match=r"Did you mean 'short'\?.*short, short-pa"):
        make_format("shor")
