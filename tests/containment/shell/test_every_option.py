"""Every table: what it does not know is asked about, wherever it stands, and values are no options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hookline.containment import ShellPolicy
from hookline.containment.shell.call import read_call
from hookline.containment.shell.options import Options, Program
from hookline.containment.shell.tables.all import PROGRAMS
from hookline.containment.shell.tables.questions import QUESTIONS
from hookline.containment.shell.tables.wrappers import HARMLESS_WRAPPERS
from hookline.containment.shell.words import Word

WORDS_ALONE = frozenset("echo : true false expr exit return for case test [ [[ printf".split())
"""To these every word is a word: they have no options, or none but those that their own tests are about."""
UNKNOWN = ("--zzz", "--zzz=1", "--output", "--output=zzz")


def tables(name: str, program: Program) -> Iterator[tuple[str, Options]]:
    """Every table of a program, with the words that lead to it."""
    if program.verbs is None:
        yield name, program.options
        return
    for verb, inner in program.verbs.items():
        words = f"{name} {verb}".strip()
        yield from tables(words, inner if isinstance(inner, Program) else Program(inner))


TABLES = [
    pair
    for name, program in sorted(PROGRAMS.items())
    if name not in WORDS_ALONE
    for pair in tables(name, program)
]
READ = [(words, table) for words, table in TABLES if not table.plain_words]


def allowed(commands: Iterable[str]) -> list[str]:
    """Those of some commands that run without asking."""
    policy = ShellPolicy.default()
    return [text for text in commands if policy.judge(text).decision == "allow"]


def unknown_letter(table: Options) -> str:
    """A short option that a table does not know."""
    return next(f"-{letter}" for letter in "zqjyoxwkDGJKQYW" if not table.knows(f"-{letter}"))


def valued(table: Options) -> list[str]:
    """Options of a table that take a value in the next word, some of each kind."""
    alone = (table.takes | table.texts) - table.maybe - table.pairs
    short = sorted(name for name in alone if re.fullmatch("-[A-Za-z]", name))
    return short[:2] + sorted(name for name in alone if name.startswith("--"))[:2]


def names_of(table: Options) -> frozenset[str]:
    """All options of a table."""
    return table.flags | table.maybe | table.takes | table.texts | table.pairs


def needed(table: Options) -> str:
    """An option without which the table asks in any case."""
    return next(iter(sorted(table.needs)), "")


def test_an_unknown_option_is_asked_about() -> None:
    """First, last, short, long, with a value, and beside others that are known."""
    commands = []
    for words, table in TABLES:
        unknown = [option for option in UNKNOWN if not table.knows(option.partition("=")[0])]
        for option in (*unknown, unknown_letter(table)):
            known = f"{words} {needed(table)}"
            commands += [f"{known} {option}", f"{known} {option} x", f"{known} x {option}"]
    assert len(commands) > 4000
    assert allowed(commands) == []


def test_an_unknown_letter_in_a_bundle_is_asked_about() -> None:
    """A letter is no more harmless for standing beside one that is known."""
    commands = []
    for words, table in READ:
        letter = unknown_letter(table)[1]
        flags = sorted(name for name in table.flags if re.fullmatch("-[A-Za-z]", name))
        bundles = [flag + letter for flag in flags[:3] if not table.knows(flag + letter)]
        commands += [f"{words} {needed(table)} {bundle} x" for bundle in bundles]
    assert len(commands) > 500
    assert allowed(commands) == []


def test_an_unknown_option_around_a_value_is_asked_about() -> None:
    """A value ends with its word and does not hide what follows; nor is an unknown option harmless as a value."""
    commands = [
        f"{words} {needed(table)} {option} {rest}"
        for words, table in READ
        for option in valued(table)
        for rest in ("1 --zzz", "--zzz", "--zzz x")
    ]
    assert len(commands) > 1000
    assert allowed(commands) == []


def test_a_value_is_no_option() -> None:
    """The option that says that a program only looks does not count as the value of another, nor after `--`."""
    commands = []
    for words, table in READ:
        for name in table.needs:
            commands += [f"{words} -- {name} x", f"{words} x {name}"]
            commands += [f"{words} {option} {name} x" for option in valued(table)]
    assert len(commands) > 100
    assert allowed(commands) == []


def test_an_option_cut_short_is_asked_about() -> None:
    """`--outp` may stand for an option that nobody has written down."""
    commands = [
        f"{words} {needed(table)} {name[:-1]} x"
        for words, table in READ
        for name in names_of(table)
        if name.startswith("--") and not table.knows(name[:-1])
    ]
    assert len(commands) > 2000
    assert allowed(commands) == []


def test_no_table_contradicts_itself() -> None:
    """An option has one kind; a name of several letters after one dash begins with none that takes a value."""
    for words, table in READ:
        kinds = (table.flags, table.takes, table.texts, table.pairs)
        assert sum(map(len, kinds)) == len(frozenset().union(*kinds)), words
        assert not table.flags & table.maybe, words
        assert table.needs <= names_of(table), words
        for name in names_of(table) if table.bundles else ():
            glued = re.fullmatch("-[^-].+", name) and table.knows(name[:2])
            assert not glued or name[:2] in table.flags, (words, name)


def test_every_option_is_read_as_it_is_written_down() -> None:
    """A flag takes nothing from the next word; a value is taken from it, from behind `=`, or from the same word."""
    for words, table in READ:
        plain = Options(
            table.flags,
            table.takes,
            table.texts,
            table.maybe,
            bundles=table.bundles,
            glues=table.glues,
        )
        for name in table.flags - {"-#"}:
            call = read_call(plain, [Word(name), Word("x")])
            assert not isinstance(call, str), (words, name)
            assert call.texts == ["x"], (words, name)
        for name in (table.takes | table.texts) - table.pairs:
            for spelling in spellings(table, name):
                call = read_call(plain, spelling)
                assert not isinstance(call, str), (words, name)
                assert (call.values(name), call.texts) == (["v"], ["x"]), (words, name)
                assert (Word("v") in call.files) == (name in table.takes), (words, name)


def spellings(table: Options, name: str) -> Iterator[list[Word]]:
    """Every way to give an option a value, and an operand after it."""
    yield [Word(name), Word("v"), Word("x")]
    if name.startswith("--"):
        yield [Word(f"{name}=v"), Word("x")]
    elif table.bundles and table.glues and len(name) == 2:
        yield [Word(f"{name}v"), Word("x")]


def test_an_unknown_option_of_a_wrapper_is_asked_about() -> None:
    """Also in front of a harmless command, and also as a value."""
    for name, (table, own) in HARMLESS_WRAPPERS.items():
        before = "5 " * own
        commands = [f"{name} {option} {before}ls" for option in ("--zzz", unknown_letter(table))]
        for option in valued(table):
            commands += [
                f"{name} {option} {rest}" for rest in (f"--zzz {before}ls", f"1 {before}rm x")
            ]
        assert allowed([f"{name} {before}ls"])
        assert allowed(commands) == []


def test_a_question_is_the_only_word() -> None:
    """What is harmless alone is not harmless beside another word."""
    names = [name for name in QUESTIONS if name not in WORDS_ALONE]
    commands = [f"{name} {words}" for name in names for words in ("--version --zzz", "--zzz")]
    assert allowed(commands) == []
