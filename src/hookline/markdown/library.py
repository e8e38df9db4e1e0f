"""Skills from several directories, by name, and problems with those that cannot be used."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from hookline.errors import BuildError, DocumentError
from hookline.markdown.skill import Skill, page_of

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
                self._take(_checked(directory))

    def _take(self, directory: Path) -> None:
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
                        f"{page_of(folder)}: it is left out, because the skill in {other.folder} is called "
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


def _checked(directory: Any) -> Path:
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
