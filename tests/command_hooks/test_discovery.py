"""Configuration files: where they are, what is in force, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hookline.command_hooks import CommandHooks, HookSearch, Level, capability, read_hook
from hookline.command_hooks.dialect import dialect_named
from hookline.errors import BuildError, RegistrationError, UsageError


def entry(command: str = "true", **more: Any) -> dict[str, Any]:
    """A hook as settings name it."""
    return {"type": "command", "command": command, **more}


def pre(*entries: Any, matcher: str | None = None) -> dict[str, Any]:
    """Settings with these hooks before tools."""
    group = {"hooks": list(entries), **({} if matcher is None else {"matcher": matcher})}
    return {"hooks": {"PreToolUse": [group]}}


def commands(hooks: CommandHooks) -> list[str]:
    """The commands that are in force."""
    return [handler.command for handler in hooks.handlers]


# --- Claude -------------------------------------------------------------------------------------------


def test_a_variable_may_say_where_the_user_keeps_their_files(
    stage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For whoever's home it is, and nobody else's."""
    monkeypatch.setenv("HOME", str(stage.home))
    for name, file, content in (
        ("CLAUDE_CONFIG_DIR", "settings.json", pre(entry("mine"))),
        ("CODEX_HOME", "hooks.json", pre(entry("codex"))),
    ):
        directory = stage.root.parent / name
        directory.mkdir()
        monkeypatch.setenv(name, str(directory))
        (directory / file).write_text(json.dumps(content))
    assert commands(stage.discover(home=None)) == ["mine", "codex"]
    assert commands(stage.discover(home=stage.root.parent / "else")) == []


def test_hooks_at_the_end_of_a_session_have_a_minute_at_most(stage: Any) -> None:
    """Without a time of their own it is a moment."""
    entries = [entry("a"), entry("b", timeout=20), entry("c", timeout=500)]
    stage.file(".claude/settings.json", {"hooks": {"SessionEnd": [{"hooks": entries}]}})
    assert [handler.timeout for handler in stage.discover().handlers] == [1.5, 20, 60]


def test_hooks_of_all_levels_are_in_force_together(stage: Any) -> None:
    """Lists of hooks are added up, never replaced."""
    stage.file(".claude/settings.json", pre(entry("user")), home=True)
    stage.file(".claude/settings.json", pre(entry("project")))
    stage.file(".claude/settings.local.json", pre(entry("local")))
    found = stage.discover()
    assert commands(found) == ["user", "project", "local"]
    assert [h.source.level for h in found.handlers] == [Level.USER, Level.PROJECT, Level.LOCAL]


def test_the_same_hook_in_several_files_runs_once_and_a_plugins_copy_is_its_own(stage: Any) -> None:
    """A plugin has its own directory, and so its own copy."""
    stage.file(".claude/settings.json", pre(entry("same")), home=True)
    stage.file(".claude/settings.json", pre(entry("same")))
    plugin = stage.file(
        "plug/hooks/hooks.json", {"description": "d", **pre(entry("same"))}, home=True
    )
    found = stage.discover(plugins=[plugin.parent.parent])
    assert commands(found) == ["same", "same"]
    assert found.handlers[1].source.root == str(plugin.parent.parent)


def test_plugins_that_the_user_switched_on_are_found(stage: Any) -> None:
    """A repository cannot switch one on."""
    for name in ("on", "off", "by-repository"):
        stage.file(f".claude/plugins/{name}/hooks/hooks.json", pre(entry(name)), home=True)
    where = stage.home / ".claude" / "plugins"
    known = {f"{n}@m": [{"installPath": str(where / n)}] for n in ("on", "off", "by-repository")}
    stage.file(
        ".claude/plugins/installed_plugins.json", {"version": 2, "plugins": known}, home=True
    )
    stage.file(
        ".claude/settings.json", {"enabledPlugins": {"on@m": True, "off@m": False}}, home=True
    )
    stage.file(".claude/settings.json", {"enabledPlugins": {"by-repository@m": True}})
    assert commands(stage.discover()) == ["on"]


@pytest.mark.parametrize(
    ("level", "left"),
    [("user", []), ("project", ["user"]), ("local", ["user"])],
)
def test_a_file_switches_off_its_own_level_and_below(
    stage: Any, level: str, left: list[str]
) -> None:
    """A repository cannot switch off the guards of the user."""
    files = {"user": True, "project": False, "local": False}
    for name, home in files.items():
        path = ".claude/settings.local.json" if name == "local" else ".claude/settings.json"
        content = pre(entry(name)) | ({"disableAllHooks": True} if name == level else {})
        stage.file(path, content, home=home)
    assert commands(stage.discover()) == left


