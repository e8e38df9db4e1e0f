"""Tools of which only the record is left: there is one for every name that was called. None is ever used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hookline.agent.records.exceptions import recorded_exception
from hookline.playback.recorded_run import RecordedRun
from hookline.state import EMPTY, FrozenDict, ToolCall, ToolMessage, ToolSpec, freeze_dict
from hookline.tools import AnyTool, Effect, Tool, Toolbox, Validated


async def _never(**_: Any) -> Any:
    """The function of a tool that no longer exists."""


def freeze_args(call: ToolCall) -> FrozenDict:
    """The arguments as they are."""
    return freeze_dict(call.args, f"an argument of the call to '{call.name}'")


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


def recorded_tools(recording: RecordedRun, step: Callable[[], int], now: Toolbox) -> Toolbox:
    """A tool for every name that was called, whether or not there still is one. `step` is the step that is made."""
    made: dict[str, AnyTool] = {}

    def check(call: ToolCall) -> FrozenDict:
        return _validated(recording, step(), now, call)

    effects = {
        call.intent.call.name: Effect(call.intent.effect)
        for calls in recording.calls.values()
        for call in calls.values()
        if call.intent is not None
    }
    limits = dict(_limits(recording))

    def get(name: str) -> AnyTool:
        if name not in made:
            tool = now.get(name)
            made[name] = RecordedTool(
                function=_never if tool is None else tool.function,  # a guard may look whose it is
                spec=ToolSpec(name, "", EMPTY),
                arguments=NeverWhole(),
                origin="the record",
                is_async=True,
                context_name="",
                timeout=None,
                concurrency=None,
                alone=False,
                effect=effects.get(name, Effect.ONCE),
                max_chars=limits.get(name),
                root="" if tool is None else tool.root,
                served_by=() if tool is None else tool.served_by,
                pure_with={} if tool is None else tool.pure_with,
                check=check,
            )
        return made[name]

    toolbox = Toolbox(now)
    toolbox.get = get
    return toolbox


def _validated(recording: RecordedRun, step: int, now: Toolbox, call: ToolCall) -> FrozenDict:
    """What the arguments of a call were validated to. What hooks of now make of them, the tools of now check."""
    then, turn = recording.call(step, call.id), recording.turn(step)
    response = None if turn is None else turn.answer
    verdicts = recording.verdicts_on(step, call.id)
    is_made = response is not None and call in response.calls
    # Refused as the model made it, when no hook was asked; else as a person had edited it.
    if then.refusal is not None and is_made is not bool(verdicts):
        raise recorded_exception(then.refusal)
    changes = [ran.changes or {} for ran in verdicts]
    changed = [each["tool_call"] for each in changes if "tool_call" in each]
    known = [version.args for version in then.versions]
    if is_made and known and not changed:
        return freeze_dict(known[0], "an argument")
    known += [made.get("args", {}) for made in changed]
    tool = now.get(call.name)
    if call.args in known or tool is None:
        return freeze_args(call)
    return tool.validate_call(call).args


_CUT = re.compile(r"\n\[cut here: ([\d,]+) of [\d,]+ characters are shown")


def _limits(recording: RecordedRun) -> Iterator[tuple[str, int]]:
    """How much of a tool's results the model was shown, where something was cut off."""
    for record in recording.steps.values():
        for message in record.messages:
            cut = _CUT.search(message.text) if isinstance(message, ToolMessage) else None
            if isinstance(message, ToolMessage) and cut is not None:
                yield message.name, int(cut[1].replace(",", ""))
