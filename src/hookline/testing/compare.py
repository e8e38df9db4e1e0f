"""What is wrong with a hook by itself, and what differs between two drives of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hookline.hooks import Shape
from hookline.testing.report import Difference
from hookline.testing.trial import Seen, Trial

_KEEPS = (
    "The hook keeps something between runs. Keep it in ctx.with_metadata(...), "
    "or pass factory= if each run is to have a hook of its own."
)
_SEQUENCES = {
    "verdicts": "verdict",
    "evaluations": "evaluation",
    "results": "result of call",
    "transcript": "message",
}


def faults(trials: Mapping[str, Trial], quick: float) -> Iterator[Difference]:
    """What is wrong with the hook whichever way the agent is driven."""
    reference = trials["run"]
    point = reference.case.point
    verdicts = reference.seen().verdicts
    if not verdicts:
        yield Difference(
            "run",
            "how often the hook was asked",
            "at least once",
            "never",
            f"The script never comes to {point}, or the matcher matches nothing in it.",
        )
    for number, said in enumerate(verdicts, 1):
        if said.verdict == "failed":
            expected = f"an answer that means something at {point}"
            yield Difference("run", f"verdict {number}", expected, said)
    for mode, trial in trials.items():
        for number in trial.watch.meddled:
            what = f"the context of call {number + 1} of the hook"
            yield Difference(mode, what, "left as it was", "changed in place")
    yield from _slowness(trials, quick)


def _slowness(trials: Mapping[str, Trial], quick: float) -> Iterator[Difference]:
    """The hook took long to say nothing, each time anew: one slow time can be the machine's fault."""
    if trials["run"].registration.shape is not Shape.PLAIN:
        return  # what it wraps takes its time too
    rounds = [trial.watch.seconds for trial in trials.values()]
    for number, times in enumerate(zip(*rounds, strict=False), 1):
        took = [seconds for seconds in times if seconds is not None]
        if len(took) == len(times) and min(took) > quick:
            expected = f"within {quick * 1000:g} ms, as every other call waits for it"
            got = f"in {min(took) * 1000:.0f} ms at best"
            yield Difference("every mode", f"saying nothing, call {number}", expected, got)


def differences(mode: str, expected: Seen, got: Seen) -> Iterator[Difference]:
    """What was not the same as under `run`. Of a sequence, the first item that differs."""
    remedy = _KEEPS if mode == "run again" else ""
    for field, what in _SEQUENCES.items():
        if field != "transcript" or mode != "parallel":  # one turn instead of two reads differently
            yield from _first(mode, what, getattr(expected, field), getattr(got, field), remedy)
    for field in ("metadata", "ending"):
        one, other = getattr(expected, field), getattr(got, field)
        if one != other:
            yield Difference(mode, field, one, other, remedy)


def _first(
    mode: str, what: str, expected: Sequence[object], got: Sequence[object], remedy: str
) -> Iterator[Difference]:
    for number in range(max(len(expected), len(got))):
        one = expected[number] if number < len(expected) else "nothing"
        other = got[number] if number < len(got) else "nothing"
        if one != other:
            yield Difference(mode, f"{what} {number + 1}", one, other, remedy)
            return