def test_a_projects_false_does_not_take_back_the_users_true(stage: Any) -> None:
    """Files do not decide about their own trust."""
    stage.file(".claude/settings.json", {"disableAllHooks": True}, home=True)
    stage.file(".claude/settings.json", {"disableAllHooks": False} | pre(entry("project")))
    assert commands(stage.discover()) == []


def test_managed_settings_can_leave_out_all_others(stage: Any, tmp_path: Path) -> None:
    """Only the administrator can say so."""
    managed = tmp_path / "etc" / "claude-code"
    managed.mkdir(parents=True)
    content = {"allowManagedHooksOnly": True} | pre(entry("managed"))
    (managed / "managed-settings.json").write_text(json.dumps(content))
    stage.file(".claude/settings.json", pre(entry("user")) | {"disableAllHooks": True}, home=True)
    warnings: list[str] = []
    search = HookSearch(stage.root, stage.home, warnings.append, system=tmp_path / "etc")
    found = dialect_named("claude").find(search)
    assert [handler.command for handler in found] == ["managed"]
    assert any("user" in said or "~" in said for said in warnings)


def test_mistakes_are_reported_and_the_rest_stays_in_force(stage: Any) -> None:
    """One bad entry does not take the others with it."""
    content = {
        "hooks": {
            "PreToolUse": [
                {
                    "matcher": "Bash",
                    "hooks": [entry("good"), "text", {"type": "prompt"}, {"type": "command"}],
                },
                {"matcher": "(", "hooks": [entry("bad matcher")]},
                {"hooks": "none"},
                7,
            ],
            "NoSuchEvent": [{"hooks": [entry("x")]}],
            "WorktreeCreate": [{"hooks": [entry("x")]}],
            "Stop": [
                {"hooks": [entry("with if", **{"if": "Bash(ls)"}), entry("stop", timeout=-1)]}
            ],
        }
    }
    stage.file(".claude/settings.json", content)
    found = stage.discover()
    assert commands(found) == ["good", "stop"]
    said = "\n".join(found.warnings)
    for word in ("not an object", "'prompt'", "no command", "regular expression", "'NoSuchEvent' is not an event",
                 "WorktreeCreate does not happen", "'if'", "timeout=-1"):  # fmt: skip
        assert word in said
    assert all(".claude/settings.json" in line for line in found.warnings)


@pytest.mark.parametrize("text", ["{", "[]", "\x00", "{'a': 1}"])
def test_a_file_that_cannot_be_read_is_reported(stage: Any, text: str) -> None:
    """And does not keep anything from starting."""
    stage.file(".claude/settings.json", text)
    found = stage.discover()
    assert found.handlers == ()
    assert found.warnings


def test_comments_in_json_are_passed_over(stage: Any) -> None:
    """Some agents allow comments; addresses in strings are no comments."""
    hook = '{"type": "command", "command": "curl http://x/*y*/"}'
    stage.file(
        ".gemini/settings.json", f'{{"hooks": {{"BeforeTool": [ // one\n {{"hooks": [{hook}]}}]}}}}'
    )
    assert commands(stage.discover()) == ["curl http://x/*y*/"]


@pytest.mark.parametrize(
    ("event", "given", "seconds"),
    [
        ("PreToolUse", {}, 600),
        ("UserPromptSubmit", {}, 30),
        ("SessionEnd", {}, 1.5),
        ("SessionEnd", {"timeout": 900}, 60),
        ("PreToolUse", {"timeout": 5}, 5),
    ],
)
def test_claudes_times(stage: Any, event: str, given: dict[str, Any], seconds: float) -> None:
    """In seconds, with other defaults for some events."""
    stage.file(".claude/settings.json", {"hooks": {event: [{"hooks": [entry(**given)]}]}})
    assert stage.discover().handlers[0].timeout == seconds


def test_a_program_with_its_arguments_needs_no_shell(stage: Any) -> None:
    """`args` makes a list of words of it."""
    stage.file(".claude/settings.json", pre(entry("node", args=["${CLAUDE_PROJECT_DIR}/x.js"])))
    assert stage.discover().handlers[0].argv == ("node", "${CLAUDE_PROJECT_DIR}/x.js")


def test_a_hook_may_be_written_as_words_alone(stage: Any) -> None:
    """Without a `command` beside them: a guard that is written so is not lost."""
    words = {"type": "command", "args": ["sh", "guard.sh"]}
    stage.file(".claude/settings.json", {"hooks": {"PreToolUse": [{"hooks": [words]}]}})
    assert [each.argv for each in stage.discover().handlers] == [("sh", "guard.sh")]


