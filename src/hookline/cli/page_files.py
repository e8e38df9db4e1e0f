"""The files of `--html` and `--svg`: only their owner can read them, and no other file is replaced unasked."""

from __future__ import annotations

import argparse
import os
import secrets
import stat
from pathlib import Path

from hookline.cli.options import flags_of
from hookline.cli.terminal import report
from hookline.config import Settings, load
from hookline.errors import UsageError
from hookline.redaction import Redactor

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


def check_target(path: str, *, force: bool) -> None:
    """Refuse a file that may not be replaced."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{path} is not a regular file.", remedy="Name a new file.")
    if not force:
        raise UsageError(f"{path} exists.", remedy="Name another file, or replace it: --force.")


def write_page(path: str, text: str, *, force: bool) -> None:
    """Write a file that only its owner can read. What runs contain is not for everybody on the machine."""
    check_target(path, force=force)
    # A new file takes the place of an old one: that may be readable for others, or a name for another file.
    target = f"{path}.{secrets.token_hex(4)}" if force else path
    try:
        with open(os.open(target, _NEW, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(target, path)
    except OSError:
        if force:
            Path(target).unlink(missing_ok=True)
        raise
    report(f"wrote {path}")


def current_redactor(arguments: argparse.Namespace) -> Redactor:
    """What takes secrets out of a page, with the values and names that the configuration adds here."""
    return redactor_of(load(Path.cwd(), flags=flags_of(arguments), bare=arguments.bare))


def redactor_of(settings: Settings) -> Redactor:
    """The same, for settings. Those of a capability that is switched off count, too: a page is for others to read."""
    given = settings.configuration.capabilities.get("redaction", {})
    known = ("values", "environment", "patterns", "names")
    return Redactor(**{name: given[name] for name in known if name in given})
