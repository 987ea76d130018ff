"""Which calls led to which steps: what shows it, and what is left open."""

import time

import pytest

from webtraj.demonstrating.gestures import Deed
from webtraj.environments import actions as a
from webtraj.gateway import Joiner, RecordedCall
from webtraj.gateway.dialects import model_call

GOAL = {"role": "user", "content": "Send the form."}


def reply(text, *calls):
    used = [
        {
            "id": f"call-{text}-{index}",
            "type": "function",
            "function": {"name": "do", "arguments": one},
        }
        for index, one in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text, **({"tool_calls": used} if used else {})}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": {}}


class Run:
    """Calls and steps of agents, at the times that a test gives."""

    def __init__(self):
        self.joiner = Joiner()
        self.epoch, self.zero = time.time(), time.monotonic()

    def call(self, name, start, end, response, *messages, run="", error=""):
        request = {"model": "m", "messages": [GOAL, *messages]}
        known = {"start_time": self.epoch + start, "error": error}
        for latency in (None, end and end - start):
            call = model_call("openai", request, response, latency=latency, **known)
            made = RecordedCall(id=name, run=run, call=call)
            if latency is None or end is not None:
                self.joiner.observe(made)

    def step(self, at, action, *, last=False, **touched):
        deed = Deed(
            action=action, time=self.zero + at, point=touched.pop("point", None), touched=touched
        )
        decision = self.joiner.decision(deed, last=last)
        self.joiner.note_recorded()
        told = decision.metadata["models"]
        return told["calls"], told["by"], told.get("of", "")


@pytest.fixture
def run():
    return Run()


@pytest.mark.parametrize(
    ("said", "action", "touched"),
    [
        (reply("", '{"text": "Anna"}'), a.Fill("1", "Anna"), {}),
        (reply("fill('Name', \"7\")"), a.Fill("1", "7"), {}),
        (reply('{"action": [{"input": {"text": "Anna"}}]}'), a.TypeInto("1", "Anna"), {}),
        (reply("type Anna"), a.TypeText("Anna"), {}),
        (reply("", '{"url": "http://shop.test/cart/"}'), a.Goto("http://shop.test/cart"), {}),
        (reply("", '{"element": "the button Send"}'), a.Click("1"), {"name": "Send"}),
        (reply("click(412, 90)"), a.ClickAt(412.4, 90.0), {"point": (412.4, 90.0)}),
        (reply("", '{"coordinate": [412, 90]}'), a.Click("1"), {"point": (412.0, 90.0)}),
        (reply("press Enter"), a.PressKey("Enter"), {}),
        (reply("The answer is Ulm."), a.Answer("Ulm"), {}),
    ],
)
def test_what_was_done_is_named(run, said, action, touched):
    run.call("other", 0, 1, reply("Something else."))
    run.call("this", 0, 1, said)
    assert run.step(2, action, **touched) == (["this"], "content", "")


@pytest.mark.parametrize(
    ("said", "action", "touched"),
    [
        (reply("", '{"text": "Annabel"}'), a.Fill("1", "Anna"), {}),
        (reply("Type 17."), a.Fill("1", "7"), {}),
        (reply("I see Send.", '{"element": "Back"}'), a.Click("1"), {"name": "Send"}),
        (reply("click(90, 412)"), a.ClickAt(412.0, 90.0), {"point": (412.0, 90.0)}),
    ],
)
def test_what_only_looks_like_it_is_not_taken_for_it(run, said, action, touched):
    run.call("other", 0, 1, reply("Something else."))
    run.call("this", 0, 1, said)
    assert run.step(2, action, **touched) == ([], "", "")


def test_one_conversation_s_order_shows_it(run):
    look = reply("", '{"tool": "look"}')
    run.call("look", 0, 1, look)
    run.call("act", 1, 2, reply("", '{"index": 5}'), look["choices"][0]["message"])
    assert run.step(3, a.Click("1")) == (["look", "act"], "order", "")
    assert run.step(4, a.Scroll(0, 100)) == ([], "order", "act")  # The same reply asked for it.


def test_a_call_in_flight_leaves_the_order_open(run):
    run.call("actor", 0, 1, reply("", '{"index": 5}'))
    run.call("judge", 0, None, None)
    assert run.step(2, a.Click("1")) == ([], "", "")
    assert run.step(3, a.Fill("1", "Anna")) == ([], "", "")


def test_a_call_that_was_in_flight_at_the_step_leaves_the_order_open(run):
    run.call("actor", 0, 1, reply("", '{"index": 5}'))
    assert run.step(2, a.Click("1")) == (["actor"], "order", "")
    run.call("other", 3, 9, reply("", '{"index": 6}'))
    assert run.step(4, a.Click("2")) == ([], "", "")  # Its decision is asked for at 10.
    assert run.step(10, a.Click("3")) == (["other"], "order", "")


