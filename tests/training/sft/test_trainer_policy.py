"""Policy-gradient training: advantages, the clipped loss beside two others, and what it learns."""

import dataclasses

import numpy as np
import pytest
import torch
from training_runs import same, sample, settings, weights

from webtraj import errors
from webtraj.training.samples import SampleKey
from webtraj.training.sft import models, read_log, read_row, train
from webtraj.training.sft.batches import MicroBatch
from webtraj.training.sft.data import TrainingData
from webtraj.training.sft.encoding import Encoder, load_tools
from webtraj.training.sft.optimizer_step import token_losses, weighted_sum
from webtraj.training.sft.policy_gradient import PolicyGradient, advantages_of
from webtraj.training.sft.settings import PolicySettings, SftSettings

REWARDS = (1.0, 0.0, 0.0, 1.0, 0.0, 1.0)


def logprobs_of(model, prompt, reply, temperature=1.0):
    ids = torch.tensor([[*prompt, *reply]])
    with torch.no_grad():
        found = (model(input_ids=ids).logits[0, :-1].float() / temperature).log_softmax(-1)
    picked = found.gather(1, ids[0, 1:, None])[:, 0]
    return picked[len(prompt) - 1 :]


@pytest.fixture(scope="module")
def prepared(text_model, tmp_path_factory):
    wanted = settings(text_model, tmp_path_factory.mktemp("none"))
    tools = load_tools(text_model)
    return tools, models.load_model(wanted, tools)


@pytest.fixture(scope="module")
def sampled(prepared):
    """Six attempts at one task, as a server sampled them: with noise in its log-probabilities."""
    tools, model = prepared
    noise = np.random.default_rng(0)
    encoder = Encoder(tools)
    attempts = []
    for number, reward in enumerate(REWARDS):
        one = sample(number)
        encoded = encoder.encode(one)
        at = int(encoded.trained.argmax())
        prompt, reply = encoded.input_ids[:at].tolist(), encoded.input_ids[at:].tolist()
        exact = logprobs_of(model, prompt, reply).numpy()
        attempts.append(
            dataclasses.replace(
                one,
                prompt_token_ids=tuple(prompt),
                completion_token_ids=tuple(reply),
                logprobs=tuple(map(float, exact + noise.normal(0, 0.3, len(exact)))),
                reward=reward,
                group_id="group",
                iteration=1,
            )
        )
    return attempts


def loss_of(prepared, samples, tmp_path, **policy):
    tools, model = prepared
    wanted = settings(tools.config.name_or_path, tmp_path, policy=PolicySettings(**policy))
    data = TrainingData(samples, Encoder(tools), wanted)
    rows = tuple((number,) for number in range(data.report.used))
    batch = data.batch(MicroBatch(rows), masked=True)
    nll, weight, _, _ = token_losses(model, batch)
    losses, sums = PolicyGradient(wanted.policy)(nll, batch)
    return (weighted_sum(losses, weight) / data.mass(range(len(rows)))), sums, data


def reference(model, samples, *, normalizer, low=0.2, high=0.2, start=None, most=2.0):
    """The loss in numpy, reply by reply."""
    mean = np.mean([one.reward for one in samples])
    total = count = 0.0
    for one in samples:
        logp = logprobs_of(model, one.prompt_token_ids, one.completion_token_ids).double().numpy()
        behaviour = np.float32(one.logprobs).astype(float)
        old = behaviour if start is None else logp + start
        ratio = np.exp(logp - old)
        advantage = one.reward - mean
        loss = -np.minimum(ratio * advantage, np.clip(ratio, 1 - low, 1 + high) * advantage)
        if start is not None:
            loss *= np.minimum(np.exp(old - behaviour), most)
        match normalizer:
            case "tokens":
                total, count = total + loss.sum(), count + len(loss)
            case "sequences":
                total, count = total + loss.mean(), count + 1
            case _:
                total, count = total + loss.sum() / 50.0, count + 1
    return total / count


