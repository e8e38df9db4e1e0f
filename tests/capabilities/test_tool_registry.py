from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from driven import WAYS, drive, lives, on_disk
from hypothesis import given
from hypothesis import strategies as st
from run_results import result_texts

from hookline import AgentBuilder, AgentState, ToolContext, tool
from hookline.capabilities import Metadata, TaskPlanning, ToolRegistry
from hookline.capabilities.tool_registry import rank_tools, words_of
from hookline.errors import BuildError
from hookline.mcp import McpServer, McpServers
from hookline.state import ToolSpec
from hookline.testing import ScriptedDriver, call, calls, say


@tool
def read_file(path: str) -> str:
    """Read a file from the disk."""
    return f"text of {path}"


@tool
def send_email(to: str, subject: str) -> str:
    """Send a message to somebody."""
    return f"sent to {to}"


@tool
def create_issue(title: str) -> str:
    """Open a ticket in the bug tracker.

    The ticket is public.
    """
    return f"opened {title}"


def agent_of(*turns: Any, **options: Any) -> tuple[Any, ScriptedDriver]:
    """A builder with three tools and a registry."""
    driver = ScriptedDriver(turns)
    builder = AgentBuilder().with_driver(driver).with_tools(read_file, send_email, create_issue)
    return builder.with_capability(ToolRegistry(**options)), driver


def offered(driver: ScriptedDriver) -> list[list[str]]:
    """The names of the tools in each request."""
    return [[spec.name for spec in request.tools] for request in driver.requests]


@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_is_offered_once_it_is_enabled(way: str) -> None:
    """Requests show the tools that are always on, and those that were enabled, from the next turn on."""
    builder, driver = agent_of(
        call("tools", action="enable", names=["send_email"]),
        call("send_email", to="Ada", subject="hi"),
        say("done"),
        always=("read_*",),
    )
    result = await drive(builder.build(), way)
    assert offered(driver) == [
        ["read_file", "tools"],
        ["read_file", "send_email", "tools"],
        ["read_file", "send_email", "tools"],
    ]
    assert result_texts(result) == [
        "Enabled: send_email. You can call it from your next turn on.",
        "sent to Ada",
    ]
    assert "2 more tools are there and not enabled now." in driver.requests[0].tools[-1].description
    assert "1 more tool is there" in driver.requests[1].tools[-1].description
    saved = AgentState.from_json(result.state.to_json())
    assert ToolRegistry.enabled_tools(saved) == ("send_email",)


def test_a_call_to_a_tool_that_is_not_enabled_is_blocked() -> None:
    """It does not run, and the model reads how to enable it; enabling it in the same turn is too late."""
    builder, _ = agent_of(
        calls(
            call("tools", action="enable", names=["create_issue"]), call("create_issue", title="x")
        ),
        call("create_issue", title="x"),
        say("done"),
    )
    assert result_texts(builder.build().run_sync("go"))[1:] == [
        "Blocked: the tool 'create_issue' is not enabled. To enable it, call tools with action 'enable' and names "
        "['create_issue']; then call it in your next turn.",
        "opened x",
    ]


def test_a_family_of_tools_is_enabled_by_a_pattern() -> None:
    """What fits the pattern now is enabled, by name."""
    builder, driver = agent_of(
        call("tools", action="enable", names=["*_email", "read_*"]), say("x")
    )
    result = builder.build().run_sync("go")
    assert "Enabled: send_email, read_file." in result_texts(result)[0]
    assert ToolRegistry.enabled_tools(result.state) == ("send_email", "read_file")
    assert offered(driver)[1] == ["read_file", "send_email", "tools"]


