"""Package managers: what is installed, never installing.

Some run code out of the project directory whatever they are asked, or send what its configuration says to where its
configuration says. What they obey is in `obeyed`, and is looked at before they are allowed. What resolves
requirements, and so fetches and writes, is allowed only where there is no project: `cargo tree`, `uv tree`, `poetry
show`. `go list` and what builds are missing on purpose.
"""

from __future__ import annotations

from hookline.containment.shell.options import Call, Check, Options, Program, only
from hookline.containment.shell.tables.checks import plain_names
from hookline.containment.shell.tables.languages import LANGUAGES, with_verbs

_FORMULA = r"[a-z0-9][a-z0-9+_-]*(@[0-9]+(\.[0-9]+)*)?"
"""The name of something that brew knows. A file that ends in `.rb` would be loaded, and so would an address."""


def _installed(call: Call) -> str | None:
    """Anything else looks for news in the network first."""
    local = call.begins_with("--installed", "-C", "--cacheonly") or call.texts[:1] == ["installed"]
    return plain_names()(call) if local else "it may use the network"


def _plain_settings(call: Call) -> str | None:
    """Settings by name: among all of them are addresses with passwords."""
    named = plain_names(r"(?![a-z_]*(?:prox|auth|token|ssl|cert))[a-z_]+")
    return named(call) if call.operands else "it shows all settings"


def _asks(verbs: str, flags: str = "", *, texts: str = "", check: Check | None = None) -> Program:
    """A manager with verbs that all have the same options."""
    options = only(flags, texts=texts, check=check)
    return Program(only(), dict.fromkeys(verbs.split(), options), reads=False)


def _pacman(call: Call) -> str | None:
    """`-S` alone installs, and `-Su` brings everything up to date: with it, only looking something up is known."""
    if not call.has("-S", "--sync"):
        return None
    given = {name for name, _ in call.options}
    looks = given & {"-s", "-i", "-l", "--search", "--info", "--list"}
    extra = given - looks - {"-S", "--sync", "-q", "--quiet"}
    return None if looks and not extra else "it may install something"


_PIP = "-v -q --verbose --quiet --disable-pip-version-check --no-color --isolated -h --help"
_PIP_LIST = only(
    f"{_PIP} -e -l -o --editable --local --user --pre --not-required --outdated --exclude-editable --include-editable",
    texts="--format --exclude --path",
)
_PIP_VERBS: dict[str, Options | Program] = {
    "list": _PIP_LIST,
    "show": only(f"{_PIP} -f --files"),
    "index versions": only(f"{_PIP} --pre", check=plain_names(r"[A-Za-z0-9][\w.-]*")),
    "freeze": only(f"{_PIP} -l --local --user --all --exclude-editable", texts="--exclude"),
    **dict.fromkeys(("check", "inspect"), only(_PIP)),
    **dict.fromkeys(("help", "cache dir", "cache info", "cache list", "debug", ""), only(_PIP)),
}
PIP = Program(
    only("--disable-pip-version-check --no-color -v -q --isolated --version -V -h --help"),
    _PIP_VERBS,
    reads=False,
)
_BREW = """
    -v --versions --formula --formulae --cask --casks -1 -l --full-name --installed --tree --pinned --multiple
    --include-build --include-optional --direct --topological --annotate --recursive
"""
_APT = """
    --installed --upgradable -a --all-versions --manual-installed -n --names-only --full --no-pager
"""
_DPKG = """
    -l -L -s -S -p -c -I --list --listfiles --status --search --print-avail --contents --info --get-selections
    --print-architecture --print-foreign-architectures
"""
_RPM = """
    --whatprovides --whatrequires -q -a -i -l -f -d -c -R --last --changelog --scripts --requires --provides
    --info --list
    --all --query
"""

