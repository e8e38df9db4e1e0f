"""`hookline trust DIR`: approve the configuration of a directory, or a git repository, as it is now."""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hookline.cli.assembly.capabilities import places_of
from hookline.cli.assembly.command_hooks import VARIABLE, pages_in
from hookline.cli.assembly.verification import verify
from hookline.cli.exits import Exit
from hookline.cli.terminal import print_note, print_text, printable
from hookline.command_hooks import (
    CommandHooks,
    Handler,
    HookSource,
    Level,
    TrustedHooks,
    TrustStore,
)
from hookline.command_hooks.dialect import page_folders
from hookline.command_hooks.trusted_files import describe_bound
from hookline.config import Layer, TrustStatus
from hookline.config.layers import read_layer
from hookline.config.locations import is_file, own_file, project_files, project_of
from hookline.config.trust import TrustFile, fingerprints, named_files, read_texts, trust_file
from hookline.config.untrusted import refuse_endpoints
from hookline.containment.shell.git_trust import configuration_hash, repository_objection
from hookline.errors import TrustError, UsageError

_MAX_DIFF = 400
"""Lines of a diff that are shown."""
_UNBOUND = "  WARNING: bound to no file, so what it runs can change and you are not asked; `files` lists what to bind"
Pages = dict[str, list[str]]
"""The places of subagents, skills and plugins, which may have hooks: `agents`, `skills`, `plugins`."""


def run(arguments: argparse.Namespace) -> int:
    """Trust a directory, or show what that would mean."""
    trust = trust_file(os.environ)
    if arguments.listing:
        folders = trust.directories()
        print("".join(f"{folder}\n" for folder in folders), end="")
        if not folders:
            print_note("you trust no directory yet")
        return Exit.DONE
    given = Path(arguments.folder)
    if not given.is_dir():
        raise UsageError(
            f"{given} is not a directory.", remedy="Name the directory with the configuration."
        )
    if arguments.repository:
        return _trust_repository(given.resolve(), trust, arguments)
    project = project_of(given, os.environ)
    if arguments.revoke:
        was = trust.revoke(project)
        print_note(f"{project} {'is trusted no longer' if was else 'was not trusted'}.")
        return Exit.DONE
    return _trust_project(project, trust, is_shown_only=arguments.show)


def _trust_project(project: Path, trust: TrustFile, *, is_shown_only: bool) -> int:
    now = ProjectTrust(project, trust)
    if not now.has_something and trust.find_above(project, os.environ) is None:
        print_note(f"{project} has no configuration: there is nothing to trust.")
        return Exit.DONE
    for line in (*now.contents(), *now.differences()):
        print_text(f"  {line}")
    if is_shown_only:
        print_note(f"{project}: {now.status.value}")
        is_whole = now.status in (TrustStatus.TRUSTED, TrustStatus.NOTHING)
        return Exit.DONE if is_whole else Exit.CONFIG
    now.approve()
    print_note(f"{project} is trusted as it is now.")
    return Exit.DONE


