"""The flags that several commands share, and the layer of settings they are."""

from __future__ import annotations

import argparse
import os
import tomllib
from pathlib import Path
from typing import Any, get_args

from hookline.config import Layer, PlaceName, SandboxName, check_layer, put
from hookline.errors import ConfigError, UsageError

_MODES = ("default", "accept_edits", "ask_unlisted", "deny_unlisted", "plan")


def add_agent_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that say which agent, and how it is held."""
    agent = parser.add_argument_group("the agent")
    agent.add_argument(
        "--agent", metavar="NAME", help="an agent of the configuration, or module:agent"
    )
    agent.add_argument(
        "--model", metavar="MODEL", help="provider:NAME, local:, or script:FILE.json"
    )
    agent.add_argument("--system-prompt", metavar="TEXT", help="what the model is told first")
    agent.add_argument(
        "--capability",
        metavar="NAME",
        action="append",
        default=[],
        help="one more capability: skills, redaction, ...",
    )
    agent.add_argument(
        "--without",
        metavar="NAME",
        action="append",
        default=[],
        help="leave a capability out: bash, ...",
    )
    agent.add_argument(
        "--plugin-dir",
        metavar="DIR",
        action="append",
        default=[],
        dest="plugins",
        help="a plugin for Claude Code or Codex whose hooks are run",
    )
    agent.add_argument(
        "--settings",
        metavar="FILE",
        action="append",
        default=[],
        dest="claude_settings",
        help="a settings file of Claude Code's whose hooks are run",
    )
    held = parser.add_argument_group("how it is held")
    held.add_argument(
        "--max-steps", metavar="N", type=whole_number, help="stop after so many steps"
    )
    held.add_argument(
        "--max-tokens", metavar="N", type=whole_number, help="stop after so many tokens"
    )
    held.add_argument(
        "--max-cost", metavar="USD", type=_amount, help="stop when it has cost so much"
    )
    held.add_argument(
        "--timeout", metavar="SECONDS", type=_amount, help="stop after so much active time"
    )
    for name, what in (
        ("allow", "let calls like this pass"),
        ("ask", "ask about them"),
        ("deny", "never run them"),
    ):
        held.add_argument(
            f"--{name}",
            metavar="RULE",
            action="append",
            default=[],
            help=f"{what}: 'bash(git push *)'",
        )
    held.add_argument("--mode", choices=_MODES, help="what happens to calls that no rule is about")
    held.add_argument("--place", choices=get_args(PlaceName), help="where shell commands run")
    held.add_argument(
        "--sandbox",
        choices=get_args(SandboxName),
        help="where there is no sandbox: an error (required), or the host (auto)",
    )
    add_setting_flags(parser)


def add_setting_flags(parser: argparse.ArgumentParser) -> None:
    """The flags about configuration itself."""
    group = parser.add_argument_group("configuration")
    group.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="any setting: limits.tool_calls=5",
    )
    group.add_argument(
        "--bare", action="store_true", help="read no configuration file and no variable"
    )
    group.add_argument("--journal", metavar="FILE", help="the file that runs are kept in")


def refuse_settings(arguments: argparse.Namespace) -> None:
    """Where no agent is made, a setting of it would do nothing."""
    for text in arguments.settings:
        if text.partition("=")[0].strip() != "journal":
            raise UsageError(
                f"--set {text!r} would do nothing: no agent is made here.",
                remedy="Leave it out; `--journal FILE` says where runs are kept.",
            )


def take_target(arguments: argparse.Namespace, words: list[str]) -> None:
    """Take `module:agent` from the front of the words, as what `--agent` says."""
    if not words or not is_target(words[0]):
        return
    target = words.pop(0)
    if arguments.agent:
        raise UsageError(
            f"there are two agents: {target} and --agent {arguments.agent}.",
            remedy="Name one of them.",
        )
    arguments.agent = target


def is_target(word: str) -> bool:
    """Whether a word is `module:agent`."""
    module, colon, name = word.partition(":")
    return bool(colon) and all(
        part.isidentifier() for text in (module, name) for part in text.split(".")
    )


_PATHS: dict[str, tuple[str, ...]] = {
    "agent": ("agent",),
    "model": ("model",),
    "system_prompt": ("system_prompt",),
    "max_steps": ("limits", "steps"),
    "max_tokens": ("limits", "tokens"),
    "max_cost": ("limits", "cost"),
    "timeout": ("limits", "seconds"),
    "mode": ("approvals", "mode"),
    "place": ("capabilities", "bash", "place"),
    "sandbox": ("capabilities", "bash", "sandbox"),
    "journal": ("journal",),
}


def flags_of(arguments: argparse.Namespace) -> Layer:
    """The settings that the flags say. A flag that says nothing, or takes back what another says, is an error."""
    layer = Layer("flag", {}, sources={})
    for name, path in _PATHS.items():
        value = getattr(arguments, name, None)
        if value is not None:
            put(layer.data, path, value)
            layer.sources[path] = f"--{name.replace('_', '-')}"
    for name in ("allow", "ask", "deny"):
        rules = getattr(arguments, name, ())
        if rules:
            put(layer.data, ("approvals", name), _rules(name, rules))
            layer.sources["approvals", name] = f"--{name}"
    _refuse_contradictions(arguments)
    for name in getattr(arguments, "capability", ()):
        put(layer.data, ("capabilities", name, "enabled"), True)
        layer.sources["capabilities", name] = "--capability"
    for name in getattr(arguments, "without", ()):
        put(layer.data, ("capabilities", name, "enabled"), False)
        layer.sources["capabilities", name] = "--without"
    if getattr(arguments, "plugins", ()):
        put(layer.data, ("plugins",), [os.path.abspath(each) for each in arguments.plugins])
        layer.sources["plugins",] = "--plugin-dir"
    if getattr(arguments, "claude_settings", ()):
        files = [os.path.abspath(each) for each in arguments.claude_settings]
        put(layer.data, ("claude_settings",), files)
        layer.sources["claude_settings",] = "--settings"
    for text in getattr(arguments, "settings", ()):
        _set(layer, text)
    return _verified(layer)


def _rules(name: str, rules: list[str]) -> list[str]:
    if not all(rule.strip() for rule in rules):
        raise UsageError(
            f"--{name} names no call.", remedy=f"Write a rule: --{name} 'bash(git push *)'."
        )
    return rules


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    """Whoever gives two flags relies on both."""
    without = getattr(arguments, "without", ())
    for name in getattr(arguments, "capability", ()):
        if name in without:
            raise UsageError(
                f"--capability {name} adds what --without {name} leaves out.",
                remedy="Say one of them.",
            )


def _verified(layer: Layer) -> Layer:
    """The layer, if all it says means something. What a flag gets wrong is wrong use, not a wrong configuration."""
    try:
        check_layer(layer)
        if not layer.data.keys().isdisjoint(("agents", "approvals", "capabilities", "hooks")):
            from hookline.cli.assembly.verify import verify

            verify((layer,), Path.cwd())
    except ConfigError as error:
        raise UsageError(error.message, remedy=error.remedy) from None
    for name, options in layer.data.get("capabilities", {}).items():
        for option in options.keys() - {"enabled"} if options.get("enabled") is False else ():
            about, out = (layer.where(("capabilities", name, each)) for each in (option, "enabled"))
            raise UsageError(
                f"{about} is about '{name}', which {out} leaves out.", remedy="Say one of them."
            )
    return layer


def _set(layer: Layer, text: str) -> None:
    key, equals, value = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise UsageError(f"--set {text!r} says nothing.", remedy="Write --set KEY=VALUE.")
    try:
        meant: Any = tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        meant = value  # a word without its quotes, which a shell has taken
    try:
        put(layer.data, path, meant)
    except (AttributeError, TypeError):  # something above it is a value by now
        raise UsageError(
            f"--set {text!r} is about a part of what, as another flag says, has none.",
            remedy="Say one of them.",
        ) from None
    layer.sources[path] = "--set"


def whole_number(text: str) -> int:
    """A number on the command line."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least zero")
    return amount
