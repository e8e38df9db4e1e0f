"""The settings that flags make, and the agent that the words of a command line name."""

from __future__ import annotations

import argparse
import os
import tomllib
from pathlib import Path
from typing import Any

from hookline.cli.assembly.verification import load_verified, verify
from hookline.cli.terminal import report
from hookline.config import Layer, Settings
from hookline.config.layers import check_layer, put
from hookline.config.load import VARIABLES
from hookline.errors import ConfigError, UsageError

_RULES = ("allow", "ask", "deny")
_FILES = {"plugins": "--plugin-dir", "claude_settings": "--settings"}
"""Flags that name files, and are settings with another name."""
_SETTINGS: dict[str, tuple[str | int, ...]] = {
    # each variable has a flag of the same name
    **{name.removeprefix("HOOKLINE_").lower(): path for name, path in VARIABLES.items()},
    **{name: ("approvals", name) for name in _RULES},
    **{name: (name,) for name in _FILES},
}
"""The flags that are one setting each."""


def refuse_settings(arguments: argparse.Namespace) -> None:
    """Refuse `--set` for a command that makes no agent: it would have no effect."""
    for text in arguments.settings:
        if text.partition("=")[0].strip() != "journal":
            raise UsageError(
                f"--set {text!r} has no effect: this command makes no agent.",
                remedy="Leave the flag out; `--journal FILE` names the journal.",
            )


def take_target(arguments: argparse.Namespace, words: list[str], most: int | None = None) -> None:
    """Take `module:agent` from the front of the words, like `--agent`. More than `most` other words are an error."""
    if words and is_target(words[0]):
        target = words.pop(0)
        if arguments.agent:
            raise UsageError(
                f"there are two agents: {target} and --agent {arguments.agent}.",
                remedy="Name one of them.",
            )
        arguments.agent = target
    if most is not None and len(words) > most:
        quoted = """Put the arguments into quotes: bash 'git push', read '{"path": "a.txt"}'."""
        own = "An agent of your own is named module:agent."
        remedy = own if most == 0 else "Name one tool, or none." if most == 1 else quoted
        raise UsageError(f"{words[most]!r} is not expected here.", remedy=remedy)


def is_target(word: str) -> bool:
    """Whether a word is `module:agent`."""
    module, colon, name = word.partition(":")
    return bool(colon) and all(
        part.isidentifier() for text in (module, name) for part in text.split(".")
    )


def load_settings(arguments: argparse.Namespace) -> Settings:
    """The settings with the flags above them. Settings that wait for trust are reported."""
    settings = load_verified(flags_of(arguments), bare=arguments.bare)
    report_untrusted(settings)
    return settings


def report_untrusted(settings: Settings) -> None:
    """Report settings that wait for trust: what a command says about hooks is without them."""
    if settings.trust_hint:
        report(settings.trust_hint)


def flags_of(arguments: argparse.Namespace) -> Layer:
    """The layer of settings that the flags make. A flag without effect, or against another, is an error."""
    layer = Layer("flag", {}, sources={})
    _refuse_contradictions(arguments)
    for name, path in _SETTINGS.items():
        value = getattr(arguments, name, None)
        if value is None or value == []:
            continue
        if name in _FILES:
            value = [os.path.abspath(each) for each in value]
        put(layer.data, path, value)
        layer.sources[path] = _FILES.get(name, f"--{name.replace('_', '-')}")
    for name, is_enabled in (("capability", True), ("without", False)):
        for capability in getattr(arguments, name, ()):
            put(layer.data, ("capabilities", capability, "enabled"), is_enabled)
            layer.sources["capabilities", capability] = f"--{name}"
    for text in getattr(arguments, "settings", ()):
        _set(layer, text)
    return _verify(layer)


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    for name in _RULES:
        if not all(rule.strip() for rule in getattr(arguments, name, ())):
            remedy = f"Write a rule: --{name} 'bash(git push *)'."
            raise UsageError(f"--{name} names no call.", remedy=remedy)
    without = getattr(arguments, "without", ())
    for name in getattr(arguments, "capability", ()):
        if name in without:
            raise UsageError(
                f"--capability {name} and --without {name} contradict each other.",
                remedy="Give one of them.",
            )


def _verify(layer: Layer) -> Layer:
    """Return the layer if it is valid. A wrong flag is wrong use, not a wrong configuration."""
    try:
        check_layer(layer)
        if not layer.data.keys().isdisjoint(("agents", "approvals", "capabilities", "hooks")):
            verify((layer,), Path.cwd())
    except ConfigError as error:
        raise UsageError(error.message, remedy=error.remedy) from None
    for name, options in layer.data.get("capabilities", {}).items():
        for option in options.keys() - {"enabled"} if options.get("enabled") is False else ():
            about, out = (layer.where(("capabilities", name, each)) for each in (option, "enabled"))
            raise UsageError(
                f"{about} is an option of '{name}', but {out} switches that capability off.",
                remedy="Give one of them.",
            )
    return layer


def _set(layer: Layer, text: str) -> None:
    key, equals, value = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise UsageError(f"--set {text!r} sets nothing.", remedy="Write --set KEY=VALUE.")
    try:
        parsed: Any = tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        parsed = value  # a word whose quotes the shell has removed
    try:
        put(layer.data, path, parsed)
    except (AttributeError, TypeError):  # something above it is a value, not a table
        raise UsageError(
            f"--set {text!r} contradicts another flag, which sets part of its key to a value.",
            remedy="Give one of them.",
        ) from None
    layer.sources[path] = "--set"
