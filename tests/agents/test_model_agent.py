"""The model agent, with a model server over real HTTP: what it asks, reads, and leaves behind."""

import json

import numpy as np
import pytest

from webtraj import errors
from webtraj.agents.contexts import ContextSettings
from webtraj.agents.model import ModelAgent
from webtraj.agents.models import Sampling
from webtraj.environments import actions as a
from webtraj.environments.actions.dialects import BrowserGymDialect
from webtraj.testing.model_server import Reply
from webtraj.trajectory import Decision

PAGE = '[1] textbox "Name"\n[12] button "Submit"'
PNG = b"\x89PNG\r\n\x1a\n of a page"
VALID, INVALID = "Thought: On.\nAction: click('12')", "Thought: On.\nClicking now!"


def observation(axtree=PAGE, **channels):
    return {
        "goal": "Order coffee.",
        "url": "https://shop.test/",
        "title": "Shop",
        "axtree": axtree,
        "last_action": {"error": "", "error_kind": ""},
        **channels,
    }


def play(agent, environment=None):
    actor = agent.begin_episode(environment)
    return lambda **channels: actor.act(observation(**channels))


async def test_reply_becomes_a_decision_with_the_call_on_record(model_server, served_agent):
    model_server.script(VALID)
    decision = await play(served_agent(model_server, sampling=Sampling(temperature=0.5)))()
    assert (decision.action, decision.thought) == (a.Click("12"), "On.")
    (call,) = decision.model_calls
    assert call.text == VALID
    assert call.prompt_token_ids
    assert len(call.completion_token_ids) == len(call.logprobs) >= len(VALID)
    assert call.sampling["temperature"] == 0.5
    assert [message["role"] for message in call.messages] == ["system", "user"]
    assert decision.metadata["prompt"]["name"] == "plain"
    assert len(decision.metadata["prompt"]["sha256"]) == 64
    assert decision.metadata["dialect"] == "webtraj"
    (request,) = model_server.requests
    assert request.text.startswith("Task: Order coffee.\n\nPage: Shop (https://shop.test/)\n[1]")
    assert BrowserGymDialect(extended=True).prompt() in request.parts(0)[0]["text"]


async def test_history_is_what_was_seen_and_replied(model_server, served_agent):
    model_server.script("click('1')", "click('12')", "go_back()")
    act = play(served_agent(model_server, context=ContextSettings(full_rounds=1)))
    await act()
    await act(title="Basket")
    failed = {"error": "Element 12 is covered.", "error_kind": "covered"}
    await act(title="Basket", last_action=failed)
    system, first, reply, last = model_server.requests[-1].messages
    assert system["role"] == "system"
    first, last = (model_server.requests[-1].parts(index)[0]["text"] for index in (1, 3))
    assert "Earlier steps:\n1. On Shop (https://shop.test/): click('1') -> done\n" in first
    assert reply == {"role": "assistant", "content": "click('12')"}
    assert last.startswith("The last action was not done: Element 12 is covered.\n\nPage: Basket")


async def test_invalid_reply_is_kept_and_the_model_told_why(model_server, served_agent):
    model_server.script(INVALID, VALID)
    act = play(served_agent(model_server))
    decision = await act()
    assert decision.action == a.InvalidAction(decision.parse_error, INVALID, "no_action")
    assert decision.model_calls[0].text == INVALID
    seen = {"error": decision.parse_error, "error_kind": "invalid_no_action"}
    assert (await act(last_action=seen)).action == a.Click("12")
    request = model_server.requests[-1]
    assert request.messages[2] == {"role": "assistant", "content": INVALID}
    assert request.text.startswith(
        "Your last reply was not carried out. The reply holds no call; reply with one action."
    )
    assert request.text.count("holds no call") == 1


async def test_too_many_invalid_replies_in_a_row_give_the_episode_up(model_server, served_agent):
    model_server.script(INVALID, INVALID, VALID, INVALID, INVALID, "nothing")
    act = play(served_agent(model_server, max_invalid_actions=3))
    kinds = [type((await act()).action) for _ in range(5)]
    assert kinds == [a.InvalidAction, a.InvalidAction, a.Click, a.InvalidAction, a.InvalidAction]
    with pytest.raises(
        errors.EpisodeGivenUpError, match=r"3 replies in a row.*holds no call"
    ) as up:
        await act()
    assert up.value.decision.model_calls[0].text == "nothing"
    assert isinstance(up.value.decision.action, a.InvalidAction)


