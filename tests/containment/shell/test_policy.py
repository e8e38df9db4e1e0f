from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.containment import ShellPolicy
from hookline.errors import UsageError
from hookline.permissions import Rules
from hookline.state import ToolCall

DEFAULT = ShellPolicy.default()


def decision(policy: ShellPolicy, command: str) -> str:
    """What the policy says, in one word."""
    return policy.judge(command).decision


def test_what_only_reads_is_known_beside_a_rule() -> None:
    """A rule that allows a command does not make it one that only reads, and takes nothing from one that does."""
    policy = DEFAULT.with_rules(allow=["make *", "ls *"])
    found = {text: policy.judge(text) for text in ("ls -l", "ls; make x", "make x", "cat f", "#")}
    assert {verdict.decision for verdict in found.values()} == {"allow"}
    assert [verdict.only_reads for verdict in found.values()] == [True, False, False, True, True]
    assert not policy.judge("npm test").only_reads


@pytest.mark.parametrize(
    ("rule", "matching", "other"),
    [
        ("git push", ["git push", "git 'push'", "/usr/bin/git push"], ["git push origin", "git pull", "git"]),
        ("git push *", ["git push", "git push origin main"], ["git pull", "git pushx"]),
        ("npm run test:*", ["npm run test", "npm run test:a", "npm run test -- -x"], ["npm run tests"]),
        ("npm run *", ["npm run build", "npm run"], ["npm install"]),
        ("bash(git push *)", ["git push", "git push origin"], ["git pull"]),
        ("Bash(npm run test:*)", ["npm run test:a"], ["npm run tests"]),
        ("exec(make)", ["make"], ["make all"]),
        ("make*", ["make", "makex"], ["remake", "make -j4 all"]),
        ("python -m pytest *", ["python -m pytest -x tests"], ["python -m http.server", "python x.py"]),
        ("docker * up", ["docker compose up"], ["docker up", "docker compose up -d"]),
        ("touch *.txt", ["touch a.txt"], ["touch a.py"]),
        ("git commit -m 'a b'", ["git commit -m 'a b'", 'git commit -m "a b"'], ["git commit -m a b"]),
    ],
)  # fmt: skip
def test_a_rule_fits_word_by_word(rule: str, matching: list[str], other: list[str]) -> None:
    """A pattern is held against the words of a command, whatever their quotes."""
    policy = DEFAULT.with_rules(allow=[rule])
    assert [decision(policy, command) for command in matching] == ["allow"] * len(matching)
    assert [decision(policy, command) for command in other] == ["ask"] * len(other)


@pytest.mark.parametrize(
    ("rule", "fitting", "other"),
    [
        (
            "rm build/*",
            ["rm build/x", "rm build/a/b", "rm 'build/a b'", "rm build/*.o"],
            [
                "rm build/../../x",
                "rm build/..",
                "rm build/a/../../b",
                "rm build/{a,../../b}",
                "rm build/{..,a}/x",
                "rm build/.{.,}/precious",
                "rm build/{a,b}",
                "rm build/x src/y",
                "rm build/x -r",
                "rm build/x; rm src/y",
                "rm build/x && rm y",
                "rm build/$(cat x)",
                "rm build/x > src/y",
            ],
        ),
        (
            "touch *.txt",
            ["touch a.txt", "touch a/b.txt"],
            ["touch a.txt b.txt", "touch ../a.txt", "touch /etc/a.txt", "touch ~/a.txt", "touch -r.txt"],
        ),
        ("git -C repos/* pull", ["git -C repos/a pull"], ["git -C repos/../.. pull", "git -C repos/a push"]),
        ("rm build/* *", ["rm build/x", "rm build/x y -v"], ["rm x build/y"]),
    ],
)  # fmt: skip
def test_a_star_in_a_rule_that_allows_stays_in_its_word(
    rule: str, fitting: list[str], other: list[str]
) -> None:
    """It leads neither out of the directory that is named, nor to further words, nor to an option."""
    policy = DEFAULT.with_rules(allow=[rule])
    assert [one for one in fitting if decision(policy, one) != "allow"] == []
    assert [one for one in other if decision(policy, one) == "allow"] == []


def test_a_star_in_a_rule_that_denies_continues() -> None:
    """What a rule denies or asks about, it also does with further words, and by whatever detour."""
    policy = DEFAULT.with_rules(allow=["rm *"], deny=["rm build/*"], ask=["rm src/*"])
    for command in ("rm build/x y", "rm build/../x", "rm build/x -v"):
        assert decision(policy, command) == "deny"
    assert decision(policy, "rm src/../x y") == "ask"


def test_each_command_must_be_allowed() -> None:
    """An allow rule for one command does not cover the others in the line."""
    policy = DEFAULT.with_rules(allow=["npm test", "npm run *"])
    assert decision(policy, "npm test && npm run build | tail -5") == "allow"
    assert decision(policy, "npm test && npm publish") == "ask"
    assert decision(policy, "npm test; $(npm publish)") == "ask"
    assert decision(policy, "npm run $(npm publish)") == "ask"


