"""What a redactor finds, and what it leaves alone."""

import base64
import collections
import dataclasses
import datetime
import decimal
import html
import json
import re
import sys
import types
import urllib.parse
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import dm_env
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webtraj
from rows import each
from webtraj import errors
from webtraj.datasets.writer import MemoryBlobs
from webtraj.environments import actions as a
from webtraj.environments.redacting_collector import RedactingCollector
from webtraj.redaction import RedactionRules, Redactor
from webtraj.store import encoding, values
from webtraj.store.blobs import Blob, LazyBlob
from webtraj.store.encoding import dumps
from webtraj.trajectory import Decision, EndReason, ErrorInfo, ModelCall, StepRecord, StepType

SECRET = 'p"4 ss\\wörd&<7>'

HIDDEN = "<secret:key>"

SPELLINGS = {
    "itself": SECRET,
    "upper case": SECRET.upper(),
    "JSON": json.dumps(SECRET),
    "JSON, not ASCII": json.dumps(SECRET, ensure_ascii=False),
    "JSON in JSON": json.dumps(json.dumps({"password": SECRET})),
    "Python": repr(SECRET),
    "Python, other quotes": '"' + SECRET.replace("\\", "\\\\").replace('"', '\\"') + '"',
    "HTML": html.escape(SECRET),
    "HTML text": html.escape(SECRET, quote=False),
    "query": urllib.parse.urlencode({"q": SECRET}),
    "path": urllib.parse.quote(SECRET),
    "encodeURIComponent": urllib.parse.quote(SECRET, safe="!~*'()"),
    "lower-case escapes": urllib.parse.quote(SECRET).replace("%5C", "%5c"),
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "basic auth": "Basic " + base64.b64encode(f"anna:{SECRET}".encode()).decode(),
    "base64, one in": base64.b64encode(f"x{SECRET}!!".encode()).decode(),
    "base64, two in": base64.urlsafe_b64encode(f"xy{SECRET}".encode()).decode(),
    "base64 in a query": urllib.parse.quote(base64.b64encode(SECRET.encode() + b"??>").decode()),
    "bytes": repr(SECRET.encode()),
    "hex": SECRET.encode().hex(),
    "hex with backslashes": "".join(f"\\x{byte:02x}" for byte in SECRET.encode()),
    "decomposed": "p\"4 ss\\wo\u0308rd&<7>",
}  # fmt: skip


@each("spelling", SPELLINGS)
def test_a_secret_is_found_in_every_spelling(spelling: str) -> None:
    redactor = Redactor({"key": SECRET})
    text = f"before {SPELLINGS[spelling]} after"
    redacted = redactor.redact(text)
    assert HIDDEN in redacted
    assert "before" in redacted
    assert "after" in redacted
    assert redactor.take_counts() == {"key": 1}


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Card:
    number: str
    owner: str = "Anna"


class Strange:
    def __repr__(self) -> str:
        return "Strange(s3cret-value)"


NESTS = {
    "mapping": ({"a": "x s3cret-value"}, {"a": f"x {HIDDEN}"}),
    "key": ({"s3cret-value": 1}, {HIDDEN: 1}),
    "mapping proxy": (types.MappingProxyType({"a": "s3cret-value"}), {"a": HIDDEN}),
    "list": (["s3cret-value", 1], [HIDDEN, 1]),
    "tuple": (("s3cret-value", None), (HIDDEN, None)),
    "set": ({"s3cret-value"}, {HIDDEN}),
    "deque": (collections.deque(["s3cret-value"]), collections.deque([HIDDEN])),
    "named tuple": (Pair("s3cret-value", 2), Pair(HIDDEN, 2)),
    "dataclass": (Card("s3cret-value"), Card(HIDDEN)),
    "action": (a.Fill("1", "s3cret-value"), a.Fill("1", HIDDEN)),
    "bytes": (b"\x00s3cret-value\xff", b"\x00" + HIDDEN.encode() + b"\xff"),
    "bytearray": (bytearray(b"S3CRET-value"), HIDDEN.encode()),
    "path": (Path("runs/s3cret-value/x"), f"runs/{HIDDEN}/x"),
    "numpy string": (np.str_("s3cret-value"), HIDDEN),
    "unknown object": (Strange(), f"Strange({HIDDEN})"),
    "deep": ([{"a": (["s3cret-value"],)}], [{"a": ([HIDDEN],)}]),
    "error": (
        ErrorInfo(type="ValueError", message="bad s3cret-value", traceback="s3cret-value"),
        ErrorInfo(type="ValueError", message=f"bad {HIDDEN}", traceback=HIDDEN),
    ),
}


