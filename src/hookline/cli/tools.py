"""`hookline tools`: the tools of the agent."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from hookline.cli.assembly.agent import open_agent, without_model
from hookline.cli.json_output import print_json
from hookline.cli.options import load_settings, take_target
from hookline.cli.terminal import align_columns, fit_text, list_width, print_text, printable, report
from hookline.config import Settings
from hookline.errors import UsageError


def run(arguments: argparse.Namespace) -> int:
    """List the tools."""
    take_target(arguments, arguments.words, most=1)
    return asyncio.run(_print_tools(arguments, load_settings(arguments)))


async def _print_tools(arguments: argparse.Namespace, settings: Settings) -> int:
    wanted = arguments.words[0] if arguments.words else None
    notes: list[str] = []
    async with open_agent(settings, without_model(note=notes.append)) as agent:
        toolbox, sources = agent.definition.toolbox, agent.definition.tool_capabilities
        if wanted and wanted not in toolbox:
            unknown = toolbox.unknown_error(wanted)
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
                print_json(row)
        elif wanted:
            (spec,) = specs
            source = sources.get(wanted, "") or "your own"
            print_text(f"{wanted} ({source})\n\n{printable(spec.description, lines=True)}\n")
            schema = json.dumps(spec.parameters, indent=2, ensure_ascii=False)
            print(printable(schema, lines=True))
        else:
            rows = [
                [spec.name, sources.get(spec.name, ""), spec.description.strip().partition("\n")[0]]
                for spec in specs
            ]
            for line in align_columns([[printable(cell) for cell in row] for row in rows]):
                print(fit_text(line, list_width(sys.stdout)))
    for note in notes:
        report(note)
    return 0
