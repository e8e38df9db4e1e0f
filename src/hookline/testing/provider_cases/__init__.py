"""What every provider must do, under every driver, run or streamed. One function is one case."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hookline.testing.provider_cases import hooks, turns, wires
from hookline.testing.provider_stage import Stage
from hookline.testing.wire import ERRORS

Case = Callable[[Stage], Awaitable[None]]

_NAMED: tuple[Case, ...] = (
    turns.text,
    turns.letters,
    turns.reasoning,
    turns.usage,
    turns.one_call,
    turns.parallel_calls,
    turns.failed_call,
    turns.text_and_call,
    turns.invalid_arguments,
    turns.broken_arguments,
    turns.unknown_tool,
    turns.tool_choice,
    turns.attachments,
    turns.structured_output,
    turns.others_thoughts,
    hooks.block,
    hooks.stop,
    hooks.ask,
    hooks.limit,
    hooks.withheld,
    hooks.other_model,
    hooks.options,
    wires.cancelled,
    wires.left,
    wires.second_loop,
    wires.retried,
    wires.restarted,
    wires.undeclared,
)

CASES: dict[str, Case] = {
    **{getattr(case, "__name__", "").replace("_", " "): case for case in _NAMED},
    **{f"error: {failure.value.replace('_', ' ')}": wires.failing(failure) for failure in ERRORS},
}
"""Every case, by name."""

__all__ = ["CASES", "Case"]
