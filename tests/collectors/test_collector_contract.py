"""What every collector promises."""

import asyncio
import dataclasses
import threading

import pytest

from rows import each
from webtraj import (
    Decision,
    JsonTrajectoryCollector,
    MemoryTrajectoryCollector,
    NullTrajectoryCollector,
    TeeTrajectoryCollector,
    errors,
    open_dataset,
)
from webtraj.collectors.base import EpisodeRecorder, TrajectoryCollector
from webtraj.collectors.local import ProtobufTrajectoryCollector
from webtraj.testing.faults import FailingCollector
from webtraj.trajectory import EndReason, EpisodeEnd, StepRecord

KINDS = ["null", "memory", "json", "protobuf", "tee"]
FILED = ["json", "protobuf"]


class Kind:
    """A kind of collector, and how to read what one has kept; None if it keeps nothing."""

    def __init__(self, name, path):
        self.keeps = name != "null"
        memory = MemoryTrajectoryCollector()
        make = {
            "null": NullTrajectoryCollector,
            "memory": lambda: memory,
            "json": lambda: JsonTrajectoryCollector(path, fsync="never"),
            "protobuf": lambda: ProtobufTrajectoryCollector(path, fsync="never"),
            "tee": lambda: TeeTrajectoryCollector(
                NullTrajectoryCollector(), memory, JsonTrajectoryCollector(path, fsync="never")
            ),
        }
        self.collector = make[name]()
        self._read = (lambda: memory.trajectories) if name == "memory" else None
        self._path = path

    def episodes(self):
        found = self._read() if self._read else open_dataset(self._path)
        return {episode.episode_id: episode for episode in found}


@pytest.fixture(params=KINDS)
async def kind(request, tmp_path):
    kind = Kind(request.param, tmp_path / "dataset")
    yield kind
    await kind.collector.aclose()


@pytest.fixture(params=KINDS[1:])
async def keeping(request, tmp_path):
    kind = Kind(request.param, tmp_path / "dataset")
    yield kind
    await kind.collector.aclose()


class TestEveryCollector:
    def test_it_follows_the_protocol(self, kind, records):
        assert isinstance(kind.collector, TrajectoryCollector)
        recorder = kind.collector.begin_episode(records.info())
        assert isinstance(recorder, EpisodeRecorder)
        recorder.end_episode(records.end)

    async def test_it_takes_a_whole_episode(self, kind, records):
        records.record(kind.collector)
        await kind.collector.drain()
        await kind.collector.flush()

    async def test_aclose_is_idempotent(self, kind):
        await kind.collector.aclose()
        await kind.collector.aclose()

    async def test_it_closes_with_async_with(self, kind, records):
        async with kind.collector as collector:
            assert collector is kind.collector
            records.record(collector)
        if kind.keeps:
            with pytest.raises(errors.CollectorClosedError):
                collector.begin_episode(records.info())


