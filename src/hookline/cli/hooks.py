"""`hookline hooks list|explain|lint|test`: which hooks there are, and what they would say."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from hookline.cli.exits import Exit
from hookline.cli.options import add_agent_flags, flags_of, take_target

if TYPE_CHECKING:
    from hookline.agent import Agent
    from hookline.config import Settings
    from hookline.errors import UsageError

Action = Callable[["Agent", argparse.Namespace], Awaitable[int]]


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "hooks",
        help="list, explain, lint or test hooks",
        description="The hooks of the agent that `hookline run` would use here.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser(
        "list", help="every hook: where it runs, what for, and where it came from"
    )
    listing.add_argument(
        "--points", action="store_true", help="every point, and what a hook can do there"
    )
    listing.add_argument("--json", action="store_true", help="one JSON object per line")
    listing.set_defaults(
        run=lambda arguments: (
            _points(arguments) if arguments.points else _with_agent(_list, arguments)
        )
    )
    explaining = actions.add_parser(
        "explain", help="what runs in which order, or what a call would meet"
    )
    _add_words(explaining)
    explaining.set_defaults(takes_tool=True, run=lambda arguments: _with_agent(_explain, arguments))
    linting = actions.add_parser(
        "lint", help="what cannot be right about them; exit code 1 if there is something"
    )
    linting.set_defaults(run=lambda arguments: _with_agent(_lint, arguments))
    testing = actions.add_parser(
        "test",
        help="what each hook would answer to a call, a prompt or an answer",
        description="Ask each hook by itself. The tool does not run. Exit code 4 if one of them blocks or stops, 5 "
        "if one asks.",
    )
    _add_words(testing)
    testing.add_argument(
        "--result", metavar="TEXT", help="as if the tool had given this: asks the hooks after it"
    )
    testing.add_argument(
        "--prompt", metavar="TEXT", help="ask the hooks at prompt_submit about a prompt"
    )
    testing.add_argument(
        "--answer", metavar="TEXT", help="ask the hooks at stop and output about an answer"
    )
    testing.add_argument("--json", action="store_true", help="one JSON object per hook")
    testing.set_defaults(takes_tool=True, run=_test)
    for action in (listing, linting):
        action.add_argument(
            "words", nargs="*", metavar="[module:agent]", help="an agent of your own"
        )
    for action in (listing, explaining, linting, testing):
        add_agent_flags(action)


def _add_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[module:agent] [TOOL] [ARGUMENTS]",
        help="an agent of your own; a tool; its arguments: JSON, or the only one that it needs",
    )


def _read_words(arguments: argparse.Namespace) -> None:
    """The agent, the tool and its arguments, as far as they are there."""
    from hookline.errors import UsageError

    words = list(arguments.words)
    take_target(arguments, words)
    most = 2 if hasattr(arguments, "takes_tool") else 0
    if len(words) > most:
        quoted = """Put the arguments into quotes: bash 'git push', read '{"path": "a.txt"}'."""
        raise UsageError(
            f"there is nothing to do with {words[most]!r}.",
            remedy=quoted if most else "An agent of your own is named module:agent.",
        )
    arguments.tool = words[0] if words else None
    arguments.args = words[1] if len(words) > 1 else "{}"


def _with_agent(action: Action, arguments: argparse.Namespace) -> int:
    from hookline.cli.assembly.verify import load

    _read_words(arguments)
    settings = load(flags_of(arguments), bare=arguments.bare)
    _hint(settings)
    arguments.waiting = _waiting(settings)

    async def opened_for() -> int:
        from hookline.cli.assembly import Extras, opened
        from hookline.drivers import ScriptedDriver

        async with opened(settings, Extras(driver=ScriptedDriver([]))) as agent:
            return await action(agent, arguments)

    return asyncio.run(opened_for())


def _hint(settings: Settings) -> None:
    from hookline.cli.terminal import printable

    if settings.trust_hint:
        print(f"hookline: {printable(settings.trust_hint)}", file=sys.stderr)


def _waiting(settings: Settings) -> list[str]:
    """The hooks of the configuration that would be this agent's, and are not in force before the project is trusted."""
    if settings.target:
        return []  # an agent of the user's own has its own
    return [each.where for each in settings.held if each.setting.startswith("hooks[")]


def _points(arguments: argparse.Namespace) -> int:
    from hookline.errors import UsageError
    from hookline.lifecycle import HookPoint

    if arguments.words:
        raise UsageError(
            f"there is nothing to do with {arguments.words[0]!r}.",
            remedy="--points lists those of every agent.",
        )
    for point in HookPoint:
        can = ", ".join(sorted(point.verdicts)) if not point.around else "wrap the action"
        print(f"{point.value:<20} {can or 'nothing but look'}")
        if point.blocks:
            print(f"{'':<20} a block: {point.blocks}")
    return Exit.DONE


async def _list(agent: Agent, arguments: argparse.Namespace) -> int:
    from hookline.cli.terminal import in_columns, printable
    from hookline.hooks import describe
    from hookline.lifecycle import HookPoint

    rows: list[dict[str, str]] = []
    for point in HookPoint:
        plan = agent.definition.plans.of(point.value)
        for entry in plan.entries if plan is not None else ():
            registration = entry.registration
            when = "always" if registration.matcher is None else describe(registration.matcher)
            source = registration.source or "yours"
            rows.append(
                {
                    "point": point.value,
                    "hook": entry.name,
                    "tier": entry.tier_name,
                    "from": source,
                    "when": when,
                }
            )
    if arguments.json:
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    else:
        lines = in_columns([[printable(cell) for cell in row.values()] for row in rows])
    for line in lines:
        print(line)
    return Exit.DONE


