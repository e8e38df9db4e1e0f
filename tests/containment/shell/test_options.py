"""The reader of options, held against the getopt of the standard library."""

from __future__ import annotations

import getopt

from hypothesis import given
from hypothesis import strategies as st

from hookline.containment.shell.options import Call, OptionTable, only, read_call
from hookline.containment.shell.words import Word

TABLE = only("-a -b --all --brief", takes="-f --file", texts="-n --number")
PIECES = st.sampled_from(
    """
    -a -b -f -n -ab -ba -fx -nx -af -abn -afx -- - x y .env --all --brief --file --number --file=x --number=3 --file=
    -x -ax --zzz --al --fil=x -fa -f- -n- -3 --all=x
    """.split()
)


def call(table: OptionTable, *texts: str) -> Call | str:
    """What the reader makes of words that are all known."""
    return read_call(table, [Word(text) for text in texts])


def parsed_call(table: OptionTable, *texts: str) -> Call:
    """The same, where nothing is wrong with them."""
    answer = call(table, *texts)
    assert isinstance(answer, Call), answer
    return answer


@given(st.lists(PIECES, max_size=6))
def test_what_is_read_is_what_getopt_reads(texts: list[str]) -> None:
    """Whatever the parser accepts, it splits as getopt does."""
    answer = call(TABLE, *texts)
    if isinstance(answer, str):
        return
    options, operands = getopt.gnu_getopt(texts, "abf:n:", ["all", "brief", "file=", "number="])
    mine = [(name, value.text if value else "") for name, value in answer.options]
    assert (mine, answer.texts) == (options, operands)


@given(st.lists(PIECES, max_size=6))
def test_what_is_refused_names_a_word(texts: list[str]) -> None:
    """Nothing raises, and a refusal says which option it is about."""
    answer = call(TABLE, *texts)
    assert isinstance(answer, Call) or answer.startswith("the option -")


def test_a_value_that_looks_like_an_option_must_be_harmless_as_one() -> None:
    """So a table that is wrong about what takes a value hides nothing."""
    assert parsed_call(TABLE, "-n", "-a", "x").values("-n") == ["-a"]
    assert parsed_call(TABLE, "-n", "-5").values("-n") == ["-5"]
    assert call(TABLE, "-n", "-x") == "the option -n, given -x"
    assert call(TABLE, "-n", "--") == "the option -n, given --"
    assert call(TABLE, "-n") == "the option -n, whose value is not known"


def test_files_are_operands_and_the_values_that_name_one() -> None:
    """A pattern is no file, unless an option gives it; a text never is."""
    table = only(takes="-f", texts="-e -n", pattern="-e -f")
    assert [word.text for word in parsed_call(table, "-n", "3", "x", "y").files] == ["y"]
    assert [word.text for word in parsed_call(table, "-e", "z", "x", "y").files] == ["x", "y"]
    assert [word.text for word in parsed_call(table, "-fz", "x").files] == ["x", "z"]


def test_the_names_of_files_that_a_pattern_finds() -> None:
    """One that looks like an option is one; one where a pattern or a value belongs is not known."""
    found = Word("x", exact=False)
    option = Word("-o", exact=False)
    assert isinstance(read_call(TABLE, [found]), Call)
    assert isinstance(read_call(TABLE, [option]), str)
    assert isinstance(read_call(TABLE, [Word("-n"), found]), str)
    assert isinstance(read_call(only(pattern=""), [found, Word("y")]), str)


def test_options_after_an_operand_may_be_operands() -> None:
    """To some versions of a program they are, and then there are more names than it may have."""
    one = only("-v", operands=1)
    assert isinstance(call(one, "-v", "x"), Call)
    assert isinstance(call(one, "x", "-v"), str)


def test_values_that_must_stand_apart() -> None:
    """To a program that puts only options together, `-La` is `-L` and `-a`."""
    separate = only("-a", texts="-L", glues=False)
    assert isinstance(call(separate, "-aL", "2"), Call)
    assert isinstance(call(separate, "-La", "2"), str)


def test_values_that_may_be_missing() -> None:
    """They are joined, or not there."""
    table = only(maybe="--color -M")
    assert parsed_call(table, "--color", "x").texts == ["x"]
    assert parsed_call(table, "--color=x", "-M5").values("--color", "-M") == ["x", "5"]
