"""People record whatever their environment and agent hold: models, tensors, paths, live objects.

Recording never breaks the environment: it is stepped exactly once, with the very action, and its
very observation comes back. What the format has no place for is kept as its repr.
"""

import asyncio
import collections
import dataclasses
import datetime
import decimal
import enum
import io
import logging
import pathlib
import types
import uuid
from typing import Any

import attrs
import dm_env
import numpy as np
import PIL.Image
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webtraj
from rows import each
from webtraj.redaction.redactor import Redactor
from webtraj.testing.strategies import values

FORMATS = {
    "json": webtraj.JsonTrajectoryCollector,
    "protobuf": webtraj.ProtobufTrajectoryCollector,
}


class Emitting:
    """Emits what it was given, and notes what it was asked."""

    def __init__(self, observation, reward=0.0):
        self.observation = observation
        self.reward = reward
        self.actions = []

    async def reset(self):
        return dm_env.restart(self.observation)

    async def step(self, action):
        self.actions.append(action)
        return dm_env.termination(self.reward, self.observation)

    async def close(self):
        pass


async def recorded(folder, observation, action=None, *, make=webtraj.JsonTrajectoryCollector, **kw):
    """Plays one step, and returns its record as read back."""
    env = Emitting(observation, kw.pop("reward", 0.0))
    if (known := kw.pop("known", None)) is not None:
        env.describe_episode = lambda: known
    async with (
        make(folder) as collector,
        webtraj.TrajectoryCollectingEnvironment(env, collector, **kw) as recording,
    ):
        first = await recording.reset()
        last = await recording.step(action)
    assert first.observation is observation
    assert last.observation is observation
    (got,) = env.actions
    assert got is (action.action if isinstance(action, webtraj.Decision) else action)
    (episode,) = webtraj.open_dataset(folder)
    assert episode.terminated
    assert len(episode.steps) == 2
    return episode


class Message(pydantic.BaseModel):
    role: str
    content: str
    when: datetime.datetime = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)


class Completion(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True, extra="allow")

    choices: list[Message]
    handle: Any = None


@attrs.frozen
class Point:
    x: int
    y: int


class Colour(enum.Enum):
    RED = "r"


class Title(str):
    def __len__(self):
        raise RuntimeError("no")


class Tensor:
    """What a torch tensor offers."""

    def __init__(self, values, brain=False):
        self.values = np.asarray(values, dtype="f4")
        self.brain = brain

    def detach(self):
        return self

    cpu = detach

    def float(self):
        return Tensor(self.values)

    def numpy(self):
        if self.brain:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values


def picture():
    return PIL.Image.new("RGB", (4, 3), (255, 0, 0))


KEPT = {
    "a pydantic model": (
        Completion(choices=[Message(role="user", content="hi")], extra_field=(1, 2)),
        {
            "choices": [{
                "role": "user", "content": "hi",
                "when": datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC),
            }],
            "handle": None, "extra_field": (1, 2),
        },
    ),
    "a date": (datetime.date(2026, 11, 20), datetime.date(2026, 11, 20)),
    "a span": (datetime.timedelta(seconds=1.5), datetime.timedelta(seconds=1.5)),
    "a path": (pathlib.Path("/runs/x"), pathlib.PurePosixPath("/runs/x")),
    "a decimal": (decimal.Decimal("0.10"), decimal.Decimal("0.10")),
    "a uuid": (uuid.UUID(int=1), uuid.UUID(int=1)),
    "a range": (range(3), range(3)),
    "a deque": (collections.deque([1, 2]), [1, 2]),
    "dict keys": ({"a": 1}.keys(), {"a"}),
    "a string that lies": (Title("truth"), "truth"),
    "an enum": (Colour.RED, "r"),
    "a lone surrogate": ("\ud800", "\ud800"),
    "a released view": (None, None),
}  # fmt: skip


