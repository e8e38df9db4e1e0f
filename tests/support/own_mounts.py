"""Programs that run with a table of mounts of their own."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

BOUND = 'mount --bind "$1" "$2" && exec "$3" -c "$4"'


def in_mounts_of_its_own(script: str, *arguments: object) -> str:
    """What a shell script prints that changes the table of mounts.

    The table of this process is everybody's: a sandbox that another test starts would find something replaced.
    """
    alone = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    argv = [*alone, "sh", "-c", script, "sh", *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
