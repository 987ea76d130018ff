"""Models made from nothing: what they say, and that they learn to read which name to point at."""

import random

import pytest
import torch
import transformers
from training_runs import settings

from two_cores.pointing import ELEMENTS, MARKERS, WORDS, Item, make_prompt
from two_cores.scratch import make_model
from webtraj import errors
from webtraj.environments import actions as a
from webtraj.training.samples import Sample, SampleKey
from webtraj.training.sft import publish, train

LABELS = ["Send", "Cancel", "Okay", "Help", "Open", "Close", "Next", "Back"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    texts = ["Click on the button", *LABELS] * 4
    return make_model(tmp_path_factory.mktemp("scratch") / "model", texts, vocab_size=700)


def ids(tokenizer, text):
    return tuple(tokenizer(text, add_special_tokens=False).input_ids)


def asked(number):
    source = random.Random(number)
    labels = source.sample(LABELS, 4)
    items = [Item(f"button {label}", label, str(ref)) for ref, label in enumerate(labels)]
    prompt = make_prompt(f"Click on {labels[number % 4]}", items, names=source)
    return prompt, prompt.reply_for(a.Click(str(number % 4)))


def test_names_are_single_tokens_that_are_not_special(made):
    tokenizer = transformers.AutoTokenizer.from_pretrained(made)
    for name in (*MARKERS, *ELEMENTS, *WORDS):
        (number,) = ids(tokenizer, name)
        assert tokenizer.decode([number], skip_special_tokens=True) == name
    prompt, reply = asked(0)
    assert len(ids(tokenizer, reply)) == 2
    # What a server makes of a conversation is the prompt, and nothing else.
    told = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt.text}], add_generation_prompt=True, tokenize=False
    )
    assert told == prompt.text
    decoded = tokenizer.decode(ids(tokenizer, reply), skip_special_tokens=True)
    assert prompt.read(decoded) == a.Click("0")


def test_any_text_can_be_said(made):
    tokenizer = transformers.AutoTokenizer.from_pretrained(made)
    said = "Größe \u4e2d\u6587 \U0001f600"
    assert tokenizer.decode(ids(tokenizer, said)).replace(" ", "") == said.replace(" ", "")


def test_a_folder_that_is_there_is_refused(made):
    with pytest.raises(errors.InvalidInputError, match="exists already"):
        make_model(made, ["text"])


def test_it_learns_to_point_at_what_it_never_saw_named_so(made, tmp_path):
    tokenizer = transformers.AutoTokenizer.from_pretrained(made)
    samples = []
    for number in range(4000):
        prompt, reply = asked(number)
        samples.append(
            Sample(
                key=SampleKey("made", number),
                messages=(),
                completion="",
                prompt_token_ids=ids(tokenizer, prompt.text),
                completion_token_ids=ids(tokenizer, reply),
            )
        )
    wanted = settings(
        made, tmp_path / "run", learning_rate=1e-2, adam_beta2=0.98, warmup_steps=20,
        schedule="linear", batch_size=32, epochs=4, max_steps=None, cutoff_len=128,
    )  # fmt: skip
    train(wanted, samples)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        publish(tmp_path / "run", tmp_path)
    ).eval()
    right = 0
    for number in range(10_000, 10_100):
        prompt, reply = asked(number)
        with torch.no_grad():
            logits = model(torch.tensor([ids(tokenizer, prompt.text)])).logits[0, -1]
        right += tokenizer.decode([int(logits.argmax())]) == reply.removesuffix("<w0>")
    assert right >= 90  # By chance, 25.
