"""Hooks that are programs, named in the configuration or in the files of another agent."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from hookline.cli.exits import Exit

_BARE = ("--without", "bash")
_GUARD = """#!/bin/sh
input=$(cat)
case "$input" in *secret*) echo "secrets stay where they are" >&2; exit 2;; esac
exit 0
"""
_CONFIG = (
    '[[hooks]]\non = "before_tool_use"\ncommand = "sh ./guard.sh"\nmatch = "read"\nname = "guard"\n'
)


def read(place: Any, path: str = "secret.txt", flags: tuple[str, ...] = ()) -> Any:
    """Run a model that reads a file."""
    model = place.script({"call": "read", "args": {"path": path}}, {"say": "Done."})
    return place.run("run", "--model", model, "Read it.", *_BARE, *flags)


def test_a_command_of_the_project_holds_once_it_is_trusted(place: Any) -> None:
    """Before that, and after a change of the script, it does not run, and neither does the agent."""
    place.write("secret.txt", "x")
    place.write("hookline.toml", _CONFIG)
    place.write("guard.sh", _GUARD + "touch ran\n")
    assert "hooks[0], sh ./guard.sh at before_tool_use" in read(place).stderr
    assert place.run("trust").returncode == 0
    done = read(place)
    assert "Blocked: secrets stay where they are" in done.stderr, done.stderr
    assert not (place.project / "ran").exists()
    tested = place.run("hooks", "test", "read", '{"path": "secret.txt"}', *_BARE)
    assert tested.returncode == Exit.BLOCKED
    assert "secrets stay where they are" in tested.stdout
    place.write("guard.sh", "touch ran\n")
    assert "guard.sh: not as it was trusted" in read(place).stderr
    assert not (place.project / "ran").exists()


def test_a_command_of_the_user_needs_no_trust(place: Any) -> None:
    """It is theirs. A list is a program and its arguments, without a shell; rules and globs match."""
    guard = place.home / "guard.sh"
    guard.write_text(_GUARD)
    own = place.home / ".config/hookline/config.toml"
    own.parent.mkdir(parents=True)
    for match in ("read(*.txt)", "re*", "write*|read", "/^read$/"):
        own.write_text(
            f'[[hooks]]\non = "PreToolUse"\ncommand = ["sh", "{guard}"]\nmatch = "{match}"\n'
        )
        assert "Blocked: secrets stay where they are" in read(place).stderr, match
        assert "Blocked" not in read(place, "other.md").stderr, match


def test_an_answer_that_cannot_be_read_blocks_unless_its_file_is_opened(place: Any) -> None:
    """By the user for any file, and by a project for its own. The failure is shown either way."""
    place.write("secret.txt", "x")
    guard = place.write("guard.sh", "#!/bin/sh\necho '{\"decision\": block}'\n")
    guard.chmod(0o755)
    hook = {"hooks": [{"type": "command", "command": "./guard.sh"}]}
    place.write(".claude/settings.json", json.dumps({"hooks": {"PreToolUse": [hook]}}))
    place.run("trust")
    done = read(place)
    assert "Blocked: the hook failed: its output begins with '{'" in done.stderr
    own = place.home / ".config/hookline/config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text('[hook_failures]\n".claude/*" = "open"\n')
    done = read(place)
    assert ": failed read(secret.txt): its output begins with '{'" in done.stderr
    assert "Blocked" not in done.stderr
    own.unlink()
    place.write("hookline.toml", '[hook_failures]\n"~/.claude/settings.json" = "open"\n')
    place.run("trust")
    done = read(place)
    assert done.returncode == Exit.CONFIG
    assert "hookline.toml:2: a project cannot let the hooks fail open for '~/.claude" in done.stderr


def test_words_to_the_user_stand_beside_a_decision(place: Any) -> None:
    """On a line of their own, and in the test of hooks."""
    said = {"decision": "block", "reason": "for the model", "message": "for you"}
    place.write("secret.txt", "x")
    place.write("guard.sh", f"echo '{json.dumps(said)}'\n")
    place.write("hookline.toml", _CONFIG)
    place.run("trust")
    lines = [line.strip() for line in read(place).stderr.splitlines()]
    where = next(at for at, line in enumerate(lines) if "block read(secret.txt): for the" in line)
    assert (
        lines[where + 1]
        == f"hook {lines[where].split()[1]} guard at before_tool_use: says: for you"
    )
    tested = place.run("hooks", "test", "read", "secret.txt", *_BARE)
    assert "(tells you: for you): for the model" in tested.stdout


def test_options_that_a_command_has_not_are_errors(place: Any) -> None:
    """With where they are written."""
    own = place.home / ".config/hookline/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[[hooks]]\non = "PreToolUse"\ncommand = "true"\npriority = 5\n')
    done = read(place)
    assert done.returncode == Exit.CONFIG
    assert f"{own}:1: a command or an address has no 'priority'." in done.stderr


class _Deny(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps({"decision": "block", "reason": f"says {self.headers['x-key']}"}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def test_an_address_is_asked(place: Any) -> None:
    """It is posted the call, with headers from the environment, and its answer decides."""
    own = place.home / ".config/hookline/config.toml"
    own.parent.mkdir(parents=True)
    with HTTPServer(("127.0.0.1", 0), _Deny) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        own.write_text(
            f'[[hooks]]\non = "before_tool_use"\nurl = "http://127.0.0.1:{server.server_port}/"\n'
            'headers = {{ x-key = "${{MY_KEY}}" }}\n'.replace("{{", "{").replace("}}", "}")
        )
        model = place.script({"call": "read", "args": {"path": "a"}}, {"say": "Done."})
        done = place.run("run", "--model", model, "x", *_BARE, MY_KEY="sesame")
        server.shutdown()
    assert "Blocked: says sesame" in done.stderr, done.stderr


def test_hooks_of_another_agents_files(place: Any) -> None:
    """The user's run at once, a repository's once trusted; `dialects = []` and --bare leave them out."""
    settings = {
        "hooks": {
            "PreToolUse": [
                {
                    "matcher": "Read",
                    "hooks": [{"type": "command", "command": "sh $CLAUDE_PROJECT_DIR/guard.sh"}],
                }
            ]
        }
    }
    place.write("secret.txt", "x")
    place.write("guard.sh", _GUARD)
    place.write(".claude/settings.json", json.dumps(settings))
    before = read(place)
    assert before.returncode == Exit.CONFIG
    assert "hookline trust" in before.stderr
    assert place.run("trust", "--show").returncode == Exit.CONFIG
    trusted = place.run("trust")
    assert "guard.sh" in trusted.stdout
    assert "Blocked: secrets stay where they are" in read(place).stderr
    shown = place.run("trust", "--show")
    assert (shown.returncode, shown.stderr.rpartition(": ")[2]) == (0, "trusted\n")
    assert place.run("trust", "--list").stdout == f"{place.project}\n"
    model = place.script({"call": "read", "args": {"path": "secret.txt"}}, {"say": "Done."})
    for flags in (("--bare",), ("--set", "dialects=[]")):
        assert "Blocked" not in place.run("run", "--model", model, "x", *flags, *_BARE).stderr
    assert "is trusted no longer" in place.run("trust", "--revoke").stderr
    assert read(place).returncode == Exit.CONFIG


def test_hooks_in_copilots_settings_alone(place: Any) -> None:
    """They are found where there is no directory of hook files."""
    place.write("secret.txt", "x")
    place.write("guard.sh", _GUARD)
    hooks = {"preToolUse": [{"type": "command", "bash": "sh ./guard.sh"}]}
    settings = place.home / ".copilot/settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"hooks": hooks}))
    assert "Blocked: secrets stay where they are" in read(place).stderr


def test_hooks_where_vs_codes_settings_say(place: Any) -> None:
    """Also without any of the usual directories."""
    place.write("secret.txt", "x")
    place.write("guard.sh", _GUARD)
    place.write(".vscode/settings.json", '{"chat.hookFilesLocations": {"guards": true}}')
    entry = {"type": "command", "command": "sh ./guard.sh"}
    place.write("guards/one.json", json.dumps({"hooks": {"PreToolUse": [entry]}}))
    assert "guards/one.json: PreToolUse: sh ./guard.sh" in read(place).stderr
    assert place.run("trust").returncode == 0
    assert "Blocked: secrets stay where they are" in read(place).stderr


def test_trusting_hooks_is_not_trusting_the_configuration(place: Any) -> None:
    """Both are in one file, and each is asked about again when it changes."""
    entry = {"hooks": [{"type": "command", "command": "touch theirs"}]}
    place.write(".claude/settings.json", json.dumps({"hooks": {"Stop": [entry]}}))
    place.run("trust")
    place.write(
        "hookline.toml",
        '[[hooks]]\non = "before_tool_use"\ncommand = "touch ours"\nmatch = "read"\n',
    )
    assert read(place).returncode == Exit.CONFIG
    assert "hooks[0], touch ours" in read(place, flags=("--without-untrusted",)).stderr
    assert (place.project / "theirs").exists()
    assert not (place.project / "ours").exists()
    place.run("trust")
    read(place)
    assert (place.project / "ours").exists()


def hook_of_the_user(place: Any, event: str, command: str) -> None:
    """A hook in the user's own settings for Claude."""
    own = place.home / ".claude/settings.json"
    own.parent.mkdir(exist_ok=True)
    entry = {"hooks": [{"type": "command", "command": command}]}
    own.write_text(json.dumps({"hooks": {event: [entry]}}))