@each("kind", NESTS)
def test_a_secret_is_found_in_every_kind_of_nest(kind: str) -> None:
    value, expected = NESTS[kind]
    redacted = Redactor({"key": "s3cret-value"}).redact(value)
    assert redacted == expected
    assert "cret-" not in repr(redacted)


@pytest.mark.parametrize("dtype", [np.str_, object])
def test_a_secret_is_found_in_arrays(dtype: Any) -> None:
    array = np.array([["x", "a s3cret-value b"], ["y", "z"]], dtype=dtype)
    redacted = Redactor({"key": "s3cret-value"}).redact(array)
    assert redacted.tolist() == [["x", f"a {HIDDEN} b"], ["y", "z"]]
    assert redacted.dtype.kind == array.dtype.kind
    assert array[0, 1] == "a s3cret-value b"


@each("number", [2**1100, -(2**1100), 10**5000, float("inf"), float("nan"), np.float32("inf")])
def test_a_number_beyond_all_secrets_stays(number) -> None:
    assert Redactor({"pin": "81930214"}).redact([number])[0] is number


def test_a_number_is_found_where_it_is_a_number() -> None:
    assert Redactor({"pin": "482913"}).redact({"pin": 482913, "n": 48}) == {
        "pin": "<secret:pin>",
        "n": 48,
    }
    redactor = Redactor({"pin": "482913"})
    for value in (np.int64(482913), 482913.0, np.float64(482913)):
        assert redactor.redact([value]) == ["<secret:pin>"]
    for value in (True, 482913.5, float("nan"), np.float64("inf"), 48, EndReason.CLOSED):
        assert redactor.redact([value])[0] is value
    assert redactor.redact(np.array([1, 482913])).tolist() == [1, "<secret:pin>"]
    numbers = np.array([1.5, 2.0])
    assert redactor.redact(numbers) is numbers


def test_a_value_that_contains_itself_is_cut_there() -> None:
    nest: list[Any] = ["s3cret-value"]
    nest.append(nest)
    assert Redactor({"key": "s3cret-value"}).redact(nest) == [
        HIDDEN,
        "<not recorded: contains itself>",
    ]


@each("value", ["clean", b"clean", {"a": [1.5, None, True]}, (1, "b"), np.arange(3),
     np.array(["a"]), a.Click("1"), StepRecord(0, StepType.FIRST, {"axtree": "text"}), Strange,
     print, datetime.datetime(2026, 11, 20), datetime.date(2026, 11, 20), datetime.time(3, 4),
     datetime.timedelta(1), decimal.Decimal("0.10"), uuid.UUID(int=1), Path("a/b")])  # fmt: skip
def test_a_value_without_secrets_is_returned_itself(value: Any) -> None:
    assert Redactor({"key": "not-in-there"}).redact(value) is value


def test_the_longer_of_two_secrets_is_the_one_found() -> None:
    redactor = Redactor({"short": "abcd", "long": "abcdefgh"})
    assert redactor.redact("abcdefgh abcde") == "<secret:long> <secret:short>e"


def test_the_ids_of_an_episode_hold_no_secret_either() -> None:
    ids = ("episode_id", "group_id", "parent_episode_id", "retry_of")
    info = webtraj.EpisodeInfo(**{name: f"{name}-hunter2hunter2" for name in ids})
    redacted = Redactor({"key": "hunter2hunter2"}).redact(info)
    assert [getattr(redacted, name) for name in ids] == [f"{name}-{HIDDEN}" for name in ids]


def test_a_learned_secret_is_looked_for_until_it_is_forgotten() -> None:
    redactor = Redactor({"key": "s3cret-value"})
    assert redactor.learn("password", "hunter2")
    assert redactor.redact("hunter2 s3cret-value") == f"<secret:password> {HIDDEN}"
    redactor.forget_learned()
    assert redactor.redact("hunter2 s3cret-value") == f"hunter2 {HIDDEN}"


