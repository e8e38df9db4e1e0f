"""What a recorded run says: how it was started, its conversation, and whether it can continue."""

from __future__ import annotations

import copy
import itertools
import os
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec

from hookline.cli.assembly.verification import load_verified
from hookline.cli.terminal import report
from hookline.config import Layer, Settings
from hookline.config.layers import MergedLayers, find, put
from hookline.config.load import NO_FLAGS
from hookline.config.schema import PlaceName
from hookline.errors import UsageError
from hookline.hooks import HookOptions, Registration, register
from hookline.journal import JournalStore, Record, ResponseReceived, StepFinished, story_of
from hookline.lifecycle import ExecutionHookContext, HookPoint
from hookline.state import AgentState, AssistantMessage, StopReason

KEY = "hookline.command"
"""The metadata with the `Invocation` of a run. Any process can continue the run with it."""
_BYTES = "bytes:"
"""The prefix of a recorded path that is not text: a path may be any bytes."""
_LIMITS = {
    StopReason.STEP_LIMIT: "steps",
    StopReason.TOKEN_LIMIT: "tokens",
    StopReason.TIME_LIMIT: "seconds",
    StopReason.COST_LIMIT: "cost",
    StopReason.TOOL_CALL_LIMIT: "tool_calls",
}
_PLACE = ("capabilities", "bash", "place")
_PERMISSIONS = {
    ("approvals", "mode"): "--mode",
    _PLACE: "--place",
    ("capabilities", "bash", "sandbox"): "--sandbox",
}
"""Settings that say what the agent may do, with their flags."""


# --- how it was started -------------------------------------------------------------------------------


class Invocation(msgspec.Struct, frozen=True):
    """How a run was started."""

    folder: str
    flags: dict[str, Any] = {}
    sources: dict[str, str] = {}
    agent: str = ""
    bare: bool = False
    played: int = 0
    """How many turns of a script were used by the runs that this one continues."""
    without: tuple[str, ...] = ()
    """The hooks and rules that were configured, and not in force because they were not trusted."""

    @classmethod
    def current(cls, flags: Layer, settings: Settings, without: tuple[str, ...] = ()) -> Invocation:
        """How a run is started now. Keys and addresses are not recorded.

        The model counts as a flag, and so do variables that say what the agent may do: whoever continues the run may
        have chosen another model, and may not have these variables.
        """
        left_out = ("model_settings", "journal")
        given = {name: value for name, value in flags.data.items() if name not in left_out}
        kept = copy.deepcopy(given)
        sources = {
            ".".join(map(str, path)): flag
            for path, flag in flags.sources.items()
            if path[0] in kept
        }
        for path, flag in _PERMISSIONS.items():
            if settings.merged.where(path).startswith("$"):
                put(kept, path, find(settings.merged.data, path))
                sources[".".join(path)] = flag
        model = settings.merged.data.get("model")
        if model and not settings.target:
            kept["model"] = model
            sources.setdefault("model", "--model")
        return cls(
            str(Path.cwd()), kept, sources, settings.agent, settings.is_bare, without=without
        )

    @classmethod
    def of(cls, state: AgentState) -> Invocation:
        """How the run with this state was started."""
        try:
            recorded = msgspec.to_builtins(state.metadata.get(KEY, {}))
            return msgspec.convert(_map_text(recorded, _from_record), cls)
        except msgspec.ValidationError:
            return cls(os.getcwd())

    def add_to(self, state: AgentState) -> AgentState:
        """The state with this invocation in its metadata."""
        noted = msgspec.to_builtins(self)
        if not self.without:  # almost always, and records before it had no such field
            del noted["without"]
        return state.with_metadata(KEY, _map_text(noted, _to_record))

    def return_there(self, flags: Layer = NO_FLAGS, *, bare: bool = False) -> Settings:
        """Change to the directory of the run. Returns its current settings, with its flags and these above them."""
        if os.path.isdir(self.folder):
            os.chdir(self.folder)
        return self.settings(self.flags_with(flags), bare=bare)

    def flags_with(self, flags: Layer) -> Layer:
        """The recorded flags, with these above them."""
        sources: dict[tuple[str | int, ...], str] = {
            tuple(path.split(".")): flag for path, flag in self.sources.items()
        }
        merged = MergedLayers()
        merged.add_layer(Layer("flag", self.flags, sources=sources))
        merged.add_layer(flags)
        # A list is one flag: positions in it are left out of its origin.
        whole = {
            tuple(itertools.takewhile(lambda part: isinstance(part, str), path)): flag
            for path, flag in merged.origins.items()
        }
        return Layer("flag", merged.data, sources=whole)

    def settings(self, flags: Layer, *, bare: bool = False) -> Settings:
        """The current settings with these flags, for the agent of the run or the one that they name."""
        agent = flags.data.get("agent") or self.agent
        return load_verified(flags, agent=agent, bare=self.bare or bare)

    def inherit(self, flags: Layer) -> str:
        """The recorded flags that these do not replace, as they were given."""
        again = {".".join(map(str, path)) for path in flags.sources}
        return " ".join(
            self._format_flag(path, flag)
            for path, flag in self.sources.items()
            if path not in again
        )

    def _format_flag(self, path: str, flag: str) -> str:
        if flag in ("--capability", "--without"):
            return f"{flag} {path.split('.')[1]}"
        value = find(self.flags, path.split("."))
        values = value if isinstance(value, list) else [value]
        start = f"{path}=" if flag == "--set" else ""
        return " ".join(f"{flag} {shlex.quote(f'{start}{each}')}" for each in values)


