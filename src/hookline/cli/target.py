"""From `module:agent` on a command line to the agent it names."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from importlib import import_module
from typing import Any

from hookline.agent import Agent, AgentBuilder
from hookline.errors import HooklineError, UsageError, in_words


def _as_it_is(_builder: AgentBuilder | None) -> None:
    """Change nothing."""


@contextlib.asynccontextmanager
async def opened_agent(
    target: str, equip: Callable[[AgentBuilder | None], None] = _as_it_is
) -> AsyncIterator[Agent]:
    """The agent a target names: an agent, a builder, a function that gives one, or an async context manager.

    The last is for agents that need something to be open while they live, such as connections to MCP servers.
    `equip` may add to a builder before it builds; it is given None where the agent is built already.
    """
    thing = find_target(target)
    async with contextlib.AsyncExitStack() as stack:
        with _told_of(target):
            if callable(thing) and not isinstance(thing, Agent | AgentBuilder):
                thing = thing()
            if inspect.isawaitable(thing):
                thing = await thing
            if hasattr(thing, "__aenter__"):
                thing = await stack.enter_async_context(thing)
        if isinstance(thing, AgentBuilder):
            equip(thing)
            thing = thing.build()
        else:
            equip(None)
        if not isinstance(thing, Agent):
            raise UsageError(
                f"'{target}' is {thing!r}, which is not an agent.",
                remedy="Name an agent, a builder, or a function that gives one.",
            )
        yield thing


@contextlib.contextmanager
def _told_of(target: str) -> Iterator[None]:
    """What the user's own code raises is told with whose it is."""
    try:
        yield
    except HooklineError:
        raise
    except Exception as error:
        raise _failed(target, error) from error


def _failed(target: str, error: Exception) -> HooklineError:
    said = f"{type(error).__name__}: {in_words(error)}".rstrip(". :")
    remedy = "Mend that; HOOKLINE_DEBUG=1 shows how it came there."
    if isinstance(error, ModuleNotFoundError):
        remedy = f"Install '{error.name}' for {sys.executable}, which runs this command."
    return HooklineError(f"'{target}' cannot be loaded: {_place(error)}{said}.", remedy=remedy)


def _place(error: Exception) -> str:
    """File and line of what failed: of the user's own code, where it is in the directory of now."""
    if isinstance(error, SyntaxError) and error.filename:
        places = [(error.filename, error.lineno)]
    else:
        frames = traceback.extract_tb(error.__traceback__)
        places = [(frame.filename, frame.lineno) for frame in frames]
    here = os.path.join(os.getcwd(), "")
    own = [(os.path.relpath(name), line) for name, line in places if name.startswith(here)]
    return f"{own[-1][0]}:{own[-1][1]}: " if own else ""


def find_target(target: str) -> Any:
    """What `module:name` names."""
    module_name, colon, path = target.partition(":")
    if not (module_name and colon and path):
        raise UsageError(
            f"'{target}' does not name an agent.",
            remedy="Write MODULE:NAME, as in myproject.agents:researcher.",
        )
    sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        thing = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _failed(target, error) from error
        raise UsageError(
            f"there is no module '{module_name}'.",
            remedy="Run this in the directory it is in, or install it.",
        ) from None
    except HooklineError:
        raise
    except Exception as error:
        raise _failed(target, error) from error
    for name in path.split("."):
        if not hasattr(thing, name):
            raise UsageError(
                f"module '{module_name}' has no '{path}'.",
                remedy="See how the agent is called in it.",
            )
        thing = getattr(thing, name)
    return thing
