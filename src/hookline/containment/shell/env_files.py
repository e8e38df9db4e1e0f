"""Which environment files (`.env`) the words of a command name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from hookline.containment.shell.places import expand, is_below
from hookline.containment.shell.words import Word
from hookline.secret_tables import is_env_file

_LONGEST = 1_000
_JOINTS = re.compile(r"[=:,@]")
_MAGIC = re.compile(r"[*?\[]")


def env_files_in(word: str, where: str, root: str) -> Iterator[str]:
    """The whole paths of existing environment files below the work directory that a word names, or leads to.

    A name may be joined to an option or to other names: `--env-file=.env`, `-f.env`, `./.env:/x`, `@.env`.
    """
    if len(word) > _LONGEST or "\0" in word:
        return
    pieces = {word, *_JOINTS.split(word), *([word[2:]] if word.startswith("-") else ())}
    for piece in pieces - {""}:
        texts = [piece]
        if _MAGIC.search(piece):
            texts = [one.text for one in expand(Word(piece, exact=False), where) or ()]
        for text in texts:
            path = os.path.normpath(os.path.join(where, os.path.expanduser(text)))
            if is_env_file(os.path.basename(path)) or os.path.islink(path):
                real = os.path.realpath(path)
                for each in {path, real}:
                    is_one = is_below(each, root) and is_env_file(os.path.basename(each))
                    if is_one and os.path.exists(each) and not os.path.isdir(each):
                        yield each
