"""Lines of JSON about what happens in runs, for the logs of a service. Nothing that anybody said is in them."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hookline.errors import BuildError
from hookline.journal import (
    ApprovalAnswered,
    ApprovalAsked,
    CallAdmitted,
    CallSettled,
    ChildFinished,
    ChildStarted,
    ErrorRaised,
    HookRan,
    Record,
    RequestSent,
    ResponseReceived,
    RunFinished,
    RunHandedOver,
    RunStarted,
    RunTakenUp,
    StepFinished,
    StepPaused,
    StepStarted,
)
from hookline.redaction import RedactingFilter, Redactor
from hookline.state import ErrorInfo, Usage

if TYPE_CHECKING:
    from hookline.agent import AgentBuilder

LOGGER = "hookline.runs"
_FIELDS = "hookline"
"""The attribute of a log record that has the fields of its line."""
Fields = dict[str, Any]
_files: dict[Path, logging.Logger] = {}


class RunLog:
    """Logs what happens in runs: `RunLog("runs.jsonl")` writes lines of JSON to a file.

    Without a path they go to the logger `hookline.runs`, where `JsonLines` is a formatter for your handlers.
    """

    hears_deltas = False

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, name: str = "run_log"
    ) -> None:
        self.name = name
        self._logger = logging.getLogger(LOGGER)
        self._began: dict[tuple[str, str], float] = {}
        """When runs and requests in progress began."""
        if path is not None:
            self._logger = _file_logger(Path(path).resolve())

    def configure(self, builder: AgentBuilder) -> None:
        """Hear the records."""
        builder.on_event(self)

    def __call__(self, record: Record) -> None:
        """A record was written."""
        describe = _DESCRIPTIONS.get(type(record))
        if describe is None or not self._logger.isEnabledFor(logging.INFO):
            return
        fields = {"event": record.type, "run_id": record.run_id, **describe(record)}
        duration = self._duration(record)
        if duration is not None:
            fields["duration"] = round(duration, 6)
        given = {name: value for name, value in fields.items() if value not in (None, "")}
        if given.pop("is_quiet", False):
            return
        self._logger.info("%s", record.type, extra={_FIELDS: given})

    def _duration(self, record: Record) -> float | None:
        """How long that took which ends with this record."""
        key = record.run_id, "response" if isinstance(record, RequestSent) else record.type
        match record:
            case RunStarted() | RunTakenUp():
                self._began.setdefault((record.run_id, "result"), record.at)
            case RequestSent():
                self._began[key] = record.at
            case ResponseReceived() | RunFinished():
                began = self._began.pop(key, None)
                return None if began is None else record.at - began
            case RunHandedOver():
                self._began.pop((record.run_id, "result"), None)
            case CallSettled():
                return record.result.duration
            case HookRan():
                return record.duration
            case StepFinished():
                return record.step.duration
        return None


class JsonLines(logging.Formatter):
    """A log record as a line of JSON.

    A message stands without the values that were put into it, and an exception without its words: both may have
    content in them. The rest is redacted.
    """

    def __init__(self) -> None:
        super().__init__()
        self._redactor = Redactor()

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: Fields = {"time": at, "level": record.levelname.lower(), "logger": record.name}
        if record.name != LOGGER:
            line["message"] = self._redactor.text(str(record.msg))
        line |= getattr(record, _FIELDS, {})
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, place = record.exc_info
            line["error"] = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
            line["where"] = [
                f"{each.filename}:{each.lineno} {each.name}" for each in traceback.extract_tb(place)
            ]
        return msgspec.json.encode(line, enc_hook=str).decode(errors="replace")


def log_as_json(*names: str) -> None:
    """Send everything that is logged in this process to standard error, as lines of JSON.

    `names` are loggers that have handlers of their own.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for name in names:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False


