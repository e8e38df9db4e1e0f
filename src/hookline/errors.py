"""Every exception of Hookline. Each message says what was wrong and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

_MOST_FRAMES = 20


class HooklineError(Exception):
    """The root of the tree. `remedy` is what the reader should do next, and ends the message."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(f"{message} {remedy}".rstrip())


def where_raised(exception: BaseException) -> str:
    """The traceback of an exception as text, from the first frame outside of this package on, if there is one."""
    import traceback  # only where something failed

    frames = traceback.extract_tb(exception.__traceback__)
    own = os.path.dirname(__file__) + os.sep
    first = next(
        (at for at, each in enumerate(frames) if not each.filename.startswith(own)), len(frames)
    )
    shown = traceback.format_list(frames[first:][-_MOST_FRAMES:])
    return "".join(shown).encode(errors="replace").decode().rstrip()


def in_words(exception: BaseException) -> str:
    """The message of an exception, as text that can be saved even if it has lone surrogates or `str` fails."""
    try:
        return str(exception).encode(errors="replace").decode()
    except Exception:
        return ""


# --- wrong use, caught before anything runs -----------------------------------------------------


class BuildError(HooklineError):
    """An agent cannot be built as it was described."""


class NoModelError(BuildError):
    """An agent was built without a model, and without saying that none is wanted."""


class RegistrationError(BuildError):
    """A hook was registered in a way that can never work."""


class OrderError(BuildError):
    """`before=` and `after=` contradict each other, or name a hook that does not exist."""


class ToolDefinitionError(BuildError):
    """A function cannot become a tool as it is written."""


class DocumentError(BuildError):
    """A Markdown file of a skill or an agent is wrong; the message says where."""


class ConfigError(BuildError):
    """A configuration file, variable or flag has a wrong value; the message says where."""


class TrustError(HooklineError):
    """A directory is needed that the user has not trusted, or that has changed since."""


class UsageError(HooklineError):
    """A public method was called in a way that cannot be carried out."""


# --- hooks --------------------------------------------------------------------------------------


class HookError(HooklineError):
    """A hook crashed, timed out or gave an answer that has no meaning at its point."""

    def __init__(self, hook: str, point: str, problem: str, *, remedy: str = "") -> None:
        self.hook = hook
        self.point = point
        self.problem = problem
        super().__init__(f"hook '{hook}' at {point}: {problem}", remedy=remedy)


class HookAnswerError(HookError):
    """A hook gave an answer that has no meaning at its point."""


class CommandHookError(HooklineError):
    """A command hook did not answer: it failed, took too long or could not be started."""


# --- runs ---------------------------------------------------------------------------------------


class RunNotCompletedError(HooklineError):
    """`result.raise_for_status()` of a run that ended otherwise. `result` is the result, and says why."""

    def __init__(self, result: Any, why: str) -> None:
        self.result = result
        super().__init__(f"the run was not completed: {why}.")


# --- child runs ---------------------------------------------------------------------------------


class PastError(HooklineError):
    """What ended a child run before a pause: the message of its exception, and `kind`, the name of its type."""

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


class AccessDeniedError(JournalError):
    """The role that is connected to the database may not do this."""


class DamagedRunError(JournalError):
    """The records of a run are not as they were written."""


class NewerRunError(JournalError):
    """A run was written by a newer Hookline, in a form that this one cannot read."""


class RecordError(JournalError):
    """A record is too large for the journal, or has something that no journal keeps. The run ends as failed."""


class RunInUseError(JournalError):
    """Another process is driving this run."""


class QueueFullError(JournalError):
    """A run was not submitted: as many wait in the queue as its maximum length allows."""


class RunHandedOverError(JournalError):
    """This process has left the run to another one: it was asked to, or has lost its claim of the run."""


class UnknownRunError(JournalError):
    """There is no run of that id in the journal."""


class SessionError(HooklineError):
    """A session cannot be used like this now: it is suspended, deleted, or one of its runs waits."""


class SessionConflictError(SessionError):
    """Another process is using the session, or has changed it since it was read."""


class UnknownSessionError(SessionError):
    """There is no session of that id in the journal."""


class TranscriptError(HooklineError):
    """A conversation in which a tool call has no result, or a result has no call."""