@pytest.mark.parametrize("value", ["", "abc", " a  b c ", 1234, None])
def test_a_secret_that_cannot_be_looked_for_is_an_error_that_does_not_tell_it(value: Any) -> None:
    with pytest.raises(errors.InvalidInputError, match="The secret 'pin'") as caught:
        Redactor({"pin": value})
    assert "abc" not in str(caught.value)


def test_a_model_call_that_spelt_a_secret_keeps_no_tokens_of_it() -> None:
    call = ModelCall(
        model="m",
        messages=({"role": "user", "content": "log in with s3cret-value"},),
        response={"choices": [{"text": "s3", "logprobs": {"tokens": ["s3", "cret"]}}]},
        text="fill('1', 's3cret-value')",
        prompt_token_ids=(1, 2),
        completion_token_ids=(3,),
        logprobs=(-0.5,),
    )
    redacted = Redactor({"key": "s3cret-value"}).redact(Decision(model_calls=(call,)))
    (kept,) = redacted.model_calls
    assert kept.text == f"fill('1', '{HIDDEN}')"
    assert kept.messages[0]["content"] == f"log in with {HIDDEN}"
    assert (kept.response, kept.prompt_token_ids) == (None, ())
    assert (kept.completion_token_ids, kept.logprobs) == ((), ())
    assert call.completion_token_ids == (3,)


def test_a_typed_secret_is_found_as_letters_in_what_a_model_said() -> None:
    redactor = Redactor()
    for end in range(4, 9):  # As it is typed.
        redactor.learn_typed("key", "hunt-2er"[:end])
    redactor.learn_typed("key", "4711")
    texts = (
        json.dumps({"keys": list("hunt-2er")}),
        json.dumps(json.dumps(list("hunt-2er"))),
        "h u n t - 2 e r",
        "\n".join(f"press('{letter}')" for letter in "hunt-2er"),
        json.dumps(list("4711")),
    )
    calls = tuple(ModelCall(text=text, completion_token_ids=(1,)) for text in texts)
    for call in redactor.redact(Decision(model_calls=calls)).model_calls:
        assert HIDDEN in call.text
        assert not re.search(r"\bu\b|\b7\b", call.text)
        assert call.completion_token_ids == ()
    (kept,) = redactor.redact(Decision(model_calls=(ModelCall(text="4 7 1 1 a h"),))).model_calls
    assert kept.text == "4 7 1 1 a h"
    assert redactor.redact({"axtree": texts[2]}) == {"axtree": texts[2]}


def test_an_action_whose_rules_a_placeholder_breaks_is_redacted_all_the_same() -> None:
    redacted = Redactor({"key": "s3cret.test"}).redact(a.Goto("https://s3cret.test/x"))
    assert redacted.url == f"https://{HIDDEN}/x"


IMAGE = b"\xff\xd8\xff" + bytes(range(256)) * 2

PAINTED = b"\xff\xd8\xff painted"


def test_an_image_is_covered_wherever_it_stands() -> None:
    redactor = Redactor()
    redactor.cover_image(IMAGE, lambda: PAINTED)
    text = base64.b64encode(IMAGE).decode()
    value = {
        "screenshot": IMAGE,
        "url": f"data:image/jpeg;base64,{text}",
        "plain": text,
        "other": b"\xff\xd8\xff other",
    }
    covered = base64.b64encode(PAINTED).decode()
    assert redactor.redact(value) == {
        "screenshot": PAINTED,
        "url": f"data:image/jpeg;base64,{covered}",
        "plain": covered,
        "other": b"\xff\xd8\xff other",
    }
    assert redactor.take_counts() == {"screenshots_painted": 3}


def test_an_image_that_cannot_be_covered_is_dropped_and_that_is_counted() -> None:
    redactor = Redactor()
    redactor.cover_image(IMAGE, lambda: b"")
    assert redactor.redact([IMAGE]) == [b""]
    assert redactor.take_counts() == {"screenshots_dropped": 1}


secrets = st.text(min_size=4, max_size=30).filter(lambda text: len("".join(text.split())) >= 4)

surroundings = st.text(max_size=20)


@settings(deadline=None)
@given(secret=secrets, before=surroundings, after=surroundings)
def test_no_text_keeps_a_secret(secret: str, before: str, after: str) -> None:
    redacted = Redactor({"key": secret}).redact_text(before + secret + after)
    assert HIDDEN in redacted
    assert secret not in redacted.replace(HIDDEN, "")