def test_a_folder_below_the_project(place: Any) -> None:
    """Hooks run in the project; the paths they are shown are those of the files that the tools mean."""
    (place.project / ".git").mkdir()
    inside = place.project / "inside"
    inside.mkdir()
    entry = {"type": "command", "command": "cat > seen; pwd > where"}
    group = {"matcher": "Write", "hooks": [{**entry, "if": "Write(*.txt)"}]}
    place.write(".claude/settings.json", json.dumps({"hooks": {"PreToolUse": [group]}}))
    place.run("trust")
    model = place.script({"call": "write", "args": {"path": "a.txt", "content": ""}}, {"say": "x"})
    root, place.project = place.project, inside
    done = place.run("run", "--model", model, "--allow", "write", "x", *_BARE)
    assert (inside / "a.txt").exists(), done.stderr
    seen = json.loads((root / "seen").read_text())
    assert (seen["cwd"], seen["tool_input"]["file_path"]) == (str(inside), str(inside / "a.txt"))
    assert (root / "where").read_text() == f"{root}\n"


def test_a_hooks_message_to_the_user_is_shown(place: Any) -> None:
    """Though it decides nothing."""
    hook_of_the_user(place, "PreToolUse", 'echo \'{"systemMessage": "mind the gap"}\'')
    assert "mind the gap" in read(place).stderr


