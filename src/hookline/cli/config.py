"""`hookline config show|schema|where`: each setting, and where it came from."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

from hookline.cli.exits import Exit
from hookline.cli.options import add_agent_flags, flags_of

DESCRIPTION = (
    "The configuration. Later ones win: defaults, your own file, the project's files "
    "(pyproject.toml, hookline.toml, .hookline/config.toml), the agent's table, variables, flags."
)
_BETWEEN = "[-_]*"
"""What a spelling of a hook point may have between any two letters."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the actions of the command."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="each setting, and where it came from")
    show.add_argument("--json", action="store_true", help="one JSON object per line")
    add_agent_flags(show)
    show.set_defaults(run=_show)
    schema = actions.add_parser("schema", help="the JSON schema of configuration files")
    schema.set_defaults(run=_print_schema)
    where = actions.add_parser("where", help="the files that are read")
    where.set_defaults(run=_print_locations)


def _show(arguments: argparse.Namespace) -> int:
    from hookline.cli.assembly.verify import load
    from hookline.cli.terminal import printable
    from hookline.config import dotted, leaves

    settings = load(flags_of(arguments), bare=arguments.bare)
    rows = [
        (dotted(path), "[hidden]" if _is_secret(path) else value, settings.where(*path))
        for path, value in leaves(settings.merged.data)
    ]
    widest = max((len(key) for key, _, _ in rows), default=0)
    for key, value, where in rows:
        if arguments.json:
            print(json.dumps({"key": key, "value": value, "from": where}, ensure_ascii=False))
        else:
            shown = value if value == "[hidden]" else json.dumps(value, ensure_ascii=False)
            print(printable(f"{key:<{widest}} = {shown}  # {where}"))
    for held in settings.held:
        text = f"not in force until trusted: {held.setting}  # {held.where}"
        print(printable(text), file=sys.stderr)
    return Exit.DONE


def _is_secret(path: tuple[str | int, ...]) -> bool:
    from hookline.redaction import is_secret_name

    is_named = is_secret_name(str(path[-1])) == "strong"
    is_known = path[:3] == ("capabilities", "redaction", "values")
    return is_named or is_known or "headers" in path or "env" in path


def _print_schema(_arguments: argparse.Namespace) -> int:
    print(json.dumps(full_schema(), indent=2))
    return Exit.DONE


def full_schema() -> dict[str, Any]:
    """The JSON schema of configuration files, with the hook points, the capabilities and their options."""
    from hookline import capabilities
    from hookline.cli.assembly.capabilities import capability_names, options_of, schema_of
    from hookline.config import json_schema

    def options(kind: Any) -> dict[str, Any]:
        return {
            "type": "object",
            "description": (inspect.getdoc(kind) or "").partition("\n")[0],
            "properties": {option: schema_of(kind, option) for option in options_of(kind)},
            "additionalProperties": False,
        }

    kinds = {name: getattr(capabilities, kind) for name, kind in sorted(capability_names().items())}
    return json_schema(_points(), {name: options(kind) for name, kind in kinds.items()})


def _points() -> dict[str, Any]:
    """The names of the points, for editors to offer, and a pattern for every other spelling of them."""
    from hookline.lifecycle import HookPoint

    def spelling(name: str) -> str:
        return _BETWEEN.join(f"[{each}{each.upper()}]" for each in name)

    other = "|".join(spelling(each) for point in HookPoint for each in sorted(point.spellings))
    return {
        "anyOf": [
            {"enum": [point.value for point in HookPoint]},
            {"pattern": f"^{_BETWEEN}({spelling('on')})?{_BETWEEN}({other}){_BETWEEN}$"},
        ]
    }


def _print_locations(_arguments: argparse.Namespace) -> int:
    from hookline.cli.journal_location import journal_path
    from hookline.config import PROJECT_FILES, load, project_of, user_folder

    project = project_of(Path.cwd(), os.environ)
    own = user_folder(os.environ) / "config.toml"
    for path in (own, *(project / name for name in PROJECT_FILES)):
        print(f"{path}{'' if path.is_file() else '  (not there)'}")
    print(f"journal: {journal_path(load(Path.cwd()))}")
    return Exit.DONE
