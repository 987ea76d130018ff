"""Every cell of the state table of `EpisodeTracker`."""

import asyncio

import dm_env
import pytest

from rows import each
from webtraj import errors
from webtraj.environments import base as contract
from webtraj.testing.fakes import HANG, ScriptedEnvironment

FIRST = dm_env.restart("seen")
MID = dm_env.transition(0.5, "seen")
LAST = dm_env.termination(1.0, "seen")
CUT = dm_env.truncation(1.0, "seen")
BOOM = RuntimeError("boom")

# What the environment does | what is called | what is on record.
# A call with `!` is cancelled while the environment hangs. The n-th step gets the action `a<n>`.
TABLE = {
    # reset
    "reset begins an episode": ([FIRST], "reset", ["open"]),
    "reset while open interrupts": (
        [FIRST, FIRST],
        "reset reset",
        ["first: interrupted in reset", "open"],
    ),
    "reset after LAST has nothing to end": (
        [FIRST, LAST, FIRST],
        "reset step reset",
        ["first last(a1): terminated in step", "open"],
    ),
    "reset that raises is an episode without steps": (
        [BOOM],
        "reset",
        ["nothing: errored in reset"],
    ),
    "reset that raises while open interrupts first": (
        [FIRST, BOOM],
        "reset reset",
        ["first: interrupted in reset", "nothing: errored in reset"],
    ),
    "reset that is cancelled is an episode without steps": (
        [HANG],
        "reset!",
        ["nothing: cancelled in reset"],
    ),
    "reset that is cancelled while open interrupts first": (
        [FIRST, HANG],
        "reset reset!",
        ["first: interrupted in reset", "nothing: cancelled in reset"],
    ),
    "reset after a failed reset begins anew": (
        [BOOM, FIRST],
        "reset reset",
        ["nothing: errored in reset", "open"],
    ),
    "reset that returns MID is headless": ([MID], "reset close", ["mid: closed in close"]),
    "reset that returns LAST is an episode": ([LAST], "reset", ["last: terminated in reset"]),
    # step
    "step on fresh begins an episode and its action is ignored": (
        [FIRST, LAST],
        "step step",
        ["first(ignored a1) last(a2): terminated in step"],
    ),
    "step after LAST begins an episode and its action is ignored": (
        [FIRST, LAST, FIRST],
        "reset step step close",
        ["first last(a1): terminated in step", "first(ignored a2): closed in close"],
    ),
    "step that returns FIRST while open is an episode of its own": (
        [FIRST, MID, FIRST, LAST],
        "reset step step step",
        [
            "first mid(a1): interrupted in step, a2 in flight",
            "first(ignored a2) last(a3): terminated in step",
        ],
    ),
    "MID is recorded": ([FIRST, MID], "reset step", ["open"]),
    "LAST with discount 0 terminates": (
        [FIRST, MID, LAST],
        "reset step step",
        ["first mid(a1) last(a2): terminated in step"],
    ),
    "LAST with a discount above 0 truncates": (
        [FIRST, CUT],
        "reset step",
        ["first last(a1): truncated in step"],
    ),
    "MID without FIRST is headless": ([MID], "step close", ["mid(a1): closed in close"]),
    "LAST without FIRST is headless": ([LAST], "step", ["last(a1): terminated in step"]),
    "step that raises keeps its action": (
        [FIRST, BOOM],
        "reset step",
        ["first: errored in step, a1 in flight"],
    ),
    "step that is cancelled keeps its action": (
        [FIRST, HANG],
        "reset step!",
        ["first: cancelled in step, a1 in flight"],
    ),
    "step on fresh that raises is an episode without steps": (
        [BOOM],
        "step",
        ["nothing: errored in step, a1 in flight"],
    ),
    "step on fresh that is cancelled is an episode without steps": (
        [HANG],
        "step!",
        ["nothing: cancelled in step, a1 in flight"],
    ),
    "an error blocks nothing: the rest of the episode is headless": (
        [FIRST, BOOM, MID, LAST],
        "reset step step step",
        ["first: errored in step, a1 in flight", "mid(a2) last(a3): terminated in step"],
    ),
    "a cancellation blocks nothing: FIRST begins an episode": (
        [FIRST, HANG, FIRST, LAST],
        "reset step! step step",
        [
            "first: cancelled in step, a1 in flight",
            "first(ignored a2) last(a3): terminated in step",
        ],
    ),
    # close, exit
    "close on fresh has nothing to end": ([], "close", []),
    "close while open closes": ([FIRST], "reset close", ["first: closed in close"]),
    "close after LAST has nothing to end": (
        [FIRST, LAST],
        "reset step close",
        ["first last(a1): terminated in step"],
    ),
    "close twice ends once": ([FIRST], "reset close close", ["first: closed in close"]),
    "exit while open closes": ([FIRST], "reset exit", ["first: closed in exit"]),
    "exit by an error errs": ([FIRST], "reset exit-error", ["first: errored in exit"]),
    "exit by cancellation cancels": ([FIRST], "reset exit-cancel", ["first: cancelled in exit"]),
    "exit on fresh has nothing to end": ([], "exit", []),
    "exit by an error after LAST has nothing to end": (
        [FIRST, LAST],
        "reset step exit-error",
        ["first last(a1): terminated in step"],
    ),
    "exit after close has nothing to end": (
        [FIRST],
        "reset close exit",
        ["first: closed in close"],
    ),
    "reset after close begins anew": (
        [FIRST, FIRST],
        "reset close reset",
        ["first: closed in close", "open"],
    ),
    "step after close is the environment's affair": (
        [FIRST, FIRST],
        "reset close step",
        ["first: closed in close", "open"],
    ),
    # truncation by hand
    "mark_truncated while open truncates": (
        [FIRST, MID, FIRST],
        "reset step mark reset",
        ["first mid(a1): truncated in step", "open"],
    ),
    "close after mark_truncated has nothing to end": (
        [FIRST, MID],
        "reset step mark close",
        ["first mid(a1): truncated in step"],
    ),
}