def test_a_hook_that_fails_is_seen_in_a_test_though_it_stops_nothing(place: Any) -> None:
    """A guard that is not there looks like one that agrees, otherwise."""
    hook_of_the_user(place, "PreToolUse", "./no-such-guard.sh")
    tested = place.run("hooks", "test", "read", '{"path": "a"}', *_BARE)
    assert tested.returncode == Exit.DONE
    assert "(the run continues)" in tested.stdout
    assert "exit code 127" in tested.stdout


def test_a_hook_knows_the_mode_in_which_it_is_asked(place: Any) -> None:
    """By the name that scripts know."""
    hook_of_the_user(place, "PreToolUse", "cat > seen.json")
    model = place.script({"call": "read", "args": {"path": "a"}}, {"say": "Done."})
    for mode, theirs in (("plan", "plan"), ("accept_edits", "acceptEdits")):
        place.run("run", "--model", model, "--mode", mode, "x", *_BARE)
        seen = json.loads((place.project / "seen.json").read_text())
        assert seen["permission_mode"] == theirs


def test_hooks_at_both_ends_of_a_conversation(place: Any) -> None:
    """Once each, however much is said; one that continues has begun before."""
    entry = {"type": "command", "command": "cat >> ends"}
    own = place.home / ".claude/settings.json"
    own.parent.mkdir()
    both = {event: [{"hooks": [entry]}] for event in ("SessionStart", "SessionEnd")}
    own.write_text(json.dumps({"hooks": both}))
    model = place.script({"say": "one"}, {"say": "two"})
    place.run("chat", "--model", model, *_BARE, stdin="hello\nagain\n")
    place.run("chat", "--continue", "--model", place.script({"say": "x"}), *_BARE, stdin="hello\n")
    place.run("chat", "--model", model, *_BARE, stdin="/help\n")
    said = [json.loads(line) for line in (place.project / "ends").read_text().splitlines()]
    assert [(each["hook_event_name"], each.get("source", "")) for each in said] == [
        ("SessionStart", "startup"),
        ("SessionEnd", ""),
        ("SessionStart", "resume"),
        ("SessionEnd", ""),
    ]


