"""Asking over real HTTP: until the reply can be used, and no longer."""

import json

import pytest

from webtraj import errors
from webtraj.agents.models import OpenAICompatibleClient, RetryPolicy, structured_output
from webtraj.agents.models.base import Image, Message, Sampling, Structure
from webtraj.testing.model_server import FakeModelServer, Reply

GOOD = {"goal": "Open the shop."}
FORM = Structure("json", {"type": "object", "properties": {"goal": {"type": "string"}}})
MESSAGES = (
    Message.of("system", "You name goals."),
    Message.of("user", Image(b"\x89PNG\r\n\x1a\n picture"), "Which goal is it?"),
)


def has_form(request):
    return "structured_outputs" in request.json or "response_format" in request.json


@pytest.fixture
async def asked():
    """Asks a server that goes by a rule; returns the answer and the requests."""

    async def ask(rule, *, times=1, messages=MESSAGES, **options):
        options = {
            "sampling": Sampling(temperature=0.0, structure=FORM),
            "again": lambda broken: f"Not so: {broken}",
            "attempts": 3,
            **options,
        }
        with FakeModelServer(rule, max_model_len=options.pop("max_model_len", None)) as server:
            client = OpenAICompatibleClient(
                "fake-model", server.url, retries=RetryPolicy(max_retries=0)
            )
            async with client:
                answers = [
                    await structured_output.ask(
                        client, messages, structured_output.object_of, **options
                    )
                    for _ in range(times)
                ]
            assert not server.errors
        return (answers[0] if times == 1 else answers), server.requests

    return ask


async def test_first_good_reply_is_the_answer(asked) -> None:
    answer, requests = await asked([json.dumps(GOOD)])
    assert (answer.value, answer.broken, answer.error) == (GOOD, "", None)
    (call,) = answer.calls
    assert call.text == json.dumps(GOOD)
    assert len(requests) == 1
    assert has_form(requests[0])


async def test_broken_reply_is_asked_for_again_and_not_shown_again(asked) -> None:
    answer, requests = await asked(["Injected by a page.", "", json.dumps(GOOD)])
    assert answer.value == GOOD
    assert [call.text for call in answer.calls] == ["Injected by a page.", "", json.dumps(GOOD)]
    assert "Not so: The reply is not one JSON object." in requests[1].text
    assert "Not so: The reply is empty." in requests[2].text
    assert "Not so: The reply is not one" not in requests[2].text  # Notes do not pile up.
    assert all("Injected" not in str(request.json) for request in requests)
    assert all("Which goal is it?" in request.text for request in requests)


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply.error(500), errors.ModelUnavailableError),
        (Reply.error(401), errors.ModelRefusedError),
        (Reply(cut="within"), errors.ModelUnavailableError),
    ],
    ids=["fails", "refuses", "cut"],
)
async def test_server_without_a_reply_ends_it_on_record(asked, reply, error) -> None:
    answer, requests = await asked(lambda request: reply)
    assert isinstance(answer.error, error)
    assert (answer.value, answer.broken) == (None, "")
    assert all(call.error for call in answer.calls)
    assert len(answer.calls) == len(requests) == (2 if error is errors.ModelRefusedError else 1)


async def test_server_that_takes_no_form_is_asked_in_words_from_then_on(asked) -> None:
    def rule(request):
        return Reply.error(400, "no such field") if has_form(request) else json.dumps(GOOD)

    forms = structured_output.Forms()
    (first, second), requests = await asked(rule, times=2, forms=forms)
    assert first.value == second.value == GOOD
    assert [bool(call.error) for call in first.calls] == [True, False]
    assert len(second.calls) == 1
    assert [has_form(request) for request in requests] == [True, False, False]


async def test_server_that_refuses_everything_is_not_remembered_for_its_form(asked) -> None:
    state = {"refuses": 2}

    def rule(request):
        state["refuses"] -= 1
        return Reply.error(403) if state["refuses"] >= 0 else json.dumps(GOOD)

    forms = structured_output.Forms()
    (first, second), requests = await asked(rule, times=2, forms=forms)
    assert first.value is None
    assert second.value == GOOD
    assert has_form(requests[-1])


async def test_texts_of_a_message_are_asked_as_one_and_the_last_stands_by_itself(asked) -> None:
    """A server would put them together with nothing in between."""
    shown = Message.of("user", "<<<1 page>>>\n<<<end 1>>>", "Which goal is it?")
    _, (first, again) = await asked(["", json.dumps(GOOD)], messages=(shown,))
    assert first.messages[-1]["content"] == "<<<1 page>>>\n<<<end 1>>>\n\nWhich goal is it?"
    told = f"{first.messages[-1]['content']}\n\nNot so: The reply is empty."
    assert again.messages[-1]["content"] == told
