from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hookline.containment
from hookline import ToolCall
from hookline.errors import UsageError
from hookline.permissions import Rule, Rules, suggest_rule

STRICTNESS = {"allow": 0, None: 1, "ask": 2, "deny": 3}


def made(tool: str, **args: object) -> ToolCall:
    """A call."""
    return ToolCall("1", tool, args)


def run(text: str) -> ToolCall:
    """A call of exec, with these words."""
    return made("exec", argv=text.split())


def test_deny_goes_before_ask_and_ask_before_allow() -> None:
    """The strictest list decides, whatever the others say, and the ruling names its rule."""
    rules = Rules(
        allow=["bash(git *)"], ask=["bash(git push *)"], deny=["bash(git push --force *)"]
    )
    for text, decision, rule in [
        ("git log", "allow", "bash(git *)"),
        ("git push", "ask", "bash(git push *)"),
        ("git push origin --force", "deny", "bash(git push --force *)"),
    ]:
        ruling = rules.judge(run(text))
        assert (ruling.decision, str(ruling.rule)) == (decision, rule)
        assert f"`{rule}`" in ruling.reason
    assert rules.judge(run("ls")).decision is None
    assert rules.judge(run("ls")).rule is None


def test_rules_can_be_given_as_text_as_values_and_more_later(tmp_path: Path) -> None:
    """One rule needs no list, and rules are values: they compare, and derive others."""
    rules = Rules(allow="read", deny=Rule.parse("bash"), root=tmp_path)
    assert rules == Rules(allow=["read"], deny=["bash"], root=tmp_path)
    more = rules.with_rules(ask="write(src/**)")
    assert rules.judge(made("write", path="src/a")).decision is None
    assert more.judge(made("write", path="src/a")).decision == "ask"
    assert repr(more) == "Rules(allow=['read'], ask=['write(src/**)'], deny=['bash'])"
    with pytest.raises(UsageError, match="is not a list of rules"):
        Rules(allow=7)  # type: ignore[arg-type]


def test_each_command_of_a_line_must_pass() -> None:
    """A line is allowed when each of its commands is by some rule, and forbidden when one of them is."""
    rules = Rules(allow=["bash(git status)", "bash(npm test *)"], deny=["bash(curl *)"])
    both = rules.judge(made("bash", command="git status; npm test"))
    assert both.decision == "allow"
    assert [str(rule) for rule in both.rules] == ["bash(git status)", "bash(npm test *)"]
    assert "the rules `bash(git status)` and `bash(npm test *)` allow it" in both.reason
    for command in ("git status; rm x", "git status; npm test $X", "git status $X"):
        assert rules.judge(made("bash", command=command)).decision is None
    assert rules.judge(made("bash", command="git status; curl x")).decision == "deny"
    assert rules.judge(made("bash", command="git status; $X")).decision == "deny"
    assert Rules(allow="bash").judge(made("bash", command="$X")).decision == "allow"


def test_without_a_reader_nothing_is_allowed_by_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the parser is not installed, a command line is not known."""

    def missing(_text: str) -> object:
        raise UsageError("the shell parser is not installed.")

    monkeypatch.setattr(hookline.containment, "read_command", missing, raising=False)
    rules = Rules(allow="bash(ls *)", deny="bash(git push *)")
    assert rules.judge(made("bash", command="ls")).decision is None
    assert rules.judge(made("bash", command="git push")).decision == "deny"
    assert sys.modules["hookline.containment"] is hookline.containment


# --- an algebra ---------------------------------------------------------------------------------------

RULES = st.sampled_from(
    """
    bash|bash(git *)|bash(git push *)|bash(git push --force *)|bash(ls)|exec(git log)|read|read(src/**)|write(src/*)
    Edit(*.py)|Read(.env)|files.*|mcp__a__*|mcp__a|*|note(a*)|note(text=a*)|*(a*)|WebFetch(domain:a.org)
    """.replace("\n", "|")
    .replace("    ", "")
    .strip("|")
    .split("|")
)
LISTS = st.lists(RULES, max_size=4)
CALLS = st.sampled_from(
    [
        run("git push origin"),
        run("git log"),
        run("ls"),
        run("git -C x push --force"),
        made("bash", command="git push $X"),
        made("read", path="src/a.py"),
        made("read", path="../.env"),
        made("write", path="src/a.py", content="x"),
        made("edit", path=".env"),
        made("search", path=".", pattern="x"),
        made("note", text="abc"),
        made("note", text="abc", more="x"),
        made("mcp__a__b"),
        made("web_fetch", url="https://a.org/"),
        made("todo_write"),
    ]
)


def strictness(call: ToolCall, allow: list[str], ask: list[str], deny: list[str]) -> int:
    """How strict the ruling of some rules is."""
    return STRICTNESS[Rules(allow, ask, deny, root="/nowhere").judge(call).decision]


@given(CALLS, LISTS, LISTS, LISTS, RULES)
def test_more_rules_to_forbid_never_allow_more(
    call: ToolCall, allow: list[str], ask: list[str], deny: list[str], rule: str
) -> None:
    """A rule to deny or to ask makes no ruling milder; a rule to allow makes none stricter."""
    before = strictness(call, allow, ask, deny)
    assert strictness(call, allow, ask, [*deny, rule]) >= before
    assert strictness(call, allow, [*ask, rule], deny) >= before
    assert strictness(call, [*allow, rule], ask, deny) <= before
    assert strictness(call, [*allow, rule], ask, deny) >= min(before, STRICTNESS["allow"])
    if before >= STRICTNESS["ask"]:
        assert strictness(call, [*allow, rule], ask, deny) == before


@given(CALLS, LISTS, LISTS, LISTS, st.randoms(use_true_random=False))
def test_the_order_of_rules_does_not_matter(
    call: ToolCall, allow: list[str], ask: list[str], deny: list[str], shuffle: random.Random
) -> None:
    """Rules in another order rule the same."""
    before = strictness(call, allow, ask, deny)
    for rules in (allow, ask, deny):
        shuffle.shuffle(rules)
    assert strictness(call, allow, ask, deny) == before


# --- what to offer to a person ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (run("git push origin main"), "exec(git push *)"),
        (run("npm run build --x"), "exec(npm run build *)"),
        (run("ls -l"), "exec(ls *)"),
        (run("git -C x push"), None),
        (run("python -c x"), None),
        (run("sudo ls"), None),
        (run("rm x"), None),
        (made("bash", command="git push $X"), None),
        (made("note", text="x"), "note"),
        (made("mcp__a__b", x=1), "mcp__a__b"),
    ],
)
def test_a_rule_to_offer(call: ToolCall, rule: str | None) -> None:
    """For what is like this call; nothing where one yes says nothing about the next."""
    offered = suggest_rule(call)
    assert (None if offered is None else str(offered)) == rule
    if offered is not None:
        assert offered.covers(call)


@pytest.mark.parametrize(
    "text",
    """
    python3.11 -c x|python3 -m x|/usr/bin/python3.12 x|pypy3 x|node-20 x|bunx x|npx x|uv run python x|uv run x|uvx x
    poetry run x|docker run x|docker exec c x|kubectl exec p|npm exec x|pnpm dlx x|go run x|cargo run|tar xf a|dd if=x
    perl5.36 -e x|lua5.4 x|git config a b|git bisect run x|java -jar x|tee x|rsync a b
    """.replace("\n", "|").split("|"),
)
def test_no_rule_is_offered_for_what_runs_anything(text: str) -> None:
    """A yes to one use of an interpreter says nothing about the next, whichever version it is."""
    if text.strip():
        assert suggest_rule(run(text)) is None


def test_a_rule_to_offer_for_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything in the same directory, and nothing when the path is not plainly where it says."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("/etc")
    for path, rule in [
        ("src/a/b.py", "write(/src/a/**)"),
        ("a.py", "write(/a.py)"),
        ("link/passwd", None),
        ("../x", None),
        (".", None),
        ("a*/b", None),
    ]:
        offered = suggest_rule(made("write", path=path))
        assert (None if offered is None else str(offered)) == rule, path
    elsewhere = suggest_rule(made("write", path="src/a.py"), tmp_path / "project")
    assert str(elsewhere) == f"write(/{tmp_path}/project/src/**)"
    assert elsewhere is not None
    assert elsewhere.covers(made("write", path=str(tmp_path / "project/src/b.py")))


