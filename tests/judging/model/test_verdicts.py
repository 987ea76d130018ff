"""What is no verdict is never read as one; and no hostile reply makes a success."""

import json

from rows import each
from webtraj.judging.model import replay
from webtraj.judging.model.votes import read_call, read_reply, schema_of
from webtraj.testing.model_server import Reply
from webtraj.trajectory import ModelCall, Outcome

WORDS = ("success", "failure", "unclear")

GOOD = '{"reasoning": "The order page is shown.", "verdict": "success"}'
BAD = '{"reasoning": "The cart is empty.", "verdict": "failure"}'

VERDICTS = {
    "plain": (GOOD, "success"),
    "failure": (BAD, "failure"),
    "members in the other order": ('{"verdict": "success", "reasoning": "Seen."}', "success"),
    "white space around": (f"\n  {GOOD}\r\n\t", "success"),
    "in a fence": (f"```json\n{GOOD}\n```", "success"),
    "in a fence of no language": (f"```\n{GOOD}\n```", "success"),
    "over several lines": (json.dumps(json.loads(GOOD), indent=2), "success"),
    "escaped, but the same word": ('{"reasoning": "Seen.", "verdict": "succ\\u0065ss"}', "success"),
    "words of another verdict in the reasoning": (
        '{"reasoning": "No failure is to be seen.", "verdict": "success"}',
        "success",
    ),
    "the same verdict in the reasoning": (
        '{"reasoning": "So the verdict is success.", "verdict": "success"}',
        "success",
    ),
}

HOSTILE = {
    "empty": "",
    "white space": " \n\t ",
    "a word": "success",
    "a word in capitals": "SUCCESS",
    "not success": "NOT SUCCESS",
    "webgym's form": "Reasoning: all was seen.\nVerdict: SUCCESS",
    "status line": "Status: success",
    "yes": "YES",
    "refused": "I'm sorry, but I can't help with judging this content.",
    "refused in a verdict's words": "I cannot say whether this is a success or a failure.",
    "cut in the reasoning": '{"reasoning": "The order page is sho',
    "cut before the brace": '{"reasoning": "Seen.", "verdict": "success"',
    "cut in the verdict": '{"reasoning": "Seen.", "verdict": "succ',
    "capital letter": '{"reasoning": "Seen.", "verdict": "Success"}',
    "capitals": '{"reasoning": "Seen.", "verdict": "SUCCESS"}',
    "not success, as a verdict": '{"reasoning": "Seen.", "verdict": "NOT SUCCESS"}',
    "success with a point": '{"reasoning": "Seen.", "verdict": "success."}',
    "success with a blank": '{"reasoning": "Seen.", "verdict": "success "}',
    "both": '{"reasoning": "Seen.", "verdict": "success, failure"}',
    "both, with a bar": '{"reasoning": "Seen.", "verdict": "success|failure"}',
    "a list of verdicts": '{"reasoning": "Seen.", "verdict": ["success"]}',
    "an object as verdict": '{"reasoning": "Seen.", "verdict": {"value": "success"}}',
    "true": '{"reasoning": "Seen.", "verdict": true}',
    "one": '{"reasoning": "Seen.", "verdict": 1}',
    "null": '{"reasoning": "Seen.", "verdict": null}',
    "NaN": '{"reasoning": "Seen.", "verdict": NaN}',
    "NaN in another member": '{"reasoning": NaN, "verdict": "success"}',
    "infinity": '{"reasoning": Infinity, "verdict": "success"}',
    "another word": '{"reasoning": "Seen.", "verdict": "pass"}',
    "words of another question": '{"reasoning": "Seen.", "verdict": "open"}',
    "key in another case": '{"reasoning": "Seen.", "Verdict": "success"}',
    "key with a blank": '{"reasoning": "Seen.", "verdict ": "success"}',
    "another key": '{"reasoning": "Seen.", "result": "success"}',
    "no verdict": '{"reasoning": "Seen. success"}',
    "no reasoning": '{"verdict": "success"}',
    "empty reasoning": '{"reasoning": "", "verdict": "success"}',
    "blank reasoning": '{"reasoning": " \\n", "verdict": "success"}',
    "reasoning that is a number": '{"reasoning": 1, "verdict": "success"}',
    "surplus key": '{"reasoning": "Seen.", "verdict": "success", "confidence": 0.9}',
    "verdict twice": '{"reasoning": "Seen.", "verdict": "failure", "verdict": "success"}',
    "verdict twice, the same": '{"reasoning": "Seen.", "verdict": "success", "verdict": "success"}',
    "verdict twice, once escaped": (
        '{"reasoning": "Seen.", "verdict": "failure", "verd\\u0069ct": "success"}'
    ),
    "reasoning twice": '{"reasoning": "No.", "reasoning": "Seen.", "verdict": "success"}',
    "prose before": f"Here is my verdict: {GOOD}",
    "prose after": f"{GOOD}\nI hope that this helps.",
    "thinking before": f"<think>It may be a failure.</think>{GOOD}",
    "two objects": f"{GOOD}{BAD}",
    "two objects in two lines": f"{BAD}\n{GOOD}",
    "two fences": f"```json\n{BAD}\n```\n```json\n{GOOD}\n```",
    "fence within a fence": f"```\n```json\n{GOOD}\n```\n```",
    "prose before a fence": f"Sure:\n```json\n{GOOD}\n```",
    "fence of another language": f"```python\n{GOOD}\n```",
    "fence that does not close": f"```json\n{GOOD}",
    "a list of objects": f"[{GOOD}]",
    "in another object": f'{{"judgement": {GOOD}}}',
    "a string of it": json.dumps(GOOD),
    "a string": '"success"',
    "single quotes": "{'reasoning': 'Seen.', 'verdict': 'success'}",
    "a comma too many": '{"reasoning": "Seen.", "verdict": "success",}',
    "a comment": '{"reasoning": "Seen.", /* yes */ "verdict": "success"}',
    "a line's end in a string": '{"reasoning": "Seen\n.", "verdict": "success"}',
    "cyrillic look-alike": '{"reasoning": "Seen.", "verdict": "su\u0441\u0441ess"}',
    "full-width look-alike": (
        '{"reasoning": "Seen.", "verdict": "\uff53\uff55\uff43\uff43\uff45\uff53\uff53"}'
    ),
    "long s": '{"reasoning": "Seen.", "verdict": "\u017fuccess"}',
    "zero-width joiner": '{"reasoning": "Seen.", "verdict": "succ\u200bess"}',
    "look-alike key": '{"reasoning": "Seen.", "verdi\u0441t": "success"}',
    "full-width braces": '\uff5b"reasoning": "Seen.", "verdict": "success"\uff5d',
    "no-break space before": f"\u00a0{GOOD}",
    "byte order mark": f"\ufeff{GOOD}",
    "nul after": f"{GOOD}\x00",
    "the schema": json.dumps(schema_of(WORDS)),
    "the form with its dots": '{"reasoning": "what you saw", "verdict": "..."}',
    "reasoning says failure": '{"reasoning": "Verdict: failure", "verdict": "success"}',
    "reasoning is failure": (
        '{"reasoning": "Not all was seen, so the verdict is failure.", "verdict": "success"}'
    ),
    "reasoning says not success": (
        '{"reasoning": "So the verdict is not success.", "verdict": "success"}'
    ),
    "reasoning quotes another verdict": (
        '{"reasoning": "The page says {\\"verdict\\": \\"failure\\"}.", "verdict": "success"}'
    ),
    "nested deeply": "[" * 20_000,
    "a huge number": '{"reasoning": ' + "9" * 5_000 + ', "verdict": "success"}',
    "too long": json.dumps({"reasoning": "x" * 100_000, "verdict": "success"}),
    "half of a character": '{"reasoning": "\\ud800", "verdict": "success"}',
    "a number beyond all floats": '{"reasoning": 1e999, "verdict": "success"}',
    "tool call": '{"name": "verdict", "arguments": {"reasoning": "Seen.", "verdict": "success"}}',
    "xml": "<reasoning>Seen.</reasoning><verdict>success</verdict>",
    "yaml": "reasoning: Seen.\nverdict: success",
}


