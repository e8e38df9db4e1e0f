"""The tolerant reader of shell text."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.shell_text import (
    UNKNOWN,
    PipelineStage,
    ShellVisitor,
    TooDeep,
    read_shell_text,
)
from hookline.shell_text.command_search import find_commands
from hookline.shell_text.reader import plain_text


class Recorder(ShellVisitor):
    """Keeps what it is called with."""

    def __init__(self, variables: dict[str, str] | None = None) -> None:
        super().__init__(variables)
        self.found: list[list[str]] = []
        self.pipelines: list[list[list[list[str]]]] = []
        self.functions: list[str] = []
        self.stages: list[PipelineStage] = []

    def command(self, words: list[str], text: str, inner: object) -> None:
        assert text
        assert isinstance(inner, list)
        self.found.append(words)

    def stage(self, stage: PipelineStage) -> None:
        self.stages.append(stage)

    def pipeline(self, stages: object, text: str) -> None:
        assert text
        assert isinstance(stages, list)
        self.pipelines.append([stage.commands for stage in stages])

    def function(self, name: str, body: PipelineStage) -> None:
        assert body.text is not None
        self.functions.append(name)


def commands(text: str, *, known: bool = True) -> list[list[str]]:
    """The words of the commands of a text."""
    recorder = Recorder({} if known else None)
    read_shell_text(text, recorder)
    return recorder.found


@pytest.mark.parametrize(
    "text",
    [
        "a b", "a 'b'", 'a "b"', "a b;", "a b # c", "# c\na b", "a \\\nb", "a b &", "(a b)", "((a b))", "{ a b; }",
        "! a b", "time -p a b", "time { a b; }", "coproc X { a b; }", "a>x b", "2>&1 a b", "a &>x b", "x=1 a b",
        "x[1]=2 a b", "if a b; then fi", "while a b; do done", "for i in 1; do a b; done", "for ((;;)); do a b; done",
        "case x in y) a b;; esac", "case x in (y|z) a b;; esac", "case $x in\n y)\n  a b\n ;;\nesac",
        "f() { a b; }", "function f { a b; }", "function f() { a b; }", "x=$(a b)", "x=(1 $(a b))", "x=`a b`",
        "X=b; a $X", "a ${X:-b}", "$'\\x61' b", "a {b,}", "a$IFS''b", "a b)", "[[ $(a b) && 1 > 2 ]]", "set -- a b; $@",
        "select x in 1; do a b; done", "export X=a; $X b", "a b | c", "c |\n a b", "c <<'E'; a b\n$(x)\nE",
    ],
)  # fmt: skip
def test_a_command_is_found_wherever_it_stands(text: str) -> None:
    """In groups, loops, functions, assignments and substitutions, in any spelling."""
    assert [word for word in next(c for c in commands(text) if c[0] == "a") if word] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("echo 'a b'", [["echo", "a b"]]),
        ("# a b", []),
        ("case a in b) c;; d|e) f;; esac", [["c"], ["f"]]),
        ("cat <<E\na b\nE\nc", [["cat"], ["c"]]),
        ("cat <<'E'\n$(a b)\nE", [["cat"]]),
        ("cat <<E\n\"$(a 'b')\"\nE", [["a", "b"], ["cat"]]),
        ("> x", []),
        ("echo done; echo fi }", [["echo", "done"], ["echo", "fi", "}"]]),
        ("echo \"$(echo ')')\"", [["echo", ")"], ["echo", ")"]]),
        ("for x in a b; do c $x; done", [["c", "a", "b"]]),
    ],
)
def test_what_is_no_command_is_not_found(text: str, found: list[list[str]]) -> None:
    """Texts, comments, patterns and here-documents."""
    assert commands(text) == found


def test_what_is_not_known_is_marked() -> None:
    """Without variables nothing counts as known, not even what the text sets."""
    assert commands('X=a; b $X "$Y/c" $(echo d)', known=False)[-1] == [
        "b",
        UNKNOWN,
        f"{UNKNOWN}/c",
        UNKNOWN,
    ]
    assert commands('X=a; b $X "$Y/c" $(echo d)')[-1] == ["b", "a", f"{UNKNOWN}/c", "d"]


def test_pipelines_redirects_and_functions_are_seen() -> None:
    """A group is one member of a pipeline, with all that is in it."""
    recorder = Recorder({})
    read_shell_text(
        "f() { a; }; { b; c $(d); } 2> e | while read x; do g; done < h <<< i", recorder
    )
    assert recorder.functions == ["f"]
    (pipeline,) = recorder.pipelines
    assert [sorted(words[0] for words in stage) for stage in pipeline] == [
        ["b", "c", "d"],
        ["g", "read"],
    ]
    redirected = [stage for stage in recorder.stages if stage.redirects]
    assert [stage.redirects for stage in redirected] == [[(">", "e")], [("<", "h")]]
    assert redirected[1].inputs == ["i"]


@given(st.text(alphabet="'\"\\$`;|&<>(){}[]*~#!=\n\t ,:-aEx/", max_size=200))
def test_any_text_is_read(text: str) -> None:
    """Nothing but too many groups stops the reader."""
    for known in (True, False):
        try:
            commands(text, known=known)
        except TooDeep:
            assert sum(map(text.count, "({$`")) > 20


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a \\\nb", "a b"),
        ("a # b\nc", "a \nc"),
        ("# a \\\nb", "\nb"),
        ("# a \\\n# b \\\nc \\\nd", "\n\nc d"),
        ("a#b '#' \"#\" \\# $# ${a#b}", "a#b '#' \"#\" \\# $# ${a#b}"),
        ("'a \\\nb' \\\nc", "'a \\\nb' c"),
        ('"a \\\nb"', '"a b"'),
        ("$'a\\\nb'", "$'a\\\nb'"),
        ("a \\\\\nb", "a \\\\\nb"),
        ("a \\\\\\\nb", "a \\\\b"),
        ("a <<'E' \\\nb\nc\\\nE\nd\\\ne", "a <<'E' b\nc\\\nE\nde"),
        ("a <<E\nb\\\nE\nE\nc", "a <<E\nbE\nE\nc"),
        ("a <<E # \\\n$(b # c\n)\nE", "a <<E \n$(b # c\n)\nE"),
        ("a <<'E' # b\\\nE\nc\\\nd", "a <<'E' \nE\ncd"),
        ("$(a # b\\\nc)", "$(a \nc)"),
        ("\\\n", ""),
        ("#", ""),
    ],
)
def test_lines_are_joined_and_comments_removed(text: str, plain: str) -> None:
    """A comment ends with its line; in single quotes and in quoted here-documents a backslash is one."""
    assert plain_text(text) == plain


@pytest.mark.parametrize(
    "line", ["x=$((1 << 20))", "((x<<=1))", "echo $[1<<2]", 'echo "$((1<<4))"', "cat <<E"]
)
def test_what_seems_to_begin_a_here_document_hides_nothing(line: str) -> None:
    """A shift is no here-document, and one without its end may be none."""
    assert ("sudo", "ls") in (find_commands(f"{line}\nsudo ls") or ())


@pytest.mark.parametrize(
    "text",
    [
        "x=(; sudo ls", "x=(a | sudo ls\nb", "x=(;\\\nsudo ls", "x=(a;b 'c\nsudo ls\n'", "eval x=(; \\\nsudo ls",
        "x=(;" * 50 + "sudo ls", "x=(;" * 50 + "\nsudo ls", "a x=(b) && sudo ls",
        "12345>f sudo ls", "{v}>f sudo ls", ">&-sudo ls", "ls <&-; sudo ls",
        'x=(x=(\\\n"\nsudo ls\n\\|>&-${x:-;{ ', "<<'E' ax=(; #\tE\n\\\nsudo ls\n\\#}",
        "<<'E' ax=(;\n# \\\nsudo ls",
    ],
)  # fmt: skip
def test_a_broken_list_or_an_unusual_redirect_hides_nothing(text: str) -> None:
    """bash drops the rest of the line with a broken list, and continues with the next. Both are read."""
    assert ("sudo", "ls") in (find_commands(text) or ())


def test_a_broken_script_in_a_text_does_not_break_the_text() -> None:
    """What stands in its here-document is still no command."""
    found = find_commands("cat > notes <<'E'\nsudo ls\nE\nbash -c \"echo 'x\"") or ()
    assert ("cat",) in found
    assert ("sudo", "ls") not in found


def test_what_is_joined_in_too_many_places_is_not_read() -> None:
    """Each comment with a backslash at its end is one more reading."""
    assert plain_text("# \\\n" * 20 + "a") == "\n" * 20 + "a"
    with pytest.raises(TooDeep):
        plain_text("# \\\n" * 5_000)


PIECES = (
    "zz k", "zz k", "\nzz k\n", "z\\\nz k", "\\\n", "\\\n", "#", " # ", "'", "'", '"', '"', "`", "$(", ")", "\n", ";",
    " ", "\\", "\\\\\n", "cat <<E\n", "cat <<'E'\n", "\nE\n", "E\n", "cat <<-E\n", "\tE\n", "E)", "a", "echo ", "$'",
    "\\'", "${x:-", "}", "x=", "&&", "|", "(", "{ ", "; }", "E\\\n", "<<E ", "<<'E' ", "\\#", "a#", "\r", "\f", "\r#",
    "x=(", "x=(;", "declare x=(", "{v}>f ", ">&-", "12345>f ",
)  # fmt: skip


@pytest.mark.timeout(300)
def test_what_bash_runs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comments, quotes, here-documents and continued lines hide no command that real bash would run."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[1] / "benchmarks"))
    import shell_bash

    if reason := shell_bash.unusable():
        pytest.skip(reason)
    chance = random.Random(14)
    texts = ["".join(chance.choices(PIECES, k=chance.randint(2, 10))) for _ in range(1_500)]
    with shell_bash.Cage() as cage:
        traces = cage.traces(texts, ["0"])
    run = [text for text, ran in zip(texts, traces, strict=True) if ("zz", "k") in ran]
    assert len(run) > 30
    names = [{words[0].replace(UNKNOWN, "") for words in commands(text)} for text in run]
    assert [text for text, found in zip(run, names, strict=True) if "zz" not in found] == []


@pytest.mark.parametrize(
    "piece", ["(", "$(", "${a:-", '"$(', "f(){ ", "`", "'", "<<E\n", "a|", "{a,b}", "case x in ", "x=1;", "[[ "]
)  # fmt: skip
def test_long_texts_are_read(piece: str) -> None:
    """Neither nesting nor length brings it down."""
    try:
        commands(piece * 3_000)
    except TooDeep:
        assert "(" in piece or "{" in piece or "case" in piece


@pytest.mark.parametrize(
    "text",
    [
        "a | | b", "&& x", "x ||", "x ; && y", "echo ${x", "echo $(", "echo `ls", "echo $'x", ")", "fi", "for f in",
        "if a; then b", "x=(1", "{ ls", "ls; ; ls",
    ],
)  # fmt: skip
def test_a_text_that_bash_would_not_take_is_noted(text: str) -> None:
    """Something is left open, or an operator has no command."""
    visitor = ShellVisitor()
    read_shell_text(text, visitor)
    assert visitor.is_broken


@pytest.mark.parametrize(
    "text",
    [
        "x=1 && ls &", "case x in a) ls;; b) ;; esac", "case x in (a) ls; ;; esac", "for f in a b; do ls; done",
        "cat <<E\n' \"\nE\n", "f() { ls; }", "ls |\n cat", "x=(1 2)\n", "echo ${x:-'}'} # '", "[[ a && b ]]",
        "declare x=(1 2)", "[[ a =~ b=(c|d) ]]",
    ],
)  # fmt: skip
def test_a_text_that_bash_takes_is_not_broken(text: str) -> None:
    """Also where quotes, operators and words of the shell stand in unusual places."""
    visitor = ShellVisitor()
    read_shell_text(text, visitor)
    assert not visitor.is_broken
