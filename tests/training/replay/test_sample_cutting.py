"""A sample says what was recorded, and nothing else."""

from collections import Counter

import orjson
import pytest

from rows import each
from webtraj import errors, open_dataset
from webtraj.agents.models.base import Image, Message, Text
from webtraj.agents.models.messages import Base64Cache, dump_body, to_anthropic, to_openai
from webtraj.environments import actions as a
from webtraj.testing.model_server import FakeModelServer
from webtraj.training.replay import AgentRenderer, sample_of, samples_of
from webtraj.training.replay.cutter import outline, read_messages
from webtraj.training.samples import SampleKey
from webtraj.trajectory import Decision, EndReason, Judgement, ModelCall, Outcome


def no_call(name, step):
    return None


def button(step):
    return f'[{step + 1}] button "b"'


CONVERSATION = (
    Message.of("system", "Act."),
    Message.of("user", "one", Image(b"\x89PNG\r\n\x1a\n one"), "two"),
    Message.of("assistant", "click('1')"),
    Message.of("user", Image(b"\x89PNG\r\n\x1a\n two"), "three"),
)


def test_openai_messages_come_back_as_they_were():
    for uuids in (False, True):
        _, recorded = to_openai(CONVERSATION, Base64Cache(), uuids=uuids)
        assert read_messages(recorded) == CONVERSATION


def test_a_call_keeps_messages_of_ours_in_a_providers_shape():
    call = ModelCall(messages=CONVERSATION)
    assert call.messages[0] == {"role": "system", "content": "Act."}
    assert read_messages(call.messages) == CONVERSATION
    assert ModelCall(messages=call.messages) == call


def test_sent_messages_with_base64_are_read_as_the_recorded_ones():
    sent, _ = to_openai(CONVERSATION, Base64Cache(), uuids=False)
    assert read_messages(orjson.loads(dump_body(sent))) == CONVERSATION
    _, sent, _ = to_anthropic(CONVERSATION, Base64Cache())
    assert read_messages(orjson.loads(dump_body(sent))) == CONVERSATION[1:]


def test_anthropic_messages_come_back_as_they_were():
    system, _, recorded = to_anthropic(CONVERSATION, Base64Cache())
    recorded.insert(0, {"role": "system", "content": system})  # As the client records it.
    assert read_messages(recorded) == CONVERSATION


REFUSED = {
    "no-mapping": "click",
    "no-role": {"content": "x"},
    "unknown-role": {"role": "tool", "content": "x"},
    "no-content": {"role": "user", "content": None},
    "no-parts": {"role": "user", "content": []},
    "tool-call": {"role": "assistant", "content": "x", "tool_calls": [{"id": "1"}]},
    "unknown-part": {"role": "user", "content": [{"type": "audio", "audio": b"x"}]},
    "picture-by-url": {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": "https://x/a.png"}}],
    },
    "no-base64": {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": "data:image/png,abc"}}],
    },
}


@each("name", REFUSED)
def test_other_shapes_are_refused_and_named(name):
    with pytest.raises(
        errors.InvalidInputError, match="Cannot read message 1 of a recorded prompt"
    ):
        read_messages([{"role": "user", "content": "x"}, REFUSED[name]])


def test_sample_has_all_that_the_record_says(episode):
    trajectory = episode("e1", site="shop", group_id="g")
    sample = sample_of(trajectory, 2, iteration=4)
    assert sample.key == SampleKey("e1", 2, 0)
    assert sample.messages == read_messages(trajectory.steps[2].decision.model_calls[0].messages)
    assert isinstance(sample.messages[1].parts[0], Image)
    assert sample.messages[1].parts[1] == Text("Task e1, step 2")
    assert sample.completion == "Action: click('2')"
    assert (sample.prompt_token_ids, sample.completion_token_ids) == ((1, 2, 3), (4, 5))
    assert sample.logprobs == (-0.5, -0.25)
    assert (sample.reward, sample.outcome, sample.iteration) == (1.0, Outcome.SUCCESS, 4)
    assert (sample.task, sample.site, sample.goal, sample.group_id) == ("t0", "shop", "do e1", "g")
    assert (sample.policy, sample.policy_version) == ("model/m", "7")
    assert sample.action == a.Click("2")
    assert sample.recorded
    assert sample.metadata["thought"] == "why"
    assert [one.key.step for one in samples_of(trajectory)] == [1, 2, 3]