PACKAGES: dict[str, Program] = {
    **LANGUAGES,
    **dict.fromkeys(("pip", "pip3"), PIP),
    "gem": with_verbs(
        {
            **dict.fromkeys(
                "list env environment contents which info specification dependency".split(),
                only(
                    """
                    -l -a -d -i -e -q --local --all --details --no-details --installed --exact --versions --no-versions
                    """
                ),
            ),
            "sources": only("-l --list", operands=0),
        }
    ),
    "brew": Program(  # `brew outdated` updates first
        only(),
        {
            **dict.fromkeys(
                "list ls info desc deps uses".split(),
                only(_BREW, maybe="--json", check=plain_names(_FORMULA)),
            ),
            **dict.fromkeys("leaves config".split(), only("-r -p", operands=0)),
            **dict.fromkeys(
                ("commands", "tap", "services list", "doctor", "missing"), only(operands=0)
            ),
            "cat": only(check=plain_names(_FORMULA)),
        },
        reads=False,
    ),
    "apt": _asks("list show search policy depends rdepends", _APT),
    "apt-cache": _asks("show search policy madison depends rdepends pkgnames showpkg stats", _APT),
    "dpkg": Program(only(_DPKG, needs=_DPKG, bundles=False), reads=False),
    "dpkg-query": Program(
        only(
            "-l -L -s -S -W -p --list --show --listfiles --status --search",
            texts="-f --showformat",
            needs="-l -L -s -S -W -p --list --show --listfiles --status --search",
        ),
        reads=False,
    ),
    "dpkg-deb": Program(
        only(
            "-c -I -f --contents --info --field",
            needs="-c -I -f --contents --info --field",
            bundles=False,
        )
    ),
    "rpm": Program(
        only(
            _RPM, texts="--qf --queryformat", needs="-q --query", check=plain_names(r"[\w./+*-]+")
        ),
        reads=False,
    ),
    "pacman": Program(
        only(
            """
            -Q -S -i -e -l -o -s -q -d -m -n -t -k -u --query --sync --explicit --info --list --owns --search --quiet
            """,
            needs="-Q -S --query --sync",
            check=_pacman,
        ),
        reads=False,
    ),
    "apk": _asks("info list policy version search", "-v -vv -L -e -a -d -s -R -I --installed"),
    "snap": _asks("list version", "--all"),
    "flatpak": _asks("list info remotes", "--app --runtime --user --system", texts="--columns"),
    **dict.fromkeys(
        ("conda", "mamba", "micromamba"),
        with_verbs(
            {
                "list": only("--json --export -e --explicit", texts="-n --name"),
                "info": only("-e --envs --json", operands=0),
                "env list": only("--json", operands=0),
                "config": only("--show --json", needs="--show", check=_plain_settings),
            }
        ),
    ),
    **dict.fromkeys(
        ("dnf", "yum"),
        Program(
            only("-q -C --quiet --cacheonly"),
            {
                **dict.fromkeys(
                    ("list", "info"), only("--installed -q -C --cacheonly", check=_installed)
                ),
                **dict.fromkeys(("history", "history list"), only("-q", operands=0)),
                "repolist": only("-q -v --all --enabled --disabled", operands=0),
            },
            reads=False,
        ),
    ),
    "apt-config": _asks("dump"),
    "nix-store": Program(
        only(
            "-q --query --references --requisites -R --referrers --outputs --size --hash --tree --deriver",
            needs="-q --query",
            bundles=False,
        ),
        reads=False,
    ),
    **dict.fromkeys(("winget", "scoop"), with_verbs({"list": only(check=plain_names())})),
    "apt-mark": _asks("showhold showauto showmanual"),
    "nvm": _asks("ls list current version which", "--no-colors"),
    "pipx": _asks("list environment", "--short --json"),
    "nix-channel": Program(only("--list", needs="--list", operands=0), reads=False),
    "nix": with_verbs({"profile list": only("--json", operands=0)}),
    "mas": with_verbs({"list": only(operands=0)}),
    "pkgutil": Program(only("--pkgs", needs="--pkgs", operands=0), reads=False),
    "xbps-query": Program(only("-l -m", needs="-l -m", operands=0), reads=False),
    "zypper": _asks("lr repos", "-u -d -p --uri --details"),
}
