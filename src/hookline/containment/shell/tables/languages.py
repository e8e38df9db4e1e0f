"""Package managers and version managers of languages: what is there, never installing or resolving.

Most obey the project they stand in; what of it would make them do more is in `obeyed`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hookline.containment.shell.options import Call, Options, Program, only
from hookline.containment.shell.tables.checks import first_word, plain_names

_NONE = only(operands=0)
_PACKAGE = r"(?:@[\w.-]+/)?[\w.-]+(?:@[\w.^~-]+)?"


def with_verbs(verbs: Mapping[str, Options | Program], globals_: str = "") -> Program:
    """A manager with options before its verbs."""
    return Program(only(globals_), verbs, reads=False)


def _same(verbs: str, options: Options) -> dict[str, Options | Program]:
    """Verbs with the same options. A verb of two words is written with a star between them."""
    return {verb.replace("*", " "): options for verb in verbs.split()}


# --- JavaScript -----------------------------------------------------------------------------------

_NPM_FLAGS = """
    -g -a -l -p -s --global --json --long --parseable --all --link --silent --no-color --color --no-unicode
    --no-update-notifier -h --help --prod --production --dev --workspaces --include-workspace-root
"""
_NPM_LISTS = only(
    _NPM_FLAGS,
    texts="--depth --omit --include -w --workspace",
    bundles=False,
    check=plain_names(_PACKAGE),
)
_NPM_ASKS = only("--json --silent --no-color", bundles=False, check=plain_names(_PACKAGE))
"""Asks the registry, which learns the names; another one than the user's own only a project could name."""
_SETTING = r"(?![\w-]*(?:auth|pass|key|cert|proxy|token|otp|email))[a-z][a-z-]*"
"""The name of a setting that is no secret, and no address with a password in it."""


def _no_news(call: Call) -> str | None:
    """Some selectors ask the registry."""
    asks = any(re.search("outdated|vuln", text) for text in call.texts)
    return "it may use the network" if asks else None


_NPM = with_verbs(
    {
        **_same("ls list ll la root prefix bin explain why", _NPM_LISTS),
        **_same("run run-script", only("--json", operands=0)),
        **_same(
            "config*get get", only("--json -g --global", bundles=False, check=plain_names(_SETTING))
        ),
        **_same("config*list config*ls", only("--json -l --long", operands=0, bundles=False)),
        "pkg get": only("--json", bundles=False, check=plain_names(r"[\w.\[\]@/-]+")),
        "query": only("--json", bundles=False, operands=1, check=_no_news),
        **_same("help version completion", _NONE),
        **_same("view info show", _NPM_ASKS),
        "outdated": _NPM_LISTS,
    }
)
_YARN = with_verbs(  # `list` and `why` resolve what is missing, over the network
    {
        "config get": only("--json", bundles=False, check=plain_names(_SETTING)),
        **_same(
            "versions bin workspaces*info workspaces*list",
            only("--json", operands=0, bundles=False),
        ),
        "cache dir": _NONE,
    }
)
_PNPM_LISTS = only(
    "-g -r -D -P --global --recursive --json --long --parseable --dev --prod --no-optional --only-projects -h --help",
    texts="--depth",
    bundles=False,
    check=plain_names(_PACKAGE),
)
_PNPM = with_verbs(
    {
        **_same("ls list ll la why", _PNPM_LISTS),
        **_same("root bin", only("-g --global", operands=0)),
        "config get": only("--json", check=plain_names(_SETTING)),
        **_same("store*path help", _NONE),
    }
)

# --- Rust, Go -------------------------------------------------------------------------------------

_CARGO_TREE = only(
    "--frozen -q -v -d --duplicates --all-features --no-default-features --workspace --no-dedupe",
    texts="-p --package -i --invert --depth -e --edges --prefix -F --features -f --format --charset",
    operands=0,
)
_CARGO_VERBS = """
    add bench build check clean clippy doc fetch fix fmt generate-lockfile init install locate-project login metadata
    new owner package pkgid publish remove report run rustc rustdoc search test tree uninstall update vendor version
    yank
"""
_CARGO = with_verbs(
    {
        "tree": _CARGO_TREE,
        "metadata": only(
            "--no-deps --frozen --offline --locked -q",
            texts="--format-version",
            operands=0,
        ),
        **_same("locate-project", only("--workspace", texts="--message-format", operands=0)),
        **_same("pkgid read-manifest", only(operands=0)),
        "install": only("--list", needs="--list", operands=0),
        "search": only("-q", texts="--limit", check=plain_names(r"[A-Za-z][\w-]*")),
        **_same("version", only("-v --verbose", operands=0)),
        "help": only(operands=1, check=first_word("|".join(_CARGO_VERBS.split()), needed=False)),
    },
    "-q -v",
)
_RUSTUP = with_verbs(
    {
        "toolchain list": only("-v -q --verbose --quiet", operands=0),
        **_same(
            "show show*active-toolchain show*home show*profile", only("-v --verbose", operands=0)
        ),
        **_same(
            "target*list component*list",
            only("--installed -q --quiet", operands=0),
        ),
        **_same("default override*list", _NONE),  # with a name, the first is a setting
        "which": only(operands=1, check=plain_names()),
    }
)
_RUSTC_PRINTS = """
    cfg sysroot target-list target-cpus target-features host-tuple target-libdir crate-name file-names
    calling-conventions
"""
_RUSTC = Program(
    only(
        "-v -V -vV --verbose --version",
        texts="--print --explain --target",
        needs="--print --explain -V -vV --version",
        operands=0,
        check=lambda call: (
            None
            if all(value in _RUSTC_PRINTS.split() for value in call.values("--print"))
            else "it may write a file"
        ),
    ),
    reads=False,
)
_GO = (
    with_verbs(  # it may fetch the version that `go.mod` names, but no other than Go's own, checked
        {
            "version": only("-m -v", bundles=False),
            "env": only("-json -changed", bundles=False, check=plain_names("[A-Z0-9_]+")),
            "help": only(bundles=False),
            "doc": only(
                "-all -c -cmd -short -src -u", bundles=False, check=plain_names(r"[A-Za-z][\w./-]*")
            ),
        }
    )
)

