from __future__ import annotations

import builtins
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.containment import ShellPolicy, read_command
from hookline.containment.shell import command_reader
from hookline.errors import UsageError
from hookline.extras import install_command

READ = {
    "ls -la src": [("ls", "-la", "src")],
    "r''m x": [("rm", "x")],
    "\"rm\" 'a b'": [("rm", "a b")],
    "\\rm x": [("rm", "x")],
    'grep "a\\|b" f': [("grep", "a\\|b", "f")],
    'echo "\\$x \\"y\\" \\\\"': [("echo", '$x "y" \\')],
    'grep "^a$" f': [("grep", "^a$", "f")],
    "find . \\( -name a \\) -exec ls {} \\;": [
        ("find", ".", "(", "-name", "a", ")", "-exec", "ls", "{}", ";")
    ],
    "a && b || c; d | e |& f & g": [(name,) for name in "abcdefg"],
    "a\nb\n\n# c\nd # e": [("a",), ("b",), ("d",)],
    "git show HEAD~1:f HEAD@{1} @{u}": [("git", "show", "HEAD~1:f", "HEAD@{1}", "@{u}")],
    "git log @{u}..HEAD {a},b": [("git", "log", "@{u}..HEAD", "{a},b")],
    "cat f 2>/dev/null >&2 </dev/null": [("cat", "f")],
    "(cd a && ls)": [("cd", "a"), ("ls",)],
    "! grep -q x f": [("grep", "-q", "x", "f")],
    "[ -d a ] && echo 'é ü'": [("[", "-d", "a", "]"), ("echo", "é ü")],
    "echo 'a\nb' \"c\td\"": [("echo", "a\nb", "c\td")],
    "echo a#b a=b a:b 50% a^b": [("echo", "a#b", "a=b", "a:b", "50%", "a^b")],
    "sort -t$'\\t' $'a b\\'c'": [("sort", "-t\t", "a b'c")],
    "time ls": [("ls",)],
    "": [],
    "  # only a comment": [],
}


@pytest.mark.parametrize("text", READ)
def test_what_is_read_is_what_bash_would_run(text: str) -> None:
    """Quotes, escapes, operators and harmless redirects are read as bash reads them."""
    reading = read_command(text)
    assert reading.is_static, reading.problem
    assert [command.argv for command in reading.commands] == READ[text]


NOT_STATIC = """
ls *.py | ls a? | ls [ab] | echo {a,b} | echo {1..3} | echo ~ | echo ~/x | echo ~root | echo a=~/x | echo $x | echo "$x"
echo ${x} | echo $(a) | echo `a` | echo $((1)) | echo $[1] | echo $'\\x41' | echo $"a" | x=1 ls | x=1 | x[0]=1 | x+=1 ls
a() { b; } | function a { b; } | coproc a | for i in a; do b; done | while a; do b; done
case a in a) b;; esac | [[ a ]] | ((1)) | alias a=b; a[1]=2 | ls > f | ls >> f | ls 2> f | ls &> f
ls >| f | ls <> f | ls {v}> f | a <(b) | a >(b) | %1 | ls; %1 | -x | ls | | && ls | ls && | ls;; | ; ls | ls & ;
(ls | ls) | () | 'ls | "ls | ls \\ | !! | export A=1 | declare a | unset a
""".replace("\n", " | ").split(" | ")


@pytest.mark.parametrize("text", [text for text in NOT_STATIC if text not in {"ls", "", "b", "a"}])
def test_what_is_not_known_for_certain_is_not_claimed(text: str) -> None:
    """Expansions, control flow, assignments, writes and broken texts are never claimed."""
    assert not read_command(text).is_static


NOT_SURE_TO_RUN = [
    "cat < f",
    "cat <<< x",
    "ls >&7",
    "ls >&- 2>&1",
    "ls 12>&1",
    "if a; then b; fi",
    "for f in a; do b; done",
    "while read l; do a; done",
    "[[ -f a ]]",
]