def test_tools_are_listed_explained_and_found() -> None:
    """Each action answers in words that lead to the next."""
    builder, _ = agent_of(
        call("tools", action="list"),
        call("tools", action="help", names=["create_issue"]),
        call("tools", action="search", query="write a mail to a person"),
        call("tools", action="search", query="zzz"),
        say("done"),
        always=("read_file",),
    )
    listed, helped, found, nothing = result_texts(builder.build().run_sync("go"))
    assert listed == (
        "on  read_file: Read a file from the disk.\n"
        "off send_email: Send a message to somebody.\n"
        "off create_issue: Open a ticket in the bug tracker."
    )
    assert "The ticket is public.\nParameters: {" in helped
    assert '"title"' in helped
    assert "To enable it, call tools" in helped
    assert found.splitlines()[0] == "off send_email: Send a message to somebody."
    assert nothing == "No tool fits 'zzz'. Try other words, or action 'list'."


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"action": "enable", "names": ["send_mail"]}, "Did you mean 'send_email'?"),
        ({"action": "enable"}, "enable needs names"),
        ({"action": "help", "names": []}, "help needs names"),
        ({"action": "search", "query": " "}, "search needs a query"),
        ({"action": "disable"}, "'action': should be 'list'"),
    ],
)
def test_a_wrong_use_says_what_to_do(args: dict[str, Any], words: str) -> None:
    """Nothing is enabled by a call that went wrong."""
    builder, _ = agent_of(call("tools", **args), say("done"))
    result = builder.build().run_sync("go")
    assert words in result_texts(result)[0]
    assert ToolRegistry.enabled_tools(result.state) == ()


def test_only_some_may_be_hidden() -> None:
    """`hide` names those that are on demand; everything else is offered as usual."""
    builder, driver = agent_of(say("done"), hide=("send_*",))
    builder.build().run_sync("go")
    assert offered(driver) == [["read_file", "create_issue", "tools"]]


def test_other_capabilities_tools_are_hidden_too_apart_from_the_essential() -> None:
    """A list of tasks is there at once; notes are on demand."""
    builder, driver = agent_of(call("tools", action="enable", names=["read_metadata"]), say("done"))
    builder.with_capability(TaskPlanning()).with_capability(Metadata()).build().run_sync("go")
    assert offered(driver) == [["tools", "todo_write"], ["tools", "todo_write", "read_metadata"]]


def test_what_must_be_called_is_offered() -> None:
    """A request that demands one tool offers that tool."""
    builder, driver = agent_of(say("done"))
    builder.on_before_inference(
        lambda ctx: ctx.with_request(ctx.request.with_tool_choice("send_email")), name="demand"
    )
    builder.build().run_sync("go")
    assert offered(driver) == [["send_email", "tools"]]


def test_it_stays_enabled_for_the_conversation_and_not_for_children() -> None:
    """A later run has it; a child run has tools, and hooks, of its own."""
    builder, _ = agent_of(
        call("tools", action="enable", names=["send_email"]),
        say("1"),
        call("send_email", to="Ada", subject="x"),
        say("2"),
    )
    agent = builder.build()
    first = agent.run_sync("go")
    second = agent.run_sync("again", state=first.state)
    assert result_texts(second) == ["sent to Ada"]

    child = AgentBuilder().with_tools(send_email)
    child.with_driver(ScriptedDriver([call("send_email", to="Eve", subject="x"), say("ok")]))
    inner = child.build()

    @tool
    async def delegate(context: ToolContext) -> str:
        """Hand on."""
        return result_texts(await context.spawn(inner, "go"))[0]

    builder, _ = agent_of(call("delegate"), say("done"), always=("delegate",))
    assert result_texts(builder.with_tools(delegate).build().run_sync("go")) == ["sent to Eve"]


async def test_tools_of_mcp_servers_are_on_demand() -> None:
    """A server's tools are found by what the server says of them, enabled by name, and called."""
    program = Path(__file__).parents[1] / "support" / "sdk_mcp_server.py"
    server = McpServer.stdio(sys.executable, [str(program)], name="far")
    async with McpServers(server) as mcp:
        names = [each.name for each in mcp.tools()]
        driver = ScriptedDriver(
            [
                call("tools", action="list"),
                call("tools", action="enable", names=names[:1]),
                say("x"),
            ]
        )
        builder = AgentBuilder().with_driver(driver).with_capability(mcp)
        result = await builder.with_capability(ToolRegistry()).build().run("go")
    assert names[0] in result_texts(result)[0]
    assert offered(driver) == [["tools"], ["tools"], [names[0], "tools"]]