def test_addresses_that_the_user_has_not_listed_are_not_called(stage: Any) -> None:
    """Once there is such a list."""
    hooks = [{"type": "http", "url": url} for url in ("https://a.example/x", "https://b.example/x")]
    stage.file(
        ".claude/settings.json",
        {"allowedHttpHookUrls": ["https://a.example/*"]} | pre(*hooks),
        home=True,
    )
    found = stage.discover()
    assert [handler.url for handler in found.handlers] == ["https://a.example/x"]


# --- the others ---------------------------------------------------------------------------------------


def test_geminis_settings(stage: Any) -> None:
    """Times are milliseconds where they can be, hooks have names, and can be switched off by them."""
    group = {"matcher": "write_.*", "sequential": True, "hooks": [
        {"type": "command", "name": "fmt", "command": "a", "timeout": 5000},
        {"type": "command", "name": "off", "command": "b"},
        {"type": "command", "name": "quick", "command": "c", "timeout": 30},
    ]}  # fmt: skip
    stage.file(
        ".gemini/settings.json",
        {"hooks": {"BeforeTool": [group]}, "hooksConfig": {"disabled": ["off"]}},
    )
    found = stage.discover()
    assert [(h.label, h.timeout, h.is_sequential) for h in found.handlers] == [
        ("fmt", 5.0, True),
        ("quick", 30.0, True),
    ]
    assert any("read as seconds" in said for said in found.warnings)


def test_geminis_extensions(stage: Any) -> None:
    """Their hooks are the user's."""
    hook = {"hooks": {"AfterTool": [{"hooks": [entry("node ${extensionPath}/x.js")]}]}}
    path = stage.file(".gemini/extensions/one/hooks/hooks.json", hook, home=True)
    (handler,) = stage.discover().handlers
    assert (handler.source.level, handler.source.root) == (Level.PLUGIN, str(path.parent.parent))


def test_codexs_files(stage: Any) -> None:
    """JSON and TOML; an unknown key at the top refuses the whole of a hooks.json."""
    stage.file(".codex/hooks.json", pre(entry("json"), matcher="Bash"))
    toml = 'model = "x"\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "toml"\n'
    stage.file(".codex/config.toml", toml)
    stage.file(".codex/hooks.json", {"extra": 1} | pre(entry("refused")), home=True)
    found = stage.discover()
    assert [(h.command, h.event) for h in found.handlers] == [
        ("json", "PreToolUse"),
        ("toml", "Stop"),
    ]
    assert any("'extra' is not known" in said for said in found.warnings)


def test_cursors_file(stage: Any) -> None:
    """A flat list; some events fail closed by themselves."""
    hooks = {
        "beforeShellExecution": [
            {"command": "a", "matcher": "curl"},
            {"command": "b", "failClosed": True},
        ],
        "beforeReadFile": [{"command": "c"}],
        "stop": [{"command": "d", "loop_limit": None}, {"command": "e"}],
    }
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": hooks})
    found = {handler.command: handler for handler in stage.discover().handlers}
    assert [found[name].on_failure for name in "abc"] == ["open", "closed", "closed"]
    assert (found["d"].loop_limit, found["e"].loop_limit) == (None, 5)


def test_cursors_commands_run_where_they_are(stage: Any) -> None:
    """In the project; beside the file if only there is what they name."""
    stage.script(".cursor/hooks/a.sh", "")
    hooks = [{"command": ".cursor/hooks/a.sh"}, {"command": "sh hooks/a.sh"}]
    stage.file(".cursor/hooks.json", {"version": 1, "hooks": {"stop": hooks}})
    assert [h.cwd for h in stage.discover().handlers] == ["", str(stage.root / ".cursor")]


def test_copilots_files(stage: Any) -> None:
    """All files of a directory; events in Pascal case are sent in VS Code's form."""
    camel = {"preToolUse": [{"type": "command", "bash": "a", "timeoutSec": 5, "env": {"X": "1"}}]}
    stage.file(".github/hooks/1.json", {"version": 1, "hooks": camel})
    stage.file(
        ".github/hooks/2.json", {"version": 1, "hooks": {"PreToolUse": [{"hooks": [entry("b")]}]}}
    )
    first, second = stage.discover().handlers
    assert (first.source.dialect, first.timeout, first.env) == ("copilot", 5.0, {"X": "1"})
    assert (second.source.dialect, second.command) == ("vscode", "b")


def test_only_the_dialects_that_are_wanted(stage: Any) -> None:
    """And one that does not exist is an error."""
    stage.file(".claude/settings.json", pre(entry("a")))
    assert stage.discover(dialects=["cursor"]).handlers == ()
    with pytest.raises(UsageError, match="no files"):
        stage.discover(dialects=["vim"])


