"""The loss: what it is, what has no part in it, and that packing changes nothing of it."""

import dataclasses
import functools

import pytest
import torch
from training_runs import reference_losses, same, sample, settings, weights

from webtraj.training.sft import TrainingError, models, train
from webtraj.training.sft.batches import MicroBatch
from webtraj.training.sft.data import TrainingData
from webtraj.training.sft.encoding import Encoder, load_tools
from webtraj.training.sft.optimizer_step import token_losses, weighted_sum

SAMPLES = [
    sample(number, loss_weight=weight) for number, weight in enumerate((1.0, 0.5, 2.0, 1.0, 0.25))
]


@pytest.fixture(scope="module")
def prepared(text_model, tmp_path_factory):
    wanted = settings(text_model, tmp_path_factory.mktemp("none"))
    tools = load_tools(text_model)
    return TrainingData(SAMPLES, Encoder(tools), wanted), models.load_model(wanted, tools)


def gradients(model, data, rows, *, counts=True):
    model.zero_grad()
    batch = data.batch(MicroBatch(rows, counts=counts), masked=True)
    nll, weight, _, _ = token_losses(model, batch)
    loss = weighted_sum(nll, weight)
    loss.backward()
    return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters()}


def close(one, other, tolerance=2e-4):
    return all(torch.allclose(one[k], other[k], rtol=tolerance, atol=1e-5) for k in one)


def test_loss_is_that_of_the_models_definition(prepared, text_model):
    data, model = prepared
    encoder = Encoder(load_tools(text_model))
    for number, one in enumerate(SAMPLES):
        wanted = reference_losses(model, encoder.encode(one))
        batch = data.batch(MicroBatch(((number,),)), masked=True)
        nll, weight, _, _ = token_losses(model, batch)
        assert torch.allclose(nll, wanted, rtol=1e-4)
        assert weight.tolist() == [one.loss_weight] * len(wanted)


def test_packed_samples_do_not_see_each_other(prepared):
    data, model = prepared
    alone, alone_gradients = gradients(model, data, ((0,), (1,), (2,), (3,), (4,)))
    packed, packed_gradients = gradients(model, data, ((0, 3), (4, 1, 2)))
    assert packed == pytest.approx(alone, rel=1e-5)
    assert close(packed_gradients, alone_gradients)


def test_gradients_of_weight_0_are_exactly_zero(text_model, prepared):
    _, model = prepared
    silent = [dataclasses.replace(one, loss_weight=0.0) for one in SAMPLES]
    encoder = Encoder(load_tools(text_model))
    from webtraj.training.sft.batches import make_batch

    model.zero_grad()
    batch = make_batch([[encoder.encode(one)] for one in silent], pad_id=0)
    nll, weight, _, _ = token_losses(model, batch)
    weighted_sum(nll, weight).backward()
    assert all(not p.grad.any() for p in model.parameters() if p.grad is not None)


def test_passes_that_do_not_count_have_gradients_of_zeros(prepared):
    data, model = prepared
    loss, found = gradients(model, data, ((0,), (1,)), counts=False)
    assert loss == 0
    assert all(not gradient.any() for gradient in found.values())


def test_samples_of_weight_0_change_no_weight(text_model, tmp_path):
    more = [*SAMPLES, *(sample(number, loss_weight=0.0) for number in range(5, 9))]
    with_them = train(settings(text_model, tmp_path / "with", max_steps=3), more)
    without = train(settings(text_model, tmp_path / "without", max_steps=3), SAMPLES)
    assert with_them.data.no_weight == 4
    assert same(weights(with_them.checkpoint / "model"), weights(without.checkpoint / "model"))


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 1, "accumulation": 5},
        {"batch_size": 2, "accumulation": 3},
        {"batch_size": 5, "packing": True, "cutoff_len": 128},
    ],
    ids=["one by one", "uneven passes", "packed"],
)
def test_the_split_into_passes_does_not_change_a_step(text_model, tmp_path, options):
    common = {"max_steps": 1, "max_grad_norm": 0.0}
    whole = train(settings(text_model, tmp_path / "a", batch_size=5, **common), SAMPLES)
    split = train(settings(text_model, tmp_path / "b", **{**common, **options}), SAMPLES)
    assert split.loss == pytest.approx(whole.loss, rel=1e-5)
    one, other = (weights(run.checkpoint / "model") for run in (whole, split))
    # Adam's first step is the gradient's sign, which rounding turns where it is about 0.
    moved = torch.cat([(one[name] - other[name]).abs().flatten() for name in one])
    assert (moved > 1e-5).float().mean() < 0.01


def test_a_weight_of_two_is_two_samples(text_model, tmp_path):
    twice = [sample(0), sample(0), sample(1)]
    heavy = [sample(0, loss_weight=2.0), sample(1)]
    runs = [
        train(settings(text_model, tmp_path / str(number), max_steps=1), samples)
        for number, samples in enumerate((twice, heavy))
    ]
    assert runs[0].loss == pytest.approx(runs[1].loss, rel=1e-5)


def test_nothing_to_train_on_is_an_error(text_model, tmp_path):
    with pytest.raises(TrainingError, match="of 2 samples, 2 have weight 0"):
        train(
            settings(text_model, tmp_path / "run"),
            [sample(number, loss_weight=0.0) for number in range(2)],
        )
    with pytest.raises(TrainingError, match="Nothing to train on"):
        train(settings(text_model, tmp_path / "run"), [])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "finish_reason", ["stop", "end_turn", "tool_calls", "", "length", "MAX_TOKENS"]
)
def test_a_reply_ends_with_the_end_token_unless_it_was_cut_off(text_model, finish_reason):
    tools = load_tools(text_model)
    encode = functools.partial(tools.tokenizer.encode, add_special_tokens=False)
    (end,) = encode("<|im_end|>")
    for reply in ("click('1')", "x\n", "\n\n", " ", "Größe 漢字", "the end<|im_end|>"):
        made = Encoder(tools).encode(sample(1, reply=reply, finish_reason=finish_reason))
        prompt = encode(
            "<|im_start|>system\nReply with an action.<|im_end|>\n<|im_start|>user\n"
            + "Click the button with the number 1." * 2
            + "<|im_end|>\n<|im_start|>assistant\n"
        )
        cut = finish_reason in ("length", "MAX_TOKENS")
        expected = encode(reply) + ([] if cut else [end])
        assert made.input_ids.tolist() == prompt + expected, reply
        assert made.trained.tolist() == [False] * len(prompt) + [True] * len(expected)