def test_sub_agents_have_their_own_steps(run):
    run.call("anna", 0, 1, reply("", '{"text": "Anna"}'))
    run.call("bert", 0, 1, reply("", '{"text": "Bert"}'))
    assert run.step(2, a.Fill("1", "Bert")) == (["bert"], "content", "")
    assert run.step(3, a.Fill("2", "Anna")) == (["anna"], "content", "")


def test_two_that_name_the_same_are_left_open_and_kept(run):
    run.call("one", 0, 1, reply("", '{"text": "Anna"}'))
    run.call("two", 0, 1, reply("", '{"text": "Anna"}'))
    assert run.step(2, a.Fill("1", "Anna")) == ([], "", "")
    deed = Deed(action=a.Answer(""), time=run.zero + 3)
    left = run.joiner.decision(deed, last=True).metadata["models"]["unjoined"]
    assert len(left) == 2


def test_a_plan_that_the_actor_quotes_led_to_the_step(run):
    run.call("plan", 0, 1, reply("First type Anna, then send it."))
    quoted = {"role": "user", "content": "The plan: First type Anna, then send it."}
    run.call("act", 1, 2, reply("", '{"text": "Anna"}'), quoted)
    assert run.step(3, a.Fill("1", "Anna")) == (["plan", "act"], "content", "")


def test_a_compacted_context_goes_on_by_order(run):
    run.call("before", 0, 1, reply("", '{"index": 5}'), {"role": "user", "content": "A page"})
    assert run.step(2, a.Click("1")) == (["before"], "order", "")
    run.call("after", 3, 4, reply("", '{"index": 6}'), {"role": "user", "content": "Summary"})
    assert run.step(5, a.Click("2")) == (["after"], "order", "")


def test_attempts_are_one_call_of_the_step(run):
    run.call("first", 0, 1, None, error="HTTP 503")
    run.call("second", 2, 3, reply("", '{"text": "Anna"}'))
    assert run.step(4, a.Fill("1", "Anna")) == (["second"], "content", "")
    assert run.step(5, a.Click("1")) == ([], "order", "second")


PASSWORD = "Cat 5!k"


@pytest.mark.parametrize(
    "form", ['{"key": "%s"}', '{"into": "5", "text": "%s"}', "press '%s'", '[{"press": "%s"}]']
)
def test_a_password_that_came_key_by_key_is_in_no_call(run, form):
    user = {"role": "user", "content": "The page: a form. You are a user of it."}
    messages, at = [user], 0
    for letter in PASSWORD:
        said = reply("", form % letter) if form.startswith("{") else reply(form % letter)
        run.call(f"k{at}", at, at + 0.5, said, *messages)
        echo = {"role": "tool", "content": f"It got {letter}."}
        messages, at = [*messages, said["choices"][0]["message"], echo], at + 1
    run.call("send", at, at + 0.5, reply("Click Send.", '{"element": "Send"}'), *messages)
    messages += [{"role": "assistant", "content": "Click Send."}]
    run.joiner.hide(PASSWORD)
    typed = Deed(action=a.Fill("5", PASSWORD), time=run.zero + at - 0.4)
    decisions = [run.joiner.decision(typed)]
    run.joiner.note_recorded()
    send = Deed(action=a.Click("6"), time=run.zero + at + 0.6, touched={"name": "Send"})
    decisions.append(run.joiner.decision(send))
    run.joiner.note_recorded()
    run.call("done", at + 1, at + 2, reply("It is sent."), *messages)
    decisions.append(
        run.joiner.decision(Deed(action=a.Answer(""), time=run.zero + at + 3), last=True)
    )
    keys, (clicked,), (answered,) = (decision.model_calls for decision in decisions)
    assert len(keys) == len(PASSWORD)
    for call in keys:
        assert (call.text, call.response) == ("<secret:password>", None)
        assert call.messages[:2] == (GOAL, user)
        assert all("<secret:password>" in str(message) for message in call.messages[2:])
    for call in (clicked, answered):
        assert "It got" not in str(call.messages)
        hidden = ["<secret:password>" in str(message) for message in call.messages]
        assert sum(hidden) == 2 * len(PASSWORD)
    assert clicked.text == "Click Send."
    assert answered.messages[-1] == messages[-1]


def test_what_only_looks_like_a_password_is_kept(run):
    run.call("plan", 0, 1, reply("Type the password, which is stored, and click Send."))
    run.call("ref", 1, 2, reply("", '{"ref": "5"}'))
    run.joiner.hide("5 cats at 12")
    decision = run.joiner.decision(Deed(action=a.Fill("5", "5 cats at 12"), time=run.zero + 3))
    assert all(call.response for call in decision.model_calls)
