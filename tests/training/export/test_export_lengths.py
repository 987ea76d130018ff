"""Samples that are longer than a trainer cuts."""

import pytest

from webtraj.agents.models.base import Message
from webtraj.agents.models.messages import estimate_tokens
from webtraj.training.export import export_samples, make_format
from webtraj.training.export.lengths import LengthOptions, ModelCounter
from webtraj.training.export.pictures import PictureReader
from webtraj.training.samples import Sample, SampleKey
from webtraj.training.sft.encoding import ModelTools


def sample(index=0, *, rounds=3, words=400, **fields):
    messages = [Message.of("system", "Act.")]
    for turn in range(rounds):
        messages.append(Message.of("user", f"page {turn} " + "x " * words))
        messages.append(Message.of("assistant", f"click('{turn}')"))
    return Sample(
        key=SampleKey(f"e{index}", 1),
        messages=tuple(messages[:-1]),
        completion="click('9')",
        **fields,
    )


LONG = estimate_tokens((*sample().messages, Message.of("assistant", sample().completion)))


@pytest.mark.parametrize("name", ["sharegpt", "openai", "trl"])
def test_too_long_is_left_out_and_says_that_it_was_estimated(name, tmp_path):
    options = {"cutoff_len": LONG}
    samples = [sample(0), sample(1, words=401)]
    report = export_samples({"train": samples}, tmp_path / "x", format=name, options=options)
    split = report.splits["train"]
    assert split.left_out == {f"it is longer than {LONG} tokens, by an estimate": 1}
    assert split.left_out_first == {f"it is longer than {LONG} tokens, by an estimate": "e1/1/0"}
    assert split.changes == {"estimated_lengths": 1}


@pytest.mark.parametrize("name", ["sharegpt", "openai", "trl"])
def test_shortening_drops_whole_turns_from_the_oldest(name, tmp_path):
    options = {"cutoff_len": LONG - 1, "over_length": "shorten"}
    whole = sample(0, prompt_token_ids=(1,) * LONG, completion_token_ids=(2,))
    report = export_samples(
        {"train": [whole, sample(1, rounds=1, words=5000)]},
        tmp_path / "x",
        format=name,
        options=options,
    )
    split = report.splits["train"]
    assert split.changes == {"estimated_lengths": 1, "shortened_prompts": 1, "dropped_turns": 2}
    assert list(split.left_out) == [
        f"its last turn alone is longer than {LONG - 1} tokens, by an estimate"
    ]
    made = make_format(name, options)
    (row,) = made.read(tmp_path / "x", "train")
    back = made.sample_of(row, PictureReader(tmp_path / "x"))
    assert back.messages == (whole.messages[0], *whole.messages[3:])
    assert back.completion == whole.completion


def test_token_ids_on_record_are_the_length():
    options = LengthOptions(cutoff_len=10)
    fits = sample(prompt_token_ids=(1,) * 8, completion_token_ids=(2, 3))
    assert options.prepare(fits).changes == {}
    longer = sample(prompt_token_ids=(1,) * 9, completion_token_ids=(2, 3))
    assert options.prepare(longer).why == "it is longer than 10 tokens"
    rendered = sample(prompt_token_ids=(1,), completion_token_ids=(2,), recorded=False)
    assert options.prepare(rendered).why == "it is longer than 10 tokens, by an estimate"


class Words:
    """A tokenizer whose tokens are words."""

    chat_template = "there is one"

    def apply_chat_template(self, messages, tokenize):
        assert not tokenize
        return " ".join(f"<{m['role']}> {m['content']} <end>" for m in messages)

    def __call__(self, text, add_special_tokens):
        assert not add_special_tokens
        return {"input_ids": text.split()}


def test_a_model_counts_by_its_template_and_its_tokenizer():
    counter = ModelCounter(ModelTools(None, Words()))
    assert counter.count([Message.of("user", "a b"), Message.of("assistant", "c")]) == 7


REASONED = {"reasoning": "It is red.\n"}


@pytest.mark.parametrize("name", ["sharegpt", "openai", "trl"])
def test_separate_reasoning_is_left_out_and_counted_or_written_before_the_reply(name, tmp_path):
    samples = [sample(0, metadata=REASONED), sample(1)]
    replies = {}
    for reasoning in ("leave_out", "think"):
        folder, options = tmp_path / reasoning, {"reasoning": reasoning}
        report = export_samples({"train": samples}, folder, format=name, options=options)
        made = make_format(name, options)
        rows = made.read(folder, "train")
        replies[reasoning] = [made.sample_of(row, PictureReader(folder)).completion for row in rows]
        left_out = {"left_out_reasoning": 1} if reasoning == "leave_out" else {}
        assert report.splits["train"].changes == left_out
    assert replies == {
        "leave_out": ["click('9')", "click('9')"],
        "think": ["<think>\nIt is red.\n</think>\n\nclick('9')", "click('9')"],
    }
