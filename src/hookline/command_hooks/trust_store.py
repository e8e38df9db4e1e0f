"""Trust: a repository's hooks are off until the user trusts exactly these hooks and these scripts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from hookline.command_hooks.dialect import find_hooks, page_folders
from hookline.command_hooks.dialects.pages import add_pages
from hookline.command_hooks.handler import Handler, HookPage, HookSearch, Level
from hookline.command_hooks.runner import ACTIVE_SKILL
from hookline.command_hooks.trusted_files import hash_files
from hookline.errors import TrustError, UsageError
from hookline.hooks import HookOptions, HookOutcome, Registration, register
from hookline.lifecycle import HookPoint, PromptHookContext, SubagentHookContext, ToolHookContext
from hookline.shell_text.named_files import resolve_parents

_NOBODY = Path(os.devnull) / "nobody"
"""The home of no user: what a user has is not the repository's."""


class TrustStore:
    """The hooks that the user trusts, in the user's trust file."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        from hookline.config.trust import TrustFile, trust_file  # takes a while to load

        self._kept = trust_file(os.environ) if path is None else TrustFile(Path(path))
        self.path = self._kept.path

    def trust(
        self,
        directory: str | os.PathLike[str] = ".",
        *,
        agents: Iterable[str | os.PathLike[str]] = (),
        skills: Iterable[str | os.PathLike[str]] = (),
        plugins: Iterable[str | os.PathLike[str]] = (),
    ) -> str:
        """Trust a repository's hooks as they are now, with those of its pages and plugins. Gives their hash."""
        return self.approve(TrustedHooks.find(_resolve(directory), agents, skills, plugins))

    def approve(self, hooks: TrustedHooks) -> str:
        """Trust hooks as they were found. Gives their hash."""
        self._kept.approve_hooks(hooks.project, hooks.mark, hooks.pages, hooks.texts)
        return hooks.mark

    def is_trusted(self, directory: str | os.PathLike[str] = ".") -> bool:
        """Whether a repository's hooks are trusted, and unchanged since."""
        where = _resolve(directory)
        known = self._trusted_hash(where)
        return bool(known) and known == fingerprint_of(where)

    def was_trusted(self, directory: str | os.PathLike[str] = ".") -> bool:
        """Whether the directory's hooks were trusted once, changed or not."""
        return bool(self._trusted_hash(_resolve(directory)))

    def has_lost(self, directory: str | os.PathLike[str] = ".") -> bool:
        """Whether the directory had hooks when it was trusted, and has others or none now."""
        where = _resolve(directory)
        known = self._trusted_hash(where)
        return known not in ("", _NO_HOOKS) and known != fingerprint_of(where)

    def pages(self, directory: str | os.PathLike[str] = ".") -> dict[str, str]:
        """The hashes of the directory's pages and plugins that were trusted."""
        try:
            return self._kept.pages_of(_resolve(directory))
        except TrustError:
            return {}

    def distrust(self, directory: str | os.PathLike[str] = ".") -> bool:
        """Withdraw all trust in the directory. Says whether there was any."""
        return self._kept.revoke(_resolve(directory))

    def directories(self) -> tuple[str, ...]:
        """The directories that were trusted."""
        return tuple(self._kept.directories())

    def _trusted_hash(self, where: Path) -> str:
        """The hash that was trusted. A trust file that others can write, or that is damaged, trusts nothing."""
        try:
            return self._kept.hooks_of(where)
        except TrustError:
            return ""

    def __repr__(self) -> str:
        return f"<TrustStore {self.path}>"


