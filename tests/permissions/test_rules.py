from __future__ import annotations

import importlib.util
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

READS_COMMANDS = importlib.util.find_spec("tree_sitter_bash") is not None
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


def test_the_network_must_be_named() -> None:
    """A model can ask for it with any command: a rule about the command alone says nothing about that."""
    call = made("bash", command="npm install x", network=True)
    for rule in ("bash", "bash(npm install *)", "bash(command=npm install *)", "*"):
        assert Rules(allow=rule).judge(call).decision is None
        assert Rules(deny=rule).judge(call).decision == "deny"
    assert suggest_rule(call) == Rule("bash", "command=npm install *, network=true")
    assert Rules(allow=str(suggest_rule(call))).judge(call).decision == "allow"
    without = made("bash", command="npm install x", network=False)
    assert Rules(allow="bash(npm install *)").judge(without).decision == "allow"
    both = made("bash", command="npm install x", network=True, place="host")
    assert Rules(allow=str(suggest_rule(call))).judge(both).decision is None


@pytest.mark.parametrize(
    ("rule", "place", "decision"),
    [
        ("bash(place=host)", None, "deny"),
        ("bash(place=host)", "host", "deny"),
        ("bash(place=host)", "workspace", None),
        ("bash(place=workspace)", None, "deny"),
        ("bash(place=workspace)", "read-only", None),
        ("bash(place=*)", None, "deny"),
    ],
)
def test_a_rule_can_forbid_a_place(rule: str, place: str | None, decision: str | None) -> None:
    """A call that names none may run in any place, unless it is known which one its tool chooses."""
    call = made("bash", command="ls", place=place)
    assert Rules(deny=rule).judge(call).decision == decision
    without = made("bash", command="ls") if place is None else call
    assert Rules(deny=rule).judge(without).decision == decision
    for usual in ("host", "workspace"):
        named = made("bash", command="ls", place=place or usual)
        known = Rules(deny=rule).judge(call, defaults={"place": usual})
        assert known.decision == Rules(deny=rule).judge(named).decision


def test_a_rule_that_allows_does_not_see_defaults() -> None:
    """Who has chosen the host for all commands need not name it in each rule."""
    rules = Rules(allow="bash(make *)")
    call = made("bash", command="make test")
    assert rules.judge(call, defaults={"place": "host"}).decision == "allow"


def test_a_rule_about_a_command_covers_it_in_the_sandbox() -> None:
    """Only the host has to be named: elsewhere the sandbox holds the command."""
    for place in (None, "read-only", "workspace"):
        call = made("bash", command="make test", place=place)
        assert Rules(allow="bash(make *)").judge(call).decision == "allow"


