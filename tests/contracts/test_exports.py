"""The public surface: what may be imported from where, and the names users build on."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import types
from typing import Any

import pytest

import hookline
import hookline.capabilities
import hookline.testing
from hookline.flow import RunLimits
from hookline.hooks import HookOptions, register
from hookline.testing import ScriptedDriver, call, calls, say

PACKAGES = sorted(
    f"hookline.{each.name}" for each in pkgutil.iter_modules(hookline.__path__) if each.ispkg
)
PUBLIC = ["hookline", "hookline.adapters", *PACKAGES]

FACADE = """
    Agent AgentBuilder AgentState RunResult RunStatus StopReason HookPoint HookOutcome HookStack
    ContinuationDecision ContinuationEvaluation ContinuationOutcome ErrorPolicy ToolCall ToolResult
    ToolNameMatcher EventTypeMatcher CompositeMatcher CallableMatcher tool SQLiteJournal
    SessionHookContext PromptHookContext ExecutionHookContext StepHookContext InferenceHookContext
    ToolHookContext OutputHookContext StopHookContext SubagentHookContext CompactHookContext
    FailureHookContext
""".split()

POINTS = [point.value for point in hookline.HookPoint if not point.around]

EVERY_CONTEXT = """
    point state metadata with_state with_metadata verdict
    forbid request_continue allow_stop allow_continue
"""

# For each class, what can be reached on it or on an instance of it.
MEMBERS = {
    "Agent": "run run_sync stream iterate resume cancel explain lint",
    "AgentBuilder": """
        with_driver with_model with_tools with_capability with_error_policy with_limits
        with_system_prompt with_approver add_hook build around_tool_use around_inference on_event
        with_hook with_hooks add_processor add_pre_processor add_continuation_criteria
    """,
    "AgentState": """
        messages metadata steps step_count usage agent_id parent_agent_id run_id session_id
        with_metadata with_user_message to_json from_json explain_stop
    """,
    "RunResult": "text status stop_reason state steps usage outcome error output explain",
    "RunStatus": "COMPLETED STOPPED PAUSED CANCELLED FAILED",
    "HookOutcome": "proceed block stop ask allow",
    "HookStack": "with_hook process process_sync registrations plan",
    "CompositeMatcher": "all_of any_of and_ or_ __and__ __or__ __invert__",
    "ToolNameMatcher": "__and__ __or__ __invert__",
    "EventTypeMatcher": "__and__ __or__ __invert__",
    "CallableMatcher": "__and__ __or__ __invert__",
    "ErrorPolicy": "stop_on_any_error retry_tool_errors ignore_tool_errors retry_all",
    "ContinuationDecision": """
        FORBID_CONTINUATION REQUEST_CONTINUATION ALLOW_STOP ALLOW_CONTINUATION
    """,
    "ContinuationOutcome": """
        from_evaluations should_continue stop_reason resolved_by evaluations
    """,
    "ContinuationEvaluation": "source decision reason stop_reason",
    "ToolCall": "id name args",
    "SQLiteJournal": """
        claim read runs close check delete prune vacuum export_lines import_lines
    """,
    "SessionHookContext": EVERY_CONTEXT,
    "PromptHookContext": EVERY_CONTEXT + "prompt with_prompt",
    "ExecutionHookContext": EVERY_CONTEXT,
    "StepHookContext": EVERY_CONTEXT + "step_index step_number step",
    "InferenceHookContext": EVERY_CONTEXT + "request response with_request with_response",
    "ToolHookContext": EVERY_CONTEXT
    + "tool_call with_tool_call with_args execution with_result with_execution",
    "OutputHookContext": EVERY_CONTEXT + "output with_output",
    "StopHookContext": EVERY_CONTEXT + "continuation",
    "SubagentHookContext": EVERY_CONTEXT,
    "CompactHookContext": EVERY_CONTEXT,
    "FailureHookContext": EVERY_CONTEXT + "exception error_message error_class",
}

HOOK_OPTIONS = {
    "priority": 0,
    "matcher": None,
    "name": None,
    "before": (),
    "after": (),
    "tier": "hook",
    "scope": None,
    "timeout": None,
    "on_failure": None,
    "shadow": False,
}


def has_member(cls: type, name: str) -> bool:
    """Whether a class defines a name, or declares it as a field of its instances."""
    return hasattr(cls, name) or any(name in inspect.get_annotations(c) for c in cls.__mro__)


@pytest.mark.parametrize("module_name", PUBLIC)
def test_a_public_module_lists_what_it_exports(module_name: str) -> None:
    """`__all__` holds each exported name once, and every name in it can be imported."""
    module = importlib.import_module(module_name)
    names = list(module.__all__)
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(module, name)] == []


@pytest.mark.parametrize("module_name", ["hookline", *PACKAGES])
def test_a_public_package_exports_what_it_shows(module_name: str) -> None:
    """Nothing of ours can be imported from a public package without being listed in `__all__`."""
    module = importlib.import_module(module_name)
    ours = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and str(getattr(value, "__module__", "")).startswith("hookline")
    }
    assert ours - set(module.__all__) == set()


def test_the_facade_has_the_fixed_names() -> None:
    """What the documentation imports from `hookline` is there."""
    assert set(FACADE) - set(hookline.__all__) == set()


def test_the_facade_is_small() -> None:
    """A new name belongs in a package, unless most users need it."""
    assert len(hookline.__all__) <= 40


MOVED = """
    adapters.ContinuationCriterionAdapter adapters.StateProcessorAdapter adapters.ToolMiddlewareAdapter
    agent.Capability errors.HookError errors.HooklineError errors.ModelError errors.ToolError
    flow.ErrorAction flow.ErrorClass hooks.Matcher hooks.MetadataMatcher hooks.StepTypeMatcher
    hooks.ToolArgsMatcher sessions.Session sessions.Sessions
    state.Attachment state.InferenceRequest state.InferenceResponse state.PendingApproval state.Step
    state.Usage tools.Tool
