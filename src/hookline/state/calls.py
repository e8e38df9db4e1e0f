"""A tool call, its result, and the images and files that go with a result or a message."""

from __future__ import annotations

import base64
import enum
import hashlib
import os
import re
import warnings
from typing import Any, NoReturn

import msgspec

from hookline.errors import NotJSONError, UsageError, in_words
from hookline.state.frozen import (
    EMPTY,
    FrozenDict,
    JSONValue,
    checked_text,
    freeze,
    freeze_dict,
    valid_text,
)

_TEXTS = ("application/json", "application/xml", "application/yaml", "application/toml")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


class Attachment(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An image or a document that goes with a message: its bytes (as base64), or where they are."""

    media_type: str
    data: str = ""
    """The content as base64. Empty when there is a `url`."""
    url: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        make_plain(self, self.__struct_fields__)
        problem = _problem(self)
        if problem:
            raise UsageError(
                f"the attachment '{self.name or self.media_type}' {problem}.",
                remedy="Make it with Attachment.from_bytes(content, media_type), or give its url.",
            )

    @classmethod
    def from_bytes(cls, content: bytes, media_type: str, name: str = "") -> Attachment:
        """An attachment that carries its content."""
        data = base64.b64encode(content).decode()
        return cls(media_type=media_type, data=data, name=name)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Attachment:
        """The content of a file. The media type is guessed from its name."""
        from mimetypes import guess_type  # reads tables of the system: only when somebody asks

        media_type, _ = guess_type(os.fspath(path))
        if media_type is None:
            raise UsageError(
                f"the media type of '{os.fspath(path)}' cannot be guessed from its name.",
                remedy="Use Attachment.from_bytes(content, media_type).",
            )
        with open(path, "rb") as file:
            name = valid_text(os.path.basename(path))  # a file's name may be any bytes
            return cls.from_bytes(file.read(), media_type, name)

    @property
    def is_image(self) -> bool:
        """Whether it is a picture; everything else is a document."""
        return self.media_type.startswith("image/")

    @property
    def is_text(self) -> bool:
        """Whether it is a document of plain text, however that is marked up."""
        return self.media_type.startswith("text/") or self.media_type in _TEXTS

    @property
    def size(self) -> int:
        """About how many bytes it carries."""
        return len(self.data) * 3 // 4

    def content(self) -> bytes:
        """The bytes it carries."""
        return base64.b64decode(self.data)

    def text(self) -> str:
        """The bytes it carries, read as UTF-8; what is none is replaced."""
        return self.content().decode(errors="replace")

    def __json__(self) -> NoReturn:
        """An attachment is no part of a JSON value: a model would read its base64 as text."""
        raise NotJSONError(
            f"an attachment of type {self.media_type} is inside of a JSON value.",
            remedy="Return it alone, in a list with text, or as ToolResult(text, attachments=[...]).",
        )


def make_plain(part: msgspec.Struct, names: tuple[str, ...]) -> None:
    """Make subclasses of str (markup, for example) plain text, which can be sent and saved."""
    for name in names:
        value = getattr(part, name)
        if type(value) is not str and isinstance(value, str):
            msgspec.structs.force_setattr(part, name, str.__str__(value))


def _problem(attachment: Attachment) -> str:
    """What is wrong with an attachment that no model could be given."""
    for name in attachment.__struct_fields__:
        if not isinstance(getattr(attachment, name), str):
            return f"has a {name} that is not text"
        if not getattr(attachment, name).isascii():
            checked_text(getattr(attachment, name), f"the {name} of an attachment")
    if not attachment.media_type:
        return "does not say of what type it is"
    if not attachment.data and not attachment.url:
        return "has neither content nor an address"
    if len(attachment.data) % 4 or not _BASE64.fullmatch(attachment.data):
        return "has data that is not base64"
    return ""


_decode = msgspec.json.Decoder().decode
_NO_FILES: tuple[Attachment, ...] = ()
"""Compared by identity: there is one empty tuple, and a result is made for every call."""


class ToolCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A request to run a tool. `args` is read-only to any depth; `with_args` derives a changed call."""

    id: str
    name: str
    args: dict[str, Any] = EMPTY
    malformed: str = ""
    """The arguments as the model wrote them, when they could not be taken as a JSON object. Such a call never runs."""
    redacted: str = ""
    """Set if secrets were taken out of the arguments: the name under which this process keeps them. It reveals
    nothing about them."""

    def __post_init__(self) -> None:
        if type(self.args) is not FrozenDict:
            frozen = freeze_dict(self.args, f"an argument of the call to '{self.name}'")
            msgspec.structs.force_setattr(self, "args", frozen)

    @classmethod
    def from_json(cls, id: str, name: str, arguments: str | bytes) -> ToolCall:
        """A call whose arguments are JSON text, as models write them. Text that is no JSON object is kept."""
        try:
            args = _decode(arguments or b"{}")
            if type(args) is dict:
                for item in args.values():
                    if type(item) is not str:
                        return cls(id, name, args)
                return cls(id, name, FrozenDict(args))  # text from a JSON parser is valid
        except (msgspec.DecodeError, UnicodeError, NotJSONError, RecursionError):
            pass
        text = arguments if isinstance(arguments, str) else arguments.decode(errors="replace")
        return cls(id=id, name=name, malformed=valid_text(text))

    def with_args(self, **changes: Any) -> ToolCall:
        """This call with some arguments changed."""
        args = {**self.args, **changes}
        return ToolCall(id=self.id, name=self.name, args=args, redacted=self.redacted)

    def fingerprint(self) -> str:
        """A hash of tool and arguments: what an approval is bound to. The id does not count.

        Secrets that were taken out are not in the hash, because they could be guessed from it: `redacted` is.
        """
        said = [self.name, self.args, self.redacted] if self.redacted else [self.name, self.args]
        content = msgspec.json.encode(said, order="deterministic")
        return hashlib.sha256(content).hexdigest()


class ErrorInfo(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An error as it is kept in state: what an exception was, without the exception."""

    type: str
    message: str
    error_class: str = "unknown"

    def __str__(self) -> str:
        return self.message or self.type

    @classmethod
    def from_exception(cls, exception: BaseException, error_class: str = "unknown") -> ErrorInfo:
        """What to remember of an exception."""
        kind = type(exception)
        name = (
            kind.__qualname__
            if kind.__module__ == "builtins"
            else f"{kind.__module__}.{kind.__qualname__}"
        )
        return cls(type=name, message=in_words(exception), error_class=error_class)


class ResultStatus(enum.StrEnum):
    """The result of a tool call, as one word."""

    OK = "ok"
    ERROR = "error"
    """The tool raised, timed out, or answered something that is not JSON."""
    INVALID = "invalid"
    """The call named an unknown tool or its arguments did not fit."""
    BLOCKED = "blocked"
    """A hook blocked the call; the tool did not run."""
    DENIED = "denied"
    """A person, or an approver for one, said no; the tool did not run."""
    WITHHELD = "withheld"
    """The tool ran and a hook withheld its result."""
    NOT_RUN = "not_run"
    """The run ended before the tool could start."""
    CANCELLED = "cancelled"
    """The run was cancelled while the tool was running: what it did is not known."""
    IN_DOUBT = "in_doubt"
    """The process died while the tool was running: what it did is not known."""


_KEPT_FROM_RUNNING_OR_SEEING = frozenset(
    {ResultStatus.BLOCKED, ResultStatus.DENIED, ResultStatus.WITHHELD}
)


class ToolResult(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The result of one tool call: a value, or an error. Every call gets exactly one.

    `ToolResult("text")` is enough for a hook that supplies a result itself.
    """

    result: JSONValue = None
    error: ErrorInfo | None = None
    status: ResultStatus = ResultStatus.OK
    call_id: str = ""
    name: str = ""
    reason: str = ""
    """Why a call was blocked, denied, withheld or not run."""
    decided_by: str = ""
    """The hook that said so."""
    duration: float = 0.0
    metadata: dict[str, Any] = EMPTY
    attachments: tuple[Attachment, ...] = ()
    """Images and files, for the model and for the journal: at most 10 MB together."""

    def __post_init__(self) -> None:
        if self.attachments is not _NO_FILES:
            msgspec.structs.force_setattr(
                self, "attachments", _check_attachments(self.attachments, self.name)
            )
        if type(self.metadata) is not FrozenDict:
            metadata = freeze_dict(self.metadata, "metadata of a tool result")
            msgspec.structs.force_setattr(self, "metadata", metadata)
        result = self.result
        if result is not None and not (type(result) is str and result.isascii()):
            what = f"the result of tool '{self.name}'" if self.name else "a tool result"
            msgspec.structs.force_setattr(self, "result", freeze(result, what))

    @property
    def is_success(self) -> bool:
        """The tool (or a hook in its place) gave a value."""
        return self.status is ResultStatus.OK

    @property
    def is_blocked(self) -> bool:
        """A hook or a person kept the call from running, or its result from being seen."""
        return self.status in _KEPT_FROM_RUNNING_OR_SEEING

    @property
    def is_of_unknown_tool(self) -> bool:
        """There is no tool of this name: the name is the model's own, and may be anything."""
        return self.error is not None and self.error.type == "hookline.errors.UnknownToolError"

    def with_result(self, value: object) -> ToolResult:
        """A success with this value instead; None is a value like any other."""
        return msgspec.structs.replace(
            self,
            result=value,
            error=None,
            status=ResultStatus.OK,
            reason="",
            decided_by="",
            attachments=(),
        )

    def with_attachments(self, *attachments: Attachment) -> ToolResult:
        """This result with these images and files instead of its own."""
        return msgspec.structs.replace(self, attachments=attachments)

    def with_metadata(self, key: str, value: object) -> ToolResult:
        """This result with one more entry of metadata."""
        metadata = freeze_dict({**self.metadata, key: value}, f"metadata '{key}' of a tool result")
        return msgspec.structs.replace(self, metadata=metadata)

    @property
    def text(self) -> str:
        """What the model reads."""
        return _CallableText(result_text(self))


def _check_attachments(attachments: object, name: str) -> tuple[Attachment, ...]:
    """The attachments of a result, if they are some and are not too large to be kept and sent."""
    what = f"the result of tool '{name}'" if name else "a tool result"
    given = tuple(attachments) if isinstance(attachments, list | tuple) else (attachments,)
    for each in given:
        if not isinstance(each, Attachment):
            raise UsageError(
                f"{what} has {each!r} among its attachments.",
                remedy="Use Attachment.from_bytes(content, media_type).",
            )
    size = sum(each.size for each in given)
    if size > LARGEST_ATTACHMENTS:
        raise UsageError(
            f"{what} has attachments of {size / 2**20:,.1f} MB; at most {LARGEST_ATTACHMENTS / 2**20:g} MB are kept.",
            remedy="Return a smaller image, or the path of the file.",
        )
    return given


LARGEST_ATTACHMENTS = 10 * 2**20
"""Bytes. They are sent with every request, and the journal keeps them."""
_PREFIX = {
    ResultStatus.BLOCKED: "Blocked",
    ResultStatus.DENIED: "Denied",
    ResultStatus.WITHHELD: "Result withheld",
    ResultStatus.NOT_RUN: "Not run",
    ResultStatus.CANCELLED: "Cancelled",
    ResultStatus.IN_DOUBT: "In doubt",
}


def result_text(result: ToolResult) -> str:
    """What the model reads of a result. `result.text` is the same until 0.2 removes the call of it."""
    if result.status is ResultStatus.OK:
        return render(result.result)
    if result.status in _PREFIX:
        return f"{_PREFIX[result.status]}: {result.reason}"
    return f"Error: {result.error}" if result.error is not None else f"Error: {result.reason}"


class _CallableText(str):
    """Text that can be called, as `ToolResult.text` was before it was an attribute. Copies of it are plain text."""

    __slots__ = ()

    def __call__(self) -> str:
        warnings.warn(
            "ToolResult.text is an attribute: write result.text, not result.text(). Version 0.2 removes the call.",
            DeprecationWarning,
            stacklevel=2,
        )
        return str(self)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


def render(value: JSONValue) -> str:
    """A JSON value as text for a model: text as it is, the rest as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