@each("make", FORMATS.values())
@each(("value", "kept"), KEPT.values())
async def test_what_a_library_holds_is_kept(tmp_path, value, kept, make):
    episode = await recorded(tmp_path, {"value": value}, value, make=make)
    assert episode.steps[1].observation == {"value": kept}
    assert episode.steps[1].action == kept


async def test_attrs_objects_tensors_pictures_and_masks_are_kept(tmp_path):
    observation = {
        "attrs": Point(1, 2),
        "tensor": Tensor([1, 2]),
        "brain float": Tensor([1.5], brain=True),
        "picture": picture(),
        "odd picture": PIL.Image.new("F", (2, 1)),
        "masked": np.ma.masked_array([1, 2], [False, True]),
    }
    kept = (await recorded(tmp_path, observation)).steps[0].observation
    assert kept["attrs"].fields == {"x": 1, "y": 2}
    np.testing.assert_array_equal(kept["tensor"], [1, 2])
    np.testing.assert_array_equal(kept["brain float"], [1.5])
    image = kept["picture"]
    assert PIL.Image.open(io.BytesIO(bytes(image))).getpixel((3, 2)) == (255, 0, 0)
    assert kept["odd picture"].shape == (1, 2)
    assert kept["masked"].fields["mask"].tolist() == [False, True]


class Raising:
    """Raises whatever one asks of it."""

    def __repr__(self):
        raise RuntimeError("no")

    def __getattribute__(self, name):
        raise RuntimeError(name)

    __iter__ = __len__ = __eq__ = __bool__ = __str__ = __repr__
    __hash__ = None


class Liar(dict):
    def items(self):
        raise RuntimeError("no")

    def __iter__(self):
        return iter(int, 1)

    def __len__(self):
        return 10**9


class Endless(collections.abc.Mapping):
    def __getitem__(self, key):
        return key

    def __iter__(self):
        return iter(int, 1)

    def __len__(self):
        return 3


@dataclasses.dataclass
class HalfMade:
    x: int

    def __getattribute__(self, name):
        raise AttributeError(name)


def numbers():
    yield 1


def itself():
    loop = {}
    loop["me"] = [loop]
    return loop


def deep():
    value = 0
    for _ in range(5000):
        value = [value]
    return value


def model_of_itself():
    model = Completion(choices=[])
    model.handle = model
    return model


def released():
    view = memoryview(b"abc")
    view.release()
    return view


NASTY = {
    "an object": object,
    "a generator": numbers,
    "a function": lambda: numbers,
    "an exception": lambda: ValueError("x"),
    "what raises": Raising,
    "a dict that lies": lambda: Liar(a=1),
    "an endless mapping": Endless,
    "a dataclass without its fields": lambda: HalfMade(1),
    "what contains itself": itself,
    "what is too deep": deep,
    "a model of itself": model_of_itself,
    "a released view": released,
    "a namespace": lambda: types.SimpleNamespace(a=1),
    "a class": lambda: Completion,
    "a broadcast": lambda: np.broadcast_to(np.zeros(1), (10**12,)),
    "a model with a live object": lambda: Completion(choices=[], handle=object()),
}


@each("make", NASTY.values())
async def test_what_cannot_be_kept_is_kept_as_its_repr(tmp_path, make):
    value = make()
    decision = webtraj.Decision(
        action=value,
        model_calls=(webtraj.ModelCall(response=value, messages=(value,)), value),
        metadata={"value": value},
    )
    info = webtraj.EpisodeInfo(metadata={"value": value})
    episode = await recorded(
        tmp_path, {"good": 1, "bad": value}, decision, reward=value, episode_info=info
    )
    assert episode.steps[1].observation["good"] == 1
    assert len(episode.steps[1].decision.model_calls) == 2
    assert "ReprOnly" in repr(episode.steps[1].observation["bad"])


@pytest.mark.parametrize("make", FORMATS.values(), ids=FORMATS)
async def test_a_repr_says_its_type_and_is_the_same_when_written_again(tmp_path, make, caplog):
    caplog.set_level(logging.WARNING)
    episode = await recorded(tmp_path / "one", {"value": numbers()}, make=make)
    kept = episode.steps[0].observation["value"]
    assert isinstance(kept, webtraj.ReprOnly)
    assert (kept.type_name, kept.reason) == ("builtins.generator", "")
    assert kept.repr.startswith("<generator object numbers at")
    again = await recorded(tmp_path / "two", {"value": kept}, make=make)
    assert again.steps[0].observation["value"] == kept


