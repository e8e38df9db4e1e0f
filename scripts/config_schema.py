"""Write docs/hookline.schema.json, the JSON schema of configuration files, from the source.

python3 scripts/config_schema.py
"""

import sys

import environment

_PROGRAM = """
import json
from pathlib import Path
from hookline.cli.config import full_schema
path = Path("docs/hookline.schema.json")
path.write_text(json.dumps(full_schema(), indent=2) + "\\n", encoding="utf-8")
print(path)
"""


def main() -> int:
    """Install Hookline into `.venv` when needed, and write the schema with it."""
    return environment.run(environment.ensure(), "-c", _PROGRAM)


if __name__ == "__main__":
    environment.argument_parser(__doc__).parse_args()
    sys.exit(main())
