from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hookline import AgentBuilder
from hookline.drivers import (
    FallbackDriver,
    ReActDriver,
    ScriptedDriver,
    ToolCallingDriver,
    driver_for,
)
from hookline.errors import BuildError
from hookline.providers import Feature
from hookline.testing import ScriptedProvider, say


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """What providers were made, by name and settings; `local` cannot call tools here."""
    asked: list[tuple[str, dict[str, Any]]] = []

    def make(name: str, **settings: Any) -> ScriptedProvider:
        asked.append((name, settings))
        if "wrong" in settings:
            raise TypeError("got an unexpected keyword argument 'wrong'")
        features = frozenset(Feature) - ({Feature.TOOLS} if name == "local" else set())
        return ScriptedProvider([], name=name, features=features)

    monkeypatch.setattr("hookline.drivers.model.make_provider", make)
    return asked


def test_the_driver_is_chosen_by_what_the_provider_can_do(made: list[Any]) -> None:
    """Native calls where it has them, the text protocol where not."""
    native, text = driver_for("openai:gpt"), driver_for("local:")
    assert isinstance(native, ToolCallingDriver)
    assert isinstance(text, ReActDriver)
    assert (native.model, text.model) == ("openai:gpt", "local")


def test_settings_are_the_providers(made: list[Any]) -> None:
    """And options the model's."""
    builder = AgentBuilder().with_model(
        "openai:gpt", options={"temperature": 0}, base_url="http://127.0.0.1:1/v1"
    )
    assert made == [("openai", {"base_url": "http://127.0.0.1:1/v1"})]
    assert "ToolCallingDriver: openai:gpt" in builder.build().explain()


def test_a_list_is_a_fallback(made: list[Any]) -> None:
    """In order; a list of one is that one."""
    driver = driver_for(["openai:a", "anthropic:b", ScriptedDriver([say("hi")])])
    assert isinstance(driver, FallbackDriver)
    assert driver.model == "openai:a, then anthropic:b, then scripted"
    assert isinstance(driver_for(("openai:a",)), ToolCallingDriver)


def test_a_driver_is_taken_as_it_is() -> None:
    """`with_model` takes what `with_driver` takes."""
    script = ScriptedDriver([say("hi")])
    assert driver_for(script) is script
    assert AgentBuilder().with_model(script).build().run_sync("go").text == "hi"


@pytest.mark.parametrize(
    ("model", "options", "problem", "remedy"),
    [
        ("gpt-5", {}, "there is no provider 'gpt-5'", "Write provider:model, with one of:"),
        ("scrpt:x", {}, "there is no provider 'scrpt'", "Did you mean 'script:x'?"),
        ("antropic:x", {}, "there is no provider 'antropic'", "Did you mean 'anthropic:x'?"),
        ("openai/gpt-4o", {}, "has a slash after the provider", "Did you mean 'openai:gpt-4o'?"),
        ("openai:", {}, "has no name after the provider", "Write openai:NAME"),
        ("openai:x", {"wrong": 1}, "does not take these settings", "go into options="),
        ([], {}, "there is no model", "Name at least one."),
        (5, {}, "5 is neither a model's name nor a driver", "Write provider:NAME"),
        (ScriptedDriver, {}, "is neither a model's name nor a driver", "Write provider:NAME"),
        (["openai:x", "openai:y"], {"timeout": 1}, "timeout: with several models", "Put drivers"),
        (
            ["openai:x", "anthropic:y"],
            {"options": {"logprobs": True, "seed": 1}},
            "logprobs: with several providers it is not clear whose option",
            "these options work for all models: max_tokens, temperature, top_p, stop, seed.",
        ),
        (["openai:x", 5], {}, "5 is neither", "Write provider:NAME"),
        (ScriptedDriver([]), {"timeout": 1}, "takes no settings, and 'timeout'", "Leave it out."),
        ("script:x.json", {"options": {"seed": 1}}, "takes no settings, and 'seed'", "Leave it"),
        (
            ["openai:x", "openai:y"],
            {"fallback_on": ["busy"]},
            "'busy' is not a valid ErrorClass",
            "Classes: tool, ",
        ),
    ],
)
def test_a_wrong_model_is_refused_in_one_line(
    made: list[Any], model: Any, options: dict[str, Any], problem: str, remedy: str
) -> None:
    """That says what was wrong and what to do."""
    with pytest.raises(BuildError) as caught:
        AgentBuilder().with_model(model, **options)
    message = str(caught.value)
    assert problem in message
    assert remedy in caught.value.remedy
    assert "\n" not in message


def test_a_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra, by its name."""
    for name in ("anthropic", "hookline.providers.anthropic"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(BuildError, match="pip install 'anthropic"):
        AgentBuilder().with_model("anthropic:claude")


def test_no_library_is_imported_before_it_is_named(tmp_path: Path) -> None:
    """An agent of one provider brings along nobody else's client."""
    program = (
        "import sys, json; from hookline import AgentBuilder; import hookline.testing; "
        "AgentBuilder().with_model('script:' + sys.argv[1]).build().run_sync('go'); "
        "print(json.dumps(sorted(sys.modules)))"
    )
    script = tmp_path / "hello.json"
    script.write_text('[{"say": "Hello."}]', encoding="utf-8")
    answer = subprocess.run(
        [sys.executable, "-c", program, str(script)], capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in json.loads(answer.stdout)}
    clients = {
        "openai",
        "anthropic",
        "google",
        "xllamacpp",
        "genai_prices",
        "httpx",
        "httpx2",
        "mcp",
    }
    assert loaded & clients == set()
