"""What model calls took, from their records."""

import dm_env
import pytest

import webtraj
from webtraj import errors
from webtraj.agents.models import accounting
from webtraj.agents.models.accounting import Account, Price, Tokens

PRICES = {
    "exact-model": Price(input=1.0, output=2.0),
    "exact*": Price(input=100.0, output=100.0),
    "claude-*": Price(input=3.0, output=15.0, cached_input=0.3, cache_write=3.75),
}

OPENAI = {
    "prompt_tokens": 1000,
    "completion_tokens": 200,
    "total_tokens": 1200,
    "prompt_tokens_details.cached_tokens": 600,
}
ANTHROPIC = {
    "input_tokens": 1000,
    "output_tokens": 200,
    "cache_read_input_tokens": 5000,
    "cache_creation_input_tokens": 400,
}


def _call(model="exact-model", usage=OPENAI, latency=1.0, error=""):
    return webtraj.ModelCall(model=model, usage=usage, latency=latency, error=error)


def test_tokens_are_counted_alike_for_all_providers():
    openai = accounting.tokens_of(_call())
    assert openai == Tokens(input=400, cached_input=600, output=200)
    assert openai.total == 1200
    anthropic = accounting.tokens_of(_call(usage=ANTHROPIC))
    assert anthropic == Tokens(input=1000, cached_input=5000, cache_write=400, output=200)
    assert accounting.tokens_of(_call(usage={})) == Tokens()


@pytest.mark.parametrize(
    ("call", "cost"),
    [
        (_call(), (1000 * 1.0 + 200 * 2.0) / 1e6),
        (_call("exact-other"), 1200 * 100 / 1e6),
        (
            _call("claude-x", ANTHROPIC),
            (1000 * 3 + 5000 * 0.3 + 400 * 3.75 + 200 * 15) / 1e6,
        ),
    ],
    ids=["exact name", "pattern", "caches have their own"],
)
def test_calls_have_their_models_price(call, cost):
    assert accounting.cost_of(call, PRICES) == pytest.approx(cost)


def test_a_model_without_a_price_does_not_seem_free():
    calls = [_call(), _call("mine"), _call("mine")]
    assert accounting.cost_of(calls[1], PRICES) is None
    account = accounting.account_for(calls, PRICES)
    assert account.unpriced == {"mine": 2}
    assert account.cost == pytest.approx(accounting.cost_of(calls[0], PRICES))


def test_an_account_of_calls():
    calls = [_call(latency=n / 10) for n in range(1, 101)]
    calls += [_call(usage={}, latency=30.0, error="Gone."), _call(usage={}, latency=None)]
    account = accounting.account_for(calls)
    assert account.calls == 102
    assert account.failures == 1
    assert account.uncounted == 1
    assert account.tokens == Tokens(input=40_000, cached_input=60_000, output=20_000)
    assert account.latency(0.5) == 5.0
    assert account.latency(0.99) == 9.9
    assert account.latency(1.0) == 10.0
    assert account.latency(0.0) == 0.1
    assert account.model_seconds == pytest.approx(505 + 30)


def test_a_run_is_the_sum_of_its_episodes():
    calls = [_call(latency=3.0), _call(latency=1.0), _call("mine", ANTHROPIC, 2.0)]
    parts = [accounting.account_for(calls[:1], PRICES), accounting.account_for(calls[1:], PRICES)]
    assert Account.total(parts) == accounting.account_for(calls, PRICES)
    assert Account.total(parts).latencies == (1.0, 2.0, 3.0)


async def test_a_recorded_episode_is_accounted_for(model_server, connect, ask, tmp_path):
    client = connect(model_server)
    calls = [await client.complete(ask) for _ in range(3)]
    with pytest.raises(errors.ModelRefusedError) as refused:
        await connect(model_server, model="other").complete(ask)
    collector = webtraj.JsonTrajectoryCollector(tmp_path)
    recorder = collector.begin_episode(webtraj.EpisodeInfo(episode_id="a"))
    decisions = [(), tuple(calls[:2]), (refused.value.call, calls[2])]
    for index, model_calls in enumerate(decisions):
        step_type = dm_env.StepType.MID if index else dm_env.StepType.FIRST
        decision = webtraj.Decision(model_calls=model_calls) if index else None
        times = {"start_time": 10.0 * index, "end_time": 10.0 * index + 0.5}
        recorder.record_step(webtraj.StepRecord(index, step_type, None, decision=decision, **times))
    recorder.end_episode(webtraj.EpisodeEnd(reason=webtraj.EndReason.CLOSED))
    await collector.aclose()
    trajectory = webtraj.open_dataset(tmp_path)["a"]
    assert list(accounting.model_calls(trajectory)) == [*calls[:2], refused.value.call, calls[2]]
    account = accounting.account_for(trajectory, {"fake-*": Price(input=1.0, output=1.0)})
    assert (account.calls, account.failures) == (4, 1)
    assert account.tokens.total == sum(call.usage["total_tokens"] for call in calls)
    assert account.cost == pytest.approx(account.tokens.total / 1e6)
    assert account.unpriced == {}
    assert account.environment_seconds == pytest.approx(1.5)
    assert account.latencies == tuple(sorted(call.latency for call in calls))