@settings(deadline=None)
@given(
    secret=st.text("abcXYZ019\"'\\/&<> ü\n", min_size=6).filter(
        lambda s: len(s.strip()) > 5 and len(s.split()) == 1
    )
)
def test_no_stored_nest_keeps_a_secret(secret: str) -> None:
    nest = {"a": [secret, (f"x{secret}y", secret.encode())], secret: {"b": secret}}
    data, _ = dumps(Redactor({"key": secret}).redact(nest))
    for spelling in (
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    ):
        assert spelling not in data.decode()


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
    )
)
def test_what_holds_no_secret_is_left_alone(value: Any) -> None:
    assert Redactor({"key": "\U0001f511 not to be generated by chance"}).redact(value) is value


LONG = "anna&co/7f3a9c-Geheim"

WRAPPED = base64.encodebytes(b"a page that says " + LONG.encode() + b" " + bytes(60)).decode()

DISGUISES = {
    "slashes escaped": LONG.replace("/", "\\/"),
    "JSON's numbers": LONG.replace("&", "\\u0026"),
    "JSON's numbers for all": "".join(f"\\u{ord(letter):04x}" for letter in LONG),
    "JSON in JSON": LONG.replace("&", "\\\\u0026").replace("/", "\\\\\\/"),
    "Python's numbers": LONG.replace("&", "\\x26"),
    "numbers of HTML": "".join(f"&#{ord(letter)};" for letter in LONG),
    "hexadecimal numbers of HTML": "".join(f"&#x{ord(letter):X};" for letter in LONG),
    "URL in a URL": urllib.parse.quote(urllib.parse.quote(LONG, safe=""), safe=""),
    "URL in a URL in a URL": LONG.replace("&", "%252526").replace("/", "%25252F"),
    "every character of a URL": "".join(f"%{ord(letter):02X}" for letter in LONG),
    "one character of a URL": LONG.replace("G", "%47"),
    "HTML in JSON": LONG.replace("&", "\\u0026amp;"),
    "soft hyphens": "\u00ad".join(LONG),
    "spaces of no width": "\u200b".join(LONG),
    "wrapped base64": WRAPPED,
    "wrapped base64 in JSON": json.dumps(WRAPPED)[1:-1],
    "wrapped base64 of Windows": WRAPPED.replace("\n", "\r\n"),
}


@each("disguise", DISGUISES)
@each("kind", [str, bytes])
def test_a_secret_is_found_in_disguise(disguise: str, kind: type) -> None:
    redactor = Redactor({"key": LONG})
    text = f"The page: {DISGUISES[disguise]} and so on"
    redacted = redactor.redact(text if kind is str else text.encode())
    shown = redacted if kind is str else redacted.decode()
    assert shown.startswith("The page: ")
    assert shown.endswith(" and so on")
    assert "<secret:key>" in shown
    assert DISGUISES[disguise] not in shown
    assert redactor.take_counts() == {"key": 1}


@pytest.mark.parametrize(
    "text", ["a\\u0026b", "100%25 of &#38;", "anna\u00adco", WRAPPED[:20] + "\n" + "b" * 80]
)
def test_what_is_no_secret_is_not_touched_for_its_escapes(text: str) -> None:
    assert Redactor({"key": LONG}).redact(text) is text


@pytest.mark.parametrize("begin", [b"GIF89a ", b"GIF8", b"RIFF....WEBP ", b"BM"])
def test_text_that_begins_like_an_image_is_searched(begin: bytes) -> None:
    assert Redactor({"key": LONG}).redact(begin + LONG.encode()) == begin + b"<secret:key>"


VALUE = "s3cret-value"


def deep(depth: int = 5000) -> Any:
    value: Any = VALUE
    for _ in range(depth):
        value = [value]
    return value


def shared(times: int = 100) -> Any:
    value: Any = [VALUE]
    for _ in range(times):
        value = [value, value]
    return value


class Branching(Mapping[str, Any]):
    """Makes up two more of its kind whenever it is looked at."""

    def __getitem__(self, key: str) -> Any:
        return Branching()

    def __iter__(self) -> Iterator[str]:
        return iter("ab")

    def __len__(self) -> int:
        return 2