ANYWHERE = [
    "git push",
    "ls && git push -f",
    "bash -c 'git push'",
    "env git push",
    "git -C dir push",
    "git --no-pager push",
    "g''it push",
    "/usr/bin/git push",
    "echo $(git push)",
    "if true; then git push; fi",
    "xargs git push",
    "eval git push",
    "echo 'git push' | sh",
    "X=push; git $X",
]


@pytest.mark.parametrize("command", ANYWHERE)
def test_one_command_is_enough_to_deny_or_ask(command: str) -> None:
    """A deny rule holds wherever in the line, and behind whatever wrapper, the command stands; so does an ask rule."""
    assert decision(DEFAULT.with_rules(deny=["git push *"]), command) == "deny"
    asking = DEFAULT.with_rules(allow=["*"], ask=["git push *"])
    assert decision(asking, command) == "ask"


def test_a_rule_can_ask_about_what_is_harmless() -> None:
    """Asking goes before allowing, also before what the policy itself allows."""
    policy = DEFAULT.with_rules(ask=["cat *"], deny=["ls /secret"])
    assert decision(policy, "cat README.md") == "ask"
    assert decision(policy, "ls /secret") == "deny"
    assert decision(policy, "ls /other") == "allow"


def test_deny_goes_before_ask_and_ask_before_allow() -> None:
    """The order in which rules were added does not matter."""
    one = (
        DEFAULT.with_rules(allow=["make *"]).with_rules(ask=["make *"]).with_rules(deny=["make x"])
    )
    other = DEFAULT.with_rules(deny=["make x"], ask=["make *"], allow=["make *"])
    for policy in (one, other):
        assert [decision(policy, c) for c in ("make x", "make y")] == ["deny", "ask"]


def test_what_is_denied_is_lifted_only_when_asked_for() -> None:
    """An allow rule does not lift what the policy denies, unless it was added to do so."""
    rules = ["sudo apt-get update", "rm -rf .git"]
    plain, lifting = (
        DEFAULT.with_rules(allow=rules),
        DEFAULT.with_rules(allow=rules, even_denied=True),
    )
    for command in rules:
        assert decision(plain, command) == "deny"
        assert decision(lifting, command) == "allow"
    assert decision(lifting, "rm -rf .git && rm -rf ~") == "deny"
    assert decision(lifting, "sudo apt-get update && ls") == "deny"
    assert decision(lifting.with_rules(deny=["rm *"]), "rm -rf .git") == "deny"


