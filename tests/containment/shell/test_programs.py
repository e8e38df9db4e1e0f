"""Every table: what it does not know is asked about, wherever it stands, and values are no options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hookline.containment import ShellPolicy
from hookline.containment.shell.git_verbs import GIT_VERBS
from hookline.containment.shell.options import OptionTable, read_call
from hookline.containment.shell.programs import PROGRAMS, VERSIONED, WRAPPERS
from hookline.containment.shell.words import Word
from hookline.errors import UsageError

UNKNOWN = ("--zzz", "--zzz=1", "--output", "--output=zzz")
WORDS_ALONE = frozenset("echo : true false expr test [ printf".split())
"""To these every word is a word: they have no options, or none but those that the corpora are about."""
TABLES = [pair for pair in sorted(PROGRAMS.items()) if pair[0] not in WORDS_ALONE]
TABLES += [(f"git {verb}", options) for verb, options in GIT_VERBS.items()]
READ = [(words, table) for words, table in TABLES if not table.plain_words]


def allowed(commands: Iterable[str]) -> list[str]:
    """Those of some commands that run without asking."""
    policy = ShellPolicy.default()
    return [text for text in commands if policy.judge(text).decision == "allow"]


def unknown_letter(table: OptionTable) -> str:
    """A short option that a table does not know."""
    return next(f"-{letter}" for letter in "zqjyoxwkDGJKQYW" if not table.has_option(f"-{letter}"))


def valued(table: OptionTable) -> list[str]:
    """Options of a table that take a value in the next word, some of each kind."""
    alone = (table.takes | table.texts) - table.maybe
    short = sorted(name for name in alone if re.fullmatch("-[A-Za-z]", name))
    return short[:2] + sorted(name for name in alone if name.startswith("--"))[:2]


def names_of(table: OptionTable) -> frozenset[str]:
    """All options of a table."""
    return table.flags | table.maybe | table.takes | table.texts


def test_there_are_few_programs() -> None:
    """The list stays small: what is not on it asks."""
    assert len(PROGRAMS) + len(WRAPPERS) < 100


def test_an_unknown_option_is_asked_about() -> None:
    """First, last, short, long, with a value, and beside others that are known."""
    commands = []
    for words, table in TABLES:
        unknown = [option for option in UNKNOWN if not table.has_option(option.partition("=")[0])]
        for option in (*unknown, unknown_letter(table)):
            commands += [f"{words} {option}", f"{words} {option} x", f"{words} x {option}"]
    assert len(commands) > 1000
    assert allowed(commands) == []


def test_an_unknown_letter_in_a_bundle_is_asked_about() -> None:
    """A letter is no more harmless for standing beside one that is known."""
    commands = []
    for words, table in READ:
        letter = unknown_letter(table)[1]
        flags = sorted(name for name in table.flags if re.fullmatch("-[A-Za-z]", name))
        bundles = [flag + letter for flag in flags[:3] if not table.has_option(flag + letter)]
        commands += [f"{words} {bundle} x" for bundle in bundles]
    assert len(commands) > 100
    assert allowed(commands) == []


def test_an_unknown_option_around_a_value_is_asked_about() -> None:
    """A value ends with its word and does not hide what follows; nor is an unknown option harmless as a value."""
    commands = [
        f"{words} {option} {rest}"
        for words, table in READ
        for option in valued(table)
        for rest in ("1 --zzz", "--zzz", "--zzz x")
    ]
    assert len(commands) > 200
    assert allowed(commands) == []


def test_an_option_cut_short_is_asked_about() -> None:
    """`--outp` may stand for an option that nobody has written down."""
    commands = [
        f"{words} {name[:-1]} x"
        for words, table in READ
        for name in names_of(table)
        if name.startswith("--") and not table.has_option(name[:-1])
    ]
    assert len(commands) > 500
    assert allowed(commands) == []


def test_no_table_contradicts_itself() -> None:
    """An option has one kind; a name of several letters after one dash begins with none that takes a value."""
    for words, table in READ:
        kinds = (table.flags, table.takes, table.texts, table.maybe)
        assert sum(map(len, kinds)) == len(frozenset().union(*kinds)), words
        for name in names_of(table):
            glued = re.fullmatch("-[^-].+", name) and table.has_option(name[:2])
            assert not glued or name[:2] in table.flags, (words, name)


def spellings(table: OptionTable, name: str) -> Iterator[list[Word]]:
    """Every way to give an option a value, and an operand after it."""
    yield [Word(name), Word("v"), Word("x")]
    if name.startswith("--"):
        yield [Word(f"{name}=v"), Word("x")]
    elif table.glues and len(name) == 2:
        yield [Word(f"{name}v"), Word("x")]


def test_every_option_is_read_as_it_is_written_down() -> None:
    """A flag takes nothing from the next word; a value is taken from it, from behind `=`, or from the same word."""
    for words, table in READ:
        plain = OptionTable(table.flags, table.takes, table.texts, table.maybe, glues=table.glues)
        for name in table.flags - {"-#"}:
            call = read_call(plain, [Word(name), Word("x")])
            assert not isinstance(call, str), (words, name)
            assert call.texts == ["x"], (words, name)
        for name in table.takes | table.texts:
            for spelling in spellings(table, name):
                call = read_call(plain, spelling)
                assert not isinstance(call, str), (words, name)
                assert (call.values(name), call.texts) == (["v"], ["x"]), (words, name)
                assert (Word("v") in call.files) == (name in table.takes), (words, name)


def test_an_unknown_option_of_a_wrapper_is_asked_about() -> None:
    """Also in front of a harmless command, and also as a value."""
    for name, (table, own) in WRAPPERS.items():
        before = "5 " * own
        commands = [f"{name} {option} {before}ls" for option in ("--zzz", unknown_letter(table))]
        for option in valued(table):
            commands += [
                f"{name} {option} {rest}" for rest in (f"--zzz {before}ls", f"1 {before}rm x")
            ]
        assert allowed([f"{name} {before}ls"])
        assert allowed(commands) == []


def test_only_a_bare_name_may_be_asked_for_its_version() -> None:
    """`python3 --version` runs; with another word, of another program, or of a file it asks."""
    assert allowed([f"{name} --version" for name in VERSIONED]) == [
        f"{name} --version" for name in VERSIONED
    ]
    others = ["yarn", "cargo", "./python3", "bin/python3", "../python3", "evil"]
    assert allowed([f"{name} --version" for name in others]) == []
    assert allowed([f"{name} --version {x}" for name in VERSIONED for x in ("x", "-c x")]) == []


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        *((text, "allow") for text in ("ps", "ps aux", "ps -ef", "ps -p 12", "ps aux --sort=-rss")),
        *((text, "ask") for text in ("ps -aue", "ps e", "ps auxe", "ps -u eee", "ps -o environ")),
        *((text, "ask") for text in ("ps -A e", "ps 'aux --forest'")),
        *((text, "allow") for text in ("jq .a f", "node -v", "python3 -V", "whoami", "env ls")),
        *((text, "ask") for text in ("jq -n '$ENV'", "jq '$ ENV' f", "jq 'env' f", "jq .Env f", "node -e 1")),
        *((text, "ask") for text in ("python3 -v", "node -v x", "jq -n '\"x\"|modulemeta'")),
    ],
)  # fmt: skip
def test_only_some_spellings_are_plain(command: str, decision: str) -> None:
    """ps reads words again in another way, and jq takes blanks inside of a variable."""
    assert ShellPolicy.default().judge(command).decision == decision


@pytest.mark.parametrize(
    "command",
    [
        "sed {,} '1e id >P1' f",
        "sed {,} 'w P2' f",
        "sed -e {,} '1e touch P3' f",
        "awk {,} 'BEGIN{system(\"touch P4\")}'",
        "printf {,} -v PATH %s W/bin; ls",
    ],
)
def test_an_empty_word_is_no_script(command: str) -> None:
    """bash drops it, and the next word is the script."""
    assert ShellPolicy.default().judge(command).decision == "ask"


def test_a_program_of_the_work_directory_is_no_program_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where `PATH` leads into the work directory, a planted file would run."""
    bin_ = tmp_path / ".venv" / "bin"
    bin_.mkdir(parents=True)
    policy = ShellPolicy.default()
    for entry in (str(bin_), ".venv/bin", ""):
        monkeypatch.setenv("PATH", f"{entry}:/usr/bin:/bin")
        assert policy.judge("cat x", root=str(tmp_path)).decision == "allow"
        planted = (tmp_path if not entry else bin_) / "cat"
        planted.write_text("#!/bin/sh\ntouch pwned\n")
        assert policy.judge("cat x", root=str(tmp_path)).decision == "ask"
        assert policy.judge("timeout 5 cat x", root=str(tmp_path)).decision == "ask"
        planted = planted.rename(planted.with_name("echo"))
        assert policy.judge("echo x", root=str(tmp_path)).decision == "allow"
        for command in ("nice echo x", "env echo x", "ls | xargs -0 echo"):
            assert policy.judge(command, root=str(tmp_path)).decision == "ask"
        planted.unlink()