def test_sample_of_a_stored_episode_equals_that_of_the_one_in_memory(episode, dataset):
    trajectory = episode("e1")
    place = dataset("d", [trajectory])
    wanted = list(samples_of(trajectory))
    names = [image.uuid for one in wanted for image in one.images]
    assert names
    for blobs in ("eager", "lazy"):
        stored = open_dataset(place, blobs=blobs)["e1"]
        found = list(samples_of(stored))
        assert found == wanted
        assert [image.uuid for one in found for image in one.images] == names
    assert outline(stored.steps[1].decision.model_calls[0].messages)  # Nothing was loaded for it.


def test_an_offered_tool_that_no_row_can_hold_is_changed_and_counted_or_refused(episode, call):
    def sample_with(name):
        tool = {"type": "function", "function": {"name": name, "parameters": {}}}
        asked = call("e1", 1, sampling={"tools": [tool]})
        decision = Decision(action=a.Click("1"), model_calls=(asked,))
        return sample_of(episode("e1", step_fields={1: {"decision": decision}}), 1)

    half = sample_with("wait\ud800")
    assert half.tools[0]["function"]["name"] == "wait?"
    assert half.left_out == {"left_out_half_character": 1}
    with pytest.raises(errors.InvalidInputError, match="not JSON"):
        sample_with(b"wait")


def test_the_call_that_was_acted_on_is_the_sample(episode, call):
    failed = call("x", 1, error="503", text="")
    trajectory = episode(
        "e1",
        step_fields={
            1: {
                "decision": Decision(
                    action=a.Click("1"), model_calls=(failed, call("e1", 1), failed)
                )
            },
            2: {"decision": Decision(action=a.Click("2"), model_calls=(failed,))},
        },
    )
    assert sample_of(trajectory, 1).key == SampleKey("e1", 1, 1)
    assert [one.key.step for one in samples_of(trajectory)] == [1, 3]
    for step, which in ((2, None), (1, 0), (1, 7), (0, None)):
        with pytest.raises(errors.InvalidInputError, match="has no model call"):
            sample_of(trajectory, step, which)
    with pytest.raises(errors.InvalidInputError, match="does not exist"):
        sample_of(trajectory, 9)


INFRASTRUCTURE = (
    (EndReason.ERRORED, Outcome.ENV_ERROR),
    (EndReason.CRASHED, Outcome.UNKNOWN),
    (EndReason.CANCELLED, Outcome.CANCELLED),
    (EndReason.TRUNCATED, Outcome.TIMEOUT),
    (EndReason.TERMINATED, Outcome.JUDGE_ERROR),
    (EndReason.TERMINATED, Outcome.BLOCKED),
    (EndReason.TRUNCATED, Outcome.AGENT_ERROR),
    (EndReason.TRUNCATED, Outcome.MODEL_ERROR),
)


@each(("reason", "outcome"), INFRASTRUCTURE)
def test_what_says_nothing_of_the_agent_gives_no_sample_and_no_reward(episode, reason, outcome):
    trajectory = episode("e1", reason=reason, outcome=outcome)
    assert list(samples_of(trajectory)) == []
    with pytest.raises(errors.InvalidInputError, match="says nothing about the agent"):
        sample_of(trajectory, 1)


def judged(outcome, reward):
    return Judgement(judge="model", outcome=outcome, reward=reward)