async def test_iterators_are_not_consumed(tmp_path):
    iterator = numbers()
    await recorded(tmp_path, {"value": iterator}, webtraj.Decision(model_calls=iterator))
    assert list(iterator) == [1]


async def test_a_later_change_does_not_change_the_record(tmp_path):
    for collector in (
        webtraj.MemoryTrajectoryCollector(),
        webtraj.JsonTrajectoryCollector(tmp_path),
    ):
        observation = {
            "pixels": np.zeros(2),
            "texts": ["a"],
            "model": Message(role="a", content=""),
        }
        action = {"click": [1, 2]}
        env = webtraj.TrajectoryCollectingEnvironment(Emitting(observation), collector)
        await env.reset()
        await env.step(action)
        observation["pixels"][0] = 7
        observation["texts"].append("b")
        observation["model"].role = "b"
        action["click"].clear()
        await env.close()
        await collector.aclose()
        kept = getattr(collector, "trajectories", None) or list(webtraj.open_dataset(tmp_path))
        (episode,) = kept
        seen = episode.steps[1].observation
        assert seen["pixels"].tolist() == [0, 0]
        assert seen["texts"] == ["a"]
        assert dict(seen["model"])["role"] == "a"
        assert episode.steps[1].action == {"click": [1, 2]}


async def test_numbers_and_texts_of_other_types_are_recorded_as_declared(tmp_path):
    info = webtraj.EpisodeInfo(
        seed=np.int64(3), attempt=np.uint8(1), task=pathlib.Path("web/shop"), goal=None,
        policy=Title("p"), versions=None, metadata=Message(role="a", content="b"),
    )  # fmt: skip
    call = webtraj.ModelCall(
        prompt_token_ids=np.arange(3),
        completion_token_ids=(np.int32(7),),
        logprobs=np.array([-0.5], dtype="f4"),
        latency=np.float32(0.5),
        usage={"prompt_tokens": np.int64(3)},
    )
    episode = await recorded(
        tmp_path,
        0,
        webtraj.Decision(thought=7, model_calls=[call]),
        reward=np.float32(0.5),
        episode_info=info,
    )
    info = episode.info
    assert (type(info.seed), info.seed, info.attempt) == (int, 3, 1)
    assert (info.task, info.goal, info.policy) == ("web/shop", "", "p")
    assert info.versions == {}
    assert info.metadata["content"] == "b"
    (call,) = episode.steps[1].decision.model_calls
    assert (call.prompt_token_ids, call.completion_token_ids) == ((0, 1, 2), (7,))
    assert (call.logprobs, call.latency, type(call.latency)) == ((-0.5,), 0.5, float)
    assert episode.steps[1].decision.thought == "7"
    assert episode.total_reward == 0.5


