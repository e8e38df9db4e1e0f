from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import ToolCall
from hookline.permissions import Rule


def run(*words: str) -> ToolCall:
    """A call of exec."""
    return ToolCall("1", "exec", {"argv": list(words)})


def line(text: str) -> ToolCall:
    """A call of bash."""
    return ToolCall("1", "bash", {"command": text})


@pytest.mark.parametrize(
    ("rule", "inside", "outside"),
    [
        ("git push *", "git push|git push origin main|git push --force", "git|git pull|git pushed|/bin/git push"),
        ("git status", "git status", "git status -s|git"),
        ("git push*", "git push|git pushes", "git pull|git push origin"),
        ("rm build/*", "rm build/x|rm build/a/b", "rm build/x -r /home|rm build/../x|rm build/.."),
        ("git push origin feature-*", "git push origin feature-x", "git push origin feature-x --force main"),
        ("npm run test:*", "npm run test|npm run test -- -x|npm run test:unit", "npm run testing|npm run"),
        ("npm run test:*", "npm run test:unit -- -x", "npm run tests -- -x"),
        ("npm run *", "npm run|npm run a b", "npm install"),
        ("git * main", "git push main|git push origin main", "git main|git push main now"),
        ("make -C *", "make -C d|make -C d all", "make|make all"),
        ("*", "anything|at all", ""),
        ("*:*", "", ""),
        ("echo \\*", "echo *", "echo x"),
        ("ls*", "ls|lsof", "l|ls -l"),
    ],
)  # fmt: skip
def test_what_a_pattern_allows(rule: str, inside: str, outside: str) -> None:
    """Word by word, and nothing else."""
    parsed = Rule.parse(f"bash({rule})")
    for words in filter(None, inside.split("|")):
        assert parsed.covers(run(*words.split())), words
        assert parsed.touches(run(*words.split())), words
    for words in filter(None, outside.split("|")):
        assert not parsed.covers(run(*words.split())), words


def test_words_stay_words() -> None:
    """A blank inside a word is no blank between words, in the call or in the pattern."""
    assert not Rule.parse("bash(git push *)").covers(run("git push", "x"))
    assert not Rule.parse("bash(git push)").covers(run("git", "push "))
    assert Rule.parse('bash(git commit -m "a b")').covers(run("git", "commit", "-m", "a b"))
    assert not Rule.parse('bash(git commit -m "a b")').covers(run("git", "commit", "-m", "a", "b"))


@pytest.mark.parametrize(
    "words",
    """
    git push origin|git -C x push|git --git-dir=x push|git -c a=b push origin|/usr/bin/git push|sudo git push
    env A=1 git push|timeout 5 git push|nohup git push|xargs git push|git push --force|bash -c git_push
    """.replace("\n", "|").split("|"),
)
def test_what_a_pattern_forbids_in_other_spellings(words: str) -> None:
    """Options between the words, the program's directory and programs that run others are no way round a rule."""
    if argv := [word.replace("_", " ") for word in words.split()]:
        assert Rule.parse("bash(git push *)").touches(run(*argv))


@pytest.mark.parametrize(
    "words", ["git pull", "git commit -m push", "git", "echo git push", "gitk push", "npm push"]
)
def test_what_a_pattern_does_not_forbid(words: str) -> None:
    """Another command is another command."""
    assert not Rule.parse("bash(git push *)").touches(run(*words.split()))


def test_a_program_is_the_same_in_any_directory() -> None:
    """To forbid a program by its path is to forbid it; to allow it by its path is to allow that one."""
    rule = Rule.parse("bash(./scripts/deploy.sh *)")
    for program in (
        "./scripts/deploy.sh",
        "scripts/deploy.sh",
        "/x/scripts/deploy.sh",
        "deploy.sh",
    ):
        assert rule.touches(run(program, "now"))
    assert rule.covers(run("./scripts/deploy.sh"))
    assert not rule.covers(run("scripts/deploy.sh"))
    assert not rule.touches(run("other.sh"))


def test_options_of_a_pattern_may_stand_anywhere() -> None:
    """To forbid `push --force` is to forbid `push origin --force`."""
    rule = Rule.parse("bash(git push --force *)")
    assert rule.touches(run("git", "push", "origin", "--force"))
    assert not rule.touches(run("git", "push", "origin"))
    assert not rule.covers(run("git", "push", "origin", "--force"))


@pytest.mark.parametrize(
    "text",
    [
        "git push $X",
        "echo hi; git push",
        "$CMD push",
        "git $X",
        "gi? push",
        "/usr/bin/g* push",
        "{git,push}",
        "g''it pu\"sh\"",
        "g\\it push",
        "git pu\\\nsh",
        "git -c 'a;b' push",
        'echo "$(git push)"',
        "echo `git push`",
        "X=1 git push",
        "X=$(date) git push",
        "> out git push",
        "if true; then git push; fi",
        "bash <<EOF\ngit push\nEOF",
        "eval 'git push'",
        "find . -exec git push \\;",
    ],
)
def test_what_is_not_known_is_forbidden_and_never_allowed(text: str) -> None:
    """A command line that only says when it runs what it is may be anything that its words do not rule out."""
    rule = Rule.parse("bash(git push *)")
    assert rule.touches(line(text))
    assert not Rule.parse("bash(git *)").covers(line("git log $X"))


