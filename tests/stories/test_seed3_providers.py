"""The third seed, in Python: its hook providers, each written as a small capability, and its loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hookline import (
    Agent,
    AgentBuilder,
    AgentState,
    Decision,
    HookOutcome,
    HookPoint,
    HookStack,
    InferenceHookContext,
    RunStatus,
    StepHookContext,
    StopHookContext,
    StopReason,
    SubagentHookContext,
    ToolCall,
    ToolContext,
    ToolHookContext,
    ToolNameMatcher,
    hook,
    tool,
)
from hookline.capabilities import Files, Limits
from hookline.hooks import Context, Point
from hookline.state import PendingApproval, ResultStatus, Usage, UserMessage
from hookline.testing import ScriptedDriver, call, calls, say


def builder(driver: ScriptedDriver) -> AgentBuilder:
    """A builder with this driver."""
    return AgentBuilder().with_driver(driver)


# --- BashProvider -----------------------------------------------------------------------------------


class BashPolicy:
    """Which commands may run."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    def is_allowed(self, command: str) -> bool:
        return command.split()[0] in self.allowed


class BashProvider:
    """A tool and the policy that guards it, from one place."""

    name = "bash"

    def __init__(self, policy: BashPolicy) -> None:
        self.policy = policy
        self.ran: list[str] = []

    def hooks(self) -> Iterable[Any]:
        yield hook(
            HookPoint.BEFORE_TOOL_USE,
            self._enforce,
            name="bash.policy",
            matcher=ToolNameMatcher("bash"),
            tier="policy",
        )

    def tools(self) -> Iterable[Any]:
        @tool
        def bash(command: str) -> str:
            """Run a command."""
            self.ran.append(command)
            return "ok"

        yield bash

    def _enforce(self, ctx: ToolHookContext) -> HookOutcome:
        if not self.policy.is_allowed(ctx.tool_call.args["command"]):
            return HookOutcome.block("Command blocked by policy")
        return HookOutcome.proceed()


def test_bash_provider_enforces_its_policy() -> None:
    """Forbidden commands are not run, allowed ones are, and the model reads the difference."""
    bash = BashProvider(BashPolicy("ls", "cat"))
    driver = ScriptedDriver(
        [calls(call("bash", command="ls -l"), call("bash", command="rm x")), say("done")]
    )
    result = builder(driver).with_capability(bash).build().run_sync("go")
    assert bash.ran == ["ls -l"]
    allowed, blocked = result.steps[0].results
    assert allowed.is_success
    assert (blocked.reason, blocked.decided_by) == ("Command blocked by policy", "bash.policy")
    assert "Command blocked by policy" in str(driver.requests[1])


def test_a_policy_judges_what_another_hook_made_of_the_call() -> None:
    """The provider's policy is not passed by a hook that rewrites the command afterwards."""
    bash = BashProvider(BashPolicy("ls"))
    driver = ScriptedDriver([call("bash", command="ls"), say("done")])
    agent = (
        builder(driver)
        .with_capability(bash)
        .on_before_tool_use(lambda ctx: ctx.with_args(command="rm x"), priority=-1000)
        .build()
    )
    assert agent.run_sync("go").steps[0].results[0].is_blocked
    assert bash.ran == []


# --- TaskPlanningProvider ---------------------------------------------------------------------------


class TaskPlanningProvider:
    """todo_write, a reminder before each step, and the tasks kept in the state."""

    name = "tasks"

    def hooks(self) -> Iterable[Any]:
        yield hook("BeforeStep", self._remind, name="tasks.remind")
        yield hook("AfterToolUse", self._persist, name="tasks.persist", matcher="todo_write")

    def tools(self) -> Iterable[Any]:
        @tool(effect="idempotent")
        def todo_write(tasks: dict[str, bool]) -> dict[str, bool]:
            """Write down the tasks and whether each is done."""
            return tasks

        yield todo_write

    def _remind(self, ctx: StepHookContext) -> AgentState | None:
        open_tasks = [name for name, done in ctx.metadata.get("tasks", {}).items() if not done]
        if not open_tasks:
            return None
        return ctx.state.with_user_message(
            f"Still open: {', '.join(open_tasks)}", by="tasks.remind"
        )

    def _persist(self, ctx: ToolHookContext) -> AgentState:
        assert ctx.execution is not None
        return ctx.state.with_metadata("tasks", ctx.execution.result)


