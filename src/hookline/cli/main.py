"""The `hookline` command. So far it tells its version and points to the library."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from hookline.cli import mcp_serve, model


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="hookline",
        description="An agent runtime in which hooks are the skeleton.",
        epilog="Running agents from the terminal comes with a later release; today Hookline is a library. "
        "Start with: from hookline import AgentBuilder",
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    mcp_serve.add_to(commands)
    model.add_to(commands)
    arguments = parser.parse_args(argv)
    if arguments.version:
        from hookline import __version__

        print(f"hookline {__version__}")
        return 0
    if hasattr(arguments, "run"):
        return int(arguments.run(arguments))
    parser.print_help()
    return 0