# --- one rule ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    """
    bash|bash(git push *)|files.write(src/**)|mcp__server__*|mcp__server|Bash(npm run test:*)|Read(./src/**)
    Read(//etc/passwd)|Read(~/notes/**)|WebFetch(domain:example.com)|note(text=hello*)|*|exec(git status)
    """.replace("\n", "|").split("|"),
)
def test_a_rule_is_its_text_again(text: str) -> None:
    """What is parsed is written as it was, and means the same."""
    text = text.strip()
    if text:
        rule = Rule.parse(text)
        assert str(rule) == text
        assert Rule.parse(str(rule)) == rule


@given(st.text(max_size=40))
def test_any_text_is_a_rule_or_a_clear_error(text: str) -> None:
    """No text makes the parser fail in another way, and what it takes it gives back."""
    remedy, rule = "", None
    try:
        rule = Rule.parse(text)
    except UsageError as error:
        remedy = error.remedy
    assert remedy or Rule.parse(str(rule)) == rule


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "does not begin with a tool"),
        ("(x)", "does not begin with a tool"),
        ("bash(git", "'(' at position 4 that is never closed"),
        ("bash git", "' ' at position 4"),
        ("bash)", "')' at position 4"),
        ("bash()", "nothing between its brackets, at position 5"),
        ("bash(echo 'x)", "a ' at position 5 that is never closed"),
        ("read(../x)", "contains '..'"),
        ("read(!x)", "begins with '!'"),
        ("read(~other/x)", "home directory of someone else"),
        ("write(*.{js,ts})", "has a '{'"),
        ("write(app/[id].tsx)", "has a '['"),
        ("WebFetch(domain:)", "is not a domain"),
        (7, "7 is not a rule"),
    ],
)
def test_what_is_no_rule_says_why(text: object, says: str) -> None:
    """A mistake is reported with its place and a remedy, and does not become a rule without effect."""
    with pytest.raises(UsageError) as raised:
        Rule.parse(text)  # type: ignore[arg-type]
    assert says in raised.value.message
    assert raised.value.remedy


@pytest.mark.parametrize(
    ("rule", "tools", "others"),
    [
        ("write", "write", "edit read mcp__x__write"),
        ("files.write", "write", "edit mcp__files__write files.write2"),
        ("files.*", "read write edit list glob search", "bash todo_write"),
        ("bash", "bash exec", "bash_poll"),
        ("Bash", "bash exec Bash", "bash_stop"),
        ("exec", "exec", "bash"),
        ("Read", "read list glob search", "write edit"),
        ("Edit", "edit write", "read"),
        ("Write", "write", "edit"),
        ("Grep", "search", "read"),
        ("Glob", "glob", "read"),
        ("mcp__git", "mcp__git__log mcp__git__push", "mcp__github__log mcp__gi__t git"),
        ("mcp__git__*", "mcp__git__log", "mcp__github__log"),
        ("mcp__*__read_?", "mcp__a__read_b", "mcp__a__read_bc"),
        ("*", "bash anything", ""),
        ("note", "note", "notes Note"),
    ],
)
def test_the_tool_part(rule: str, tools: str, others: str) -> None:
    """A rule without an argument is about the tools it names, whatever they are called with."""
    for tool in tools.split():
        assert Rule.parse(rule).covers(made(tool)), tool
        assert Rule.parse(rule).touches(made(tool)), tool
        assert Rule.parse(f"{rule}(x)").is_about(tool), tool
    for tool in others.split():
        assert not Rule.parse(rule).is_about(tool), tool
        assert not Rule.parse(rule).covers(made(tool)), tool
        assert not Rule.parse(rule).touches(made(tool)), tool


def test_forbidding_a_path_is_forbidding_every_way_to_it() -> None:
    """A rule with a path allows its own tool, and forbids all tools that read, or all that write."""
    rule = Rule.parse("read(.env)")
    assert rule.covers(made("read", path=".env"))
    assert not rule.covers(made("search", path=".env", pattern="x"))
    for tool in ("read", "list", "search", "edit"):
        assert rule.touches(made(tool, path=".env"))
    assert not Rule.parse("edit(.env)").touches(made("read", path=".env"))
    assert not rule.touches(made("write", path=".env"))
    assert Rule.parse("write(a.txt)").touches(made("edit", path="a.txt"))
    assert Rule.parse("files.edit(a.txt)").touches(made("write", path="a.txt"))


@pytest.mark.parametrize(
    ("rule", "args", "covered", "touched"),
    [
        ("note(hello*)", {"text": "hello you"}, True, True),
        ("note(hello*)", {"text": "bye"}, False, False),
        ("note(hello*)", {"text": "hello", "more": "x"}, False, True),
        ("note(hello*)", {"text": "bye", "more": "x"}, False, True),
        ("note(hello*)", {"count": 1}, False, True),
        ("note(*)", {"a": "x", "b": "y"}, True, True),
        ("note(text=hello*)", {"text": "hello", "more": "x"}, True, True),
        ("note(text=hello*)", {"text": "bye", "more": "hello"}, False, False),
        ("note(text=hello*)", {"more": "hello"}, False, True),
        ("note(count=1)", {"count": 1, "text": "x"}, True, True),
        ("note(force=true)", {"force": False}, False, False),
        ("note(to=a*, text=*x*)", {"to": "ab", "text": "1x2"}, True, True),
        ("note(to=a*, text=*x*)", {"to": "ab", "text": "12"}, False, False),
        ("note(where.city=Rome)", {"where": {"city": "Rome"}}, True, True),
        ("note(2 \\* 3)", {"text": "2 * 3"}, True, True),
        ("note(2 \\* 3)", {"text": "2 x 3"}, False, False),
    ],
)
def test_arguments_of_other_tools(
    rule: str, args: dict[str, object], covered: bool, touched: bool
) -> None:
    """A glob is about the one text of a call, or the argument that it names; what is unclear is only forbidden."""
    assert Rule.parse(rule).covers(made("note", **args)) is covered
    assert Rule.parse(rule).touches(made("note", **args)) is touched


@pytest.mark.parametrize(
    ("rule", "url", "covered", "touched"),
    [
        ("domain:example.com", "https://example.com/a?b=c", True, True),
        ("domain:example.com", "http://EXAMPLE.com:8080", True, True),
        ("domain:example.com", "https://sub.example.com/", False, True),
        ("domain:*.example.com", "https://sub.example.com/", True, True),
        ("domain:example.com", "https://example.com.evil.org/", False, False),
        ("domain:example.com", "https://notexample.com/", False, False),
        ("domain:example.com", "https://example.com@evil.org/", False, False),
        ("domain:example.com", "https://%65xample.com/", False, True),
        ("domain:example.com", "https://[::1]/", False, False),
        ("domain:example.com", "https://evil.org\\@example.com/", False, True),
        ("domain:example.com", "https://evil.org/\thttps://example.com", False, True),
        ("domain:example.com", "file://example.com/etc/passwd", False, True),
        ("domain:example.com", "example.com", False, True),
        ("https://example.com/*", "https://example.com/a", True, True),
    ],
)
def test_web_addresses(rule: str, url: str, covered: bool, touched: bool) -> None:
    """A domain is allowed alone and forbidden with all below it; an address of two readings is not allowed."""
    parsed = Rule.parse(f"WebFetch({rule})")
    assert parsed.covers(made("web_fetch", url=url)) is covered
    assert parsed.touches(made("web_fetch", url=url)) is touched


def test_a_call_that_may_be_about_several_things() -> None:
    """What is forbidden of a command, a path, an address or a text is found; to allow, the argument has to be named."""
    editor = made("editor", command="create", path="src/a", text="hello")
    for rule in ("editor(src/**)", "editor(create)", "editor(hel*)", "editor(path=src/**)"):
        assert Rule.parse(rule).touches(editor), rule
    for rule in ("editor(docs/**)", "editor(delete)", "editor(path=docs/**)"):
        assert not Rule.parse(rule).touches(editor), rule
    assert not Rule.parse("editor(src/**)").covers(editor)
    assert (
        Rule.parse("editor(path=src/**, command=create)").covers(
            made("editor", command="create", path="src/a")
        )
        is READS_COMMANDS
    )
    download = made("download", url="https://evil.org/x", path="src/x")
    assert Rule.parse("download(domain:evil.org)").touches(download)
    assert not Rule.parse("download(domain:example.com)").touches(download)
    assert not Rule.parse("download(domain:evil.org)").covers(download)
    assert Rule.parse("download(path=src/**, url=https://evil.org/*)").covers(download)


@pytest.mark.parametrize(
    ("rule", "args"),
    [
        ("deploy(env=prod)", {}),
        ("deploy(env=prod)", {"env": None}),
        ("deploy(env=prod)", {"env": ["test", "prod"]}),
        ("deploy(env=prod)", {"env": {"name": "prod"}}),
        ("deploy(env=prod, region=eu)", {"env": "prod"}),
        ("deploy(place.city=Rome)", {"place": "Rome"}),
        ("deploy(count=5)", {"count": 5}),
        ("deploy(path=.env)", {}),
    ],
)
def test_an_argument_that_is_left_out_or_of_another_type_may_be_what_is_forbidden(
    rule: str, args: dict[str, object]
) -> None:
    """Whatever the tool makes of it, a rule that names an argument forbids, and does not allow."""
    call = ToolCall("1", "deploy", args)
    assert Rule.parse(rule).touches(call)
    assert not Rule.parse(rule).covers(call) or args == {"count": 5}


@pytest.mark.parametrize("args", [{"env": "test"}, {"env": ["test"]}, {"env": 7}])
def test_an_argument_that_is_something_else_is_not_forbidden(args: dict[str, object]) -> None:
    """A rule about one value leaves the others alone."""
    assert not Rule.parse("deploy(env=prod)").touches(ToolCall("1", "deploy", args))


@pytest.mark.parametrize(
    ("cwd", "is_allowed"),
    [
        ("sub/a", True),
        ("./sub/a", False),
        ("sub/../sub/a", True),
        ("sub/link", False),
        ("sub/..", False),
        ("sub/../evil", False),
        ("sub/../../out", False),
        ("sub/\0", False),
    ],
)
def test_a_directory_is_covered_where_it_leads_too(
    tmp_path: Path, cwd: str, is_allowed: bool
) -> None:
    """A rule with a pattern for `cwd` is not about what lies behind `..` or a link."""
    (tmp_path / "sub/a").mkdir(parents=True)
    (tmp_path / "evil").mkdir()
    (tmp_path / "sub/link").symlink_to("../evil")
    asked = ToolCall("1", "bash", {"command": "./run.sh", "cwd": cwd})
    rule = Rule.parse("bash(command=./run.sh, cwd=sub/*)")
    assert rule.covers(asked, tmp_path) is is_allowed


def test_a_directory_is_forbidden_by_all_its_names(tmp_path: Path) -> None:
    """Behind `..` it is the same directory."""
    asked = ToolCall("1", "bash", {"command": "make", "cwd": "other/../sub"})
    assert Rule.parse("bash(cwd=sub)").touches(asked, tmp_path)