def test_a_program_of_a_home_is_no_program_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be a shim, which runs what a file of the project names; one that the user has added to a table runs."""
    shims, project = tmp_path / "home" / "shims", tmp_path / "project"
    project.mkdir()
    shims.mkdir(parents=True)
    for name in ("bash", "cat", "mytool"):
        (shims / name).write_text('#!/bin/sh\nexec "./$(cat .tool-versions)" "$@"\n')
        (shims / name).chmod(0o755)
    commands = ("bash --version", "cat x", "nice cat x", "mytool x")
    for path, decisions in (
        (f"{shims}:/usr/bin:/bin", ["ask", "ask", "ask", "allow"]),
        (f"/usr/bin:/bin:{shims}", ["allow"] * 4),
    ):
        monkeypatch.setenv("PATH", path)
        found = [ADDED.judge(command, root=str(project)).decision for command in commands]
        assert found == decisions


ADDED = ShellPolicy(
    programs={"terraform": ["validate", "state list", "-no-color"], "mytool": ["-q"]}
)


@pytest.mark.parametrize(
    "command",
    [
        "terraform validate",
        "terraform validate -no-color",
        "terraform state list module.x",
        "mytool",
        "mytool -q notes.txt | head",
        "mytool x=notes.txt",
        "/usr/bin/mytool x",
    ],
)
def test_a_program_of_the_user_runs(command: str) -> None:
    """What is in the user's table is allowed, like what is in ours."""
    assert ADDED.judge(command).decision == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "terraform apply",
        "terraform",
        "terraform state rm x",
        "terraform -chdir=x validate",
        "terraform -no-color validate",
        "terraform -no-color state list",
        "terraform validate -json",
        "mytool -v",
        "mytool -qv",
        "mytool ~/.ssh/id_rsa",
        "mytool --file=.env",
        "mytool -q=.env",
        "mytool input=~/.ssh/id_rsa",
        "mytool a=b=/etc/shadow",
        "./mytool x",
        "mytool x > y",
        "mytool $(id)",
        "mytool -q; npm install",
    ],
)
def test_the_table_of_the_user_is_read_narrowly(command: str) -> None:
    """Other options, other sub-commands, secrets and files of that name ask."""
    assert ADDED.judge(command).decision == "ask"


