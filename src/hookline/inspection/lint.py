"""`agent.lint()`: what cannot be right about a set of hooks, found without running it.

Only what is certain is reported. Where a hook's own code says what it writes or decides, it is read
as far as it is plain; a hook whose code cannot be read, or whose effect depends, is given the benefit
of the doubt.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator

import msgspec

from hookline.definition import Definition
from hookline.hooks import (
    CompositeMatcher,
    EventTypeMatcher,
    Matcher,
    NotMatcher,
    Plan,
    Registration,
    Tier,
    ToolArgsMatcher,
    ToolNameMatcher,
    describe,
)
from hookline.inspection.hook_code import HookEffects, effects_of, place_of
from hookline.inspection.predictions import Runs, may_have_children, possible, runs_of
from hookline.lifecycle import HookPoint
from hookline.tools import Toolbox


class Finding(msgspec.Struct, frozen=True):
    """One thing that cannot be right, or (`shadow`) that should not be forgotten."""

    code: str
    message: str
    hook: str = ""
    point: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.message} {self.remedy}".rstrip()


def lint(definition: Definition) -> list[Finding]:
    """What cannot be right about an agent's hooks and tools; an empty list is good news."""
    set_of_hooks = _Hooks(definition)
    checks = (_tools, _matchers, _names, _verdicts, _values, _gates, _writers, _observers, _shadows)
    problems = [note for note in definition.notes if note.is_problem]
    reported = {note.hook for note in problems if note.hook}
    found = [
        finding
        for check in checks
        for finding in check(set_of_hooks)
        if not (finding.code == "dead-matcher" and finding.hook in reported)
    ]
    return [*found, *(Finding(each.capability, each.text, remedy=each.remedy) for each in problems)]


def lint_matchers(definition: Definition) -> list[Finding]:
    """The hooks that never run, because their matchers are about no tool of the agent."""
    return list(_matchers(_Hooks(definition)))


class _Hooks:
    """The hooks of an agent in the order they run, and what is known about each."""

    def __init__(self, definition: Definition) -> None:
        self.toolbox = definition.toolbox
        plans = [definition.plans.of(point) for point in HookPoint]
        self.plans = [plan for plan in plans if plan]
        self.all = [entry.registration for plan in self.plans for entry in plan.entries]
        self._effects: dict[int, HookEffects] = {}

    def effects(self, registration: Registration) -> HookEffects:
        """What the hook's code says it does. It is read once, when it is needed."""
        hook = registration.hook
        if id(hook) not in self._effects:
            self._effects[id(hook)] = effects_of(hook)
        return self._effects[id(hook)]

    def find_enforced_hooks(self, plan: Plan) -> list[Registration]:
        """The hooks of tier `hook` at a point that are not in shadow: those that can change things."""
        return [entry.registration for entry in plan.hooks if not entry.shadow]

    def runs(self, registration: Registration) -> Runs:
        """For each case that can arise at its point, whether the hook runs."""
        return runs_of(registration, self.toolbox)


# --- tools and matchers -------------------------------------------------------------------------


def _tools(hooks: _Hooks) -> Iterator[Finding]:
    for tool in hooks.toolbox:
        if not tool.description.strip():
            yield Finding(
                "undescribed-tool",
                f"tool '{tool.name}' ({tool.origin}) has no description, so a model has to guess what it does.",
                remedy="Give the function a docstring, or pass description=.",
            )


def _matchers(hooks: _Hooks) -> Iterator[Finding]:
    has_children = may_have_children(hooks.toolbox)
    for each in hooks.all:
        if (has_children and each.scope != "self") or _is_for_servers(each.matcher):
            continue
        if each.matcher is not None and not possible(hooks.runs(each)):
            yield _dead_finding(each, each.matcher, hooks.toolbox)


def _is_for_servers(matcher: Matcher | None) -> bool:
    """Whether it is about tools of MCP servers, which come and go."""
    leaves = [] if matcher is None else list(_leaves(matcher))
    return any(
        isinstance(leaf, ToolNameMatcher) and leaf.pattern.startswith("mcp__") for leaf in leaves
    )


