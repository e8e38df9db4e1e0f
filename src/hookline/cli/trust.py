"""`hookline trust DIR`: approve the configuration of a directory, or a git repository, as it is now."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hookline.cli.exits import Exit

if TYPE_CHECKING:
    from hookline.config import Layer, TrustFile, TrustStatus

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "trust",
        help="approve the configuration of a directory as it is now",
        description="Approve the configuration of a directory, and the scripts it names, as they are now. Until then "
        "they can only make an agent stricter. When one of them changes, you are asked again.",
    )
    parser.add_argument("folder", nargs="?", default=".", metavar="DIR")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--show", action="store_true", help="what would be trusted, and whether it is"
    )
    instead.add_argument("--revoke", action="store_true", help="trust it no longer")
    instead.add_argument(
        "--list", action="store_true", dest="listing", help="the directories you trust"
    )
    parser.add_argument(
        "--repository",
        action="store_true",
        help="let git read in this repository without asking, while its own configuration stays as it is",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Trust it, or show what that would mean."""
    from hookline.cli.assembly.commands import trust_store
    from hookline.cli.assembly.verify import verify
    from hookline.cli.terminal import printable
    from hookline.config import (
        TrustStatus,
        fingerprints,
        project_files,
        project_of,
        read_layer,
        refuse_endpoints,
        trust_file,
    )
    from hookline.errors import UsageError

    trust = trust_file(os.environ)
    if arguments.listing:
        folders = list(trust.directories())
        for folder in folders:
            print(folder)
        if not folders:
            print("you trust no directory yet", file=sys.stderr)
        return Exit.DONE
    given = Path(arguments.folder)
    if not given.is_dir():
        raise UsageError(
            f"{given} is not a directory.", remedy="Name the directory with the configuration."
        )
    if arguments.repository:
        return _repository(given.resolve(), trust, arguments)
    project = project_of(given, os.environ)
    if arguments.revoke:
        was = trust.revoke(project)
        print(f"{project} {'is trusted no longer' if was else 'was not trusted'}.", file=sys.stderr)
        return Exit.DONE
    layers = [read_layer(path, is_project=True) for path in project_files(project)]
    verify(tuple(layers), project)
    prints = fingerprints(project, layers)
    standing = trust.status(project, prints)
    pages = pages_of(project, layers)
    scripts = foreign_hooks(project, pages)
    if standing is TrustStatus.NOTHING and not scripts:
        print(f"{project} has no configuration: there is nothing to trust.", file=sys.stderr)
        return Exit.DONE
    changed = trust.changes(project, prints) if standing is TrustStatus.CHANGED else []
    for name in prints:
        print(f"  {printable(name)}{'  (changed)' if name in changed else ''}")
    for line in scripts:
        print(f"  {line}")
    for layer in layers:
        refuse_endpoints(layer)
        for line in _does(layer.data, project):
            print(f"  {line}")
    if arguments.show:
        standing = _together(standing, hook_trust_status(project, pages, scripts))
        print(f"{project}: {standing.value}", file=sys.stderr)
        is_whole = standing in (TrustStatus.TRUSTED, TrustStatus.NOTHING)
        return Exit.DONE if is_whole else Exit.CONFIG
    if prints:
        trust.approve(project, prints)
    if scripts:
        trust_store().trust(project, **pages)
    print(f"{project} is trusted as it is now.", file=sys.stderr)
    return Exit.DONE


def _repository(top: Path, trust: TrustFile, arguments: argparse.Namespace) -> int:
    """Trust a git repository, say whether it is trusted, or trust it no longer."""
    from hookline.containment.shell.git_trust import configuration_hash, repository_objection
    from hookline.errors import UsageError

    if arguments.revoke:
        was = trust.revoke_repository(top)
        said = "git asks there again" if was else "was not a trusted repository"
        print(f"{top}: {said}.", file=sys.stderr)
        return Exit.DONE
    problem, mark = repository_objection(str(top)), configuration_hash(str(top))
    if arguments.show:
        known = trust.repositories().get(str(top))
        is_whole = problem is None and known == mark
        standing = "not trusted" if known is None else "changed since it was trusted"
        print(f"{top}: {problem or ('trusted' if is_whole else standing)}", file=sys.stderr)
        return Exit.DONE if is_whole else Exit.CONFIG
    if problem:
        raise UsageError(
            f"{top} cannot be trusted as a repository: {problem}.",
            remedy="Name the directory with .git in it. What its configuration sets, see: git config --local --list.",
        )
    trust.approve_repository(top, mark)
    print(
        f"git may read in {top} without asking, while its configuration stays as it is.",
        file=sys.stderr,
    )
    return Exit.DONE


