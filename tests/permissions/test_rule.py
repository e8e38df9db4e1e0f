from __future__ import annotations

import importlib.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import ToolCall
from hookline.errors import UsageError
from hookline.permissions import Rule

READS_COMMANDS = importlib.util.find_spec("tree_sitter_bash") is not None


def made(tool: str, **args: object) -> ToolCall:
    """A call."""
    return ToolCall("1", tool, args)


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
        ("read(../x)", "climbs with '..'"),
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
        assert Rule.parse(f"{rule}(x)").names(tool), tool
    for tool in others.split():
        assert not Rule.parse(rule).names(tool), tool
        assert not Rule.parse(rule).covers(made(tool)), tool
        assert not Rule.parse(rule).touches(made(tool)), tool


def test_forbidding_a_path_is_forbidding_every_way_to_it() -> None:
    """A rule with a path allows its own tool, and forbids all tools that read, or all that write."""
    rule = Rule.parse("read(.env)")
    assert rule.covers(made("read", path=".env"))
    assert not rule.covers(made("search", path=".env", pattern="x"))
    for tool in ("read", "list", "search"):
        assert rule.touches(made(tool, path=".env"))
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