""".split()


@pytest.mark.parametrize("path", MOVED)
def test_a_moved_name_still_works_and_names_its_new_place(path: str) -> None:
    """It is the same object, and the warning says what to import instead, at the user's line."""
    package, name = path.split(".")
    with pytest.warns(DeprecationWarning, match=f"import {name} from hookline.{package}") as warned:
        old = getattr(hookline, name)
    assert warned[0].filename == __file__
    assert old is getattr(importlib.import_module(f"hookline.{package}"), name)
    assert name not in hookline.__all__


def test_a_moved_name_may_have_a_new_name() -> None:
    """`Limits` is a capability; the values it sets are `RunLimits`."""
    with pytest.warns(DeprecationWarning, match="import RunLimits from hookline.flow"):
        old = hookline.Limits  # type: ignore[attr-defined]
    assert old is RunLimits


def test_a_moved_name_warns_at_the_line_of_a_from_import() -> None:
    """The frames of Python's own import are not named."""
    with pytest.warns(DeprecationWarning, match="hookline.state") as warned:
        from hookline import Usage  # noqa: F401  # only the warning matters
    assert {each.filename for each in warned} == {__file__}


def test_testing_has_the_fixed_names() -> None:
    """The fakes that examples are written with are there."""
    assert {"ScriptedDriver", "call", "calls", "say"} <= set(hookline.testing.__all__)


@pytest.mark.parametrize("class_name", MEMBERS)
def test_a_class_has_its_fixed_members(class_name: str) -> None:
    """The methods and attributes users build on exist."""
    cls = getattr(hookline, class_name)
    assert [name for name in MEMBERS[class_name].split() if not has_member(cls, name)] == []


@pytest.mark.parametrize("point", POINTS)
def test_every_point_has_a_name_and_a_builder_method(point: str) -> None:
    """A point of the lifecycle is a member of HookPoint and an `on_` method of the builder."""
    assert hasattr(hookline.HookPoint, point.upper())
    assert hasattr(hookline.AgentBuilder, f"on_{point}")


@pytest.mark.parametrize(
    "method", [*(f"on_{point}" for point in POINTS), "around_tool_use", "around_inference"]
)
def test_every_registration_takes_the_same_options(method: str) -> None:
    """A hook's options are the same at every point."""
    parameters = inspect.signature(getattr(hookline.AgentBuilder, method)).parameters
    assert list(parameters) == ["self", "callback", "options"]
    assert parameters["options"].annotation == "Unpack[HookOptions]"


@pytest.mark.parametrize(
    "method",
    [
        hookline.AgentBuilder.on_stop,
        hookline.AgentBuilder.add_hook,
        hookline.AgentBuilder.with_hook,
        hookline.AgentBuilder.add_processor,
        hookline.AgentBuilder.add_pre_processor,
        hookline.AgentBuilder.add_continuation_criteria,
        hookline.hook,
        hookline.HookStack.with_hook,
        hookline.capabilities.Hooks.on,
        hookline.testing.check_hook,
    ],
)
def test_every_way_to_register_takes_the_one_list_of_options(method: Any) -> None:
    """None of them has options of its own."""
    *_, last = inspect.signature(method).parameters.values()
    assert (last.kind, last.annotation) == (last.VAR_KEYWORD, "Unpack[HookOptions]")


def test_an_option_has_its_name_and_default() -> None:
    """A hook without options is registered like one with every default spelled out."""

    def look(ctx: Any) -> None: ...

    assert HookOptions.__annotations__.keys() == HOOK_OPTIONS.keys()
    spelled_out = HookOptions(**HOOK_OPTIONS)  # type: ignore[typeddict-item]
    point = hookline.HookPoint.STOP
    assert register(point, look, spelled_out) == register(point, look)


def test_the_fixed_example_runs() -> None:
    """The example that acceptance is written with does what it says."""

    @hookline.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    driver = ScriptedDriver([call("add", a=2, b=3), say("5", tokens=7)])
    agent = (
        hookline.AgentBuilder()
        .with_driver(driver)
        .with_tools(add)
        .on_before_tool_use(
            lambda ctx: (
                hookline.HookOutcome.block("too big") if ctx.tool_call.args["a"] > 10 else None
            ),
            matcher="add",
            priority=100,
            name="size",
        )
        .build()
    )
    result = agent.run_sync("2+3?")
    assert (result.text, result.status) == ("5", hookline.RunStatus.COMPLETED)
    assert result.state.step_count == 2
    assert "2+3?" in str(driver.requests[0])


def test_one_turn_can_hold_several_calls() -> None:
    """`calls` makes one step of several calls."""

    def echo(text: str) -> str:
        """Say it again."""
        return text

    turns = [calls(call("echo", text="a"), call("echo", text="b")), say("done")]
    agent = hookline.AgentBuilder().with_driver(ScriptedDriver(turns)).with_tools(echo).build()
    assert agent.run_sync("go").state.step_count == 2
