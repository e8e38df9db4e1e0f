"""Offers a few tools at first, and more on demand: a tool that describes the others, and hooks that hide the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Literal

import msgspec

from hookline.agent import hook
from hookline.definition import Definition
from hookline.definition.definition import Note
from hookline.errors import ToolError
from hookline.hooks import HookOutcome, Registration
from hookline.lifecycle import AfterToolHookContext, InferenceHookContext, ToolHookContext
from hookline.option_checks import check_names
from hookline.state import AgentState, ToolSpec
from hookline.tools import AnyTool, ToolContext, tool
from hookline.tools.arguments import closest, did_you_mean
from hookline.wildcards import matches, matches_any

KEY = "enabled_tools"
"""Where the enabled tools are kept in the state's metadata, by name."""
TOOL = "tools"
ESSENTIAL = (TOOL, "structured_output", "todo_write", "load_skill")
"""Tools that organise the work of a model: it should not have to look for them."""
_MOST_FOUND = 10
_MOST_LISTED = 60


class ToolRegistry:
    """Offers a few tools at first, and the others on demand, wherever they come from: yours, capabilities', MCP's.

    `always` are patterns of tools that are offered from the start; `hide` patterns of those that are not, unless
    `always` has them. The model finds and enables the rest with the tool `tools`. A call to a tool that is not
    enabled is blocked, with how to enable it. What is enabled stays so for the conversation.
    """

    name = "tool-registry"

    def __init__(self, *, always: Iterable[str] = (), hide: Iterable[str] = ("*",)) -> None:
        wished = check_names(self.name, "always", always, '"read", "mcp__github__*"')
        self._always = (*ESSENTIAL, *wished)
        self._wished = wished
        self._hide = check_names(self.name, "hide", hide, '"read", "mcp__github__*"')

    @staticmethod
    def enabled_tools(state: AgentState) -> tuple[str, ...]:
        """The tools that were enabled."""
        kept = state.metadata.get(KEY)
        return tuple(kept) if isinstance(kept, list) else ()

    def _is_offered(self, name: str, state: AgentState) -> bool:
        return (
            matches_any(name, self._always)
            or not matches_any(name, self._hide)
            or name in self.enabled_tools(state)
        )

    def notes(self, definition: Definition) -> Iterator[Note]:
        """Patterns of `always` that fit no tool. Tools of servers may not be known yet."""
        names = [tool.name for tool in definition.toolbox]
        for pattern in self._wished:
            is_used = any(matches(name, pattern) for name in names)
            if not is_used and not pattern.startswith("mcp__"):
                yield Note(
                    f"always= has '{pattern}', which matches no tool.",
                    is_problem=True,
                    remedy="`agent.explain()` lists the names of the tools.",
                )

    # --- the tool -----------------------------------------------------------------------------------

    def tools(self) -> list[AnyTool]:
        """The tool that describes the others."""

        @tool(name=TOOL, effect="idempotent")
        async def tools(
            action: Literal["list", "search", "help", "enable"],
            context: ToolContext,
            query: Annotated[str, "For search: words that say what you want to do."] = "",
            names: Annotated[
                list[str], "For help and enable: names of tools, or patterns such as github_*."
            ] = [],  # noqa: B006 - never changed
        ) -> str:
            """Find and enable more tools. You see only those that are enabled.

            list: names of all tools. search: tools that fit a query, the best first. help: everything about the
            tools you name. enable: be offered the tools you name, from your next turn on.
            """
            return self._answer(action, context, query, names)

        return [tools]

    def _answer(self, action: str, context: ToolContext, query: str, names: Sequence[str]) -> str:
        known = _without_own_tool(context.tools)
        state = context.state
        if action == "list":
            return self._list_tools(known, state)
        if action == "search":
            if not query.strip():
                raise ToolError("search needs a query.", remedy="Say what you want to do.")
            found = rank_tools(known, query, _MOST_FOUND)
            lines = [self._line(spec, state) for spec in found]
            return "\n".join(lines) or f"No tool fits '{query}'. Try other words, or action 'list'."
        chosen = _choose(known, action, names)
        if action == "help":
            return "\n\n".join(self._describe_tool(spec, state) for spec in chosen)
        on = ", ".join(spec.name for spec in chosen)
        return f"Enabled: {on}. You can call {'it' if len(chosen) == 1 else 'them'} from your next turn on."

    def _list_tools(self, known: Sequence[ToolSpec], state: AgentState) -> str:
        lines = [self._line(spec, state) for spec in known[:_MOST_LISTED]]
        if len(known) > _MOST_LISTED:
            rest = [spec.name for spec in known[_MOST_LISTED:]]
            lines.append(f"And {len(rest)} more (search describes them): {', '.join(rest)}")
        return "\n".join(lines) or "There are no other tools."

    def _line(self, spec: ToolSpec, state: AgentState) -> str:
        mark = "on " if self._is_offered(spec.name, state) else "off"
        return f"{mark} {spec.name}: {spec.description.partition(chr(10))[0] or '(no description)'}"

    def _describe_tool(self, spec: ToolSpec, state: AgentState) -> str:
        parameters = msgspec.json.encode(spec.parameters).decode()
        how = "" if self._is_offered(spec.name, state) else f"\n{how_to_enable(spec.name)}"
        return (
            f"{spec.name}: {spec.description or '(no description)'}\nParameters: {parameters}{how}"
        )

    # --- the hooks ----------------------------------------------------------------------------------

    def hooks(self) -> Iterator[Registration]:
        """Keep what is enabled, offer no more than that, and let nothing else be called."""
        guard, keep = "tool-registry-guard", "tool-registry-persist"
        yield hook("before_inference", self._offer, name="tool-registry-offer", priority=-100)
        yield hook("before_tool_use", self._guard, name=guard, tier="policy", scope="self")
        yield hook("after_tool_use", self._persist, name=keep, matcher=TOOL, priority=-1000)

    def _offer(self, ctx: InferenceHookContext) -> InferenceHookContext | None:
        request = ctx.request
        offered = [
            spec
            for spec in request.tools
            if spec.name == request.tool_choice or self._is_offered(spec.name, ctx.state)
        ]
        hidden = len(request.tools) - len(offered)
        if not hidden:
            return None
        specs = tuple(
            _with_hidden_count(spec, hidden) if spec.name == TOOL else spec for spec in offered
        )
        return ctx.with_request(request.with_tools(specs))

    def _guard(self, ctx: ToolHookContext) -> HookOutcome | None:
        name = ctx.tool_call.name
        if self._is_offered(name, ctx.state):
            return None
        return HookOutcome.block(f"the tool '{name}' is not enabled. {how_to_enable(name)}")

    def _persist(self, ctx: AfterToolHookContext) -> AfterToolHookContext | None:
        args = ctx.tool_call.args
        if not ctx.execution.is_success or args["action"] != "enable":
            return None
        chosen = _choose(_without_own_tool(ctx.run.tools), "enable", args["names"])
        before = self.enabled_tools(ctx.state)
        now = tuple(dict.fromkeys((*before, *(spec.name for spec in chosen))))
        return ctx.with_metadata(KEY, list(now)) if now != before else None


