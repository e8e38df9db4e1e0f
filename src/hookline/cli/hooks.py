"""`hookline hooks list|explain|lint|test`: the hooks of the agent, and what they would decide."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from hookline.agent import Agent
from hookline.cli.assembly.agent import opened, without_model
from hookline.cli.exits import Exit
from hookline.cli.hook_test import HookTestCase, ask_hooks
from hookline.cli.options import load_settings, take_target
from hookline.cli.terminal import in_columns, page_width, printable
from hookline.config import Settings
from hookline.errors import UsageError
from hookline.hooks import describe
from hookline.inspection import explain
from hookline.lifecycle import HookPoint

_EXAMPLE = """'{"path": "a.txt"}'"""


def _with_agent(settings: Settings, action: Callable[[Agent], Awaitable[Any]]) -> Any:
    """Run an action with the agent."""

    async def run() -> Any:
        async with opened(settings, without_model()) as agent:
            return await action(agent)

    return asyncio.run(run())


# --- list, explain, lint --------------------------------------------------------------------------------


def list_hooks(arguments: argparse.Namespace) -> int:
    """Every hook of the agent, or every point."""
    if arguments.points:
        return _list_points(arguments)
    take_target(arguments, arguments.words, most=0)

    async def print_hooks(agent: Agent) -> None:
        rows = _rows(agent)
        if arguments.json:
            lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        else:
            lines = in_columns([[printable(cell) for cell in row.values()] for row in rows])
        for line in lines:
            print(line)

    _with_agent(load_settings(arguments), print_hooks)
    return Exit.DONE


def _rows(agent: Agent) -> list[dict[str, str]]:
    rows = []
    for point in HookPoint:
        plan = agent.definition.plans.of(point.value)
        for entry in plan.entries if plan is not None else ():
            matcher = entry.registration.matcher
            rows.append(
                {
                    "point": point.value,
                    "hook": entry.name,
                    "tier": entry.tier_name,
                    "from": entry.registration.source or "yours",
                    "when": "always" if matcher is None else describe(matcher),
                }
            )
    return rows


def _list_points(arguments: argparse.Namespace) -> int:
    if arguments.words:
        raise UsageError(
            f"{arguments.words[0]!r} has no meaning here.",
            remedy="--points lists those of every agent.",
        )
    for point in HookPoint:
        can = ", ".join(sorted(point.verdicts)) if not point.around else "wrap the action"
        print(f"{point.value:<20} {can or 'only observe'}")
        if point.blocks:
            print(f"{'':<20} a block: {point.blocks}")
    return Exit.DONE


def explain_hooks(arguments: argparse.Namespace) -> int:
    """Which hooks run, in which order, and about which calls."""
    take_target(arguments, arguments.words, most=2)
    tool, *rest = arguments.words or [None]

    async def explain_call(agent: Agent) -> None:
        args = arguments_for(agent, tool, rest) if tool else {}
        text = explain(agent.definition, tool, args, width=page_width(sys.stdout))
        print(printable(text, lines=True))

    _with_agent(load_settings(arguments), explain_call)
    return Exit.DONE


def lint_hooks(arguments: argparse.Namespace) -> int:
    """The mistakes in the hooks."""
    take_target(arguments, arguments.words, most=0)
    settings = load_settings(arguments)

    async def lint(agent: Agent) -> list[str]:
        return list(map(str, agent.lint()))

    # An agent in Python has its own hooks: those of the configuration are not its.
    held = [] if settings.target else settings.held
    findings = [
        f"untrusted: {each.where}: the hook is not in force. Look at it, then: hookline trust"
        for each in held
        if each.setting.startswith("hooks[")
    ]
    findings += _with_agent(settings, lint)
    for finding in findings:
        print(printable(finding))
    if not findings:
        print("no mistakes found", file=sys.stderr)
    return Exit.FAILED if findings else Exit.DONE


# --- test ---------------------------------------------------------------------------------------------


def arguments_for(agent: Agent, name: str, given: list[str]) -> dict[str, Any]:
    """The arguments of a call: JSON, or as plain text the only argument that the tool needs."""
    text = given[0] if given else "{}"
    tool = agent.definition.toolbox.get(name)
    if tool is None:
        unknown = agent.definition.toolbox.unknown(name)
        raise UsageError(unknown.message, remedy=unknown.remedy)
    try:
        args = json.loads(text)
    except ValueError as error:
        schema = tool.spec.parameters
        needed = schema.get("required", ())
        is_text = len(needed) == 1 and schema["properties"][needed[0]].get("type") == "string"
        if is_text and text.lstrip()[:1] not in ("{", "["):
            return {str(needed[0]): text}
        raise UsageError(
            f"the arguments are not JSON: {error}.", remedy=f"Write {_EXAMPLE}."
        ) from None
    if not isinstance(args, dict):
        raise UsageError(f"the arguments are {args!r}.", remedy=f"Give an object: {_EXAMPLE}.")
    return args


def test_hooks(arguments: argparse.Namespace) -> int:
    """What each hook would answer."""
    _check_test(arguments)
    settings = load_settings(arguments)
    tool, *rest = arguments.words or [""]

    async def read_arguments(agent: Agent) -> dict[str, Any]:
        return arguments_for(agent, tool, rest)

    args = _with_agent(settings, read_arguments) if tool else {}
    case = HookTestCase(
        tool=tool,
        args=args,
        result=arguments.result,
        prompt=arguments.prompt,
        answer=arguments.answer,
    )
    answers = asyncio.run(ask_hooks(settings, case))
    for answer in answers:
        print(answer.as_json() if arguments.json else printable(str(answer), lines=True))
    if not answers:
        print("no hook is asked about that", file=sys.stderr)
    kinds = {answer.kind for answer in answers if not (answer.shadow or answer.fails_open)}
    if kinds & {"block", "stop", "failed"}:
        return Exit.BLOCKED
    return Exit.WAITING if "ask" in kinds else Exit.DONE


def _check_test(arguments: argparse.Namespace) -> None:
    take_target(arguments, arguments.words, most=2)
    given = ["a tool"] if arguments.words else []
    given += [f"--{name}" for name in ("prompt", "answer") if getattr(arguments, name) is not None]
    if len(given) != 1:
        raise UsageError(
            f"{' and '.join(given)} are several things to ask the hooks about."
            if given
            else "there is nothing to ask the hooks about.",
            remedy="Name a tool, --prompt or --answer.",
        )
    if arguments.result is not None and not arguments.words:
        raise UsageError(
            "--result is what a tool gives, and there is none.",
            remedy=f"Name it: hookline hooks test read {_EXAMPLE} --result TEXT.",
        )
