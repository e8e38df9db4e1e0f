"""What takes the place of tools and of an error policy while a run is played."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from types import MethodType
from typing import Any, TypeAlias

import msgspec

from hookline.agent.past_errors import past_error
from hookline.flow import ErrorAction, ErrorClass, ErrorDecision, ErrorPolicy
from hookline.journal import ErrorRaised
from hookline.rehearse.playing import Playing
from hookline.rehearse.recording import Recording
from hookline.state import EMPTY, FrozenDict, ToolCall, ToolMessage, ToolSpec, freeze_dict
from hookline.tools import AnyTool, Effect, Tool, Toolbox, ToolContext, Validated

CONTEXT = "hookline.context"
"""The parameter a played tool takes its context by: no tool's own can have this name."""

PlayTool: TypeAlias = Callable[[ToolContext], Awaitable[Any]]


def freeze_args(call: ToolCall) -> FrozenDict:
    """The arguments as they are."""
    return freeze_dict(call.args, f"an argument of the call to '{call.name}'")


class PlayedPolicy(ErrorPolicy, frozen=True, kw_only=True):
    """Decides about each error as it was decided then."""

    decided: list[ErrorRaised] = msgspec.field(default_factory=list)
    """What is left of the decisions; the next is first."""

    def decide(
        self,
        error_class: ErrorClass,
        failures: int,  # noqa: ARG002 - the policy's signature
        errors: int,  # noqa: ARG002
        exception: BaseException,  # noqa: ARG002
    ) -> ErrorDecision:
        """The next decision on record about an error of this class."""
        for record in self.decided:
            if record.error is not None and record.error.error_class == error_class:
                self.decided.remove(record)
                return ErrorDecision(ErrorAction(record.action), record.delay, record.reason)
        return ErrorDecision(ErrorAction.STOP)


# --- tools ----------------------------------------------------------------------------------------------


def played_tools(toolbox: Toolbox, play: PlayTool) -> Toolbox:
    """The same tools to look at and to validate calls with, and none of them is ever used."""
    return Toolbox(_played(tool, play) for tool in toolbox)


def _played(tool: AnyTool, play: PlayTool) -> AnyTool:
    function = _playing_for(tool, play)
    return msgspec.structs.replace(
        tool, function=function, is_async=True, context_name=CONTEXT, timeout=None
    )


def _playing_for(tool: AnyTool | None, play: PlayTool) -> Callable[..., Awaitable[Any]]:
    """What is called in place of a tool. It is bound to what the tool is bound to: a guard may look whose it is."""

    def bound(_owner: object, **given: Any) -> Awaitable[Any]:
        return play(given[CONTEXT])

    owner = getattr(getattr(tool, "function", None), "__self__", None)
    return partial(bound, None) if owner is None else MethodType(bound, owner)


class RecordedTool(Tool[..., Any], frozen=True, eq=False, weakref=True):
    """A tool of which only the record is left. It takes a call for what it was taken for then."""

    check: Callable[[ToolCall], FrozenDict] = freeze_args

    def validate_call(self, call: ToolCall) -> Validated:
        """The arguments as they were then; what was refused then is refused again."""
        args = self.check(call)
        return Validated(args, args)


class NeverWhole:
    """Leaves every call to `validate_call`, which knows which call it is."""

    def validate(self, args: Mapping[str, Any]) -> Validated:
        """Nothing is known against them."""
        frozen = freeze_dict(dict(args), "an argument")
        return Validated(frozen, frozen)

    def are_whole(self, args: FrozenDict) -> bool:  # noqa: ARG002 - the protocol's signature
        """Not for this to say."""
        return False


def recorded_tools(playing: Playing, now: Toolbox, play: PlayTool) -> Toolbox:
    """A tool for every name that was called, whether or not there still is one."""
    check = _Arguments(playing, now)
    made: dict[str, AnyTool] = {}
    recording = playing.recording
    effects = {
        use.intent.call.name: Effect(use.intent.effect)
        for use in recording.uses.values()
        if use.intent is not None
    }
    limits = dict(_limits(recording))

    def get(name: str) -> AnyTool:
        if name not in made:
            tool = now.get(name)
            made[name] = RecordedTool(
                _playing_for(tool, play),
                ToolSpec(name, "", EMPTY),
                NeverWhole(),
                "the record",
                True,
                CONTEXT,
                effects.get(name, Effect.ONCE),
                None,
                None,
                False,
                limits.get(name),
                "" if tool is None else tool.root,
                () if tool is None else tool.served_by,
                {} if tool is None else tool.pure_with,
                check,
            )
        return made[name]

    toolbox = Toolbox(now)
    toolbox.get = get
    return toolbox


class _Arguments:
    """What the arguments of a call were validated to. What hooks of now make of them, the tools of now check."""

    def __init__(self, playing: Playing, now: Toolbox) -> None:
        self._playing = playing
        self._now = now

    def __call__(self, call: ToolCall) -> FrozenDict:
        recording, step = self._playing.recording, self._playing.step
        use, response = recording.uses[step, call.id], recording.turns[step].response
        verdicts = recording.verdicts_on(step, call.id)
        is_made = response is not None and call in response.calls
        # Refused as the model made it, when no hook was asked; else as a person had edited it.
        refusal = use.result.error if use.result and use.result.status == "invalid" else None
        if refusal is not None and is_made is not bool(verdicts):
            raise past_error(refusal)
        changes = [ran.changes or {} for ran in verdicts]
        changed = [each["tool_call"] for each in changes if "tool_call" in each]
        known = [version.args for version in use.versions]
        if is_made and known and not changed:
            return freeze_dict(known[0], "an argument")
        known += [made.get("args", {}) for made in changed]
        tool = self._now.get(call.name)
        if call.args in known or tool is None:
            return freeze_args(call)
        return tool.validate_call(call).args


_CUT = re.compile(r"\n\[cut here: ([\d,]+) of [\d,]+ characters are shown")


def _limits(recording: Recording) -> Iterator[tuple[str, int]]:
    """How much of a tool's results the model was shown, where something was cut off."""
    for record in recording.steps.values():
        for message in record.messages:
            cut = _CUT.search(message.text) if isinstance(message, ToolMessage) else None
            if isinstance(message, ToolMessage) and cut is not None:
                yield message.name, int(cut[1].replace(",", ""))