# --- models -------------------------------------------------------------------------------------


class ModelError(HooklineError):
    """The model, or the way to it, failed. Drivers raise one of these; the error policy decides."""

    usage: Any = None
    """What the failed answer used, if the provider reported it: it has to be paid."""


class RateLimitError(ModelError):
    """The provider limits the rate of requests. `retry_after` is in seconds, if the provider named a time."""

    def __init__(self, message: str, *, retry_after: float | None = None, remedy: str = "") -> None:
        self.retry_after = retry_after
        super().__init__(message, remedy=remedy)


class ModelTimeoutError(ModelError, TimeoutError):
    """The model did not answer in time."""


class ConnectionLostError(ModelError, ConnectionError):
    """The connection to the model was lost."""


class OverloadedError(ModelError):
    """The provider cannot answer now: it is overloaded or failed. The request is not the cause.

    `retry_after` is in seconds, if the provider named a time.
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
    """There is no key for the provider, or the provider rejects it."""


class ModelNotFoundError(ModelError):
    """The provider has no model of that name."""


class UnsupportedError(ModelError):
    """The request needs something that this provider, or this model, cannot do."""


class MalformedResponseError(ModelError):
    """The answer does not follow the protocol of the provider."""


class ProviderToolError(ModelError):
    """A tool that the provider runs itself (web search, code execution), and that the agent does not allow."""

    def __init__(self, provider: str, name: str, problem: str, allowed: Iterable[str] = ()) -> None:
        self.tool = name
        others = ", ".join(map(repr, allowed))
        super().__init__(
            f"{provider}: {problem} the tool '{name}', which the provider runs itself and this agent does not allow"
            + (f" (it allows {others})." if others else "."),
            remedy=f'Allow it with with_provider_tools("{name}"), or take it out of the options.',
        )


class CassetteError(ModelError):
    """A recording of the wire has no answer to a request, or cannot be read or written."""


class ScriptExhaustedError(ModelError):
    """A scripted driver was asked for more turns than its script has."""


# --- tools --------------------------------------------------------------------------------------


class ToolError(HooklineError):
    """Raise this in a tool to tell the model what went wrong, in words it can act on."""


class UnknownToolError(ToolError):
    """The model called a tool that does not exist."""


class BlockedCallError(ToolError):
    """A hook blocked a call, or a person denied it. It is raised nowhere: `error` hooks see it if blocks are errors."""


class ToolArgumentsError(ToolError):
    """The model called a tool with arguments that do not fit its schema."""


class ToolSourceError(ToolError):
    """The source of a tool, for example an MCP server, cannot be reached or answers wrongly."""


class ToolTimeoutError(ToolError, TimeoutError):
    """A tool did not finish within its time."""


# --- containment --------------------------------------------------------------------------------


class SandboxError(HooklineError):
    """No sandbox works here, or it cannot enforce what was requested."""


class FileJailError(HooklineError, OSError):
    """A path cannot be used like this inside a file jail. `path` is the path as it was given."""

    def __init__(
        self, path: str, problem: str, *, remedy: str = "", code: int | None = None
    ) -> None:
        self.path = path
        super().__init__(f"'{_shorten(path)}' {problem}", remedy=remedy)
        if code is not None:
            self.errno = code


class OutsideJailError(FileJailError, PermissionError):
    """The path leads out of the jail."""


class ProtectedPathError(FileJailError, PermissionError):
    """The path contains a name that must not be changed or seen, such as `.git` or an agent's configuration."""


class BadPathError(FileJailError, ValueError):
    """No file can have this path: it is empty, too long, or has forbidden characters."""


class FileKindError(FileJailError):
    """It is not a plain file but a directory, a device or a file with a second hard link."""


class NoSuchFileError(FileJailError, FileNotFoundError):
    """There is nothing at this path."""


class FileThereError(FileJailError, FileExistsError):
    """Something already exists at this path."""


class FileTooLargeError(FileJailError):
    """The file is larger than the reader accepts."""


class FileChangedError(FileJailError):
    """The file has changed since it was read."""


def _shorten(path: str) -> str:
    """A path that is short and has no control characters, so that it can be shown."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in path[:200])
    return shown + "..." * (len(path) > 200)