def test_task_planning_persists_and_reminds() -> None:
    """Tasks from a tool result reach the state; while some are open the model is reminded."""
    driver = ScriptedDriver(
        [
            call("todo_write", tasks={"write": False, "test": False}),
            call("todo_write", tasks={"write": True, "test": False}),
            call("todo_write", tasks={"write": True, "test": True}),
            say("all done"),
        ]
    )
    result = builder(driver).with_capability(TaskPlanningProvider()).build().run_sync("plan")
    assert result.text == "all done"
    assert result.state.metadata["tasks"] == {"write": True, "test": True}
    assert "Still open" not in str(driver.requests[0])
    assert str(driver.requests[1]).endswith("user: Still open: write, test")
    assert str(driver.requests[2]).endswith("user: Still open: test")
    assert str(driver.requests[3]).count("Still open") == 2
    reminders = [
        each for each in result.state.messages if getattr(each, "by", "") == "tasks.remind"
    ]
    assert len(reminders) == 2


def test_tasks_survive_serialisation() -> None:
    """A later run over the saved state continues with the same tasks."""
    first = ScriptedDriver([call("todo_write", tasks={"write": False}), say("later")])
    state = builder(first).with_capability(TaskPlanningProvider()).build().run_sync("plan").state
    second = ScriptedDriver([say("on it")])
    agent = builder(second).with_capability(TaskPlanningProvider()).build()
    agent.run_sync("go on", state=AgentState.from_json(state.to_json()))
    assert "Still open: write" in str(second.requests[0])


# --- SelfCritiqueProvider ---------------------------------------------------------------------------


class SelfCritiqueProvider:
    """Two hooks: a critic judges each final response, and a revision is requested until it approves."""

    name = "self-critique"

    def __init__(self, critic: Callable[[str], tuple[bool, str]], max_iterations: int = 2) -> None:
        self.critic = critic
        self.max_iterations = max_iterations

    def hooks(self) -> Iterable[Any]:
        yield hook("AfterStep", self._evaluate, name="critic")
        yield hook("ShouldContinue", self._decide, name="critic.decide")

    def _evaluate(self, ctx: StepHookContext) -> AgentState | None:
        if ctx.step is None or not ctx.step.is_final_response:
            return None
        approved, feedback = self.critic(ctx.step.text)
        ctx.run.charge(Usage(output_tokens=10, requests=1))
        return ctx.state.with_metadata("self_critic", {"approved": approved, "feedback": feedback})

    def _decide(self, ctx: StopHookContext) -> Any:
        evaluation = ctx.get("self_critic")
        iteration = ctx.get("self_critic_iteration", 0)
        if evaluation is None:
            return None
        if evaluation["approved"]:
            return ctx.allow_stop("Self-critic approved")
        if iteration >= self.max_iterations:
            return ctx.allow_stop("Max iterations reached")
        return HookOutcome.proceed(
            ctx.request_continue(
                f"Self-critic requested revision: {evaluation['feedback']}"
            ).with_metadata("self_critic_iteration", iteration + 1)
        )


def polite(text: str) -> tuple[bool, str]:
    """A critic that wants the word "please"."""
    return "please" in text, "say please"


def test_self_critique_asks_for_a_revision() -> None:
    """The model reads the feedback, and the approved answer ends the run."""
    driver = ScriptedDriver([say("no"), say("no, please")])
    agent = builder(driver).with_capability(SelfCritiqueProvider(polite)).build()
    result = agent.run_sync("go")
    assert (result.text, result.status) == ("no, please", RunStatus.COMPLETED)
    assert "Self-critic requested revision: say please" in str(driver.requests[1])
    assert result.state.metadata["self_critic_iteration"] == 1


