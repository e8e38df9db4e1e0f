"""Hooks of a repository that are off until it is trusted, and what cannot start without them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hookline.command_hooks.handler import Handler, HookPage
from hookline.command_hooks.hook_memory import ACTIVE_SKILL
from hookline.command_hooks.trust_store import TrustStore, page_marks
from hookline.errors import UsageError
from hookline.hooks import HookOutcome, Options, Registration, register
from hookline.lifecycle import HookPoint

_LOAD_SKILL = "load_skill"


def untrusted(
    handlers: Sequence[Handler], project: Path, trust: TrustStore | bool | None
) -> list[Handler]:
    """The hooks of a repository that are not trusted, or have changed since."""
    theirs = [each for each in handlers if each.source.level.is_repository]
    if not theirs or trust is True:
        return []
    if trust is False:
        return theirs
    try:
        store = trust or TrustStore()
        known = store.pages(project)
    except UsageError:  # no home, so nothing is trusted
        return theirs
    of_pages = page_marks(handlers, project)
    changed = {label for label, mark in of_pages.items() if known.get(label) != mark}
    rest = [each for each in theirs if not each.is_apart]
    held = [] if not rest or store.is_trusted(project) else rest
    return held + [each for each in theirs if each.is_apart and each.source.label in changed]


def why_held_back(project: Path, held: list[Handler], trust: TrustStore | bool | None) -> str:
    """The warning about hooks that are off."""
    files = ", ".join(dict.fromkeys(each.source.label for each in held))
    count = f"{len(held)} hook{'s' * (len(held) != 1)} of {files}"
    why = (
        "changed since they were trusted"
        if _was_trusted(project, held, trust)
        else "are not trusted"
    )
    return f"{count} {why}, so they are off. Look at them, then: hookline trust {project}"


def _was_trusted(project: Path, held: list[Handler], trust: TrustStore | bool | None) -> bool:
    try:
        store = trust if isinstance(trust, TrustStore) else TrustStore()
        known = store.pages(project)
        return any(
            each.source.label in known if each.is_apart else store.was_trusted(project)
            for each in held
        )
    except UsageError:
        return False


def kept_from_starting(page: HookPage, project: Path) -> Iterator[Registration]:
    """Policies that keep a subagent or a skill from starting while its hooks are off: it would be unguarded."""
    reason = (
        f"the hooks of {page.subject} ({page.label}) are not trusted, and without them it is not "
        f"started; the user can look at them, and run: hookline trust {project}"
    )
    options = Options(name=f"{page.label}: its hooks are off", tier="policy")

    def start(ctx: Any) -> HookOutcome | None:
        return HookOutcome.block(reason) if ctx.name == page.agent else None

    def load(ctx: Any) -> HookOutcome | None:
        args = ctx.tool_call.args
        name = str(args.get("name", "")).strip().removeprefix("/").lower()
        is_meant = name == page.skill.lower() and not args.get("unload")
        return HookOutcome.block(reason) if is_meant else None

    def submit(ctx: Any) -> HookOutcome | None:
        active = ctx.state.get(ACTIVE_SKILL)
        is_meant = isinstance(active, dict) and active.get("name") == page.skill
        return HookOutcome.block(reason) if is_meant else None

    if page.agent:
        yield register(HookPoint.SUBAGENT_START, start, options)
        return
    yield register(
        HookPoint.BEFORE_TOOL_USE,
        load,
        Options(name=options.name, tier="policy", matcher=_LOAD_SKILL),
    )
    yield register(HookPoint.PROMPT_SUBMIT, submit, options)
