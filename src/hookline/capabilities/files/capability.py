"""Six tools over one file jail, and the policy that judges their paths before they run."""

from __future__ import annotations

import functools
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Literal, Unpack

from hookline.agent import hook
from hookline.capabilities.files.edit_tool import Replacement, apply_edits
from hookline.capabilities.files.guard import MATCHER, Guard, refuse_leading_out
from hookline.capabilities.files.list_tool import (
    DEEPEST,
    find_files,
    list_directory,
    missing_file_error,
)
from hookline.capabilities.files.read_tool import IMAGE_KEY, show, with_images
from hookline.capabilities.files.search_tool import Mode, Search
from hookline.capabilities.files.seen_files import (
    NO_LINES,
    RESULT_KEY,
    Lines,
    SeenFiles,
    file_state,
)
from hookline.capabilities.files.text import decode_text, fingerprint, read_whole
from hookline.capabilities.files.tree import Walk, printable_path
from hookline.containment import INSTRUCTIONS, PROJECT_CONFIGURATION, PROTECTED, FileJail
from hookline.containment.jail import plain_names
from hookline.containment.links import real_path
from hookline.containment.own_places import journal_paths
from hookline.containment.protected import INSTRUCTIONS_BELOW
from hookline.containment.session_files import is_readable
from hookline.definition import Definition
from hookline.errors import (
    BuildError,
    FileJailError,
    FileKindError,
    NoSuchFileError,
    ToolError,
    UsageError,
)
from hookline.hooks import Registration
from hookline.lifecycle import AfterStepHookContext
from hookline.option_checks import check_choice, check_names, check_positive
from hookline.state import AgentState, ToolResult
from hookline.tools import AnyTool, ToolContext, tool
from hookline.tools.tool import ToolOptions

_PATH = "Path of the file, relative to the root, as in 'src/main.py'."
_DIRECTORY = "Directory to look in, relative to the root. '.' is the root itself."