def test_self_critique_gives_up_after_max_iterations() -> None:
    """A critic that is never satisfied costs so many revisions and no more."""
    driver = ScriptedDriver([say("no")] * 4)
    critique = SelfCritiqueProvider(polite, max_iterations=3)
    result = builder(driver).with_capability(critique).build().run_sync("go")
    assert (len(driver.requests), result.status, result.text) == (4, RunStatus.COMPLETED, "no")
    assert result.outcome is not None
    assert "Max iterations reached" in {said.reason for said in result.outcome.evaluations}


def test_model_calls_of_the_critic_count_against_the_limits() -> None:
    """A critic that spends the tokens ends the run as the model itself would."""
    driver = ScriptedDriver([say("no", tokens=5)] * 3)
    agent = builder(driver).with_capability(SelfCritiqueProvider(polite, 9)).with_limits(tokens=30)
    result = agent.build().run_sync("go")
    assert (result.status, result.stop_reason) == (RunStatus.STOPPED, StopReason.TOKEN_LIMIT)
    assert (len(driver.requests), result.usage.output_tokens) == (2, 30)


# --- SummarizationProvider --------------------------------------------------------------------------


class SummarizationProvider:
    """Before an inference: when the conversation is too long, the old part becomes a summary."""

    name = "summarization"

    def __init__(self, most: int) -> None:
        self.most = most

    def hooks(self) -> Iterable[Any]:
        yield hook("BeforeInference", self._summarise, name="summarise")

    def _summarise(self, ctx: InferenceHookContext) -> AgentState | None:
        messages = ctx.state.messages
        if len(messages) <= self.most:
            return None
        summary = UserMessage(f"Summary of {len(messages) - 2} messages")
        recent = messages[-2:]  # the latest call and its result stay together
        return ctx.state.with_messages([summary, *recent])


@tool
def look(at: str) -> str:
    """Look at something."""
    return f"{at} is fine"


def test_summarisation_before_inference_shortens_what_the_model_reads() -> None:
    """The model sees the shortened conversation in that same inference, and the state keeps it."""
    driver = ScriptedDriver([*(call("look", at=thing) for thing in "abc"), say("all fine")])
    agent = builder(driver).with_tools(look).with_capability(SummarizationProvider(5)).build()
    result = agent.run_sync("look around")
    assert str(driver.requests[2]).startswith("user: look around")
    assert str(driver.requests[3]) == (
        'user: Summary of 5 messages\nassistant: look({"at":"c"})\ntool look: c is fine'
    )
    assert len(result.state.messages) == 4
    assert result.status is RunStatus.COMPLETED


def test_a_summary_that_tears_a_call_from_its_result_is_refused() -> None:
    """No driver is ever handed half a pair: the run fails and names the hook."""

    def careless(ctx: InferenceHookContext) -> AgentState | None:
        messages = ctx.state.messages
        return ctx.state.with_messages(messages[-1:]) if len(messages) > 2 else None

    driver = ScriptedDriver([call("look", at="a"), say("fine")])
    result = builder(driver).with_tools(look).on_before_inference(careless).build().run_sync("go")
    assert (result.status, len(driver.requests)) == (RunStatus.FAILED, 1)
    assert "hook 'careless' at before_inference" in str(result.error)
    assert "call_1_1" in str(result.error)


# --- SubagentProvider -------------------------------------------------------------------------------


class SubagentProvider:
    """spawn_subagent, and a hook that looks at what a subagent comes back with."""

    name = "subagents"

    def __init__(self, **agents: Agent) -> None:
        self.agents = agents
        self.validated: list[str] = []

    def hooks(self) -> Iterable[Any]:
        yield hook(
            "AfterToolUse", self._validate, name="subagents.result", matcher="spawn_subagent"
        )

    def tools(self) -> Iterable[Any]:
        @tool
        async def spawn_subagent(name: str, prompt: str, context: ToolContext) -> str:
            """Give a task to a subagent."""
            result = await context.spawn(self.agents[name], prompt, name=name)
            return str(result.text)

        yield spawn_subagent

    def _validate(self, ctx: ToolHookContext) -> Any:
        assert ctx.execution is not None
        self.validated.append(str(ctx.execution.result))
        return ctx.with_result(f"[{ctx.tool_call.args['name']}] {ctx.execution.result}")


