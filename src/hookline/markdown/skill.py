"""Skills: folders with a SKILL.md, what is in them, and libraries of them."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from hookline.containment import FileJail
from hookline.errors import (
    BuildError,
    DocumentError,
    FileJailError,
    HooklineError,
    ToolError,
    UsageError,
)
from hookline.markdown.document import Document
from hookline.permissions import Rule
from hookline.state import EMPTY

PAGES = ("SKILL.md", "skill.md")
"""File names for the page of a skill; the first is the usual one."""
MOST_FILES = 500
LARGEST_FILE = 10_000_000
_LONGEST_NAME = 64
_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f/\\]")
_ARGUMENT = re.compile(r"\$(?:ARGUMENTS(?:\[(?P<index>\d+)\])?|(?P<number>\d+)\b)")
_NAMED_ARGUMENT = re.compile(r"\$ARGUMENTS(?:\[(?P<index>\d+)\])?(?P<number>)")
_FOLDER = re.compile(r"\$\{(?:CLAUDE_)?SKILL_DIR\}")


class BundledFile(msgspec.Struct, frozen=True):
    """A file that comes with a skill."""

    path: str
    """Relative to the skill's folder, with `/` between its parts."""
    size: int
    digest: str = ""
    """Of what is in it; empty for one that is too large to be read."""


class Skill(msgspec.Struct, frozen=True):
    """The content of a SKILL.md, and the files beside it."""

    name: str
    description: str
    body: str
    folder: str
    """Its real path."""
    allowed_tools: tuple[str, ...] | None = None
    """The tools that may be called while it is active, as written; None for all."""
    files: tuple[BundledFile, ...] = ()
    for_models: bool = True
    """Whether a model may load it; otherwise only people can."""
    for_people: bool = True
    """Whether people may start it by name."""
    fields: dict[str, Any] = EMPTY
    """All of its front matter."""
    hooks: Any = None
    """What its front matter says about hooks."""
    digest: str = ""
    """Of its SKILL.md."""
    unlisted: int = 0
    """How many of its files are left out, because there are too many."""

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Skill:
        """The skill in a folder. Errors name file and line."""
        real, where = Path(folder).resolve(), page_of(Path(folder))
        try:
            with FileJail(real) as jail:
                data, files = _page(jail, where.name), list(_find_bundled(jail, where.name))
        except UsageError as error:
            raise DocumentError(f"{folder}: {error.message}") from None
        page = Document.from_bytes(data, str(where))
        allowed = _rules(page, real)
        return cls(
            name=_name(page, Path(folder)),
            description=_description(page),
            body=page.body,
            folder=str(real),
            allowed_tools=None if allowed is not None and "*" in allowed else allowed,
            files=tuple(files[:MOST_FILES]),
            for_models=not page.flag("disable-model-invocation"),
            for_people=page.get("user-invocable") is None or page.flag("user-invocable"),
            fields=dict(page.fields),
            hooks=page.get("hooks"),
            digest=hashlib.sha256(data).hexdigest(),
            unlisted=max(0, len(files) - MOST_FILES),
        )

    @property
    def page_path(self) -> str:
        """Where its SKILL.md is."""
        return str(page_of(Path(self.folder)))

    def text(self, arguments: str = "") -> str:
        """Its instructions, with the arguments in place of `$ARGUMENTS`, `$ARGUMENTS[0]` and `$0`."""
        words = _words(arguments)

        def value_of(found: re.Match[str]) -> str:
            index = found["index"] or found["number"]
            if not index:
                return arguments
            return words[int(index)] if int(index) < len(words) else ""

        body = _FOLDER.sub(lambda _: self.folder, self.body)
        # Without arguments `$1` may be a price, or part of a script.
        filled = (_ARGUMENT if arguments else _NAMED_ARGUMENT).sub(value_of, body)
        return filled if filled != body or not arguments else f"{body}\n\nARGUMENTS: {arguments}"

    def page(self, arguments: str = "") -> str:
        """The skill as a model reads it: its instructions, folder, files and tools."""
        parts = [f"# Skill: {self.name}", f"Folder: {self.folder}"]
        if self.files:
            files = [f"- {each.path} ({each.size:,} bytes)" for each in self.files]
            more = [f"- and {self.unlisted} more"] if self.unlisted else []
            parts.append("\n".join(["Files:", *files, *more]))
        if self.allowed_tools is not None:
            allowed = ", ".join(self.allowed_tools) or "none"
            parts.append(f"Tools for this skill: {allowed}")
        return "\n\n".join([*parts, self.text(arguments)]).rstrip()

    def read_file(self, path: str) -> str:
        """The content of one of its files. Files outside its folder, and changed files, cannot be read."""
        wanted = path.replace("\\", "/").removeprefix("./")
        known = next((each for each in self.files if each.path == wanted), None)
        if known is None:
            raise ToolError(
                f"skill '{self.name}' has no file '{path}'.",
                remedy=f"It has: {', '.join(each.path for each in self.files) or 'none'}.",
            )
        if not known.digest:
            raise ToolError(f"'{path}' is too large to be read like this ({known.size:,} bytes).")
        data = self._contents(known)
        if data is None or hashlib.sha256(data).hexdigest() != known.digest:
            raise ToolError(
                f"'{path}' of skill '{self.name}' has changed since the skill was read.",
                remedy="Continue without it; it can be read once the agent has been built again.",
            )
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ToolError(
                f"'{path}' is not text ({known.size:,} bytes).",
                remedy=f"It is at {Path(self.folder) / wanted}, for tools that can use it.",
            ) from None

    def _contents(self, known: BundledFile) -> bytes | None:
        try:
            with FileJail(self.folder) as jail:
                return _read(jail, known.path)[0]
        except HooklineError:  # the folder is gone
            return None