async def test_context_that_is_too_long_is_cut_harder(model_server, served_agent):
    long = "\n".join(f'[{number}] link "Number {number}"' for number in range(2000))
    model_server.max_model_len = 20_000  # One token a character.
    model_server.script(VALID, VALID)
    small = BrowserGymDialect(verbs={a.Click, a.Fill})
    agent = served_agent(model_server, dialect=small, context=ContextSettings(cut_harder=3))
    act = play(agent)
    decision = await act(axtree=long)
    assert decision.action == a.Click("12")
    *failed, answered = decision.model_calls
    assert 1 <= len(failed) <= 3
    assert all(call.error and not call.text for call in failed)
    assert answered.text == VALID
    assert decision.metadata["cuts"][0]["what"] == "page"
    assert f"[... {decision.metadata['cuts'][0]['left_out']} lines cut]" in (
        model_server.requests[-1].text
    )
    # What was learnt holds for the rest of the episode, and for no other.
    assert len((await act(axtree=long)).model_calls) == 1
    model_server.script(VALID)
    assert len((await play(agent)(axtree=long)).model_calls) == len(failed) + 1


async def test_context_that_cannot_be_cut_enough_gives_the_episode_up(model_server, served_agent):
    model_server.max_model_len = 100
    agent = served_agent(model_server, context=ContextSettings(cut_harder=2))
    with pytest.raises(
        errors.EpisodeGivenUpError, match="too long for the model, cut 2 times"
    ) as up:
        await play(agent)()
    assert [bool(call.error) for call in up.value.decision.model_calls] == [True, True, True]
    assert isinstance(up.value.__cause__, errors.ContextOverflowError)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply.error(503), errors.ModelUnavailableError),
        (Reply.error(401), errors.ModelRefusedError),
        (Reply(cut="within"), errors.ModelUnavailableError),
    ],
    ids=["503", "401", "cut"],
)
async def test_other_failures_are_raised_as_they_are(reply, error, model_server, served_agent):
    model_server.script(reply)
    with pytest.raises(error) as raised:
        await play(served_agent(model_server))()
    (call,) = raised.value.decision.model_calls
    assert call is raised.value.call
    assert call.error
    assert raised.value.decision.action is None


async def test_thinking_is_recorded_and_left_out_of_the_history(model_server, served_agent):
    model_server.script("<think>Two fields.</think>click('1')", "click('12')")
    act = play(served_agent(model_server))
    assert (await act()).thought == "Two fields."
    await act()
    assert model_server.requests[-1].messages[2]["content"] == "click('1')"


@pytest.mark.parametrize(
    "reply",
    ["<think>Two fields.</think>\nclick('1')", Reply("click('1')", reasoning="Two fields.")],
    ids=["in the text", "told apart"],
)
async def test_thinking_can_be_kept_in_the_history(reply, model_server, served_agent):
    model_server.script(reply, "click('12')")
    act = play(served_agent(model_server, context=ContextSettings(keep_thinking=True)))
    assert (await act()).thought == "Two fields."
    await act()
    shown = model_server.requests[-1].messages[2]["content"]
    assert shown == "<think>Two fields.</think>\nclick('1')"


async def test_memory_is_shown_again_until_it_is_replaced(model_server, served_agent):
    replies = [
        "Memory: Order 7.\nAction: click('1')",
        "Action: click('1')",
        "Memory: None.\nAction: click('1')",
    ]
    model_server.script(*replies, "click('1')")
    act = play(served_agent(model_server, prompt="memory"))
    assert [(await act()).memory for _ in range(4)] == ["Order 7.", "", "None.", ""]
    shown = [
        request.text.partition("remember:\n")[2].partition("\n")[0]
        for request in model_server.requests
    ]
    assert shown == ["", "Order 7.", "Order 7.", "None."]


async def test_marks_are_numbers_for_the_model_and_refs_for_the_environment(
    model_server, served_agent
):
    call = {"name": "web_interaction", "arguments": {"action": "click", "element_id": "2"}}
    model_server.script(f"Action: Submit.\n<tool_call>{json.dumps(call)}</tool_call>")
    agent = served_agent(
        model_server,
        dialect="webgym_marks",
        prompt="webgym_vanilla",
        context=ContextSettings(mode="marks"),
        viewport=(800, 600),
    )
    marks = {
        "image": PNG,
        "refs": np.array(["1", "12"]),
        "roles": np.array(["textbox", "button"]),
        "names": np.array(["Name", "Submit"]),
    }
    decision = await play(agent)(set_of_marks=marks)
    assert decision.action == a.Click("12")
    (request,) = model_server.requests
    assert request.images == [PNG]
    assert '[2] button "Submit"' in request.text


async def test_coordinates_are_those_of_the_viewport(model_server, served_agent):
    call = {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [500, 250]}}
    model_server.script(*[f"<tool_call>{json.dumps(call)}</tool_call>"] * 2)
    agent = served_agent(
        model_server, dialect="webgym", context=ContextSettings(mode="coordinates")
    )
    scroll = {"width": 1280.0, "height": 720.0}
    act = play(agent)
    assert (await act(screenshot=PNG, scroll=scroll)).action == a.ClickAt(640, 180)

    class Small:
        viewport = (160, 210)

    act = play(agent, Small())
    assert (await act(screenshot=PNG)).action == a.ClickAt(80, 52.5)
    with pytest.raises(errors.InvalidInputError, match=r"size of the viewport.*'scroll'"):
        await play(agent)(screenshot=PNG)


