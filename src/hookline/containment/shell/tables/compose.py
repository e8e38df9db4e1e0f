"""Docker compose: what runs, as far as the project's file includes nothing from elsewhere.

Whatever it is asked, compose reads the project's file and what that includes or extends. Such a thing may lie in the
network, at an address into which variables are put. So the file is looked at first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from hookline.containment.shell.call import read_call
from hookline.containment.shell.options import Call, Program, only
from hookline.containment.shell.project import Obeyed, lacks
from hookline.containment.shell.words import Word

_FILE = lacks(r"(?i)include|extends|\\[xu\r\n]|!!|!<|%TAG|oci:")
"""Neither of the two, by its letters or in the other ways in which a key can be written: escaped, or as `!!binary`, by
whatever name."""
_ENV = lacks(
    r"(?i)(?<![a-z0-9_.])(?:export)?(?:(?:compose|docker|d?y?ld|ssh|xdg)_\w*|[a-z]+_proxy|path|home)[^\w\n]*[=:]"
)
"""Values beside the file may say that it is another one, and where docker is. After a value in quotes, the next name
may stand in the same line; after `export`, without a blank."""
_PATH = re.compile(r"(?!github\.com/)[\w./ -]+\.ya?ml")
"""A file of this machine: to compose, much else is an address."""
_NAMES = ("-f", "--file")
_OBEYED: Obeyed = {
    **{
        f"{name}{override}.{ending}": _FILE
        for name in ("compose", "docker-compose")
        for override in ("", ".override")
        for ending in ("yaml", "yml")
    },
    ".env": _ENV,
}
_OF_NO_PROJECT = frozenset({"ls", "version", "--version", "--help"})


def _here(call: Call) -> str | None:
    far = next((path for path in call.values(*_NAMES) if not _PATH.fullmatch(path)), None)
    return f"{far!r} may lie on the network" if far else None


_OPTIONS = only(
    takes=" ".join(_NAMES), texts="-p --project-name --profile --ansi --progress", check=_here
)
_LISTS = only(
    "-a -q --all --quiet --services --no-trunc --orphans --help",
    texts="--format --filter --status --index --protocol",
)
_PARTS = "-q --quiet --services --volumes --networks"
"""Names alone: into an image, and a profile, whatever is in the environment may be put."""
COMPOSE = Program(
    _OPTIONS,
    {
        **dict.fromkeys("ps images top port ls stats volumes".split(), _LISTS),
        "logs": only(
            "-f -t --timestamps --no-color --no-log-prefix --help",
            texts="-n --tail --since --until --index",
            maybe="--follow",
        ),
        "version": only("--short", texts="-f --format"),
        "config": only(_PARTS, needs=_PARTS),  # else it prints what services are given
    },
    reads=False,
)


def obeyed_by_compose(words: Sequence[Word]) -> Obeyed | None:
    """What compose obeys when it is given some words: the files they name, or those of the project."""
    if words and words[0].text in _OF_NO_PROJECT:
        return None
    call = read_call(_OPTIONS, words, to_operand=True)
    named = [] if isinstance(call, str) else call.values(*_NAMES)
    named += [os.path.normpath(path) for path in named]  # it does not follow a link before `..`
    beside = [os.path.join(os.path.dirname(path), ".env") for path in named]
    return {**_OBEYED, **dict.fromkeys(named, _FILE), **dict.fromkeys(beside, _ENV)}