def test_what_a_hook_says_is_shown_in_its_own_words(place: Any) -> None:
    """That there is no need to ask, its text for the model, and its text for the user."""
    said = {
        "systemMessage": "looked at it",
        "hookSpecificOutput": {
            "permissionDecision": "allow",
            "permissionDecisionReason": "a friend",
        },
    }
    entries = {
        "PreToolUse": f"echo '{json.dumps(said)}'",
        "PostToolUse": """echo '{"decision": "block", "reason": "run the\\ntests"}'""",
        "UserPromptSubmit": "echo be kind",
    }
    hooks = {
        event: [{"hooks": [{"type": "command", "command": command}]}]
        for event, command in entries.items()
    }
    folder = place.home / ".claude"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"hooks": hooks}))
    lines = place.run("hooks", "test", "bash", "ls").stdout.splitlines()
    assert [line for line in lines if line.startswith("allow ") and line.endswith(": a friend")]
    after = place.run("hooks", "test", "bash", "ls", "--result", "x", "--json").stdout
    messages = [json.loads(line).get("tells", "") for line in after.splitlines()]
    assert any("run the\ntests" in each for each in messages)
    prompt = place.run("hooks", "test", "--prompt", "hi").stdout
    assert "tells the model: <hook" in prompt
    assert "be kind" in prompt


def test_testing_an_answer_asks_the_hooks_that_may_object_to_the_end(place: Any) -> None:
    """What they say is shown, and nothing continues because of it."""
    folder = place.home / ".claude"
    folder.mkdir()
    entry = {"hooks": [{"type": "command", "command": "echo go on >&2; exit 2"}]}
    (folder / "settings.json").write_text(json.dumps({"hooks": {"Stop": [entry]}}))
    tested = place.run("hooks", "test", "--answer", "bye")
    assert tested.returncode == Exit.BLOCKED
    assert [
        line
        for line in tested.stdout.splitlines()
        if line.startswith("block ") and line.endswith(": go on")
    ]


def test_hooks_of_other_agents_lift_no_cap_for_the_rest(place: Any) -> None:
    """A rule that objects to every end does so eight times, also where a Stop hook of Claude's may do so in a row."""
    folder = place.home / ".claude"
    folder.mkdir()
    entry = {"hooks": [{"type": "command", "command": "exit 0"}]}
    (folder / "settings.json").write_text(json.dumps({"hooks": {"Stop": [entry]}}))
    place.write("hookline.toml", '[[hooks]]\non = "stop"\ndo = "block"\nreason = "more"\n')
    place.run("trust")
    turns = [{"call": "list", "args": {}}, *[{"say": "no"}] * 20]
    done = place.run("run", "--model", place.script(*turns), "--max-steps", "19", "--json", "x")
    last = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, last["stop_reason"]) == (Exit.LIMIT, "objection_limit")
    assert last["steps"] == 10


def test_a_tool_is_tried_with_the_one_argument_that_it_needs(place: Any) -> None:
    """As it is, for whichever tool: a rule is written so, too."""
    arguments = ("--deny", "read(.env)", *_BARE)
    assert place.run("hooks", "test", "read", ".env", *arguments).returncode == Exit.BLOCKED
    assert place.run("hooks", "test", "read", "a.txt", *arguments).returncode == Exit.DONE
    assert 'path=".env"' in place.run("hooks", "explain", "read", ".env").stdout
