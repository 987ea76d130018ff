"""What redaction rules find in records, what they leave, and that none can hang a recording."""

import asyncio
import re
import time
from typing import Any

import dm_env
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webtraj
from rows import each
from webtraj import errors
from webtraj.environments.redacting_collector import RedactingCollector
from webtraj.redaction import RedactionRules, Redactor
from webtraj.redaction.rules import PATTERNS, find_all
from webtraj.redaction.searcher import LEFT_OUT, MAX_TEXT
from webtraj.testing.fakes import CatchEnvironment
from webtraj.trajectory import EpisodeInfo, ModelCall
from whole import whole

FOUND = {
    "email": [
        "anna.b+c@mail.example.com",
        "ünï@dömain.de",
        "anna%40example.org",
    ],
    "card": [
        "4111 1111 1111 1111",
        "5500-0000-0000-0004",
        "378282246310005",
        "6011000990139424",
        "4111%201111%201111%201111",
    ],
    "iban": [
        "DE89 3704 0044 0532 0130 00",
        "gb82west12345698765432",
        "FR1420041010050500013M02606",
        "NO93 8601 1117 947",
    ],
    "phone": [
        "+49 (0) 30 / 1234567",
        "+1-555-123-4567",
        "%2B4915112345678",
        "(555) 123-4567",
        "01 23 45 67 89",
        "0171 1234567",
    ],
    "api_key": [
        "sk-ant-api03-abcdefghijklmnopqrstuvwxyz",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_0123456789abcdefghij0123456789abcdef",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    ],
    "jwt": ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"],
    "ipv4": ["192.168.1.17", "10.0.0.1"],
    "ipv6": ["2001:db8::8a2e:370:7334", "fe80::1:2:3"],
}

LEFT = {
    "email": ["user@host", "@handle", "a @ b.com", "x@.com"],
    "card": [
        "4111 1111 1111 1112",  # Another last digit.
        "1763658671000000000",  # Nanoseconds since the epoch.
        "0.4111111111111111",
        "a4111111111111111",
        "411111111111111",
    ],
    "iban": ["DE88 3704 0044 0532 0130 00", "ZZ89 3704 0044 0532 0130 00", "DE89 3704"],
    "phone": ["2026-11-20T17:11:01+0000", "05-11-2026", "12345678", "1.234.567"],
    "api_key": ["sk-short", "AKIA", "the bearer of this"],
    "jwt": ["eyJhbGciOiJIUzI1NiJ9", "eyJ.eyJ.x"],
    "ipv4": ["1.2.3", "300.1.1.1", "1.2.3.4.5"],
    "ipv6": ["12:30:45", "a::b", "std::vector", "::1"],
}

AROUND = ("{}", "before {} after", '"{}"', "({}),", r"\n{}\n", "q={}&x=1", "first\n{}\nlast", "{}.")


def cases(table: dict[str, list[str]]) -> list[Any]:
    return [
        pytest.param(name, text, id=f"{name}-{index}")
        for name, texts in table.items()
        for index, text in enumerate(texts)
    ]


@each(("name", "text"), cases(FOUND))
@each("around", AROUND)
def test_a_pattern_is_found_and_nothing_else_is_touched(name: str, text: str, around: str) -> None:
    redactor = Redactor(rules=RedactionRules(patterns=(name,)))
    assert redactor.redact(around.format(text)) == around.format(f"<secret:{name}>")
    assert redactor.take_counts() == {name: 1}


@each(("name", "text"), cases(LEFT))
def test_what_only_looks_alike_is_left(name: str, text: str) -> None:
    redactor = Redactor(rules=RedactionRules(patterns=(name,)))
    given = f"before {text} after"
    assert redactor.redact(given) is given


def test_whole_numbers_and_bytes_are_looked_at_too() -> None:
    redactor = Redactor(rules=RedactionRules(patterns=("card", "email")))
    value = {"n": 4111111111111111, "small": 41, "file": b"\xff anna@example.com \x00"}
    assert redactor.redact(value) == {
        "n": "<secret:card>",
        "small": 41,
        "file": b"\xff <secret:email> \x00",
    }


def test_what_overlaps_is_replaced_as_one() -> None:
    rules = RedactionRules(patterns=("email",), regexes={"line": "mail: .*"})
    assert Redactor(rules=rules).redact("my mail: anna@example.com x") == "my <secret:line>"


def test_ids_of_episodes_stay_though_a_rule_describes_them() -> None:
    info = EpisodeInfo(episode_id="20261120T1-4111111111111111", group_id="4111111111111111")
    info = webtraj.EpisodeInfo(
        episode_id=info.episode_id, group_id=info.group_id, goal="pay 4111111111111111"
    )
    redacted = Redactor(rules=RedactionRules(patterns=("card",))).redact(info)
    assert (redacted.episode_id, redacted.group_id) == (info.episode_id, info.group_id)
    assert redacted.goal == "pay <secret:card>"


def test_a_model_call_that_spelt_it_keeps_no_tokens_of_it() -> None:
    call = ModelCall(text="mail anna@example.com", completion_token_ids=(1,), logprobs=(0.0,))
    redacted = Redactor(rules=RedactionRules(patterns=("email",))).redact(call)
    assert (redacted.text, redacted.completion_token_ids) == ("mail <secret:email>", ())


# Rules as they are given.

WRONG = {
    "pattern": ({"patterns": ("e-mail",)}, "Unknown patterns: .*e-mail"),
    "element": ({"elements": ("pasword",)}, "Unknown elements: .*pasword"),
    "name": ({"regexes": {"a b": "x"}}, "cannot name a rule"),
    "regex": ({"regexes": {"x": "("}}, "The regex 'x'"),
    "empty": ({"regexes": {"x": "a*"}}, "matches the empty string"),
    "no text": ({"selectors": {"x": " "}}, "expected a string"),
    "seconds": ({"seconds": 0}, "seconds=0"),
}


@each("case", WRONG)
def test_a_wrong_rule_is_an_error_that_says_what_is_expected(case: str) -> None:
    options, message = WRONG[case]
    with pytest.raises(errors.InvalidInputError, match=message):
        RedactionRules(**options)


# Time.

LONG = 300_000
CRUEL = [
    "1 ", "4", "a.b@", "a", "a@b.c-", "DE12 ", "+1", "+1 (", "-eyJ", "eyJaaaaaaaa.", "\\neyJ",
    "-----BEGIN PRIVATE KEY-----", ":", "a:", "sk-", "1.", "00 ", "Bearer ", "%20", "%40", "0171 ",
]  # fmt: skip


@pytest.mark.slow
@each("name", PATTERNS)
def test_a_ready_made_pattern_takes_time_in_proportion_to_the_text(name: str) -> None:
    # What is quadratic would take hours, and the timeout of all tests would end it.
    for piece in CRUEL:
        for _ in PATTERNS[name](piece * (LONG // len(piece))):
            pass


CATASTROPHE = r"(a|aa)+$"


def test_a_regex_that_takes_too_long_costs_one_text_and_no_more() -> None:
    rules = RedactionRules(regexes={"bad": CATASTROPHE, "badge": r"B-\d+"}, seconds=0.3)
    redactor = Redactor(rules=rules)
    value = {"evil": "a" * 60 + "!", "good": "badge B-123"}
    assert redactor.redact(value) == {"evil": LEFT_OUT, "good": "badge <secret:badge>"}
    assert redactor.take_counts() == {"texts_left_out": 1, "badge": 1}


def test_a_text_that_is_too_long_is_left_out() -> None:
    redactor = Redactor(rules=RedactionRules(patterns=("jwt",)))
    assert redactor.redact("x" * (MAX_TEXT + 1)) == LEFT_OUT
    assert redactor.take_counts() == {"texts_left_out": 1}


@each(
    "regex",
    [
        r"\d+",
        r"\bB-\d{2,6}\b",
        r"(?i)token=(?P<value>\w+)",
        r"(?<=key: )\S+",
        r"[^\W\d_]{3}",
        r"[\[\]x]+",
        r"(a|ab)(c|bcd)?",
        r"(?s)<.*?>",
        r"(?x) a  # a comment\n b?",
        r"\N{DIGIT ONE}\u00e9?",
        r"(\w)\1",
    ],
)
@settings(deadline=None, max_examples=30)
@given(st.text("aAbBcdx01 -_<>[]:=é\nkeyto", max_size=60))
def test_own_regexes_find_what_pythons_do(regex: str, text: str) -> None:
    for given_text in (text, f"B-12345 token=abc key: x1 {text} aabcd <b>"):
        found = find_all(regex, given_text, until=time.monotonic() + 60)
        assert found == [match.span() for match in re.finditer(regex, given_text)]


def test_a_slow_regex_ends_within_its_time_whatever_the_others_took() -> None:
    with pytest.raises(TimeoutError, match="timed out on a text of 61 characters"):
        find_all(CATASTROPHE, "a" * 60 + "!", until=time.monotonic() - 1)


# Any environment.


class Chatty(CatchEnvironment):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def _said(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
        return timestep._replace(observation={"text": f"write to {self.name}@example.com"})

    async def reset(self) -> dm_env.TimeStep:
        return self._said(await super().reset())

    async def step(self, action: Any) -> dm_env.TimeStep:
        await asyncio.sleep(0)
        return self._said(await super().step(1))


async def play(env: Any) -> None:
    timestep = await env.reset()
    while not timestep.last():
        call = webtraj.ModelCall(text="4111 1111 1111 1111")
        decision = webtraj.Decision(action=1, thought="B-77", model_calls=(call,))
        timestep = await env.step(decision)


async def test_a_collector_with_rules_serves_parallel_episodes_of_any_environment() -> None:
    kept = webtraj.MemoryTrajectoryCollector()
    rules = RedactionRules(patterns=("email", "card"), regexes={"badge": r"B-\d+"})
    collector = RedactingCollector(kept, rules, secrets={"name": "anna"})
    names = ["anna", "bert", "cleo"]
    envs = [webtraj.TrajectoryCollectingEnvironment(Chatty(name), collector) for name in names]
    await asyncio.gather(*map(play, envs))
    assert len(kept.trajectories) == 3
    for episode in kept.trajectories:
        assert "example.com" not in whole(episode)
        steps = len(episode.steps)
        assert episode.steps[1].decision.thought == "<secret:badge>"
        assert episode.steps[1].decision.model_calls[0].text == "<secret:card>"
        counts = episode.info.metadata["redactions"]
        assert counts["email"] == steps
        # Of the intents and of the steps themselves, which are one and the same.
        assert counts["card"] == counts["badge"] == steps - 1


async def test_rules_go_on_top_of_what_an_environment_keeps_secret() -> None:
    class Secretive(Chatty):
        redactor = Redactor({"name": "anna"})

        def redact_action(self, action: Any) -> Any:
            return self.redactor.redact(action)

        def redact(self, value: Any) -> Any:
            return self.redactor.redact(value)

        def take_redactions(self) -> Any:
            return self.redactor.take_counts()

    kept = webtraj.MemoryTrajectoryCollector()
    collector = RedactingCollector(kept, RedactionRules(patterns=("card",)))
    await play(webtraj.TrajectoryCollectingEnvironment(Secretive("anna"), collector))
    (episode,) = kept.trajectories
    counts = episode.info.metadata["redactions"]
    assert set(counts) == {"name", "card"}
    assert episode.steps[0].observation == {"text": "write to <secret:name>@example.com"}


def test_secrets_beside_an_environment_are_an_error() -> None:
    with pytest.raises(errors.InvalidInputError, match="only with RedactionRules"):
        RedactingCollector(
            webtraj.MemoryTrajectoryCollector(),
            Chatty("anna"),  # type: ignore[arg-type]
            secrets={"x": "abcd"},
        )