def log_as_text() -> None:
    """Send everything that is logged in this process to standard error, without secrets."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    for handler in logging.getLogger().handlers:
        handler.addFilter(RedactingFilter())


def _file_logger(path: Path) -> logging.Logger:
    """The logger of a file. All agents that log to it share one, which is none of the process."""
    logger = _files.get(path)
    if logger is None:
        try:
            handler = logging.FileHandler(path, encoding="utf-8")
        except OSError as error:
            raise BuildError(
                f"run_log: {path} cannot be written: {error.strerror}.",
                remedy="Give another path, in a directory that exists.",
            ) from None
        handler.setFormatter(JsonLines())
        logger = _files[path] = logging.Logger(LOGGER)
        logger.addHandler(handler)
    return logger


# --- what is said of each record -------------------------------------------------------------------------


def _usage(usage: Usage) -> Fields:
    return {
        "input_tokens": usage.input_tokens or None,
        "output_tokens": usage.output_tokens or None,
        "cost": usage.cost,
    }


def _error(error: ErrorInfo | None) -> Fields:
    return {} if error is None else {"error": error.type}


def _hook(record: HookRan) -> Fields:
    """Only of hooks that decided something: others would be most of the log."""
    return {
        "is_quiet": record.verdict == "proceed" and record.error is None,
        "step": record.step,
        "hook": record.hook,
        "point": record.point,
        "verdict": record.verdict,
        "shadow": record.shadow or None,
        "call_id": record.call_id,
        **_error(record.error),
    }


def _response(record: ResponseReceived) -> Fields:
    return {
        "step": record.step,
        "model": record.model,
        "calls": len(record.calls),
        "finish": record.finish,
        "discarded": record.discarded or None,
        **_usage(record.usage),
    }


def _result(record: CallSettled) -> Fields:
    result = record.result
    return {
        "step": record.step,
        "tool": "" if result.is_of_unknown_tool else result.name,
        "call_id": result.call_id,
        "status": result.status,
        "decided_by": result.decided_by,
        **_error(result.error),
    }


def _outcome(record: RunFinished) -> Fields:
    return {
        "status": record.status,
        "stop_reason": record.stop_reason,
        "decided_by": record.decided_by,
        "steps": record.steps,
        **_usage(record.usage),
        **_error(record.error),
    }


_DESCRIPTIONS: dict[type[Record], Callable[[Any], Fields]] = {
    RunStarted: lambda each: {
        "agent": each.agent_id,
        "version": each.agent_version,
        "session_id": each.session_id,
        "parent_run_id": each.parent_run_id,
        "resumed": each.resumed or None,
    },
    RunTakenUp: lambda each: {"version": each.agent_version},
    RunHandedOver: lambda _: {},
    StepStarted: lambda each: {"step": each.step},
    RequestSent: lambda each: {"step": each.step, "attempt": each.attempt, "model": each.model},
    ResponseReceived: _response,
    HookRan: _hook,
    CallAdmitted: lambda each: {
        "step": each.step,
        "tool": each.call.name,
        "call_id": each.call.id,
        "effect": each.effect,
    },
    CallSettled: _result,
    ApprovalAsked: lambda each: {
        "step": each.step,
        "approval_id": None if each.approval is None else each.approval.id,
    },
    ApprovalAnswered: lambda each: {
        "step": each.step,
        "approval_id": each.approval_id,
        "answer": None if each.decision is None else each.decision.answer,
    },
    ErrorRaised: lambda each: {
        "step": each.step,
        "call_id": each.call_id,
        "action": each.action,
        **_error(each.error),
    },
    ChildStarted: lambda each: {"child_run_id": each.child_run_id, "call_id": each.call_id},
    ChildFinished: lambda each: {
        "child_run_id": each.child_run_id,
        "call_id": each.call_id,
        "status": each.status,
    },
    StepFinished: lambda each: {"step": each.step.index, "kind": each.step.type},
    StepPaused: lambda _: {"status": "paused"},
    RunFinished: _outcome,
}
