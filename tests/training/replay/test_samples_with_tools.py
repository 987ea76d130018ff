"""Episodes played by tool calls become samples: calls, results and tools go along."""

import json

import pytest

from webtraj import errors
from webtraj.agents import models
from webtraj.agents.model import ModelAgent
from webtraj.agents.models.messages import for_template
from webtraj.testing.model_server import FakeModelServer, Reply
from webtraj.training.export import export_samples, make_format
from webtraj.training.export.pictures import PictureReader
from webtraj.training.replay import ReplayBuffer
from webtraj.training.replay.cutter import samples_of
from webtraj.training.rows import read_row

CLIENTS = {
    "chat": models.OpenAICompatibleClient,
    "messages": models.AnthropicClient,
    "responses": models.ResponsesClient,
}


@pytest.fixture(params=CLIENTS)
async def played(request, episode):
    """An episode of two steps, whose calls a real client made and recorded."""
    replies = [
        Reply("Press 1.", calls=[{"name": "click", "arguments": {"bid": "1"}}], reasoning="Hm."),
        Reply(calls=[{"name": "click", "arguments": {"bid": "2"}}]),
    ]
    made = []
    with FakeModelServer(replies) as server:
        async with CLIENTS[request.param]("fake-model", server.url) as client:
            actor = ModelAgent(client=client, tools=True).begin_episode(None)
            for step in range(2):
                page = {"goal": "Order.", "url": "http://x/", "title": "", "axtree": f"page {step}"}
                decision = await actor.act({**page, "last_action": {"error": ""}})
                made += decision.model_calls
    return episode("e1", steps=2, call=lambda name, step: made[step - 1])


async def test_a_sample_has_the_calls_the_results_and_the_tools(played):
    first, second = samples_of(played)
    assert (first.completion, second.completion) == ("Press 1.", "")
    assert [said(sample.calls) for sample in (first, second)] == [
        [("click", {"bid": "1"})],
        [("click", {"bid": "2"})],
    ]
    roles = [message.role for message in second.messages]
    assert roles == ["system", "user", "assistant", "tool"]
    called = [call for m in second.messages if m.role == "assistant" for call in m.calls]
    assert said(called) == [("click", {"bid": "1"})]
    assert second.messages[-1].calls[0].id == called[0].id
    assert "page 1" in second.messages[-1].parts[0].text
    assert first.uses_tools
    assert first.tools


def said(calls):
    arguments = [json.loads(c.to_data()["function"]["arguments"]) for c in calls]
    return list(zip([call.name for call in calls], arguments, strict=True))


async def test_they_are_exported_as_openai_has_them_and_read_back(played, dataset, tmp_path):
    buffer = ReplayBuffer.from_datasets(dataset("d", [played]))
    samples = list(buffer.all)
    assert len(samples) == 2
    report = export_samples({"train": samples}, tmp_path / "x", format="openai")
    assert report.splits["train"].rows == 2
    (first, second) = map(json.loads, (tmp_path / "x/train.jsonl").read_text().splitlines())
    assert first["messages"][-1]["content"] == "Press 1."
    assert second["messages"][-1]["content"] is None
    assert second["messages"][-1]["tool_calls"][0]["function"]["name"] == "click"
    assert [m["role"] for m in second["messages"]][-4:] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert "click" in [tool["function"]["name"] for tool in second["tools"]]
    made, reader = make_format("openai"), PictureReader(tmp_path / "x")
    back = [made.sample_of(row, reader) for row in made.read(tmp_path / "x", "train")]
    assert [made.digest(one) for one in back] == [made.digest(one) for one in samples]
    trained = read_row(second, "row 2")
    assert said(trained.calls) == [("click", {"bid": "2"})]
    assert trained.messages[-1].role == "tool"
    assert trained.tools == tuple(second["tools"])


@pytest.mark.parametrize("name", ["sharegpt", "trl"])
async def test_other_formats_leave_them_out_and_say_why(played, name, tmp_path):
    with pytest.raises(errors.InvalidInputError, match="which only the format openai keeps"):
        export_samples({"train": list(samples_of(played))}, tmp_path / "x", format=name)


async def test_a_chat_template_gets_arguments_as_data(played):
    *_, second = samples_of(played)
    shaped = [for_template(message, in_parts=False) for message in second.messages]
    (call,) = [message for message in shaped if "tool_calls" in message][-1]["tool_calls"]
    assert call["function"] == {"name": "click", "arguments": {"bid": "1"}}
    assert shaped[-1]["role"] == "tool"
    assert isinstance(shaped[-1]["content"], str)
