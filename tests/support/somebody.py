"""Files as they are to a user who may not do everything, also when the tests are run by root."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

is_root = os.geteuid() == 0


@contextmanager
def as_somebody() -> Iterator[Path]:
    """Within this block the process may do what anybody may; gives a directory that is theirs."""
    directory = Path(tempfile.mkdtemp(prefix="hookline-"))
    if is_root:
        os.chown(directory, 65534, 65534)
        os.seteuid(65534)
    try:
        yield directory
    finally:
        if is_root:
            os.seteuid(0)
        directory.chmod(0o700)
        shutil.rmtree(directory)
