"""The reader of options, held against the getopt of the standard library."""

from __future__ import annotations

import getopt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.containment.shell.call import Use, read_call, read_use
from hookline.containment.shell.options import WORDS, Call, Options, Program, only
from hookline.containment.shell.words import Word

TABLE = only("-a -b --all --brief", takes="-f --file", texts="-n --number")
PIECES = st.sampled_from(
    """
    -a -b -f -n -ab -ba -fx -nx -af -abn -afx -- - x y .env --all --brief --file --number --file=x --number=3 --file=
    -x -ax --zzz --al --fil=x -fa -f- -n- -3 --all=x
    """.split()
)
OPEN = Word("*", exact=False)


def call(table: Options, *texts: str) -> Call | str:
    """What the reader makes of words that are all known."""
    return read_call(table, [Word(text) for text in texts])


def told(table: Options, *texts: str) -> Call:
    """The same, where nothing is wrong with them."""
    answer = call(table, *texts)
    assert isinstance(answer, Call), answer
    return answer


@given(st.lists(PIECES, max_size=6))
def test_what_is_read_is_what_getopt_reads(texts: list[str]) -> None:
    """Whatever the reader accepts, it tells apart as getopt does."""
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
    assert told(TABLE, "-n", "-a", "x").values("-n") == ["-a"]
    assert told(TABLE, "-n", "-5").values("-n") == ["-5"]
    assert call(TABLE, "-n", "-x") == "the option -n, given -x"
    assert call(TABLE, "-n", "--") == "the option -n, given --"
    assert call(TABLE, "-n") == "the option -n, which is given nothing"


def test_files_are_operands_and_the_values_that_name_one() -> None:
    """A pattern is no file, unless an option gives it; a text never is."""
    table = only(takes="-f", texts="-e -n", pattern="-e -f")
    assert [word.text for word in told(table, "-n", "3", "x", "y").files] == ["y"]
    assert [word.text for word in told(table, "-e", "z", "x", "y").files] == ["x", "y"]
    assert [word.text for word in told(table, "-fz", "x").files] == ["x", "z"]
    assert read_call(table, [OPEN, Word("y")]) == "* may turn out to be an option"
    tame = only(takes="-f", pattern="-f", tame=True)
    answer = read_call(tame, [OPEN, Word("y")])
    assert isinstance(answer, Call)
    assert answer.files == (OPEN, Word("y"))


def test_what_a_program_needs_comes_before_its_operands() -> None:
    """Some programs read no options after the first operand: to them these are operands, too."""
    table = only("-l -v", texts="-n", needs="-l")
    assert isinstance(call(table, "-v", "-l", "x"), Call)
    for texts in (["x", "-l"], ["-n", "-l"], ["--", "-l"], ["-v"]):
        assert call(table, *texts) == "without -l it does more"
    one = only("-v", operands=1)
    assert isinstance(call(one, "-v", "x"), Call)
    assert isinstance(call(one, "x", "-v"), str)


def test_letters_without_a_dash() -> None:
    """`tar ftv x` is `tar -tvf x`; a first word that is no such letters is not read."""
    table = only("-t -v", takes="-f", needs="-t", old=True)
    assert told(table, "ftv", "x", "y").values("-f") == ["x"]
    assert told(table, "-tf", "x").values("-f") == ["x"]
    for texts in (["x", "-t"], ["t.f", "x"], ["tff", "x"]):
        assert isinstance(call(table, *texts), str)


def test_programs_that_do_not_put_options_together() -> None:
    """Their options are whole words, their values other words, and `--` is nothing special."""
    table = only("-a -noout", texts="-c -len", bundles=False)
    assert told(table, "-noout", "-len", "5", "x").values("-len") == ["5"]
    for texts in (["-ac", "5"], ["-c5"], ["--", "x"]):
        assert isinstance(call(table, *texts), str)
    separate = only("-a", texts="-L", glues=False)
    assert isinstance(call(separate, "-aL", "2"), Call)
    assert isinstance(call(separate, "-La", "2"), str)


def test_values_that_may_be_missing() -> None:
    """Joined or not at all; or, where it is said, missing only at the very end."""
    table = only(maybe="--color -M --contains", texts="--contains")
    assert told(table, "--color", "x").texts == ["x"]
    assert told(table, "--color=x", "-M5").values("--color", "-M") == ["x", "5"]
    assert told(table, "--contains", "x").values("--contains") == ["x"]
    assert told(table, "--contains").options == (("--contains", None),)


def test_two_values() -> None:
    """`jq --arg name value` takes two words."""
    table = only("-r", pairs="--arg", pattern="")
    assert told(table, "--arg", "a", "b", ".x", "f").texts == [".x", "f"]
    assert isinstance(call(table, "--arg=a", "b"), str)
    assert isinstance(call(table, "--arg", "a"), str)


def test_words_that_are_not_known() -> None:
    """An open word is read only where it cannot be, or become, another option."""
    named = Word("--file=*.py", exact=False, prefix="--file=")
    answer = read_call(TABLE, [named])
    assert isinstance(answer, Call)
    assert answer.values("--file") == ["*.py"]
    for word in (
        OPEN,
        Word("-f*", exact=False, prefix="-f"),
        Word("--f*", exact=False, prefix="--f"),
    ):
        assert isinstance(read_call(TABLE, [word]), str)
    assert isinstance(read_call(TABLE, [Word("-n"), Word("a*", exact=False, prefix="a")]), Call)
    assert isinstance(read_call(WORDS, [OPEN, Word("-x")]), Call)


@pytest.mark.parametrize(
    ("texts", "verb"),
    [
        (["-q", "ps", "-a", "x"], "ps"),
        (["-f", "y", "image", "ls"], "image ls"),
        (["compose", "-p", "x", "up"], None),
        (["compose", "-p", "x", "ps"], "compose ps"),
        (["-x", "ps"], None),
        (["rm"], None),
        ([], ""),
    ],
)
def test_verbs(texts: list[str], verb: str | None) -> None:
    """Options before the verb are the program's own; a verb may have verbs of its own, or be missing."""
    inner = Program(only(texts="-p"), {"ps": only("-a")})
    verbs: dict[str, Options | Program] = {
        "ps": only("-a"),
        "image ls": only(),
        "compose": inner,
        "": only(),
    }
    use = read_use(Program(only("-q", takes="-f"), verbs), [Word(text) for text in texts])
    assert (use.verb if isinstance(use, Use) else None) == verb
