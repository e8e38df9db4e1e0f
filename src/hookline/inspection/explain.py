"""`agent.explain()`: what runs at each point, in which order and why, as text for a person."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hookline.definition import Approver, Definition
from hookline.definition.guards import SOURCE
from hookline.errors import ToolArgumentsError
from hookline.flow import ErrorAction, ErrorClass, ErrorPolicy
from hookline.hooks import (
    Entry,
    Matcher,
    Plan,
    Point,
    Registration,
    Shape,
    Tier,
    describe,
    name_of,
)
from hookline.inspection.predictions import predict_call
from hookline.lifecycle import HookPoint
from hookline.state import ToolCall
from hookline.tools import AnyTool, Effect, Toolbox

WIDTH = 100
"""Columns of a page if no width is given."""
_LEAST = 20
_NARROWEST = 16
"""How narrow the last two columns of a table may get. Where they would be narrower, there is no table."""
_WIDEST = (3, 26, 13, 13, 42)
"""How wide the other columns may get: number, name, source, tier, matcher."""
_INDENT = "  "
_BELOW = "    "

Row = tuple[str, ...]
Section = tuple[str, list[Row]]
"""A heading, and the rows under it."""
_TITLES = ("", "hook", "from", "tier", "runs", "notes")
_CALL_TITLES = ("", "hook", "from", "tier", "for this call", "notes")
_CALL_POINTS = (
    HookPoint.BEFORE_TOOL_USE,
    HookPoint.PERMISSION_REQUEST,
    HookPoint.AROUND_TOOL_USE,
    HookPoint.AFTER_TOOL_USE,
)


def explain(
    definition: Definition,
    tool: str | None,
    args: Mapping[str, Any],
    *,
    width: int = WIDTH,
    model: str = "",
) -> str:
    """What runs at each point and why; for a tool call, what would run and what would not.

    `model` is shown in place of the driver, where the agent was made without the one that it will have.
    """
    page = Page(width)
    found = None if tool is None else definition.toolbox.get(tool)
    if found is not None:
        lines = _call(definition, found, ToolCall("", found.name, dict(args)), page, model)
    elif tool is None:
        lines = _agent(definition, page, model)
    else:
        lines = _unknown(definition.toolbox, tool, page)
    return "\n".join(lines).rstrip()


# --- the whole agent ----------------------------------------------------------------------------


def _agent(definition: Definition, page: Page, model: str) -> Iterator[str]:
    yield f"agent {definition.agent_id}"
    yield ""
    yield from page.facts(
        ("model", [model]) if model else ("driver", [_driver(definition)]),
        ("tools", list(_tools(definition.toolbox))),
        (
            "run by model",
            [", ".join(definition.provider_tools)] if definition.provider_tools else [],
        ),
        ("limits", [_limits(definition)]),
        ("errors", [_errors(definition.error_policy)]),
        ("approver", [_approver(definition.approver)]),
        ("capabilities", list(_capabilities(definition))),
    )
    yield ""
    plans = [(point, definition.plans.of(point)) for point in HookPoint]
    sections = [
        (_heading(point, _block_text(point)), list(_rows(plan))) for point, plan in plans if plan
    ]
    yield from page.tables(_TITLES, sections)
    yield from page.wrap_row(
        "no hooks at  ", ", ".join(point.value for point, plan in plans if not plan)
    )
    below = [each for each in definition.registrations if each.scope == "children"]
    if below:
        yield from page.wrap_row(
            "in child runs only  ", ", ".join(f"{each.name} ({each.point.value})" for each in below)
        )


def _driver(definition: Definition) -> str:
    driver = definition.driver
    if driver is None:
        return "none"
    name, model = type(driver).__name__, getattr(driver, "model", "")
    if name.lower().startswith(str(model).lower()):
        model = ""  # the name of a scripted driver says it already
    source = f" (from {definition.driver_source})" if definition.driver_source else ""
    return f"{name}: {model}{source}" if model else f"{name}{source}"


def _tools(toolbox: Toolbox) -> Iterator[str]:
    width = max((len(tool.name) for tool in toolbox), default=0)
    for tool in toolbox:
        first_line = tool.description.partition("\n")[0] or "(no description)"
        yield f"{tool.name:{width}}  {tool.effect.value:10}  {first_line}"
    if not len(toolbox):
        yield "none"


def _capabilities(definition: Definition) -> Iterator[str]:
    """One line with their names, then what each has to say about itself here."""
    yield ", ".join(definition.capabilities) or "none"
    for note in definition.notes:
        mark = "problem: " if note.is_problem else ""
        first, *rest = f"{note.capability}: {mark}{note.text}".splitlines()
        yield from (first, *(f"  {line}" for line in rest))


def _limits(definition: Definition) -> str:
    kept = [getattr(each.hook, "keeps", {}) for each in definition.registrations]
    limits = [
        f"{limit:,.10g} {what.replace('_', ' ')}" for each in kept for what, limit in each.items()
    ]
    return f"{', '.join(limits) or 'none'}; {definition.max_objections} objections to stopping"


_SCOPES = {"self": "not in child runs", "tree": "in child runs too"}


def _errors(policy: ErrorPolicy) -> str:
    """The policy in a line: what happens to which classes, the common case last."""
    classes: dict[ErrorAction, list[str]] = {}
    for error_class in ErrorClass:
        action = policy.actions.get(error_class, policy.otherwise)
        is_named = error_class in policy.actions
        if action is not policy.otherwise or (error_class is ErrorClass.BLOCKED and is_named):
            classes.setdefault(action, []).append(error_class.value.replace("_", " "))
    parts = [
        f"{', '.join(names)}: {_action_text(action, policy)}" for action, names in classes.items()
    ]
    parts.append(
        f"{'anything else' if parts else 'any error'}: {_action_text(policy.otherwise, policy)}"
    )
    if policy.max_errors is not None:
        parts.append(f"more than {policy.max_errors} in a run: the run fails")
    return "; ".join(parts)


def _action_text(action: ErrorAction, policy: ErrorPolicy) -> str:
    if action is ErrorAction.RETRY:
        return f"tried again, {policy.max_retries} times in a row at most"
    return "the run fails" if action is ErrorAction.STOP else "the model reads it"


def _approver(approver: Approver | None) -> str:
    if approver is None:
        return "none: a run that needs an answer pauses until it gets one"
    return "every question is answered no" if approver == "deny" else name_of(approver)


def _heading(point: Point[Any], text: str) -> str:
    return f"{point.value:20}{text}"


_ACTIONS = {
    HookPoint.AROUND_STEP: "the step",
    HookPoint.AROUND_INFERENCE: "the driver",
    HookPoint.AROUND_TOOL_USE: "the tool",
}


def _block_text(point: Point[Any]) -> str:
    if point.around:
        return f"outermost first, around {_ACTIONS[point]}"
    return f"a block: {point.blocks}" if point.blocks else "nothing can be blocked here"


def _rows(plan: Plan) -> Iterator[Row]:
    entries = plan.entries
    for position, entry in enumerate(entries):
        here = entry.registration
        when = "always" if here.matcher is None else describe(here.matcher)
        notes = "; ".join([*_reasons(entries, position), *_flags(here)])
        yield (str(position + 1), *_identity(entry, position), when, notes)


def _identity(entry: Entry, depth: int) -> Row:
    """Name, source and tier. What wraps an action is indented, one step for each layer."""
    registration = entry.registration
    indent = "  " * depth if registration.shape is Shape.AROUND else ""
    priority = f" {registration.priority}" if registration.priority else ""
    return (f"{indent}{entry.name}", registration.source or "yours", f"{entry.tier_name}{priority}")


def _reasons(entries: Sequence[Entry], position: int) -> Iterator[str]:
    """Why a hook stands where it stands, as far as its tier and priority do not show it."""
    here = entries[position].registration
    names = {entry.name for entry in entries}
    for option, mentioned in (("after", here.after), ("before", here.before)):
        for name in mentioned:
            yield f"{option} '{name}'" + ("" if name in names else " (which is not here)")
    above = entries[position - 1].registration if position else None
    if above is not None and above.tier is not here.tier:
        yield "policies run after hooks" if here.tier is Tier.POLICY else "observers run last"
    elif above is not None and _is_tie(above, here):
        yield f"registered after '{above.name}'"
    others = [e.registration for e in entries if e.tier is here.tier and e.registration is not here]
    if others and all(other.priority < here.priority for other in others):
        yield "highest priority"


def _is_tie(above: Registration, here: Registration) -> bool:
    """Whether only registration says which of two neighbours runs first. Among defaults it does not matter."""
    by_name = above.name in here.after or here.name in above.before
    by_default = above.source == here.source == SOURCE
    return above.priority == here.priority and not by_name and not by_default


def _flags(registration: Registration) -> Iterator[str]:
    """What a hook says of itself, and the options that are not as a hook of this tier has them by default."""
    tier = registration.tier
    note = getattr(registration.hook, "note", "")
    if isinstance(note, str) and note:
        yield note
    if registration.shape is Shape.MIDDLEWARE:
        yield "middleware"
    if registration.timeout is not None:
        yield f"timeout {registration.timeout:g} s"
    if registration.on_failure != ("open" if tier is Tier.OBSERVER else "closed"):
        yield f"fails {registration.on_failure}"
    if registration.shadow:
        yield "shadow: not enforced"
    if registration.scope != ("tree" if tier is Tier.POLICY else "self"):
        yield _SCOPES[registration.scope]


# --- one call -----------------------------------------------------------------------------------


def _unknown(toolbox: Toolbox, name: str, page: Page) -> Iterator[str]:
    if not len(toolbox):
        yield f"There is no tool '{name}': this agent has none."
        return
    yield from page.wrap_row("", f"T{toolbox.unknown_error(name).message.removeprefix('t')}")
    yield from page.wrap_row("The tools are  ", ", ".join(tool.name for tool in toolbox))


def _call(
    definition: Definition, tool: AnyTool, made: ToolCall, page: Page, model: str
) -> Iterator[str]:
    call, arguments = _validate(tool, made)
    refused = call is made
    yield from page.wrap_row("", f"a call to {tool.name}, by agent {definition.agent_id}")
    yield ""
    yield from page.facts(
        ("effect", [_EFFECTS[tool.effect]]),
        ("runs", [_runs(tool)]),
        ("arguments", [arguments]),
        ("model", [model] if model else []),
    )
    yield ""
    if refused:
        yield from page.wrap_row("", "It would not run, and the model would read why.")
        yield ""
    sections = [_call_section(definition, point, tool, call, refused) for point in _CALL_POINTS]
    yield from page.tables(_CALL_TITLES, [each for each in sections if each[1] or not refused])
    plan = definition.plans.before_tool_use
    if plan is not None and plan.hooks and not refused:
        yield from page.wrap_row(
            "",
            "This is the call as the model makes it. If a hook changes it, later hooks see the changed call.",
        )


def _validate(tool: AnyTool, made: ToolCall) -> tuple[ToolCall | None, str]:
    """The call as hooks would see it, and a word on its arguments.

    That is None when no arguments were given though some are needed, and `made` itself when they do not fit.
    """
    try:
        args = tool.validate_call(made).args
    except ToolArgumentsError as error:
        if not made.args:
            takes = ", ".join(tool.spec.parameters["properties"])
            return (
                None,
                f"none given, so the result is open where it depends on them; it takes {takes}",
            )
        problem = error.message.removeprefix(f"the call to '{tool.name}' was not run: ")
        return made, f"they do not fit: {problem}"
    return ToolCall(
        "", tool.name, args
    ), f"they fit: {_format_args(args)}" if args else "it takes none"


_EFFECTS = {
    Effect.PURE: "pure: it changes nothing, so it may run again",
    Effect.IDEMPOTENT: "idempotent: running it again changes nothing more",
    Effect.ONCE: "once: it is not run again unless it is known not to have run",
}


def _runs(tool: AnyTool) -> str:
    time = "without a timeout" if tool.timeout is None else f"for {tool.timeout:g} s at most"
    if tool.alone:
        return f"alone, {time}"
    beside = (
        "beside other calls" if tool.concurrency is None else f"at most {tool.concurrency} at once"
    )
    return f"{beside}, {time}"


def _format_args(args: Mapping[str, Any]) -> str:
    pairs = (f"{name}={msgspec.json.encode(value).decode()}" for name, value in args.items())
    return textwrap.shorten(", ".join(pairs), 2 * WIDTH, placeholder=" ...")


def _call_section(
    definition: Definition, point: Point[Any], tool: AnyTool, call: ToolCall | None, refused: bool
) -> Section:
    plan = definition.plans.of(point) or Plan(point)
    entries, meaning = plan.entries, _block_text(point)
    if refused:  # nobody is asked about it, and only these see what came of it
        entries = plan.observers if point == HookPoint.AFTER_TOOL_USE else ()
        meaning = "observers only"
    elif point == HookPoint.PERMISSION_REQUEST:
        meaning = f"when a hook asks; {meaning}"
    heading = _heading(point, meaning if entries else "no hooks")
    return heading, list(_call_rows(entries, point, tool, call))


def _call_rows(
    entries: Iterable[Entry], point: Point[Any], tool: AnyTool, call: ToolCall | None
) -> Iterator[Row]:
    number = 0
    for entry in entries:
        said, words = _predict(entry.registration.matcher, point, tool, call)
        identity = _identity(entry, number)
        if said is False:
            yield ("-", *identity, words, "")
            continue
        number += 1
        mark = f"{number}" if said else f"{number}?"
        yield (mark, *identity, words, "; ".join(_flags(entry.registration)))


def _predict(
    matcher: Matcher | None, point: Point[Any], tool: AnyTool, call: ToolCall | None
) -> tuple[bool | None, str]:
    """Whether a hook with this matcher would run for the call, and that in words."""
    if matcher is None:
        return True, "runs"
    said, obstacle = predict_call(matcher, point, tool, call)
    words = {True: "runs", False: "no match", None: obstacle}[said]
    return said, f"{words}: {describe(matcher)}"


# --- facts, tables and sentences, laid out as text that fits a screen -----------------------------


class Page(msgspec.Struct, frozen=True):
    """A page of so many columns. On a narrow one, columns become lines."""

    width: int = WIDTH

    @property
    def _width(self) -> int:
        return max(self.width, _LEAST)

    def facts(self, *given: tuple[str, list[str]]) -> Iterator[str]:
        """Labels, and the lines beside each."""
        width = max(len(label) for label, _ in given) + 4
        for label, lines in given:
            for number, line in enumerate(lines):
                yield from self.wrap_row(f"  {'' if number else label:{width - 2}}", line)

    def wrap_row(self, label: str, text: str) -> list[str]:
        """A text beside its label, wrapped where the screen ends; where that is soon, below its label."""
        if len(label) + _NARROWEST <= self._width:
            below = " " * len(label)
            return wrap_words(text, self._width, label, below)
        said = [label.rstrip()] if label.strip() else []
        return [*said, *wrap_words(text, self._width, _BELOW, _BELOW)]

    def tables(self, titles: Row, sections: list[Section]) -> Iterator[str]:
        """Headings and tables, all with the same columns."""
        rows = [row for _, table in sections for row in table]
        widths = self._widths([titles, *rows])
        yield from _line(titles, widths) if rows and widths else ()
        for heading, table in sections:
            yield from self.wrap_row("", heading)
            for row in table:
                fits = widths and has_room(row, widths)
                yield from _line(row, widths) if fits else self._row_lines(titles, row, widths)
            yield ""

    def _widths(self, rows: list[Row]) -> list[int]:
        """The width of each column; none where they cannot stand beside each other."""
        widths = [
            min(most, max(len(cell) for cell in column))
            for most, *column in zip(_WIDEST, *(row[:-1] for row in rows), strict=True)
        ]
        spare = self._width - len(_INDENT) - 2 * len(widths) - sum(widths[:-1])
        if spare < 2 * _NARROWEST:
            return []
        widths[-1] = min(widths[-1], spare - _NARROWEST)
        return [*widths, spare - widths[-1]]

    def _row_lines(self, titles: Row, row: Row, widths: Sequence[int]) -> Iterator[str]:
        """One row as a paragraph, each of its cells with its title."""
        number, name, *cells = row
        place = f"{_INDENT}{number:>{widths[0] if widths else 2}}  "
        yield from self.wrap_row(place, name.strip())
        for title, cell in zip(titles[2:], cells, strict=True):
            if cell:
                yield from self.wrap_row(" " * len(place), f"{title}: {cell}")


def wrap_words(text: str, width: int, first: str = "", below: str = "") -> list[str]:
    """A text in lines of so many columns. A word is never broken: a long one has less of the indent before it."""
    lines: list[str] = []
    for line in textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=below,
        break_long_words=False,
        break_on_hyphens=False,
    ):
        if len(line) > width and not lines and first.strip():
            lines.append(first.rstrip())
            line = below + line[len(first) :]
        spare = len(line) - len(line.lstrip())
        lines.append(line[min(spare, max(len(line) - width, 0)) :])
    return lines


def has_room(row: Row, widths: Sequence[int]) -> bool:
    """Whether each word of a row fits into its column."""
    return all(
        len(word) <= width for cell, width in zip(row, widths, strict=True) for word in cell.split()
    )


def _line(row: Row, widths: Sequence[int]) -> Iterator[str]:
    """One row; a cell that is too long continues below itself."""
    cells = [wrap_words(cell, width) for cell, width in zip(row, widths, strict=True)]
    cells[0] = [row[0].rjust(widths[0])]
    for parts in itertools.zip_longest(*cells, fillvalue=""):
        padded = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
        yield (_INDENT + "  ".join(padded)).rstrip()
