"""`spawn_subagent`: starting a subagent, and telling its starter what came of it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hookline.agent import Agent, RunResult
from hookline.capabilities.subagents.choice import TOOL
from hookline.capabilities.subagents.subagent import Subagent
from hookline.errors import BuildError, NotJSONError, ToolError, in_words
from hookline.state import RunStatus, freeze
from hookline.tools import AnyTool, ToolContext, tool

_ABOUT = """\
Have a subagent do a task on its own, and get its report.

It does not see this conversation: put all it needs to know into the prompt, and say what it should report. Start
several in one step to let them work at the same time.

Subagents:
"""
_MOST_SAID = 2_000


class Offer(Protocol):
    """What can be started."""

    @property
    def offered(self) -> Sequence[str]:
        """The names of the subagents."""

    @property
    def members(self) -> Mapping[str, Subagent]:
        """Their definitions, and those of others, by name."""

    @property
    def max_depth(self) -> int:
        """How many runs may be above the deepest subagent."""

    @property
    def concurrency(self) -> int | None:
        """How many may work at the same time."""

    def agent(self, name: str) -> Agent:
        """One of them, built."""


def spawn_tool(offer: Offer) -> AnyTool:
    """The tool that starts what is on offer."""

    async def spawn_subagent(
        agent: str, prompt: str, context: ToolContext, description: str = ""
    ) -> Any:
        """Start a subagent.

        Args:
            agent: Which subagent, by name.
            prompt: The whole task, with everything the subagent needs to know.
            description: The task in a few words, for whoever watches.
        """
        name = _known(offer, agent)
        if context.depth >= offer.max_depth:
            raise ToolError(
                f"subagent '{name}' was not started: {context.depth} runs are above it already, "
                f"and {offer.max_depth} is the most there may be.",
                remedy="Do the task yourself.",
            )
        if not prompt.strip():
            raise ToolError("the prompt is empty.", remedy="Say what the subagent should do.")
        if description:
            context.progress(f"{name}: {description}")
        result = await context.spawn(_built(offer, name), prompt, name=name)
        return report(name, result)

    lines = (f"- {name}: {_one_line(offer.members[name].description)}" for name in offer.offered)
    return tool(
        spawn_subagent,
        name=TOOL,
        description=_ABOUT + "\n".join(lines),
        # Starting it again goes on with the same child: a child's run id is made of the call's.
        effect="idempotent",
        concurrency=offer.concurrency,
    )


def report(name: str, result: RunResult) -> Any:
    """What a subagent's starter gets: its answer. What is none is an error, in honest words."""
    if result.status is RunStatus.COMPLETED:
        return _answer(name, result)
    if result.status is RunStatus.FAILED:
        words = in_words(result.error) if result.error is not None else "it is not known why"
        problem = f"subagent '{name}' failed: {words}."
    elif result.status is RunStatus.CANCELLED:
        problem = f"subagent '{name}' was cancelled before it was done."
    else:
        problem = f"subagent '{name}' was stopped before it was done: {_why(result)}."
    said = (result.text or result.state.last_text()).strip()
    last = f' The last it said, which is no final answer: "{said[-_MOST_SAID:]}"' if said else ""
    raise ToolError(f"{problem.replace('..', '.')}{last}")


def _answer(name: str, result: RunResult) -> Any:
    if isinstance(result.output, str) or result.output is None:
        return result.text or f"(subagent '{name}' finished without a word)"
    try:
        return freeze(result.output)
    except NotJSONError:
        return result.text


def _why(result: RunResult) -> str:
    ending = result.state.ending
    if ending is None:
        return result.stop_reason.value
    return (
        f"{ending.reason} ({ending.stop_reason.value})"
        if ending.reason
        else ending.stop_reason.value
    )


def _known(offer: Offer, agent: str) -> str:
    folded = {name.lower(): name for name in offer.offered}
    wanted = agent.strip()
    if wanted in offer.offered:
        return wanted
    if wanted.lower() in folded:
        return folded[wanted.lower()]
    close = difflib.get_close_matches(wanted.lower(), folded, n=2, cutoff=0.6)
    hint = f" Did you mean {' or '.join(repr(folded[each]) for each in close)}?" if close else ""
    raise ToolError(
        f"there is no subagent '{agent}'.{hint}", remedy=f"Subagents: {', '.join(offer.offered)}."
    )


def _built(offer: Offer, name: str) -> Agent:
    try:
        return offer.agent(name)
    except BuildError as error:
        raise ToolError(
            f"subagent '{name}' cannot be started: {error.message}", remedy=error.remedy
        ) from error


def _one_line(text: str) -> str:
    return " ".join(text.split())
