"""A model for verl and SkyRL whose replies are scripted in the row's system message."""

import json
import re

import pytest

import processes
import webtraj
from vision import find_button, vision_processor
from webtraj.trajectory import Outcome


class Script:
    """A model. The system message `Script: nonsense click` is two turns of a rollout.

    Args:
        kills: How often a turn `kill` kills the browsers; then it clicks.
    """

    def __init__(self, tokenizer, kills=0):
        self.tokenizer = tokenizer
        self.kills = kills
        self.playing, self.most = 0, 0

    def reply(self, ids, pictures=()):
        """Return the next reply of a conversation, with its end, and as tokens."""
        text = self.tokenizer.decode(ids)
        script = re.search(r"Script: ([\w ]+)", text)[1].split()
        said = text.count("<|im_start|>assistant") - 1
        verb = script[min(said, len(script) - 1)]
        if verb == "kill" and self.kills:
            self.kills -= 1
            processes.kill_browsers()
        said = {"fail": "answer('no')", "nonsense": "Hello.", "long": "x" * 9000}
        said["image"] = "A page <|image_pad|>."
        said["video"] = "A page <|video_pad|>."
        reply = said.get(verb) or self.click(text, pictures)
        return reply, self.tokenizer.encode(reply + "<|im_end|>")

    def click(self, text, pictures):
        """Return the click on the button that the text shows."""
        assert not pictures
        ref = re.findall(r"\[(\w+)\] button", text)[-1]
        return f"click('{ref}')"


class SeeingScript(Script):
    """The same for pages that are pictures, in the dialect `webgym`."""

    def click(self, text, pictures):
        """Return the click on the button that the last picture shows."""
        assert "button" not in text.rpartition("<|im_start|>user")[2]
        point = zip(find_button(pictures[-1]), pictures[-1].size, strict=True)
        thousandths = [round(1000 * place / size) for place, size in point]
        call = {"action": "left_click", "coordinate": thousandths}
        return json.dumps({"name": "computer_use", "arguments": call})


@pytest.fixture(scope="session")
def tokenizer():
    """Return a tokenizer of bytes."""
    from bytewise import bytewise_tokenizer

    return bytewise_tokenizer()


@pytest.fixture(scope="session")
def script():
    """Return the class of the model."""
    return Script


@pytest.fixture(scope="session")
def processor():
    """Return a processor of pictures, whose text tokens are bytes."""
    return vision_processor()


@pytest.fixture(scope="session")
def seeing_script():
    """Return the class of the model that sees pictures."""
    return SeeingScript


@pytest.fixture(autouse=True)
def closed():
    """Close what a test left open."""
    from webtraj_integrations.trainers import close_shared

    yield
    close_shared()


class Record:
    """What a test has recorded, once `played` has closed it."""

    def __init__(self, out):
        self.out = out
        self.lost = []

    def played(self):
        """Return the episodes that no browser ended; the others are in `lost`.

        A machine that is very busy loses some without a test's doing.
        """
        from webtraj_integrations.trainers import close_shared

        close_shared()
        episodes = list(webtraj.open_dataset(self.out))
        self.lost = [one for one in episodes if one.end.outcome is Outcome.ENV_ERROR]
        return [one for one in episodes if one not in self.lost]


@pytest.fixture
def record(tmp_path):
    """Return what a test records in its folder."""
    return Record(tmp_path / "out")