class ProjectTrust:
    """Everything in a directory that trust is about, as it is now."""

    def __init__(self, project: Path, trust: TrustFile) -> None:
        self.project = project
        self._trust = trust
        self._layers = [read_layer(path, is_project=True) for path in project_files(project)]
        verify(tuple(self._layers), project)
        for layer in self._layers:
            refuse_endpoints(layer)
        self._prints = fingerprints(project, self._layers)
        self._foreign = ForeignHooks(project, self._layers)
        self._hooks = self._foreign.trusted
        files = (*(Path(layer.name) for layer in self._layers), *named_files(project, self._layers))
        self._texts = read_texts(project, files)

    @property
    def has_something(self) -> bool:
        """Whether there is something to trust, or was when it was trusted."""
        return self.status is not TrustStatus.NOTHING

    @property
    def status(self) -> TrustStatus:
        """Whether the configuration and the hooks in other agents' files are trusted; the worse of the two."""
        of_files = self._trust.status(self.project, self._prints)
        worst_first = ("CHANGED", "UNKNOWN", "TRUSTED", "NOTHING")
        return min(of_files, self._foreign.status, key=lambda each: worst_first.index(each.name))

    @property
    def changes(self) -> list[str]:
        """The files that are not as they were trusted, as far as that is known; none if there was no trust."""
        changed: set[str] = set()
        if self._trust.is_known(self.project):
            changed.update(self._trust.changes(self.project, self._prints))
        before, now = self._trust.hook_texts(self.project), self._hooks.texts
        if before:
            changed.update(name for name in {*before, *now} if before.get(name) != now.get(name))
        return sorted(changed)

    def contents(self) -> Iterator[str]:
        """Lines about everything that would be trusted."""
        changed = self.changes
        for name, mark in self._prints.items():
            if mark or name in changed:
                yield f"{printable(name)}{'  (changed)' if name in changed else ''}"
        for name in sorted(set(changed) - self._prints.keys()):
            state = "changed" if name in self._hooks.texts else "no longer bound"
            state = state if (self.project / name).exists() else "gone"
            yield f"{printable(name)}  ({state})"
        yield from self._foreign.lines
        for layer in self._layers:
            yield from _describe(layer.data, self.project)

    def differences(self) -> Iterator[str]:
        """What has changed, as a diff of the trusted texts and those of now."""
        before = self._trust.texts(self.project)
        now = {**self._hooks.texts, **self._texts}
        trusted = {*self._trust.changes(self.project, {}), *before}
        lines: list[str] = []
        for name in self.changes:
            if name in trusted and name not in before:
                lines.append(f"{printable(name)}: the text that was trusted was not kept")
            elif name not in now and (self.project / name).exists():
                lines.append(
                    f"{printable(name)}: no hook uses it now, or it is too large or no text"
                )
            else:
                old, new = (texts.get(name, "").splitlines() for texts in (before, now))
                heads = (f"{name} (trusted)", f"{name} (now)")
                lines += map(printable, difflib.unified_diff(old, new, *heads, lineterm=""))
        yield from lines[:_MAX_DIFF]
        if len(lines) > _MAX_DIFF:
            yield f"... and {len(lines) - _MAX_DIFF} more lines"

    def approve(self) -> None:
        """Trust it as it was read. If it has changed since, nothing is trusted."""
        again = ProjectTrust(self.project, self._trust)
        if (again._prints, again._hooks) != (self._prints, self._hooks):
            raise TrustError(
                f"{self.project} was changed while you read it, so it is not trusted.",
                remedy="Look again: hookline trust --show.",
            )
        is_inside = self._trust.find_above(self.project, os.environ) is not None
        if self._prints or is_inside or self._trust.is_known(self.project):
            self._trust.approve(self.project, self._prints, self._texts)
        if self._foreign.lines or TrustStore().was_trusted(self.project):
            TrustStore().approve(self._hooks)


def _trust_repository(top: Path, trust: TrustFile, arguments: argparse.Namespace) -> int:
    """Trust a git repository, show whether it is trusted, or revoke that."""
    if arguments.revoke:
        was = trust.revoke_repository(top)
        text = "git asks there again" if was else "was not a trusted repository"
        print_note(f"{top}: {text}.")
        return Exit.DONE
    problem, mark = repository_objection(str(top)), configuration_hash(str(top))
    if arguments.show:
        known = trust.repositories().get(str(top))
        is_whole = problem is None and known == mark
        status = "not trusted" if known is None else "changed since it was trusted"
        print_note(f"{top}: {problem or ('trusted' if is_whole else status)}")
        return Exit.DONE if is_whole else Exit.CONFIG
    if problem:
        raise UsageError(
            f"{top} cannot be trusted as a repository: {problem}.",
            remedy="To see what its configuration sets: git config --local --list."
            if "configuration" in problem
            else "Name the top directory of a repository: the one with the directory .git in it.",
        )
    trust.approve_repository(top, mark)
    print_note(f"git may read in {top} without asking, while its configuration stays as it is.")
    return Exit.DONE


# --- hooks in other agents' files, and of pages -------------------------------------------------------


class ForeignHooks:
    """The hooks in other agents' files of a project, and in its subagents, skills and plugins."""

    def __init__(self, project: Path, layers: list[Layer]) -> None:
        pages = _pages_of(project, layers)
        self._project = project
        self.trusted = TrustedHooks.find(project, **pages)
        """What trust in them is bound to, as it is now."""
        self.lines = _describe_foreign_hooks(project, pages)
        """What there is, in words."""

    @property
    def status(self) -> TrustStatus:
        """Whether they are trusted."""
        store, project = TrustStore(), self._project
        if not self.lines:
            is_gone = store.has_lost(project) or bool(store.pages(project))
            return TrustStatus.CHANGED if is_gone else TrustStatus.NOTHING
        if store.is_trusted(project) and store.pages(project) == self.trusted.pages:
            return TrustStatus.TRUSTED
        return TrustStatus.CHANGED if store.was_trusted(project) else TrustStatus.UNKNOWN


