"""`hookline tools`: the tools of the agent."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import TYPE_CHECKING

from hookline.cli.options import add_agent_flags, load_settings, take_target

if TYPE_CHECKING:
    from hookline.config import Settings

DESCRIPTION = "The tools of the agent, and what each came with."


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    words = "your own agent; one of the tools, to see its parameters"
    parser.add_argument("words", nargs="*", metavar="[module:agent] [NAME]", help=words)
    schema = "one JSON object per line, with its schema"
    parser.add_argument("--json", action="store_true", help=schema)
    add_agent_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """List the tools."""
    take_target(arguments, arguments.words, most=1)
    return asyncio.run(_print_tools(arguments, load_settings(arguments)))


async def _print_tools(arguments: argparse.Namespace, settings: Settings) -> int:
    from hookline.cli.assembly import opened, without_model
    from hookline.cli.terminal import fitted, in_columns, list_width, printable
    from hookline.errors import UsageError

    wanted = arguments.words[0] if arguments.words else None
    notes: list[str] = []
    async with opened(settings, without_model(note=notes.append)) as agent:
        toolbox, sources = agent.definition.toolbox, agent.definition.brought
        if wanted and wanted not in toolbox:
            unknown = toolbox.unknown(wanted)
            raise UsageError(unknown.message, remedy=unknown.remedy)
        specs = [spec for spec in toolbox.specs if wanted in (None, spec.name)]
        if arguments.json:
            for spec in specs:
                row = {
                    "name": spec.name,
                    "from": sources.get(spec.name, ""),
                    "description": spec.description,
                    "parameters": spec.parameters,
                }
                print(json.dumps(row, ensure_ascii=False))
        elif wanted:
            (spec,) = specs
            source = sources.get(wanted, "") or "your own"
            print(f"{wanted} ({source})\n\n{printable(spec.description, lines=True)}\n")
            schema = json.dumps(spec.parameters, indent=2, ensure_ascii=False)
            print(printable(schema, lines=True))
        else:
            rows = [
                [spec.name, sources.get(spec.name, ""), spec.description.strip().partition("\n")[0]]
                for spec in specs
            ]
            for line in in_columns([[printable(cell) for cell in row] for row in rows]):
                print(fitted(line, list_width(sys.stdout)))
    for note in notes:
        print(f"hookline: {note}", file=sys.stderr)
    return 0