@pytest.mark.parametrize(
    "text",
    [
        "git push>x",
        "git>x push",
        "git>$OUT push",
        "git 2>&1 push",
        "git <(ls) push",
        "git &>x push",
        "timeout 5 git push>x",
        "time -p git push",
        "time -- git push > x",
        "! time git push >x",
        "time -p $CMD",
        "coproc git push",
        "coproc $CMD",
        "function f { git push; }; f",
        "function f { $CMD; }; f",
        "f() { git push; }; f",
        "bash <<< 'git push'",
        "sudo sh <<< 'git push'",
        "echo git push | sh",
        "cat <<EOF | sh\ngit push\nEOF",
        "for x do git push; done",
        "for x do $CMD; done",
        "exec 3>&1 git push",
        "alias g='git push'; g",
        "trap 'git push' EXIT",
        "uv run git push",
        "if git push; then :; fi > x",
        "a[1]=2 git push > $X",
        "parallel git ::: push",
        "python3 -c 'import os; os.system(\"git push\")'",
    ],
)
def test_no_spelling_of_a_line_is_a_way_round_a_rule(text: str) -> None:
    """Redirects within a command, words of the shell and commands that are only read are looked through."""
    assert Rule.parse("bash(git push *)").touches(line(text))
    assert Rule.parse("bash(git push)").touches(line(text))
    assert not Rule.parse("bash(git push *)").covers(line(text))


@pytest.mark.parametrize(
    "text",
    [
        "echo git push > notes",
        "for f in *.py; do python $f > $f.out; done",
        "git log -- $FILES",
        "while read l; do echo $l; done < f",
        "python3 tool.py git push",
        "git log > push",
        "git status 2>&1 | grep push",
        'for f in *.txt; do cat "$f"; done',
        "x=$(date)",
        "echo $(date) > out",
        '[[ -f "$x" ]] && git status "$x"',
        'cat > f <<EOF\n* item\n"json": 1\n<div>\nEOF',
        'git commit -m "$MESSAGE"',
    ],
)
def test_what_words_rule_out_is_not_forbidden(text: str) -> None:
    """A rule to forbid one command leaves others alone, also those that are not known to their end."""
    assert not Rule.parse("bash(git push *)").touches(line(text))


@pytest.mark.parametrize("argv", [None, [], "", ["a", 7], {"a": "b"}, 7])
def test_what_is_no_command_is_forbidden_and_never_allowed(argv: object) -> None:
    """A call without a command line that can be read may be anything."""
    call = ToolCall("1", "exec", {"argv": argv})
    assert not Rule.parse("bash(git *)").covers(call)
    assert Rule.parse("bash(git *)").touches(call) or argv == ""


def test_a_shell_of_ones_own_is_compared_by_command() -> None:
    """A rule about another tool with a `command` is no plain text comparison either."""
    rule = Rule.parse("mcp__host__shell(git status*)")
    call = ToolCall("1", "mcp__host__shell", {"command": "git status; rm -rf $HOME"})
    assert not rule.covers(call)
    assert Rule.parse("mcp__host__shell(rm *)").touches(call)


WORDS = st.sampled_from(["git", "push", "-f", "a", "main", "x y", "", "*", "--", "push*"])


@given(st.lists(WORDS, min_size=1, max_size=6))
def test_what_is_covered_is_touched(words: list[str]) -> None:
    """Whatever a rule may allow, it may also forbid."""
    for text in (
        "git push *",
        "git *",
        "* push",
        "git * main",
        "git push:*",
        "git push -f *",
        "git",
    ):
        rule = Rule.parse(f"bash({text})")
        if rule.covers(run(*words)):
            assert rule.touches(run(*words)), text


@given(st.lists(st.sampled_from("ab"), max_size=8), st.lists(st.sampled_from("ab*"), max_size=6))
def test_words_match_what_an_oracle_says(words: list[str], pattern: list[str]) -> None:
    """A `*` is one word or more, at the end any number: the same as trying all possibilities."""
    if not words or not pattern or pattern == ["*"]:
        return
    assert Rule.parse(f"bash({' '.join(pattern)})").covers(run(*words)) is oracle(pattern, words)


def oracle(pattern: list[str], words: list[str]) -> bool:
    """All ways to put the words onto the pattern, tried one after the other."""
    if not pattern:
        return not words
    if pattern == ["*"]:
        return True
    if pattern[0] == "*":
        return any(oracle(pattern[1:], words[skip:]) for skip in range(1, len(words) + 1))
    return bool(words) and pattern[0] == words[0] and oracle(pattern[1:], words[1:])
