"""OpenTelemetry traces, read by the official protobuf classes and by a receiver."""

import base64
import dataclasses
import json
import warnings

from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes
from typer.testing import CliRunner

from export_episodes import picture
from otlp_receiver import receiving, values
from webtraj.cli.app import make_app
from webtraj.trajectory import (
    EndReason,
    EpisodeEnd,
    ErrorInfo,
    Judgement,
    Outcome,
)

CONVENTIONS = {
    value
    for module in (gen_ai_attributes, error_attributes)
    for name, value in vars(module).items()
    if name.isupper() and isinstance(value, str)
}


def read(out):
    """Reads a file of OTLP JSON as a receiver does; returns the traces by conversation."""
    traces = {}
    for line in (out / "traces.jsonl").read_text().splitlines():
        data = json.loads(line)
        for resource in data["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    for key in ("traceId", "spanId", "parentSpanId"):
                        if key in span:
                            span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
        (resource,) = json_format.ParseDict(data, TracesData()).resource_spans
        (scope,) = resource.scope_spans
        traces[values(scope.spans[-1].attributes)["gen_ai.conversation.id"]] = list(scope.spans)
    return traces


def tree(spans):
    """Returns the names of spans as nested lists."""

    def below(parent):
        return [
            [span.name, *below(span.span_id)] for span in spans if span.parent_span_id == parent
        ]

    return below(b"")  # fmt: skip


def test_an_episode_is_a_trace_of_its_steps_calls_and_actions(shop, export):
    out, report = export(shop, "otel")
    assert report.notes == ()
    traces = read(out)
    assert traces.keys() == set(shop.episode_ids)
    ((name, *steps),) = tree(traces[shop.episode_ids[0]])
    assert name == "invoke_agent tester"
    assert steps == [
        ["reset"],
        ["step", ["execute_tool click"]],
        ["step", ["chat tiny"], ["chat tiny"], ["execute_tool fill"]],
        ["step", ["chat tiny"], ["execute_tool click"]],
        ["step", ["chat tiny"], ["execute_tool answer"]],
    ]


def test_attributes_have_the_names_and_values_of_the_conventions(shop, export):
    out, _ = export(shop, "otel", options={"content": "true"})
    spans = read(out)[shop.episode_ids[0]]
    used = {item.key for span in spans for item in span.attributes}
    used |= {item.key for span in spans for event in span.events for item in event.attributes}
    assert {key for key in used if not key.startswith("webtraj.")} <= CONVENTIONS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The package says that the conventions have moved.
        operations = {item.value for item in gen_ai_attributes.GenAiOperationNameValues}
    done = [values(s.attributes).get("gen_ai.operation.name", "chat") for s in spans]
    assert set(done) <= operations

    root, call = spans[-1], next(s for s in spans if s.name == "chat tiny" and not s.status.code)
    assert (root.kind, call.kind) == (Span.SPAN_KIND_INTERNAL, Span.SPAN_KIND_CLIENT)
    told = values(root.attributes)
    assert told["gen_ai.agent.name"] == "tester"
    assert told["gen_ai.agent.version"] == "1.2"
    assert told["gen_ai.provider.name"] == "vllm"
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (11, 6)
    assert (told["webtraj.outcome"], told["webtraj.end_reason"]) == ("success", "terminated")
    assert told["webtraj.reward"] == shop[0].total_reward
    assert (
        values(call.attributes).items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "vllm",
            "gen_ai.request.model": "tiny",
            "gen_ai.conversation.id": shop.episode_ids[0],
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.request.temperature": 0.5,
            "webtraj.policy_version": "7",
        }.items()
    )


def test_spans_have_the_recorded_times(shop, export):
    out, _ = export(shop, "otel")
    episode, spans = shop[0], read(out)[shop.episode_ids[0]]
    steps = [span for span in spans if span.name in ("reset", "step")]
    actions = [span for span in spans if span.name.startswith("execute_tool")]

    def close(nanoseconds, seconds):
        return abs(nanoseconds / 1e9 - seconds) < 1e-6

    assert close(spans[-1].start_time_unix_nano, episode.start_time)
    assert close(spans[-1].end_time_unix_nano, episode.end_time)
    for span, record in zip(steps, episode.steps, strict=True):
        assert close(span.end_time_unix_nano, record.end_time)
    for span, record in zip(actions, episode.steps[1:], strict=True):
        assert close(span.start_time_unix_nano, record.start_time)
        assert close(span.end_time_unix_nano, record.end_time)
    assert all(s.start_time_unix_nano <= s.end_time_unix_nano for s in spans)


