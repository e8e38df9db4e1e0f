"""Searching and querying: ripgrep and its kin, jq, yq."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hookline.containment.shell.options import Program, but, only
from hookline.containment.shell.words import Word

_LOOKS_AWAY = re.compile(
    r"\benv\b|\$ENV|strenv|\bload|\$__prog|\binput_filename|\bsystem\b|\bimport\b|\binclude\b"
)


def _query(words: Sequence[Word]) -> str | None:
    """Filters of jq and yq cannot write, but some look at the environment or at other files."""
    found = next((f for word in words if (f := _LOOKS_AWAY.search(word.text))), None)
    return f"its filter may use {found[0]}" if found else None


SEARCH: dict[str, Program] = {
    "rg": Program(but("--pre --hostname-bin", takes="-A -B -C -e -f -g -m -t -T -j -M -r -E -d")),
    "ag": Program(but("--pager", takes="-A -B -C -m -G -g")),
    "jq": Program(
        only(
            """
            -r -c -e -s -n -S -C -M -a -j -R --raw-output --compact-output --exit-status --slurp --null-input
            --sort-keys --color-output --monochrome-output --ascii-output --join-output --raw-input --tab --arg
            --argjson --args --jsonargs --stream --seq --unbuffered
            """,
            takes="--indent",
            check=_query,
            loose=True,
        )
    ),
    "yq": Program(
        only(
            """
            -r -c -e -o -p -P -C -M -j -y -N --output-format --input-format --prettyPrint --no-doc --colors
            --no-colors --unwrapScalar
            """,
            check=_query,
        )
    ),
    "xmllint": Program(only("--noout --format --valid --nonet", takes="--xpath")),
}