class Files:
    """Files below one directory, for an agent: read, write, edit, list, glob and search.

        AgentBuilder().with_capability(Files("project"))

    - `read_only`: without `write` and `edit`, here and in child runs.
    - `must_read`: `write` refuses to replace a file that was not read in this run, or that has changed since.
    - `gitignore`: `glob`, `search` and deep lists pass over what `.gitignore` files leave out.
    - `ripgrep`: without effect, until version 0.2 removes it; True warns.
    - `protected`, `secret`: names that cannot be changed, and names that cannot be read either; see `FileJail`.
    - `ask`: names whose change a person is asked about: files that agents obey or programs run, and that people ask
      agents to write, such as `AGENTS.md` and `.pre-commit-config.yaml`.
    - `show`: environment files that are read without asking, and searched, as names or paths: `.env`.
    - `images`: `note` says that a file is an image; `attach` shows it to the model after the step.
    - `fsync`: wait until what was written is on the disk.
    - `seconds`: how long one search may take.
    """

    name = "files"

    def __init__(
        self,
        root: str | os.PathLike[str] | FileJail,
        *,
        read_only: bool = False,
        must_read: bool = True,
        gitignore: bool = True,
        ripgrep: bool = False,
        protected: Iterable[str] = PROTECTED,
        secret: Iterable[str] = (),
        ask: Iterable[str] = INSTRUCTIONS | INSTRUCTIONS_BELOW | PROJECT_CONFIGURATION,
        show: Iterable[str] = (),
        images: Literal["note", "attach"] = "note",
        fsync: bool = False,
        seconds: float = 20.0,
    ) -> None:
        if ripgrep:
            warnings.warn(
                "Files(ripgrep=True) has no effect: leave it out. Version 0.2 removes it.",
                DeprecationWarning,
                stacklevel=2,
            )
        self.ask = _plain_names(ask, "ask")
        self.jail = _jail(root, protected, secret, self.ask)
        names = check_names("Files", "show", show, '".env"')
        self.show = frozenset(path.removeprefix("./") for path in names)
        self.read_only = read_only
        self.must_read = must_read
        self.gitignore = gitignore
        self.images = check_choice("Files", "images", images, ("note", "attach"))
        self.fsync = fsync
        self.seconds = check_positive("Files", "seconds", seconds, most=3600)
        self._guard = Guard(self.jail, self.read_only, self.ask, self.show)
        self._links_off = self.jail.without_links()
        """What the tools use: where a path leads was decided before the call was judged."""
        self._seen_files = SeenFiles(lambda path: file_state(self._links_off, path)[1])
        self._changing = threading.Lock()
        """Held from reading a file until it is replaced, so that no other call changes it meanwhile."""

    # --- a capability -------------------------------------------------------------------------------

    def tools(self) -> list[AnyTool]:
        """The tools; with `read_only`, those that change nothing."""
        reading = [
            self._tool(function, effect="pure", max_chars=None)
            for function in (self._read, self._list, self._glob, self._search)
        ]
        if self.read_only:
            return reading
        # The calls of a step that change something run one by one, in the order in which the model made them.
        write = self._tool(self._write, effect="idempotent", alone=True)
        return [*reading, write, self._tool(self._edit, effect="once", alone=True)]

    def _tool(self, function: Callable[..., Any], **options: Unpack[ToolOptions]) -> AnyTool:
        """A tool whose errors are words for the model, and say nothing about our code."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except NoSuchFileError:
                raise missing_file_error(self.jail, kwargs["path"]) from None
            except FileJailError as error:
                raise ToolError(error.message, remedy=error.remedy) from None

        options["name"] = function.__name__.removeprefix("_")
        options["root"] = self.jail.root
        return tool(run, **options)

    def protect_files(self, definition: Definition) -> None:
        """What guards an agent of this tree, and what is on record of it, is not for the tools to change."""
        self._guard.hold(definition.protected_files, definition.guarded_since)
        self._guard.hold_journals(map(real_path, journal_paths(definition.journal)))

    def hooks(self) -> Iterator[Registration]:
        """The jail as a policy, here and in child runs, and the hook that notes what was read."""
        resolve = self._guard.resolve
        yield hook(
            "before_tool_use",
            resolve,
            name="files-links",
            matcher=MATCHER,
            scope="tree",
            priority=-1000,
        )
        yield hook(
            "before_tool_use", self._guard.judge, name="files-jail", tier="policy", matcher=MATCHER
        )
        # After all others: a hook may have formatted what was written.
        settle, of = self._seen_files.settle, "/^(read|write|edit)$/"
        yield hook("after_tool_use", settle, name="files-seen", matcher=of, priority=-1000)
        if self.images == "attach":
            yield hook("after_step", self._attach, name="files-images")

    def _attach(self, ctx: AfterStepHookContext) -> AfterStepHookContext | None:
        return with_images(self._links_off, ctx)

    # --- reading ------------------------------------------------------------------------------------

    def _read(
        self,
        context: ToolContext,
        path: Annotated[str, _PATH],
        offset: Annotated[int, "First line to show, from 1. Below 0 counts from the end."] = 1,
        limit: Annotated[int, "How many lines to show."] = 2000,
    ) -> ToolResult:
        """Read a file. Each line is shown with its number and a tab, which are not part of the file.

        Long files are shown in parts: continue with the offset that is named at the end.
        """
        if limit < 1:
            raise ToolError(f"limit is {limit}.", remedy="Use at least 1.")
        if is_readable(context.state.session_id, path):  # what was too long to show
            with open(path, "rb") as kept:
                return ToolResult(show(kept, path, offset or 1, limit).text)
        true = self._links_off.locate(path)
        with self._open(true) as file:
            shown = show(file, path, offset or 1, limit)
        result = self._seen_result(context.state, shown.text, true, shown.fingerprint, shown.lines)
        if shown.kind is not None and shown.kind.is_image:
            return result.with_metadata(IMAGE_KEY, shown.kind.media_type)
        return result

    def _list(
        self,
        path: Annotated[str, _DIRECTORY] = ".",
        depth: Annotated[int, "1 for this directory only, 2 for those in it too, and so on."] = 1,
    ) -> str:
        """List what is in a directory: names, with / after directories, and sizes of files."""
        if not 1 <= depth <= DEEPEST:
            raise ToolError(f"depth is {depth}.", remedy=f"Use 1 to {DEEPEST}, or `glob`.")
        return list_directory(self._walk(), self._links_off.locate(path), depth)

    def _glob(
        self,
        pattern: Annotated[str, "Pattern, as in '**/*.py' or 'docs/*.{md,txt}'. ** is any depth."],
        path: Annotated[str, _DIRECTORY] = ".",
        everything: Annotated[bool, "Also find hidden files and files in .gitignore."] = False,
    ) -> str:
        """Find files by their names. Paths are relative to the root, in alphabetical order."""
        refuse_leading_out(pattern)
        return find_files(self._walk(everything), pattern, self._links_off.locate(path))

    def _search(
        self,
        pattern: Annotated[str, "Regular expression (Python's syntax) that a line must fit."],
        path: Annotated[str, "Directory or file to search, relative to the root."] = ".",
        include: Annotated[str, "Only files whose names fit, as in '*.py' or 'src/**/*.ts'."] = "",
        literal: Annotated[bool, "Take the pattern as plain text."] = False,
        ignore_case: Annotated[bool, "Take capital and small letters as the same."] = False,
        context: Annotated[int, "How many lines to show before and after each."] = 0,
        mode: Annotated[
            Mode, "Show the lines, the files only, or how many lines per file."
        ] = "lines",
        limit: Annotated[int, "How many results to show."] = 100,
        everything: Annotated[bool, "Also search hidden files and files in .gitignore."] = False,
    ) -> str:
        """Search the text of files. Shows path:line: text for each line that fits."""
        for name, value, least, most in (("context", context, 0, 50), ("limit", limit, 1, 5000)):
            if not least <= value <= most:
                raise ToolError(f"{name} is {value}.", remedy=f"Use {least} to {most}.")
        return Search(
            self._walk(everything),
            self.seconds,
            self.show,
            pattern=pattern,
            path=self._links_off.locate(path),
            include=include,
            literal=literal,
            ignore_case=ignore_case,
            context=context,
            mode=mode,
            limit=limit,
        ).run()

    # --- changing -----------------------------------------------------------------------------------

    def _write(
        self,
        context: ToolContext,
        path: Annotated[str, _PATH],
        content: Annotated[str, "The whole text of the file."],
    ) -> ToolResult:
        """Write a file: make it, with the directories it needs, or replace all of it.

        Read a file before you replace it. To change a part of it, use edit.
        """
        data = content.encode()
        seen = fingerprint(data)
        with self._changing:
            true = self._links_off.locate(path)
            facts, before = file_state(self._links_off, true)
            if before == seen:
                return self._seen_result(
                    context.state, f"'{path}' has this content already.", true, seen
                )
            if before is not None and self.must_read:
                self._refuse_unseen(context.state, path, true, before)
            there = before is not None
            self._links_off.write_bytes(
                true, data, overwrite=there, fsync=self.fsync, expected=facts
            )
        lines = content.count("\n") + (not content.endswith("\n") and content != "")
        what = "Replaced" if there else "Made"
        return self._seen_result(
            context.state,
            f"{what} '{path}': {lines:,} line{'s' * (lines != 1)}, {len(data):,} byte{'s' * (len(data) != 1)}.",
            true,
            seen,
        )

    def _edit(
        self,
        context: ToolContext,
        path: Annotated[str, _PATH],
        old: Annotated[
            str, "Text to replace, exactly as it is in the file, without line numbers."
        ] = "",
        new: Annotated[str, "Text to put in its place."] = "",
        replace_all: Annotated[bool, "Replace it everywhere, not only where it is once."] = False,
        edits: Annotated[
            list[Replacement] | None, "Several replacements at once, instead of old and new."
        ] = None,
    ) -> ToolResult:
        """Replace text in a file. The old text must be in the file exactly once, unless replace_all is set.

        With several edits all are made, one after the other, or none.
        """
        if bool(edits) == bool(old):
            raise ToolError("Give either `old` and `new`, or `edits`.")
        replacements = edits or [Replacement(old, new, replace_all)]
        with self._changing:
            true = self._links_off.locate(path)
            facts, content = self._read_whole(true)
            known = self._seen_files.seen_fingerprint(context.state, printable_path(true))
            if known is not None and known != fingerprint(content):
                raise _changed_error(path)
            is_whole = self._seen_files.is_whole(context.state, printable_path(true))
            found = decode_text(content)
            if found is None:
                raise ToolError(f"'{path}' is not a text file, so it cannot be edited.")
            made = apply_edits(found, replacements, path)
            data = found.encode_text(made.text)
            self._links_off.write_bytes(true, data, fsync=self.fsync, expected=facts)
        at = ", ".join(map(str, made.lines[:10])) + " and more" * (len(made.lines) > 10)
        line = "lines" if len(made.lines) > 1 else "line"
        text = f"Edited '{path}' at {line} {at}."
        lines = None if is_whole else NO_LINES
        return self._seen_result(context.state, text, true, fingerprint(data), lines)

    # --- what is there ------------------------------------------------------------------------------

    def _walk(self, everything: bool = False) -> Walk:
        return Walk(self._links_off, everything, self.gitignore, time.monotonic() + self.seconds)

    def _open(self, path: str) -> Any:
        try:
            return self._links_off.open(path, "rb")
        except FileKindError as error:
            if error.message.endswith("is a directory, not a file."):
                raise ToolError(error.message, remedy="Use `list` to see what is in it.") from None
            raise

    def _read_whole(self, path: str) -> tuple[os.stat_result, bytes]:
        """All of a file that is edited, and its stat result."""
        with self._open(path) as file:
            return os.fstat(file.fileno()), read_whole(file, path)

    def _refuse_unseen(self, state: AgentState, path: str, true: str, before: str) -> None:
        true_path = printable_path(true)
        known = self._seen_files.seen_fingerprint(state, true_path)
        if known is None and before != fingerprint(b""):
            raise ToolError(
                f"'{path}' exists and was not read.",
                remedy="Read it first, so that nothing in it is lost, or use `edit`.",
            )
        if known is not None and known != before:
            raise _changed_error(path)
        if known is not None and not self._seen_files.is_whole(state, true_path):
            raise ToolError(
                f"'{path}' was read only in part.",
                remedy="Read the rest of it first, so that nothing in it is lost, or use `edit`.",
            )

    def _seen_result(
        self, state: AgentState, text: str, true: str, seen: str, lines: Lines | None = None
    ) -> ToolResult:
        true_path = printable_path(true)
        self._seen_files.note(state, true_path, seen, lines)
        part = {} if lines is None else {"lines": list(lines)}
        return ToolResult(
            text, metadata={RESULT_KEY: {"path": true_path, "fingerprint": seen, **part}}
        )

    def __repr__(self) -> str:
        return f"<Files {self.jail.root}{', read only' if self.read_only else ''}>"


def _jail(
    root: str | os.PathLike[str] | FileJail,
    protected: Iterable[str],
    secret: Iterable[str],
    asked: frozenset[str],
) -> FileJail:
    if isinstance(root, FileJail):
        if protected is not PROTECTED or secret != ():
            raise BuildError(
                "Files: your own jail decides what is protected and secret.",
                remedy="Set it there: FileJail(root, protected=..., secret=...).",
            )
        return root
    # What a person is asked about is not blocked, unless it was named as protected.
    names = _plain_names(protected, "protected")
    kept = names - asked if protected is PROTECTED else names
    try:
        return FileJail(root, protected=kept, secret=secret)
    except UsageError as error:
        raise BuildError(f"Files: {error.message}", remedy=error.remedy) from None


def _plain_names(names: Iterable[str], option: str) -> frozenset[str]:
    try:
        return plain_names(names, option)
    except UsageError as error:
        raise BuildError(f"Files: {error.message}", remedy=error.remedy) from None


def _changed_error(path: str) -> ToolError:
    return ToolError(
        f"'{path}' has changed since it was read.",
        remedy="Read it again, and then make your change to what is there now.",
    )