async def test_it_survives_any_death_and_the_disk(tmp_path: Path) -> None:
    """Resumed after any record, the same tools are offered and called."""
    script = [
        call("tools", action="enable", names=["send_email"]),
        call("send_email", to="Ada", subject="x"),
        say("done"),
    ]

    def build(journal: Any) -> Any:
        builder, _ = agent_of(*[lambda state: script[state.step_count]] * 3)
        return builder.with_journal(journal, on_in_doubt=lambda doubt: None).build()

    whole, resumed = await lives(build)
    for result in resumed:
        assert ToolRegistry.enabled_tools(result.state) == ("send_email",)
        assert result_texts(result)[0] == result_texts(whole)[0]
    assert result_texts(await on_disk(build, tmp_path / "j.db"))[1] == "sent to Ada"


@pytest.mark.parametrize("options", [{"always": "read"}, {"hide": [3]}])
def test_nonsense_is_refused(options: dict[str, Any]) -> None:
    """Patterns come in lists."""
    with pytest.raises(BuildError, match=f"{next(iter(options))}="):
        ToolRegistry(**options)


def test_what_is_always_to_be_offered_has_to_be_there() -> None:
    """A name that no tool has is reported; tools of servers may come later."""
    builder, _ = agent_of(say("done"), always=("read_*", "nope", "mcp__github__*"))
    assert [str(found) for found in builder.build().lint() if "always=" in str(found)] != []
    assert all("read_*" not in str(found) for found in builder.build().lint())
    assert all("mcp__" not in str(found) for found in builder.build().lint())


SPECS = [
    ToolSpec(name, description, {"type": "object", "properties": {key: {} for key in parameters}})
    for name, description, *parameters in [
        ("mcp__github__create_issue", "Create a new issue in a GitHub repository", "title", "body"),
        ("mcp__github__list_issues", "List issues of a GitHub repository", "state"),
        ("mcp__github__create_pull_request", "Open a pull request", "title", "branch"),
        ("mcp__slack__post_message", "Post a message to a Slack channel", "channel", "text"),
        ("mcp__db__query", "Run a read-only SQL query against the database", "sql"),
        ("getWeatherForecast", "The weather for the next days", "city"),
        ("convert_currency", "Convert an amount of money between currencies", "amount"),
        ("resize_image", "Change the width and height of a picture", "width", "height"),
        ("send_email", "Send an e-mail", "recipient", "subject", "body"),
        ("read_file", "Read a file", "path"),
        ("write_file", "Write a file", "path", "content"),
        ("delete_file", "Delete a file for good", "path"),
    ]
]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create issue", "mcp__github__create_issue"),
        ("creating github issues", "mcp__github__create_issue"),
        ("list_issues", "mcp__github__list_issues"),
        ("pull request", "mcp__github__create_pull_request"),
        ("send a message on slack", "mcp__slack__post_message"),
        ("sql database", "mcp__db__query"),
        ("weather forecast", "getWeatherForecast"),
        ("money", "convert_currency"),
        ("currencies", "convert_currency"),
        ("make a picture smaller, width 100", "resize_image"),
        ("recipient", "send_email"),
        ("READ_FILE", "read_file"),
        ("delete files", "delete_file"),
        ("remove a file for good", "delete_file"),
    ],
)
def test_the_best_comes_first(query: str, first: str) -> None:
    """Names count more than descriptions, and endings do not matter."""
    assert rank_tools(SPECS, query, 5)[0].name == first


def test_what_has_nothing_to_do_with_it_is_not_found() -> None:
    """No match is an empty answer, and there are never more than asked for."""
    assert rank_tools(SPECS, "xylophone", 5) == []
    assert rank_tools(SPECS, "?!", 5) == []
    assert len(rank_tools(SPECS, "file", 2)) == 2


def test_names_are_split_into_words() -> None:
    """However they are spelled."""
    assert words_of("getHTTPResponse2") == words_of("get_http_response-2")


@given(st.text(max_size=60))
def test_any_query_can_be_answered(query: str) -> None:
    """Whatever a model writes, what is found is a part of what there is, each once, and always the same."""
    found = [spec.name for spec in rank_tools(SPECS, query, 20)]
    assert len(set(found)) == len(found)
    assert set(found) <= {spec.name for spec in SPECS}
    assert found == [spec.name for spec in rank_tools(SPECS[::-1], query, 20)]
