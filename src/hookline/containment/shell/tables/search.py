"""Searching and querying: ripgrep and its kin, jq, yq."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hookline.containment.shell.options import Program, but, only
from hookline.containment.shell.words import Word

_LOOKS_AWAY = re.compile(
    r"(?<![.A-Za-z_])(?:env|strenv|envsubst|load|strload|system|import|include|eval(?=\s*\())"
    r"|\benv\b|\$ENV|\$__prog|\binput_filename"
)


def _query(words: Sequence[Word]) -> str | None:
    """Filters of jq and yq cannot write, but some look at the environment or at other files."""
    found = next((f for word in words if (f := _LOOKS_AWAY.search(word.text))), None)
    if found:
        return f"its filter may use {found[0]}"
    return None if _filter_is_known(words) else "its filter is not known"


def _filter_is_known(words: Sequence[Word]) -> bool:
    """Whether everything up to the first word that is neither an option nor the value of one is known."""
    values = 0
    for word in words:
        if not word.exact:
            return False
        if values:
            values -= 1
        elif word.text.startswith("-") and word.text != "-":
            values = {"--arg": 2, "--argjson": 2, "--indent": 1}.get(word.text, 0)
        elif word.text not in {"eval", "e", "eval-all", "ea"}:  # verbs of yq
            return True
    return True


def _no_addresses(words: Sequence[Word]) -> str | None:
    return "it may use the network" if any(":/" in word.text for word in words) else None


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
    "xmllint": Program(only("--noout --format --nonet", takes="--xpath", check=_no_addresses)),
}
