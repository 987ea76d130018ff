"""What is not trained on, and what the error says."""

import dataclasses

import pytest
import torch
import transformers
from training_runs import picture, sample, settings

from webtraj import errors
from webtraj.agents.models.base import Image, Message
from webtraj.training.sft import NonFiniteLossError, train
from webtraj.training.sft.checkpoints import find_latest
from webtraj.training.sft.encoding import Encoder, load_tools
from webtraj.training.sft.failures import PictureMismatchError


def encoded(model, one, **options):
    return Encoder(load_tools(model), **options).encode(one)


def on_record(model, one, **options):
    """Returns a sample with ids on record, as a server would have made them."""
    found = encoded(model, one)
    size = int(found.trained.argmax())
    ids = found.input_ids.tolist()
    return dataclasses.replace(
        one, prompt_token_ids=tuple(ids[:size]), completion_token_ids=tuple(ids[size:]), **options
    )


def test_reply_is_what_follows_the_prompt_up_to_its_end(text_model):
    tokenizer = load_tools(text_model).tokenizer
    found = encoded(text_model, sample(3))
    assert tokenizer.decode(found.input_ids[found.trained]) == "click('3')<|im_end|>"
    assert tokenizer.decode(found.input_ids[~found.trained]).endswith("<|im_start|>assistant\n")


def test_ids_on_record_are_trained_on_as_they_are(text_model):
    # Another way to spell the same reply, without an end: as a server cut it.
    ids = tuple(load_tools(text_model).tokenizer("cli")["input_ids"])
    one = on_record(text_model, sample(3))
    other = dataclasses.replace(one, completion_token_ids=ids)
    found = encoded(text_model, other)
    assert found.input_ids.tolist() == [*other.prompt_token_ids, *ids]
    assert found.input_ids[found.trained].tolist() == list(ids)
    assert found.recorded
    again = encoded(text_model, other, token_ids="template")
    assert again.input_ids[again.trained].tolist() == list(one.completion_token_ids)


@pytest.mark.parametrize("images", [False, True], ids=["text", "images"])
@pytest.mark.parametrize("recorded", [False, True], ids=["template", "recorded"])
def test_all_turns_are_the_replies_in_the_prompt_too(text_model, vision_model, images, recorded):
    model = vision_model if images else text_model
    shown = [picture(9)] if images else []
    messages = (
        Message.of("user", "First: ", *shown, "act."),
        Message.of("assistant", "click('1')"),
        Message.of("user", "Then?", *shown),
    )
    one = dataclasses.replace(sample(2), messages=messages)
    one = on_record(model, one) if recorded else one
    found = encoded(model, one, loss_on="all_turns")
    text = load_tools(model).tokenizer.decode(found.input_ids[found.trained])
    assert text == "click('1')<|im_end|>click('2')<|im_end|>"


def test_where_earlier_replies_stand_in_other_ids_is_not_guessed(text_model):
    messages = (Message.of("user", "a"), Message.of("assistant", "b"), Message.of("user", "c"))
    one = on_record(text_model, dataclasses.replace(sample(2), messages=messages))
    one = dataclasses.replace(one, prompt_token_ids=one.prompt_token_ids[1:])
    with pytest.raises(
        errors.InvalidInputError, match=r"episode2, step 1.*earlier replies cannot be located"
    ):
        encoded(text_model, one, loss_on="all_turns")


def test_ids_of_another_vocabulary_are_refused(text_model):
    one = on_record(text_model, sample(4))
    one = dataclasses.replace(one, completion_token_ids=(5, 99_999))
    with pytest.raises(
        errors.InvalidInputError, match=r"episode4, step 1, has the recorded token id 99999"
    ):
        encoded(text_model, one)


def test_ids_that_spell_other_replies_are_refused(text_model, tmp_path):
    ids = on_record(text_model, sample(9, reply="scroll(0, 100)")).completion_token_ids
    samples = [
        dataclasses.replace(on_record(text_model, sample(number)), completion_token_ids=ids)
        for number in range(3)
    ]
    with pytest.raises(errors.InvalidInputError, match="come from another tokenizer"):
        train(settings(text_model, tmp_path), samples)


def test_a_damaged_picture_is_named_with_its_sample(vision_model):
    for data in (b"", b"no picture", picture(5).data[:60]):
        with pytest.raises(errors.InvalidInputError, match=r"episode3, step 1, has a damaged pict"):
            encoded(vision_model, sample(3, "See ", Image(data)))


def test_an_image_mark_in_a_pages_text_is_refused(vision_model):
    for shown in ([picture(5)], []):
        with pytest.raises(PictureMismatchError, match="the text contains it too"):
            encoded(vision_model, sample(1, "<image> says the page", *shown))


@pytest.mark.parametrize(
    "weight", [-1.0, float("nan"), float("inf")], ids=["below 0", "nan", "inf"]
)
def test_strange_weights_are_refused(text_model, weight):
    with pytest.raises(errors.InvalidInputError, match=r"episode1, step 1, has the loss_weight"):
        encoded(text_model, sample(1, loss_weight=weight))


def test_samples_are_never_cut(text_model, tmp_path):
    samples = [sample(1), sample(2, "long " * 300)]
    with pytest.raises(errors.InvalidInputError, match=r"1 samples are longer .* episode2, step 1"):
        train(settings(text_model, tmp_path, cutoff_len=100), samples)
    wanted = settings(text_model, tmp_path, cutoff_len=100, too_long="drop", max_steps=1)
    assert train(wanted, samples).data.too_long == 1


def test_a_loss_that_is_no_number_ends_the_run_and_names_the_sample(text_model, tmp_path):
    broken = transformers.AutoModelForCausalLM.from_pretrained(text_model)
    tokenizer = transformers.AutoTokenizer.from_pretrained(text_model)
    (row,) = tokenizer("~", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        broken.model.embed_tokens.weight[row] = float("nan")
        broken.config.tie_word_embeddings = False
        broken.lm_head.weight = torch.nn.Parameter(broken.lm_head.weight.nan_to_num().clone())
    broken.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    samples = [sample(1), sample(2, "~"), sample(3)]
    with pytest.raises(NonFiniteLossError, match=r"not finite: episode2, step 1\. The"):
        train(settings(tmp_path / "model", tmp_path / "run"), samples)
    assert find_latest(tmp_path / "run") is None
    assert train(settings(tmp_path / "model", tmp_path / "fine"), samples[::2]).finished
