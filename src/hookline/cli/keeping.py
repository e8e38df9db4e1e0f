"""The journal a command works with, and finding runs in it."""

from __future__ import annotations

import itertools
import os
import secrets
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hookline.config import NO_FLAGS, Layer, Merged, Settings, data_folder, journal_of
from hookline.errors import JournalError, UnknownRunError, UsageError

if TYPE_CHECKING:
    from hookline.hooks import Registration
    from hookline.journal import RunInfo, SQLiteJournal
    from hookline.lifecycle import ExecutionHookContext
    from hookline.state import AgentState

KEY = "hookline.command"
"""The metadata in which a run keeps how it was started, so that any process can go on with it."""


class Started(msgspec.Struct, frozen=True):
    """How a run was started."""

    folder: str
    flags: dict[str, Any] = {}
    sources: dict[str, str] = {}
    agent: str = ""
    bare: bool = False
    played: int = 0
    """How many turns of a script were played by runs that it goes on from."""

    def return_there(self, now: Layer = NO_FLAGS, *, bare: bool = False) -> Settings:
        """Go to where the run was started. Gives the settings of now for it, with the flags of then, and of now."""
        if os.path.isdir(self.folder):
            os.chdir(self.folder)
        return self.settings(self.flags_with(now), bare=bare)

    def flags_with(self, now: Layer) -> Layer:
        """The flags of then, and those of now over them."""
        sources: dict[tuple[str | int, ...], str] = {
            tuple(path.split(".")): said for path, said in self.sources.items()
        }
        merged = Merged()
        merged.add_layer(Layer("flag", self.flags, sources=sources))
        merged.add_layer(now)
        # As flags have them: a list is one thing that was said.
        whole = {
            tuple(itertools.takewhile(lambda part: isinstance(part, str), path)): said
            for path, said in merged.origins.items()
        }
        return Layer("flag", merged.data, sources=whole)

    def settings(self, flags: Layer, *, bare: bool = False) -> Settings:
        """The settings of now, with these flags, for the agent that it was, or that they name."""
        from hookline.cli.assembly.verify import load

        agent = flags.data.get("agent") or self.agent
        return load(flags, agent=agent, bare=self.bare or bare)

    def taken_over(self, now: Layer) -> str:
        """The flags of then that are not said anew, as they were given."""
        again = {".".join(map(str, path)) for path in now.sources}
        return " ".join(
            self._given(path, said) for path, said in self.sources.items() if path not in again
        )

    def _given(self, path: str, said: str) -> str:
        if said in ("--capability", "--without"):
            return f"{said} {path.split('.')[1]}"
        value: Any = self.flags
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        values = value if isinstance(value, list) else [value]
        start = f"{path}=" if said == "--set" else ""
        return " ".join(f"{said} {shlex.quote(f'{start}{each}')}" for each in values)

    def noted(self, state: AgentState) -> AgentState:
        """The state with it."""
        return state.with_metadata(KEY, _each_text(msgspec.to_builtins(self), _as_text))

    @classmethod
    def of(cls, state: AgentState) -> Started:
        """How the run that this is the state of was started."""
        try:
            kept = msgspec.to_builtins(state.metadata.get(KEY, {}))
            return msgspec.convert(_each_text(kept, _as_given), cls)
        except msgspec.ValidationError:
            return cls(os.getcwd())


_BYTES = "bytes:"
"""What a name begins with, on record, that is no text: a path may be any bytes."""


def _each_text(data: Any, change: Callable[[str], str]) -> Any:
    if isinstance(data, str):
        return change(data)
    if isinstance(data, dict):
        return {name: _each_text(value, change) for name, value in data.items()}
    return [_each_text(each, change) for each in data] if isinstance(data, list) else data


def _as_text(given: str) -> str:
    try:
        given.encode()
    except UnicodeEncodeError:
        return _BYTES + os.fsencode(given).decode("latin-1")
    return given


def _as_given(kept: str) -> str:
    if not kept.startswith(_BYTES):
        return kept
    return os.fsdecode(kept.removeprefix(_BYTES).encode("latin-1", errors="replace"))


def as_started(
    past: tuple[str, AgentState], flags: Layer, settings: Settings, *, quiet: bool
) -> tuple[Layer, Settings]:
    """Flags and settings for what goes on from another run: as that was started, but for what flags say now.

    An agent that is named now takes nothing over: what was said was about another.
    """
    run_id, state = past
    if "agent" in flags.data:
        return flags, settings
    begun = Started.of(state)
    taken = begun.taken_over(flags)
    if taken and not quiet:
        from hookline.cli.terminal import printable

        print(f"hookline: as {run_id}, with {printable(taken)}", file=sys.stderr)
    flags = begun.flags_with(flags)
    return flags, begun.settings(flags, bare=settings.is_bare)


