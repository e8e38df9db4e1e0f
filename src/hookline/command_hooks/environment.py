"""The environment a hook runs in, and the variables that a hook may set for those that come later."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hookline.command_hooks.definition import Handler
from hookline.command_hooks.dialects import DIALECTS, Place
from hookline.secret_tables import CLOUD_VARIABLE

_OF_OTHERS = frozenset(
    "CURSOR_PLUGIN_ROOT COPILOT_CLI COPILOT_PLUGIN_ROOT COPILOT_PLUGIN_DATA "  # noqa: SIM905 - a table of names
    "CLAUDE_SKILL_DIR CLAUDE_PLUGIN_ROOT CLAUDE_PLUGIN_DATA CLAUDE_ENV_FILE CODEX_ENV_FILE "
    "PLUGIN_ROOT PLUGIN_DATA".split()
)
"""By these scripts tell which agent runs them: one that we inherited would have them speak another dialect."""
_KEPT_IN_REPOSITORIES = frozenset(
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TERM TZ TMPDIR TEMP TMP PWD "  # noqa: SIM905 - as above
    "HOSTNAME EDITOR CI NO_COLOR VIRTUAL_ENV "
    "CONDA_PREFIX NVM_DIR PYENV_ROOT GOPATH GOROOT CARGO_HOME RUSTUP_HOME JAVA_HOME NODE_PATH XDG_CONFIG_HOME "
    "XDG_CACHE_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR SYSTEMROOT COMSPEC PATHEXT "
    # Where other programs look for themselves, for what to trust, and for where a notice can be shown.
    "VOLTA_HOME ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR FNM_DIR BUN_INSTALL DENO_DIR PNPM_HOME RBENV_ROOT GEM_HOME "
    "SDKMAN_DIR HOMEBREW_PREFIX UV_CACHE_DIR PIP_CACHE_DIR SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE "
    "CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS DISPLAY WAYLAND_DISPLAY DBUS_SESSION_BUS_ADDRESS WSL_DISTRO_NAME".split()
)
_SCRUB = "CLAUDE_CODE_SUBPROCESS_ENV_SCRUB"
"""Set by users who want no hook to see their keys."""
_PROXIES = frozenset({"http_proxy", "https_proxy", "no_proxy", "all_proxy"})
_NEVER_SET = re.compile(
    r"(?i)(?:PATH|LD_.*|DYLD_.*|PYTHON.*|NODE_OPTIONS|BASH_ENV|ENV|IFS|PERL5?(?:LIB|OPT)|RUBYOPT|RUBYLIB|SHELL|HOME"
    r"|GIT_.*|HOOKLINE_.*|CLAUDE.*|PROMPT_COMMAND|PS[0-9])"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
_PLAIN = re.compile(r"[\w./@+=:,-]+")
_MOST_LINES = 50
"""How many lines a variable's value may have."""


def environment(handler: Handler, place: Place, kept: Mapping[str, str]) -> dict[str, str]:
    """The variables of a hook: ours, without what could leak or mislead; those of its dialect; its own."""
    level = handler.source.level
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("OTEL_") and name not in _OF_OTHERS
    }
    if level.is_repository:
        ours = {name: value for name, value in ours.items() if _is_for_all(name, value)}
    elif ours.get(_SCRUB, "").lower() in ("1", "true"):
        ours = {name: value for name, value in ours.items() if not _is_credential(name, value)}
    dialect = DIALECTS[handler.source.dialect]
    own = {name: expanded(value, handler, place) for name, value in handler.env.items()}
    if dialect.name in ("copilot", "vscode"):
        own = {name: _VARIABLE.sub(_value_in(ours), value) for name, value in own.items()}
    skill = {"CLAUDE_SKILL_DIR": handler.source.root} if handler.skill else {}
    made = {**ours, **kept, **own, **dialect.variables(handler, place), **skill}
    return {name: value for name, value in made.items() if "\0" not in name + value and name}