REWARDS = {
    "success": (Outcome.SUCCESS, (), 1.0),
    "failure": (Outcome.FAILURE, (), 0.0),
    "ungraded": (Outcome.UNKNOWN, (), None),
    "partly": (Outcome.FAILURE, (judged(Outcome.FAILURE, 0.25),), 0.25),
    "no-opinion-after": (
        Outcome.SUCCESS,
        (judged(Outcome.SUCCESS, 0.75), judged(Outcome.UNKNOWN, None)),
        0.75,
    ),
    "overruled": (
        Outcome.FAILURE,
        (judged(Outcome.SUCCESS, 1.0), judged(Outcome.FAILURE, None)),
        0.0,
    ),
    "no-number": (Outcome.SUCCESS, (judged(Outcome.SUCCESS, float("nan")),), 1.0),
}


@each("name", REWARDS)
def test_reward_is_the_outcome_s_or_its_judge_s(episode, name):
    outcome, judgements, reward = REWARDS[name]
    assert sample_of(episode("e1", outcome=outcome, judgements=judgements), 1).reward == reward


def test_decisions_without_model_calls_are_samples_only_if_rendered(episode):
    oracle = episode("e1", call=no_call, page=button)
    assert list(samples_of(oracle)) == []
    with pytest.raises(errors.InvalidInputError, match="become samples by render="):
        sample_of(oracle, 1)
    renderer = AgentRenderer(dialect="webtraj", prompt="plain")
    found = list(samples_of(oracle, render=renderer))
    assert [one.completion for one in found] == [
        f"Thought: why\nAction: click('{step}')" for step in (1, 2, 3)
    ]
    assert not any(one.recorded for one in found)
    assert found[0].metadata["rendered"] == renderer.reference
    assert "do e1" in found[0].messages[1].parts[0].text
    assert sample_of(oracle, 2, render=renderer) == found[1]
    recorded = episode("e2")
    assert list(samples_of(recorded, render=renderer)) == list(samples_of(recorded))


def test_a_call_whose_prompt_cannot_be_read_is_an_error_that_names_it(episode):
    odd = lambda name, step: ModelCall(text="x", messages=({"role": "tool", "content": "x"},))  # noqa: E731
    with pytest.raises(
        errors.InvalidInputError, match=r"step 1 of the episode 'e1': Cannot read message 0"
    ):
        list(samples_of(episode("e1", call=odd)))


def test_rendering_refuses_what_it_cannot_render():
    from webtraj.agents.contexts import ContextSettings

    with pytest.raises(errors.InvalidInputError, match="Marks cannot be rendered"):
        AgentRenderer(context=ContextSettings(mode="marks"))
    with pytest.raises(errors.InvalidInputError, match="No prompt"):
        AgentRenderer(prompt="nope")


def test_a_renderer_takes_the_options_of_the_agent_that_its_prompts_are_for():
    from webtraj.agents.contexts import ContextSettings
    from webtraj.training.export.configuration import ExportSettings

    assert AgentRenderer.of({}) == AgentRenderer()
    assert AgentRenderer.of({"mode": "coordinates", "full_rounds": 1}) == AgentRenderer(
        dialect="webgym",
        prompt="webgym_vanilla",
        context=ContextSettings(mode="coordinates", full_rounds=1),
    )
    own = AgentRenderer.of({"mode": "coordinates", "dialect": "webtraj", "prompt": "bare"})
    assert (own.dialect, own.prompt) == ("webtraj", "bare")
    with pytest.raises(errors.InvalidInputError, match="No option 'mod'"):
        AgentRenderer.of({"mod": "coordinates"})
    with pytest.raises(errors.InvalidInputError, match="Prompts with tools cannot be rendered"):
        AgentRenderer.of({"tools": True})
    with pytest.raises(ValueError, match="render_options needs render"):
        ExportSettings(render_options={"mode": "coordinates"})