@pytest.mark.parametrize("text", NOT_SURE_TO_RUN)
def test_what_may_not_run_is_not_claimed(text: str) -> None:
    """A command whose redirect may fail, or that stands in a branch, is known at best, not static."""
    assert not read_command(text).is_static


KNOWN = {
    "if a; then b; elif ! c | d; then e; else f; fi | g": "abcdefg",
    "if (a); then { b; }; fi; c": "abc",
    "if a\nthen\n  b && if c; then d; fi\nfi": "abcd",
    "a <<< 'x y' | b": "ab",
}


@pytest.mark.parametrize("text", KNOWN)
def test_branches_and_here_strings_are_known(text: str) -> None:
    """Every command of an `if` is found, and so is one that is given a text."""
    reading = read_command(text)
    assert reading.is_known, reading.problem
    assert [command.words[0].text for command in reading.commands] == list(KNOWN[text])


@pytest.mark.parametrize(
    "text",
    [
        "if a; b; fi", "if a; then fi", "if a; then b; fi c", "if a; then b; else c; else d; fi", "if a; then b",
        "if a; then b; fi > x", "if; then a; fi", "if a && then b; fi", "x=1 if a; then b; fi", "a <<< $x",
        "a <<< ~", "a <<<", "cat {v}<<< x", "then a; fi", "a {b{c},d}", "a {b'}',c}", "a {b}{c,d}", "{v}> f",
    ],
)  # fmt: skip
def test_branches_and_braces_that_are_not_plain_are_not_known(text: str) -> None:
    """What bash refuses, expands or redirects is not claimed."""
    assert not read_command(text).is_known


@pytest.mark.parametrize("text", ["a | (b; c)", "a | { b && c; }", "a | if b; then c; fi"])
def test_a_group_passes_its_input_on(text: str) -> None:
    """Each of its commands may read what is piped to it."""
    assert [command.piped for command in read_command(text).commands] == [False, True, True]


SWALLOWED = [
    "find . -del\\\nete",
    "ls a\\\n-la",
    "ls &\\\n& a",
    'man "mm$${mm$${(a)"',
    "ls a\rb",
    "ls a\x00b",
    "ls 'a\x00b'",
    "ls a\u00a0b",
    "ls é",
    "ls \x01",
    "ls '\x7f'",
    "ls a\x0bb",
    "ls \udcff",
    "cat <<E\nx\nE",
    "cat <<'E' | sh\nx\nE",
    "ls $(a # )\n)",
    "if",
    "ls {},a}",
    "git diff main<(ls)",
    "ls a>(b)",
]


@pytest.mark.parametrize("text", SWALLOWED)
def test_bytes_that_a_grammar_swallows_are_not_claimed(text: str) -> None:
    """What tree-sitter reads in another way than bash, or what is no plain text, is not claimed."""
    assert not read_command(text).is_static


def test_an_open_word_says_how_it_begins() -> None:
    """A pattern is not known, but the beginning of every word it can become is."""
    (command,) = read_command("grep -rn x --include=*.py src/*.c *.h ~/a").commands
    opened = {word.text: word.prefix for word in command.words if not word.exact}
    assert command.argv is None
    assert opened == {
        "--include=*.py": "--include=",
        "src/*.c": "src/",
        "*.h": "",
        "~/a": "/",
    }


@pytest.mark.parametrize(
    "text",
    ["ls {,}", "ls a{b,c}", "ls {1..3}", "ls x{a,'b c'}", "ls {a,b", "ls $HOME", 'ls "$PWD"', "echo $?", "ls *'*'"],
)  # fmt: skip
def test_braces_and_variables_are_not_read(text: str) -> None:
    """bash drops empty words of `{,}` and puts any text in the place of a variable: neither is known."""
    assert not read_command(text).is_known


TOO_MUCH = {
    "long": "echo " + "a" * 20_000,
    "defaults in defaults": "echo " + "${a:-" * 1_500 + "}" * 1_500,
    "closing brackets": ")" * 4_000,
    "deep": "echo " + "$(a " * 50 + ")" * 50,
    "deep brackets": "(" * 500 + "ls" + ")" * 500,
    "many": "; ".join(["ls"] * 500),
}


