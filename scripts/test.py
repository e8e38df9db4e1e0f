"""Run every check a change must pass: lint, format, types, import contracts, tests.

    python3 scripts/test.py                      everything
    python3 scripts/test.py --only-tests         only the tests
    python3 scripts/test.py tests/hooks -k order   the checks, and these tests

It needs Python and nothing else, and no rights. What it cannot set up on this machine is named in the last line with
the reason; the tests that need it are skipped.

Arguments this script does not know go to pytest; paths are relative to the repository's root. The tests use all cores;
`-n 0` runs them one after another in one process.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import environment
import mcp_servers
import system_tools

CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("lint-imports", "--no-logo"),
)
# Three workers for two cores: a test waits for the processes that it started about half of its time. Each worker takes
# a file at a time, in the order of tests/conftest.py: the longest first.
WORKERS = max(2, 3 * (os.cpu_count() or 1) // 2)
PYTEST = ("pytest", "-n", str(WORKERS), "--dist", "loadfile", "--no-loadscope-reorder")


def main() -> int:
    """Run the checks, all of them even if one fails, and name those that failed."""
    only_tests, pytest_arguments = _arguments()
    environment.ensure("dev")
    with ThreadPoolExecutor(1) as pool, ThreadPoolExecutor(1) as another:
        # What the tests need is mostly waited for, so the checks run meanwhile.
        checks = [pool.submit(_check, check) for check in (() if only_tests else CHECKS)]
        another.submit(_compile)
        missing = _set_up()
        failed = [line for line in [check.result() for check in checks] if line]
    # pytest comes last, so that its closing line is what a passing run ends with.
    tests = (*PYTEST, *pytest_arguments)
    print(f"\n--- {' '.join(tests)}", flush=True)
    if environment.run(environment.PROGRAMS / tests[0], *tests[1:]) != 0:
        failed.append(" ".join(tests))
    if missing:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in missing.items())
        print(
            f"\nNot on this machine, so the tests that need it were skipped: {reasons}", flush=True
        )
    if failed:
        print(f"\nFailed: {'; '.join(failed)}", flush=True)
    return 1 if failed else 0


def _compile() -> None:
    """Read all tests once where that was never done: each worker would compile each of them for itself."""
    if not any((environment.ROOT / "tests").glob("__pycache__/test_*")):
        environment.run(environment.PROGRAMS / "pytest", "--collect-only", "-qq", quiet=True)


def _set_up() -> dict[str, str]:
    """Install what the tests need; gives what cannot be had here, with the reason."""
    mcp_servers.ensure()
    system_tools.ensure()
    os.environ["PATH"] = system_tools.path()
    missing = {**mcp_servers.missing(), **system_tools.missing()}
    # The small model that some tests run for real.
    if environment.run(environment.PROGRAMS / "hookline", "model", "get", quiet=True) != 0:
        missing["the local model"] = "it could not be fetched"
    return missing


def _arguments() -> tuple[bool, list[str]]:
    parser = environment.argument_parser(__doc__)
    parser.add_argument("--only-tests", action="store_true", help="skip lint, types and contracts")
    known, rest = parser.parse_known_args()
    return known.only_tests, rest


def _check(command: tuple[str, ...]) -> str:
    """Run one check and print what it says; gives its command line if it failed."""
    program, *arguments = command
    ran = subprocess.run(
        [environment.PROGRAMS / program, *arguments],
        cwd=environment.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    line = " ".join(command)
    print(f"\n--- {line}\n{ran.stdout}", end="", flush=True)
    return line if ran.returncode else ""


if __name__ == "__main__":
    sys.exit(main())