class TrustedHooks(msgspec.Struct, frozen=True):
    """A repository's hooks as they are now: what trust in them is bound to."""

    project: Path
    mark: str
    """The hash of the hooks in settings files."""
    pages: dict[str, str]
    """The hash of each page and plugin."""
    texts: dict[str, str]
    """The files that name hooks, and the scripts of these, as far as their texts are kept."""

    @classmethod
    def find(
        cls,
        project: Path,
        agents: Iterable[str | os.PathLike[str]] = (),
        skills: Iterable[str | os.PathLike[str]] = (),
        plugins: Iterable[str | os.PathLike[str]] = (),
    ) -> TrustedHooks:
        """Find them in the usual places, and in the places of pages and plugins that are named."""
        from hookline.config.trust import read_texts

        own = find_hooks(_only_in(project))
        paged = _page_hooks(project, agents, skills, plugins)
        files: dict[Path, None] = {}
        for handler in (*own, *paged):
            if handler.source.level.is_repository:
                files |= {Path(handler.source.path): None} if handler.source.path else {}
                files |= dict.fromkeys(map(Path, hash_files(handler, project)))
        mark = fingerprint(own, project)
        texts = read_texts(project, files)
        return cls(project, mark, page_marks(paged, project), texts)


def trust(directory: str | os.PathLike[str] = ".") -> str:
    """Trust a repository's hooks as they are now, in the user's own file."""
    return TrustStore().trust(directory)


def is_trusted(directory: str | os.PathLike[str] = ".") -> bool:
    """Whether a repository's hooks are trusted, and unchanged since."""
    return TrustStore().is_trusted(directory)


def fingerprint_of(directory: Path) -> str:
    """The hash of a directory's hooks, in all dialects.

    It reads the files again, without those of the user: their settings decide which hooks a discovery finds.
    """
    return fingerprint(find_hooks(_only_in(directory)), directory)


def _only_in(directory: Path) -> HookSearch:
    return HookSearch(directory, _NOBODY, lambda _said: None, system=None)


def _page_hooks(
    directory: Path,
    agents: Iterable[str | os.PathLike[str]],
    skills: Iterable[str | os.PathLike[str]],
    plugins: Iterable[str | os.PathLike[str]],
) -> list[Handler]:
    """The hooks with those of each page and plugin of a repository: in the usual places, and in those named."""
    usual = page_folders(directory)
    given = dict.fromkeys((Path(each).expanduser() for each in plugins), Level.PROJECT)
    search = add_pages(
        msgspec.structs.replace(_only_in(directory), plugins=given),
        agents=[*agents, *usual["agents"]],
        skills=[*skills, *usual["skills"]],
    )
    return find_hooks(search)


def page_marks(handlers: Iterable[Handler], project: Path) -> dict[str, str]:
    """The hash of each page and plugin of a repository among some hooks."""
    by_page: dict[str, list[Handler]] = {}
    for handler in handlers:
        if handler.source.level.is_repository and handler.is_apart:
            by_page.setdefault(handler.source.label, []).append(handler)
    return {label: fingerprint(each, project) for label, each in by_page.items()}