def _value_in(known: Mapping[str, str]) -> Callable[[re.Match[str]], str]:
    return lambda found: known.get(found[1] or found[2], "")


def _is_for_all(name: str, value: str) -> bool:
    """Whether a repository's hooks may see a variable: one that is known to be harmless, and holds no secret."""
    is_proxy = name.lower() in _PROXIES and "@" not in value
    if name not in _KEPT_IN_REPOSITORIES and not name.startswith("LC_") and not is_proxy:
        return False
    from hookline.redaction import (
        is_secret_name,
        token_spans,
    )  # only where it is needed: it takes a while

    return not is_secret_name(name) and not any(True for _ in token_spans(value))


def _is_credential(name: str, value: str) -> bool:
    """Whether a variable is, or leads to, a key of a model or of a cloud."""
    from hookline.redaction import is_secret_name, token_spans

    is_clouds = CLOUD_VARIABLE.match(name) is not None
    return is_clouds or bool(is_secret_name(name)) or any(True for _ in token_spans(value))


def expanded(text: str, handler: Handler, place: Place, *, for_shell: bool = False) -> str:
    """A text with the paths that it names. For a shell only where the path cannot mean anything else to it:
    the variables are in its environment too."""
    known = {
        "CLAUDE_PROJECT_DIR": place.project,
        "CLAUDE_SKILL_DIR": handler.source.root if handler.skill else "",
        "CLAUDE_PLUGIN_ROOT": handler.source.root,
        "CLAUDE_PLUGIN_DATA": handler.source.data,
        "PLUGIN_ROOT": handler.source.root,
        "PLUGIN_DATA": handler.source.data,
        "CURSOR_PLUGIN_ROOT": handler.source.root,
        "COPILOT_PLUGIN_ROOT": handler.source.root,
        "COPILOT_PLUGIN_DATA": handler.source.data,
        "extensionPath": handler.source.root,
        "workspacePath": place.project,
    }

    def put(found: re.Match[str]) -> str:
        value = known.get(found[1], "")
        if not value or (for_shell and not _PLAIN.fullmatch(value)):
            return found[0]
        return value

    if handler.source.dialect == "gemini":
        text = text.replace(
            "${/}", os.sep
        )  # Gemini's way to write what separates the parts of a path
    return _PLACEHOLDER.sub(put, text)


def variables_in(path: Path) -> tuple[dict[str, str], list[str]]:
    """What a hook wrote into the file for variables, and the names that are left out: it is read, never sourced.

    Left out are those that decide which programs run, and those with a value that only a shell could work out.
    """
    try:
        text = path.read_text(errors="replace")[: 1 << 16]
    except OSError:
        return {}, []
    found: dict[str, str] = {}
    left_out: list[str] = []
    for words in _statements(text):
        for word in _assigned(words):
            name, sign, value = word.partition("=")
            if not sign:
                continue
            if may_be_set(name) and not {"$", "`"} & set(value):
                found[name] = value
            else:
                left_out.append(name)
    return found, left_out


def _statements(text: str) -> Iterator[list[str]]:
    """The words of each statement; one may go over several lines, inside of quotes. A quote that stays open is none."""
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        for end in range(at + 1, min(at + _MOST_LINES, len(lines)) + 1):
            try:
                words = shlex.split("\n".join(lines[at:end]), comments=True)
            except ValueError:
                continue
            yield [word.removesuffix(";") for word in words]
            at = end
            break
        else:
            at += 1


def _assigned(words: list[str]) -> list[str]:
    """What a statement sets: `K=V`, `export K=V`, and `declare -x K=V`, as shells write down what they export."""
    if words[:1] == ["export"]:
        return words[1:]
    if words[:1] in (["declare"], ["typeset"]):
        return words[2:]
    return words[:1]


def may_be_set(name: str) -> bool:
    """Whether a hook may set this variable for others."""
    return bool(_NAME.fullmatch(name)) and not _NEVER_SET.fullmatch(name)
