"""Follow the README as a new user does: from a clone to the first answer of a real model.

    python3 scripts/first_run.py

The commands are those of the README's section Install that need nothing but Python and git. They run in a clone of what
is committed, with an empty home and a PATH that has `python3` and `git` only. Started by root, they run as the user
`nobody`. It exits with 1 if a command fails, or if no real model answered.
"""

import contextlib
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import environment

NETWORK = re.compile(r"PIP_(?!CACHE_DIR).*|SSL_.*|REQUESTS_CA_BUNDLE|.*_proxy", re.IGNORECASE)
"""The variables that say how this machine reaches a package index. A new user has them too."""
PYTHON = f"import ensurepip, sys; sys.version_info >= {environment.OLDEST} and print(sys._base_executable)"
CLONE = "git clone --quiet origin hookline"
ASKS, ANSWERED = "$ hookline run --model local:", "The answer is "
"""What `hookline demo` prints before it asks the real model, and after that answered."""


def main() -> int:
    """Run the commands, and say whether a real model answered."""
    environment.argument_parser(__doc__).parse_args()
    with new_user() as user:
        user.run(CLONE)
        user.place /= "hookline"
        readme = (user.place / "README.md").read_text(encoding="utf-8")
        printed = [user.run(command) for command in commands(readme)]
    if not any(map(has_answer, printed)):
        sys.exit("No real model answered; what the commands printed is above.")
    return 0


def commands(readme: str) -> list[str]:
    """What the section Install says to type, without the commands of other installers and without the whole suite."""
    section = readme.partition("\n## Install\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    lines = [line.partition("  #")[0].strip() for line in "".join(blocks).splitlines()]
    return [line for line in lines if line.startswith("python3 ") and "test.py" not in line]


def has_answer(printed: str) -> bool:
    """Whether `hookline demo` asked the real model, and got an answer before it ran another command."""
    return ANSWERED in printed.partition(ASKS)[2].partition("\n$ ")[0]


class User:
    """Somebody with an empty home, and a directory to work in."""

    def __init__(self, place: Path) -> None:
        self.place, self._identity = place, _identity()
        self.env = {name: value for name, value in os.environ.items() if NETWORK.fullmatch(name)}
        self.env |= {"HOME": str(place / "home"), "PATH": str(place / "bin")}

    def run(self, command: str) -> str:
        """Show a command, run it, show its output as it comes, and return that of standard output."""
        print(f"$ {command}", flush=True)
        printed = ""
        with self.start("/bin/sh", "-c", command) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                printed += line
        if process.returncode:
            sys.exit(f"`{command}` ended with exit code {process.returncode}.")
        return printed

    def start(self, *command: str, **options: Any) -> "subprocess.Popen[str]":
        """Start a process as this user."""
        return subprocess.Popen(
            command,
            cwd=self.place,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            **self._identity,
            **options,
        )

    def own_place(self) -> None:
        """Make this user the owner of the directory and of everything in it."""
        if self._identity:
            for path in (self.place, *self.place.rglob("*")):
                os.chown(path, self._identity["user"], self._identity["group"])


def _identity() -> dict[str, Any]:
    """Who runs the commands, as options of a process: root uses an account without rights."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


@contextlib.contextmanager
def new_user() -> Iterator[User]:
    """A user with an empty home, two programs, and a repository to clone."""
    with tempfile.TemporaryDirectory(prefix="hookline-first-run-") as directory:
        place = Path(directory)
        (place / "home").mkdir()
        _make_origin(place / "origin")
        user = User(place)
        user.own_place()
        (place / "bin").mkdir()
        (place / "bin" / "git").symlink_to(str(shutil.which("git")))
        # No link: Python looks for its library next to the name that it was started with.
        program = place / "bin" / "python3"
        program.write_text(f'#!/bin/sh\nexec "{_find_python(user)}" "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        yield user


def _make_origin(origin: Path) -> None:
    """A repository with what is committed here, or with all files of a copy that has no history."""
    trusting = ("git", "-c", "safe.directory=*", "-c", "user.name=x", "-c", "user.email=x@x")
    source = environment.ROOT
    with tempfile.TemporaryDirectory(prefix="hookline-tree-") as directory:
        if not (source / ".git").exists():
            made = shutil.ignore_patterns(
                ".venv", ".system-tools", ".mcp-servers", "build", "dist", "__pycache__"
            )
            source = Path(shutil.copytree(source, Path(directory) / "tree", ignore=made))
            for words in (
                ["init", "--quiet"],
                ["add", "--all"],
                ["commit", "--quiet", "-m", "all"],
            ):
                subprocess.run([*trusting, *words], cwd=source, check=True)
        clone = ("clone", "--quiet", "--bare", "--depth", "1", source.as_uri(), str(origin))
        subprocess.run([*trusting, *clone], check=True)


def _find_python(user: User) -> str:
    """The first Python that the user can start and that is new enough: this one, else one of the PATH."""
    for folder in (str(Path(sys.executable).parent), *os.get_exec_path()):
        found = ""
        with contextlib.suppress(OSError):
            asked = user.start(f"{folder}/python3", "-c", PYTHON, stderr=subprocess.DEVNULL)
            found = asked.communicate()[0].strip()
        if found:
            return found
    sys.exit(
        "Of the Pythons on the PATH, an ordinary user can start none that makes environments.\n"
        "Remedy: on Debian and Ubuntu, `apt install python3 python3-venv`."
    )


if __name__ == "__main__":
    sys.exit(main())
