"""Traces of running episodes: the recorded ones, and never in the way."""

import asyncio
import socket

import dm_env
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import webtraj
from otlp_receiver import receiving, values
from webtraj import MemoryTrajectoryCollector, TeeTrajectoryCollector
from webtraj.environments.redacting_collector import RedactingCollector
from webtraj.redaction import RedactionRules
from webtraj.testing.fakes import ScriptedEnvironment
from webtraj.trajectory import Decision, EpisodeInfo, ModelCall
from webtraj_formats.spans import spans_maker
from webtraj_integrations.opentelemetry import OpenTelemetryCollector

INFO = EpisodeInfo(task="shop/tea", goal="Buy tea", policy="tester", seed=3)


async def play(collector, steps=2, info=INFO):
    """Plays an episode, with a model call for each step."""
    script = [dm_env.restart({"url": "a"})]
    script += [dm_env.transition(0.0, {"url": "b"}) for _ in range(steps - 1)]
    script.append(dm_env.termination(1.0, {"url": "c"}))
    async with webtraj.TrajectoryCollectingEnvironment(
        ScriptedEnvironment(script), collector, episode_info=info
    ) as env:
        timestep = await env.reset()
        while not timestep.last():
            call = ModelCall(model="tiny", provider="vllm", usage={"prompt_tokens": 3}, latency=0.0)
            timestep = await env.step(Decision(action="click('4')", model_calls=(call,)))


async def test_live_spans_are_those_of_the_recorded_episode():
    memory = MemoryTrajectoryCollector()
    with receiving() as receiver:
        async with TeeTrajectoryCollector(
            memory, OpenTelemetryCollector(receiver.endpoint)
        ) as collector:
            await play(collector)
            await play(collector, steps=1)
    spans_of = spans_maker(Resource({}), content=False)
    recorded = {s.context.span_id: s for e in memory.trajectories for s in spans_of(e)}
    live = {int.from_bytes(s.span_id): s for s in receiver.spans}
    assert live.keys() == recorded.keys()
    for span_id, span in live.items():
        assert span.name == recorded[span_id].name
        assert int.from_bytes(span.trace_id) == recorded[span_id].context.trace_id
        told = recorded[span_id].attributes
        assert values(span.attributes) == {
            key: list(value) if isinstance(value, tuple) else value for key, value in told.items()
        }
    roots = [span for span in receiver.spans if not span.parent_span_id]
    assert [values(span.attributes)["webtraj.reward"] for span in roots] == [1.0, 1.0]


async def test_steps_are_sent_before_the_episode_ends():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    collector = OpenTelemetryCollector(tracer_provider=provider)
    env = webtraj.TrajectoryCollectingEnvironment(
        ScriptedEnvironment([dm_env.restart({}), dm_env.transition(0.5, {})]), collector
    )
    await env.reset()
    await env.step(3)
    assert [s.name for s in exporter.get_finished_spans()] == ["reset", "execute_tool act", "step"]
    await env.close()
    root = exporter.get_finished_spans()[-1]
    assert (root.name, root.attributes["webtraj.end_reason"]) == ("invoke_agent", "closed")


async def test_an_episode_of_your_provider_belongs_to_the_current_span():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("mine").start_as_current_span("study") as study:
        async with OpenTelemetryCollector(tracer_provider=provider) as collector:
            await play(collector)
    root = next(s for s in exporter.get_finished_spans() if s.name == "invoke_agent tester")
    assert root.parent.span_id == study.get_span_context().span_id
    assert len({s.context.trace_id for s in exporter.get_finished_spans()}) == 1


async def test_a_receiver_that_is_down_or_hangs_does_not_stop_a_run(caplog):
    memory = MemoryTrajectoryCollector()
    with socket.create_server(("127.0.0.1", 0)) as hanging:  # Accepts, and says nothing.
        address = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        live = OpenTelemetryCollector(address, close_timeout=0.2)
        collector = TeeTrajectoryCollector(memory, live)
        for _ in range(3):
            await play(collector)
            await collector.seal()
        await asyncio.wait_for(collector.aclose(), 30)
    assert "did not answer within 0.2 s" in caplog.text
    assert [e.total_reward for e in memory.trajectories] == [1.0] * 3


async def test_what_cannot_be_a_span_is_logged_and_breaks_nothing(caplog):
    class Hostile:
        @property
        def model_calls(self):
            raise RuntimeError("not today")

        parse_error = ""

    memory = MemoryTrajectoryCollector()
    provider = TracerProvider()
    collector = OpenTelemetryCollector(tracer_provider=provider)
    recorder = TeeTrajectoryCollector(memory, collector).begin_episode(INFO)
    recorder.record_step(
        webtraj.StepRecord(1, dm_env.StepType.MID, {}, "click('4')", decision=Hostile())
    )
    assert "could not be made" in caplog.text


async def test_secrets_are_redacted_before_they_are_sent():
    with receiving() as receiver:
        live = OpenTelemetryCollector(receiver.endpoint, content=True)
        async with RedactingCollector(
            live, RedactionRules(), secrets={"password": "hunter-22-two"}
        ) as collector:
            recorder = collector.begin_episode(INFO)
            recorder.record_step(webtraj.StepRecord(0, dm_env.StepType.FIRST, {}))
            recorder.record_step(
                webtraj.StepRecord(
                    1, dm_env.StepType.MID, {"url": "a?hunter-22-two"}, "fill('4', 'hunter-22-two')"
                )
            )
            recorder.end_episode(webtraj.EpisodeEnd(reason=webtraj.EndReason.TERMINATED))
    sent = b"".join(request.SerializeToString() for request in receiver.requests)
    assert b"execute_tool fill" in sent
    assert b"hunter" not in sent