def test_what_was_said_is_written_only_if_asked_for(shop, export):
    out, _ = export(shop, "otel", name="silent")
    text = (out / "traces.jsonl").read_text()
    for said in ("Buy tea", "You act in a browser", "I click", "shop.example/1", "thought"):
        assert said not in text
    out, _ = export(shop, "otel", name="telling", options={"content": "true"})
    spans = read(out)[shop.episode_ids[0]]
    goal = json.loads(values(spans[-1].attributes)["gen_ai.input.messages"])
    assert goal == [{"role": "user", "parts": [{"type": "text", "content": "Buy tea"}]}]
    call = values(next(s for s in spans if s.name == "chat tiny" and not s.status.code).attributes)
    system, user = json.loads(call["gen_ai.input.messages"])
    assert system["parts"] == [{"type": "text", "content": "You act in a browser."}]
    (shown,) = user["parts"]
    assert (shown["type"], shown["mime_type"]) == ("uri", "image/png")
    assert base64.b64encode(picture(2)[:30]).decode() not in (out / "traces.jsonl").read_text()
    (reply,) = json.loads(call["gen_ai.output.messages"])
    assert reply["parts"] == [{"type": "text", "content": "I click 2"}]
    fill = values(next(s for s in spans if s.name == "execute_tool fill").attributes)
    assert json.loads(fill["gen_ai.tool.call.arguments"])["value"] == "tea\n'\"ü"


def test_failures_are_errors_of_their_spans_and_no_reward(shop, export):
    def broken(episode):
        first, step, *_ = episode.steps
        refused = {
            **step.observation,
            "last_action": {"error": "no [9] here", "error_kind": "gone"},
        }
        end = EpisodeEnd(
            reason=EndReason.ERRORED,
            outcome=Outcome.ENV_ERROR,
            error=ErrorInfo(type="TargetClosedError", message="The browser died."),
        )
        return dataclasses.replace(
            episode, steps=(first, dataclasses.replace(step, observation=refused)), end=end
        )

    out, _ = export(shop[:1], "otel", transform=broken)
    spans = {span.name: span for span in read(out)[shop.episode_ids[0]]}
    root, action = spans["invoke_agent tester"], spans["execute_tool click"]
    assert (root.status.code, root.status.message) == (2, "The browser died.")
    assert values(root.attributes)["error.type"] == "TargetClosedError"
    assert "webtraj.reward" not in values(root.attributes)
    assert (action.status.code, action.status.message) == (2, "")
    assert values(action.attributes)["error.type"] == "gone"


def test_verdicts_are_events(shop, export):
    verdict = Judgement(
        judge="rules", version="2", outcome=Outcome.SUCCESS, reward=0.5, reason="tea!", time=5.0
    )
    end = dataclasses.replace(shop[0].end, judgements=(verdict,))
    out, _ = export(shop[:1], "otel", transform=lambda e: dataclasses.replace(e, end=end))
    (event,) = read(out)[shop.episode_ids[0]][-1].events
    assert (event.name, event.time_unix_nano) == ("gen_ai.evaluation.result", 5_000_000_000)
    assert values(event.attributes) == {
        "gen_ai.evaluation.name": "rules",
        "gen_ai.evaluation.score.value": 0.5,
        "gen_ai.evaluation.score.label": "success",
        "webtraj.judge.version": "2",
    }


def test_the_command_sends_the_same_spans_to_a_receiver(shop, export, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20key")
    out, _ = export(shop, "otel")
    written = [span for spans in read(out).values() for span in spans]
    with receiving() as receiver:
        done = CliRunner().invoke(
            make_app(), ["otel", str(shop.path), "--endpoint", receiver.endpoint]
        )
        assert (done.exit_code, done.output) == (0, f"2 episodes sent, {len(written)} spans\n")
        assert receiver.spans == written
        assert receiver.headers[0]["authorization"] == "Bearer key"
        (resource,) = receiver.requests[0].resource_spans
        assert values(resource.resource.attributes)["service.name"] == "webtraj"
