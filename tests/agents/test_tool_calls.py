"""A model acts by calling tools, through each API. Vendors' SDKs check what both sides send."""

import io
import json

import pytest
from PIL import Image
from sdk_types import accepted, understood

from webtraj import errors
from webtraj.agents import models
from webtraj.agents.contexts import NOT_PLAYED, ContextSettings
from webtraj.agents.model import ModelAgent
from webtraj.environments import actions as a
from webtraj.testing.model_server import Reply

pytestmark = pytest.mark.slow  # Importing the SDKs takes seconds.

PAGE = '[1] textbox "Name"\n[12] button "Submit"'
CLIENTS = {
    "chat": models.OpenAICompatibleClient,
    "messages": models.AnthropicClient,
    "responses": models.ResponsesClient,
}
LOOK = ContextSettings(mode="coordinates")


def screenshot(colour="white"):
    picture = Image.new("RGB", (80, 60), "white")
    picture.paste(colour, (40, 30, 80, 60))
    written = io.BytesIO()
    picture.save(written, "PNG")
    return written.getvalue()


class Episode:
    """Plays an agent, and keeps its calls."""

    def __init__(self, agent):
        self.calls = []
        self._actor = agent.begin_episode(None)

    async def __call__(self, error="", image=None, axtree=PAGE):
        last = {"error": error, "error_kind": "timeout" if error else ""}
        seen = {"goal": "Order.", "url": "https://shop.test/", "title": "Shop", "axtree": axtree}
        screen = {"scroll": {"width": 80, "height": 60}, "screenshot": image or screenshot()}
        try:
            decision = await self._actor.act({**seen, **screen, "last_action": last})
        except errors.EpisodeGivenUpError as error:
            self.calls += error.decision.model_calls
            raise
        self.calls += decision.model_calls
        return decision


@pytest.fixture
async def begin(model_server):
    """Begins episodes, and checks at the end that the SDKs know all that was sent."""
    begun, agents = [], []

    def make(api, **options):
        client = CLIENTS[api]("fake-model", model_server.url)
        agents.append(ModelAgent(client=client, tools=True, **options))
        begun.append(Episode(agents[-1]))
        return begun[-1]

    yield make
    for agent in agents:
        await agent.aclose()
    calls = [call for episode in begun for call in episode.calls]
    assert len(calls) == len(model_server.requests) > 0
    for request, call in zip(model_server.requests, calls, strict=True):
        accepted(request)
        understood(request, call.response)


def click(ref):
    return {"name": "click", "arguments": {"bid": ref}}


@pytest.mark.parametrize("api", CLIENTS)
async def test_verbs_are_functions_and_the_next_page_is_the_result(api, model_server, begin):
    model_server.script(Reply("On.", calls=[click("12")]), Reply(calls=[click("1")]), Reply("."))
    act = begin(api, context=ContextSettings(images=True))
    first = await act()
    assert (first.action, first.thought) == (a.Click("12"), "On.")
    assert (first.metadata["tools"], first.metadata["prompt"]["name"]) == (True, "tools")
    assert (await act(axtree=f"{PAGE}\n[13] alert")).action == a.Click("1")
    assert "click" in model_server.requests[0].tools
    assert first.model_calls[0].sampling["tools"]
    await act()
    *_, call, result, told = shown_in(model_server.requests[-1])
    assert call == ("call", "click", {"bid": "1"})
    assert result[0] == "result"
    assert "[12] button" in result[1] + told[1]
    assert "[13] alert" in model_server.requests[1].body.decode()
    assert len(model_server.requests[-1].images) == 3
    assert "Task: Order." not in result[1] + told[1]


