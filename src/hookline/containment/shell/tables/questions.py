"""Programs of which only one question is harmless: which version are you, and how are you used.

Programs that load something out of the project before they answer are missing on purpose: pytest imports
`conftest.py`, yarn and pnpm run the version that the project names, rustup's cargo and rustc the toolchain, `dotnet`
the kit that `global.json` names, bazel its wrapper in the project, jest and webpack the copy in the project, maven and
sbt take options of the Java machine, flake8, rubocop, composer, bundler and hg load plugins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hookline.containment.shell.words import Word

_LONG = """
    R Rscript adb ag apt apt-get as autoconf automake awk aws az bash bat batcat bison black brew btm buf bun bzip2 c++
    cabal cat cc chmod clang clang++ clang-format claude cmake code codex conda convert cp crystal curl dart dash delta
    deno docker docker-compose emacs eslint exa eza fd fdfind ffmpeg ffprobe find fish flex fzf g++ gawk
    gcc gcloud gdb gem gfortran gh ghc git gofmt grep groovy gs gunzip gzip hadolint head helm hexyl htop
    hyperfine identify isort java javac jq julia kubectl latex ld ldd less lldb ls lsd ltrace lua luajit magick make
    mamba meson minikube mkdir mongod mongosh mono mv mypy mysql nano nginx ninja nix node nodejs npm npx nvcc nvim
    ocaml ollama opam openssl pandoc parallel pdflatex perl pg_dump php pip pip3 podman pre-commit prettier
    protoc psql pypy3 python python2 python3 racket redis-cli redis-server rg rm rsync ruby ruff sbcl screen script sd
    sed sh shellcheck shfmt snap sort split sqlite3 ssh stack strace svn swift swiftc systemctl tar terraform tmux tofu
    tokei touch tree tsc unzip upower uv vim vimdiff virtualenv wasm-pack watch wc wget xargs xcrun xelatex xz yq zig
    zip zsh zstd
"""
QUESTIONS: dict[str, frozenset[str]] = {name: frozenset({"--version"}) for name in _LONG.split()}
"""The single word that each may be given."""

_HELP = """
    apt apt-get bash black cat chmod cmake conda cp curl docker find gcc gh git grep gzip head helm jq kubectl ls make
    mkdir mv mypy node perl php pip pip3 podman psql python python3 rg rm rsync ruby ruff sed shellcheck sort split
    strace systemctl tar terraform touch tsc uv vim virtualenv wc wget xargs zip zsh
"""
for _name in _HELP.split():
    QUESTIONS[_name] |= {"--help"}

_PYTHONS = " ".join(f"python3.{minor}" for minor in range(7, 16))
_SHORT = {
    "--version": _PYTHONS,
    "-v": """
    gcc g++ httpd apache2 haproxy nasm node nodejs npm npx docker php perl ruby make gem tsc nginx lua luajit julia bun
    clang pdftotext screen ollama
    """,
    "-version": """
    xcodebuild java javac terraform kotlin kotlinc ant ocaml ffmpeg ffprobe convert identify magick staticcheck
    """,
    "version": """
    consul nomad vault docker helm kubectl openssl terraform minikube adb caddy dlv hugo k9s kustomize pulumi
    rclone restic swiftlint tofu zig
    """,
    "-VV": "python python3",
    "-V": f"python python2 python3 ssh tmux rg deno ruff uv nginx pip pip3 cabal dot strace {_PYTHONS}",
    "-h": "gofmt",
    "--ini": "php",
    "-m": "php",
    "-V:version": "perl",
    "--list-sdks": "dotnet",
    "--list-runtimes": "dotnet",
    "-dumpversion": "gcc g++",
    "-dumpmachine": "gcc g++",
    "ping": "redis-cli",
    "info": "redis-cli",
    "dbsize": "redis-cli",
    "-l": "psql bind trap",
    "-a": "enable",
    "-p": "xcode-select trap",
    "--print-path": "xcode-select",
    "-q": "nix-env",
    "list": "ollama",
    "ps": "ollama",
    "--hardware": "numactl",
    "--prefix": "brew",
    "--cellar": "brew",
    "--repository": "brew",
    "--cache": "brew",
    "installed": "port",
    "ls": "tmux",
    "list-sessions": "tmux",
    "-ls": "screen",
    "-list": "screen",
}
for _word, _names in _SHORT.items():
    for _name in _names.split():
        QUESTIONS[_name] = QUESTIONS.get(_name, frozenset()) | {_word}

_EXPLAINS_VERBS = frozenset("apt apt-get pip pip3 podman ruff terraform uv".split())
"""Programs that answer `verb --help` themselves, whatever the verb does otherwise."""
_OWN_VERBS = {
    "conda": "activate clean compare config create deactivate env info init install list remove run search update",
    "docker": """
    attach build builder buildx commit compose container context cp create diff events exec export history image images
    import info inspect kill load login logout logs manifest network pause plugin port ps pull push rename restart rm
    rmi run save search start stats stop swarm system tag top unpause update version volume wait
    """,
    "gh": """
    api attestation auth browse cache codespace config gist gpg-key issue label org pr project release repo ruleset run
    search secret ssh-key status variable workflow
    """,
    "helm": """
    completion create dependency env get history install lint list package plugin pull push registry repo rollback
    search show status template test uninstall upgrade verify version
    """,
    "kubectl": """
    annotate api-resources api-versions apply attach auth autoscale certificate cluster-info completion config cordon cp
    create debug delete describe diff drain edit events exec explain expose get kustomize label logs patch port-forward
    proxy replace rollout run scale set taint top uncordon version wait
    """,
}
"""Programs to which others are added under verbs of their own: `gh push --help` runs what an alias says."""
_OF_TWO_WORDS = re.compile(
    r"gh \w+|docker (?:builder|buildx|compose|container|context|image|network|system|volume)"
)
_VERB = re.compile(r"[a-z][a-z-]*")


def is_question(name: str, words: Sequence[Word]) -> bool:
    """Whether a program is asked nothing but its version, or how it is used."""
    if not all(word.exact for word in words):
        return False
    *verbs, last = [word.text for word in words] or [""]
    if not verbs:
        return last in QUESTIONS.get(name, ())
    nested = _OF_TWO_WORDS.fullmatch(f"{name} {verbs[0]}") is not None
    own = name in _EXPLAINS_VERBS or verbs[0] in _OWN_VERBS.get(name, "").split()
    known = own and len(verbs) <= (2 if nested else 1)
    return known and last == "--help" and all(map(_VERB.fullmatch, verbs))