def fingerprint(handlers: Iterable[Handler], project: Path) -> str:
    """A hash of a repository's hooks, and of the scripts that they name."""
    said = [
        [
            handler.source.dialect,
            handler.source.label,
            handler.source.level.value,
            dict(handler.definition),
            sorted(hash_files(handler, project).items()),
        ]
        for handler in handlers
        if handler.source.level.is_repository
    ]
    content = json.dumps(said, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(content.encode(errors="replace")).hexdigest()


_NO_HOOKS = fingerprint((), Path())


def _resolve(directory: str | os.PathLike[str]) -> Path:
    where = Path(directory).expanduser().resolve()
    if not where.is_dir():
        raise UsageError(f"there is no directory '{where}'.", remedy="Name the repository.")
    return where


# --- hooks that are off until they are trusted ----------------------------------------------------------

_LOAD_SKILL = "load_skill"


class UntrustedHooks(msgspec.Struct, frozen=True):
    """What is off or missing among a repository's hooks."""

    held: tuple[Handler, ...] = ()
    """Hooks that are not trusted, or have changed since."""
    warnings: tuple[str, ...] = ()
    has_changed: bool = False
    """Some were trusted, and are others or gone now."""


def find_untrusted(
    handlers: Sequence[Handler],
    project: Path,
    trust: TrustStore | bool | None,
    places: Iterable[str | os.PathLike[str]] = (),
    *,
    reads_files: bool = True,
) -> UntrustedHooks:
    """The hooks of a repository that are not in force, and those that were trusted and are gone.

    `places` are those of the pages and plugins that the agent uses. If no files of other agents are read, none is gone.
    """
    theirs = [each for each in handlers if each.source.level.is_repository]
    if trust is True or (trust is False and not theirs):
        return UntrustedHooks()
    store: TrustStore | None
    try:
        store = trust if isinstance(trust, TrustStore) else TrustStore()
        known = store.pages(project)
    except UsageError:  # no home, so nothing is trusted
        store, known = None, {}
    held, gone = theirs, list[str]()
    if trust is not False and store is not None:
        of_pages = page_marks(handlers, project)
        changed = {label for label, mark in of_pages.items() if known.get(label) != mark}
        rest = [each for each in theirs if not each.is_apart]
        held = [] if not rest or store.is_trusted(project) else rest
        held += [each for each in theirs if each.is_apart and each.source.label in changed]
        has_lost = reads_files and not rest and store.has_lost(project)
        gone = [str(project)] if has_lost else []
        folders = [resolve_parents(project / each)[0] for each in places]
        gone += [
            label
            for label in sorted(known.keys() - of_pages.keys())
            if any((project / label).is_relative_to(folder) for folder in folders)
        ]
    warnings = [
        f"the hooks of {each} that were trusted do not exist any more. "
        f"If that is intended: hookline trust {project}"
        for each in gone
    ]
    were_trusted = store is not None and any(
        each.source.label in known if each.is_apart else store.was_trusted(project) for each in held
    )
    if held:
        warnings.insert(0, _describe_untrusted(held, project, were_trusted=were_trusted))
    return UntrustedHooks(tuple(held), tuple(warnings), were_trusted or bool(gone))


def _describe_untrusted(held: Sequence[Handler], project: Path, *, were_trusted: bool) -> str:
    """The warning about hooks that are off."""
    files = ", ".join(dict.fromkeys(each.source.label for each in held))
    subject, they, them, are, were = ("hook", "it", "it", "is", "was")
    if len(held) > 1:
        subject, they, them, are, were = ("hooks", "they", "them", "are", "were")
    why = f"changed since {they} {were} trusted" if were_trusted else f"{are} not trusted"
    return (
        f"{len(held)} {subject} of {files} {why}, so {they} {are} off. "
        f"Look at {them}, then: hookline trust {project}"
    )


def start_policies(page: HookPage, project: Path) -> Iterator[Registration]:
    """Policies that keep a subagent or a skill from starting while its hooks are off: it would be unguarded."""
    reason = (
        f"the hooks of {page.subject} ({page.label}) are not trusted, and without them it is not "
        f"started; the user can look at them, and run: hookline trust {project}"
    )
    options = HookOptions(name=f"{page.label}: its hooks are off", tier="policy")

    def start(ctx: SubagentHookContext) -> HookOutcome | None:
        return HookOutcome.block(reason) if ctx.name == page.agent else None

    def load(ctx: ToolHookContext) -> HookOutcome | None:
        args = ctx.tool_call.args
        name = str(args.get("name", "")).strip().removeprefix("/").lower()
        is_meant = name == page.skill.lower() and not args.get("unload")
        return HookOutcome.block(reason) if is_meant else None

    def submit(ctx: PromptHookContext) -> HookOutcome | None:
        active = ctx.state.get(ACTIVE_SKILL)
        is_meant = isinstance(active, dict) and active.get("name") == page.skill
        return HookOutcome.block(reason) if is_meant else None

    if page.agent:
        yield register(HookPoint.SUBAGENT_START, start, options)
        return
    yield register(
        HookPoint.BEFORE_TOOL_USE,
        load,
        HookOptions(name=options["name"], tier="policy", matcher=_LOAD_SKILL),
    )
    yield register(HookPoint.PROMPT_SUBMIT, submit, options)