@each(
    ("make", "named"),
    [
        (lambda: webtraj.EpisodeInfo(seed="abc"), "EpisodeInfo.seed is 'abc'; expected a whole"),
        (lambda: webtraj.EpisodeInfo(seed=2**1100), "at most 1000 bits"),
        (
            lambda: webtraj.EpisodeInfo(attempt=-1),
            "EpisodeInfo.attempt is -1; expected a whole number of 0",
        ),
        (lambda: webtraj.EpisodeInfo(versions=3), "EpisodeInfo.versions is 3; expected a mapping"),
        (lambda: webtraj.ModelCall(latency="fast"), "ModelCall.latency is 'fast'; expected a num"),
        (lambda: webtraj.ModelCall(latency=2**1100), "ModelCall.latency"),
        (lambda: webtraj.ModelCall(usage=Raising()), "ModelCall.usage is a Raising"),
        (
            lambda: webtraj.ModelCall(prompt_token_ids=(1, 2.5)),
            "ModelCall.prompt_token_ids\\[1\\] is 2.5",
        ),
        (lambda: webtraj.ModelCall(prompt_token_ids=(float("nan"),)), "prompt_token_ids"),
        (lambda: webtraj.ModelCall(prompt_token_ids=iter((1,))), "expected a sequence"),
        (lambda: webtraj.ModelCall(completion_token_ids=[2**1100]), "completion_token_ids"),
        (lambda: webtraj.ModelCall(logprobs=(-(2**1100),)), "logprobs"),
        (lambda: webtraj.StepRecord(0, dm_env.StepType.MID, 0, end_time=-1.0), "end_time is -1.0"),
    ],
)
def test_a_record_is_refused_where_it_is_made_if_a_field_cannot_hold_a_value(make, named):
    with pytest.raises(webtraj.errors.InvalidInputError, match=named) as refused:
        make()
    assert len(str(refused.value)) < 400


def test_of_a_providers_usage_the_counts_are_kept():
    class Usage(pydantic.BaseModel):
        prompt_tokens: int = 3
        details: dict[str, Any] = {"cached": np.int64(2), "audio": None}
        cost: float = 0.25
        tier: str = "flex"

    counts = {"prompt_tokens": 3, "details.cached": 2}
    assert webtraj.ModelCall(usage=Usage()).usage == counts
    assert webtraj.ModelCall(usage=Usage().model_dump()).usage == counts


@each("make", FORMATS.values())
async def test_what_an_environment_describes_wrongly_is_left_out_and_noted(tmp_path, make):
    env = Emitting(0)
    env.describe_episode = lambda: {"seed": "abc", "attempt": -1, "task": "t", "metadata": 7}
    async with (
        make(tmp_path) as collector,
        webtraj.TrajectoryCollectingEnvironment(env, collector) as recording,
    ):
        await recording.reset()
        await recording.step("go")
    (episode,) = webtraj.open_dataset(tmp_path)
    assert (episode.info.seed, episode.info.attempt, episode.info.task) == (None, 0, "t")
    assert episode.info.metadata == {"value": 7}
    seed, attempt = episode.end.violations
    assert "EpisodeInfo.seed is 'abc'" in seed
    assert "EpisodeInfo.attempt is -1" in attempt
    assert len(episode.steps) == 2


# Hypothesis itself cannot hold the others.
DRAWN = [make for make in NASTY.values() if make not in (Raising, Endless)][:4]

ANYTHING = st.recursive(
    values(max_leaves=3) | st.sampled_from([*DRAWN, itself, deep, released]).map(lambda f: f()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
        st.builds(types.SimpleNamespace, x=inner),
        st.builds(Completion, choices=st.just([]), handle=inner),
        inner.map(lambda value: Point(value, 1)),
        inner.map(lambda value: collections.OrderedDict(a=value)),
    ),
    max_leaves=5,
)


@given(observation=ANYTHING, action=ANYTHING, extra=ANYTHING, name=st.sampled_from([*FORMATS]))
@settings(deadline=None, max_examples=25)
def test_anything_is_recorded_and_read(tmp_path_factory, observation, action, extra, name):
    decision = webtraj.Decision(
        action=action, thought=extra, model_calls=extra, metadata=extra, memory=extra
    )
    known = dict.fromkeys(("seed", "attempt", "goal", "metadata", "versions"), extra)
    folder = tmp_path_factory.mktemp("dataset") / "x"
    episode = asyncio.run(
        recorded(folder, observation, decision, make=FORMATS[name], reward=extra, known=known)
    )
    assert type(episode.info.goal) is str
    assert type(episode.info.seed) in (int, type(None))


def test_a_secret_in_a_model_that_does_not_show_it_is_redacted():
    class Login(pydantic.BaseModel):
        password: str = pydantic.Field(repr=False)

    redacted = Redactor({"password": "hunter22"}).redact({"login": Login(password="hunter22")})
    assert redacted == {"login": {"password": "<secret:password>"}}
