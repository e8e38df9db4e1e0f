"""The builtins of bash, and the small programs that are used like them."""

from __future__ import annotations

import re

from hookline.containment.shell.options import WORDS, Call, Check, Options, Program, only
from hookline.containment.shell.scan_tests import is_plain_question
from hookline.containment.shell.settable import VARIABLES, may_fill
from hookline.containment.shell.tables.files import tame
from hookline.containment.shell.words import Word


def _date(call: Call) -> str | None:
    """A word that is neither a format nor the value of an option sets the clock."""
    odd = next((word for word in call.operands if not word.start.startswith("+")), None)
    return f"{odd.text!r} may set the clock" if odd else None


def _set(call: Call) -> str | None:
    harmless = {"-e", "-u", "-x", "-eu", "-ex", "-eux", "-o", "-eo", "-euo", "-euxo", "pipefail"}
    harmless |= {"errexit", "nounset"}
    if not call.operands or any(text not in harmless for text in call.texts):
        return "it changes how the shell works, or prints all of its variables"
    return None


def _printenv(call: Call) -> str | None:
    if not call.operands or any(text not in VARIABLES for text in call.texts):
        return "the environment often holds secrets"
    return None


_UNARY = frozenset(f"-{letter}" for letter in "bcdefghknprstuwxzGLNOS")
"""Without `-a`: between two tests it joins them."""
_BINARY = frozenset("= == != < > -nt -ot -ef -eq -ne -lt -le -gt -ge".split())


def _test(call: Call) -> str | None:
    """`-v` and `-R` look at a variable, and run what its index says: `test -v 'a[$(id)]'`."""
    words = [word for word in call.operands if word != Word("]")]
    for at, word in enumerate(words):
        before, after = (
            words[at - 1] if at else None,
            words[at + 1] if at + 1 < len(words) else None,
        )
        known = (before and before.exact and before.text in _UNARY | _BINARY) or (
            after and after.exact and after.text in _BINARY
        )
        operand = len(words) == 1 or known or word.start[:1] not in {"", "-"}
        number = word.text in {"$#", "$?", "$$"}
        if word.text in {"-v", "-R"} or not (word.exact or number or (word.single and operand)):
            return "it may run what the name of a variable says"
    return None


def _double_test(call: Call) -> str | None:
    """What compares numbers computes what the words say, indexes with commands in them too."""
    plain = call.operands[-1:] == (Word("]]"),) and is_plain_question(list(call.operands[:-1]))
    return None if plain else "it may run what the name of a variable says"


def _printf(call: Call) -> str | None:
    """`-v` sets a variable, and so does `%n` in the format: `printf %n PATH`."""
    own = call.operands
    if own and own[0] == Word("--"):
        own = own[1:]
    elif own and own[0].start.startswith("-"):
        return f"the option {own[0].text}"
    if not own:
        return None
    if not own[0].exact:
        return f"{own[0].text} may turn out to be an option, or to set a variable"
    sets = re.search(r"%[^A-Za-z%]*[hlLjztq]*n", own[0].text.replace("%%", ""))
    return "%n sets a variable" if sets else None


def _read(call: Call) -> str | None:
    """Names that mean nothing to the shell."""
    plain = all(map(may_fill, call.texts))
    return None if plain else "it may set what the shell goes by"


def _wait(call: Call) -> str | None:
    """`-p` sets a variable, and runs what its index says."""
    plain = all(re.fullmatch(r"%?\d+|%[+-]?|\$!", word.text) for word in call.operands)
    return None if plain else "it may set a variable"


def _syntax(call: Call) -> str | None:
    """`+n` takes `-n` back."""
    plain = all(word.start[:1] not in {"", "+"} for word in call.operands)
    return None if plain else "it may run what it is given"


def _words(check: Check | None = None, *, tame: bool = True) -> Program:
    """A builtin of whose words none is an option to the reader: the check looks at all of them."""
    return Program(Options(plain_words=True, tame=tame, check=check), reads=False)


_TEST = _words(_test)
_NUMFMT = """
    --debug --grouping --zero-terminated -z
"""

BUILTINS: dict[str, Program] = {
    # `help` and `exit` can do nothing else; what the others are given is printed, or compared
    **dict.fromkeys(
        ("echo", ":", "true", "false", "expr", "exit", "return", "case"),
        _words(),
    ),
    "for": Program(WORDS),
    **dict.fromkeys(("break", "continue"), Program(only(operands=1), reads=False)),
    **dict.fromkeys(("test", "["), _TEST),
    "[[": _words(_double_test),
    "printf": _words(_printf),
    "set": _words(_set, tame=False),
    "printenv": _words(_printenv, tame=False),
    "read": Program(only("-r", check=_read), reads=False),
    "cd": tame("-L -P -e -@"),
    "pwd": tame("-L -P --logical --physical"),
    # With -n a name is kept that is looked up from wherever the shell stands when it is used.
    **dict.fromkeys(("pushd", "popd"), Program(only("-#"))),
    "dirs": tame("-# -c -l -p -v"),
    "times": Program(only(operands=0), reads=False),
    "help": tame("-d -m -s"),
    "type": tame("-a -f -p -P -t"),
    "command": Program(only("-v -V -p", needs="-v -V"), reads=False),
    # -C and -F run something, -W expands what it is given
    "compgen": Program(only("-a -b -c -d -f -g -j -k -s -u", operands=1), reads=False),
    "jobs": Program(only("-l -p -r -s -n", operands=0), reads=False),
    **dict.fromkeys(("bash", "sh"), Program(only("-n", needs="-n", operands=1, check=_syntax))),
    "alias": Program(only("-p", operands=0), reads=False),
    "umask": Program(only("-S -p", operands=0), reads=False),
    "ulimit": Program(only("-a -n -u -s -f -c -v -m -t -l -H -S", operands=0), reads=False),
    "shopt": Program(only("-p", operands=0), reads=False),
    "kill": Program(only("-l -L", needs="-l -L"), reads=False),
    "hash": Program(only("-l", operands=0), reads=False),
    "sleep": tame(),
    "wait": Program(only("-f -n", tame=True, check=_wait), reads=False),
    "seq": tame("-# -w --equal-width", texts="-f -s -t --format --separator --terminator"),
    "factor": tame("-h --exponents"),
    "numfmt": tame(
        _NUMFMT,
        texts="""
        -d --delimiter --field --format --from --from-unit --invalid --padding --round --suffix --to --to-unit
        --unit-separator
        """,
        maybe="--header",
    ),
    "date": Program(
        only(
            "-u -R -j -n --utc --universal --rfc-email --debug --help --version --resolution",
            texts="-d -v -z --date --rfc-3339",
            takes="-r --reference",
            maybe="-I --iso-8601",
            check=_date,
        ),
        reads=False,
    ),
    **dict.fromkeys(
        ("cal", "ncal"),
        tame("-1 -3 -b -C -e -h -j -J -M -N -o -p -s -S -w -W -y -Y -c", texts="-A -B -d -H -m -n"),
    ),
    "clear": Program(only("-x -V", operands=0), reads=False),
    "tty": tame("-s --silent --quiet"),
    "locale": tame(
        "-a -c -k -m -v -V --all-locales --charmaps --category-name --keyword-name --verbose"
    ),
    "getconf": Program(only("-a", texts="-v"), reads=False),
}
