"""Programs of which only one question is harmless: which version are you, and how are you used.

Some load something out of the project before they answer: yarn and pnpm run the version that the project names, maven
takes options of the Java machine, flake8 loads plugins. What they obey is in `obeyed`, and is looked at first. Those
that obey too much to be looked at are missing on purpose: pytest imports `conftest.py` and whatever its many settings
name, sbt and lein evaluate the project, flask imports the application to say how it is used.
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

_MORE = """
    age aria2c asciidoctor asdf atlantis autopep8 aws-vault bandit bazel bazelisk bear bibtex biber blender
    boundary borg
    buildah bundle bundler bwrap cargo cargo-clippy cargo-fmt ccache cdk cilium clang-tidy clangd clippy-driver
    clisp cobc colima composer containerd cookiecutter coqc corepack cosign coverage cpack cpp cppcheck crane crun ctest
    cursor devbox direnv distcc dive django-admin dmd dockerd dotnet doctl doxygen dpkg dune dust dvc eksctl elixir
    envoy exiftool expo fastboot firebase firejail flake8 flatpak flutter flux fly flyctl fnm gcov gdal-config gdc gh
    ghci ghcup gitleaks gitui glab gleam gnuplot goreleaser gpg gpg2 gradle grpcurl grunt grype guile gunicorn
    hatch hcloud heroku hg hub hx idris2 iex inkscape infracost iperf3 irb istioctl jar jekyll jest jshell just k6 kops
    kubeadm kubelet lake latexmk lazydocker lazygit lean lerna libtool limactl linkerd lld lualatex luarocks lxc m4
    mariadb maxima mdbook memcached mise mix mkdocs mlflow mold mongo mongodump mosh multipass mvn mvnd mysqladmin
    mysqldump nasm netlify next nerdctl ng nim nix-env nix-shell nm nmap nox nu nx objdump octave oci odin patch pdm
    pg_config pg_ctl pg_restore phpunit pip-compile pipenv pipx pkg-config pm2 pnpm poetry postgres procs protoc-gen-go
    puppet pwsh pyenv pylint qemu-img qpdf rails raku rake ranlib rbenv readelf rollup rubocop runc rust-analyzer rustc
    rustdoc rustfmt rustup sage sam sccache scala scalac skaffold skopeo snakemake sops sphinx-build starship stern
    streamlit strip subl supabase swipl syft task tclsh tectonic terragrunt tesseract tex tflint tfsec tilt tokei tox
    trivy trunk turbo twine typst uvicorn uvx vagrant valgrind vercel virsh vite vitest volta vue watchexec webpack
    wrangler xh xmllint xsltproc yamllint yapf yarn yarnpkg zoxide ansible ansible-config ansible-doc ansible-galaxy
    ansible-lint ansible-playbook packer act actionlint alembic cpanm cypress jupyter nvm playwright pod rspec
    storybook
"""
for _name in _MORE.split():
    QUESTIONS[_name] = QUESTIONS.get(_name, frozenset()) | {"--version"}
_NO_HELP = frozenset("bazel bazelisk hub mix nginx rails script tclsh vagrant".split())
"""Programs that know no such word, or load the project to answer it."""
for _name in set(QUESTIONS) - _NO_HELP:
    QUESTIONS[_name] |= {"--help"}

_PYTHONS = " ".join(f"python3.{minor}" for minor in range(7, 16))
_SHORT = {
    "--version": _PYTHONS,
    "-v": """
    gcc g++ httpd apache2 haproxy nasm node nodejs npm npx docker php perl ruby make gem tsc nginx lua luajit julia bun
    clang pdftotext screen ollama yarn pnpm mvn gradle elixir pm2 rbenv pyenv composer irb apachectl dig air
    """,
    "-version": """
    xcodebuild java javac terraform kotlin kotlinc ant ocaml ffmpeg ffprobe convert identify magick staticcheck mvn
    scala scalac erl ocamlc vegeta grpcurl shfmt actionlint
    """,
    "version": """
    consul nomad vault docker helm kubectl openssl terraform minikube adb caddy dlv hugo k9s kustomize pulumi
    rclone restic swiftlint tofu zig asdf boundary cilium colima cosign crane devbox direnv doctl eksctl etcdctl
    flux fly flyctl gopls grype hcloud helmfile istioctl k3d k6 kind kompose kops kubeadm limactl linkerd multipass
    packer skaffold syft terragrunt tilt traefik gitleaks trivy conftest opa ng ruff
    """,
    "-VV": "python python3",
    "-V": f"""
    python python2 python3 ssh tmux rg deno ruff uv nginx pip pip3 cabal dot strace {_PYTHONS} cargo
    rustc rustup rustfmt poetry pdm just task memcached ab socat varnishd fd bat sd tokei hyperfine cargo-clippy""",
    "-h": """
    gofmt python python3 npm cargo rustup uv ruff pip pip3 docker kubectl helm gh terraform poetry black mypy
    cmake tsc deno bun jq yq
    rg fd bat ffmpeg composer pdm hatch flake8 pylint pipenv
    """,
    "--list": "cargo",
    "-help": "terraform tofu packer consul nomad vault",
    "-ver": "exiftool",
    "--info": "dotnet",
    "-vV": "rustc cargo",
    "-Vv": "rustc cargo",
    "--list-extensions": "code cursor",
    "-iV": "fpc",
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
    "--help": "7z 7za",
    "ls": "tmux",
    "list-sessions": "tmux",
    "-ls": "screen",
    "-list": "screen",
}
for _word, _names in _SHORT.items():
    for _name in _names.split():
        QUESTIONS[_name] = QUESTIONS.get(_name, frozenset()) | {_word}

_EXPLAINS_VERBS = frozenset(
    "apt apt-get az brew gcloud gem npm pip pip3 podman poetry ruff rustup terraform tofu uv".split()
)
"""Programs that answer `verb --help` themselves, whatever the verb does otherwise."""
_OWN_VERBS = {
    "cargo": """
    add bench build check clean clippy doc fetch fix fmt init install metadata new package publish remove run rustc
    search test tree uninstall update vendor
    """,
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
    r"(?:az|gcloud|gh) \w+|npm config|uv (?:pip|python|tool)"
    r"|docker (?:builder|buildx|compose|container|context|image|network|system|volume)"
)
_NAMED = re.compile(
    r"brew --(?:prefix|cellar|cache|caskroom) [a-z0-9][a-z0-9+_-]*(?:@[0-9.]+)?"
    r"|cargo (?:--version --verbose|-V -v)|(?:terraform|tofu) [a-z]+ -help|openssl version -[av]"
)
"""Questions of two words."""
_VERB = re.compile(r"[a-z][a-z-]*")


def is_question(name: str, words: Sequence[Word]) -> bool:
    """Whether a program is asked nothing but its version, or how it is used."""
    if not all(word.exact for word in words):
        return False
    *verbs, last = [word.text for word in words] or [""]
    if not verbs:
        return last in QUESTIONS.get(name, ())
    if _NAMED.fullmatch(" ".join((name, *verbs, last))):
        return True
    nested = _OF_TWO_WORDS.fullmatch(f"{name} {verbs[0]}") is not None
    own = name in _EXPLAINS_VERBS or verbs[0] in _OWN_VERBS.get(name, "").split()
    known = own and len(verbs) <= (2 if nested else 1)
    return known and last == "--help" and all(map(_VERB.fullmatch, verbs))