# --- our own form -------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", ["before_tool_use", "PreToolUse", "pre_tool_use"])
def test_a_point_in_any_spelling(on: str) -> None:
    """As wherever a point is named."""
    assert read_hook({"on": on, "command": "true"}).event == "before_tool_use"
    assert read_hook({"on": on, "command": "true", "dialect": "claude"}).event == "PreToolUse"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"command": "true"}, "when it runs"),
        ({"on": "stop"}, "one of command, argv and url"),
        ({"on": "stop", "command": "a", "argv": ["b"]}, "has 2"),
        ({"on": "stop", "comand": "a"}, "Did you mean 'command'"),
        ({"on": "stopp", "command": "a"}, "Did you mean 'stop'"),
        ({"on": "stop", "command": "a", "timeout": 0}, "seconds above zero"),
        ({"on": "stop", "command": "a", "on_failure": "maybe"}, "'closed' or 'open'"),
        ({"on": "stop", "command": "a", "dialect": "vim"}, "not known"),
        ({"on": "before_step", "command": "a", "dialect": "claude"}, "not asked at before_step"),
        ({"on": "PreToolUse", "command": "a", "matcher": "("}, "regular expression"),
        ({"on": "PreToolUse", "command": "a", "if": "(((" }, "rule"),
        ({"on": "stop", "argv": "ls"}, "in a list"),
    ],
)  # fmt: skip
def test_mistakes_in_our_own_form_are_errors(given: dict[str, Any], words: str) -> None:
    """Each says what is wrong and what to do."""
    with pytest.raises(RegistrationError, match=words.replace("(", r"\(")):
        read_hook(given)


def test_our_own_hooks_fail_closed_and_those_of_others_open() -> None:
    """Unless they say otherwise."""
    assert read_hook({"on": "stop", "command": "a"}).on_failure == "closed"
    assert read_hook({"on": "stop", "command": "a", "dialect": "claude"}).on_failure == "open"


# --- what an administrator requires -------------------------------------------------------------------


def test_managed_hooks_fail_closed(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard that an administrator requires does not give way when it is broken, in any dialect."""
    machine = stage.root.parent / "etc"
    for name, content in (
        ("claude-code/managed-settings.json", pre(entry("/no/such"))),
        ("cursor/hooks.json", {"version": 1, "hooks": {"preToolUse": [{"command": "x"}]}}),
        ("gemini-cli/settings.json", {"hooks": {"BeforeTool": [{"hooks": [entry()]}]}}),
    ):
        (machine / name).parent.mkdir(parents=True)
        (machine / name).write_text(json.dumps(content))
    monkeypatch.setattr(capability, "SYSTEM", machine)
    found = stage.discover(managed=True, trust=None)
    assert [h.on_failure for h in found.handlers] == ["closed"] * 3


@pytest.mark.parametrize(
    "text", ["{", json.dumps(pre({"type": "prompt"})), json.dumps(pre(entry(), matcher="("))]
)
def test_nothing_begins_without_a_hook_that_an_administrator_requires(
    tmp_path: Path, text: str
) -> None:
    """A file that cannot be read is an error, not a warning."""
    (tmp_path / "claude-code").mkdir()
    (tmp_path / "claude-code" / "managed-settings.json").write_text(text)
    with pytest.raises(BuildError, match="administrator"):
        dialect_named("claude").find(HookSearch(tmp_path, tmp_path, print, system=tmp_path))


@pytest.mark.parametrize(
    ("dialect", "name"),
    [
        ("gemini", "gemini-cli/settings.json"),
        ("codex", "codex/hooks.json"),
        ("cursor", "cursor/hooks.json"),
        ("copilot", "github-copilot/policy.d/a.json"),
    ],
)
def test_that_is_so_in_every_dialect(tmp_path: Path, dialect: str, name: str) -> None:
    """A broken file of the administrator is an error."""
    path = tmp_path / "etc" / name
    path.parent.mkdir(parents=True)
    path.write_text("{")
    search = HookSearch(tmp_path, tmp_path, print, system=tmp_path / "etc")
    with pytest.raises(BuildError, match="administrator"):
        list(dialect_named(dialect).find(search))


def test_permissions_of_claude_are_reported_as_not_read(stage: Any) -> None:
    """They would seem to guard something."""
    rules = {"deny": ["Read(./.env)"], "ask": [], "allow": ["Bash(ls)"], "defaultMode": "plan"}
    stage.file(".claude/settings.json", {"permissions": rules})
    stage.file(".claude/settings.json", {"permissions": {"deny": []}}, home=True)
    assert stage.discover().warnings == (
        ".claude/settings.json: its 'permissions' (deny, allow, defaultMode) are not read; "
        "write rules into [approvals] of hookline.toml",
    )