class TestACollectorThatKeeps:
    async def test_an_episode_is_kept_as_it_was_recorded(self, keeping, records):
        info = records.info(task="t", goal="g")
        decision = Decision(action="a1", thought="hm")
        first = records.step(0)
        last = dataclasses.replace(records.step(1, {"text": "x"}, last=True), decision=decision)
        recorder = keeping.collector.begin_episode(info)
        recorder.record_step(first)
        recorder.record_info(dataclasses.replace(info, goal="another"))
        recorder.record_intent("a1", decision=decision)
        recorder.record_step(last)
        recorder.end_episode(records.end)
        await keeping.collector.flush()
        (episode,) = keeping.episodes().values()
        assert episode.info == dataclasses.replace(info, goal="another")
        assert episode.steps == (first, last)
        assert episode.end == records.end
        # Wall clocks: one that is set back in between puts the end before the start.
        assert min(episode.start_time, episode.end_time) > 0

    async def test_an_episode_without_steps_is_kept(self, keeping, records):
        end = EpisodeEnd(reason=EndReason.ERRORED)
        keeping.collector.begin_episode(records.info()).end_episode(end)
        await keeping.collector.flush()
        (episode,) = keeping.episodes().values()
        assert (episode.steps, episode.end) == ((), end)

    async def test_hundreds_of_episodes_at_once_do_not_mix(self, keeping, records):
        collector = keeping.collector

        async def play(name):
            recorder = collector.begin_episode(records.info(name))
            for index in range(4):
                recorder.record_intent(f"{name} {index}")
                await asyncio.sleep(0)
                recorder.record_step(records.step(index, f"{name} {index}", last=index == 3))
                await collector.drain()
            recorder.end_episode(records.end)

        names = [f"e{number}" for number in range(200)]
        await asyncio.gather(*map(play, names))
        await collector.flush()
        episodes = keeping.episodes()
        assert sorted(episodes) == sorted(names)
        for name, episode in episodes.items():
            assert [s.observation for s in episode.steps] == [f"{name} {i}" for i in range(4)]

    async def test_threads_may_share_it(self, keeping, records):
        def work():
            for _ in range(10):
                records.record(keeping.collector)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        await keeping.collector.flush()
        assert len(keeping.episodes()) == 40

    @pytest.mark.parametrize("ended", [False, True], ids=["open", "ended"])
    async def test_an_id_is_taken_once(self, request, tmp_path, records, ended):
        for name in ("memory", *FILED):
            kind = Kind(name, tmp_path / name)
            recorder = kind.collector.begin_episode(records.info("once"))
            if ended:
                recorder.end_episode(records.end)
                await kind.collector.flush()
            with pytest.raises(errors.CollectorError):
                kind.collector.begin_episode(records.info("once"))
            await kind.collector.aclose()
            assert len(kind.episodes()) == 1

    @each(
        "episode_id", ["", ".", "..", "../x", "a/b", ".hidden", "a b", "é", "x" * 129, "a\n", None]
    )
    @each("name", ["memory", *FILED])
    async def test_an_id_that_cannot_name_a_file_is_refused(
        self, name, tmp_path, records, episode_id
    ):
        kind = Kind(name, tmp_path / "dataset")
        info = dataclasses.replace(records.info(), episode_id=episode_id)
        with pytest.raises(errors.InvalidEpisodeIdError, match="cannot name a file"):
            kind.collector.begin_episode(info)
        assert kind.collector.open_episodes == ()
        await kind.collector.aclose()
        assert kind.episodes() == {}

    @each("name", FILED)
    @each(
        ("cls", "fields", "message"),
        [
            (EpisodeEnd, {"error": ValueError("boom")}, r"end\.error is ValueError\('boom'\)"),
            (EpisodeEnd, {"reason": "terminated"}, "end.reason is 'terminated'; .* EndReason"),
            (EpisodeEnd, {"phase": "step"}, "end.phase is 'step'; .* Phase"),
            (StepRecord, {"decision": {"thought": "hm"}}, "step.decision is {.*Decision"),
            (StepRecord, {"step_type": "first"}, "step.step_type is 'first'; .* StepType"),
        ],
    )
    async def test_a_record_with_a_wrong_field_is_refused_and_the_episode_goes_on(
        self, name, cls, fields, message, tmp_path, records
    ):
        kind = Kind(name, tmp_path / "dataset")
        recorder = kind.collector.begin_episode(records.info("e"))
        recorder.record_step(records.step(0))
        is_end = cls is EpisodeEnd
        wrong = dataclasses.replace(records.end if is_end else records.step(1), **fields)
        with pytest.raises(errors.InvalidInputError, match=message):
            (recorder.end_episode if is_end else recorder.record_step)(wrong)
        with pytest.raises(errors.InvalidInputError, match=r"decision is 'go'; .* Decision"):
            recorder.record_intent("click", decision="go")
        recorder.record_step(records.step(1))
        recorder.end_episode(records.end)
        await kind.collector.aclose()
        episode = kind.episodes()["e"]
        assert (len(episode.steps), episode.end) == (2, records.end)

    @each("name", ["memory", *FILED])
    @each("call", ["info", "intent", "step", "end"])
    async def test_an_ended_episode_takes_nothing_more(self, name, call, tmp_path, records):
        kind = Kind(name, tmp_path / "dataset")
        recorder = kind.collector.begin_episode(records.info("ended"))
        recorder.record_step(records.step(0))
        recorder.end_episode(records.end)
        calls = {
            "info": lambda: recorder.record_info(records.info("ended", task="late")),
            "intent": lambda: recorder.record_intent("late"),
            "step": lambda: recorder.record_step(records.step(1)),
            "end": lambda: recorder.end_episode(EpisodeEnd(reason=EndReason.ERRORED)),
        }
        with pytest.raises(errors.CollectorClosedError, match="'ended' has ended"):
            calls[call]()
        await kind.collector.aclose()
        episode = kind.episodes()["ended"]
        assert (len(episode.steps), episode.end) == (1, records.end)

    async def test_closing_ends_open_episodes_as_closed(self, keeping, records):
        recorder = keeping.collector.begin_episode(records.info("open"))
        recorder.record_step(records.step(0))
        await keeping.collector.aclose()
        episode = keeping.episodes()["open"]
        assert episode.end_reason is EndReason.CLOSED
        assert len(episode.steps) == 1
        with pytest.raises(errors.CollectorClosedError):
            recorder.record_step(records.step(1))

    async def test_a_closed_collector_begins_nothing(self, keeping, records):
        await keeping.collector.aclose()
        with pytest.raises(errors.CollectorClosedError, match="closed"):
            keeping.collector.begin_episode(records.info())


class TestTee:
    @each("error", [errors.CollectorError, ZeroDivisionError])
    @each("method", ["begin_episode", "record_info", "record_intent", "record_step", "end_episode"])
    async def test_one_failing_collector_keeps_nothing_from_the_others(
        self, records, method, error
    ):
        sound = [MemoryTrajectoryCollector(), MemoryTrajectoryCollector()]
        failing = FailingCollector(
            MemoryTrajectoryCollector(), method, error=lambda: error("injected fault")
        )
        tee = TeeTrajectoryCollector(sound[0], failing, sound[1])
        recorder = tee.begin_episode(records.info("one"))
        failures = 0
        for call in (
            lambda: recorder.record_info(records.info("one", task="t")),
            lambda: recorder.record_intent("a"),
            lambda: recorder.record_step(records.step(0)),
            lambda: recorder.end_episode(records.end),
        ):
            try:
                call()
            except error:
                failures += 1
        assert failures == 1
        for collector in sound:
            (episode,) = collector.trajectories
            assert (len(episode.steps), episode.info.task) == (1, "t")

    @pytest.mark.parametrize("method", ["drain", "flush", "aclose"])
    async def test_every_collector_is_waited_for_and_every_failure_told(self, method):
        failing = [FailingCollector(NullTrajectoryCollector(), method) for _ in range(2)]
        last = FailingCollector(NullTrajectoryCollector(), method, on_call=99)
        tee = TeeTrajectoryCollector(*failing, last)
        with pytest.raises(errors.CollectorError, match="injected fault") as caught:
            await getattr(tee, method)()
        assert caught.value.__notes__ == ["And: injected fault"]
        assert last.calls == 1

    def test_an_episode_that_no_collector_can_begin_is_not_begun(self, records):
        failing = FailingCollector(NullTrajectoryCollector(), "begin_episode")
        with pytest.raises(errors.CollectorError, match="injected fault"):
            TeeTrajectoryCollector(failing).begin_episode(records.info())
