from __future__ import annotations

from typing import Any

import pytest

from hookline import AgentBuilder
from hookline.errors import BuildError
from hookline.providers import make_provider
from hookline.providers.http import check_address

OVER_HTTP = pytest.mark.parametrize("provider", ["anthropic", "google", "openai"])
SECRET = "hunter2hunter2"


@OVER_HTTP
@pytest.mark.parametrize(
    "wrong",
    [
        {"api_key": 5},
        {"api_key": b"abc"},
        {"base_url": 5},
        {"base_url": "localhost:11434/v1"},
        {"base_url": "http://"},
        {"base_url": "ftp://host/"},
        {"base_url": "http://[::1"},
        {"base_url": f"http://host/v1?key={SECRET}"},
        {"base_url": f"http://host/v1#{SECRET}"},
        {"base_url": f"http://user:{SECRET}@host/v1"},
        {"base_url": f"http://{SECRET}@host/v1"},
        {"timeout": "60"},
        {"timeout": None},
        {"timeout": -1},
        {"timeout": 0},
        {"timeout": True},
        {"timeout": float("inf")},
        {"headers": "x"},
        {"headers": {"x": 5}},
        {"headers": {"bad name": SECRET}},
        {"headers": {"x": f"{SECRET}\nfoo"}},
        {"headers": {"x": f"{SECRET}ü"}},
    ],
    ids=str,
)
def test_a_wrong_setting_is_told_when_the_model_is_chosen(
    provider: str, wrong: dict[str, Any]
) -> None:
    """One line names the setting and the provider, says what to write, and shows no secret."""
    with pytest.raises(BuildError, match=f"{next(iter(wrong))}.*'{provider}'") as caught:
        AgentBuilder().with_model(f"{provider}:m", **{"api_key": "sk-1234567890", **wrong})
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)


@OVER_HTTP
def test_settings_that_are_right_are_taken(provider: str) -> None:
    """A whole number of seconds, a header with spaces, an address with a path."""
    make_provider(
        provider, api_key="k", base_url="http://[::1]:80/v1/", timeout=5, headers={"X-A": "b c"}
    )


@pytest.mark.parametrize("options", [None, ["a"], "x"])
@pytest.mark.parametrize("model", ["openai:m", "script:none.json", ["openai:m", "openai:n"]])
def test_options_are_names_with_values(options: Any, model: Any) -> None:
    """Whatever the model is."""
    with pytest.raises(BuildError, match="options"):
        AgentBuilder().with_model(model, options=options)


@pytest.mark.parametrize(
    "url", ["localhost:8000/v1", "ftp://host", "http://", "http://[bad", "http://host:port/", "x"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    """A base_url without a scheme or a host is found out before anything is sent."""
    with pytest.raises(BuildError, match="is not an address"):
        check_address("openai", url)
