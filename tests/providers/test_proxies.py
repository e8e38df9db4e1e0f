from __future__ import annotations

import pytest

from hookline import AgentBuilder, ErrorPolicy, RunStatus
from hookline.errors import ConnectionLostError, ModelError
from hookline.providers.proxies import proxy_for

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE")
SECRET = "hunter2hunter2"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine is set to must not change what is tested."""
    for name in (*NAMES, *(name.lower() for name in NAMES)):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("provider", ["anthropic", "google", "openai"])
@pytest.mark.parametrize(
    ("variable", "value", "kind", "words"),
    [
        ("HTTP_PROXY", "http://127.0.0.1:9", ConnectionLostError, "proxy http://127.0.0.1:9"),
        ("HTTP_PROXY", f"http://u:{SECRET}@127.0.0.1:9", ConnectionLostError, "127.0.0.1:9"),
        ("HTTP_PROXY", f"ftp://u:{SECRET}@x:1", ModelError, "HTTP_PROXY is not the address"),
        ("ALL_PROXY", "socks5://127.0.0.1:9", ModelError, "ALL_PROXY speaks SOCKS"),
        ("SSL_CERT_FILE", "/nowhere/at/all.pem", ModelError, "SSL_CERT_FILE is '/nowhere"),
    ],
)
async def test_what_is_wrong_on_the_way_is_named(
    provider: str,
    variable: str,
    value: str,
    kind: type[ModelError],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The proxy or the variable is blamed, not the host behind it, and no password is shown."""
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr("hookline.providers.proxies.find_spec", lambda name: None)
    made = AgentBuilder().with_model(f"{provider}:m", base_url="http://host.invalid/v1", api_key="")
    result = await made.with_error_policy(ErrorPolicy.stop_on_any_error()).build().run("go")
    assert result.status is RunStatus.FAILED
    assert type(result.error) is kind
    assert words in str(result.error)
    assert result.error.remedy
    assert "\n" not in str(result.error)
    assert SECRET not in str(result.error)


def test_a_host_may_be_spared_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_PROXY names hosts that are reached directly; a scheme's own proxy comes before that of all."""
    assert proxy_for("http://host/v1") == ""
    monkeypatch.setenv("ALL_PROXY", "any:1")
    monkeypatch.setenv("HTTPS_PROXY", "http://secure:2")
    monkeypatch.setenv("NO_PROXY", "near")
    assert proxy_for("http://host/v1") == "http://any:1"
    assert proxy_for("https://host/v1") == "http://secure:2"
    assert proxy_for("http://near/v1") == ""