@pytest.mark.parametrize("text", TOO_MUCH.values(), ids=TOO_MUCH)
def test_too_much_is_asked_about(text: str) -> None:
    """A text that is too long, too deep or has too many commands is never allowed, however harmless its parts."""
    assert not read_command(text).is_known
    assert ShellPolicy.default().judge(text).decision != "allow"


@pytest.mark.parametrize("text", ["!", "! ", "ls; ! ", "time ", "ls && time\t"])
def test_a_prefix_without_a_command_is_not_claimed(text: str) -> None:
    """The text ends where a command belongs."""
    assert not read_command(text).is_known


def test_the_far_end_of_unicode_does_no_harm() -> None:
    """Characters that bring the grammar down are kept from it."""
    for character in ("\U0003b558", "\U000def9f", "\U0010ffff", "\ue000", "\udcff"):
        for text in ("R{}O\r{{{}5", "<<{}", "${{{}", "{}=1", "a{}b <<{}\n{}", "'{}'", '"{}"'):
            command = text.replace("{}", character)
            assert read_command(command).is_known <= ("'" in text or '"' in text)
            verdict = ShellPolicy.default().judge(f"rm -rf /; {command}")
            assert verdict.decision == "deny"
            assert f"{verdict.reason}{verdict.command}".encode()
            written = ShellPolicy.default().judge(f"cat > ~/.ssh/{character}")
            assert (written.decision, bool(written.reason.encode())) == ("deny", True)


@given(st.text())
def test_no_text_makes_it_raise(text: str) -> None:
    """Any text at all has a reading and a verdict."""
    read_command(text)
    assert ShellPolicy.default().judge(text).reason


@given(st.text(alphabet="rmls -/~.;|&<>(){}[]$`'\"\\\n*=#!a1", max_size=40))
def test_no_shell_text_makes_it_raise(text: str) -> None:
    """Nor does any text made of what means something to a shell."""
    reading = read_command(text)
    verdict = ShellPolicy.default().judge(text)
    assert reading.is_known or verdict.decision != "allow"


@given(
    st.lists(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1))
)
def test_single_quotes_keep_any_word(words: list[str]) -> None:
    """A word in single quotes is read as it is."""
    quoted = ["'" + word.replace("'", "'\\''") + "'" for word in words]
    reading = read_command(" ".join(["echo", *quoted]))
    assert [command.argv for command in reading.commands] == [("echo", *words)]


def test_without_the_extra_everything_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without tree-sitter, reading says how to install it, and the policy asks about everything."""
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("tree_sitter"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest)

    command_reader._language.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=re.escape(install_command("shell"))):
        read_command("ls")
    verdict = ShellPolicy.default().judge("ls")
    assert (verdict.decision, "tree-sitter-bash" in verdict.reason) == ("ask", True)
    monkeypatch.undo()
    assert ShellPolicy.default().judge("ls").decision == "allow"


BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.mark.timeout(300)
def test_no_claim_about_fuzzed_strings_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is claimed of two thousand strings is what real bash would run, and enough of them are claimed."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import shell_bash
    import shell_fuzz

    if reason := shell_bash.unusable():
        pytest.skip(reason)
    with shell_bash.Cage() as cage:
        tallies = shell_fuzz.fuzz(cage, 2000, seed=20)
    assert [wrong for tally in tallies for wrong in tally.wrong] == []
    assert sum(t.static for t in tallies) >= 0.15 * sum(t.strings for t in tallies)


def test_the_comparison_sees_a_wrong_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading that says something else than bash is found out."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import shell_bash
    import shell_fuzz
    from hookline.containment import read_command

    if reason := shell_bash.unusable():
        pytest.skip(reason)
    with shell_bash.Cage() as cage:
        (ran,) = cage.traces(["find . -del\\\nete"])
    assert ran[0] == ("find", ".", "-delete")
    assert shell_fuzz.agrees(read_command("find . -delete"), ran)
    assert not shell_fuzz.agrees(read_command("find . -del ete"), ran)
    assert not shell_fuzz.agrees(read_command("find . -delete; ls"), ran)
