"""Hooks and rules that are configured and not in force: without them no agent is driven, unless a person says so."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hookline.cli.assembly.command_hooks import command_hooks
from hookline.cli.assembly.verification import load_verified
from hookline.cli.terminal import is_terminal, print_text, printable
from hookline.command_hooks import CommandHooks
from hookline.config import HeldSetting, Layer, Settings, TrustStatus
from hookline.config.trust import trust_file
from hookline.errors import TrustError

_FLAG = "--without-untrusted"


class Guards(msgspec.Struct, frozen=True):
    """What guards the agent of a command."""

    settings: Settings
    commands: CommandHooks | None
    """The hooks that are programs; None for an agent of your own, and if there are none."""
    missing: tuple[str, ...] = ()
    """What is configured and not in force."""
    is_readable: bool = True
    """Whether trust would put all of that in force. It does not for what cannot be read or started."""

    @classmethod
    def of(cls, settings: Settings) -> Guards:
        """The guards that these settings describe. An agent of your own has its hooks in its code."""
        if settings.target:
            return cls(settings, None)
        commands = command_hooks(settings, Path.cwd())
        missing = list(map(_describe, settings.held)) if settings.missing_guards else []
        trust = trust_file(os.environ)
        above = None if settings.is_bare else trust.find_above(settings.project, os.environ)
        if above is not None:
            missing.append(
                f"{above}: {settings.project} is a project of its own, without its hooks and rules"
            )
        if settings.trust_status is TrustStatus.CHANGED:
            from hookline.cli.trust import ProjectTrust

            changes = ProjectTrust(settings.project, trust).changes
            missing += [f"{name}: not as it was trusted" for name in changes]
        if commands is not None:
            off = commands.untrusted
            hooks = [f"{each.source.label}: {each.event}: {each.runs}" for each in off.held]
            missing += [*hooks, *off.warnings[bool(hooks) :]]  # the first one is about these
        dropped = () if commands is None else (*commands.dropped, *commands.powerless)
        return cls(settings, commands, tuple(map(printable, (*missing, *dropped))), not dropped)


def _describe(held: HeldSetting) -> str:
    hook: Any = held.value
    if not (isinstance(hook, dict) and "on" in hook):
        return f"{held.where}: {held.setting}"
    what: Any = next(hook[key] for key in ("run", "command", "url", "do") if hook.get(key))
    words = what if isinstance(what, str) else " ".join(what)
    return f"{held.where}: {held.setting}, {words} at {hook['on']}"


def require_guards(arguments: argparse.Namespace, settings: Settings, flags: Layer) -> Guards:
    """The guards of an agent that is about to be driven. If some are missing, a person decides, or nothing is run."""
    guards = Guards.of(settings)
    if not guards.missing:
        return guards
    if not arguments.without_untrusted:
        if not can_ask(arguments):
            raise _refusal(guards)
        if _ask(guards) == "trust":
            again = load_verified(flags, agent=settings.agent, bare=settings.is_bare)
            guards = Guards.of(again)
            if guards.missing:  # it has changed in the meantime
                raise _refusal(guards)
            return guards
    _print(
        f"hookline: running without these hooks and rules, which are not in force ({settings.project}):",
        guards.missing,
    )
    return guards


def _refusal(guards: Guards) -> TrustError:
    project = guards.settings.project
    lines = "".join(f"\n  {line}" for line in guards.missing)
    then = f"Read it (hookline trust --show {project}), then: hookline trust {project}."
    return TrustError(
        f"nothing was run, because {project} {_why(guards)}.",
        remedy=f"{then if guards.is_readable else 'Correct it.'} "
        f"Or run without these hooks and rules, {_FLAG}:{lines}",
    )


def _why(guards: Guards) -> str:
    if not guards.is_readable:
        return "is configured with hooks that cannot be read or started"
    has_changed = guards.settings.trust_status is TrustStatus.CHANGED or (
        guards.commands is not None and guards.commands.untrusted.has_changed
    )
    return "is not as you trusted it" if has_changed else "is not trusted"


def _ask(guards: Guards) -> str:
    """Show what is missing and what has changed, and ask. Every answer but two words is a no."""
    from hookline.cli.trust import ProjectTrust

    project = guards.settings.project
    _print(f"hookline: {project} {_why(guards)}. Not in force:", guards.missing)
    now = ProjectTrust(project, trust_file(os.environ))  # reads every file, which may take a while
    words = "`without` to run without it"
    if guards.is_readable:
        words = f"`trust` to approve all of this, or {words}"
        _print("What would be trusted:", list(now.contents()))
        differences = list(now.differences())
        if differences:
            _print("What has changed:", differences)
    print(
        f"Type {words}.\nAnything else quits. [quit] ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    answer = sys.stdin.readline().strip().lower()
    if answer == "trust" and guards.is_readable:
        now.approve()
    elif answer != "without":
        then = f"Approve it with hookline trust {project}" if guards.is_readable else "Correct it"
        raise TrustError("nothing was run.", remedy=f"{then}, or: {_FLAG}.")
    return answer


def _print(head: str, lines: Sequence[str]) -> None:
    print_text("\n  ".join((head, *lines)), sys.stderr)


def can_ask(arguments: argparse.Namespace) -> bool:
    """Whether somebody can answer: questions can be shown on a terminal, and keys read from one."""
    wants_no_question = getattr(arguments, "no_input", False) or getattr(arguments, "json", False)
    return not wants_no_question and is_terminal(sys.stdin) and is_terminal(sys.stderr)