class Endless(Branching):
    def __iter__(self) -> Iterator[str]:
        return iter(lambda: "a", "")


class Raising:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(VALUE)


def released() -> Any:
    view = memoryview(VALUE.encode())
    view.release()
    return view


UNSEARCHABLE = {
    "deep": deep,
    "deep in dicts": lambda: {"a": deep()},
    "shared": shared,
    "branching": Branching,
    "endless": Endless,
    "raising": Raising,
    "released": released,
    "missing blob": lambda: LazyBlob(Blob("0" * 64, "txt", 9), True, MemoryBlobs()),
    "a record of the deep": lambda: Decision(action=deep(), memory=VALUE),
}


@pytest.mark.parametrize("make", UNSEARCHABLE.values(), ids=UNSEARCHABLE)
def test_no_value_makes_redaction_fail(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "MOST_ITEMS", 20_000)
    redacted = Redactor({"key": VALUE}).redact({"good": VALUE, "bad": make()})
    assert redacted["good"] == "<secret:key>"
    data, _ = encoding.dumps(redacted)
    assert VALUE.encode() not in data


def test_a_deep_value_is_redacted_from_deep_in_a_stack() -> None:
    def call(depth: int) -> Any:
        return call(depth - 1) if depth else Redactor({"key": VALUE}).redact(deep(200))

    redacted = call(sys.getrecursionlimit() - 200)
    for _ in range(200):
        (redacted,) = redacted
    assert redacted == "<secret:key>"


def test_what_is_left_out_says_why(caplog: pytest.LogCaptureFixture) -> None:
    redacted = Redactor({"key": VALUE}).redact(deep())
    text = encoding.dumps(redacted)[0].decode()
    assert "nested more than 240 levels deep" in text
    assert "nested more than 240 levels deep" in caplog.text
    assert VALUE not in caplog.text


async def test_recording_goes_on_beside_what_cannot_be_redacted(tmp_path: Path) -> None:
    class Deep:
        async def reset(self) -> dm_env.TimeStep:
            return dm_env.restart({"tree": deep(), "text": VALUE})

        async def step(self, action: Any) -> dm_env.TimeStep:
            return dm_env.termination(1.0, {"tree": Raising(), "text": VALUE})

        async def close(self) -> None:
            pass

    async with webtraj.JsonTrajectoryCollector(tmp_path) as collector:
        redacting = RedactingCollector(collector, RedactionRules(), secrets={"key": VALUE})
        async with webtraj.TrajectoryCollectingEnvironment(Deep(), redacting) as env:
            await env.reset()
            assert (await env.step(deep())).reward == 1.0
    (episode,) = webtraj.open_dataset(tmp_path)
    assert [step.observation["text"] for step in episode.steps] == ["<secret:key>"] * 2
    assert episode.end.recording_errors == ()


def test_prefixes_of_a_secret_typed_key_by_key_are_secret_unless_the_page_showed_them() -> None:
    secrets = (
        "Kestrel58harbour",
        "a.b$c&d <e>",
        "open sesame again",
        "x" * 100,
        "naïve-ß-straße",
    )
    for secret in secrets:
        redactor = Redactor()
        assert redactor.learn_typed("password", secret)
        for size in range(4, min(len(secret), 64)):
            prefix = secret[:size]
            if len("".join(prefix.split())) < 4:
                continue
            for text in (
                prefix,
                f"x{prefix}y",
                f"{prefix}{prefix}",
                prefix.upper(),
                prefix.lower(),
            ):
                assert prefix.lower() not in redactor.redact(text).lower(), (secret, text)
            for encoded in (urllib.parse.quote(prefix), json.dumps(prefix), html.escape(prefix)):
                assert encoded not in redactor.redact(f"?v={encoded}!"), (secret, encoded)
    redactor = Redactor()
    redactor.learn_typed("password", "Password77", shown='[1] textbox "Password"')
    assert redactor.redact('textbox "Password" Password7') == 'textbox "Password" <secret:password>'


def test_many_secrets_that_begin_with_one_another_are_each_found() -> None:
    secrets = {"ab" * size: f"n{size}" for size in range(2, 400)}
    redactor = Redactor()
    redactor.learn_all(secrets)
    for text, name in list(secrets.items())[::37]:
        assert redactor.redact(f"-{text}-") == f"-<secret:{name}>-"
