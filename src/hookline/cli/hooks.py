"""`hookline hooks list|explain|lint|test`: the hooks of the agent, and what they would decide."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from hookline.cli.exits import Exit
from hookline.cli.options import add_agent_flags, load_settings, take_target

if TYPE_CHECKING:
    from hookline.agent import Agent
    from hookline.config import Settings

DESCRIPTION = "The hooks of the agent that `hookline run` would use here."
_TEST_DESCRIPTION = (
    "Ask each hook by itself. No tool runs. Exit code 4 if one blocks or stops, 5 if one asks."
)
_EXAMPLE = """'{"path": "a.txt"}'"""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the actions of the command."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="every hook: point, tier, origin and condition")
    points = "every point, and what a hook can do there"
    listing.add_argument("--points", action="store_true", help=points)
    listing.add_argument("--json", action="store_true", help="one JSON object per line")
    listing.set_defaults(run=_list)
    explain = actions.add_parser("explain", help="which hooks run in which order, or about a call")
    explain.set_defaults(run=_explain)
    lint = actions.add_parser("lint", help="mistakes in them; exit code 1 if there is one")
    lint.set_defaults(run=_lint)
    about = "what each hook would answer to a call, a prompt or an answer"
    test = actions.add_parser("test", help=about, description=_TEST_DESCRIPTION)
    result = "as if the tool had returned this: asks the hooks after it"
    test.add_argument("--result", metavar="TEXT", help=result)
    test.add_argument("--prompt", metavar="TEXT", help="ask the hooks at prompt_submit about it")
    test.add_argument("--answer", metavar="TEXT", help="ask the hooks at stop and output about it")
    test.add_argument("--json", action="store_true", help="one JSON object per hook")
    test.set_defaults(run=_test)
    for action in (listing, lint):
        action.add_argument("words", nargs="*", metavar="[module:agent]", help="your own agent")
    call = "your own agent; a tool; its arguments: JSON, or the only one that it needs"
    for action in (explain, test):
        names = "[module:agent] [TOOL] [ARGUMENTS]"
        action.add_argument("words", nargs="*", metavar=names, help=call)
    for action in (listing, explain, lint, test):
        add_agent_flags(action)


def _with_agent(settings: Settings, action: Callable[[Agent], Awaitable[Any]]) -> Any:
    """Run an action with the agent."""
    from hookline.cli.assembly import opened, without_model

    async def run() -> Any:
        async with opened(settings, without_model()) as agent:
            return await action(agent)

    return asyncio.run(run())


# --- list, explain, lint --------------------------------------------------------------------------------


def _list(arguments: argparse.Namespace) -> int:
    if arguments.points:
        return _list_points(arguments)
    take_target(arguments, arguments.words, most=0)

    async def print_hooks(agent: Agent) -> None:
        from hookline.cli.terminal import in_columns, printable

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
    from hookline.hooks import describe
    from hookline.lifecycle import HookPoint

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
    from hookline.errors import UsageError
    from hookline.lifecycle import HookPoint

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


def _explain(arguments: argparse.Namespace) -> int:
    take_target(arguments, arguments.words, most=2)
    tool, *rest = arguments.words or [None]

    async def explain_call(agent: Agent) -> None:
        from hookline.cli.terminal import page_width, printable
        from hookline.inspection import explain

        args = arguments_for(agent, tool, rest) if tool else {}
        text = explain(agent.definition, tool, args, width=page_width(sys.stdout))
        print(printable(text, lines=True))

    _with_agent(load_settings(arguments), explain_call)
    return Exit.DONE


def _lint(arguments: argparse.Namespace) -> int:
    from hookline.cli.terminal import printable

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
    from hookline.errors import UsageError

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


def _test(arguments: argparse.Namespace) -> int:
    from hookline.cli.hook_test import HookTestCase, ask_hooks
    from hookline.cli.terminal import printable

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
    from hookline.errors import UsageError

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