async def _explain(agent: Agent, arguments: argparse.Namespace) -> int:
    from hookline.cli.terminal import page_width, printable
    from hookline.inspection import explain

    args = _arguments_for(agent, arguments) if arguments.tool else {}
    if arguments.tool and agent.definition.toolbox.get(arguments.tool) is None:
        raise _unknown(agent, arguments.tool)
    told = explain(agent.definition, arguments.tool, args, width=page_width(sys.stdout))
    print(printable(told, lines=True))
    return Exit.DONE


def _arguments_for(agent: Agent, arguments: argparse.Namespace) -> dict[str, Any]:
    """The arguments of the call. Where they make no sense, it may be that there is no such tool to begin with."""
    from hookline.errors import UsageError

    try:
        return arguments_of(arguments.tool, arguments.args)
    except UsageError:
        tool = agent.definition.toolbox.get(arguments.tool)
        if tool is None:
            raise _unknown(agent, arguments.tool) from None
        only = _only_text(tool.spec.parameters)
        if not only or arguments.args.lstrip()[:1] in ("{", "["):
            raise
        return {only: arguments.args}


def _only_text(schema: Mapping[str, Any]) -> str:
    """The one argument that a tool cannot do without, if that is text: it may be given as it is, like a command."""
    needed = schema.get("required", ())
    is_text = len(needed) == 1 and schema["properties"][needed[0]].get("type") == "string"
    return str(needed[0]) if is_text else ""


def _unknown(agent: Agent, tool: str) -> UsageError:
    from hookline.errors import UsageError

    unknown = agent.definition.toolbox.unknown(tool)
    return UsageError(unknown.message, remedy=unknown.remedy)


async def _lint(agent: Agent, arguments: argparse.Namespace) -> int:
    from hookline.cli.terminal import printable

    remedy = "Look at it, then: hookline trust"
    findings = [
        *(f"untrusted: {where}: the hook is not in force. {remedy}" for where in arguments.waiting),
        *map(str, agent.lint()),
    ]
    for finding in findings:
        print(printable(finding))
    if not findings:
        print("nothing to complain about", file=sys.stderr)
    return Exit.FAILED if findings else Exit.DONE


def arguments_of(tool: str, text: str) -> dict[str, Any]:
    """The arguments of a call: JSON, or the command itself for a shell."""
    from hookline.errors import UsageError

    try:
        args = json.loads(text)
    except ValueError as error:
        if tool == "bash":
            return {"command": text}
        raise UsageError(
            f"the arguments are not JSON: {error}.", remedy="""Write '{"path": "a.txt"}'."""
        ) from None
    if not isinstance(args, dict):
        raise UsageError(
            f"the arguments are {args!r}.", remedy="""Give an object: '{"path": "a.txt"}'."""
        )
    return args


def _call_arguments(arguments: argparse.Namespace, settings: Settings) -> dict[str, Any]:
    from hookline.cli.assembly import Extras, opened
    from hookline.drivers import ScriptedDriver
    from hookline.errors import UsageError

    async def looked_up() -> dict[str, Any]:
        async with opened(settings, Extras(driver=ScriptedDriver([]))) as agent:
            return _arguments_for(agent, arguments)

    try:
        return arguments_of(arguments.tool, arguments.args)
    except UsageError:
        return asyncio.run(looked_up())


def _test(arguments: argparse.Namespace) -> int:
    from hookline.cli.asking import Occasion, asked
    from hookline.cli.assembly.verify import load
    from hookline.cli.terminal import printable
    from hookline.errors import UsageError

    _read_words(arguments)
    given = [name for name in ("tool", "prompt", "answer") if getattr(arguments, name) is not None]
    if len(given) != 1:
        both = " and ".join("a tool" if name == "tool" else f"--{name}" for name in given)
        raise UsageError(
            f"{both} are several things to ask the hooks about."
            if given
            else "there is nothing to ask the hooks about.",
            remedy="Name a tool, --prompt or --answer.",
        )
    if arguments.result is not None and not arguments.tool:
        raise UsageError(
            "--result is what a tool gives, and there is none.",
            remedy="""Name it: hookline hooks test read '{"path": "a.txt"}' --result TEXT.""",
        )
    settings = load(flags_of(arguments), bare=arguments.bare)
    _hint(settings)
    args = _call_arguments(arguments, settings) if arguments.tool else {}
    occasion = Occasion(
        tool=arguments.tool or "",
        args=args,
        result=arguments.result,
        prompt=arguments.prompt,
        answer=arguments.answer,
    )
    verdicts = asyncio.run(asked(settings, occasion))
    for verdict in verdicts:
        if arguments.json:
            print(verdict.as_json())
        else:
            print(printable(str(verdict), lines=True))
    if not verdicts:
        print("no hook is asked about that", file=sys.stderr)
    kinds = {verdict.kind for verdict in verdicts if not (verdict.shadow or verdict.fails_open)}
    if kinds & {"block", "stop", "failed"}:
        return Exit.BLOCKED
    return Exit.WAITING if "ask" in kinds else Exit.DONE