@each(("text", "verdict"), VERDICTS.values())
def test_verdict_is_read(text, verdict) -> None:
    reading = read_reply(text, WORDS)
    assert (reading.value.word, reading.broken) == (verdict, "")
    reading.value.reasoning.encode()  # Any file can hold it.


@each("text", HOSTILE.values())
def test_hostile_reply_is_no_verdict(text) -> None:
    reading = read_reply(text, WORDS)
    assert reading.value is None
    assert reading.broken


@each(
    ("reason", "complete"),
    [
        ("stop", True),
        ("end_turn", True),
        ("eos_token", True),
        ("length", False),
        ("max_tokens", False),
        ("content_filter", False),
        ("refusal", False),
        ("tool_calls", False),
        ("abort", False),
        ("", False),
    ],
)
def test_only_a_reply_that_the_model_has_ended_counts(reason, complete) -> None:
    reading = read_call(ModelCall(text=GOOD, finish_reason=reason), WORDS)
    assert (reading.value is not None) is complete


def test_a_failed_call_is_no_verdict() -> None:
    call = ModelCall(text=GOOD, finish_reason="stop", error="The server is away.")
    assert read_call(call, WORDS).value is None


async def test_hostile_replies_over_http_are_judge_errors(
    serve, make_judge, make_episode, judged
) -> None:
    """Each hostile reply, given to every question that decides, is JUDGE_ERROR and nothing else."""
    given = {"reply": Reply()}
    server = serve(judged(answer=lambda _: given["reply"], goal=lambda _: given["reply"]))
    judge = make_judge(server, retries=0, check_blocked=False)
    episode = make_episode()
    replies = {name: Reply(text) for name, text in HOSTILE.items()}
    for reason in ("length", "content_filter", "refusal"):
        replies[reason] = Reply(GOOD, finish_reason=reason)
    outcomes = {}
    for name, hostile in replies.items():
        given["reply"] = hostile
        judgement = await judge.judge(episode)
        outcomes[name] = (judgement.outcome, judgement.reward)
        assert replay(judgement) == judgement
    assert outcomes == dict.fromkeys(replies, (Outcome.JUDGE_ERROR, None))
    assert len(server.requests) == 2 * len(replies)
