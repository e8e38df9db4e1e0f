"""From `module:agent` on a command line to the agent it names."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from hookline.agent import Agent, AgentBuilder
from hookline.cli.project_modules import import_from_source, make_importable
from hookline.errors import HooklineError, NoModelError, UsageError, in_words


@contextlib.asynccontextmanager
async def open_target(
    target: str, equip: Callable[[AgentBuilder | None], None] = lambda _builder: None
) -> AsyncIterator[Agent]:
    """The agent that a target names: an agent, a builder, a function that returns one, or an async context manager.

    A context manager is for agents with open connections, such as those to MCP servers. `equip` can add to a builder
    before it builds; it is given None if the agent is built already.
    """
    thing = find_target(target)
    async with contextlib.AsyncExitStack() as stack:
        with _name_errors(target):
            if callable(thing) and not isinstance(thing, Agent | AgentBuilder):
                thing = thing()
            if inspect.isawaitable(thing):
                thing = await thing
            if hasattr(thing, "__aenter__"):
                thing = await stack.enter_async_context(thing)
        equip(thing if isinstance(thing, AgentBuilder) else None)
        if isinstance(thing, AgentBuilder):
            try:
                thing = thing.build()
            except (
                NoModelError
            ):  # explain, lint and back-test need none; running it says that it has none
                thing = thing.build(model=None)
        if not isinstance(thing, Agent):
            raise UsageError(
                f"'{target}' is {thing!r}, which is not an agent.",
                remedy="Name an agent, a builder, or a function that returns one.",
            )
        yield thing


@contextlib.contextmanager
def _name_errors(target: str) -> Iterator[None]:
    """Report an exception of the user's code with the target, the file and the line."""
    try:
        yield
    except HooklineError:
        raise
    except (Exception, SystemExit) as error:
        words = f"{type(error).__name__}: {in_words(error)}".rstrip(". :")
        remedy = "Fix that; HOOKLINE_DEBUG=1 shows the whole traceback."
        if isinstance(error, ModuleNotFoundError):
            remedy = f"Install '{error.name}' for {sys.executable}, which runs this command."
        problem = f"'{target}' cannot be loaded: {_place(error)}{words}."
        raise HooklineError(problem, remedy=remedy) from error


def _place(error: BaseException) -> str:
    """File and line of the error in the user's own code, if that is below the current directory."""
    if isinstance(error, SyntaxError) and error.filename:
        places = [(error.filename, error.lineno)]
    else:
        frames = traceback.extract_tb(error.__traceback__)
        places = [(frame.filename, frame.lineno) for frame in frames]
    here = os.path.join(os.getcwd(), "")
    own = [(os.path.relpath(name), line) for name, line in places if name.startswith(here)]
    return f"{own[-1][0]}:{own[-1][1]}: " if own else ""


def find_target(target: str) -> Any:
    """The object that `module:name` names."""
    module_name, path = split_target(
        target, "an agent", "MODULE:NAME, as in myproject.agents:researcher"
    )
    folder, top = Path.cwd(), module_name.partition(".")[0]
    is_here = (folder / f"{top}.py").exists() or (folder / top).is_dir()
    if top in sys.stdlib_module_names and is_here:
        raise UsageError(
            f"'{top}' is a module of Python itself, so the one in this directory is not found.",
            remedy="Give it another name.",
        )
    make_importable([folder])
    import_from_source(folder)
    with _name_errors(target):
        try:
            thing = import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
                raise
            raise UsageError(
                f"there is no module '{module_name}'.",
                remedy="Run this in its directory, or install it.",
            ) from None
    return attribute_of(thing, path, "agent")


def attribute_of(module: Any, path: str, kind: str) -> Any:
    """What a module has under a name, or under a name with dots."""
    found = module
    for name in path.split("."):
        if not hasattr(found, name):
            raise UsageError(
                f"module '{module.__name__}' has no '{path}'.",
                remedy=f"Look up the name of the {kind} in it.",
            )
        found = getattr(found, name)
    return found


def split_target(target: str, kind: str, form: str) -> tuple[str, str]:
    """The module and the name in `module:name`."""
    module, colon, path = target.partition(":")
    if not (module and colon and path):
        raise UsageError(f"'{target}' does not name {kind}.", remedy=f"Write {form}.")
    return module, path
