"""Episodes to judge, and judges whose models are fake servers, over real HTTP."""

import io
import json

import pytest
from PIL import Image as Picture

from webtraj.agents.models import OpenAICompatibleClient, RetryPolicy
from webtraj.environments import actions
from webtraj.judging.model import JudgeSettings, ModelJudge
from webtraj.testing.model_server import FakeModelServer
from webtraj.trajectory import (
    Decision,
    EndReason,
    EpisodeEnd,
    EpisodeInfo,
    EpisodeTrajectory,
    StepRecord,
    StepType,
)


def picture(number: int) -> bytes:
    data = io.BytesIO()
    Picture.new("RGB", (8, 8), (number * 5 % 256, 80, 120)).save(data, "PNG")
    return data.getvalue()


def reply(verdict: str, reasoning: str = "It was seen.") -> str:
    return json.dumps({"reasoning": reasoning, "verdict": verdict})


PHRASES = {
    "screenshot": "You see one screenshot of several.",
    "blocked": "Did the site keep the agent from its task",
    "answer": "every claim in it was seen",
    "fact": "Judge one fact and no other",
    "goal": "Judge the whole task",
    "reference": "it says the same as the reference",
    "hello": "Reply with the word: ready",
}
GOOD = dict.fromkeys(PHRASES, "success") | {"screenshot": "keep", "blocked": "open"}


class Judged:
    """A rule of a fake model that knows what to say on each question."""

    def __init__(self, **replies):
        """Takes replies by question: a text, or a list that is gone through."""
        self.replies = replies
        self.asked = []

    @staticmethod
    def kind(request) -> str:
        """Tells which question a request asks."""
        return next(name for name, phrase in PHRASES.items() if phrase in request.text)

    def __call__(self, request):
        kind = self.kind(request)
        self.asked.append(kind)
        given = self.replies.get(kind, GOOD[kind])
        if callable(given):
            given = given(request)
        if isinstance(given, list):
            given = given.pop(0)
        words = {"keep", "skip", "blocked", "open", "success", "failure", "unclear"}
        return reply(given) if isinstance(given, str) and given in words else given


@pytest.fixture
def make_episode():
    """Makes an episode that has ended by itself."""

    def make(
        *,
        steps=3,
        answer="It costs 12 dollars.",
        goal="Find the price of the lamp.",
        pictures=True,
        page='[1] heading "Lamp"\n[2] text "12 dollars"',
        task=None,
        thought="The price must be here.",
        reason=EndReason.TERMINATED,
        changes=(),
    ):
        records = []
        for index in range(steps):
            seen = {"url": f"http://shop.test/{index}", "title": "Shop", "axtree": page}
            if pictures:
                seen["screenshot"] = picture(index)
            action = None if index == 0 else actions.Click(str(index))
            if index == steps - 1 and answer is not None:
                action = actions.Answer(answer)
            kind = StepType.LAST if index == steps - 1 else StepType.MID
            first = index == 0
            records.append(
                StepRecord(
                    index,
                    StepType.FIRST if first else kind,
                    {**seen, **dict(changes)},
                    action,
                    None if first else 0.0,
                    None if first else float(kind is StepType.MID),
                    decision=None if first else Decision(action=action, thought=thought),
                )
            )
        metadata = {} if task is None else {"task": task}
        info = EpisodeInfo(episode_id="e1", task="lamp", goal=goal, metadata=metadata)
        return EpisodeTrajectory(info, tuple(records), EpisodeEnd(reason=reason))

    return make


@pytest.fixture
def serve():
    """Starts fake model servers that go by a rule, and stops them after the test."""
    servers = []

    def start(rule, **options):
        servers.append(FakeModelServer(rule, vendor=options.pop("vendor", "openai"), **options))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
        assert not server.errors


@pytest.fixture
async def make_judge():
    """Makes judges, and closes their clients after the test."""
    judges, clients = [], []

    def client(server, **options):
        options = {"retries": RetryPolicy(max_retries=0), "kind": "openai", **options}
        model = options.pop("model", "fake-model")
        clients.append(OpenAICompatibleClient(model, server.url, **options))
        return clients[-1]

    def make(server, *, client_options=None, models=None, **settings):
        asked = models or client(server, **(client_options or {}))
        judges.append(ModelJudge(asked, settings=JudgeSettings(**settings)))
        return judges[-1]

    make.client = client
    yield make
    for closed in (*judges, *clients):
        await closed.aclose()


@pytest.fixture
def judged():
    """A fake model's rule: `judged(fact="failure")` says so of facts, and the best of all else."""
    return Judged


@pytest.fixture
def make_picture():
    """Makes a small picture."""
    return picture