def test_subagent_provider_runs_a_child_and_shows_its_result_to_a_hook() -> None:
    """The child has its own conversation; the parent's hooks see start, stop and the tool's result."""
    seen: list[Any] = []
    child_driver = ScriptedDriver([say("found it")])
    child = builder(child_driver).with_id("searcher-agent").build()

    def watch(ctx: SubagentHookContext) -> None:
        answer = ctx.result.text if ctx.result is not None else None
        seen.append((str(ctx.point), ctx.name, answer))

    provider = SubagentProvider(searcher=child)
    driver = ScriptedDriver(
        [call("spawn_subagent", name="searcher", prompt="find it"), say("got it")]
    )
    agent = (
        builder(driver)
        .with_capability(provider)
        .on_subagent_start(watch)
        .add_hook("SubagentStop", watch)
        .build()
    )
    result = agent.run_sync("go")
    assert (result.text, provider.validated) == ("got it", ["found it"])
    assert "[searcher] found it" in str(driver.requests[1])
    assert str(child_driver.requests[0]) == "user: find it"
    assert seen == [
        ("subagent_start", "searcher", None),
        ("subagent_stop", "searcher", "found it"),
    ]


def test_a_subagent_stop_hook_sends_the_child_back_to_work() -> None:
    """A block at SubagentStop is an objection that the child reads."""
    child_driver = ScriptedDriver([say("half"), say("whole")])
    provider = SubagentProvider(worker=builder(child_driver).build())
    driver = ScriptedDriver([call("spawn_subagent", name="worker", prompt="work"), say("thanks")])

    def thorough(ctx: SubagentHookContext) -> HookOutcome | None:
        return HookOutcome.block("the rest, please") if ctx.result.text == "half" else None

    builder(driver).with_capability(provider).on_subagent_stop(thorough).build().run_sync("go")
    assert provider.validated == ["whole"]
    assert "the rest, please" in str(child_driver.requests[1])


def test_the_policies_of_the_parent_hold_in_the_child() -> None:
    """A subagent is no way around the bash policy."""
    parent_bash, child_bash = BashProvider(BashPolicy("ls")), BashProvider(BashPolicy("rm", "ls"))
    child_driver = ScriptedDriver([call("bash", command="rm x"), say("could not")])
    child = builder(child_driver).with_capability(child_bash).build()
    driver = ScriptedDriver([call("spawn_subagent", name="worker", prompt="rm x"), say("ok")])
    provider = SubagentProvider(worker=child)
    builder(driver).with_capability(parent_bash).with_capability(provider).build().run_sync("go")
    assert child_bash.ran == []
    assert "Command blocked by policy" in str(child_driver.requests[1])


# --- the universal return type ----------------------------------------------------------------------


def test_every_hook_result_of_the_document_has_a_counterpart() -> None:
    """proceed, block, modifyState, modifyArgs, modifyResult, requestContinue, requestStop, askUser."""
    asked: list[PendingApproval] = []

    def approve(pending: PendingApproval) -> Decision:
        asked.append(pending)
        return Decision.allow()

    def before(ctx: ToolHookContext) -> Any:
        return {
            "proceed": HookOutcome.proceed(),
            "block": HookOutcome.block("blocked"),
            "state": ctx.state.with_metadata("seen", True),
            "args": ctx.with_args(at="something else"),
            "result": ctx.with_result("not looked at"),
            "ask": HookOutcome.ask("may I look?"),
        }[ctx.tool_call.args["at"]]

    names = ["proceed", "block", "state", "args", "result", "ask"]
    script = ScriptedDriver([calls(*(call("look", at=name) for name in names)), say("1"), say("2")])
    agent = (
        builder(script)
        .with_tools(look)
        .with_approver(approve)
        .on_before_tool_use(before)
        .on_should_continue(
            lambda ctx: {
                "1": ctx.request_continue("once more"),
                "2": ctx.allow_stop("enough"),
            }.get(ctx.step.text)
        )
        .build()
    )
    result = agent.run_sync("go")
    texts = [each.text for each in result.steps[0].results]
    assert texts == [
        "proceed is fine",
        "Blocked: blocked",
        "state is fine",
        "something else is fine",
        "not looked at",
        "ask is fine",
    ]
    assert result.state.metadata == {"seen": True}
    assert (result.text, result.state.step_count) == ("2", 3)
    assert [each.reason for each in asked] == ["may I look?"]