async def test_rendered_prompt_is_the_one_that_the_agent_sends(episode):
    """The same episode, played by a model over HTTP and rendered of an oracle's, is the same."""
    from webtraj.agents.model import ModelAgent
    from webtraj.agents.models import OpenAICompatibleClient

    oracle = episode("e1", call=no_call, page=button)
    rendered = list(samples_of(oracle, render=AgentRenderer()))
    replies = [one.completion for one in rendered]
    with FakeModelServer(replies) as server:
        async with OpenAICompatibleClient("fake-model", server.url) as client:
            actor = ModelAgent(client=client).begin_episode(_Described(oracle.info))
            for step, wanted in enumerate(rendered):
                decision = await actor.act(dict(oracle.steps[step].observation))
                assert read_messages(decision.model_calls[-1].messages) == wanted.messages
                assert decision.action == wanted.action


class _Described:
    def __init__(self, info):
        self._info = info

    def describe_episode(self):
        return {"task": self._info.task, "seed": self._info.seed, "goal": self._info.goal}


def saying(**fields):
    return {"role": "assistant", "content": "Hm.", **fields}


def blocks(*more):
    return saying(content=[{"type": "text", "text": "Hm."}, *more])


CALL = {"id": "1", "type": "function", "function": {"name": "wait", "arguments": "{}"}}
USE = {"type": "tool_use", "id": "1", "name": "wait", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "Ok."}]}
PICTURE = {"type": "image_url", "image_url": {"url": b"png", "detail": "low"}}

PARTLY_READ = {
    "reasoning": (saying(reasoning_content="Why?"), {"left_out_reasoning_content": 1}),
    "a name": (saying(name="Ann"), {"left_out_name": 1}),
    "thinking": (
        blocks({"type": "thinking", "thinking": "Why?", "signature": "x"}),
        {"left_out_thinking": 1},
    ),
    "hidden thinking": (
        blocks({"type": "redacted_thinking", "data": "x"}),
        {"left_out_redacted_thinking": 1},
    ),
    "an item of reasoning": ({"type": "reasoning", "summary": []}, {"left_out_reasoning": 1}),
    "a cached part": (
        saying(content=[{"type": "text", "text": "Hm.", "cache_control": {"type": "ephemeral"}}]),
        {"left_out_cache_control": 1},
    ),
    "a coarse picture": (saying(content=[PICTURE]), {"left_out_detail": 1}),
    "a tool's error": (
        {"role": "user", "content": [{**RESULT, "is_error": True}]},
        {"left_out_is_error": 1},
    ),
    "a tool's name": (
        {"role": "tool", "tool_call_id": "1", "content": "Ok.", "name": "wait"},
        {"left_out_name": 1},
    ),
    "a signed call": (
        saying(tool_calls=[{**CALL, "extra_content": {"signature": "x"}}]),
        {"left_out_extra_content": 1},
    ),
    "a strict function": (
        saying(tool_calls=[{**CALL, "function": {**CALL["function"], "strict": True}}]),
        {"left_out_strict": 1},
    ),
    "a call of a toolset": (
        blocks({**USE, "toolset_name": "computer"}),
        {"left_out_toolset_name": 1},
    ),
    "a developer": ({"role": "developer", "content": "Act."}, {"developer_as_system": 1}),
    "nothing": (saying(tool_calls=[CALL], refusal=None, annotations=[], audio=None), {}),
    "names of items": (
        {"type": "message", "id": "1", "status": "completed", **saying()},
        {},
    ),
    "plain blocks": (blocks(USE), {}),
}


@pytest.mark.parametrize("name", PARTLY_READ)
def test_what_is_not_carried_of_a_message_is_counted(name):
    message, counts = PARTLY_READ[name]
    left_out = Counter()
    read_messages([{"role": "user", "content": "x"}, message], left_out)
    assert left_out == counts


def test_a_call_of_no_function_is_refused():
    custom = {"id": "1", "type": "custom", "custom": {"name": "wait", "input": "x"}}
    with pytest.raises(errors.InvalidInputError, match="Cannot read message 0"):
        read_messages([saying(tool_calls=[custom])])