def _pages_of(project: Path, layers: list[Layer]) -> Pages:
    """The places of subagents, skills and plugins that files of the project or of the user name."""
    own = own_file(os.environ)
    plugins = [place for layer in layers for place in layer.data.get("plugins", ())]
    found: Pages = {"agents": [], "skills": [], "plugins": places_of(plugins, project)}
    for layer in [*layers, *([read_layer(own)] if is_file(own) else ())]:
        for data in (layer.data, *layer.data.get("agents", {}).values()):
            for kind, places in pages_in(data.get("capabilities", {}), project).items():
                found[kind] += places
    return found


def _describe_foreign_hooks(project: Path, pages: Pages) -> list[str]:
    """Lines about the hooks in other agents' files of the project, and in its subagents and skills."""
    usual = page_folders(project)
    found = CommandHooks.discover(
        project,
        home="/dev/null/nobody",
        managed=False,
        trust=False,
        agents=[*pages["agents"], *usual["agents"]],
        skills=[*pages["skills"], *usual["skills"]],
        project_plugins=pages["plugins"],
    )
    lines = []
    for each in found.held_back:
        what = f"{printable(each.command or each.runs)}{printable(f' {each.scope}'.rstrip())}"
        lines.append(f"runs at {printable(each.event)} ({printable(each.source.label)}): {what}")
        lines += _describe_bound(each, project)
        sent = " ".join(each.headers.values())
        lines += _variables(
            name for name in each.allowed_env if f"${name}" in sent or f"${{{name}}}" in sent
        )
    return lines


# --- what a configuration runs ------------------------------------------------------------------------


def _describe(data: dict[str, Any], project: Path) -> Iterator[str]:
    """Lines about everything that a configuration runs."""
    for hook in data.get("hooks", ()):
        what = hook.get("run") or hook.get("command") or hook.get("url")
        if what:
            words = what if isinstance(what, str) else " ".join(what)
            yield f"runs at {printable(hook['on'])}: {printable(words)}"
            yield from _describe_table(hook.get("command", ""), hook, project)
            yield from _variables(VARIABLE.findall(" ".join(hook.get("headers", {}).values())))
    for name, server in data.get("mcp", {}).items():
        words = " ".join([server.get("command", server.get("url", "")), *server.get("args", ())])
        yield f"starts the MCP server {printable(name)}: {printable(words)}"
        argv = [server.get("command", ""), *server.get("args", ())]
        yield from _describe_table(argv if argv[0] else "", server, project)
        values = [*server.get("headers", {}).values(), *server.get("env", {}).values()]
        yield from _variables(VARIABLE.findall(" ".join(values)))
    for name, agent in data.get("agents", {}).items():
        name = printable(name)
        yield from (f"agent {name} {line}" for line in _describe(agent, project))
        if "target" in agent:
            yield f"agent {name} is {printable(agent['target'])}"


def _variables(names: Iterable[str]) -> list[str]:
    """A line about the user's variables that are sent to an address or a server: they may contain keys."""
    listed = ", ".join(f"${name}" for name in dict.fromkeys(names))
    return [f"  is given {listed}"] if listed else []


def _describe_table(command: str | list[str], table: Mapping[str, Any], project: Path) -> list[str]:
    """Lines about the files that a hook or a server of the configuration is bound to."""
    text, argv = (command, None) if isinstance(command, str) else ("", tuple(command))
    source, files = HookSource("hookline", Level.PROJECT), tuple(table.get("files", ()))
    handler = Handler(source, "", command=text, argv=argv, cwd=table.get("cwd") or "", files=files)
    return _describe_bound(handler, project)


def _describe_bound(handler: Handler, project: Path) -> list[str]:
    """Lines about the files that a hook is bound to: what is not listed may change without a question."""
    if handler.kind != "command" or not (handler.command or handler.argv):
        return []
    listed = [printable(words) for words in describe_bound(handler, project)]
    return [f"  bound to {words}" for words in listed] or [_UNBOUND]
