"""Programs of which only one question is harmless: which version are you, and how are you used.

Programs that load something out of the project before they answer are missing on purpose: pytest imports
`conftest.py`, yarn and pnpm run the version that the project names, rustup's cargo and rustc the toolchain, maven
and sbt take options of the Java machine, flake8, rubocop, composer and bundler load plugins.
"""

from __future__ import annotations

_LONG = """
    R ag apt apt-get awk aws bash bat batcat black brew btm bzip2 cat chmod clang clang++ cmake conda convert cp crystal
    curl dart dash delta deno docker docker-compose emacs exa eza fd fdfind ffmpeg ffprobe find fish fzf g++ gawk gcc
    gcloud gdb gem gh ghc git gofmt grep gunzip gzip head helm hexyl htop hyperfine isort java javac jq julia kubectl ld
    ldd less ls lsd lua luajit make mamba meson minikube mkdir mv mypy mysql nano nginx ninja node nodejs npm npx nvim
    ocaml openssl pandoc perl pg_dump php pip pip3 podman psql pypy3 python python2 python3 redis-cli redis-server rg rm
    rsync ruby ruff sd sed sh shellcheck snap sort sqlite3 ssh svn swift systemctl tar terraform tmux tokei touch tree
    tsc unzip uv vim virtualenv wc wget xargs xz yq zig zip zsh zstd
"""
QUESTIONS: dict[str, frozenset[str]] = {name: frozenset({"--version"}) for name in _LONG.split()}
"""The single word that each may be given."""

_HELP = """
    black cat chmod cp curl docker find gh git grep head jq kubectl ls make mkdir mv mypy node pip pip3 python
    python3 rg rm rsync ruff sed sort tar touch uv wc wget xargs
"""
for _name in _HELP.split():
    QUESTIONS[_name] |= {"--help"}

_SHORT = {
    "-v": "gcc g++ httpd apache2 haproxy nasm node nodejs npm npx docker php perl ruby make gem tsc nginx lua",
    "-version": "xcodebuild java javac terraform",
    "version": "consul nomad vault docker helm kubectl openssl terraform minikube",
    "-VV": "python python3",
    "-V": "python python2 python3 ssh tmux rg deno ruff uv nginx",
    "--ini": "php",
    "-m": "php",
    "-V:version": "perl",
    "--list-sdks": "dotnet",
    "--list-runtimes": "dotnet",
    "-dumpversion": "gcc g++",
    "-dumpmachine": "gcc g++",
    "ping": "redis-cli",
    "info": "redis-cli",
    "-l": "psql",
    "--print-path": "xcode-select",
    "-p": "xcode-select",
}
for _word, _names in _SHORT.items():
    for _name in _names.split():
        QUESTIONS[_name] = QUESTIONS.get(_name, frozenset()) | {_word}