def _map_text(data: Any, change: Callable[[str], str]) -> Any:
    if isinstance(data, str):
        return change(data)
    if isinstance(data, dict):
        return {name: _map_text(value, change) for name, value in data.items()}
    return [_map_text(each, change) for each in data] if isinstance(data, list) else data


def _to_record(given: str) -> str:
    try:
        given.encode()
    except UnicodeEncodeError:
        return _BYTES + os.fsencode(given).decode("latin-1")
    return given


def _from_record(recorded: str) -> str:
    if not recorded.startswith(_BYTES):
        return recorded
    return os.fsdecode(recorded.removeprefix(_BYTES).encode("latin-1", errors="replace"))


def wider_place(state: AgentState, settings: Settings) -> str:
    """What to report if commands of a run may now do more than when it began; empty if not.

    The configuration may have changed since, or a variable is set that was not.
    """
    recorded = find(msgspec.to_builtins(state.metadata), ("bash.sandbox", "place"))
    now = find(settings.merged.data, _PLACE) or "workspace"
    stricter: tuple[object, ...] = get_args(PlaceName)[: get_args(PlaceName).index(now)]
    if recorded not in stricter:
        return ""
    where = settings.merged.where(_PLACE)
    return f"the commands of this run ran in the place {recorded}, and now run in {now} ({where})."


def inherit_flags(
    run_id: str, state: AgentState, flags: Layer, settings: Settings, *, quiet: bool
) -> tuple[Layer, Settings]:
    """Flags and settings to continue a run: its own, with the flags of this command above them.

    A command that names another agent inherits nothing: the old flags were about the old agent.
    """
    if "agent" in flags.data:
        return flags, settings
    invocation = Invocation.of(state)
    inherited = invocation.inherit(flags)
    if inherited and not quiet:
        report(f"using the flags of run {run_id}: {inherited}")
    flags = invocation.flags_with(flags)
    return flags, invocation.settings(flags, bare=settings.is_bare)


class InvocationRecorder:
    """A capability that records the invocation with each run of a conversation."""

    name = "command"

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation

    def hooks(self) -> Iterator[Registration]:
        """One at the start, in each process: the flags may differ from those before."""
        options = HookOptions(name="command-note")
        made = register(HookPoint.EXECUTION_START, self._record, options)
        yield msgspec.structs.replace(made, each_process=True)

    def _record(self, ctx: ExecutionHookContext) -> AgentState | None:
        known = Invocation.of(ctx.state) if KEY in ctx.state.metadata else Invocation("")
        now = msgspec.structs.replace(self._invocation, played=known.played)
        return None if known == now else now.add_to(ctx.state)


# --- its conversation ---------------------------------------------------------------------------------


async def conversation_of(
    journal: JournalStore, run_id: str, *, after: int | None = None
) -> AgentState:
    """The state after a run, or after one of its steps, for another run to begin with.

    Remembered approvals stay valid when a run continues from the end, and not when it branches off.
    """
    records = await journal.read(run_id)
    wanted = records if after is None else _first_steps(records, run_id, after)
    story = await story_of(wanted, journal)
    state = story.settled if after is not None or not story.is_finished else story.state
    if state.pending_step is not None:
        raise UsageError(
            f"run '{run_id}' waits for an answer.",
            remedy=f"Answer first: hookline resume {run_id}.",
        )
    if after is None:
        return state
    return msgspec.structs.replace(state, remembered=type(state.remembered)(), session_id="")


def _first_steps(records: list[Record], run_id: str, after: int) -> list[Record]:
    ends = [position for position, record in enumerate(records) if isinstance(record, StepFinished)]
    if not 1 <= after <= len(ends):
        count = len(ends)
        remedy = f"It has {count}: give a number from 1 to {count}." if ends else "It has none."
        raise UsageError(f"run '{run_id}' has no step {after}.", remedy=remedy)
    return records[: ends[after - 1] + 1]


async def count_turns(journal: JournalStore, run_id: str) -> int:
    """How many answers of a model a run and its children have on record: a script continues there."""
    infos = await journal.runs()
    tree, grew = {run_id}, True
    while grew:
        more = {info.run_id for info in infos if info.parent_run_id in tree} - tree
        tree, grew = tree | more, bool(more)
    records = [record for member in tree for record in await journal.read(member)]
    return sum(isinstance(each, ResponseReceived) and not each.supplied for each in records)


def is_interrupted(stop_reason: StopReason | None, state: AgentState) -> bool:
    """Whether a run was interrupted before its answer. It continues without a new prompt."""
    return stop_reason is StopReason.CANCELLED and not _is_answered(state)


def limit_reached(stop_reason: StopReason | None, state: AgentState) -> str:
    """The setting of the limit that ended a run before its answer; empty if none did."""
    if stop_reason is None or _is_answered(state):
        return ""
    return _LIMITS.get(stop_reason, "")


def _is_answered(state: AgentState) -> bool:
    return bool(state.messages) and isinstance(state.messages[-1], AssistantMessage)