async def test_tool_call_that_the_server_took_out_of_the_text(model_server, served_agent):
    def body(*calls, content="I press it."):
        message = {
            "role": "assistant",
            "content": content,
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "click", "arguments": call}}
                for call in calls
            ],
        }
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        return Reply(body=json.dumps({"choices": [choice], "usage": {}}).encode())

    one, two = '{"bid": "12"}', '{"bid": "1"}'
    model_server.script(body(one), body(one, two), body(one, content="click('1')"), "noop()")
    act = play(served_agent(model_server))
    decision = await act()
    assert (decision.action, decision.thought) == (a.Click("12"), "I press it.")
    for _ in range(2):
        assert (await act()).action.kind == "several_actions"
    await act()
    assert model_server.requests[-1].messages[2]["content"] == "I press it."


async def test_actions_can_be_enforced_by_the_server(model_server, served_agent):
    model_server.script("click('12')", "click('9')")
    agent = served_agent(model_server, enforce_actions=True, prompt="bare")
    act = play(agent)
    await act()
    await act(axtree='[9] button "Other"')
    first, second = (
        request.json["structured_outputs"]["regex"] for request in model_server.requests
    )
    assert r"click\('(?:1|12)'" in first
    assert r"click\('(?:9)'" in second


async def test_each_call_is_sampled_with_a_seed_of_its_own_that_can_be_had_again(
    model_server, served_agent
):
    class Described:
        def __init__(self, seed):
            self._seed = seed

        def describe_episode(self):
            return {"task": "shop", "seed": self._seed}

    agent = served_agent(model_server, seed=1)
    seeds = []
    for episode in (7, 7, 8):
        model_server.script(VALID, VALID)
        act = play(agent, Described(episode))
        await act()
        await act()
        seeds.append([request.json["seed"] for request in model_server.requests[-2:]])
    assert seeds[0] == seeds[1]
    assert len({*seeds[0], *seeds[2]}) == 4


async def test_episodes_at_once_keep_their_own_history(model_server, served_agent):
    model_server.script(*[VALID] * 4)
    agent = served_agent(model_server)
    one, two = play(agent), play(agent)
    for act, goal in ((one, "one"), (two, "two"), (two, "two"), (one, "one")):
        await act(goal=goal)
    assert [len(request.messages) for request in model_server.requests] == [2, 2, 4, 4]
    assert "Task: one" in model_server.requests[-1].parts(1)[0]["text"]


class NoModel:
    name = "vllm/tiny"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dialect": "esperanto"}, "Unknown dialect 'esperanto'"),
        ({"prompt": "none"}, "No prompt 'none'"),
        ({"max_invalid_actions": 0}, "1 or more; got 0"),
        ({"dialect": "anthropic", "enforce_actions": True}, "no structure"),
    ],
    ids=["dialect", "prompt", "cap", "structure"],
)
def test_agent_that_could_never_act_is_not_made(options, words):
    with pytest.raises(errors.InvalidInputError, match=words):
        ModelAgent(client=NoModel(), **options)


@pytest.mark.parametrize("tools", [False, True])
async def test_remembered_rounds_give_the_prompts_of_the_run_that_made_them(
    tools, model_server, served_agent
):
    if tools:
        made = [("click", {"ref": "1"}), ("fill", {"ref": "12"}), ("go_back", {})]
        replies = [Reply(calls=({"name": name, "arguments": given},)) for name, given in made]
    else:
        replies = ["Thought: On.\nAction: click('1')", "no action at all", "go_back()"]
    model_server.script(*replies, replies[-1])
    agent = served_agent(model_server, tools=tools, context=ContextSettings(full_rounds=1))
    pages = [{"title": "A"}, {"title": "B"}, {"title": "C"}]
    act = play(agent)
    first = [await act(**page) for page in pages]
    again = agent.begin_episode(None)
    for page, decision in zip(pages[:2], first, strict=False):
        again.remember(observation(**page), decision)
    await again.act(observation(**pages[2]))
    assert model_server.requests[-1].messages == model_server.requests[-2].messages


async def test_remembered_action_of_another_kind_of_agent_is_shown_in_the_agents_dialect(
    model_server, served_agent
):
    model_server.script(VALID)
    actor = served_agent(model_server).begin_episode(None)
    actor.remember(observation(), Decision(action=a.Fill("1", "Bo"), thought="A name first."))
    await actor.act(observation())
    assert model_server.requests[-1].messages[2] == {
        "role": "assistant",
        "content": "fill('1', 'Bo')",
    }
