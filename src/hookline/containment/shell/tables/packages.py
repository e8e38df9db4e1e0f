"""Package managers: what is installed, never installing.

Managers that run code out of the project directory whatever they are asked, or send what its configuration says to
where its configuration says, are missing on purpose: yarn, pnpm, poetry, bundler, `cargo tree`, `npm view`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hookline.containment.shell.options import Check, Options, Program, but, only
from hookline.containment.shell.tables.first import first_word
from hookline.containment.shell.words import Word

_PIP = only(
    """
    -v -q --verbose --quiet --format --local -l --user --not-required --editable -e --all --files -f --exclude
    --exclude-editable --disable-pip-version-check --no-color
    """
)
_NPM = only(
    """
    -g --global --json --long -l --parseable -p --prod --production --dev --omit --all -a --link --silent -s --no-color
    --color
    """,
    takes="--depth",
)


def _npm_setting(words: Sequence[Word]) -> str | None:
    harmless = {"registry", "prefix", "cache", "loglevel", "engine-strict"}
    return None if all(word.text in harmless for word in words) else "it may show a token"


def _no_setting(words: Sequence[Word]) -> str | None:
    return "it sets something" if any("=" in word.text for word in words) else None


def _no_path(words: Sequence[Word]) -> str | None:
    """A path or an address is loaded, and brew runs what it loads."""
    odd = any("/" in word.text or not word.start for word in words)
    return "it may load a file, or fetch one" if odd else None


def _asks(verbs: str, options: str = "", check: Check | None = None) -> Program:
    """A manager with verbs that all have the same options."""
    of_verbs = only(options, check=check)
    return Program(only("--version"), dict.fromkeys(verbs.split(), of_verbs), reads=False)


_PIP_VERBS: dict[str, Options] = {
    **dict.fromkeys(("list", "show", "freeze", "check"), _PIP),
    **dict.fromkeys(("help", "cache dir", "cache info"), only()),
}
_NPM_VERBS: dict[str, Options] = {
    **dict.fromkeys("ls list ll la explain why root prefix".split(), _NPM),
    **dict.fromkeys(("run", "run-script"), only("--json", operands=0)),
    "pkg get": _NPM,
    "config get": only(check=_npm_setting),
}
_GO_VERBS: dict[str, Options] = {
    "version": only("-m -v"),
    "env": only("-json -changed", check=_no_setting),
    "doc": only("-all -src -short -u -c -cmd"),
    "help": only(),
}
_BREW = (
    "-v --versions --formula --cask --json -1 --full-name --installed --tree -r --pinned --greedy"
)
_DPKG = "-l|-L|-s|-S|-p|--list|--listfiles|--status|--search|--get-selections|--print-architecture"

PACKAGES: dict[str, Program] = {
    **dict.fromkeys(
        ("pip", "pip3"),
        Program(only("--disable-pip-version-check --no-color"), _PIP_VERBS, reads=False),
    ),
    "npm": Program(only(), _NPM_VERBS, reads=False),
    "go": Program(only(), _GO_VERBS, reads=False),
    "rustup": Program(
        only(),
        {
            **dict.fromkeys(
                ("toolchain list", "target list", "component list"), only("-v --installed")
            ),
        },
        reads=False,
    ),
    "gem": _asks("list env contents", "-l --local -a --all -d --details"),
    "brew": _asks("list ls info desc deps uses leaves outdated config", _BREW, _no_path),
    **dict.fromkeys(
        ("apt", "apt-cache"),
        _asks(
            "list show search policy",
            "--installed --upgradable -a --all-versions --manual-installed -n --names-only -f",
        ),
    ),
    "dpkg": Program(only(_DPKG.replace("|", " "), check=first_word(_DPKG)), reads=False),
    "dpkg-query": Program(
        only("-l -L -s -S -W -f --list --show --showformat --listfiles --status --search"),
        reads=False,
    ),
    "rpm": Program(only("-q -a -i -l -f -d -c -R", check=first_word("-q[ailfdcR]*")), reads=False),
    "pacman": Program(
        only(
            "-Q -i -e -l -o -s -q -d -m -n -t -k -u",
            check=first_word("-Q[ielosqdmntku]*"),
        ),
        reads=False,
    ),
    "apk": _asks("info list policy", "-v -vv -L -e -a -d -s -R -I --installed"),
    "snap": _asks("list info version", "--all"),
    "flatpak": _asks("list info", "--app --runtime --columns"),
    "conda": Program(
        only(),
        {
            "list": only("--json", takes="-n --name"),
            "info": only("-e --envs --json"),
            "env list": only("--json"),
        },
        reads=False,
    ),
    **dict.fromkeys(
        ("dnf", "yum"), _asks("list info repolist", "--installed -q -C --cacheonly", _no_path)
    ),
    "zypper": _asks("search se info if lr repos packages", "-i --installed-only -s"),
    "apt-mark": _asks("showhold showauto showmanual"),
    "nvm": Program(but(check=first_word("ls|list|current|version")), reads=False),
}