def _dead_finding(registration: Registration, matcher: Matcher, toolbox: Toolbox) -> Finding:
    where, words = registration.point.value, describe(matcher)
    about_calls = (ToolNameMatcher, ToolArgsMatcher)
    if isinstance(matcher, EventTypeMatcher):
        why, remedy = (
            f"its matcher is for {words}",
            f"Register it there, or drop the matcher: it is at {where}.",
        )
    elif not any(isinstance(leaf, about_calls) for leaf in _leaves(matcher)):
        why, remedy = f"its matcher ({words}) can never match there", "Change the matcher."
    elif "tool_call" not in registration.point.context.__struct_fields__:
        why = f"its matcher ({words}) is about a tool call, and this point has none"
        remedy = (
            "Register it at a point that has one, such as before_tool_use, or drop the matcher."
        )
    else:
        tools = ", ".join(tool.name for tool in toolbox) or "there are none"
        why = f"its matcher ({words}) matches none of the agent's tools ({tools})"
        remedy = _suggestion(matcher, toolbox)
    return _finding("dead-matcher", registration, f"never runs: {why}.", remedy)


def _suggestion(matcher: Matcher, toolbox: Toolbox) -> str:
    names = [tool.name for tool in toolbox]
    patterns = [leaf.pattern for leaf in _leaves(matcher) if isinstance(leaf, ToolNameMatcher)]
    close = [
        name for each in patterns for name in difflib.get_close_matches(each.lower(), names, n=1)
    ]
    return (
        f"Did you mean '{close[0]}'?"
        if close
        else "Change the matcher, or give the agent the tool."
    )


def _leaves(matcher: Matcher) -> Iterator[Matcher]:
    if isinstance(matcher, CompositeMatcher):
        for part in matcher.parts:
            yield from _leaves(part)
    elif isinstance(matcher, NotMatcher):
        yield from _leaves(matcher.part)
    else:
        yield matcher


# --- order --------------------------------------------------------------------------------------


def _names(hooks: _Hooks) -> Iterator[Finding]:
    """Names in before= and after= that constrain nothing."""
    for plan in hooks.plans:
        here = {entry.name: entry.registration for entry in plan.entries}
        for each in here.values():
            for option, names in (("before", each.before), ("after", each.after)):
                for name in names:
                    why = _why_idle(each, here.get(name), name, hooks)
                    if why:
                        said = f"has {option}='{name}', which has no effect: {why}."
                        yield _finding("idle-order", each, said, "Drop it.")


def _why_idle(each: Registration, other: Registration | None, name: str, hooks: _Hooks) -> str:
    if other is None:
        points = dict.fromkeys(reg.point.value for reg in hooks.all if reg.name == name)
        return f"that hook is only at {', '.join(points) or 'other points'}"
    if other.tier is not each.tier:
        tiers = f"'{each.name}' is a {each.tier.value} and '{name}' a {other.tier.value}"
        return f"{tiers}, and tiers have their order already"
    return ""


def _writers(hooks: _Hooks) -> Iterator[Finding]:
    """Two hooks that write one field, with nothing but registration to say whose value stays."""
    for plan in hooks.plans:
        if plan.point.around:
            continue
        for first, second in itertools.combinations(hooks.find_enforced_hooks(plan), 2):
            if _is_ordered(first, second, plan):
                continue
            field = _find_contested_field(hooks, first, second)
            if field:
                yield _finding(
                    "unordered-writers", second,
                    f"writes {field}, as '{first.name}' does, and only their registration decides which is last.",
                    f"Set the order: after='{first.name}', before='{first.name}', or a priority.",
                )  # fmt: skip


def _is_ordered(first: Registration, second: Registration, plan: Plan) -> bool:
    """Whether somebody said which of the two comes first. One capability's hooks are in the order it gave them."""
    if first.priority != second.priority or (first.source and first.source == second.source):
        return True
    return _is_after(second, first.name, {entry.name: entry.registration for entry in plan.hooks})


def _is_after(later: Registration, earlier: str, here: dict[str, Registration]) -> bool:
    """Whether names put `later` after `earlier`, directly or through others."""
    waits_for = [name for name in later.after if name in here]
    waits_for += [name for name, other in here.items() if later.name in other.before]
    return any(name == earlier or _is_after(here[name], earlier, here) for name in waits_for)


def _find_contested_field(hooks: _Hooks, first: Registration, second: Registration) -> str:
    """A field that both certainly write in one and the same case; empty if there is none."""
    pairs = itertools.product(hooks.effects(first).writes, hooks.effects(second).writes)
    for one, other in pairs:
        if not _is_overlap(one.field, other.field) or (one.adds and other.adds):
            continue
        if _can_meet(hooks, first, one.is_sure, second, other.is_sure):
            return max(one.field, other.field, key=len)
    return ""