# --- Python ---------------------------------------------------------------------------------------

_UV_LISTS = only(
    "-q -v --quiet --verbose -e --editable --exclude-editable --system --strict --offline --no-python-downloads",
    texts="--format --exclude --color",
)
_UV = with_verbs(
    {
        **_same("pip*list pip*freeze pip*check", _UV_LISTS),
        "pip show": only("-q -v -f --files --system --strict --offline", check=plain_names()),
        "pip tree": only(
            "--system --strict --no-dedupe --invert --offline", texts="-d --depth --package --prune"
        ),
        "tree": only(
            "--frozen --no-dev --universal --no-dedupe --invert --all-groups",
            texts="-d --depth --package --prune",
            operands=0,
        ),
        "python find": _NONE,
        "python list": only(
            "--only-installed --all-versions --all-platforms --offline --no-python-downloads",
            texts="--output-format",
            operands=0,
        ),
        **_same("python*dir tool*dir cache*dir self*version", _NONE),
        "tool list": only(
            "--show-paths --show-version-specifiers --show-with --show-extras", operands=0
        ),
        "version": only("--short", texts="--output-format", operands=0),  # with a value it is set
        "help": only(check=plain_names("[a-z-]+")),
    }
)
_POETRY = with_verbs(
    {
        "version": only("-s --short", operands=0),
        **_same("about list", _NONE),
        "check": only("--lock --strict", operands=0),
        "show": only("-t -l -T --tree --top-level --no-dev", check=plain_names()),
        "config": only("--list --local", needs="--list", operands=0),
    }
)
_PIPDEPTREE = only(
    "-a -e -f -j -l -r -u --all --freeze --json --json-tree --local-only --reverse --user-only --mermaid",
    texts="-d -p --depth --packages --exclude -w --warn",
    operands=0,
)

# --- version managers -----------------------------------------------------------------------------

_ENVS = with_verbs(
    {
        **_same(
            "versions version list root shims commands hooks version-name version-file",
            only("--bare", operands=0),
        ),
        **_same("local global", _NONE),
        "which": only(operands=1, check=plain_names()),
        "prefix": only(operands=1, check=plain_names()),
    }
)
_NAMES = only(check=plain_names())
_MANAGERS: dict[str, Program] = {
    **dict.fromkeys(("pyenv", "rbenv", "nodenv", "goenv", "jenv", "tfenv", "plenv"), _ENVS),
    "asdf": with_verbs({**_same("list current where which plugin*list", _NAMES), "version": _NONE}),
    "mise": with_verbs(
        {
            **_same(
                "ls list current",
                only("-i -c -g --installed --current --global --json", check=plain_names()),
            ),
            **_same("plugins*ls where which version", _NAMES),
        }
    ),
    "volta": with_verbs(
        {
            **_same(
                "list ls", only("-c -d --current --default", texts="--format", check=plain_names())
            )
        }
    ),
    "fnm": with_verbs(_same("list ls current", _NONE)),
    "sdk": with_verbs({"current": _NAMES, "version": _NONE}),
}

LANGUAGES: dict[str, Program] = {
    **_MANAGERS,
    "npm": _NPM,
    **dict.fromkeys(("yarn", "yarnpkg"), _YARN),
    "pnpm": _PNPM,
    "bun": with_verbs(
        {
            **_same("pm*ls", only("-a --all", operands=0)),
            **_same("pm*bin pm*cache", only("-g", operands=0)),
        }
    ),
    "cargo": _CARGO,
    "rustup": _RUSTUP,
    "rustc": _RUSTC,
    "go": _GO,
    "uv": _UV,
    "poetry": _POETRY,
    "deno": with_verbs({"info": only("--json", operands=0)}),
    "dotnet": with_verbs(
        {
            "tool list": only("-g --global", operands=0),
            **_same("workload*list sln*list", _NONE),
            "nuget list source": only(texts="--format", operands=0),
        }
    ),
    "ghc-pkg": with_verbs({"list": only("--global --user --simple-output", check=plain_names())}),
    "bundle": with_verbs(
        {
            "list": only("--name-only --paths", operands=0),
            **_same("show info", only("--path --paths", check=plain_names())),
            "check": _NONE,
        }
    ),
    "composer": with_verbs(
        {
            **_same(
                "show licenses about",
                only("-i -t -D --tree --direct --no-dev", check=plain_names(r"[\w./-]+")),
            ),
        }
    ),
    "pipdeptree": Program(_PIPDEPTREE, reads=False),
    "opam": with_verbs(
        {
            "list": only(
                "-a -i -s --all --installed --short --roots", texts="--columns", check=plain_names()
            ),
            **_same("switch*list switch*show", only("-s --short", operands=0)),
        }
    ),
    "luarocks": with_verbs(
        {
            "list": only("--porcelain", check=plain_names()),
            "show": only("--porcelain", check=plain_names()),
        }
    ),
}
