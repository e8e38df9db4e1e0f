from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import hookline
from hookline import (
    AgentBuilder,
    AgentState,
    Decision,
    HookOutcome,
    SQLiteJournal,
    ToolContext,
    tool,
)
from hookline.capabilities import Files, Redaction
from hookline.errors import ModelError, ToolError
from hookline.journal import MemoryJournal, fold
from hookline.state import Attachment, InferenceResponse, Log, Reasoning, UserMessage
from hookline.testing import ScriptedDriver, call, calls, say

TOKEN = "ghp_abcdefghij0123456789abcdefghij012345"
KNOWN = "correct-horse-battery"
SECRETS = (TOKEN, KNOWN, "hunter2")


@tool
def leak(how: str) -> Any:
    """Give away everything."""
    if how == "text":
        return f"token {TOKEN}, known {KNOWN}, password=hunter2"
    if how == "value":
        return {"a": [TOKEN], "password": "hunter2", "b": {"c": KNOWN}}
    raise ToolError(f"failed with {TOKEN}", remedy=f"use {KNOWN}, password=hunter2")


def builder(*turns: Any) -> AgentBuilder:
    """An agent that leaks, and redacts."""
    return (
        AgentBuilder()
        .with_driver(ScriptedDriver([*turns, say(f"The token is {TOKEN}.")]))
        .with_tools(leak)
        .with_capability(Redaction(values=[KNOWN]))
    )


def in_file(path: Path) -> str:
    """Every byte of a journal, of its write-ahead log and of whatever else is beside it."""
    return "".join(
        each.read_bytes().decode("latin-1") for each in path.parent.iterdir() if each.is_file()
    )


def secrets_in(text: str) -> list[str]:
    """The secrets that a text has in it."""
    return [secret for secret in SECRETS if secret in text]