# --- the loop and its defaults ----------------------------------------------------------------------


def test_the_points_are_called_in_the_order_of_the_skeleton() -> None:
    """The picture of the document, walked by one run with a tool call."""
    seen: list[str] = []
    agent = builder(ScriptedDriver([call("look", at="a"), say("done")])).with_tools(look)
    for point in (
        "ExecutionStart BeforeStep BeforeInference AfterInference BeforeToolUse AfterToolUse AfterStep "
        "ShouldContinue ExecutionEnd OnError"
    ).split():
        agent.add_hook(point, lambda ctx: seen.append(str(ctx.point)))
    agent.build().run_sync("go")
    first = ["before_step", "before_inference", "after_inference"]
    last = ["after_step", "should_continue"]
    tools = ["before_tool_use", "after_tool_use"]
    assert seen == ["execution_start", *first, *tools, *last, *first, *last, "execution_end"]


def test_the_limits_of_the_document_can_be_set() -> None:
    """With the document's limits, 20 steps and 32,768 tokens stop a run that would not end by itself."""
    endless = [lambda state: call("look", at=str(state.step_count))] * 30
    limits = Limits(steps=20, tokens=32_768, seconds=300)
    steps = (
        builder(ScriptedDriver(endless))
        .with_tools(look)
        .with_capability(limits)
        .build()
        .run_sync("go")
    )
    assert (steps.status, steps.stop_reason, steps.state.step_count) == (
        RunStatus.STOPPED,
        StopReason.STEP_LIMIT,
        20,
    )
    big = [call("look", at="a", tokens=20_000)] * 3
    tokens = (
        builder(ScriptedDriver(big)).with_tools(look).with_capability(limits).build().run_sync("go")
    )
    assert (tokens.stop_reason, tokens.state.step_count) == (StopReason.TOKEN_LIMIT, 2)


def test_calls_of_one_step_are_judged_before_any_of_them_runs() -> None:
    """All hooks before, then the tools at the same time, then all hooks after: in call order."""
    seen: list[str] = []
    agent = (
        builder(ScriptedDriver([calls(call("look", at="a"), call("look", at="b")), say("done")]))
        .with_tools(look)
        .on_before_tool_use(lambda ctx: seen.append(f"before {ctx.tool_call.args['at']}"))
        .on_after_tool_use(lambda ctx: seen.append(f"after {ctx.tool_call.args['at']}"))
        .build()
    )
    agent.run_sync("go")
    assert seen == ["before a", "before b", "after a", "after b"]


def test_a_call_of_an_unknown_tool_is_repaired_in_the_answer() -> None:
    """Hooks before a tool see valid calls only; a hook after the inference can give a call another name."""
    seen: list[str] = []

    def rename(ctx: InferenceHookContext) -> InferenceHookContext:
        assert ctx.response is not None
        made = [ToolCall(each.id, "look", each.args) for each in ctx.response.calls]
        return ctx.with_response(ctx.response.with_calls(*made))

    def agent() -> AgentBuilder:
        driver = ScriptedDriver([call("luk", at="a"), say("done")])
        watch = builder(driver).with_tools(look)
        return watch.on_before_tool_use(lambda ctx: seen.append(ctx.tool_call.name))

    unknown = agent().build().run_sync("go").steps[0].results[0]
    assert (unknown.status, seen) == (ResultStatus.INVALID, [])
    repaired = agent().on_after_inference(rename).build().run_sync("go").steps[0].results[0]
    assert (repaired.result, seen) == ("a is fine", ["look"])


