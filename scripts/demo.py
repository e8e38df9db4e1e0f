"""Run a real agent in a sample folder: no key, no configuration, nothing but Python.

    python3 scripts/demo.py              with a small model that is fetched once
    python3 scripts/demo.py --scripted   with a scripted model: nothing is fetched but what Hookline needs

It installs Hookline into `.venv`, and calls `hookline demo`, which makes the folder `hookline-demo`.
"""

import sys
from pathlib import Path

import environment

HOOKLINE = environment.PROGRAMS / "hookline"


def main(arguments: list[str]) -> int:
    """Install what is needed, and call the command."""
    if {"-h", "--help"} & set(arguments):
        environment.argument_parser(__doc__).print_help()
        return 0
    try:
        environment.ensure(*(() if "--scripted" in arguments else ("terminal",)))
    except SystemExit:  # what runs a model is machine code, which not every machine has
        environment.ensure()
    return environment.run(HOOKLINE, "demo", *arguments, cwd=Path.cwd())


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
