"""Which tools a subagent gets, and what it may do with them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from hookline.agent import hook
from hookline.capabilities.subagents.subagent import Subagent
from hookline.definition import Definition
from hookline.errors import BuildError
from hookline.hooks import HookOutcome, Registration
from hookline.lifecycle import ToolHookContext
from hookline.markdown.document import names_in
from hookline.markdown.tool_names import grants_tool, is_known_elsewhere, means_tool
from hookline.permissions import Rule, Rules
from hookline.permissions.names import ANSWER_TOOL, COMPANIONS
from hookline.tools import AnyTool, Effect, as_tool
from hookline.tools.arguments import closest, did_you_mean

TOOL = "spawn_subagent"
_SKILLS = "load_skill"
_OWN = frozenset({TOOL, ANSWER_TOOL})
"""Tools that belong to one run: a subagent that lists no tools does not get these of its starter."""
_SLIP = 0.75
"""How similar a name must be to another to be a typing error."""


class ToolGrant(msgspec.Struct, frozen=True):
    """The tools and subagents that a subagent gets."""

    lent: tuple[AnyTool, ...]
    """Tools of the agent."""
    own: tuple[AnyTool, ...]
    may_spawn: bool
    agents: tuple[str, ...]
    """The subagents it may start."""
    narrowed: frozenset[str] = frozenset()
    """Tools that it may only use as its rules say."""
    missing: tuple[str, ...] = ()
    """Tools it lists that the agent does not have."""

    @property
    def is_useless(self) -> bool:
        """Whether nothing is left of the tools it was to have."""
        return bool(self.missing) and not (self.lent or self.own or self.may_spawn)


def grant_tools(
    member: Subagent,
    starter: Definition,
    top: Definition,
    known: Sequence[str],
    offered: Sequence[str],
) -> ToolGrant:
    """The tools that a subagent gets.

    With a list of tools it gets these, out of the tools of the agent (`top`). Without one it has the tools of its
    starter, and may start what that may start (`offered`).
    """
    rules = [member.parse_rule(each) for each in member.tools or () if isinstance(each, str)]
    denied = [member.parse_rule(each) for each in member.disallowed_tools]
    missing = _find_missing(member, rules, top, grants_tool)
    _find_missing(member, denied, top, means_tool)
    if member.tools is None:
        lent = [tool for tool in starter.toolbox if tool.name not in _OWN]
        may_spawn, agents = True, list(offered)
    else:
        lent = [tool for tool in top.toolbox if _is_listed(rules, tool.name)]
        spawning = [rule for rule in rules if means_tool(rule, TOOL)]
        may_spawn, agents = bool(spawning), _startable(spawning, known, member)
    if member.agents is not None:
        agents = [name for name in agents if name in _check_known(member.agents, known, member)]
    not_at_all = [rule for rule in denied if rule.argument is None]
    lent = [tool for tool in lent if not any(means_tool(rule, tool.name) for rule in not_at_all)]
    stopped = _startable([rule for rule in denied if means_tool(rule, TOOL)], known, member)
    agents = [name for name in agents if name not in stopped]
    if member.read_only:
        lent = [tool for tool in lent if tool.effect is Effect.PURE]
    return ToolGrant(
        tuple(lent),
        tuple(as_tool(each) for each in member.tools or () if not isinstance(each, str)),
        may_spawn and bool(agents) and not member.read_only,
        tuple(agents),
        frozenset(tool.name for tool in lent if _is_narrowed(rules, tool.name)),
        missing,
    )


def _is_listed(rules: list[Rule], tool: str) -> bool:
    if tool in _OWN:
        return tool != TOOL and any(rule.tool == tool for rule in rules)
    return any(grants_tool(rule, tool) for rule in rules)


def _is_narrowed(rules: list[Rule], tool: str) -> bool:
    about = [rule for rule in rules if grants_tool(rule, tool)]
    return (
        bool(about) and all(rule.argument is not None for rule in about) and tool not in COMPANIONS
    )


def _find_missing(
    member: Subagent, rules: Iterable[Rule], top: Definition, means: Callable[[Rule, str], bool]
) -> tuple[str, ...]:
    """The tools that are listed and not there. In a file, tools of other agents may be missing; others are an error.

    A list of granted tools may also name what is no tool anywhere, such as programs; published files do. Those are
    ignored, unless one looks like a typing error.
    """
    names = [tool.name for tool in top.toolbox]
    missing: list[str] = []
    for rule in rules:
        if any(means(rule, name) for name in (*names, TOOL)):
            continue
        is_elsewhere = is_known_elsewhere(rule.tool)
        is_grant = means is grants_tool and not _is_like(rule.tool, names)
        if not member.where or not (is_elsewhere or is_grant):
            raise _unknown_name(member, rule.tool, "tool", [*names, TOOL])
        missing.append(rule.tool)
    return tuple(dict.fromkeys(missing))


def _is_like(written: str, names: Iterable[str]) -> bool:
    folded = [name.lower() for name in names]
    return bool(difflib.get_close_matches(written.lower(), folded, n=1, cutoff=_SLIP))


def _startable(rules: list[Rule], known: Sequence[str], member: Subagent) -> list[str]:
    """The subagents that rules about starting them name: `Agent` all of them, `Agent(a, b)` these."""
    if any(rule.argument is None for rule in rules):
        return list(known)
    named = [name for rule in rules for name in names_in(rule.argument or "")]
    return list(_check_known(named, known, member))


def _check_known(names: Iterable[str], known: Sequence[str], member: Subagent) -> tuple[str, ...]:
    listed = tuple(dict.fromkeys(names))
    for name in listed:
        if name not in known:
            raise _unknown_name(member, name, "subagent", list(known))
    return listed


def _unknown_name(member: Subagent, name: str, what: str, known: list[str]) -> BuildError:
    hint = did_you_mean(closest(name, known)[:1]).strip()
    return member.wrong(
        f"there is no {what} '{name}' for it.",
        f"{hint} The agent has: {', '.join(known) or 'none'}.".lstrip(),
    )


# --- what holds in it -------------------------------------------------------------------------------


def grant_policies(member: Subagent, grant: ToolGrant) -> tuple[Registration, ...]:
    """The policy that holds a subagent to its rules. Subagents that get its tools without a list have it too."""
    if not grant.narrowed:
        return ()
    named = [member.parse_rule(each) for each in member.tools or () if isinstance(each, str)]
    rules = Rules(map(_expand_skill_rule, named))

    def allow_uses(ctx: ToolHookContext) -> HookOutcome | None:
        """Block calls of tools that a subagent has only for some uses."""
        call = ctx.tool_call
        if call.name not in grant.narrowed or rules.judge(call).decision == "allow":
            return None
        uses = ", ".join(str(rule) for rule in rules.allow if grants_tool(rule, call.name))
        return HookOutcome.block(f"subagent '{member.name}' may only use {uses}")

    name = f"{member.name}-tools"
    return (hook("before_tool_use", allow_uses, name=name, tier="policy", scope="self"),)


def denial_policies(member: Subagent) -> Iterator[Registration]:
    """The policies that block what a subagent, and what it starts, may not call."""
    rules = Rules(
        deny=[_expand_skill_rule(member.parse_rule(each)) for each in member.disallowed_tools]
    )

    def deny(ctx: ToolHookContext) -> HookOutcome | None:
        ruling = rules.judge(ctx.tool_call, defaults=ctx.tool.defaults if ctx.tool else {})
        if ruling.decision != "deny":
            return None
        return HookOutcome.block(f"subagent '{member.name}' may not use {ruling.rule}")

    if member.disallowed_tools:
        name = f"{member.name}-disallowed-tools"
        yield hook("before_tool_use", deny, name=name, tier="policy")
    if member.read_only:
        name = f"{member.name}-read-only"
        yield hook("before_tool_use", _block_changes, name=name, tier="policy")


def _expand_skill_rule(rule: Rule) -> Rule:
    """`Skill(pdf)` as a rule about the argument that names the skill; any other rule as it is."""
    if rule.argument is None or "=" in rule.argument or not means_tool(rule, _SKILLS):
        return rule
    return Rule(rule.tool, f"name={rule.argument.split()[0]}")


def _block_changes(ctx: ToolHookContext) -> HookOutcome | None:
    """Block everything that may change something, wherever the tool comes from."""
    name, tool = ctx.tool_call.name, ctx.tool
    if (tool is not None and tool.effect is Effect.PURE) or name in COMPANIONS:
        return None
    return HookOutcome.block(f"this subagent only reads, and {name} may change something.")
