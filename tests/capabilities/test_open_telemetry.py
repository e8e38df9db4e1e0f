from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.schemas import Schemas
from otlp_receiver import Receiver, attributes_of, receiving

from hookline import AgentBuilder, HookOutcome, RunStatus, SQLiteJournal, tool
from hookline.capabilities import OpenTelemetry, Redaction, Subagent, Subagents
from hookline.capabilities.open_telemetry import conventions
from hookline.drivers import InferenceRequest, InferenceResponse, Turn
from hookline.errors import BuildError, ModelError, RunHandedOverError
from hookline.playback import backtest, replay
from hookline.state import Usage
from hookline.testing import ScriptedDriver, call, calls, say

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


class Traced:
    """A receiver, and a capability that sends to it at once."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.tracers = TracerProvider(shutdown_on_exit=False)
        exporter = OTLPSpanExporter(f"{receiver.url}/v1/traces")
        self.tracers.add_span_processor(SimpleSpanProcessor(exporter))
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(f"{receiver.url}/v1/metrics"), export_interval_millis=float("inf")
        )
        self.meters = MeterProvider([reader], shutdown_on_exit=False)

    def capability(self, **options: Any) -> OpenTelemetry:
        """A new one."""
        return OpenTelemetry(tracer_provider=self.tracers, meter_provider=self.meters, **options)

    def points(self, name: str) -> list[tuple[Any, dict[str, Any]]]:
        """The points of a metric by now."""
        self.meters.force_flush()
        return self.receiver.points(name)


@pytest.fixture
def traced() -> Iterator[Traced]:
    """A receiver on the loopback interface."""
    with receiving() as receiver:
        made = Traced(receiver)
        yield made
        made.tracers.shutdown()
        made.meters.shutdown()


@tool
async def look(what: str) -> str:
    """Look."""
    with trace.get_tracer("user", tracer_provider=_provider[-1]).start_as_current_span("inside"):
        return f"seen {what}"


@tool
def think(what: str) -> str:
    """Think, in a thread."""
    with trace.get_tracer("user", tracer_provider=_provider[-1]).start_as_current_span("thread"):
        return what


@tool
def fail(what: str) -> str:
    """Fail."""
    raise ValueError(f"no {what}")


_provider: list[TracerProvider] = []


def below(receiver: Receiver, span: Any) -> list[str]:
    """The names of the spans directly below one."""
    return [each.name for each in receiver.spans if each.parent_span_id == span.span_id]


def test_a_run_is_a_tree_of_spans(traced: Traced) -> None:
    """Run, step, model, tools and hooks; what the tools trace is below them; blocked and failed calls are seen."""
    _provider.append(traced.tracers)
    turns = [
        calls(
            call("look", what="here"),
            call("think", what="well"),
            call("fail", what="money"),
            call("look", what="secrets"),
        ),
        say("done"),
    ]

    def guard(ctx: Any) -> HookOutcome | None:
        blocked = ctx.tool_call.args["what"] == "secrets"
        return HookOutcome.block("not these") if blocked else None

    agent = (
        AgentBuilder()
        .with_id("scout")
        .with_version("7")
        .with_driver(ScriptedDriver(turns))
        .with_tools(look, think, fail)
        .with_capability(traced.capability())
        .on_before_tool_use(guard, name="guard", tier="policy")
        .build()
    )
    result = agent.run_sync("Go.")
    assert result.status is RunStatus.COMPLETED
    receiver = traced.receiver
    spans = receiver.spans
    run = receiver.named("invoke_agent scout")
    assert {each.trace_id for each in spans} == {run.trace_id}
    assert not run.parent_span_id
    about = attributes_of(run)
    assert about["hookline.run.id"] == result.state.run_id
    assert (about["gen_ai.agent.version"], about["hookline.run.status"]) == ("7", "completed")
    first, second = [each for each in spans if each.name == "step"]
    assert [attributes_of(each)["hookline.step"] for each in (first, second)] == [0, 1]
    assert {each.parent_span_id for each in (first, second)} == {run.span_id}
    tools = [each for each in spans if each.name.startswith("execute_tool")]
    assert {each.parent_span_id for each in tools} == {first.span_id}
    by_status = {attributes_of(each)["hookline.tool.status"]: each for each in tools}
    assert sorted(by_status) == ["blocked", "error", "ok"]
    failed, blocked = by_status["error"], by_status["blocked"]
    assert (failed.status.code, attributes_of(failed)["error.type"]) == (2, "ValueError")
    assert (blocked.status.code, attributes_of(blocked)["hookline.decided_by"]) == (0, "guard")
    (inside, in_thread) = receiver.named("inside"), receiver.named("thread")
    assert below(receiver, next(each for each in tools if each.span_id == inside.parent_span_id))
    assert in_thread.parent_span_id == receiver.named("execute_tool think").span_id
    for step in (first, second):
        assert below(receiver, step).count("chat scripted") == 1
    hooks = [each for each in spans if each.name == "hook guard"]
    verdicts = [attributes_of(each)["hookline.hook.verdict"] for each in hooks]
    assert sorted(verdicts) == ["block", "proceed", "proceed", "proceed"]
    for span in spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano <= run.end_time_unix_nano
        assert span.start_time_unix_nano >= run.start_time_unix_nano
    scope = receiver.traces[0].resource_spans[0].scope_spans[0]
    assert scope.schema_url == Schemas.V1_41_1.value
    assert [point.as_int for point, _ in traced.points("hookline.runs")] == [1]
    ((_, about),) = traced.points("hookline.blocked_calls")
    assert about == {
        "gen_ai.tool.name": "look",
        "hookline.tool.status": "blocked",
        "hookline.decided_by": "guard",
    }


class Models:
    """Asks no model; fails once."""

    model = "google:gemini-9"

    def __init__(self) -> None:
        self.failures = 1

    async def infer(self, request: InferenceRequest, turn: Turn) -> InferenceResponse:
        """Answer, or fail."""
        assert not turn.is_streamed  # somebody listens, but nobody to pieces
        if self.failures:
            self.failures -= 1
            raise ModelError("too busy")
        usage = Usage(input_tokens=70, output_tokens=5, requests=1, cost=0.5, cache_read_tokens=60)
        return InferenceResponse("done", (), usage, "google:gemini-9-001")


def test_models_are_measured(traced: Traced) -> None:
    """Each attempt is a span, and tokens and durations are in the histograms of the conventions."""
    agent = (
        AgentBuilder()
        .with_driver(Models())
        .with_capability(traced.capability())
        .on_before_inference(
            lambda ctx: ctx.with_request(ctx.request.with_options(temperature=0.5))
        )
        .build()
    )
    assert [agent.run_sync("Go.").status for _ in range(2)] == ["failed", "completed"]
    chats = [each for each in traced.receiver.spans if each.name == "chat gemini-9"]
    assert [each.status.code for each in chats] == [2, 0]
    assert {each.kind for each in chats} == {3}
    about = attributes_of(chats[-1])
    assert about == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": "gemini-9",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.model": "gemini-9-001",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 70,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 60,
    }
    tokens = {
        about["gen_ai.token.type"]: point.sum
        for point, about in traced.points(conventions.TOKEN_USAGE)
    }
    assert tokens == {"input": 70, "output": 5}
    durations = {
        (about["gen_ai.operation.name"], about.get("error.type", "")): point.count
        for point, about in traced.points(conventions.OPERATION_DURATION)
    }
    assert durations[("chat", "")] == 1
    assert durations[("chat", "hookline.errors.ModelError")] == 1
    runs = [each for each in traced.receiver.spans if each.name == "invoke_agent"]
    assert [each.status.code for each in runs] == [2, 0]
    assert attributes_of(runs[0])["error.type"] == "hookline.errors.ModelError"
    (event,) = next(each for each in traced.receiver.spans if each.name == "step").events
    assert attributes_of(event)["hookline.error.action"] == "stop"


def test_children_are_below_the_call_that_started_them(traced: Traced) -> None:
    """Two at once, each below its own call, and each only once although both agents have the capability."""
    child = (
        AgentBuilder()
        .with_id("child")
        .with_driver(ScriptedDriver([say("found")] * 2))
        .with_capability(traced.capability())
        .build()
    )
    turns = [
        calls(
            call("spawn_subagent", agent="seeker", prompt="one"),
            call("spawn_subagent", agent="seeker", prompt="two"),
        ),
        say("done"),
    ]
    agent = (
        AgentBuilder()
        .with_id("parent")
        .with_driver(ScriptedDriver(turns))
        .with_capability(Subagents(Subagent("seeker", "Seeks.", agent=child)))
        .with_capability(traced.capability())
        .build()
    )
    assert agent.run_sync("Go.").status is RunStatus.COMPLETED
    spans = traced.receiver.spans
    tools = [each for each in spans if each.name == "execute_tool spawn_subagent"]
    children = [each for each in spans if each.name == "invoke_agent child"]
    assert len(tools) == len(children) == 2
    assert {each.span_id for each in tools} == {each.parent_span_id for each in children}
    assert {each.trace_id for each in spans} == {tools[0].trace_id}
    # Side by side: each began before the other ended.
    assert tools[1].start_time_unix_nano < tools[0].end_time_unix_nano


def test_what_hooks_have_done_is_below_the_step(traced: Traced) -> None:
    """A question to a model, and a child that no call has started."""
    child = AgentBuilder().with_id("critic").with_driver(ScriptedDriver([say("good")])).build()

    async def consult(ctx: Any) -> Any:
        await ctx.run.ask_model(
            InferenceRequest(), name="judge", driver=ScriptedDriver([say("yes")])
        )
        ctx, _ = await ctx.run.spawn(ctx, child, "Well?", name="critic")
        return ctx

    agent = (
        AgentBuilder()
        .with_id("author")
        .with_driver(ScriptedDriver([say("done")]))
        .with_capability(traced.capability())
        .on_after_step(consult, name="consult")
        .build()
    )
    assert agent.run_sync("Go.").status is RunStatus.COMPLETED
    receiver = traced.receiver
    run = receiver.named("invoke_agent author")
    (step,) = [each for each in receiver.spans if each.parent_span_id == run.span_id]
    inside = below(receiver, step)
    assert {"invoke_agent critic", "hook consult"} <= set(inside)
    assert inside.count("chat scripted") == 2
    asked = [attributes_of(each).get("hookline.hook.name") for each in receiver.spans]
    assert "judge" in asked


def test_metrics_are_sent_without_traces(traced: Traced) -> None:
    """An application may want one of them."""
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([say("done")]))
        .with_capability(OpenTelemetry(meter_provider=traced.meters, content=True))
        .build()
    )
    result = agent.run_sync("Go.")
    assert "hookline.trace" not in result.state.metadata
    assert [point.as_int for point, _ in traced.points("hookline.runs")] == [1]
    assert not traced.receiver.spans


def test_a_run_is_below_the_span_of_its_caller(traced: Traced) -> None:
    """A service that traces its requests has the run in the same trace."""
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([say("done")]))
        .with_capability(traced.capability())
        .build()
    )

    with traced.tracers.get_tracer("service").start_as_current_span("request") as span:
        own = span.get_span_context()
        agent.run_sync("Go.")
    run = traced.receiver.named("invoke_agent")
    assert run.parent_span_id == own.span_id.to_bytes(8)


def test_a_resumed_run_is_linked_to_the_trace_before(traced: Traced, tmp_path: Path) -> None:
    """From its journal. Replay and back-test see no difference, and send nothing."""
    journal = SQLiteJournal(tmp_path / "runs.db")

    def build() -> Any:
        return (
            AgentBuilder()
            .with_id("asker")
            .with_driver(ScriptedDriver([call("look", what="here"), say("done")]))
            .with_tools(look)
            .with_journal(journal)
            .with_capability(traced.capability())
            .on_before_tool_use(lambda ctx: HookOutcome.ask("may I?"), name="ask")
            .build()
        )

    _provider.append(traced.tracers)
    paused = build().run_sync("Go.", run_id="r")
    assert paused.status is RunStatus.PAUSED
    again = build()
    again.definition.driver.turns = again.definition.driver.turns[1:]
    result = again.resume_sync("r", {paused.pending[0].id: True})
    assert result.text == "done"
    first, second = [each for each in traced.receiver.spans if each.name == "invoke_agent asker"]
    assert [attributes_of(each)["hookline.run.status"] for each in (first, second)] == [
        "paused",
        "completed",
    ]
    assert not first.links
    (link,) = second.links
    assert (link.trace_id, link.span_id) == (first.trace_id, first.span_id)
    assert first.trace_id != second.trace_id
    events = [event.name for each in traced.receiver.spans for event in each.events]
    assert "hookline.approval_asked" in events
    sent = len(traced.receiver.spans)
    replayed = asyncio.run(replay(journal, "r", again))
    assert replayed.identical, replayed
    assert not asyncio.run(backtest(journal, build())).changes
    assert len(traced.receiver.spans) == sent
    journal.close_sync()


def test_content_is_sent_only_if_it_is_asked_for(traced: Traced) -> None:
    """Without `content` no word of anybody, and with it redacted, also what the agent itself does not redact."""

    def run(*capabilities: Any) -> str:
        @tool
        def login(user: str, password: str) -> str:
            """Log in."""
            raise ValueError(f"wrong password {password} of Alice")

        both = calls(
            call("login", user="alice", password="hunter22"), call("burglar", what="hunter22")
        )
        turns = [both, say(f"It is {TOKEN}, Alice.")]
        builder = (
            AgentBuilder()
            .with_system_prompt("You serve Alice.")
            .with_driver(ScriptedDriver(turns))
            .with_tools(login)
            .on_before_tool_use(lambda ctx: ctx.allow_continue("Alice wants it"))
        )
        for each in capabilities:
            builder.with_capability(each)
        before = len(traced.receiver.traces)
        builder.build().run_sync(f"I am Alice. My token is {TOKEN}.")
        return "\n".join(map(str, traced.receiver.traces[before:]))

    silent = run(traced.capability())
    assert "execute_tool login" in silent
    for word in ("Alice", "alice", "hunter22", "burglar", TOKEN, "wrong password"):
        assert word not in silent, word
    told = run(traced.capability(content=True))
    for word in ("I am Alice", "You serve Alice", "alice", "[redacted:github-token]", "It is"):
        assert word in told, word
    for word in ("hunter22", TOKEN):
        assert word not in told, word
    told = run(Redaction(values=["Alice"]), traced.capability(content=True))
    assert "You serve" in told
    assert "Alice" not in told


def test_what_hooks_withhold_is_in_no_trace(traced: Traced) -> None:
    """An answer that a hook discards or replaces, and a result that is withheld."""
    turns = [call("look", what="here"), say("the code is 1234"), say("the code is 5678"), say("ok")]
    _provider.append(traced.tracers)

    def discard(ctx: Any) -> HookOutcome | None:
        return HookOutcome.block("no codes") if "1234" in ctx.response.text else None

    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver(turns))
        .with_tools(look)
        .with_capability(traced.capability(content=True))
        .on_after_inference(discard)
        .on_after_tool_use(lambda ctx: HookOutcome.block("not for you"))
        .on_output(lambda ctx: "withheld")
        .build()
    )
    assert agent.run_sync("Go.").text == "withheld"
    said = traced.receiver.text()
    assert "no codes" in said
    for word in ("1234", "5678", "seen here"):
        assert word not in said, word


def test_stops_and_limits_are_seen(traced: Traced) -> None:
    """Why a run stopped and who decided it, in spans and in the count of runs."""
    agent = (
        AgentBuilder()
        .with_id("runner")
        .with_driver(ScriptedDriver([call("look", what="here")] * 9))
        .with_tools(look)
        .with_limits(steps=2)
        .with_capability(traced.capability())
        .on_before_step(
            lambda ctx: HookOutcome.stop("enough") if ctx.state.session_id == "s" else None,
            name="patience",
        )
        .build()
    )
    _provider.append(traced.tracers)
    agent.run_sync("Go.")
    agent.run_sync("Go.", session="s")
    runs = [each for each in traced.receiver.spans if each.name == "invoke_agent runner"]
    about = [attributes_of(each) for each in runs]
    assert [each["hookline.run.stop_reason"] for each in about] == ["step_limit", "stopped_by_hook"]
    assert [each["hookline.decided_by"] for each in about] == ["limits", "patience"]
    assert about[1]["gen_ai.conversation.id"] == "s"
    counted = {each["hookline.run.stop_reason"] for _, each in traced.points("hookline.runs")}
    assert counted == {"step_limit", "stopped_by_hook"}


async def test_a_run_that_is_handed_over_ends_here(traced: Traced, tmp_path: Path) -> None:
    """Its spans in this process are sent, and the next one is linked to them."""
    _provider.append(traced.tracers)
    async with SQLiteJournal(tmp_path / "runs.db") as journal:
        agent = (
            AgentBuilder()
            .with_id("mover")
            .with_driver(ScriptedDriver([call("look", what="here"), say("done")]))
            .with_tools(look)
            .with_journal(journal)
            .with_capability(traced.capability())
            .on_after_tool_use(lambda ctx: agent.hand_over() and None)
            .build()
        )
        with pytest.raises(RunHandedOverError):
            await agent.run("Go.", run_id="r")
        first = traced.receiver.named("invoke_agent mover")
        assert attributes_of(first)["hookline.run.status"] == "handed_over"
        assert (await agent.resume("r")).text == "done"
    _, second = [each for each in traced.receiver.spans if each.name == "invoke_agent mover"]
    assert second.links[0].span_id == first.span_id


def test_without_an_exporter_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No hook and no listener, and the agent says so."""
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    plain = AgentBuilder().with_driver(ScriptedDriver([])).build()
    agent = (
        AgentBuilder()
        .with_driver(ScriptedDriver([]))
        .with_capability(OpenTelemetry(content=True))
        .build()
    )
    assert len(agent.definition.registrations) == len(plain.definition.registrations)
    assert not agent.definition.listeners
    assert "nothing is traced" in agent.explain()