def shown_in(request):
    """Returns what a conversation shows, in one form for all APIs."""
    shown = []
    for index, message in enumerate(request.messages):
        kind, role = message.get("type"), message.get("role")
        blocks = message["content"] if isinstance(message.get("content"), list) else []
        if kind == "function_call":
            shown.append(("call", message["name"], json.loads(message["arguments"])))
        for call in message.get("tool_calls") or ():
            function = call["function"]
            shown.append(("call", function["name"], json.loads(function["arguments"])))
        shown += [("call", b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]
        texts = [part["text"] for part in request.parts(index) if "text" in part]
        is_result = role == "tool" or kind == "function_call_output"
        is_result |= any(block["type"] == "tool_result" for block in blocks)
        if texts or is_result:
            shown.append(("result" if is_result else role, "\n".join(texts)))
    return [*shown, ("", "")] if shown[-1][0] == "result" else shown


@pytest.mark.parametrize("api", CLIENTS)
async def test_of_several_calls_the_first_is_played_and_the_model_is_told(api, model_server, begin):
    both = Reply(calls=[click("12"), {"name": "go_back", "arguments": {}}])
    model_server.script(both, Reply(calls=[click("1")]))
    act = begin(api)
    assert (await act()).action == a.Click("12")
    assert (await act()).action == a.Click("1")
    assert model_server.requests[-1].body.decode().count(NOT_PLAYED) == 1
    asked = model_server.requests[0].json
    one_at_a_time = asked.get("parallel_tool_calls") is False
    assert one_at_a_time or asked["tool_choice"]["disable_parallel_tool_use"]


@pytest.mark.parametrize("api", CLIENTS)
@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ({"name": "fly", "arguments": {}}, "unknown_action"),
        ({"name": "click", "arguments": {}}, "bad_arguments"),
        ({"name": "click", "arguments": {"bid": 12}}, "bad_arguments"),
    ],
)
async def test_a_call_that_cannot_be_read_is_answered_and_never_played(
    api, call, kind, model_server, begin
):
    model_server.script(Reply(calls=[call]), Reply(calls=[click("1")]))
    act = begin(api)
    assert (await act()).action.kind == kind
    assert (await act()).action == a.Click("1")
    assert "was not carried out" in model_server.requests[-1].body.decode()


async def test_older_rounds_lose_their_calls_and_results_together(model_server, begin):
    model_server.script(*[Reply(calls=[click("1")])] * 4)
    act = begin("chat", context=ContextSettings(full_rounds=1))
    for _ in range(4):
        await act()
    roles = [message["role"] for message in model_server.requests[-1].messages]
    assert roles == ["system", "user", "assistant", "tool"]


def use(action, **given):
    """Returns a call of Anthropic's computer tool."""
    return {"name": "computer", "arguments": {"action": action, **given}}


def member(action, **given):
    """Returns a call of Anthropic's computer toolset."""
    return {"name": action, "toolset_name": "computer", "arguments": given}


ANTHROPIC = {
    "computer_20250124": ("computer-use-2025-01-24", use),
    "computer_20251124": ("computer-use-2025-11-24", use),
    "computer_toolset_20260801": (None, member),
}


@pytest.mark.parametrize("tool", ANTHROPIC)
async def test_anthropics_computer_tool(tool, model_server, begin):
    beta, call = ANTHROPIC[tool]
    model_server.script(
        Reply(calls=[call("screenshot")], reasoning="Look."),
        Reply("Press.", calls=[call("left_click", coordinate=[60, 45], text="shift")]),
        Reply(calls=[call("left_click")]),
        Reply("It is done."),
    )
    act = begin("messages", dialect=f"anthropic:{tool}", context=LOOK)
    assert (await act()).action == a.Screenshot()
    assert (await act()).action == a.ClickAt(60, 45, modifiers=("Shift",))
    assert (await act()).action.kind == "bad_arguments"
    assert (await act()).action == a.Answer("It is done.")
    for request in model_server.requests:
        assert request.headers.get("anthropic-beta") == beta
        assert request.tools == [tool if beta is None else "computer"]
    # The model's reasoning goes back with its calls, unchanged.
    second = model_server.requests[1].messages[1]["content"]
    assert [block["type"] for block in second] == ["thinking", "tool_use"]
    (result,) = model_server.requests[1].messages[2]["content"]
    assert result["tool_use_id"] == second[1]["id"]
    assert result.get("toolset_name") == second[1].get("toolset_name")
    assert [part["type"] for part in result["content"]] == ["image", "text"]


