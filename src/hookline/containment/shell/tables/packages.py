"""Package managers: what is installed, never installing."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.containment.shell.options import Options, Program, but, only
from hookline.containment.shell.words import Word

_PIP = only(
    "-v -q --verbose --quiet --format --local -l --user --not-required --editable -e --all --files -f --exclude --exclude-editable"
    " --disable-pip-version-check --no-color --path"
)
_NPM = only(
    "-g --global --depth --json --long -l --parseable -p --prod --production --dev --omit --all -a --link --silent -s --no-color --color",
    takes="--depth",
)


def _words(*allowed: str) -> Options:
    """Nothing but these words."""

    def check(words: Sequence[Word]) -> str | None:
        odd = next((word for word in words if word.text not in allowed), None)
        return f"{odd.text!r}" if odd else None

    return but(check=check)


def _dpkg(words: Sequence[Word]) -> str | None:
    asks = {
        "-l",
        "-L",
        "-s",
        "-S",
        "-p",
        "--list",
        "--listfiles",
        "--status",
        "--search",
        "--get-selections",
        "--print-architecture",
    }
    return None if words and words[0].text in asks else "it does more than ask"


def _rpm(words: Sequence[Word]) -> str | None:
    first = words[0].text if words else ""
    return (
        None
        if first.startswith("-q") and set(first[2:]) <= set("ailfdcRp")
        else "it does more than ask"
    )


def _pacman(words: Sequence[Word]) -> str | None:
    first = words[0].text if words else ""
    return (
        None
        if first.startswith("-Q") and set(first[2:]) <= set("ielosqdmntku")
        else "it does more than ask"
    )


PACKAGES: dict[str, Program] = {
    **{
        name: Program(
            only("--version -V --help -h --disable-pip-version-check --no-color"),
            {
                "list": _PIP,
                "show": _PIP,
                "freeze": _PIP,
                "check": _PIP,
                "help": only(),
                "cache dir": only(),
                "cache info": only(),
            },
            reads=False,
        )
        for name in ("pip", "pip3")
    },
    "npm": Program(
        only("--version -v --help -h"),
        {
            **dict.fromkeys(
                ["ls", "list", "ll", "la", "explain", "why", "root", "prefix", "help", "fund"], _NPM
            ),
            **dict.fromkeys(("outdated", "view", "info", "show"), _NPM),
            "run": _words("--json"),
            "run-script": _words("--json"),
            "pkg get": _NPM,
            "config get": only(
                operands=1,
                check=lambda w: (
                    None
                    if w and w[0].text in {"registry", "prefix", "cache"}
                    else "it may show a token"
                ),
            ),
        },
        reads=False,
    ),
    "yarn": Program(
        only("--version -v --help"),
        {
            "list": only("--depth --pattern --json", takes="--depth --pattern"),
            "why": only(),
            "info": only("--json"),
        },
        reads=False,
    ),
    "pnpm": Program(
        only("--version -v --help"),
        dict.fromkeys(("list", "ls", "ll", "la", "why", "outdated", "root"), _NPM),
        reads=False,
    ),
    "cargo": Program(
        only("--version -V --list --help -v --verbose"),
        {
            "tree": only(
                "-e --edges -i --invert -p --package --depth -d --duplicates --prefix --offline --locked --frozen -f --format --no-dedupe --charset",
                takes="--depth -p -e -i",
            ),
            "metadata": only(
                "--no-deps --offline --locked --frozen --format-version -q",
                takes="--format-version",
            ),
            "version": only(),
            "pkgid": only(),
            "locate-project": only("--workspace --message-format"),
            "help": only(),
        },
        reads=False,
    ),
    "go": Program(
        only(),
        {
            "version": only("-m -v"),
            "env": only(
                "-json -changed",
                check=lambda words: (
                    "it sets something" if any("=" in w.text for w in words) else None
                ),
            ),
            "doc": only("-all -src -short -u -c -cmd"),
            "help": only(),
        },
        reads=False,
    ),
    "rustup": Program(
        only("--version -V"),
        {
            "show": only(operands=1),
            "toolchain list": only("-v"),
            "target list": only("--installed"),
            "component list": only("--installed"),
        },
        reads=False,
    ),
    "gem": Program(
        only("--version -v"),
        {"list": only("-l --local -a --all -d --details"), "env": only(), "contents": only()},
        reads=False,
    ),
    "brew": Program(
        only("--version -v --prefix --cellar --repository --help"),
        {
            **{
                verb: only(
                    "-v --versions --formula --cask --json -1 --full-name --installed --tree -r --pinned --greedy"
                )
                for verb in ["list", "ls", "info", "desc", "deps", "uses", "leaves", "outdated"]
            },
            "config": only(),
        },
        reads=False,
    ),
    **{
        name: Program(
            only("--version -v --help"),
            {
                "list": only("--installed --upgradable -a --all-versions --manual-installed"),
                "show": only("-a"),
                "search": only("-n --names-only -f"),
                "policy": only(),
            },
            reads=False,
        )
        for name in ("apt", "apt-cache")
    },
    "dpkg": Program(
        only(
            "-l -L -s -S -p --list --listfiles --status --search --get-selections --print-architecture --version",
            check=_dpkg,
        ),
        reads=False,
    ),
    "dpkg-query": Program(
        only("-l -L -s -S -W -f --list --show --showformat --listfiles --status --search"),
        reads=False,
    ),
    "rpm": Program(
        only(
            "-q -a -i -l -f -d -c -R -p --all --info --list --requires --provides --changelog --qf --queryformat",
            check=_rpm,
        ),
        reads=False,
    ),
    "pacman": Program(only("-Q -i -e -l -o -s -q -d -m -n -t -k -u", check=_pacman), reads=False),
    "apk": Program(
        only("--version"),
        {
            "info": only("-v -vv -L -e -a -d -s -R"),
            "list": only("-I --installed"),
            "policy": only(),
        },
        reads=False,
    ),
    "snap": Program(
        only("--version"), {"list": only("--all"), "info": only(), "version": only()}, reads=False
    ),
    "conda": Program(
        only("--version -V"),
        {
            "list": only("-n --name --json", takes="-n"),
            "info": only("-e --envs --json"),
            "env list": only("--json"),
        },
        reads=False,
    ),
    "uv": Program(
        only("--version -V"),
        {
            "pip list": _PIP,
            "pip show": _PIP,
            "pip freeze": _PIP,
            "pip tree": _PIP,
            "pip check": _PIP,
            "python list": only(),
            "version": only(operands=0),
            "tree": only("--depth --frozen --offline --no-dedupe"),
        },
        reads=False,
    ),
    "poetry": Program(
        only("--version -V"),
        {
            "show": only("-t --tree -l --latest --no-dev --top-level -T --only"),
            "env info": only("-p --path"),
            "env list": only(),
            "about": only(),
        },
        reads=False,
    ),
}