@pytest.mark.parametrize("normalizer", ["tokens", "sequences", "constant"])
def test_loss_is_that_of_a_plain_reference(prepared, sampled, tmp_path, normalizer):
    found, sums, _ = loss_of(prepared, sampled, tmp_path, normalizer=normalizer, constant=50.0)
    assert found.item() == pytest.approx(
        reference(prepared[1], sampled, normalizer=normalizer), rel=1e-4, abs=1e-6
    )
    assert 0 < sums["clipped"] < sums["tokens"]


def test_log_probabilities_are_of_the_distribution_that_was_sampled_from(
    prepared, sampled, tmp_path
):
    tools, model = prepared
    sharpened = [
        dataclasses.replace(
            one,
            logprobs=tuple(
                logprobs_of(
                    model, one.prompt_token_ids, one.completion_token_ids, temperature=0.6
                ).tolist()
            ),
        )
        for one in sampled
    ]
    wanted = settings(tools.config.name_or_path, tmp_path, policy=PolicySettings(temperature=0.6))
    data = TrainingData([*sharpened, sample(9)], Encoder(tools), wanted)
    batch = data.batch(MicroBatch(tuple((n,) for n in range(7))), masked=True)
    sums = {}
    for temperature in (1.0, 0.6):
        nll, _, _, _ = token_losses(model, batch, temperature=temperature)
        _, sums[temperature] = PolicyGradient(wanted.policy)(nll, batch)
    assert float(sums[0.6]["mismatch"]) == pytest.approx(0.0, abs=1e-3)
    assert float(sums[1.0]["mismatch"]) > 1.0


@pytest.mark.parametrize(
    ("temperatures", "given", "match"),
    [
        ([0.6, 0.7], None, "at temperature 0.7; expected 0.6"),
        ([0.6, 0.6], 1.0, "at temperature 0.6; expected 1,"),
        ([0.0, 0.0], None, "at temperature 0; expected one above 0"),
        ([0.6, None], None, "at temperature 1 .assumed, since none is on record"),
    ],
)
def test_rows_of_another_temperature_are_refused(
    prepared, sampled, tmp_path, temperatures, given, match
):
    pairs = zip(sampled, temperatures, strict=False)
    rows = [dataclasses.replace(one, temperature=found) for one, found in pairs]
    with pytest.raises(errors.InvalidInputError, match=match):
        loss_of(prepared, rows, tmp_path, temperature=given)


@pytest.mark.parametrize("normalizer", ["tokens", "sequences", "constant"])
def test_loss_and_gradient_are_those_of_trl(prepared, sampled, tmp_path, normalizer):
    trl = pytest.importorskip("trl")
    import datasets

    tools, model = prepared
    theirs = trl.GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=trl.GRPOConfig(
            output_dir=str(tmp_path / "trl"),
            beta=0.0,
            loss_type={"tokens": "bnpo", "sequences": "grpo", "constant": "dr_grpo"}[normalizer],
            max_completion_length=50,
            per_device_train_batch_size=len(sampled),
            num_generations=2,
            use_cpu=True,
            report_to="none",
            bf16=False,
        ),
        train_dataset=datasets.Dataset.from_list([{"prompt": "x"}] * 6),
        processing_class=tools.tokenizer,
    )
    longest = max(len(one.prompt_token_ids) for one in sampled)
    widest = max(len(one.completion_token_ids) for one in sampled)
    mean = np.mean(REWARDS)

    def left(values, fill):
        return torch.tensor([[fill] * (longest - len(v)) + list(v) for v in values])

    def right(values, fill):
        return torch.tensor([list(v) + [fill] * (widest - len(v)) for v in values])

    prompts = [one.prompt_token_ids for one in sampled]
    replies = [one.completion_token_ids for one in sampled]
    inputs = {
        "prompt_ids": left(prompts, 0),
        "prompt_mask": left([[1] * len(ids) for ids in prompts], 0),
        "completion_ids": right(replies, 0),
        "completion_mask": right([[1] * len(ids) for ids in replies], 0),
        "advantages": torch.tensor([one.reward - mean for one in sampled], dtype=torch.float32),
        "old_per_token_logps": right([one.logprobs for one in sampled], 0.0),
        "num_items_in_batch": torch.tensor(sum(map(len, replies))),
    }
    model.eval()
    model.zero_grad()
    wanted = theirs._compute_loss(model, inputs)
    wanted.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    found, _, _ = loss_of(prepared, sampled, tmp_path, normalizer=normalizer, constant=50.0)
    found.backward()
    assert found.item() == pytest.approx(wanted.item(), rel=1e-4, abs=1e-6)
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter.grad, gradients[name], rtol=1e-3, atol=1e-5), name


