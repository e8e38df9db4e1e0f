"""Offers a few tools at first, and more on demand: a tool that describes the others, and hooks that hide the rest."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from hookline.capabilities.options import check_names
from hookline.definition import Definition, Note
from hookline.errors import ToolError
from hookline.hooks import HookOutcome, Options, Registration, register
from hookline.lifecycle import HookPoint, InferenceHookContext, ToolHookContext
from hookline.state import AgentState, ToolSpec
from hookline.tools import AnyTool, ToolContext, tool
from hookline.tools.problems import closest, did_you_mean
from hookline.wildcards import matches

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
    def enabled(state: AgentState) -> tuple[str, ...]:
        """The tools that were enabled."""
        kept = state.metadata.get(KEY)
        return tuple(kept) if isinstance(kept, list) else ()

    def _is_offered(self, name: str, state: AgentState) -> bool:
        return (
            _fits(name, self._always) or not _fits(name, self._hide) or name in self.enabled(state)
        )

    def notes(self, definition: Definition) -> Iterator[Note]:
        """Patterns of `always` that fit no tool. Tools of servers may not be known yet."""
        names = [tool.name for tool in definition.toolbox]
        for pattern in self._wished:
            if not pattern.startswith("mcp__") and not any(
                _fits(name, (pattern,)) for name in names
            ):
                yield Note(
                    f"always= has '{pattern}' in it, which fits no tool.",
                    is_problem=True,
                    remedy="See how the tools are called: `agent.explain()`.",
                )

    # --- the tool -----------------------------------------------------------------------------------

    def tools(self) -> list[AnyTool]:
        """The tool that tells about the others."""

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
        known = _others(context.tools)
        state = context.state
        if action == "list":
            return self._listed(known, state)
        if action == "search":
            if not query.strip():
                raise ToolError("search needs a query.", remedy="Say what you want to do.")
            found = ranked(known, query, _MOST_FOUND)
            lines = [self._line(spec, state) for spec in found]
            return "\n".join(lines) or f"No tool fits '{query}'. Try other words, or action 'list'."
        chosen = _chosen(known, action, names)
        if action == "help":
            return "\n\n".join(self._whole(spec, state) for spec in chosen)
        on = ", ".join(spec.name for spec in chosen)
        return f"Enabled: {on}. You can call {'it' if len(chosen) == 1 else 'them'} from your next turn on."

    def _listed(self, known: Sequence[ToolSpec], state: AgentState) -> str:
        lines = [self._line(spec, state) for spec in known[:_MOST_LISTED]]
        if len(known) > _MOST_LISTED:
            rest = [spec.name for spec in known[_MOST_LISTED:]]
            lines.append(f"And {len(rest)} more (search tells what they do): {', '.join(rest)}")
        return "\n".join(lines) or "There are no other tools."

    def _line(self, spec: ToolSpec, state: AgentState) -> str:
        mark = "on " if self._is_offered(spec.name, state) else "off"
        return f"{mark} {spec.name}: {spec.description.partition(chr(10))[0] or '(no description)'}"

    def _whole(self, spec: ToolSpec, state: AgentState) -> str:
        parameters = msgspec.json.encode(spec.parameters).decode()
        how = "" if self._is_offered(spec.name, state) else f"\n{how_to_enable(spec.name)}"
        return (
            f"{spec.name}: {spec.description or '(no description)'}\nParameters: {parameters}{how}"
        )

    # --- the hooks ----------------------------------------------------------------------------------

    def hooks(self) -> list[Registration]:
        """Keep what is enabled, offer no more than that, and let nothing else be called."""
        offer = Options(name="tool-registry-offer", priority=-100)
        guard = Options(name="tool-registry-guard", tier="policy", scope="self")
        keep = Options(name="tool-registry-persist", matcher=TOOL, priority=-1000)
        return [
            register(HookPoint.BEFORE_INFERENCE, self._offer, offer),
            register(HookPoint.BEFORE_TOOL_USE, self._guard, guard),
            register(HookPoint.AFTER_TOOL_USE, self._persist, keep),
        ]

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
        told = tuple(_telling(spec, hidden) if spec.name == TOOL else spec for spec in offered)
        return ctx.with_request(request.with_tools(told))

    def _guard(self, ctx: ToolHookContext) -> HookOutcome | None:
        name = ctx.tool_call.name
        if self._is_offered(name, ctx.state):
            return None
        return HookOutcome.block(f"the tool '{name}' is not enabled. {how_to_enable(name)}")

    def _persist(self, ctx: ToolHookContext) -> ToolHookContext | None:
        args, execution, run = ctx.tool_call.args, ctx.execution, ctx.run
        if (
            execution is None
            or not execution.is_success
            or args["action"] != "enable"
            or run is None
        ):
            return None
        chosen = _chosen(_others(run.tools), "enable", args["names"])
        before = self.enabled(ctx.state)
        now = tuple(dict.fromkeys((*before, *(spec.name for spec in chosen))))
        return ctx.with_metadata(KEY, list(now)) if now != before else None


def how_to_enable(name: str) -> str:
    """What the model has to do to be offered a tool."""
    return f"To enable it, call {TOOL} with action 'enable' and names ['{name}']; then call it in your next turn."


def _telling(spec: ToolSpec, hidden: int) -> ToolSpec:
    more = "1 more tool is" if hidden == 1 else f"{hidden} more tools are"
    return msgspec.structs.replace(
        spec, description=f"{spec.description}\n\n{more} there and not enabled now."
    )


def _others(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    return [spec for spec in tools if spec.name != TOOL]


def _chosen(known: Sequence[ToolSpec], action: str, names: Sequence[str]) -> list[ToolSpec]:
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


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(matches(name, pattern) for pattern in patterns)


# --- ranking tools by a query ------------------------------------------------------------------


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|\d+")
_STOP = frozenset(
    "a an and any by for from get how i in into is it me my of on or the to tool tools use with".split()  # noqa: SIM905 - reads best so
)
_NAME, _PARAMETER, _DESCRIPTION = 4.0, 1.5, 1.0
_EXACT, _PREFIX, _SIMILAR = 1.0, 0.6, 0.4
_LEAST_SIMILAR = 0.8


class _Document(msgspec.Struct, frozen=True):
    """A tool as words, each with the weight of the most telling place it stands at."""

    spec: ToolSpec
    weights: dict[str, float]


def ranked(specs: Sequence[ToolSpec], query: str, most: int) -> list[ToolSpec]:
    """The tools that fit the words of a query; none that has nothing to do with them."""
    documents = [_document(spec) for spec in specs]
    words = dict.fromkeys(words_of(query))
    telling = [word for word in words if word not in _STOP] or list(words)
    if not telling:
        return []
    known = {word for document in documents for word in document.weights}
    meant = {word: _meant(word, known) for word in telling}
    # A word that every tool has says little.
    having = {word: sum(word in document.weights for document in documents) for word in telling}
    rarity = {word: math.log(1 + len(documents) / (1 + having[word])) for word in telling}
    scores = {document.spec.name: _score(document, query, meant, rarity) for document in documents}
    found = [document.spec for document in documents if scores[document.spec.name] > 0]
    return sorted(found, key=lambda spec: (-scores[spec.name], spec.name))[:most]


def _meant(word: str, known: set[str]) -> dict[str, float]:
    """The words of tools that a word of the query may stand for, and how surely. Typos are looked for last."""
    alike = {each: likeness for each in known if (likeness := _likeness(word, each))}
    if alike:
        return alike
    close = [each for each in known if len(word) >= 4 and len(each) >= 4 and each[0] == word[0]]
    found = difflib.get_close_matches(word, sorted(close), n=5, cutoff=_LEAST_SIMILAR)
    return dict.fromkeys(found, _SIMILAR)


def words_of(text: str) -> list[str]:
    """The words of a text or of a name in any spelling, without their endings."""
    return [_stem(word.casefold()) for word in _WORD.findall(text)]


def _document(spec: ToolSpec) -> _Document:
    weights: dict[str, float] = {}
    parameters: Mapping[str, Any] = spec.parameters.get("properties", {})
    told = " ".join(
        str(each.get("description", "")) for each in parameters.values() if isinstance(each, dict)
    )
    for weight, text in (
        (_DESCRIPTION, f"{spec.description} {told}"),
        (_PARAMETER, " ".join(parameters)),
        (_NAME, spec.name),
    ):
        for word in words_of(text):
            weights[word] = max(weight, weights.get(word, 0.0))
    return _Document(spec, weights)


def _score(
    document: _Document,
    query: str,
    meant: Mapping[str, Mapping[str, float]],
    rarity: Mapping[str, float],
) -> float:
    name, asked = document.spec.name.casefold(), query.strip().casefold()
    score, met = 0.0, 0
    for word, alike in meant.items():
        weights = [
            weight * alike[known] for known, weight in document.weights.items() if known in alike
        ]
        score += max(weights, default=0.0) * rarity[word]
        met += bool(weights)
    score *= met / len(meant)
    if asked == name or asked.replace(" ", "_") == name:
        return score + 100.0
    return score + (5.0 if len(asked) > 2 and asked.replace(" ", "_") in name else 0.0)


def _likeness(word: str, known: str) -> float:
    if word == known:
        return _EXACT
    shorter = min(len(word), len(known))
    if shorter >= 3 and (known.startswith(word) or word.startswith(known)):
        return _PREFIX
    return _SIMILAR if shorter >= 4 and (word in known or known in word) else 0.0


def _stem(word: str) -> str:
    for ending in ("ies", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word.removesuffix("e") if len(word) > 4 else word
