"""Run the first example agent: no key, no configuration, nothing but Python.

python3 scripts/demo.py
"""

import sys

import environment


def main() -> int:
    """Install Hookline into `.venv` when needed, and run the example in it."""
    return environment.run(environment.ensure(), "examples/first_agent.py", *sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