@each(("script", "calls", "expected"), TABLE.values())
async def test_state_table(recording, script, calls, expected):
    await recording.begin_anew()
    env = recording.env(ScriptedEnvironment(script))
    await play(env, script, calls.split())
    assert await recording.lines() == expected


async def play(env, script, calls):
    """Makes the calls; checks that each does what the script says."""
    entries = iter(script)
    num_steps = 0
    for call in calls:
        name = call.rstrip("!")
        if name == "step":
            num_steps += 1
            coroutine = env.step(f"a{num_steps}")
        elif name == "reset":
            coroutine = env.reset()
        else:
            await end(env, call)
            continue
        entry = next(entries)
        if call.endswith("!"):
            await cancelled(coroutine)
        elif entry is BOOM:
            with pytest.raises(RuntimeError) as caught:
                await coroutine
            assert caught.value is BOOM
        else:
            assert await coroutine is entry


async def end(env, call):
    error = {"exit-error": BOOM, "exit-cancel": asyncio.CancelledError()}.get(call)
    match call:
        case "close":
            await env.close()
        case "mark":
            env.mark_truncated("enough")
        case _:
            result = await env.__aexit__(error and type(error), error, None)
            assert not result


async def cancelled(coroutine, *, times=1):
    """Runs a call up to where it waits, then cancels it."""
    task = asyncio.ensure_future(coroutine)
    for _ in range(times):
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# What a cell notes besides.
NOTES = {
    "a good episode breaks no rule": ([FIRST, MID, LAST], "reset step step", [[]]),
    "auto-reset is noted on the episode it ended": (
        [FIRST, MID, FIRST, LAST],
        "reset step step step",
        [[contract.RESET_BY_ITSELF], []],
    ),
    "MID from reset": ([MID], "reset close", [[contract.NOT_FIRST_AFTER_RESET]]),
    "MID from a fresh step": ([MID], "step close", [[contract.STEP_WITHOUT_RESET]]),
    "raising from a fresh step": ([BOOM], "step", [[contract.FRESH_STEP_RAISED]]),
    "raising from a step after LAST": (
        [FIRST, LAST, BOOM],
        "reset step step",
        [[], [contract.ALREADY_LAST_RAISED]],
    ),
    "raising from reset is no breach": ([BOOM], "reset", [[]]),
    "raising in the middle is no breach": ([FIRST, BOOM], "reset step", [[]]),
    "raising after an error is no breach": ([FIRST, BOOM, BOOM], "reset step step", [[], []]),
    "raising after close is no breach": ([FIRST, BOOM], "reset close step", [[], []]),
    "cancelling a fresh step is no breach": ([HANG], "step!", [[]]),
    "FIRST with a reward": (
        [dm_env.TimeStep(dm_env.StepType.FIRST, 0.0, None, 1), LAST],
        "reset step",
        [[contract.FIRST_HAS_REWARD]],
    ),
    "FIRST with a discount": (
        [dm_env.TimeStep(dm_env.StepType.FIRST, None, 1.0, 1), LAST],
        "reset step",
        [[contract.FIRST_HAS_DISCOUNT]],
    ),
    "MID without reward or discount": (
        [FIRST, dm_env.TimeStep(dm_env.StepType.MID, None, None, 1), LAST],
        "reset step step",
        [[contract.MISSING_REWARD, contract.MISSING_DISCOUNT]],
    ),
    "no observation": (
        [FIRST, dm_env.termination(1.0, None)],
        "reset step",
        [[contract.MISSING_OBSERVATION]],
    ),
    "a discount beyond 1": (
        [FIRST, dm_env.TimeStep(dm_env.StepType.LAST, 1.0, 1.5, 1)],
        "reset step",
        [[contract.DISCOUNT_OUT_OF_RANGE]],
    ),
    "a discount that is no number": (
        [FIRST, dm_env.TimeStep(dm_env.StepType.LAST, 1.0, "low", 1)],
        "reset step",
        [[contract.DISCOUNT_OUT_OF_RANGE]],
    ),
    "an unknown step type counts as MID": (
        [FIRST, dm_env.TimeStep("DONE", 1.0, 1.0, 1), LAST],
        "reset step step",
        [[f"{contract.UNKNOWN_STEP_TYPE}; got 'DONE'"]],
    ),
}


