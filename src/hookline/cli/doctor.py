"""`hookline doctor`: what works on this machine, and how to fix the rest."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from hookline import __version__
from hookline.cli.assembly.verification import load_verified
from hookline.cli.exits import Exit
from hookline.cli.journal_location import has_journal, journal_at, journal_path
from hookline.cli.terminal import Paint, print_text, printable
from hookline.cli.trust import ForeignHooks
from hookline.config import Settings, TrustStatus, load
from hookline.config.load import NO_FLAGS
from hookline.containment import Sandbox
from hookline.containment.sandbox.home import hidden_programs, homes, needed_paths
from hookline.errors import ConfigError
from hookline.extras import install_command
from hookline.providers.catalogue import key_variables, missing_extra
from hookline.providers.local.weights import DEFAULT, is_intact, models_folder

_PROVIDERS = {
    "anthropic": "models anthropic:NAME",
    "openai": "models openai:NAME, and servers with the same protocol",
    "google": "models google:NAME",
    "local": "models that run in this process, without a key",
}
"""The providers that have an extra of their name, and what each is for."""
_EXTRAS = {
    "hub": ("huggingface_hub", "hookline model get hf:OWNER/REPO/FILE"),
    "mcp": ("mcp", "MCP servers"),
    "shell": ("tree_sitter_bash", "the bash capability"),
    "markdown": ("yaml", "skills and subagents in Markdown"),
}
"""The other extras: a module, and what it is for."""
_COLOURS = {"ok": "green", "no": "red", "--": "dim"}


class Check(msgspec.Struct, frozen=True):
    """The result of one check."""

    mark: str
    """`ok`, `no` (something that was asked for does not work), or `--` (missing, and not needed)."""
    what: str
    fix: str = ""


def run(_arguments: argparse.Namespace) -> int:
    """Check everything."""
    paint = Paint(sys.stdout)
    has_failed = False
    for check in _checks():
        has_failed = has_failed or check.mark == "no"
        for number, line in enumerate(printable(check.what, lines=True).split("\n")):
            start = f"{paint(check.mark, _COLOURS[check.mark])}  " if not number else ""
            print_text(start + line, indent=4)
        if check.fix:
            print_text(f"      {printable(check.fix)}")
    return Exit.FAILED if has_failed else Exit.DONE


def _checks() -> Iterator[Check]:
    """Each check in turn. One that breaks is reported, and the others continue."""
    for check in (_python, _extras, _local, _sandbox, _configuration, _journal, _terminal):
        try:
            yield from check()
        except Exception as error:
            yield Check("no", f"{check.__name__.strip('_')}: {error}")


def _python() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("ok", f"hookline {__version__} on Python {version}, {sys.platform}")


def _extras() -> Iterator[Check]:
    has_model = False
    for provider, what in _PROVIDERS.items():
        keys = key_variables(provider)
        if missing_extra(provider):
            yield _missing(provider, what)
        elif keys and not any(map(os.environ.get, keys)):
            yield Check(
                "--", f"{provider}: installed, and there is no key", f"export {keys[0]}=..."
            )
        else:
            has_model = True
            yield Check("ok", f"{provider}: {what}")
    for extra, (module, what) in _EXTRAS.items():
        is_here = find_spec(module) is not None
        yield Check("ok", f"{extra}: {what}") if is_here else _missing(extra, what)
    if not has_model:
        fix = f"one that runs here, without a key: {install_command('terminal')}"
        yield Check("no", "there is no usable model", fix)


def _missing(extra: str, what: str) -> Check:
    return Check("--", f"{extra}: not installed ({what})", install_command(extra))


def _local() -> Iterator[Check]:
    if missing_extra("local"):
        return
    above, fetch = _nearest(models_folder()), "hookline model get"
    if not DEFAULT.is_here and not _is_writable(above):
        what = f"local model: {above} cannot be written, so {DEFAULT.title} cannot be fetched"
        yield Check("--", what, f"export HOOKLINE_CACHE_DIR=..., and then: {fetch}")
    elif not DEFAULT.is_here:
        yield Check("--", f"local model: {DEFAULT.title} is fetched when it is first used", fetch)
    elif is_intact(DEFAULT):
        yield Check("ok", f"local model: {DEFAULT.title} in {DEFAULT.path}")
    else:
        yield Check("no", f"local model: {DEFAULT.path} is damaged", fetch)


def _sandbox() -> Iterator[Check]:
    status = Sandbox(Path.cwd(), place="read-only").status
    place, is_required, where, shown = _place()
    if place == "host":
        yield Check("--", f"place: commands run on the host, by {where}")
    if status.contained:
        yield Check("ok", f"sandbox: {status.driver}; {status.reason}; place {place}")
        yield from _hidden_programs(shown)
    elif is_required:
        what = f"sandbox: none; {status.reason}. It is required by {where}, so no command can run"
        yield Check("no", what, status.remedy)
    else:
        what = f"sandbox: none; {status.reason}. Commands run on the host, and ask unless they are plainly harmless"
        yield Check("--", what, status.remedy)


def _hidden_programs(shown: Sequence[str]) -> Iterator[Check]:
    """Programs on the search path that do not work in the sandbox, because their directory is hidden."""
    known = homes()
    visible = (*needed_paths((os.getcwd(),), known, os.environ), *map(os.path.expanduser, shown))
    hidden = hidden_programs(known, visible)
    if hidden:
        named = ", ".join(hidden[:5]) + (f" and {len(hidden) - 5} more" if len(hidden) > 5 else "")
        what = f"sandbox: programs on PATH that are hidden, or lead to a hidden place: {named}"
        yield Check("--", what, 'In your own file: [capabilities.bash] show = ["~/.the/place"]')


def _place() -> tuple[str, bool, str, Sequence[str]]:
    """Where commands run, whether a sandbox is required, which setting says so, and the paths that are shown."""
    try:
        settings = load_verified(NO_FLAGS)
    except ConfigError:  # another check reports it
        return "workspace", False, "default", ()
    bash = settings.configuration.capabilities.get("bash", {})
    is_required = bash.get("sandbox") == "required"
    where = settings.where("capabilities", "bash", "sandbox" if is_required else "place")
    return bash.get("place", "workspace"), is_required, where, bash.get("show", ())


def _configuration() -> Iterator[Check]:
    settings = load_verified(NO_FLAGS)
    for name in settings.files:
        yield Check("ok", f"configuration: {name}")
    if not settings.files:
        what = "configuration: no file, the defaults are in force"
        yield Check("ok", what, "hookline init makes a project")
    if settings.held or settings.trust_status is TrustStatus.CHANGED:
        names = ", ".join(dict.fromkeys(held.setting for held in settings.held))
        status = settings.trust_status.value
        what = f"trust: {settings.project} is {status}" + (f"; not in force: {names}" * bool(names))
        yield Check("--", what, f"hookline trust {settings.project}")
    yield from _foreign_hooks(settings)


def _foreign_hooks(settings: Settings) -> Iterator[Check]:
    """The hooks in other agents' files of the project, and in its subagents and skills."""
    project = settings.project
    found = ForeignHooks(project, [layer for layer in settings.layers if layer.is_project])
    if found.status not in (TrustStatus.TRUSTED, TrustStatus.NOTHING):
        number = f"{len(found.lines)} hooks" if found.lines else "the trusted hooks"
        state = "off" if found.lines else "gone"
        what = f"trust: {number} of other agents' files in {project} are {state}"
        yield Check("--", what, f"hookline trust --show {project}")


def _journal() -> Iterator[Check]:
    path = journal_path(load(Path.cwd()))
    if has_journal(path):
        with journal_at(path) as journal:
            report = journal.check_sync()
        yield Check("ok" if report.ok else "no", f"journal: {report}")
    elif _is_writable(above := _nearest(path.parent)):
        yield Check("ok", f"journal: {path}, made with the first run")
    else:
        what = f"journal: {above} cannot be written, so runs cannot be recorded"
        yield Check("no", what, "export HOOKLINE_DATA_DIR=..., or run with --no-save")


def _nearest(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return next(each for each in (folder, *folder.parents) if each.exists())


def _is_writable(folder: Path) -> bool:
    """Whether a file can be made there. Permissions alone are not enough: think of /proc, or a read-only disk."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _terminal() -> Iterator[Check]:
    encoding = (sys.stdout.encoding or "").lower()
    if encoding.replace("-", "") == "utf8":
        colours = ", no colours (NO_COLOR)" if os.environ.get("NO_COLOR") else ""
        yield Check("ok", f"terminal: UTF-8{colours}")
    else:
        what = f"terminal: {encoding or 'unknown'} instead of UTF-8"
        yield Check("--", what, "export PYTHONUTF8=1")
