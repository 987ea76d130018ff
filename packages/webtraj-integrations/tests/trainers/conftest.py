"""A model for verl and SkyRL whose replies are scripted in the row's system message."""

import re

import pytest

import processes
import webtraj
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

    def reply(self, ids):
        """Return the next reply of a conversation, with its end, and as tokens."""
        text = self.tokenizer.decode(ids)
        script = re.search(r"Script: ([\w ]+)", text)[1].split()
        said = text.count("<|im_start|>assistant") - 1
        verb = script[min(said, len(script) - 1)]
        if verb == "kill" and self.kills:
            self.kills -= 1
            processes.kill_browsers()
        ref = re.findall(r"\[(\w+)\] button", text)[-1]
        said = {"fail": "answer('no')", "nonsense": "Hello.", "long": "x" * 9000}
        reply = said.get(verb, f"click('{ref}')")
        return reply, self.tokenizer.encode(reply + "<|im_end|>")


@pytest.fixture(scope="session")
def tokenizer():
    """Return a tokenizer of bytes."""
    from bytewise import bytewise_tokenizer

    return bytewise_tokenizer()


@pytest.fixture(scope="session")
def script():
    """Return the class of the model."""
    return Script


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