def test_a_program_that_the_allowed_one_may_have_made_asks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`PATH` leads into the work directory, and `npm test` can put a `tail` there."""
    policy = DEFAULT.with_rules(allow=["npm test"])
    monkeypatch.setenv("PATH", f"{tmp_path}/node_modules/.bin:/usr/bin:/bin")
    assert policy.judge("npm test | tail -5", root=str(tmp_path)).decision == "ask"
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert policy.judge("npm test | tail -5", root=str(tmp_path)).decision == "allow"


def test_a_rule_does_not_cover_what_stands_around_the_words() -> None:
    """Writes to files and settings of variables are no part of a command that a rule can allow."""
    policy = DEFAULT.with_rules(allow=["npm test *"])
    assert decision(policy, "npm test > out.log") == "ask"
    assert decision(policy, "NODE_OPTIONS=--require=./x npm test") == "ask"
    assert decision(policy, "npm test 2>&1 | tail -5") == "allow"


def test_a_rule_may_allow_patterns_of_files() -> None:
    """An open word that cannot become an option is covered by a rule; one that can is not."""
    policy = DEFAULT.with_rules(allow=["prettier --check *"])
    assert decision(policy, "prettier --check src/*.ts") == "allow"
    assert decision(policy, "prettier --check *.ts") == "ask"


@pytest.mark.parametrize("rule", ["", "   ", "git 'push", 3])
def test_a_wrong_rule_is_refused_with_words(rule: str) -> None:
    """A rule that cannot be read says so when it is added."""
    with pytest.raises(UsageError, match="shell rule"):
        DEFAULT.with_rules(allow=[rule])


def test_only_the_star_is_special() -> None:
    """Question marks and square brackets stand for themselves."""
    policy = DEFAULT.with_rules(allow=["./run [a] ?"])
    assert decision(policy, "./run '[a]' '?'") == "allow"
    assert decision(policy, "./run a b") == "ask"


def test_a_text_instead_of_a_list_is_refused() -> None:
    """One text where rules belong would be taken letter by letter."""
    with pytest.raises(UsageError, match=r"Write deny=\['git push'\]"):
        DEFAULT.with_rules(deny="git push")


PATTERNS = st.lists(st.sampled_from(["*", "a", "b", "a*", "*b", "a:*"]), min_size=1, max_size=6)
COMMANDS = st.lists(st.sampled_from(["a", "b", "ab", "a:b"]), min_size=1, max_size=6)


@given(PATTERNS, COMMANDS)
def test_more_rules_never_loosen_a_denial(rule: list[str], command: list[str]) -> None:
    """Whatever is denied stays denied when rules that allow are added."""
    text = " ".join(command)
    denying = DEFAULT.with_rules(deny=[" ".join(rule)])
    if decision(denying, text) == "deny":
        assert decision(denying.with_rules(allow=["*"], even_denied=True), text) == "deny"


@pytest.mark.parametrize(
    "rule", ["git push; ls", "a | b", "a && b", "a\nb", "make > x", "read(x)", "bash(git push *", "bash()"]
)  # fmt: skip
def test_a_rule_that_could_fit_nothing_is_refused(rule: str) -> None:
    """A pattern with something that is no word of a command would never match, so it is an error."""
    with pytest.raises(UsageError, match="the shell rule"):
        DEFAULT.with_rules(deny=[rule])


@pytest.mark.parametrize(
    "command", ["git pus?", "git pus*", "git p{ush,ull}", "git -c alias.x=push x", "git --attr-source x push"]
)  # fmt: skip
def test_no_spelling_escapes_a_rule(command: str) -> None:
    """What may turn out to be denied by one rule is not allowed by another."""
    policy = DEFAULT.with_rules(allow=["git *"], deny=["git push *"])
    assert decision(policy, command) != "allow"
    assert decision(policy, "git add src/*.py") == "allow"


def test_a_rule_sees_through_runners_of_packages() -> None:
    """`npm exec` and `npx` run what follows, wherever the verb stands."""
    policy = DEFAULT.with_rules(allow=["npm *", "npx *"], deny=["git push *"])
    assert decision(policy, "npm exec -- git push") == decision(policy, "npx git push") == "deny"
    assert decision(policy, "npm --prefix a exec git push") == "deny"


@pytest.mark.parametrize(
    "command",
    ["uv run", "uv --quiet run", "uv tool run", "uv run uv tool run", "npm --prefix a exec", "git submodule foreach"],
)  # fmt: skip
def test_a_rule_for_a_runner_allows_nothing_that_is_denied(command: str) -> None:
    """Options, and verbs of two words, do not hide the program that runs."""
    policy = DEFAULT.with_rules(allow=["uv *", "npm *", "git *"])
    assert decision(policy, f"{command} rm -rf /") == "deny"
    assert decision(policy, "uv --quiet sync") == "allow"


def test_what_is_quoted_in_a_rule_is_meant_literally() -> None:
    """A semicolon in quotes is part of a word."""
    policy = DEFAULT.with_rules(deny=["git commit -m 'a; b'"])
    assert decision(policy, 'git commit -m "a; b"') == "deny"


@pytest.mark.parametrize(
    "command", ["cd sub && ./run.sh", "cd /tmp; ./run.sh", "(cd x; ls); ./run.sh"]
)
def test_a_rule_about_a_file_holds_where_it_was_written(command: str) -> None:
    """A file that is named from the work directory is another file elsewhere; the name of a program is not."""
    policy = ShellPolicy.default().with_rules(allow=["./run.sh", "make build"])
    assert policy.judge("cd . && ./run.sh").decision == "allow"
    assert policy.judge("cd sub && make build").decision == "allow"
    assert policy.judge(command).decision == "ask"
    assert policy.judge("./run.sh", cwd="sub").decision == "ask"


def test_a_rule_that_denies_sees_what_a_loop_names() -> None:
    """A verb that is a loop's variable is the verb that the rule is about."""
    policy = ShellPolicy.default().with_rules(deny=["git log *"])
    assert policy.judge("for v in log; do git $v; done").decision == "deny"
    assert policy.judge("for v in status log; do git $v; done").decision == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "/bin/[r]m v",
        "/bin/r? v",
        'a=(rm v); "${a[@]}"',
        "read c <<< rm; $c v",
        ": ${c:=rm}; $c v",
        "printf -v c rm; $c v",
        "env $c v",
        "hash -p /bin/rm q; q v",
        "git bisect run rm x",
        "git submodule foreach rm x",
    ],
)
def test_a_program_that_is_not_known_may_be_the_denied_one(command: str) -> None:
    """The shell policy denies what a tool rule denies."""
    assert decision(DEFAULT.with_rules(deny=["rm *"]), command) == "deny"
    call = ToolCall("1", "bash", {"command": command})
    assert Rules(deny=["bash(rm *)"]).judge(call).decision == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "find . -name '*.py' | xargs wc -l",
        'find "$HOME/projects" -type d',
        "for f in *.py; do grep -n x $f; done",
        "for t in git node; do command -v $t; done",
    ],
)
def test_a_word_that_is_not_known_is_no_program_where_one_is(command: str) -> None:
    """A deny rule leaves ordinary lines alone whose program is known."""
    assert decision(DEFAULT.with_rules(deny=["rm *", "git push *"]), command) == "ask"
