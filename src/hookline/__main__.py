"""`python -m hookline`: the command, for where the Python is known and the program is not on the path."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # `-m` puts the working directory before Python's own modules, and it may be a stranger's repository.
    if not sys.flags.safe_path:
        del sys.path[0]
    from hookline.cli import main

    sys.exit(main())