def page_of(folder: Path) -> Path:
    """Where the page of a skill is, or should be."""
    pages = [folder / name for name in PAGES]
    return next((page for page in pages if page.is_file()), pages[0])


def _page(jail: FileJail, name: str) -> bytes:
    data, _ = _read(jail, name)
    if data is not None:
        return data
    raise DocumentError(
        f"{jail.root / name}: it cannot be read: it leads out of its folder, is too large, or is not a plain file.",
        remedy="Put the file itself there; a link to the whole folder of a skill is fine.",
    )


def _name(page: Document, folder: Path) -> str:
    name = page.text("name") or folder.absolute().name
    if _NOT_IN_NAMES.search(name) or len(name) > _LONGEST_NAME:
        raise page.field_error(
            "name",
            f"a skill cannot be called {name[:100]!r}.",
            f"Use up to {_LONGEST_NAME} letters, digits and hyphens.",
        )
    return name


def _description(page: Document) -> str:
    """Its description, else its first paragraph."""
    said = page.text("description") or _first_paragraph(page.body)
    if not said:
        raise page.field_error(
            "description",
            "there is no description, so a model cannot know when to use it.",
            "Add `description: ...` to its front matter.",
        )
    return " ".join(said.split())


def _first_paragraph(body: str) -> str:
    text = re.sub(r"(?m)^#.*$", "", body)
    return next((part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()), "")


def _rules(page: Document, folder: Path) -> tuple[str, ...] | None:
    """The tools it allows, as written, with its folder filled in."""
    listed = page.names("allowed-tools")
    if listed is None:
        return None
    allowed = tuple(_FOLDER.sub(lambda _: str(folder), written) for written in listed)
    for written in allowed:
        try:
            Rule.parse(written)
        except UsageError as error:
            raise page.field_error("allowed-tools", error.message, error.remedy) from None
    return allowed


def _words(arguments: str) -> list[str]:
    """The arguments of a skill, quoted as in a shell. They are no command line, and nothing in them is expanded."""
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


# --- the files beside it ----------------------------------------------------------------------------


def _find_bundled(jail: FileJail, page: str) -> Iterator[BundledFile]:
    """Its files, in order, without hidden ones and links that lead out of the folder."""
    root = jail.root
    for place, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        for name in sorted(names):
            path = (Path(place) / name).relative_to(root).as_posix()
            if name.startswith(".") or path == page or not path.isprintable():
                continue
            data, size = _read(jail, path)
            if size is not None:
                digest = "" if data is None else hashlib.sha256(data).hexdigest()
                yield BundledFile(path, size, digest)


