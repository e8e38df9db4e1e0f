"""Checks that several tables share."""

from __future__ import annotations

import re

from hookline.containment.shell.options import Call, Check


def first_word(pattern: str, *, needed: bool = True) -> Check:
    """The first operand says what is asked; without `needed` there may be none."""

    def check(call: Call) -> str | None:
        if not call.operands:
            return "it does more than ask" if needed else None
        first = call.operands[0]
        asks = first.exact and re.fullmatch(pattern, first.text)
        return None if asks else "it does more than ask"

    return check


def no_files_of_words(call: Call) -> str | None:
    """Some programs take more words from `@file`."""
    taken = any(word.start.startswith("@") or not word.start for word in call.words)
    return "it takes options from a file" if taken else None


_SCHEME = re.compile(r":/|^[A-Za-z][\w+.,-]*:")


def no_address(call: Call) -> str | None:
    """What is named must be a file: many programs open addresses as well."""
    far = next((word.text for word in call.words if _SCHEME.search(word.text)), None)
    return f"{far!r} may lie on the network" if far else None


def counted(*names: str) -> Check:
    """Some options take a number; what is none would be the pattern, or the name of a file, to other versions."""

    def check(call: Call) -> str | None:
        odd = next((text for text in call.values(*names) if not text.isdigit()), None)
        return f"{odd!r} is no number" if odd is not None else None

    return check


def plain_names(pattern: str = r"\w[\w@.+-]*") -> Check:
    """Names alone: no paths, addresses, patterns, nor commands of the program's own language."""

    def check(call: Call) -> str | None:
        odd = next(
            (w for w in call.operands if not w.exact or not re.fullmatch(pattern, w.text)), None
        )
        return f"{odd.text!r} is more than a name" if odd else None

    return check