async def test_zoom_enlarges_a_part_of_the_screenshot(model_server, begin):
    model_server.script(
        Reply(calls=[use("zoom", region=[40, 30, 60, 45])]),
        Reply(calls=[use("left_click", coordinate=[79, 59])]),
    )
    act = begin("messages", dialect="anthropic", context=LOOK)
    decision = await act()
    assert decision.action == a.Screenshot(region=(40, 30, 60, 45))
    assert (await act(image=screenshot("red"))).action == a.ClickAt(79, 59)
    shown = Image.open(io.BytesIO(model_server.requests[-1].images[-1]))
    assert shown.size == (80, 60)
    assert shown.getpixel((0, 0)) == shown.getpixel((79, 59)) == (255, 0, 0)
    assert "the part [40, 30, 60, 45] of the page" in model_server.requests[-1].text


def computer(*actions, **more):
    """Returns a call of OpenAI's computer tool."""
    return {"type": "computer_call", "actions": list(actions), **more}


CLICK = {"type": "click", "button": "left", "x": 60, "y": 45}


async def test_openais_computer_tool_plays_a_batch_action_by_action(model_server, begin):
    batch = computer({"type": "move", "x": 1, "y": 2}, CLICK, {"type": "type", "text": "a"})
    model_server.script(Reply(calls=[batch], reasoning="Hm."), Reply("Done."))
    act = begin("responses", dialect="openai", context=LOOK)
    first = await act()
    assert (first.action, first.thought) == (a.MoveMouse(1, 2), "Hm.")
    second, third = await act(), await act()
    assert (second.action, third.action) == (a.ClickAt(60, 45), a.TypeText("a"))
    assert second.model_calls == third.model_calls == ()
    last = screenshot("blue")
    assert (await act(image=last)).action == a.Answer("Done.")
    assert len(model_server.requests) == 2
    items = model_server.requests[-1].messages
    kinds = [item.get("type", item.get("role")) for item in items]
    assert kinds[2:] == ["reasoning", "computer_call", "computer_call_output", "user"]
    assert items[2]["encrypted_content"]
    assert items[3]["actions"] == batch["actions"]
    assert model_server.requests[-1].images[-1] == last
    assert model_server.requests[-1].json["store"] is False


async def test_the_rest_of_a_batch_is_left_out_when_an_action_fails(model_server, begin):
    model_server.script(Reply(calls=[computer(CLICK, CLICK, CLICK)]), Reply("Done."))
    act = begin("responses", dialect="openai", context=LOOK)
    await act()
    await act()
    assert (await act(error="It is covered.")).action == a.Answer("Done.")
    assert "The last 1 actions of your call were left out" in model_server.requests[-1].text
    assert "It is covered." in model_server.requests[-1].text


async def test_one_unreadable_action_spoils_a_batch(model_server, begin):
    model_server.script(Reply(calls=[computer(CLICK, {"type": "click", "x": 1, "y": 1})]))
    act = begin("responses", dialect="openai", context=LOOK)
    assert (await act()).action.kind == "bad_arguments"
    model_server.requests.clear(), act.calls.clear()  # The SDK's types have no such action.
    model_server.script(Reply("Done."))
    settled = begin("responses", dialect="openai", context=LOOK)
    assert (await settled()).action == a.Answer("Done.")


CHECK = {"id": "sc_1", "code": "malicious_instructions", "message": "Look out."}


async def test_a_safety_check_ends_the_episode(model_server, begin):
    model_server.script(Reply(calls=[computer(CLICK, pending_safety_checks=[CHECK])]))
    act = begin("responses", dialect="openai", context=LOOK)
    with pytest.raises(errors.EpisodeGivenUpError, match="malicious_instructions") as caught:
        await act()
    assert caught.value.decision.metadata["safety_checks"] == [CHECK]


async def test_a_safety_check_is_acknowledged_only_by_an_option(model_server, begin):
    model_server.script(
        Reply(calls=[computer(CLICK, pending_safety_checks=[CHECK])]), Reply("Done.")
    )
    act = begin("responses", dialect="openai", context=LOOK, acknowledge_safety_checks=True)
    decision = await act()
    assert decision.action == a.ClickAt(60, 45)
    assert decision.metadata["safety_checks"] == [CHECK]
    await act()
    (output,) = [m for m in model_server.requests[1].messages if "output" in m]
    assert output["acknowledged_safety_checks"] == [CHECK]
