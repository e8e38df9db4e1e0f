"""The jail as a policy: a call whose path leads out is blocked before it runs, in child runs too."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from contextvars import ContextVar

from hookline.containment import FileJail
from hookline.containment.change_times import find_change_since
from hookline.containment.jail import first_of
from hookline.containment.links import real_path
from hookline.containment.session_files import is_readable
from hookline.errors import BuildError, FileJailError, FileKindError, NoSuchFileError, ToolError
from hookline.hooks import HookOutcome
from hookline.lifecycle import ToolHookContext
from hookline.permissions.names import SHOWING, WRITING
from hookline.secret_tables import is_env_file
from hookline.state import ToolCall

_MOST_WRITTEN = 1000
"""Paths of calls that were never judged."""
MATCHER = "/^(read|list|glob|search|write|edit)$/"


class Guard:
    """Judges calls of the six tools by their paths.

    In a child run the guards of the runs above are asked first, then the child's own. They take the path as relative
    to their own roots, which may not be the root of the child's tools. So the last guard, which knows that root, asks
    the ones before it again with the path relative to theirs.
    """

    def __init__(
        self, jail: FileJail, read_only: bool, asked: frozenset[str], shown: frozenset[str]
    ) -> None:
        self._jail = jail
        self._read_only = read_only
        self._asked = asked
        self._shown = shown
        self._real_root = real_path(jail.root)
        self._held: frozenset[str] = frozenset()
        """Files and directories by which the agent is guarded, as whole paths."""
        self._journals: frozenset[str] = frozenset()
        self._has_changed_files = False
        self._written: dict[tuple[str, str], str] = {}
        """The paths of calls as a model wrote them, by run and call, if links were in them."""

    def hold(self, paths: Iterable[str], since: int) -> None:
        """Change none of these from now on. It is an error if the tools may have changed one since then."""
        new = frozenset(paths) - self._held
        inside = (path for path in new if path.startswith(f"{self._real_root}/"))
        for path in inside if self._has_changed_files else ():
            if changed := find_change_since(path, since):
                raise BuildError(
                    f"'{changed}' belongs to a hook or a server, and `write` or `edit` may have changed it.",
                    remedy="Look at the change, and build the agent of the hook after it.",
                )
        self._held |= new

    def hold_journals(self, paths: Iterable[str]) -> None:
        """Change none of these journals, nor what is beside them: a file there can change what is on record."""
        self._journals |= frozenset(paths)

    def resolve(self, ctx: ToolHookContext) -> ToolHookContext | None:
        """Put where a path leads in its place, if there is a link in it: every policy judges that, and the tool opens
        it without following links.

        Calls of a turn are judged before the first one runs, and a command may make a link meanwhile.
        """
        call = ctx.tool_call
        path = call.args.get("path")
        is_ours = getattr(ctx.run.tool(call.name), "root", "") == os.path.abspath(self._jail.root)
        if not isinstance(path, str) or not is_ours:
            return None
        with contextlib.suppress(FileJailError):  # blocked, or for the tool to say
            true = self._jail.locate(path, to_change=call.name in WRITING)
            as_text = true.encode(errors="replace").decode() == true
            if as_text and true != self._without_root(path):
                self._written[ctx.state.run_id, call.id] = path
                while len(self._written) > _MOST_WRITTEN:
                    self._written.pop(next(iter(self._written)))
                return ctx.with_args(path=true)
        return None

    def _without_root(self, path: str) -> str:
        """A path relative to the root, as far as the text says."""
        whole = os.path.normpath(os.path.join(self._jail.root, path))
        return os.path.relpath(whole, self._jail.root)

    def judge(self, ctx: ToolHookContext) -> HookOutcome | None:
        """Block a call that leads out, or that would change what must not be changed; ask about what agents obey, and
        about environment files."""
        call = ctx.tool_call
        if call.name == "read" and is_readable(ctx.state.session_id, call.args.get("path")):
            return None
        written = self._written.pop((ctx.state.run_id, call.id), "")
        objection, question = self._objection(call, ""), self._question(call, "", written)
        for above in self._guards_above(ctx):
            objection = objection or above._objection_from(self, call)
            question = question or above._question(call, above._base_of(self))
        if objection:
            return HookOutcome.block(objection)
        return HookOutcome.ask(question) if question else None

    def _guards_above(self, ctx: ToolHookContext) -> tuple[Guard, ...]:
        """The guards that were asked about this very call before this one."""
        which = (ctx.state.run_id, ctx.step_index, ctx.tool_call.id)
        latest, guards = _asked.get()
        if latest != which or self in guards:  # another call, or this one from the beginning again
            guards = ()
        _asked.set((which, (*guards, self)))
        return guards

    def _objection_from(self, below: Guard, call: ToolCall) -> str:
        """The objection to a call whose path is relative to another root."""
        if below._real_root == self._real_root:
            return ""  # it was judged as it is
        inside = self._base_of(below)
        if inside.split("/")[0] == "..":
            return "the root of this agent is outside the root of the agent that started it"
        return self._objection(call, inside)

    def _base_of(self, below: Guard) -> str:
        return os.path.relpath(below._real_root, self._real_root)

    def _question(self, call: ToolCall, base: str, written: str = "") -> str:
        """The question to a person about a call; empty if there is none. `written` is its path before links were
        resolved."""
        path = call.args.get("path")
        if not isinstance(path, str):
            return ""
        try:
            true = self._jail.locate(_join(base, path), to_change=call.name in WRITING)
        except FileJailError:
            return ""  # blocked, or for the tool to say
        # As it is written, too: `.env` may be a link to a file with another name.
        written = os.path.normpath(written or path)
        if call.name in SHOWING and any(
            is_hidden_env_file(each, self._shown) for each in (true, written)
        ):
            return f"'{path}' is an environment file, which may hold secrets"
        above = os.path.basename(self._real_root)
        if call.name in WRITING and (
            first_of(true.split("/"), self._asked, above) or self._is_obeyed(true)
        ):
            return f"'{path}' is followed by agents, or run by other programs, that work here later"
        return ""

    def _objection(self, call: ToolCall, base: str) -> str:
        changes = call.name in WRITING
        if changes and self._read_only:
            return "files can be read here, and not changed"
        if changes and self._has_moved():
            return "the root of the files was moved or replaced"
        path = call.args.get("path")
        pattern = call.args.get("pattern") if call.name == "glob" else None
        try:
            if isinstance(path, str):
                self._refuse_home(path)
                true = self._jail.locate(_join(base, path), to_change=changes)
                if changes and self._is_held(true):
                    return (
                        f"'{path}' belongs to a hook or a server of this agent, or is in the directory of its scripts, "
                        "so it cannot be changed here; the user can change it outside of the run"
                    )
                if changes and self._is_of_journal(true):
                    return f"'{path}' is the journal of this agent, or belongs to it"
                self._has_changed_files = self._has_changed_files or changes
            if isinstance(pattern, str):
                refuse_leading_out(pattern)
        except (NoSuchFileError, FileKindError):
            return ""  # harmless: the tool says what is wrong
        except (FileJailError, ToolError) as error:
            return str(error)
        return ""

    def _is_held(self, true: str) -> bool:
        full = f"{os.path.normpath(f'{self._real_root}/{true}')}/"
        inside = (each for each in self._held if each.startswith(f"{self._real_root}/"))
        return any(full.startswith(f"{each}/") for each in inside)

    def _is_of_journal(self, true: str) -> bool:
        full = os.path.normpath(f"{self._real_root}/{true}")
        return any(full == each or full.startswith(f"{each}-") for each in self._journals)

    def _is_obeyed(self, true: str) -> bool:
        from hookline.containment.sandbox.work_tree import is_obeyed  # takes a while to load

        return is_obeyed(self._real_root, true)

    def _has_moved(self) -> bool:
        """Whether another directory is in the place of the root: what its name says of it is not true any more."""
        try:
            return not os.path.samestat(os.stat(self._real_root), self._jail.stat("."))
        except OSError:
            return True

    def _refuse_home(self, path: str) -> None:
        """Refuse a path in a home directory: it is outside, and no directory `~` must be made."""
        if path.split("/")[0] == "~" and not self._jail.exists("~"):
            raise ToolError(
                f"'{path[:200]}' begins with '~', which is not expanded here.",
                remedy="Use a path that is relative to the root.",
            )


def is_hidden_env_file(path: str, shown: frozenset[str]) -> bool:
    """Whether a path of the jail is an environment file that is not among the names and paths to be shown."""
    name = path.rpartition("/")[2]
    return is_env_file(name) and not {name, path} & shown


_asked: ContextVar[tuple[tuple[str, int, str], tuple[Guard, ...]]] = ContextVar(
    "files_guards", default=(("", 0, ""), ())
)
"""Which call was judged last, and by whom. The hooks of a run are asked one after the other, in one context."""


def _join(base: str, path: str) -> str:
    return f"{base}/{path}" if base and not path.startswith("/") else path


def refuse_leading_out(pattern: str) -> None:
    """An error for a pattern that is not about what is below."""
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise ToolError(
            f"the pattern '{pattern[:200]}' leads out of the root.",
            remedy="Use one that is relative to `path`, without '..'.",
        )