def pages_of(project: Path, layers: list[Layer]) -> dict[str, list[str]]:
    """Where subagents, skills and plugins are, by any file of the project's or the user's: they may have hooks."""
    from hookline.cli.assembly.capabilities import places_of
    from hookline.cli.assembly.commands import pages_in
    from hookline.config import is_file, read_layer, user_folder

    own = user_folder(os.environ) / "config.toml"
    read = [*layers, *([read_layer(own)] if is_file(own) else ())]
    plugins = [place for layer in layers for place in layer.data.get("plugins", ())]
    found: dict[str, list[str]] = {
        "agents": [],
        "skills": [],
        "plugins": places_of(plugins, project),
    }
    for data in [
        each for layer in read for each in (layer.data, *layer.data.get("agents", {}).values())
    ]:
        for kind, places in pages_in(data.get("capabilities", {}), project).items():
            found[kind] += places
    return found


def hook_trust_status(
    project: Path, pages: dict[str, list[str]], scripts: list[str]
) -> TrustStatus:
    """How the hooks of other agents' files, and those of pages, stand with the user."""
    from hookline.cli.assembly.commands import trust_store
    from hookline.command_hooks import marks_of_pages
    from hookline.config import TrustStatus

    if not scripts:
        return TrustStatus.NOTHING
    store = trust_store()
    if store.is_trusted(project) and store.pages(project) == marks_of_pages(project, **pages):
        return TrustStatus.TRUSTED
    return TrustStatus.CHANGED if store.was_trusted(project) else TrustStatus.UNKNOWN


def _together(one: TrustStatus, other: TrustStatus) -> TrustStatus:
    """How both stand: by the one that stands worse."""
    from hookline.config import TrustStatus

    order = (TrustStatus.CHANGED, TrustStatus.UNKNOWN, TrustStatus.TRUSTED, TrustStatus.NOTHING)
    return min(one, other, key=order.index)


def foreign_hooks(project: Path, pages: dict[str, list[str]]) -> list[str]:
    """The hooks that other agents' files in the project name, and those of its subagents and skills, in words."""
    from hookline.cli.terminal import printable
    from hookline.command_hooks import CommandHooks, not_covered

    found = CommandHooks.discover(
        project,
        home="/dev/null/nobody",
        managed=False,
        trust=False,
        agents=[*pages["agents"], project / ".claude/agents"],
        skills=[*pages["skills"], project / ".claude/skills"],
        project_plugins=pages["plugins"],
    )
    said = []
    for each in found.held_back:
        what = f"{printable(each.command or each.runs)}{printable(f' {each.scope}'.rstrip())}"
        said.append(f"runs at {printable(each.event)} ({printable(each.source.label)}): {what}")
        said += [f"  not covered: {printable(words)}" for words in not_covered(each, project)]
        sent = " ".join(each.headers.values())
        said += _given(
            name for name in each.allowed_env if f"${name}" in sent or f"${{{name}}}" in sent
        )
    return said


def _does(data: dict[str, Any], project: Path) -> list[str]:
    """What a configuration runs, in words."""
    from hookline.cli.terminal import printable

    said = []
    for hook in data.get("hooks", ()):
        what = hook.get("run") or hook.get("command") or hook.get("url")
        if what:
            words = what if isinstance(what, str) else " ".join(what)
            said.append(f"runs at {printable(hook['on'])}: {printable(words)}")
            said += _besides(hook.get("command", ""), project)
            said += _given(_VARIABLE.findall(" ".join(hook.get("headers", {}).values())))
    for name, server in data.get("mcp", {}).items():
        words = " ".join([server.get("command", server.get("url", "")), *server.get("args", ())])
        said.append(f"starts the MCP server {printable(name)}: {printable(words)}")
        values = [*server.get("headers", {}).values(), *server.get("env", {}).values()]
        said += _given(_VARIABLE.findall(" ".join(values)))
    for name, agent in data.get("agents", {}).items():
        name = printable(name)
        said += [f"agent {name} {line}" for line in _does(agent, project)]
        if "target" in agent:
            said.append(f"agent {name} is {printable(agent['target'])}")
    return said


def _given(names: Iterable[str]) -> list[str]:
    """The variables of the user's that go where an address or a server is: there may be keys in them."""
    listed = ", ".join(f"${name}" for name in dict.fromkeys(names))
    return [f"  is given {listed}"] if listed else []


def _besides(command: str | list[str], project: Path) -> list[str]:
    """What a command hook runs that is not looked at again when it changes."""
    from hookline.cli.terminal import printable
    from hookline.command_hooks import Handler, Source, not_covered

    text, argv = (command, None) if isinstance(command, str) else ("", tuple(command))
    handler = Handler(Source("hookline"), "", command=text, argv=argv)
    return [f"  not covered: {printable(words)}" for words in not_covered(handler, project)]
