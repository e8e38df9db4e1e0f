"""The type of a hook point: a named place where hooks are asked, the rules that hold there, and what can be decided.

The points of an agent are in `lifecycle/points.py`; what a hook may return is `HookOutcome` in `outcome.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from typing import Any, Generic, Self, TypeVar

import msgspec

from hookline.errors import UsageError

C = TypeVar("C", bound="Context")


class Kind(enum.IntEnum):
    """What was decided, the strictest highest."""

    ALLOW = -1
    PROCEED = 0
    ASK = 1
    BLOCK = 2
    STOP = 3
    FAILED = 4
    """A hook failed where that is an error. Hooks cannot answer this; observers see it."""

    @property
    def label(self) -> str:
        """The word for it in journals and messages."""
        return self.name.lower()


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What was decided at a point, and by which hook. Observers see it."""

    kind: Kind = Kind.PROCEED
    reason: str = ""
    decided_by: str = ""

    @property
    def label(self) -> str:
        """`proceed`, `ask`, `block`, `stop`, or `failed` when a hook failed where that is an error."""
        return self.kind.label


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook is shown. Contexts are immutable; `replace(...)` and `with_…` methods derive changed ones.

    One of your own is written like a frozen dataclass: `class Upload(Context, frozen=True, kw_only=True): size: int`.
    """

    point: Point[Any]
    decided: Verdict | None = None
    """What was decided here; None for hooks that are not observers. They use `verdict`."""

    @property
    def verdict(self) -> Verdict:
        """For observers: what was decided here, and by whom."""
        if self.decided is None:
            raise UsageError(
                f"only observers have ctx.verdict: at {self.point.value} the other hooks are still being asked.",
                remedy="Register the hook with tier='observer'.",
            )
        return self.decided

    def replace(self, **changes: Any) -> Self:
        """This context with other values in some fields. The point says which ones a hook may change."""
        return msgspec.structs.replace(self, **changes)


class Point(str, Generic[C]):
    """A place in a lifecycle where hooks are asked. It is its name, so it prints and compares like text.

    `changes` are the context fields a hook may change here. `answers` are the plain values a hook may
    return instead of an outcome, each with what it means. `blocks` says what a block prevents here;
    None means that nothing can be blocked. `verdicts` are the words a hook may use, apart from `proceed`.
    """

    context: type[C]
    spellings: frozenset[str]
    changes: frozenset[str]
    answers: tuple[tuple[type, Callable[[Any, Any], Any]], ...]
    blocks: str | None
    failure_blocks: bool
    """A hook that fails (`on_failure="closed"`) counts as a block here; elsewhere it is an error."""
    verdicts: frozenset[str]
    appends: type | None
    """Answers of this type are appended to the context by `append(ctx, answer, hook name)`, and decide nothing."""
    append: Callable[[Any, Any, str], Any] | None
    around: bool
    """Hooks here wrap an action: they are called as `(ctx, call_next)`."""
    gives_context: bool
    """The action takes a context and gives one, so what hooks change before and after it is recorded."""
    unskippable: bool
    """When one hook fails here the others still run: a run always passes these points at its end."""
    judged_after_stop: bool
    """What this is about has happened, and a stop does not undo it: policies judge it also after a stop."""
    lenient: bool
    """An answer that means nothing here is reported and ignored; elsewhere it is a failure of the hook."""
    without_effect: frozenset[str]
    """Fields whose change comes too late here: it is reported and ignored."""
    is_tool_event: bool
    """Every context here is about a tool call."""

    def __new__(
        cls,
        name: str,
        context: type[C],
        *,
        aliases: tuple[str, ...] = (),
        changes: Collection[str] = (),
        answers: tuple[tuple[type, Callable[[Any, Any], Any]], ...] = (),
        blocks: str | None = None,
        failure_blocks: bool = False,
        verdicts: Collection[str] = ("block", "stop"),
        append: tuple[type, Callable[[Any, Any, str], Any]] | None = None,
        around: bool = False,
        gives_context: bool = False,
        unskippable: bool = False,
        judged_after_stop: bool = False,
        lenient: bool = False,
        without_effect: frozenset[str] = frozenset(),
        is_tool_event: bool = False,
    ) -> Point[C]:
        _refuse_wrong_point(name, context, changes, verdicts)
        point = super().__new__(cls, name)
        point.context = context
        point.spellings = frozenset(normalize_name(text) for text in (name, *aliases))
        point.changes = frozenset(changes)
        point.answers = answers
        point.blocks = blocks
        point.failure_blocks = failure_blocks
        point.verdicts = frozenset(verdicts) - (set() if blocks is not None else {"block"})
        point.appends, point.append = append if append is not None else (None, None)
        point.around = around
        point.gives_context = gives_context
        point.unskippable = unskippable
        point.judged_after_stop = judged_after_stop
        point.lenient = lenient
        point.without_effect = without_effect
        point.is_tool_event = is_tool_event
        return point

    @property
    def value(self) -> str:
        """The point's name as plain text."""
        return str.__str__(self)

    @property
    def name(self) -> str:
        """The name of its constant: `HookPoint[point.name] is point`."""
        return self.value.upper()

    def is_named(self, text: str) -> bool:
        """Whether `text` names this point, in any spelling: `PreToolUse`, `pre_tool_use`, `BeforeToolUse`."""
        name = normalize_name(text)
        return name in self.spellings or name.removeprefix("on") in self.spellings

    def __repr__(self) -> str:
        return f"<point {self.value}>"

    def describe_expected(self) -> str:
        """What a hook may return at this point, for error messages."""
        kinds = [f"a changed {self.context.__name__}", *(kind.__name__ for kind, _ in self.answers)]
        return "None, a HookOutcome, " + " or ".join(
            [", ".join(kinds[:-1]), kinds[-1]] if kinds[1:] else kinds
        )


def _refuse_wrong_point(
    name: str, context: object, changes: Collection[str], verdicts: Collection[str]
) -> None:
    """Refuse a point at which no hook could do what the point says."""
    if not (isinstance(context, type) and issubclass(context, Context)):
        raise UsageError(
            f"point '{name}': {context!r} is not a context.",
            remedy="Derive it: class Upload(Context, frozen=True, kw_only=True): ...",
        )
    fields, known = context.__struct_fields__, [kind.label for kind in Kind]
    for option, given, names in (("changes", changes, fields), ("verdicts", verdicts, known)):
        if wrong := set(given) - set(names):
            raise UsageError(
                f"point '{name}': {option}= has {min(wrong)!r}, which is none of {', '.join(names)}.",
                remedy="Correct the name.",
            )


def normalize_name(text: str) -> str:
    """A name without case and separators, so that all its spellings are equal."""
    return str(text).replace("_", "").replace("-", "").lower()
