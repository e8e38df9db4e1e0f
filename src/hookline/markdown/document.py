"""Markdown files with front matter: their fields and text, and which of them describe subagents."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from hookline.errors import BuildError, DocumentError, NotJSONError
from hookline.extras import install_command
from hookline.state import EMPTY, FrozenDict, freeze

LONGEST = 1_000_000
"""Bytes of a file that is read as a document."""
_LONGEST_FIELDS = 64_000
_NO_AGENTS = frozenset({"readme.md", "agents.md", "claude.md", "contributing.md", "license.md"})
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")


class Document(msgspec.Struct, frozen=True):
    """Front matter and text. Fields are found in any spelling: `allowed-tools`, `allowed_tools`, `allowedTools`."""

    where: str
    """The file, as messages name it."""
    fields: Mapping[str, Any] = EMPTY
    """All of the front matter, also unknown fields."""
    body: str = ""
    lines: Mapping[str, int] = EMPTY
    """The line of each field."""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Document:
        """The document in a file."""
        where = os.fspath(path)
        try:
            with Path(path).open("rb") as file:
                data = file.read(LONGEST + 1)
        except OSError as error:
            raise DocumentError(f"{where}: it cannot be read: {error.strerror}.") from None
        return cls.from_bytes(data, where)

    @classmethod
    def from_bytes(cls, data: bytes, where: str) -> Document:
        """The document in the bytes of a file."""
        if len(data) > LONGEST:
            raise DocumentError(
                f"{where}: it is longer than {LONGEST:,} bytes.",
                remedy="Move parts that are not always needed into other files.",
            )
        try:
            return cls.parse(data.decode("utf-8-sig"), where)
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise DocumentError(
                f"{where}:{line}: it is not UTF-8.", remedy="Save it as UTF-8."
            ) from None

    @classmethod
    def parse(cls, text: str, where: str) -> Document:
        """The document in a text. Without front matter it has no fields."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.split("\n")
        first = next((number for number, line in enumerate(lines) if line.strip()), 0)
        if lines[first].rstrip() != "---":
            return cls(where, body=text.strip())
        for number in range(first + 1, len(lines)):
            if lines[number].rstrip() in ("---", "..."):
                break
        else:
            raise DocumentError(
                f"{where}:{first + 1}: the front matter that begins here does not end.",
                remedy="End it with a line that is `---`.",
            )
        fields, places = _fields("\n".join(lines[first + 1 : number]), where, first + 2)
        return cls(where, fields, "\n".join(lines[number + 1 :]).strip(), places)

    # --- fields -----------------------------------------------------------------------------------

    def key(self, name: str) -> str | None:
        """How a field is spelled in this file; None when it is not there."""
        wanted = _plain(name)
        return next((key for key in self.fields if _plain(key) == wanted), None)

    def get(self, name: str) -> Any:
        """The value of a field; None when it is not there, or empty."""
        key = self.key(name)
        return None if key is None else self.fields[key]

    def location_of(self, name: str) -> str:
        """The place of a field, as messages name it."""
        key = self.key(name)
        line = None if key is None else self.lines.get(key)
        return self.where if line is None else f"{self.where}:{line}"

    def field_error(self, name: str, problem: str, remedy: str = "") -> DocumentError:
        """The error for a field that cannot be used."""
        return DocumentError(f"{self.location_of(name)}: {problem}", remedy=remedy)

    def text(self, name: str) -> str:
        """A field that is text; a number is taken as it is written. Empty when it is not there."""
        value = self.get(name)
        if value is None:
            return ""
        if isinstance(value, Mapping | list):
            raise self.field_error(name, f"'{name}' should be text, and is a {_kind(value)}.")
        return str(value).strip()

    def flag(self, name: str) -> bool:
        """A field that is true or false; false when it is not there."""
        said = self.text(name).lower()
        if said not in (*_YES, *_NO):
            raise self.field_error(name, f"'{name}' should be true or false, and is '{said}'.")
        return said in _YES

    def count(self, name: str) -> int | None:
        """A field that is a number above zero; None when it is not there."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.field_error(
                name, f"'{name}' should be a whole number above zero, and is {value!r}."
            )
        return value

    def names(self, name: str) -> tuple[str, ...] | None:
        """A field that lists names: a list, or text with commas or blanks. None when it is missing."""
        value = self.get(name)
        if value is None:
            return None
        listed = value if isinstance(value, list) else [value]
        if not all(isinstance(each, str | int | float) for each in listed):
            raise self.field_error(
                name, f"'{name}' should be a list of names.", "For example: `Read, Grep`."
            )
        return tuple(dict.fromkeys(part for each in listed for part in names_in(str(each))))


def _fields(text: str, where: str, first_line: int) -> tuple[FrozenDict, FrozenDict]:
    if len(text) > _LONGEST_FIELDS:
        raise DocumentError(
            f"{where}: its front matter is longer than {_LONGEST_FIELDS:,} characters."
        )
    read_yaml, problem = _yaml()
    try:
        value, places = read_yaml(text)
    except problem as error:
        raise DocumentError(
            f"{where}:{first_line + error.line}: the front matter is not YAML: {error}.",
            remedy="Put values with special characters in quotes.",
        ) from None
    if value is None:
        return FrozenDict(), FrozenDict()
    if not isinstance(value, dict):
        raise DocumentError(
            f"{where}:{first_line}: the front matter should be `name: value` lines, and is a {_kind(value)}."
        )
    try:
        fields = freeze({str(key): each for key, each in value.items()}, "the front matter")
    except (NotJSONError, RecursionError) as error:
        raise DocumentError(f"{where}:{first_line}: {error}") from None
    assert isinstance(fields, FrozenDict)
    return fields, FrozenDict({key: first_line + line for key, line in places.items()})


def _yaml() -> tuple[Any, Any]:
    """The reader of YAML, and what it raises."""
    try:
        from hookline.markdown.yaml_text import YamlProblem, read_yaml
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("hookline"):
            raise
        raise BuildError(
            "skills and agents in Markdown need the package 'pyyaml', which is not installed.",
            remedy=f"Run: {install_command('markdown')}",
        ) from None
    return read_yaml, YamlProblem


def _plain(name: str) -> str:
    return re.sub(r"[-_\s]", "", name).lower()


def _kind(value: object) -> str:
    if isinstance(value, Mapping):
        return "mapping"
    return "list" if isinstance(value, list) else "text"


def names_in(text: str) -> list[str]:
    """The names in a text, separated by commas or blanks. Text in brackets is not split."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")" and depth > 0)
        if depth == 0 and (letter == "," or letter.isspace()):
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part]


