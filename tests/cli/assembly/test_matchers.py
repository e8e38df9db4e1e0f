"""What `match` is for: the same for rules and for Python hooks, at every point; or an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder, HookPoint
from hookline.cli.assembly.hooks import ConfiguredHooks
from hookline.config import Layer, load
from hookline.config.layers import check_layer
from hookline.drivers import ScriptedDriver, call, say
from hookline.errors import ConfigError

_NOTED: list[str] = []


def note(ctx: Any) -> None:
    """A Python hook that is only seen to have been asked."""
    _NOTED.append(ctx.point.value)


def fires(tmp_path: Path, on: str, match: Any, *, do: str = "log") -> bool:
    """Whether a rule, and a Python hook beside it, are asked in a run in which much is said. Both are, or none is."""
    ways: tuple[dict[str, Any], ...] = ({"do": do, "reason": "x"}, {"run": f"{__name__}:note"})
    hooks = [{"on": on, "match": match, **way} for way in ways]
    settings = load(
        tmp_path, {"HOME": str(tmp_path)}, flags=check_layer(Layer("flag", {"hooks": hooks}))
    )

    def bash(command: str) -> str:
        """Run a command."""
        return "it has run"

    driver = ScriptedDriver([call("bash", command="echo first"), say("The last words.")])
    builder = AgentBuilder().with_driver(driver).with_tools(bash)
    agent = builder.with_capability(ConfiguredHooks(settings, tmp_path)).build()
    _NOTED.clear()
    result = agent.run_sync("The question.")
    records = [record for record in result.records if getattr(record, "point", "") == on]
    named = {getattr(record, "hook", "") for record in records}
    for record in records:
        named |= {*getattr(record, "hooks", ())}
    is_asked = any(name.startswith(f"{do}: ") for name in named)
    assert is_asked == bool(_NOTED)
    return is_asked


@pytest.mark.parametrize(
    ("match", "is_for_it"),
    [
        ("bash", True),
        ("Bash", True),
        ("Bash|Read", True),
        ("read|bash", True),
        ("read, bash", True),
        ("Edit|Write", False),
        ("read|b*", True),
        ("Bash(echo *)", True),
        ({"tool": "Read|Bash"}, True),
        ("KillShell", False),
    ],
)
def test_tools_have_the_names_that_other_agents_give_them(
    match: Any, is_for_it: bool, tmp_path: Path
) -> None:
    """And several of them stand beside each other, as in a matcher of a command."""
    assert fires(tmp_path, "before_tool_use", match) == is_for_it


@pytest.mark.parametrize(
    ("on", "words"),
    [
        ("prompt_submit", "question"),
        ("before_inference", "question"),
        ("after_inference", "last words"),
        ("after_inference", "echo first"),
        ("after_step", "last words"),
        ("should_continue", "last words"),
        ("stop", "last words"),
        ("output", "/LAST/i"),
    ],
)
def test_elsewhere_words_are_matched(on: str, words: str, tmp_path: Path) -> None:
    """Those that are said at the point: a hook for other words is not asked."""
    assert fires(tmp_path, on, words)
    assert not fires(tmp_path, on, "something else")


@pytest.mark.parametrize("hook", [{"do": "log"}, {"run": f"{__name__}:note"}])
@pytest.mark.parametrize(
    "on", ["session_start", "execution_start", "before_step", "execution_end", "session_end"]
)
def test_where_nothing_is_said_nothing_can_be_matched(
    on: str, hook: dict[str, Any], tmp_path: Path
) -> None:
    """A guard that could never speak up is an error, and not in force."""
    given = [{"on": on, "match": "words", **hook}]
    settings = load(
        tmp_path, {"HOME": str(tmp_path)}, flags=check_layer(Layer("flag", {"hooks": given}))
    )
    with pytest.raises(ConfigError, match=f"there is no text to match at {on}"):
        list(ConfiguredHooks(settings, tmp_path).hooks())


@pytest.mark.parametrize("on", [point.value for point in HookPoint if point.around])
@pytest.mark.parametrize("do", ["log", "stop"])
def test_a_rule_cannot_stand_around_an_action(on: str, do: str, tmp_path: Path) -> None:
    """It has nothing to hand the call on with; the points before and after are named."""
    given = [{"on": on, "do": do, "reason": "x"}]
    settings = load(
        tmp_path, {"HOME": str(tmp_path)}, flags=check_layer(Layer("flag", {"hooks": given}))
    )
    with pytest.raises(ConfigError, match=on.replace("around", "before")):
        list(ConfiguredHooks(settings, tmp_path).hooks())


@pytest.mark.parametrize(
    ("do", "tier"),
    [(do, "observer") for do in ("block", "ask", "stop", "redact")] + [("redact", "policy")],
)
def test_a_rule_does_what_its_tier_can(do: str, tier: str, tmp_path: Path) -> None:
    """What an observer says would not count, and a policy may change nothing."""
    given = [{"on": "before_tool_use", "do": do, "tier": tier, "reason": "x"}]
    settings = load(
        tmp_path, {"HOME": str(tmp_path)}, flags=check_layer(Layer("flag", {"hooks": given}))
    )
    with pytest.raises(ConfigError, match=r"an observer cannot|a policy cannot redact"):
        list(ConfiguredHooks(settings, tmp_path).hooks())