def test_a_proximal_policy_takes_the_ratio_and_bounds_the_importance(prepared, sampled, tmp_path):
    tools, model = prepared
    wanted = settings(tools.config.name_or_path, tmp_path, policy=PolicySettings(proximal=True))
    data = TrainingData(sampled, Encoder(tools), wanted)
    shift = 0.1
    data.set_proximal(
        [
            logprobs_of(model, one.prompt_token_ids, one.completion_token_ids).numpy() + shift
            for one in sampled
        ]
    )
    batch = data.batch(MicroBatch(tuple((n,) for n in range(len(sampled)))), masked=True)
    nll, weight, _, _ = token_losses(model, batch)
    losses, sums = PolicyGradient(wanted.policy)(nll, batch)
    found = weighted_sum(losses, weight).item() / data.mass(range(len(sampled)))
    expected = reference(model, sampled, normalizer="tokens", start=shift)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert float(sums["ratio"]) / float(sums["tokens"]) == pytest.approx(np.exp(-shift), rel=1e-4)


@pytest.mark.parametrize("odd", [-9999.0, -1e30, 50.0])
def test_one_odd_log_probability_leaves_the_loss_finite(prepared, sampled, tmp_path, odd):
    first = sampled[0]
    spoiled = dataclasses.replace(first, logprobs=(odd, *first.logprobs[1:]))
    loss, sums, _ = loss_of(prepared, [spoiled, *sampled[1:]], tmp_path)
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(sums["ratio"])