@pytest.mark.parametrize(
    ("programs", "words"),
    [
        ({"./x": []}, "not the name of a program"),
        ({"a b": []}, "not the name of a program"),
        ({"": []}, "not the name of a program"),
        ({"sort": ["-o"]}, "judges it itself"),
        ({"git": ["push"]}, "judges it itself"),
        ({"sudo": []}, "judges it itself"),
        ({"x": "list"}, "a list of options and sub-commands"),
        ({"x": None}, "a list of options and sub-commands"),
        ({"x": ["--a=b"]}, "neither an option nor a sub-command"),
        ({"x": ["$(id)"]}, "neither an option nor a sub-command"),
        ({"x": [3]}, "neither an option nor a sub-command"),
        (["x"], "not a table of programs"),
    ],
)
def test_a_wrong_table_is_refused_with_words(programs: Any, words: str) -> None:
    """The error says which entry is wrong, and what to write."""
    with pytest.raises(UsageError, match=words):
        ShellPolicy(programs=programs)


def test_the_pages_name_each_program() -> None:
    """The table of the page has every program, and SECURITY.md their number."""
    top = Path(__file__).parents[3]
    page = (top / "docs/shell-policy.md").read_text()
    table = page[page.index("| group | programs |") : page.index("The line may also contain")]
    assert {*PROGRAMS, *WRAPPERS} - set(re.split(r"[\s`,|]+", table)) == set()
    assert f"{len(PROGRAMS)} programs that read" in (top / "SECURITY.md").read_text()