# --- pages of subagents ---------------------------------------------------------------------------------


def agent_pages(source: str | os.PathLike[str]) -> Iterator[Document]:
    """The pages of a file or a directory that describe subagents, without disabled ones."""
    try:
        path = Path(os.path.expanduser(source))
    except TypeError:
        raise BuildError(
            f"{source!r} is not a subagent.",
            remedy="Give Subagent(...), a Markdown file, or a directory of them.",
        ) from None
    if path.is_file():
        yield Document.read(path)
        return
    if not path.is_dir():
        raise BuildError(
            f"there is no file or directory '{source}' with subagents.",
            remedy="Make it, or leave it out; a subagent is a Markdown file with front matter.",
        )
    for file in sorted(path.rglob("*.md")):
        below = file.relative_to(path).parts
        is_hidden = any(part.startswith(".") or part == "node_modules" for part in below)
        if is_hidden or file.name.lower() in _NO_AGENTS or not file.is_file():
            continue
        page = Document.read(file)
        if not page.flag("disabled"):
            yield page


def agent_name(page: Document) -> str:
    """The name of the subagent of a page: its field, or the name of the file."""
    return page.text("name") or Path(page.where).stem


class PageHooks(Protocol):
    """A capability that runs the hooks of pages: `CommandHooks`."""

    name: str

    def has_read(self, page: str | os.PathLike[str]) -> bool:
        """Whether it has read the hooks of this page: they run, or what they guard does not start."""
        ...


def has_commands(hooks: object) -> bool:
    """Whether the hooks in front matter are commands, by event. A list names hooks of the program."""
    return isinstance(hooks, dict) and bool(hooks)
