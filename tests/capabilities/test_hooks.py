"""A bundle of hooks: any hooks, under one name, all of them or none."""

from __future__ import annotations

from typing import Any

import pytest

from hookline import (
    AgentBuilder,
    HookOutcome,
    HookPoint,
    RunStatus,
    ToolHookContext,
    hook,
    on,
    tool,
)
from hookline.capabilities import Hooks
from hookline.errors import BuildError, RegistrationError
from hookline.testing import ScriptedDriver, call, say


@tool
def shell(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


def agent_with(bundle: Any) -> Any:
    """A builder whose model runs one command."""
    driver = ScriptedDriver([call("shell", command="rm x"), say("done")])
    return AgentBuilder().with_driver(driver).with_tools(shell).with_capability(bundle)


def no_rm(ctx: ToolHookContext) -> HookOutcome | None:
    """Block rm."""
    return HookOutcome.block("no rm") if "rm" in ctx.tool_call.args["command"] else None


class Telemetry:
    def __init__(self) -> None:
        self.seen: list[str] = []

    @on.step_end(tier="observer")
    def step(self, ctx: Any) -> None:
        """Note a step."""
        self.seen.append(f"step {ctx.step_index}")

    @on.execution_end
    def end(self, ctx: Any) -> None:
        """Note the end."""
        self.seen.append(ctx.status.value)


def test_hooks_of_every_kind_are_installed_together() -> None:
    """Mappings, registrations, objects with decorated methods and `on` end up under the bundle's name."""
    telemetry = Telemetry()
    noted: list[str] = []
    bundle = Hooks(
        "safety",
        {"PreToolUse": [no_rm]},
        hook("stop", lambda ctx: noted.append("stop"), name="note-stop"),
        telemetry,
    ).on("execution_start", lambda ctx: noted.append("start"), name="note-start")
    agent = agent_with(bundle).build()
    result = agent.run_sync("go")
    assert result.steps[0].results[0].text == "Blocked: no rm"
    assert (noted, telemetry.seen) == (["start", "stop"], ["step 0", "step 1", "completed"])
    assert "capabilities  safety" in agent.explain()
    assert {each.source for each in agent.definition.registrations} == {"default", "safety"}


def test_options_of_a_hook_are_kept() -> None:
    """`on` takes the options every registration takes."""
    bundle = Hooks("x").on(
        HookPoint.BEFORE_TOOL_USE, no_rm, matcher="shell", tier="policy", priority=7, name="rm"
    )
    (made,) = bundle.hooks()
    assert (made.name, made.tier, made.priority, made.scope) == ("rm", "policy", 7, "tree")


def test_a_whole_bundle_runs_in_shadow() -> None:
    """In shadow its verdicts are recorded and not enforced, and observers stay what they are."""
    telemetry = Telemetry()
    result = (
        agent_with(Hooks("s", {"before_tool_use": no_rm}, telemetry, shadow=True))
        .build()
        .run_sync("go")
    )
    assert result.steps[0].results[0].text == "ran rm x"
    assert telemetry.seen[:2] == ["step 0", "step 1"]
    assert [r for r in result.records if r.type == "hook" and r.shadow]


def test_two_bundles_need_two_names() -> None:
    """The same name twice is refused, and another name is not."""
    builder = agent_with(Hooks("a", {"before_tool_use": no_rm}))
    with pytest.raises(BuildError, match="'a' is installed already"):
        builder.with_capability(Hooks("a", {"stop": lambda ctx: None}))
    builder.with_capability(Hooks("b", {"stop": lambda ctx: None}))
    assert builder.build().run_sync("go").status is RunStatus.COMPLETED


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Hooks(no_rm), "needs a name"),  # type: ignore[arg-type]
        (lambda: Hooks(""), "needs a name"),
        (lambda: Hooks("x", {"before_tool": no_rm, "no such": no_rm}), "not a hook point"),
        (lambda: Hooks("x", {"PreToolUse": lambda call, state: call}), "takes one argument"),
        (lambda: Hooks("x", no_rm), "has no hooks"),
        (lambda: Hooks("x").hooks(), "is empty"),
        (lambda: Hooks("x", {"stop": no_rm}, shadow=1), "shadow= takes True or False"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_work_is_refused_at_once(make: Any, words: str) -> None:
    """Wrong names, points and shapes are errors that say what to do."""
    with pytest.raises((BuildError, RegistrationError), match=words):
        make()