def how_to_enable(name: str) -> str:
    """What the model has to do to be offered a tool."""
    return f"To enable it, call {TOOL} with action 'enable' and names ['{name}']; then call it in your next turn."


def _with_hidden_count(spec: ToolSpec, hidden: int) -> ToolSpec:
    more = "1 more tool is" if hidden == 1 else f"{hidden} more tools are"
    return msgspec.structs.replace(
        spec, description=f"{spec.description}\n\n{more} there and not enabled now."
    )


def _without_own_tool(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    return [spec for spec in tools if spec.name != TOOL]


def _choose(known: Sequence[ToolSpec], action: str, names: Sequence[str]) -> list[ToolSpec]:
    """The tools of these names; a wrong name is an error that says which was probably meant."""
    if not names:
        raise ToolError(f"{action} needs names of tools.", remedy="Give them as a list: names.")
    by_name = {spec.name: spec for spec in known}
    chosen: dict[str, ToolSpec] = {}
    for name in names:
        found = {each: spec for each, spec in by_name.items() if matches(each, name)}
        if not found:
            raise ToolError(
                f"there is no tool '{name}'.{did_you_mean(closest(name, by_name))}",
                remedy="Find it with action 'search' or 'list'.",
            )
        chosen.update(found)
    return list(chosen.values())


# --- ranking tools by a query ------------------------------------------------------------------


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|\d+")
_STOP = frozenset(
    "a an and any by for from get how i in into is it me my of on or the to tool tools use with".split()  # noqa: SIM905 - reads best so
)
_IN_NAME, _IN_DESCRIPTION = 4, 1


def rank_tools(specs: Sequence[ToolSpec], query: str, most: int) -> list[ToolSpec]:
    """The tools that have words of a query, the best first.

    A word in a name counts more than one in a description. Rarity, typos and stems were dropped: with some dozens of
    tools they changed no first place, and the model can ask again.
    """
    words = set(words_of(query))
    asked = words - _STOP or words
    scores = {spec.name: sum(_score(spec, word) for word in asked) for spec in specs}
    found = [spec for spec in specs if scores[spec.name]]
    return sorted(found, key=lambda spec: (-scores[spec.name], spec.name))[:most]


def words_of(text: str) -> list[str]:
    """The words of a text, or of a name in any spelling."""
    return [word.casefold() for word in _WORD.findall(text)]


def _score(spec: ToolSpec, word: str) -> int:
    if any(_is_same(word, each) for each in words_of(spec.name)):
        return _IN_NAME
    parameters = msgspec.json.encode(spec.parameters.get("properties", {})).decode()
    texts = words_of(f"{spec.description} {parameters}")
    return _IN_DESCRIPTION if any(_is_same(word, each) for each in texts) else 0


def _is_same(word: str, other: str) -> bool:
    """Whether two words differ in their endings at most (currency, currencies), or the first is in the other."""
    stem = max(3, min(len(word), len(other)) - 1)
    return word[:stem] == other[:stem] or (len(word) > 3 and word in other)