def test_wrong_options_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with what to do instead."""
    with pytest.raises(BuildError, match="not a provider"):
        OpenTelemetry(tracer_provider="http://localhost")
    with pytest.raises(BuildError, match="not True or False"):
        OpenTelemetry(content="yes")  # type: ignore[arg-type]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(BuildError, match="over http/protobuf, not as otlp over grpc"):
        OpenTelemetry()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    OpenTelemetry()


SCRIPT = """
from hookline import AgentBuilder
from hookline.capabilities import OpenTelemetry
from hookline.testing import ScriptedDriver, say
driver = ScriptedDriver([say("done")])
agent = AgentBuilder().with_id("plain").with_driver(driver).with_capability(OpenTelemetry()).build()
agent.run_sync("Go.")
"""


@pytest.mark.parametrize("way", ["python", "command"])
def test_the_variables_of_the_environment_are_enough(way: str, tmp_path: Path) -> None:
    """Both kinds arrive before the process has ended; with a receiver that is gone the run is as ever."""
    program = [sys.executable, "-c", SCRIPT]
    if way == "command":
        (tmp_path / "turns.json").write_text(json.dumps([{"say": "done"}]))
        (tmp_path / ".config/hookline").mkdir(parents=True)
        (tmp_path / ".config/hookline/config.toml").write_text(
            '[capabilities.open_telemetry]\n[capabilities.run_log]\npath = "runs.jsonl"\n'
        )
        program = [
            *(sys.executable, "-m", "hookline", "run", "--model", f"script:{tmp_path}/turns.json"),
            *("--no-save", "Go."),
        ]
    environment = {**os.environ, "OTEL_SERVICE_NAME": "shop", "HOME": str(tmp_path)}

    def run(url: str) -> None:
        environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = url
        done = subprocess.run(
            program,
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    with receiving() as receiver:
        run(receiver.url)
        (span,) = [each for each in receiver.spans if each.name.startswith("invoke_agent")]
        assert attributes_of(span)["hookline.run.status"] == "completed"
        assert receiver.points("hookline.runs")
        service = attributes_of(receiver.traces[0].resource_spans[0].resource)
        assert service["service.name"] == "shop"
    if way == "command":
        run(receiver.url)  # nobody is there any more
        lines = (tmp_path / "runs.jsonl").read_text().splitlines()
        ended = [each for each in map(json.loads, lines) if each["event"] == "result"]
        assert [each["status"] for each in ended] == ["completed"] * 2


def test_providers_of_the_application_come_first() -> None:
    """Those that it has set for the process, whatever the environment says."""
    program = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
"""
    program += SCRIPT + "print([each.name for each in spans.get_finished_spans()])"
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "['chat scripted', 'step', 'invoke_agent plain']\n"
    assert not done.stderr


def test_the_names_are_those_of_the_conventions() -> None:
    """Every name of ours is in the package, and so is the version."""
    known = {
        value
        for module in (gen_ai_attributes, gen_ai_metrics)
        for name, value in vars(module).items()
        if name.isupper()
    }
    ours = [each for each in vars(conventions).values() if str(each).startswith("gen_ai.")]
    ours += [f"gen_ai.request.{option}" for option in conventions.OPTIONS]
    assert set(ours) <= known
    assert Schemas.V1_41_1.value == conventions.SCHEMA_URL
