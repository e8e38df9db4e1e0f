"""How to write a capability: tools and hooks that belong together, installed once, by name.

`Capability` lists the methods that it may have. `capabilities/limits.py` is a short example.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import msgspec

from hookline.definition import Definition
from hookline.definition.definition import Note
from hookline.errors import BuildError
from hookline.state import FrozenDict
from hookline.tools import as_tool


@runtime_checkable
class Capability(Protocol):
    """What `with_capability` takes. Only `name` is required; the rest is looked for.

    - `hooks()` gives hooks that say where they run: objects with `points()` or `event()`, what `hook(point, function)`
      makes, and what has `on` decorators;
    - `tools()` gives tools or plain functions;
    - `configure(builder)` may use everything else a builder can do, and may only narrow limits;
    - `speaks_for_user = True` says that it only has settings of the person who builds the agent. It may then do what
      the builder may do: widen a limit, for example;
    - `tools_for(definition)` gives tools that are made of what else the agent has, when it is built;
    - `protected_files()` gives files that guard the agent. Its commands in a sandbox cannot change them;
    - `protect_files(definition)` tells its tools not to change the protected files and the journal of that agent. It is
      called for its own agent and for each other agent in the same tree of runs;
    - `notes(definition)` gives what `explain()` and `lint()` should say about it in that agent.
    """

    @property
    def name(self) -> str:
        """The name under which it is installed, once."""
        ...


def complete(definition: Definition, installed: Iterable[tuple[str, Any]]) -> Definition:
    """The definition with what its capabilities add once they can see the whole of it."""
    installed = tuple(installed)
    late = [
        (name, tuple(call_capability(each, "tools_for", definition))) for name, each in installed
    ]
    if any(tools for _, tools in late):
        toolbox = definition.toolbox.with_tools(*(tool for _, tools in late for tool in tools))
        added = {as_tool(tool).name: name for name, tools in late for tool in tools}
        definition = msgspec.structs.replace(
            definition,
            toolbox=toolbox,
            tool_capabilities=FrozenDict({**definition.tool_capabilities, **added}),
        )
    guarding = {
        str(path) for _, each in installed for path in call_capability(each, "protected_files")
    }
    protectors = (getattr(each, "protect_files", None) for _, each in installed)
    definition = msgspec.structs.replace(
        definition,
        protected_files=tuple(sorted(guarding)),
        guarded_since=time.time_ns(),
        protectors=tuple(filter(callable, protectors)),
    )
    for protect in definition.protectors:
        protect(definition)
    notes = [
        msgspec.structs.replace(_check_note(note, name), capability=name)
        for name, each in installed
        for note in call_capability(each, "notes", definition)
    ]
    return msgspec.structs.replace(definition, notes=tuple(notes)) if notes else definition


def _check_note(note: Any, capability: str) -> Note:
    if isinstance(note, Note):
        return note
    raise BuildError(
        f"notes() of capability '{capability}' gave {note!r}.", remedy="Give Note(text) values."
    )


def call_capability(capability: Any, part: str, *args: Any) -> Iterable[Any]:
    """What a capability gives from one of its methods; nothing if it has no such method."""
    method = getattr(capability, part, None)
    given = method(*args) if callable(method) else ()
    if isinstance(given, Iterable):
        return given
    name = getattr(capability, "name", None) or type(capability).__name__
    raise BuildError(
        f"{part}() of capability '{name}' gave {given!r}.", remedy="Return a list, or yield them."
    )