LEAKS = [
    call("leak", how="text"),
    calls(call("leak", how="value"), call("leak", how="error")),
    call("leak", how=TOKEN),
]


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What listeners get."""
    reports: list[str] = []
    yield reports
    assert secrets_in("".join(reports)) == []


def test_nothing_secret_is_kept(tmp_path: Path, heard: list[str]) -> None:
    """Prompt, results, errors, answers and calls: no secret is in the state, in the records, or in the file."""
    path = tmp_path / "runs.db"
    with SQLiteJournal(path) as journal:
        agent = (
            builder(*LEAKS).with_journal(journal).on_event(lambda record: heard.append(str(record)))
        )
        result = agent.build().run_sync(f"My token is {TOKEN} and my password: hunter2")
        assert secrets_in(in_file(path)) == []
        assert fold(journal.read_sync(result.state.run_id)).state == result.state
    assert secrets_in(in_file(path)) == []
    assert secrets_in(result.state.to_json()) == []
    assert secrets_in(result.text) == []
    assert result.text == "The token is [redacted:github-token]."
    first = result.steps[0].results[0].text
    assert first == (
        "token [redacted:github-token], known [redacted:known-value], password=[redacted:secret]"
    )
    assert result.steps[1].results[0].result["password"] == "[redacted:secret]"
    assert "failed with [redacted:github-token]" in result.steps[1].results[1].text


@pytest.mark.parametrize("way", ["run", "stream", "iterate"])
async def test_no_listener_gets_a_secret(way: str) -> None:
    """However a run is driven, and whatever pieces an answer comes in, nobody gets a secret."""
    agent = builder(*LEAKS).build()
    reports: list[str] = []
    if way == "run":
        result = await agent.run("Go.")
        reports.append(str(result.records))
    else:
        stream: Any = getattr(agent, way)("Go.")
        async for each in stream:
            reports.append(str(each))
        result = stream.result
    text = "".join(reports)
    assert secrets_in(text) == []
    assert "[redacted:github-token]" in text


async def test_a_secret_in_pieces_is_not_streamed() -> None:
    """An answer that comes letter by letter is held until it is known what it says."""

    class Slow:
        async def infer(self, request: Any, turn: Any) -> InferenceResponse:
            for letter in f"It is {TOKEN}!":
                turn.emit_text(letter)
                turn.emit_reasoning(letter)
            thought = Reasoning(f"thinking of {TOKEN}", "sealed", "x")
            return InferenceResponse(f"It is {TOKEN}!", reasoning=(thought,))

    agent = AgentBuilder().with_driver(Slow()).with_capability(Redaction()).build()
    stream = agent.stream("Go.")
    texts = ""
    async for record in stream:
        texts += getattr(record, "text", "") if "delta" in record.type else ""
    assert TOKEN not in texts
    assert "It is [redacted:github-token]!" in texts
    thought = stream.result.state.messages[-1].reasoning[0]  # type: ignore[union-attr]
    assert (thought.text, thought.signature) == ("thinking of [redacted:github-token]", "")


def test_progress_and_questions_are_redacted(tmp_path: Path, heard: list[str]) -> None:
    """What a tool reports while it runs, what hooks say and what a person is asked goes through the door too."""

    @tool
    async def slow(context: ToolContext) -> str:
        """Take a while."""
        context.progress(f"using {TOKEN}")
        return "done"

    path = tmp_path / "runs.db"
    with SQLiteJournal(path) as journal:
        agent = (
            builder(call("slow"))
            .with_tools(slow)
            .with_journal(journal)
            .on_before_tool_use(lambda ctx: HookOutcome.ask(f"with {TOKEN}?"), name="asker")
            .on_before_step(lambda ctx: ctx.with_metadata("note", f"known {KNOWN}"))
            .on_event(lambda record: heard.append(str(record)))
        ).build()
        paused = agent.run_sync("Go.")
        assert secrets_in(in_file(path)) == []
        answers = {paused.pending[0].id: Decision.allow(f"because {TOKEN}")}
        assert agent.resume_sync(paused, answers).status == "completed"
        assert secrets_in(in_file(path)) == []


SPLIT = '{"user": "ann", "password": "correct-horse-battery"}'


@pytest.mark.parametrize("cut", [10, 20, 30, 34, 40, 48])
@pytest.mark.parametrize("field", ["", "out"])
def test_a_secret_in_two_progress_messages_is_redacted(
    cut: int, field: str, heard: list[str]
) -> None:
    """Its second part is, wherever it is cut; of its first part at most the few letters that look like nothing stay."""

    @tool
    def slow(context: ToolContext) -> str:
        """Take a while."""
        for text in (SPLIT, f"use {TOKEN} now"):
            for part in (text[:cut], text[cut:]):
                context.progress({field: part, "n": 1} if field else part)
        return "done"

    agent = (
        builder(call("slow"))
        .with_tools(slow)
        .on_event(lambda each: heard.append(str(each.message)) if each.type == "progress" else None)
        .build()
    )
    agent.run_sync("Go.")
    shown = "".join(heard)
    assert "horse" not in shown
    assert TOKEN[-20:] not in shown
    assert "now" in shown
    heard.clear()


def test_errors_of_models_are_redacted(tmp_path: Path) -> None:
    """What a provider says of a wrong key is redacted where it is kept, and where it is raised."""

    class Broken:
        async def infer(self, request: Any, turn: Any) -> InferenceResponse:
            raise ModelError(f"the key {TOKEN} is wrong", remedy=f"Not {KNOWN}.")

    path = tmp_path / "runs.db"
    with SQLiteJournal(path) as journal:
        agent = builder().with_driver(Broken()).with_journal(journal).build()
        result = agent.run_sync("Go.")
        assert result.status == "failed"
        assert secrets_in(f"{result.error!r} {result.error}") == []
        assert secrets_in(result.state.to_json()) == []
    assert secrets_in(in_file(path)) == []


def test_children_are_redacted_too(tmp_path: Path, heard: list[str]) -> None:
    """A child that knows nothing of redaction keeps no secret either, two runs down."""

    @tool
    async def delegate(depth: int, context: ToolContext) -> str:
        """Hand on."""
        turns = [call("delegate", depth=depth - 1)] if depth else list(LEAKS)
        child = AgentBuilder().with_tools(leak, delegate)
        child.with_driver(ScriptedDriver([*turns, say(f"child says {TOKEN}")]))
        result = await context.spawn(child.build(), f"Use {TOKEN}.", name="child")
        return f"{result.text} {[each.text for step in result.steps for each in step.results]}"

    path = tmp_path / "runs.db"
    with SQLiteJournal(path) as journal:
        agent = builder(call("delegate", depth=1)).with_tools(delegate).with_journal(journal)
        agent.on_event(lambda record: heard.append(str(record)))
        result = agent.build().run_sync("Go.")
    assert "child says [redacted:github-token]" in result.steps[0].results[0].text
    assert secrets_in(in_file(path)) == []


def test_attachments_of_text_are_redacted(tmp_path: Path) -> None:
    """A document is looked through; a picture is left alone."""
    document = Attachment.from_bytes(f"password=hunter2 {TOKEN}".encode(), "text/plain", "a.txt")
    picture = Attachment.from_bytes(b"\x89PNG" + bytes(range(256)), "image/png")
    asked: list[Any] = []

    def watch(ctx: Any) -> None:
        asked.append(ctx.request.messages[0].attachments)

    agent = builder().on_before_inference(watch, tier="observer").build()
    agent.run_sync("See.", attachments=[document, picture])
    assert asked[0][0].text() == "password=[redacted:secret] [redacted:github-token]"
    assert asked[0][0].name == "a.txt"
    assert asked[0][1] == picture


def test_a_state_from_before_is_redacted(tmp_path: Path) -> None:
    """A conversation that began without redaction continues with it: the model and the journal see no secret of it."""
    state = AgentState(messages=Log([UserMessage(f"I am {TOKEN}")])).with_metadata("x", KNOWN)
    seen: list[str] = []
    path = tmp_path / "runs.db"
    with SQLiteJournal(path) as journal:
        agent = builder(*LEAKS).with_journal(journal)
        agent.with_system_prompt(f"You may use {KNOWN}.")
        agent.on_before_inference(lambda ctx: seen.append(str(ctx.request)), tier="observer")
        result = agent.build().run_sync("Go on.", state=state)
    assert secrets_in("".join(seen)) == []
    assert secrets_in(result.state.to_json()) == []
    assert secrets_in(in_file(path)) == []


def test_tool_descriptions_for_the_model_are_redacted() -> None:
    """A description may come from a server or a file; the tool is called by its name as ever."""
    finder = tool(lambda: "found", name="find", description=f"Finds {KNOWN} with {TOKEN}.")
    driver = ScriptedDriver([call("find"), call("find"), say("done")])
    agent = AgentBuilder().with_driver(driver).with_tools(finder)
    result = agent.with_capability(Redaction(values=[KNOWN])).build().run_sync("Go.")
    assert [made.text for step in result.steps for made in step.results] == ["found"] * 2
    for request in driver.requests:
        (spec,) = request.tools
        assert spec.description == "Finds [redacted:known-value] with [redacted:github-token]."


def test_what_other_hooks_add_is_redacted_before_the_model_sees_it() -> None:
    """A message that a hook puts into the conversation is looked through like any other."""
    seen: list[str] = []

    def add(ctx: Any) -> Any:
        return ctx.with_state(ctx.state.with_user_message(f"remember {TOKEN}", by="adder"))

    agent = builder(call("leak", how="text")).on_before_step(add)
    agent.on_before_inference(lambda ctx: seen.append(str(ctx.request)), tier="observer")
    result = agent.build().run_sync("Go.")
    assert secrets_in("".join(seen)) == []
    assert secrets_in(result.state.to_json()) == []
    assert "remember [redacted:github-token]" in seen[-1]


def test_what_other_hooks_put_into_prompts_answers_and_results_is_redacted() -> None:
    """Hooks do not see secrets, and what they put in does not stay either."""
    seen: list[str] = []

    def prompt(ctx: Any) -> Any:
        seen.append(ctx.prompt)
        return ctx.with_prompt(f"{ctx.prompt} and {KNOWN}")

    def answer(ctx: Any) -> Any:
        seen.append(ctx.response.text)
        return ctx.with_response(msgspec.structs.replace(ctx.response, text=f"{TOKEN}!"))

    def looked(ctx: Any) -> Any:
        seen.append(ctx.execution.text)
        return ctx.with_result({"password": "hunter2", "more": ctx.execution.text})

    agent = builder(call("leak", how="text")).on_prompt_submit(prompt).on_after_inference(answer)
    result = agent.on_after_tool_use(looked).build().run_sync(f"I am {TOKEN}")
    assert secrets_in("".join(seen)) == []
    assert secrets_in(result.state.to_json()) == []
    assert result.text == "[redacted:github-token]!"
    assert result.steps[0].results[0].result["password"] == "[redacted:secret]"


def test_arguments_are_left_to_work() -> None:
    """A tool is given what the model said, also where what is kept of the call is redacted."""
    got: list[dict[str, str]] = []

    @tool
    def login(password: str, token: str) -> str:
        """Log in."""
        got.append({"password": password, "token": token})
        return "in"

    builder(call("login", password="s3same", token=TOKEN)).with_tools(login).build().run_sync("Go.")
    assert got == [{"password": "s3same", "token": TOKEN}]


async def test_replay_and_resume_see_what_was_kept(tmp_path: Path) -> None:
    """A redacted run replays identically, and continues after a pause in another process."""
    path = tmp_path / "runs.db"

    def asker(ctx: Any) -> HookOutcome:
        return HookOutcome.ask("sure?")

    def made(journal: SQLiteJournal, *turns: Any) -> Any:
        agent = builder(*turns).with_journal(journal)
        return agent.on_before_tool_use(asker, matcher="leak", name="asker").build()

    async with SQLiteJournal(path) as journal:
        agent = made(journal, call("leak", how="value"))
        paused = await agent.run(f"Use {TOKEN}.", run_id="r1")
        assert secrets_in(in_file(path)) == []
    async with SQLiteJournal(path) as journal:
        agent = made(journal)
        answers = {question.id: Decision.allow() for question in paused.pending}
        result = await agent.resume("r1", answers)
        assert result.text == "The token is [redacted:github-token]."
        report = await hookline.replay(journal, "r1", agent)
        assert report.identical, str(report)
    assert secrets_in(in_file(path)) == []


def test_redaction_shows_in_explain() -> None:
    """The hooks are there to be seen."""
    assert "redaction" in str(builder().build().explain())


def test_a_door_of_ones_own() -> None:
    """`with_redaction` takes any function of JSON values; what it leaves out is in no record."""
    agent = AgentBuilder().with_driver(ScriptedDriver([say("yes, yes")]))
    agent.with_redaction(lambda value: json.loads(json.dumps(value).replace("yes", "no")))
    agent.with_redaction(lambda value: json.loads(json.dumps(value).replace("no, ", "")))
    result = agent.build().run_sync("Go.")
    assert "yes" not in str(result.records)
    assert "no, " not in str(result.records)
    with pytest.raises(hookline.errors.BuildError, match="cannot redact anything"):
        AgentBuilder().with_redaction("x")  # type: ignore[arg-type]


def test_a_secret_at_the_cut_of_a_long_line_is_not_shown_in_part(tmp_path: Path) -> None:
    """Neither by `read` nor by `search`, in the result or in the journal."""
    secret = "hunter2-correct-horse-battery"
    (tmp_path / "long").write_text("a" * 1985 + secret + "b" * 500 + "\n")
    (tmp_path / "wide").write_text("a" * 390 + secret + "b" * 500 + "\n")
    turns = [call("read", path="long"), call("search", pattern="hunter"), say("done")]
    builder = AgentBuilder().with_driver(ScriptedDriver(turns)).with_capability(Files(tmp_path))
    result = builder.with_capability(Redaction(values=[secret])).build().run_sync("go")
    for step in result.steps[:2]:
        text = step.results[0].text
        assert "[redacted:known-value]... [" in text
        assert "hunter2" not in text


def test_a_secret_of_a_call_is_taken_out_wherever_it_stands_later() -> None:
    """In the rest of the command, in what it prints, and in later messages, where no name stands before it."""
    redaction = Redaction()

    @tool
    def shell(command: str) -> str:
        """Run a command."""
        return f"it printed {command.partition('=')[2].split()[0]}"

    agent = (
        AgentBuilder()
        .with_driver(
            ScriptedDriver(
                [
                    call("shell", command="DB_PASSWORD=hunter2zq run hunter2zq"),
                    say("It is hunter2zq."),
                ]
            )
        )
        .with_tools(shell)
        .with_capability(redaction)
        .build()
    )
    result = agent.run_sync("Go.")
    assert "hunter2zq" not in result.state.to_json()
    assert "hunter2zq" not in result.text
    assert "it printed" in result.state.to_json()


async def test_a_secret_in_the_name_of_a_tool_or_of_an_argument_is_not_kept() -> None:
    """A model writes what it likes, also where no value belongs."""
    secret = "hunter2Zq9xWvUt"
    journal = MemoryJournal()
    for turn in (call(f"DB_PASSWORD={secret}"), call("look", **{f"DB_PASSWORD={secret}": 1})):
        model = ScriptedDriver([turn, say("Done.")])
        builder = AgentBuilder().with_driver(model).with_capability(Redaction())
        result = await builder.with_journal(journal).build().run("Go.")
        assert secret not in repr(result.state)
        assert secret not in repr(await journal.read(result.state.run_id))