async def test_a_thin_layer_of_hooks_around_an_agent() -> None:
    """The hybrid of the document: an inner agent that is left as it is, and a stack of hooks that wraps its run."""

    class Task(Context, frozen=True, kw_only=True):
        prompt: str

    run = Point("run", Task, changes={"prompt"}, blocks="the agent is not run")

    class HookableAgent:
        def __init__(self, inner: Agent, hooks: HookStack) -> None:
            self.inner = inner
            self.hooks = hooks

        async def run(self, prompt: str) -> str:
            async def answer(ctx: Task) -> str:
                return str((await self.inner.run(ctx.prompt)).text)

            done = await self.hooks.process(Task(point=run, prompt=prompt), answer)
            return f"refused: {done.reason}" if done.is_blocked else str(done.answer)

    def polite(ctx: Task) -> Task:
        return ctx.replace(prompt=f"{ctx.prompt}, please")

    def no_secrets(ctx: Task) -> HookOutcome | None:
        return HookOutcome.block("no secrets") if "secret" in ctx.prompt else None

    driver = ScriptedDriver([say("hello")])
    hooks = HookStack().with_hook(polite, run).with_hook(no_secrets, run, tier="policy")
    agent = HookableAgent(builder(driver).build(), hooks)
    assert await agent.run("Say hello") == "hello"
    assert str(driver.requests[0]) == "user: Say hello, please"
    assert await agent.run("Say a secret") == "refused: no secrets"


def test_an_agent_of_all_providers_and_custom_hooks(tmp_path: Path) -> None:
    """The usage example of the document: everything is added to one builder and works together."""
    (tmp_path / "notes.txt").write_text("two metres", encoding="utf-8")
    log: list[str] = []

    class CustomLoggingHook:
        def points(self) -> list[Any]:
            return [HookPoint.EXECUTION_START]

        async def handle(self, ctx: Any, next: Any) -> Any:
            log.append(str(ctx.point))
            return await next(ctx)

    class SecurityAuditHook:
        def points(self) -> list[Any]:
            return [HookPoint.BEFORE_TOOL_USE]

        def handle(self, ctx: ToolHookContext) -> None:
            log.append(f"audit {ctx.tool_call.name}")

    bash = BashProvider(BashPolicy("ls"))
    child = builder(ScriptedDriver([say("child says hi")])).build()
    driver = ScriptedDriver(
        [
            call("todo_write", tasks={"list": False}),
            calls(
                call("bash", command="ls"),
                call("bash", command="rm x"),
                call("read", path="notes.txt"),
                call("spawn_subagent", name="worker", prompt="hi"),
            ),
            call("todo_write", tasks={"list": True}),
            say("no"),
            say("no, please"),
        ]
    )
    agent = (
        builder(driver)
        .with_capability(bash)
        .with_capability(Files(tmp_path))
        .with_capability(TaskPlanningProvider())
        .with_capability(SelfCritiqueProvider(polite, max_iterations=3))
        .with_capability(SubagentProvider(worker=child))
        .with_capability(SummarizationProvider(100))
        .with_hook(CustomLoggingHook())
        .with_hook(SecurityAuditHook(), tier="observer")
        .build()
    )
    result = agent.run_sync("do everything")
    assert (result.text, result.status) == ("no, please", RunStatus.COMPLETED)
    assert bash.ran == ["ls"]
    assert "two metres" in str(driver.requests[2])
    assert log == [
        "execution_start",
        "audit todo_write",
        "audit bash",
        "audit bash",
        "audit read",
        "audit spawn_subagent",
        "audit todo_write",
    ]
    assert AgentState.from_json(result.state.to_json()) == result.state
