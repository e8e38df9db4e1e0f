"""Tools that are installed below a home directory build and test projects in the sandbox, beside hidden credentials."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from fake_home import CREDENTIALS, FakeHome
from prepared_ground import ROOT, directory, paths_for, which

from hookline.containment import CommandResult, Sandbox

from .conftest import needs_bubblewrap

pytestmark = [needs_bubblewrap, pytest.mark.timeout(600)]

FETCHED = ROOT / ".system-tools"
SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "calc"
version = "0.1.0"

[tool.uv]
find-links = ["wheels"]
no-index = true
"""


class ToolHome:
    """A home directory in which tools are where their installers put them, and projects to use them on."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.fake = FakeHome(base / "home").make()
        self.home = self.fake.path
        self.local = self.home / ".local" / "bin"
        self.node = self.home / ".nvm" / "versions" / "node" / "v20"
        self.cargo = self.home / ".cargo" / "bin"
        self.npm_prefix = self.home / ".npm-global"
        self.local.mkdir(parents=True)
        if (FETCHED / "wheels").is_dir():
            shutil.copytree(FETCHED / "wheels" / "files", self.home / "wheels")
        self.path = os.pathsep.join(
            map(
                str,
                (self.local, self.node / "bin", self.npm_prefix / "bin", self.cargo, *SYSTEM_PATH),
            )
        )

    def on_host(self, *command: str | Path) -> None:
        """Run an installer, as this user."""
        env = {"HOME": str(self.home), "PATH": self.path, "PIP_CONFIG_FILE": os.devnull}
        done = subprocess.run(command, env=env, cwd=self.home, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def project(self, name: str, files: Mapping[str, str]) -> Path:
        """A project with these files."""
        work = self.home / "projects" / name
        work.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (work / file).parent.mkdir(parents=True, exist_ok=True)
            (work / file).write_text(text)
        return work

    def run(self, work: Path, command: str) -> CommandResult:
        """Run a command in the sandbox around a project."""
        sandbox = Sandbox(work, "required", paths=paths_for(self.base), env={"PATH": self.path})
        return sandbox.run_sync(command, timeout=120)

    # --- where installers put things ------------------------------------------------------------------

    def install_uv(self) -> None:
        """The program, and a Python of its own with a link to it, as `uv python install` makes them."""
        shutil.copy2(os.path.realpath(_needed("uv")), self.local / "uv")
        version = ".".join(map(str, sys.version_info[:3]))
        managed = (
            self.home / f".local/share/uv/python/cpython-{version}-linux-{os.uname().machine}-gnu"
        )
        python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        (managed / "bin").mkdir(parents=True)
        _linked(os.path.realpath(sys.executable), str(managed / "bin" / python))
        _link_tree(Path(sys.base_prefix) / "lib" / python, managed / "lib" / python)
        for library in Path(sys.base_prefix, "lib").glob("libpython*"):
            _linked(str(library), str(managed / "lib" / library.name))
        (self.local / python).symlink_to(managed / "bin" / python)

    def install_with_pipx(self, package: str) -> None:
        """A program in an environment of its own, and a link to it."""
        python = os.path.realpath(sys.executable)
        offline = f"--pip-args=--no-index --find-links {self.home / 'wheels'}"
        self.on_host(_needed("pipx"), "install", "--quiet", "--python", python, offline, package)
        assert (self.local / package).resolve().is_relative_to(self.home / ".local/share/pipx")

    def install_node(self) -> None:
        """Node and npm as nvm puts them, and TypeScript in a prefix for what is installed globally."""
        npm = Path(os.path.realpath(_needed("npm"))).parents[1]
        (self.node / "bin").mkdir(parents=True)
        shutil.copy2(os.path.realpath(_needed("node")), self.node / "bin" / "node")
        shutil.copytree(npm, self.node / "lib/node_modules/npm", symlinks=True)
        for name in ("npm", "npx"):
            (self.node / "bin" / name).symlink_to(f"../lib/node_modules/npm/bin/{name}-cli.js")
        cache = FETCHED / "npm-cache" / "cache"
        if not cache.is_dir():
            pytest.skip("npm's cache was not fetched: run scripts/system_tools.py")
        install = (
            "install",
            "--global",
            "--offline",
            "--prefix",
            self.npm_prefix,
            "--cache",
            cache,
        )
        self.on_host(self.node / "bin" / "npm", *install, "typescript@5.9.3")

    def install_cargo(self) -> None:
        """Cargo as rustup puts it, with its toolchain; without rustup, programs that call the system's."""
        self.cargo.mkdir(parents=True, exist_ok=True)
        rustup = which("rustup")
        if rustup is None:
            for name in ("cargo", "rustc", "rustdoc"):
                program = self.cargo / name
                program.write_text(f'#!/bin/sh\nexec {_needed(name)} "$@"\n')
                program.chmod(0o755)
            return
        for name in ("cargo", "rustc", "rustdoc"):
            shutil.copy2(os.path.realpath(rustup), self.cargo / name)
        asked = subprocess.run(
            ["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True
        )
        source = Path(asked.stdout.strip())
        place = self.home / ".rustup" / "toolchains" / source.name
        for part in ("bin", "lib"):
            _link_tree(source / part, place / part)
        for name in ("downloads", "tmp", "update-hashes"):
            (self.home / ".rustup" / name).mkdir()
        settings = f'version = "12"\ndefault_toolchain = "{source.name}"\nprofile = "minimal"\n'
        (self.home / ".rustup" / "settings.toml").write_text(settings)


def _link_tree(source: Path, target: Path) -> None:
    left_out = shutil.ignore_patterns("test", "site-packages", "dist-packages", "__pycache__")
    shutil.copytree(source, target, symlinks=True, copy_function=_linked, ignore=left_out)


def _linked(source: str, target: str) -> None:
    """The same file once more, without its content where that is possible: a toolchain is large."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _needed(program: str) -> str:
    found = which(program)
    if found is None:
        pytest.skip(f"{program} is not installed: run scripts/system_tools.py")
    return found


@pytest.fixture(scope="module")
def tools() -> Iterator[ToolHome]:
    """A home directory in which each test installs its tool."""
    with directory() as base, pytest.MonkeyPatch.context() as patch:
        made = ToolHome(base)
        for name in ("PYENV_ROOT", "CARGO_HOME", "RUSTUP_HOME", "NVM_DIR", "VIRTUAL_ENV"):
            patch.delenv(name, raising=False)
        real_home = os.environ["HOME"]
        patch.setenv("HOME", str(made.home))
        if which("rustup") and (Path(real_home) / ".rustup").is_dir():
            patch.setenv("HOME", real_home)  # to be asked where the toolchain is
            made.install_cargo()
            patch.setenv("HOME", str(made.home))
        elif which("cargo"):
            made.install_cargo()
        yield made


def test_uv_builds_and_tests(tools: ToolHome) -> None:
    """uv, with a Python that it manages: an environment, an editable install, a test run."""
    tools.install_uv()
    files = {
        "pyproject.toml": PYPROJECT,
        "src/calc/__init__.py": "def one():\n    return 1\n",
        "tests/test_calc.py": "from calc import one\n\n\ndef test_one():\n    assert one() == 1\n",
    }
    work = tools.project("with-uv", files)
    shutil.copytree(tools.home / "wheels", work / "wheels")
    for command in (
        "uv --version",
        "uv venv --managed-python --no-python-downloads",
        "uv pip install --offline pytest setuptools",
        "uv pip install --offline --no-build-isolation -e .",
        ".venv/bin/pytest -q",
        "uv run --no-sync --offline python -c 'import calc; print(calc.one())'",
    ):
        result = tools.run(work, command)
        assert result.exit_code == 0, (command, result.text)


def test_what_pipx_installed_tests(tools: ToolHome) -> None:
    """A program whose environment is in `~/.local/share/pipx`, by the link in `~/.local/bin`."""
    tools.install_with_pipx("pytest")
    files = {"pytest.ini": "[pytest]\n", "test_one.py": "def test_one():\n    pass\n"}
    result = tools.run(tools.project("with-pipx", files), "pytest -q")
    assert result.exit_code == 0, result.text
    assert "1 passed" in result.text


def test_npm_builds_and_tests(tools: ToolHome) -> None:
    """Node and npm in `~/.nvm`, the compiler in `~/.npm-global`."""
    tools.install_node()
    scripts = '"scripts": {"build": "tsc", "test": "node --test"}'
    files = {
        "package.json": f'{{"name": "w", {scripts}, "dependencies": {{"helper": "file:helper"}}}}',
        "helper/package.json": '{"name": "helper", "version": "1.0.0"}',
        "helper/index.js": "exports.one = 1;\n",
        "tsconfig.json": '{"compilerOptions": {"outDir": "dist", "types": []}, "include": ["src"]}',
        "src/one.ts": "export const one: number = 1;\n",
        "test/one.test.js": 'require("node:assert").equal(require("helper").one, 1);\n',
    }
    work = tools.project("with-npm", files)
    for command in ("npm install --offline", "npm run build", "npm test", "npm ci --offline"):
        result = tools.run(work, command)
        assert result.exit_code == 0, (command, result.text)
    assert (work / "dist" / "one.js").exists()


def test_cargo_builds_and_tests(tools: ToolHome) -> None:
    """Cargo in `~/.cargo/bin`, and its toolchain where rustup puts it, with no variable that says so."""
    _needed("cargo")
    files = {
        "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
        "src/lib.rs": "#[test]\nfn one() {\n    assert_eq!(1, 1);\n}\n",
    }
    work = tools.project("with-cargo", files)
    for command in ("cargo build --offline", "cargo test --offline"):
        result = tools.run(work, command)
        assert result.exit_code == 0, (command, result.text)


@pytest.fixture(scope="module")
def shown(tools: ToolHome) -> dict[str, bytes]:
    """What a command reads of each file with credentials."""
    names = CREDENTIALS.split()
    command = f"for name in {' '.join(names)}; do cat ~/$name 2>&1; printf '\\0'; done"
    *parts, last = tools.run(tools.project("reader", {}), command).output.split(b"\0")
    assert (len(parts), last) == (len(names), b"")
    return dict(zip(names, parts, strict=True))


def test_credentials_beside_them_are_not_read(tools: ToolHome, shown: dict[str, bytes]) -> None:
    """Whatever they are called, known or unknown."""
    assert [name for name, part in shown.items() if tools.fake.found_in(part)] == []


def test_what_is_hidden_is_missing_or_empty(shown: dict[str, bytes]) -> None:
    """A tool that looks for a file continues without it; at "Permission denied" many give up."""
    assert [name for name, part in shown.items() if b"Permission denied" in part] == []