@each(("script", "calls", "expected"), NOTES.values())
async def test_broken_rules_are_noted(recording, script, calls, expected):
    await recording.begin_anew()
    env = recording.env(ScriptedEnvironment(script))
    await play(env, script, calls.split())
    episodes = await recording.episodes()
    assert [list(episode.end.violations) for episode in episodes] == expected


async def test_a_headless_episode_is_linked_to_the_one_before(recording):
    env = recording.env(ScriptedEnvironment([FIRST, BOOM, MID, LAST]))
    await play(env, [FIRST, BOOM, MID, LAST], ["reset", "step", "step", "step"])
    failed, rest = await recording.episodes()
    assert failed.info.parent_episode_id == ""
    assert rest.info.parent_episode_id == failed.episode_id


async def test_a_reset_episode_is_linked_to_none(recording):
    script = [FIRST, BOOM, MID, FIRST]
    env = recording.env(ScriptedEnvironment(script))
    await play(env, script, ["reset", "step", "reset", "reset", "close"])
    assert [e.info.parent_episode_id for e in await recording.episodes()] == [""] * 3


async def test_an_error_is_recorded_with_its_traceback(recording):
    cause = ValueError("deep down")
    error = RuntimeError("no page")
    error.__cause__ = cause
    env = recording.env(ScriptedEnvironment([FIRST, error]))
    await env.reset()
    with pytest.raises(RuntimeError) as caught:
        await env.step(0)
    assert caught.value is error
    recorded = (await recording.only()).end.error
    assert (recorded.type, recorded.message) == ("RuntimeError", "no page")
    assert "deep down" in recorded.traceback
    assert "RuntimeError: no page" in recorded.traceback


class _UnspeakableError(Exception):
    def __str__(self):
        raise ValueError("no words")


async def test_an_error_without_words_is_recorded_all_the_same(recording):
    env = recording.env(ScriptedEnvironment([_UnspeakableError()]))
    with pytest.raises(_UnspeakableError):
        await env.reset()
    recorded = (await recording.only()).end.error
    assert recorded.type.endswith("_UnspeakableError")
    assert recorded.message == "<str failed: ValueError>"


@each(
    ("error", "reason"),
    [
        (KeyboardInterrupt(), "cancelled"),
        (GeneratorExit(), "cancelled"),
        (SystemExit(3), "errored"),
    ],
)
async def test_base_exceptions_are_recorded_and_raised_on(recording, error, reason):
    await recording.begin_anew()
    # Driven by hand: asyncio lets KeyboardInterrupt and SystemExit end the whole loop.
    env = recording.env(_Raises(error))
    await env.reset()
    step = env.step("a1")
    with pytest.raises(type(error)) as caught:
        step.send(None)
    assert caught.value is error
    assert await recording.lines() == [f"first: {reason} in step, a1 in flight"]