def _read(jail: FileJail, path: str) -> tuple[bytes | None, int | None]:
    """The content of a file and its size: no size if it cannot be read, no content if it is too large."""
    try:
        with jail.open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return (file.read(LARGEST_FILE), size) if size <= LARGEST_FILE else (None, size)
    except (FileJailError, OSError):
        return None, None


# --- skills from several directories ------------------------------------------------------------


_DEEPEST = 6
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})


class SkillProblem(msgspec.Struct, frozen=True):
    """Why a skill is not there."""

    text: str
    remedy: str = ""


class SkillLibrary:
    """The skills of some directories. An earlier directory goes before a later one.

    A directory may be a skill itself, or contain skills at any depth. A skill that cannot be read, or whose name is
    taken, is left out and listed in `problems`.
    """

    def __init__(
        self, *directories: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
    ) -> None:
        self.skills: dict[str, Skill] = {}
        """By name, in the order they were found."""
        self.problems: list[SkillProblem] = []
        for given in directories:
            for directory in given if isinstance(given, list | tuple) else (given,):
                self._add_folder(_check_directory(directory))

    def _add_folder(self, directory: Path) -> None:
        for folder in _folders(directory):
            try:
                skill = Skill.read(folder)
            except DocumentError as error:
                self.problems.append(SkillProblem(error.message, error.remedy))
                continue
            other = self.skills.setdefault(skill.name, skill)
            if other is not skill and other.folder != skill.folder:
                self.problems.append(
                    SkillProblem(
                        f"{page_of(folder)}: it is ignored, because the skill in {other.folder} is called "
                        f"'{skill.name}' too, and comes first.",
                        "Give one of them another name.",
                    )
                )

    def only(self, names: Iterable[str], where: str = "") -> SkillLibrary:
        """A library of these skills. A name that none has is an error; `where` begins its message."""
        found = SkillLibrary()
        for name in names:
            if name not in self.skills:
                known = ", ".join(sorted(self.skills)) or "none"
                raise BuildError(
                    f"{where}{': ' * bool(where)}there is no skill '{name}'.",
                    remedy=f"Skills: {known}.",
                )
            found.skills[name] = self.skills[name]
        return found

    def get(self, name: str) -> Skill | None:
        """The skill of that name, in any case."""
        plain = name.strip().removeprefix("/")
        if plain in self.skills:
            return self.skills[plain]
        folded = [skill for own, skill in self.skills.items() if own.lower() == plain.lower()]
        return folded[0] if len(folded) == 1 else None

    def __iter__(self) -> Iterator[Skill]:
        return iter(self.skills.values())

    def __len__(self) -> int:
        return len(self.skills)

    def __repr__(self) -> str:
        return f"SkillLibrary({', '.join(self.skills)})"


def _check_directory(directory: Any) -> Path:
    try:
        path = Path(os.path.expanduser(directory))
    except TypeError:
        raise BuildError(
            f"{directory!r} is not a directory of skills.", remedy="Give its path."
        ) from None
    if not path.is_dir():
        raise BuildError(
            f"there is no directory '{directory}' with skills.",
            remedy="Make it, or leave it out; a skill is a folder with a SKILL.md.",
        )
    return path


def _folders(directory: Path, depth: int = 0) -> Iterator[Path]:
    """The folders that are skills. Folders inside a skill belong to it."""
    if _is_skill(directory):
        yield directory
        return
    try:
        inside = sorted(directory.iterdir())
    except OSError:
        return
    for each in inside:
        if not each.is_dir() or each.name in _SKIPPED:
            continue
        if each.is_symlink():  # a link to a skill is a skill; other links are not followed
            if _is_skill(each):
                yield each
        elif depth < _DEEPEST and (not each.name.startswith(".") or depth == 0):
            yield from _folders(each, depth + 1)


def _is_skill(folder: Path) -> bool:
    return page_of(folder).is_file()