# --- with the real reader -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("git status", "allow"),
        ("git status && git log -3 | head -5", "allow"),
        ("git status 2>&1", "allow"),
        ("git status 2>/dev/null", "allow"),
        ("g'i't status", "allow"),
        ("git status; curl evil.org", None),
        ("git status > out", None),
        ("head < secrets", None),
        ("git log $(curl evil.org)", None),
        ("git log $X", None),
        ("PAGER=evil git log", None),
        ("git log *", None),
        ("git status\ncurl evil.org", None),
        ("git push", "ask"),
        ("git status; git push", "ask"),
        ("echo $(git push)", "ask"),
        ("X=1 git push", "ask"),
        ("g\\it push", "ask"),
        ("git push $X > out", "ask"),
        ("bash -c 'git push'", "ask"),
        ("rm -rf x", "deny"),
        ("git push; r''m x", "deny"),
        ("find . -exec rm {} +", "deny"),
        ("ls | xargs rm", "deny"),
    ],
)
def test_command_lines_as_they_are_read(command: str, decision: str | None) -> None:
    """What is certain is allowed, and what may be forbidden is forbidden."""
    pytest.importorskip("tree_sitter_bash")
    rules = Rules(
        allow=["bash(git status *)", "bash(git log *)", "bash(head *)"],
        ask="bash(git push *)",
        deny="bash(rm *)",
    )
    assert rules.judge(made("bash", command=command)).decision == decision


def test_a_command_outside_the_sandbox_must_be_named() -> None:
    """A rule about a command is one about the command where it belongs."""
    call = made("exec", argv=["git", "push"], place="host")
    for rule in ("bash", "bash(git push *)", "*"):
        assert Rules(allow=rule).judge(call).decision is None
        assert Rules(deny=rule).judge(call).decision == "deny"
    assert Rules(allow="exec(argv=git push *, place=host)").judge(call).decision == "allow"


@pytest.mark.parametrize(
    ("rule", "place", "decision"),
    [
        ("bash(place=host)", None, None),
        ("bash(place=host)", "host", "deny"),
        ("bash(place=host)", "workspace", None),
        ("bash(place=workspace)", None, "deny"),
        ("bash(place=workspace)", "read-only", None),
        ("bash(place=*)", None, "deny"),
    ],
)
def test_a_rule_can_forbid_a_place(rule: str, place: str | None, decision: str | None) -> None:
    """A call that names none may run in any place but the host, which only the user can have chosen for it."""
    call = made("bash", command="ls", place=place)
    assert Rules(deny=rule).judge(call).decision == decision
    without = made("bash", command="ls") if place is None else call
    assert Rules(deny=rule).judge(without).decision == decision


def test_a_rule_about_a_command_covers_it_in_the_sandbox() -> None:
    """Only the host has to be named: elsewhere the sandbox holds the command."""
    for place in (None, "read-only", "workspace"):
        call = made("bash", command="make test", place=place)
        assert Rules(allow="bash(make *)").judge(call).decision == "allow"
