"""Programs of which only one question is harmless: which version are you, and how are you used."""

from __future__ import annotations

_LONG = """
    R ag apt apt-get awk aws bash black brew bun bundle bzip2 cargo cat chmod clang clang++ cmake composer conan
    conda convert cp crystal curl cypress dart dash deno docker docker-compose dotnet elixir emacs eslint ffmpeg
    ffprobe find fish flake8 flutter fzf g++ gawk gcc gcloud gdb gem gh ghc git go gofmt gradle grep groovy
    gunzip gzip head helm htop hugo isort java javac jest jq julia kotlin kotlinc kubectl less ls lua luajit
    make mamba meson minikube mkdir mv mvn mypy mysql nano nginx ninja node nodejs npm npx nvim ocaml openssl
    perl pg_dump php pip pip3 pipenv pnpm podman poetry prettier psql pylint pypy3 pyright pytest python python2
    python3 redis-cli redis-server rg rm rsync rubocop ruby ruff rustc rustfmt rustup sbt scala sed sh
    shellcheck snap sort sqlite3 ssh stack svn swift systemctl tar terraform tmux touch tree ts-node tsc tsx
    unzip uv vim virtualenv vite vitest wc wget xargs xz yarn yq zig zip zsh zstd
"""
QUESTIONS: dict[str, frozenset[str]] = {name: frozenset({"--version"}) for name in _LONG.split()}
"""The single word that each may be given."""

_HELP = """
    black cargo cat chmod cp curl docker find gh git go grep head jq kubectl ls make mkdir mv mypy node npm pip
    pip3 poetry pytest python python3 rg rm rsync ruff sed sort tar touch uv wc wget xargs
"""
for _name in _HELP.split():
    QUESTIONS[_name] |= {"--help"}

_SHORT = {
    "-V": "python python2 python3 rustc cargo pytest ssh tmux rg deno ruff uv",
    "-v": "node nodejs npm npx yarn pnpm docker php perl ruby make gem java bun tsc eslint prettier nginx",
    "-version": "java javac ant terraform",
    "version": "docker go helm kubectl openssl terraform hugo minikube",
    "-VV": "python python3",
}
for _word, _names in _SHORT.items():
    for _name in _names.split():
        QUESTIONS[_name] = QUESTIONS.get(_name, frozenset()) | {_word}