class Noting:
    """A capability that keeps with each run of a conversation how it was started."""

    name = "command"

    def __init__(self, begun: Started) -> None:
        self._begun = begun

    def hooks(self) -> Iterator[Registration]:
        """At the start, where that is not on record yet: flags may be others than those of earlier runs."""
        from hookline.hooks import Options, register
        from hookline.lifecycle import HookPoint

        yield register(HookPoint.EXECUTION_START, self._note, Options(name="command-note"))

    def _note(self, ctx: ExecutionHookContext) -> AgentState | None:
        known = Started.of(ctx.state) if KEY in ctx.state.metadata else Started("")
        now = msgspec.structs.replace(self._begun, played=known.played)
        return None if known == now else now.noted(ctx.state)


def started(folder: Path, flags: Layer, agent: str, bare: bool) -> Started:
    """How a run is started now. Keys and addresses are not kept."""
    kept = {
        name: value
        for name, value in flags.data.items()
        if name not in ("model_settings", "journal")
    }
    sources = {
        ".".join(map(str, path)): said for path, said in flags.sources.items() if path[0] in kept
    }
    return Started(str(folder), kept, sources, agent, bare)


def journal_path(settings: Settings) -> Path:
    """The file that runs are kept in."""
    given = settings.configuration.journal
    return Path(given).expanduser() if given else journal_of(settings.project, os.environ)


def opened_journal(path: Path, *, make: bool = True) -> SQLiteJournal:
    """The journal. Runs hold what people and models have said: the directory is for its owner alone."""
    from hookline.journal import SQLiteJournal

    if not path.exists():
        if not make:
            raise UsageError("there are no runs here yet.", remedy='Begin with: hookline run "..."')
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise JournalError(
                f"runs cannot be kept in {path.parent}: {error.strerror}.",
                remedy="Name another place (HOOKLINE_DATA_DIR, --journal FILE), or keep none: --no-save.",
            ) from None
    return SQLiteJournal(path)


def new_run_id() -> str:
    """A name for a run: when it began, and a few letters."""
    return f"{time.strftime('%m%d-%H%M')}-{secrets.token_hex(3)}"


def found_run(settings: Settings, given: str) -> tuple[SQLiteJournal, str]:
    """The journal that has a run, and its whole id: here, else in another project. `last` is the last one here."""
    if not given.strip():
        raise UsageError("the name of the run is empty.", remedy="Give its id, or `last`.")
    here = journal_path(settings)
    looks_further = given != "last" and not settings.configuration.journal
    for journal in journals(here, others=looks_further):
        found = _matching(journal, given)
        if len(found) == 1 or (found and given == "last"):
            return journal, found[0].run_id
        journal.close()
        if found:
            ids = ", ".join(info.run_id for info in found[:5])
            raise UsageError(f"'{given}' may be any of: {ids}.", remedy="Give more of the id.")
    if given == "last":
        raise UnknownRunError("there is no run here yet.", remedy='Begin with: hookline run "...".')
    raise UnknownRunError(
        f"there is no run '{given}'.",
        remedy="`hookline runs` lists those of this project, and `hookline runs --all` those of all.",
    )


def journals(here: Path, *, others: bool) -> Iterator[SQLiteJournal]:
    """The journal of this project, if there is one, and those of all others. One of these that is broken is told."""
    if here.exists():
        yield opened_journal(here)
    elsewhere = sorted((data_folder(os.environ) / "projects").glob("*/journal.db"))
    for path in elsewhere if others else ():
        if path == here:
            continue
        try:
            journal = opened_journal(path)
        except (JournalError, OSError) as error:
            print(f"hookline: left out: {error}", file=sys.stderr)
            continue
        yield journal


def _matching(journal: SQLiteJournal, given: str) -> list[RunInfo]:
    if given == "last":
        return [info for info in journal.runs() if info.parent_run_id is None][:1]
    infos = journal.runs()
    exact = [info for info in infos if info.run_id == given]
    return exact or [
        info
        for info in infos
        if info.parent_run_id is None
        and (info.run_id.startswith(given) or info.run_id.endswith(given))
    ]


def turns_played(journal: SQLiteJournal, run_id: str) -> int:
    """How many answers of a model a run and its children have on record: where a script goes on."""
    from hookline.journal import ResponseReceived

    infos = journal.runs()
    family, grew = {run_id}, True
    while grew:
        more = {info.run_id for info in infos if info.parent_run_id in family} - family
        family, grew = family | more, bool(more)
    return sum(
        isinstance(record, ResponseReceived) and not record.supplied
        for member in family
        for record in journal.read(member)
    )
