"""`hookline tools`: what the agent can do here."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from hookline.cli.options import add_agent_flags, flags_of, take_target

if TYPE_CHECKING:
    from hookline.config import Settings


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "tools",
        help="list the tools the agent has here",
        description="The tools of the agent, and what each came with.",
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="[module:agent] [NAME]",
        help="an agent of your own; one of the tools, to see its parameters",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object per line, with its schema"
    )
    add_agent_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List them."""
    from hookline.cli.assembly.verify import load
    from hookline.cli.terminal import printable
    from hookline.errors import UsageError

    take_target(arguments, arguments.words)
    if len(arguments.words) > 1:
        raise UsageError(
            f"there is nothing to do with {arguments.words[1]!r}.", remedy="Name one tool, or none."
        )
    arguments.name = arguments.words[0] if arguments.words else None
    settings = load(flags_of(arguments), bare=arguments.bare)
    if settings.trust_hint:
        print(f"hookline: {printable(settings.trust_hint)}", file=sys.stderr)
    return asyncio.run(_tools(arguments, settings))


async def _tools(arguments: argparse.Namespace, settings: Settings) -> int:
    from hookline.cli.assembly import Extras, opened
    from hookline.cli.terminal import printable
    from hookline.drivers import ScriptedDriver
    from hookline.errors import UsageError

    notes: list[str] = []
    async with opened(settings, Extras(driver=ScriptedDriver([]), note=notes.append)) as agent:
        definition = agent.definition
        if arguments.name and arguments.name not in definition.toolbox:
            unknown = definition.toolbox.unknown(arguments.name)
            raise UsageError(unknown.message, remedy=unknown.remedy)
        listed: list[list[str]] = []
        for spec in definition.toolbox.specs:
            source = definition.brought.get(spec.name, "")
            told = {
                "name": spec.name,
                "from": source,
                "description": spec.description,
                "parameters": spec.parameters,
            }
            if arguments.name and spec.name != arguments.name:
                continue
            if arguments.json:
                print(json.dumps(told, ensure_ascii=False))
            elif arguments.name:
                print(
                    f"{spec.name} ({source or 'your own'})\n\n{printable(spec.description, lines=True)}\n"
                )
                shown = json.dumps(spec.parameters, indent=2, ensure_ascii=False)
                print(printable(shown, lines=True))
            else:
                first = spec.description.strip().splitlines()[0] if spec.description.strip() else ""
                listed.append([printable(spec.name), printable(source), printable(first)])
        _print(listed)
    for note in notes:
        print(f"hookline: {note}", file=sys.stderr)
    return 0


def _print(listed: list[list[str]]) -> None:
    from hookline.cli.terminal import fitted, in_columns, is_terminal, width

    room = width() if is_terminal(sys.stdout) else 200
    for line in in_columns(listed):
        print(fitted(line, room))
