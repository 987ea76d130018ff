"""Lengths as a real processor has them; needs transformers: `scripts/test_train.sh`."""

import io
import os

import pytest

from rows import each
from webtraj.agents.models.base import Image, Message
from webtraj.training.export.lengths import LengthOptions, ModelCounter
from webtraj.training.samples import Sample, SampleKey

pytestmark = [
    pytest.mark.skipif(os.environ.get("WEBTRAJ_TEST_TRAIN") != "1", reason="scripts/test_train.sh"),
    pytest.mark.filterwarnings("default::FutureWarning"),
    pytest.mark.filterwarnings("default::DeprecationWarning"),
]
SIZES = [(112, 112), (640, 480), (30, 200), (1280, 720)]


def picture(size):
    from PIL import Image as Pillow

    data = io.BytesIO()
    Pillow.new("RGB", size, (200, 0, 0)).save(data, "PNG")
    return Image(data.getvalue())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from webtraj.testing.tiny_models import make_vision_model

    folder = tmp_path_factory.mktemp("model") / "vision"
    return make_vision_model(folder, ["Task: click OK", "click('12')"] * 20)


@each("number", [0, 1, 2, 4])
def test_lengths_are_those_that_training_has(model, number):
    from webtraj.training.sft.encoding import Encoder, load_tools

    tools = load_tools(model)
    parts = [part for size in SIZES[:number] for part in (picture(size), "and then\n")]
    sample = Sample(
        key=SampleKey("e", 1),
        messages=(Message.of("system", "Act."), Message.of("user", "Task: ", *parts, "Now?")),
        completion="click('12')",
    )
    encoded = len(Encoder(tools, token_ids="template").encode(sample))
    counted = ModelCounter(tools).count(
        (*sample.messages, Message.of("assistant", sample.completion))
    )
    newline = 1  # The template writes one after a reply; training ends where sampling does.
    assert counted == encoded + newline
    fits = LengthOptions(model=str(model), cutoff_len=counted)
    assert fits.prepare(sample).changes == {}
    short = LengthOptions(model=str(model), cutoff_len=counted - 1)
    assert short.prepare(sample).why == f"it is longer than {counted - 1} tokens"