def test_advantages_compare_episodes_not_rows(prepared, sampled, tmp_path):
    first = sampled[0]
    longer = [
        dataclasses.replace(first, key=SampleKey(first.key.episode_id, step)) for step in range(5)
    ]
    _, _, data = loss_of(prepared, [*longer, *sampled[1:]], tmp_path)
    assert data._encoded[0].advantage == pytest.approx(1.0 - np.mean(REWARDS))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("group_mean", [0.75, -0.25, -0.25, -0.25]),
        ("leave_one_out", [1.0, -1 / 3, -1 / 3, -1 / 3]),
        ("group_mean_std", [1.5, -0.5, -0.5, -0.5]),
    ],
)
def test_advantages(kind, expected):
    found = advantages_of({"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0}, kind)
    assert list(found.values()) == pytest.approx(expected, rel=1e-3)


def test_what_teaches_nothing_is_left_out_and_counted(prepared, sampled, tmp_path):
    equal = [
        dataclasses.replace(one, key=SampleKey(f"e{n}", 0), reward=1.0, group_id="equal")
        for n, one in enumerate(sampled[:3])
    ]
    broken = [dataclasses.replace(sampled[0], key=SampleKey("broken", 0), reward=None)]
    old = [dataclasses.replace(one, iteration=0, group_id="old") for one in sampled[:2]]
    _, _, data = loss_of(prepared, [*sampled, *equal, *broken, *old], tmp_path, max_staleness=0)
    report = data.report
    assert (report.used, report.no_spread, report.unscored, report.stale) == (6, 3, 1, 2)
    assert (report.groups, report.groups_kept, report.reward) == (2, 1, pytest.approx(6 / 9))


def test_an_episode_with_two_rewards_is_refused(prepared, sampled, tmp_path):
    other = dataclasses.replace(sampled[0], key=SampleKey(sampled[0].key.episode_id, 7), reward=0.0)
    with pytest.raises(errors.InvalidInputError, match=r"has the rewards 1\.0 and 0\.0"):
        loss_of(prepared, [*sampled, other], tmp_path)


def test_rows_without_logprobs_are_imitated_beside_it(prepared, sampled, tmp_path):
    shown = sample(9)
    found, _, data = loss_of(prepared, [*sampled, shown], tmp_path, supervised_weight=0.5)
    alone, _, _ = loss_of(prepared, sampled, tmp_path)
    tokens = sum(len(one.completion_token_ids) for one in sampled)
    tools, model = prepared
    encoded = Encoder(tools).encode(shown)
    at = int(encoded.trained.argmax())
    nll = -logprobs_of(model, encoded.input_ids[:at].tolist(), encoded.input_ids[at:].tolist())
    expected = (alone.item() * tokens + 0.5 * float(nll.sum())) / (tokens + 0.5 * len(nll))
    assert found.item() == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert data.report.used == 7


def test_training_makes_rewarded_replies_likelier_and_logs_the_ratio(
    prepared, sampled, text_model, tmp_path
):
    _, model = prepared
    exact = [
        dataclasses.replace(
            one,
            logprobs=tuple(
                logprobs_of(model, one.prompt_token_ids, one.completion_token_ids).tolist()
            ),
        )
        for one in sampled
    ]
    wanted = settings(
        text_model, tmp_path / "run", policy={"clip_high": 10.0}, max_steps=8, batch_size=6,
        log_steps=4,
    )  # fmt: skip
    result = train(wanted, exact)
    trained = result.checkpoint / "model"
    after = models.load_model(settings(trained, tmp_path / "x"), load_tools(trained))
    change = {
        reward: np.mean(
            [
                float(
                    (
                        logprobs_of(after, one.prompt_token_ids, one.completion_token_ids)
                        - torch.tensor(one.logprobs)
                    ).mean()
                )
                for one in exact
                if one.reward == reward
            ]
        )
        for reward in (0.0, 1.0)
    }
    assert change[1.0] > 0.1 > -0.1 > change[0.0]
    entries = [entry for entry in read_log(tmp_path / "run") if "policy_ratio" in entry]
    assert [entry["step"] for entry in entries] == [1, 4, 8]
    first, *_, last = entries
    assert first["policy_ratio"] == pytest.approx(1.0, abs=1e-4)
    assert first["policy_mismatch"] == pytest.approx(0.0, abs=1e-4)
    assert last["policy_mismatch"] > 0.01


@pytest.mark.parametrize("proximal", [False, True])
def test_a_stopped_run_resumes_to_the_same_weights(sampled, text_model, tmp_path, proximal):
    options = {"policy": {"proximal": proximal}, "max_steps": 4, "batch_size": 3}
    whole = train(settings(text_model, tmp_path / "whole", **options), sampled)
    stopping = settings(text_model, tmp_path / "parts", save_steps=1, **options)
    asked = iter([False, True])
    train(stopping, sampled, stopped=lambda: next(asked))
    parts = train(stopping, sampled)
    assert parts.resumed_from == 2
    assert same(weights(whole.checkpoint / "model"), weights(parts.checkpoint / "model"))
    assert [entry["step"] for entry in read_log(tmp_path / "parts")] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"loss_on": "all_turns"}, "loss_on must be completion"),
        ({"token_ids": "template"}, "token_ids must be auto or recorded"),
    ],
)
def test_settings_that_cannot_go_together_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        SftSettings(model="m", out="o", policy={}, **options)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"logprobs": [-0.5]}, "1 logprobs for 2 completion token ids"),
        ({"logprobs": ["x", 1]}, "expected a list of numbers as logprobs"),
        ({"reward": "high"}, "expected a number or null as reward"),
        ({"iteration": "2"}, "expected a whole number as iteration"),
    ],
)
def test_a_wrong_row_is_an_error_that_names_it(wrong, match):
    row = {"prompt_ids": [1, 2], "completion_ids": [3, 4], **wrong}
    with pytest.raises(errors.InvalidInputError, match=f"a line: .*{match}|a line: {match}"):
        read_row(row, "a line")
