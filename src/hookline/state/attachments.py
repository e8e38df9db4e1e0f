"""An image or a file that goes with a message or a result."""

from __future__ import annotations

import base64
import os
import re
from typing import NoReturn

import msgspec

from hookline.errors import NotJSONError, UsageError
from hookline.state.frozen import checked_text, valid_text

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
