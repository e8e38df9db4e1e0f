"""What programs obey of the project they stand in, though they are only asked to look.

A name stands here because the program, asked nothing but its version or what there is, starts, loads or fetches what
that file says: another version of itself, a plugin, a wrapper, options of its Java machine.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise

from hookline.containment.shell.project import (
    Obeyed,
    Test,
    holds_only,
    lacks,
    never,
    says_nothing_of,
)
from hookline.containment.shell.tables.compose import obeyed_by_compose
from hookline.containment.shell.words import Word


def _all(names: str, test: Test = never) -> dict[str, Test]:
    return dict.fromkeys(names.split(), test)


_NOTHING: Obeyed = {}

# --- JavaScript -----------------------------------------------------------------------------------

_NPMRC = holds_only(  # no registry, no program, no variable that is put in
    r"\s*(?:[#;].*|(?:save-exact|save-prefix|engine-strict|legacy-peer-deps|strict-peer-dependencies|fund|audit"
    r"|auto-install-peers|shamefully-hoist|progress|package-lock|lockfile|prefer-offline|update-notifier|color"
    r"|ignore-scripts|link-workspace-packages|resolution-mode|node-linker)\s*=\s*[\w.^~-]*)?\s*"
)
_WORKSPACE = holds_only(r"""\s*(?:#.*|packages:|-\s*["']?[\w./*!-]+["']?)?\s*""")
_NPM: Obeyed = {".npmrc": _NPMRC}
_COREPACK: dict[str, Test] = {  # starts the version that a project names
    **_NPM,
    **_all(".corepack.env"),
    "package.json": says_nothing_of("packageManager", "devEngines", "pnpm"),
}
_YARN: Obeyed = {**_COREPACK, **_all(".yarnrc .yarnrc.yml .yarn .pnp.cjs .pnp.js .pnp.loader.mjs")}
_PNPM: Obeyed = {
    **_COREPACK,
    **_all(".pnpmfile.cjs .pnpmfile.mjs pnpmfile.js pnpmfile.cjs package.json5 package.yaml"),
    **_all("pnpm-workspace.yaml pnpm-workspace.yml", _WORKSPACE),
}
_BUN: Obeyed = {**_NPM, **_all("bunfig.toml .bunfig.toml"), ".env": lacks("(?i)BUN|NODE|NPM|PROXY")}
_NODE: Obeyed = {
    **_all("node_modules .pnp.cjs .pnp.js"),
    "package.json": says_nothing_of("exports"),
}
"""Programs that start their own copy in the project: the project itself may be called like it, and export one."""
_NODE_NAMES = """
    cdk cypress expo firebase grunt jest lerna netlify next ng nx playwright rollup storybook turbo vercel vite
    vitest vue webpack wrangler
"""

# --- Rust, Go, Python, Ruby, PHP, Java ------------------------------------------------------------

_CARGO_WORDS = "(?i)alias|rust|wrapper|doc|credential|linker|runner|include|env|proxy|regist|source|path|[\\\\]"
_RUST: Obeyed = {
    **_all("rust-toolchain rust-toolchain.toml"),
    **_all(".cargo/config .cargo/config.toml", lacks(_CARGO_WORDS)),
}
_CRATE: Obeyed = {**_RUST, **_all("Cargo.toml")}
_RUST_NAMES = (
    "cargo rustc rustup rustdoc rustfmt rust-analyzer clippy-driver cargo-clippy cargo-fmt"
)
_GO: Obeyed = {"go.mod": lacks("require|replace|tool"), **_all("go.work")}
"""With a requirement it may ask the host that the project names for it."""
_VERSION = holds_only(r"\s*(?:#.*|(?:cpython|pypy|python)?[-@]?[0-9]+(?:\.[0-9]+)*)?\s*")
_UV_WORDS = (
    r"(?i)python-downloads|install-mirror|cache-dir|\\[ux]"
    r"|(?<![\w-])[\"']?python[\"']?\s*=(?!\s*[\"'][\^~<>=!]*[0-9][0-9.,<>=!^~* ]*[\"'])"
)
"""Where another Python comes from, what is written to, and a Python that is no version."""
_UV: Obeyed = {
    **_all(".venv"),
    **_all(".python-version .python-versions", _VERSION),
    **_all("uv.toml pyproject.toml", lacks(_UV_WORDS)),
}
"""It starts the interpreter that it finds, and learns from an address what others there are."""
_BUNDLER: Obeyed = _all("Gemfile gems.rb Gemfile.lock gems.locked .bundle _plugins")
_JVM: Obeyed = _all(".mvn")

OBEYED: dict[str, Obeyed] = {
    **dict.fromkeys(("npm", "npx --help"), _NPM),
    **dict.fromkeys(("npm --version", "npm -v", "bun --version", "bun -v"), _NOTHING),
    **dict.fromkeys(("yarn", "yarnpkg"), _YARN),
    "pnpm": _PNPM,
    "bun": _BUN,
    **dict.fromkeys(_NODE_NAMES.split(), _NODE),
    "cdk": {**_NODE, **_all("cdk.json")},
    "nx": {**_NODE, **_all(".nx")},
    "turbo": {**_NODE, **_all(".yarn .yarnrc.yml")},
    "wrangler": {**_NODE, **_all(".env .env.*")},  # they may say where it sends the user's token
    **dict.fromkeys(_RUST_NAMES.split(), _RUST),
    "rustup toolchain": _NOTHING,
    "go doc": _GO,
    **dict.fromkeys(("uv pip", "uv tree", "uv python", "uv version", "uvx"), _UV),
    "poetry": {**_all(".poetry poetry.toml"), "pyproject.toml": lacks(r"(?i)plugin|\\")},
    "pdm": _all(".pdm-plugins .pdm-python pdm.toml .pdm.toml"),
    "tox": _all("toxfile.py \N{BIOHAZARD SIGN}.py"),
    "flake8": {
        **_all("setup.cfg tox.ini .flake8", lacks("(?i)local")),
        "pyproject.toml": lacks(r"(?i)local.plugin|\\u"),
    },
    "pylint": {
        **_all("pylintrc .pylintrc pylintrc.toml .pylintrc.toml"),
        **_all("pyproject.toml setup.cfg tox.ini", lacks(r"(?i)pylint|\\")),
    },
    **dict.fromkeys(("bundle", "bundler", "jekyll"), _BUNDLER),
    "rails": {**_BUNDLER, **_all("bin/rails script/rails")},
    "rubocop": _all(".rubocop .rubocop.yml"),
    "composer": _all("composer.json composer.lock vendor"),
    **dict.fromkeys(("mvn", "mvnd"), _JVM),
    "gradle": _all("gradle.properties gradle/gradle-daemon-jvm.properties"),
    "dotnet": {"global.json": lacks(r"(?i)paths|\\"), **_all("dotnet.config")},
    **dict.fromkeys(("elixir", "iex", "mix", "erl"), _all(".erlang")),
    **dict.fromkeys(("bazel", "bazelisk"), _all(".bazelversion .bazeliskrc .bazelrc tools/bazel")),
    **dict.fromkeys(("lean", "lake"), _all("lean-toolchain")),
    "hg": _all(".hg"),
    "tclsh": _all("--version --help"),  # to it these are scripts
    "valgrind": _all(".valgrindrc"),
    "latexmk": _all("latexmkrc .latexmkrc"),
    "exiftool": _all(".ExifTool_config"),
    "opam": _all("_opam"),
    "luarocks": _all(".luarocks"),
    "mise": {
        **_all(
            "mise.toml .mise.toml mise.local.toml .mise.local.toml .mise mise .config/mise .config/mise.toml"
        ),
        ".tool-versions": lacks("[{}]"),
    },
    "volta": _all(".volta/hooks.json"),
    "trunk": _all(".trunk"),
    "packer": _all("packer-*"),
    "supervisorctl": _all("supervisord.conf etc/supervisord.conf"),
    "rspec": _all(".rspec .rspec-local"),
    "act": _all(".actrc"),
    "tflint": _all(".tflint.hcl .tflint.d"),
    **dict.fromkeys(
        (
            "ansible",
            "ansible-doc",
            "ansible-config",
            "ansible-galaxy",
            "ansible-playbook",
            "ansible-lint",
        ),
        _all("ansible.cfg"),
    ),
    **dict.fromkeys(
        ("terraform workspace", "terraform state", "terraform providers"),
        _all(".terraform/terraform.tfstate"),
    ),
    **dict.fromkeys(
        ("tofu workspace", "tofu state", "tofu providers"), _all(".terraform/terraform.tfstate")
    ),
    "glab": {".git": os.path.isdir, **_all(".git/glab-cli")},
}
"""By program, or by program and verb."""

_RESOLVES: dict[str, Obeyed] = {
    **dict.fromkeys(("cargo tree", "cargo metadata"), _CRATE),
    "uv tree": {**_UV, **_all("pyproject.toml uv.lock")},
    "poetry show": {**OBEYED["poetry"], **_all("pyproject.toml poetry.lock")},
}
"""Verbs that fetch what a project requires, make an environment for it or write a lock: not without a project."""
_AS_IT_IS = frozenset({"--frozen", "--no-deps"})
"""Options with which they take what is there."""

OWN = frozenset(
    """
    .npmrc .yarnrc .yarnrc.yml .yarn .bunfig.toml .cargo/config .cargo/config.toml .bundle .erlang .valgrindrc
    .latexmkrc
    .ExifTool_config .luarocks .config/mise .config/mise.toml .tool-versions .volta/hooks.json .rubocop.yml .pylintrc
    .pylintrc.toml .mise .rspec .actrc
    """.split()
)
"""What in the home itself is the user's own configuration."""

_BEFORE_VERBS = frozenset({"-q", "-v"})
"""Options that may stand between a program and its verb."""


def _is_global(words: Sequence[Word]) -> bool:
    """Npm reads nothing of the project if it is asked about what belongs to none."""
    pairs = pairwise(word.text for word in words)
    return any(one in {"-g", "--global"} and not before.startswith("-") for before, one in pairs)


def obeyed_by(name: str, words: Sequence[Word]) -> Obeyed | None:
    """What a program obeys when it is given some words."""
    texts = [word.text for word in words]
    verb = next((text for text in texts if text not in _BEFORE_VERBS), "".join(texts[:1]))
    if f"{name} {verb}" == "docker compose" or name == "docker-compose":
        return obeyed_by_compose(words[1 if name == "docker" else 0 :])
    resolves = _RESOLVES.get(f"{name} {verb}")
    if resolves and not any(word.text in _AS_IT_IS for word in words):
        return resolves
    obeyed = OBEYED.get(f"{name} {verb}", OBEYED.get(name))
    return None if obeyed is _NPM and _is_global(words) else obeyed or None