def _can_meet(
    hooks: _Hooks, first: Registration, first_sure: bool, second: Registration, second_sure: bool
) -> bool:
    """Whether two hooks certainly act on one and the same context, each surely or under its own conditions."""
    one, other = hooks.runs(first), hooks.runs(second)
    if first_sure and second_sure:
        return any(one[case] and other.get(case) for case in one)
    # When one acts only under conditions, the other must act whenever the first might.
    if first_sure:
        return _covers(one, other)
    return second_sure and _covers(other, one)


def _covers(always: Runs, sometimes: Runs) -> bool:
    cases = possible(sometimes)
    return bool(cases) and all(always.get(case) for case in cases)


def _gates(hooks: _Hooks) -> Iterator[Finding]:
    """A gate that judges arguments which a later hook rewrites: what runs is not what it let through."""
    for plan in hooks.plans:
        if plan.point != HookPoint.BEFORE_TOOL_USE:
            continue
        for gate, rewriter in itertools.combinations(hooks.find_enforced_hooks(plan), 2):
            by_name = rewriter.name in gate.before or gate.name in rewriter.after
            field = "" if by_name else _early_judgement(hooks, gate, rewriter)
            if field:
                yield _finding(
                    "gate-before-rewriter", gate,
                    f"judges {field} before '{rewriter.name}' rewrites it, so it does not judge the call that runs.",
                    f"Make it tier='policy', which sees the final call, or order it: after='{rewriter.name}'.",
                )  # fmt: skip


def _early_judgement(hooks: _Hooks, gate: Registration, rewriter: Registration) -> str:
    judge = hooks.effects(gate)
    if not judge.verdicts & {"block", "stop", "ask"} or judge.chooses_tools:
        return ""
    for write, read in itertools.product(hooks.effects(rewriter).writes, sorted(judge.reads)):
        if _is_overlap(write.field, read) and _can_meet(hooks, gate, True, rewriter, write.is_sure):
            return max(write.field, read, key=len)
    return ""


def _is_overlap(one: str, other: str) -> bool:
    """Whether two fields are the same, or one is part of the other."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


# --- tiers --------------------------------------------------------------------------------------


def _verdicts(hooks: _Hooks) -> Iterator[Finding]:
    """Answers that mean nothing where they are given."""
    for each in hooks.all:
        effects = hooks.effects(each)
        shared = sum(other.hook == each.hook for other in hooks.all) > 1
        if shared or effects.looks_where_it_is:
            continue  # it may well answer so at another point only
        for verdict in sorted(effects.verdicts):
            why = _meaningless(verdict, each)
            if why:
                said = f"answers HookOutcome.{verdict}, and {why}."
                yield _finding(
                    "lost-verdict", each, said, "Register it at a point where that has a meaning."
                )


def _values(hooks: _Hooks) -> Iterator[Finding]:
    """Plain values that are no answer where they are returned, as in `lambda ctx: ctx.step_number > 3`."""
    for each in hooks.all:
        point = each.point
        if point.around or each.tier is Tier.OBSERVER:
            continue
        answers = tuple(kind for kind, _ in point.answers)
        for text, kind in hooks.effects(each).returns:
            if not issubclass(kind, answers):
                said = f"returns {text} ({kind.__name__}), which has no meaning there."
                remedy = f"Return {point.describe_expected()}."
                yield _finding("meaningless-return", each, said, remedy)


def _meaningless(verdict: str, registration: Registration) -> str:
    point = registration.point
    if registration.tier is Tier.OBSERVER:
        return "an observer's answer is ignored"
    if point.around:
        return "around an action the answer is its result"
    if verdict == "allow" and registration.tier is Tier.POLICY:
        return "a policy may only narrow"
    return "" if verdict in point.verdicts else f"{point.value} knows no {verdict}"


def _observers(hooks: _Hooks) -> Iterator[Finding]:
    for each in hooks.all:
        if each.tier is Tier.OBSERVER and each.on_failure == "closed":
            said = "has on_failure='closed', but the failure of an observer never affects the run."
            yield _finding("closed-observer", each, said, "Drop it, or choose another tier.")


def _shadows(hooks: _Hooks) -> Iterator[Finding]:
    for each in hooks.all:
        if each.shadow:
            said = "runs in shadow: its verdicts are recorded and have no effect."
            yield _finding(
                "shadow", each, said, "Remove shadow=True when you are satisfied with it."
            )


def _finding(code: str, registration: Registration, said: str, remedy: str) -> Finding:
    where = registration.point.value
    # A lambda has no name to search for.
    place = place_of(registration.hook) if "<lambda>" in registration.name else ""
    message = f"hook '{registration.name}'{f' ({place})' if place else ''} at {where} {said}"
    return Finding(code, message, registration.name, where, remedy)
