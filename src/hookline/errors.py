"""Every exception Hookline raises, in one tree. Each says what was wrong and what to do about it."""

from __future__ import annotations

from typing import Any


class HooklineError(Exception):
    """The root of the tree. `remedy` is what the reader should do next, and ends the message."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(f"{message} {remedy}".rstrip())


def in_words(exception: BaseException) -> str:
    """What an exception says, as text that can be saved: whatever its author, or a file name in it, made of it."""
    try:
        return str(exception).encode(errors="replace").decode()
    except Exception:
        return ""


# --- wrong use, caught before anything runs -----------------------------------------------------


class BuildError(HooklineError):
    """An agent cannot be built as it was described."""


class RegistrationError(BuildError):
    """A hook was registered in a way that can never work."""


class OrderError(BuildError):
    """`before=` and `after=` contradict each other, or name a hook that does not exist."""


class ToolDefinitionError(BuildError):
    """A function cannot become a tool as it is written."""


class DocumentError(BuildError):
    """A Markdown file that describes a skill or an agent cannot be used as it is written; the message says where."""


class UsageError(HooklineError):
    """A public method was called in a way that cannot be carried out."""


# --- hooks --------------------------------------------------------------------------------------


class HookError(HooklineError):
    """A hook crashed, timed out or answered something that means nothing at its point."""

    def __init__(self, hook: str, point: str, problem: str, *, remedy: str = "") -> None:
        self.hook = hook
        self.point = point
        self.problem = problem
        super().__init__(f"hook '{hook}' at {point}: {problem}", remedy=remedy)


class CommandHookError(HooklineError):
    """A hook outside of the program did not answer: it failed, took too long, or could not be started."""


# --- child runs ---------------------------------------------------------------------------------


class PastError(HooklineError):
    """What ended a child run before a pause: the words of its exception, and `kind`, the name of its type."""

    def __init__(self, kind: str, words: str) -> None:
        self.kind = kind
        super().__init__(words)


# --- state --------------------------------------------------------------------------------------


class NotJSONError(HooklineError, TypeError):
    """A value that is not JSON was about to enter state."""


class StateVersionError(HooklineError):
    """Serialised state (or a record) was written by a version this one cannot read."""


class JournalError(HooklineError):
    """A journal cannot be read or written: it is damaged, or the disk is full or read-only."""


class RunInUseError(JournalError):
    """Another process is driving this run."""


class UnknownRunError(JournalError):
    """There is no run of that id in the journal."""


class SessionError(HooklineError):
    """A session cannot be used like this now: it is suspended, deleted, or one of its runs waits."""


class SessionConflictError(SessionError):
    """Someone else is using the session, or has changed it since it was read."""


class UnknownSessionError(SessionError):
    """There is no session of that id in the journal."""


class TranscriptError(HooklineError):
    """A conversation in which a tool call has no result, or a result has no call."""


# --- models -------------------------------------------------------------------------------------


class ModelError(HooklineError):
    """The model, or the way to it, failed. Drivers raise one of these; the error policy decides."""

    usage: Any = None
    """What the failed answer used all the same, where the provider said so: it is paid for."""


class RateLimitError(ModelError):
    """The provider asks us to slow down; `retry_after` is in seconds, when it said how long."""

    def __init__(self, message: str, *, retry_after: float | None = None, remedy: str = "") -> None:
        self.retry_after = retry_after
        super().__init__(message, remedy=remedy)


class ModelTimeoutError(ModelError, TimeoutError):
    """The model did not answer in time."""


class ConnectionLostError(ModelError, ConnectionError):
    """The connection to the model was lost."""


class OverloadedError(ModelError):
    """The provider is there and cannot answer now: it has too much to do, or it failed. What was asked is not at fault.

    `retry_after` is in seconds, when it said how long.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, remedy: str = "") -> None:
        self.retry_after = retry_after
        super().__init__(message, remedy=remedy)


class RefusalError(ModelError):
    """The model declined to answer."""


class ContentFilterError(ModelError):
    """The provider's filter kept the prompt or the answer back."""


class ContextOverflowError(ModelError):
    """The conversation is longer than the model can read."""


class AuthenticationError(ModelError):
    """There is no key for the provider, or it does not take the one there is."""


class ModelNotFoundError(ModelError):
    """The provider has no model of that name."""


class UnsupportedError(ModelError):
    """The request needs something that this provider, or this model, cannot do."""


class MalformedResponseError(ModelError):
    """What came over the wire is not what the provider's protocol says."""


class CassetteError(ModelError):
    """A recording of the wire has no answer to a request, or cannot be read or written."""


class ScriptExhaustedError(ModelError):
    """A scripted driver was asked for more turns than its script has."""


# --- tools --------------------------------------------------------------------------------------


class ToolError(HooklineError):
    """Raise this in a tool to tell the model what went wrong, in words it can act on."""


class UnknownToolError(ToolError):
    """The model called a tool that does not exist."""


class ToolArgumentsError(ToolError):
    """The model called a tool with arguments that do not fit its schema."""


class ToolSourceError(ToolError):
    """Where a tool comes from, an MCP server say, cannot be reached or does not answer as it should."""


class ToolTimeoutError(ToolError, TimeoutError):
    """A tool did not finish within its time."""


# --- containment --------------------------------------------------------------------------------


class SandboxError(HooklineError):
    """A sandbox that was asked for is not there, or cannot hold what was asked of it."""


class FileJailError(HooklineError, OSError):
    """A path cannot be used like this inside a file jail. `path` is what was given, and all that is told of it."""

    def __init__(
        self, path: str, problem: str, *, remedy: str = "", code: int | None = None
    ) -> None:
        self.path = path
        super().__init__(f"'{_shortened(path)}' {problem}", remedy=remedy)
        if code is not None:
            self.errno = code


class OutsideJailError(FileJailError, PermissionError):
    """The path leads out of the jail."""


class ProtectedPathError(FileJailError, PermissionError):
    """The path has a name in it that must not be changed (`.git`, an agent's configuration), or not be seen."""


class BadPathError(FileJailError, ValueError):
    """No file can have this path: it is empty, too long, or has characters in it that no name has."""


class FileKindError(FileJailError):
    """There is something else than a plain file: a directory, a device, a file that has a second name."""


class NoSuchFileError(FileJailError, FileNotFoundError):
    """There is nothing at this path."""


class FileThereError(FileJailError, FileExistsError):
    """There is something at this path already."""


class FileTooLargeError(FileJailError):
    """The file is larger than whoever reads it wants to read."""


class FileChangedError(FileJailError):
    """The file is not what it was when it was looked at."""


def _shortened(path: str) -> str:
    """A path as it can be shown: a name of a million characters, or with a new line in it, cannot."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in path[:200])
    return shown + "..." * (len(path) > 200)