class _Raises:
    def __init__(self, error):
        self._error = error

    async def reset(self):
        return FIRST

    async def step(self, action):
        raise self._error

    async def close(self):
        pass


class _CleansUp(_Raises):
    """Its step takes its time to be cancelled."""

    def __init__(self):
        self.cleaned = False

    async def step(self, action):
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.get_running_loop().create_future()
            self.cleaned = True


async def test_a_step_that_is_cancelled_twice_in_a_row_ends_once(recording):
    env = recording.env(_CleansUp())
    await env.reset()
    await cancelled(env.step("a1"), times=2)
    assert await recording.lines() == ["first: cancelled in step, a1 in flight"]


async def test_a_cancelled_step_leaves_the_environment_free_for_the_next_call(recording):
    env = recording.env(ScriptedEnvironment([FIRST, HANG, FIRST]))
    await env.reset()
    await cancelled(env.step("a1"))
    assert await env.reset() is FIRST


async def test_two_tasks_at_once_are_refused_and_the_first_goes_on(recording):
    release = asyncio.Event()

    class Slow(_Raises):
        async def step(self, action):
            await release.wait()
            return LAST

    env = recording.env(Slow(None))
    await env.reset()
    task = asyncio.ensure_future(env.step("a1"))
    await asyncio.sleep(0)
    for call in (env.step("a2"), env.reset()):
        with pytest.raises(errors.ConcurrentCallError, match="before step returned"):
            await call
    release.set()
    assert await task is LAST
    assert await recording.lines() == ["first last(a1): terminated in step"]


@each("how", ["close", "mark", "exit"])
async def test_a_step_that_returns_after_its_episode_was_ended_belongs_to_none(recording, how):
    await recording.begin_anew()
    release = asyncio.Event()

    class Slow(_Raises):
        async def step(self, action):
            await release.wait()
            return MID

    env = recording.env(Slow(None))
    await env.reset()
    task = asyncio.ensure_future(env.step("a1"))
    await asyncio.sleep(0)
    await end(env, how)
    release.set()
    assert await task is MID
    reason = {"close": "closed in close", "mark": "truncated in step", "exit": "closed in exit"}
    assert await recording.lines() == [f"first: {reason[how]}, a1 in flight"]


async def test_mark_truncated_keeps_its_reason(recording):
    env = recording.env(ScriptedEnvironment([FIRST]))
    await env.reset()
    env.mark_truncated("60 s")
    episode = await recording.only()
    assert episode.truncated
    assert episode.end.detail == "60 s"


@pytest.mark.parametrize("script", [[], [FIRST, LAST]], ids=["fresh", "after LAST"])
async def test_mark_truncated_without_an_open_episode_is_misuse(recording, script):
    env = recording.env(ScriptedEnvironment(script))
    await play(env, script, ["reset", "step"][: len(script)])
    with pytest.raises(errors.EnvironmentMisuseError, match="no episode is open"):
        env.mark_truncated("60 s")


async def test_a_close_that_raises_comes_after_the_record(recording):
    error = OSError("no such window")
    env = recording.env(ScriptedEnvironment([FIRST], close_error=error))
    await env.reset()
    with pytest.raises(OSError, match="no such window") as caught:
        await env.close()
    assert caught.value is error
    assert await recording.lines() == ["first: closed in close"]


async def test_async_with_records_the_body_s_own_exception(recording):
    error = ValueError("agent's")

    async def body():
        async with recording.env(ScriptedEnvironment([FIRST])) as env:
            await env.reset()
            raise error

    with pytest.raises(ValueError, match="agent's") as caught:
        await body()
    assert caught.value is error
    episode = await recording.only()
    assert episode.end.error.message == "agent's"


async def test_what_is_no_timestep_is_an_error_of_the_environment(recording):
    env = recording.env(ScriptedEnvironment([FIRST, ("seen", 1.0, True, False, {})]))
    await env.reset()
    with pytest.raises(errors.EnvironmentMisuseError, match=r"type tuple.*from_gymnasium"):
        await env.step("a1")
    assert await recording.lines() == ["first: errored in step, a1 in flight"]
