"""`hookline config show|schema|where`: each setting, and where it came from."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hookline import capabilities
from hookline.cli.assembly.capabilities import capability_names, options_schema
from hookline.cli.assembly.packages import packaged_capabilities
from hookline.cli.assembly.verification import load_verified
from hookline.cli.exits import Exit
from hookline.cli.journal_location import journal_path
from hookline.cli.json_output import print_json
from hookline.cli.options import flags_of
from hookline.cli.terminal import print_note, print_text, printable
from hookline.config import json_schema, load
from hookline.config.layers import leaves, write_path
from hookline.config.locations import PROJECT_FILES, own_file, project_of
from hookline.lifecycle import HookPoint
from hookline.redaction import is_secret_name

_BETWEEN = "[-_]*"
"""What a spelling of a hook point may have between any two letters."""


def show_settings(arguments: argparse.Namespace) -> int:
    """Each setting, and where it came from."""
    settings = load_verified(flags_of(arguments), bare=arguments.bare)
    rows = [
        (write_path(path), "[hidden]" if _is_secret(path) else value, settings.where(*path))
        for path, value in leaves(settings.merged.data)
    ]
    widest = max((len(key) for key, _, _ in rows), default=0)
    for key, value, where in rows:
        if arguments.json:
            print_json({"key": key, "value": value, "from": where})
        else:
            shown = value if value == "[hidden]" else json.dumps(value, ensure_ascii=False)
            print_text(printable(f"{key:<{widest}} = {shown}  # {where}"), indent=4)
    for held in settings.held:
        print_note(f"not in force until trusted: {held.setting}  # {held.where}")
    return Exit.DONE


def _is_secret(path: tuple[str | int, ...]) -> bool:
    is_named = is_secret_name(str(path[-1])) == "strong"
    is_known = path[:3] == ("capabilities", "redaction", "values")
    return is_named or is_known or "headers" in path or "env" in path


def print_schema(_arguments: argparse.Namespace) -> int:
    """The JSON schema of configuration files, with the capabilities of the packages that are installed here."""
    print(json.dumps(full_schema(each.name for each in packaged_capabilities()), indent=2))
    return Exit.DONE


def full_schema(packaged: Iterable[str] = ()) -> dict[str, Any]:
    """The JSON schema of configuration files, with the hook points, the capabilities and their options.

    `packaged` are the names of capabilities whose options are not known, because their packages are not imported.
    """
    kinds = {name: getattr(capabilities, kind) for name, kind in sorted(capability_names().items())}
    known = {name: options_schema(kind) for name, kind in kinds.items()}
    return json_schema(_points(), {**{name: {"type": "object"} for name in packaged}, **known})


def _points() -> dict[str, Any]:
    """The names of the points, for editors to offer, and a pattern for every other spelling of them."""

    def spelling(name: str) -> str:
        return _BETWEEN.join(f"[{each}{each.upper()}]" for each in name)

    other = "|".join(spelling(each) for point in HookPoint for each in sorted(point.spellings))
    return {
        "anyOf": [
            {"enum": [point.value for point in HookPoint]},
            {"pattern": f"^{_BETWEEN}({spelling('on')})?{_BETWEEN}({other}){_BETWEEN}$"},
        ]
    }


def print_locations(_arguments: argparse.Namespace) -> int:
    """The files that are read."""
    project = project_of(Path.cwd(), os.environ)
    own = own_file(os.environ)
    for path in (own, *(project / name for name in PROJECT_FILES)):
        print(f"{path}{'' if path.is_file() else '  (not there)'}")
    print(f"journal: {journal_path(load(Path.cwd()))}")
    return Exit.DONE
