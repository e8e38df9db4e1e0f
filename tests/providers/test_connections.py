from __future__ import annotations

import socket
import ssl

import httpx2
import pytest

from hookline import AgentBuilder, ErrorPolicy, RunStatus
from hookline.errors import ConnectionLostError, HooklineError, ModelError, ModelTimeoutError
from hookline.providers.connections import proxy_for, transport_failure

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
    monkeypatch.setattr("hookline.providers.connections.find_spec", lambda name: None)
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


# --- connections ---------------------------------------------------------------------------------


def raised_from(outer: Exception, *causes: BaseException) -> Exception:
    """An exception that was raised from another, and that from the next."""
    raised: BaseException = outer
    for cause in causes:
        raised.__cause__ = cause
        raised = cause
    return outer


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            raised_from(httpx2.ConnectError("x"), socket.gaierror(-2, "Name not known")),
            ConnectionLostError,
            "has no network address",
        ),
        (
            raised_from(
                httpx2.ConnectError("x"),
                OSError("all failed"),
                ExceptionGroup("x", [ConnectionRefusedError(), ConnectionRefusedError()]),
            ),
            ConnectionLostError,
            "Start the server there",
        ),
        (
            raised_from(httpx2.ConnectError("x"), ssl.SSLCertVerificationError()),
            ConnectionLostError,
            "certificate",
        ),
        (raised_from(httpx2.ConnectError("x"), ssl.SSLError()), ConnectionLostError, "TLS"),
        (httpx2.ConnectTimeout("x"), ConnectionLostError, "cannot be reached"),
        (
            raised_from(httpx2.ReadTimeout("x"), TimeoutError()),
            ModelTimeoutError,
            "for 30 seconds",
        ),
        (httpx2.RemoteProtocolError("x"), ConnectionLostError, "before the end of its answer"),
        (httpx2.ReadError("x"), ConnectionLostError, "before the end of its answer"),
    ],
)
def test_the_cause_of_a_connection_error_selects_the_remedy(
    error: Exception, kind: type[HooklineError], words: str
) -> None:
    """A name, a port, a certificate and a silence are different faults with different remedies."""
    failure = transport_failure(error, provider="openai", url="http://host:1/v1", timeout=30)
    assert type(failure) is kind
    assert words in str(failure)
    assert "http://host:1" in str(failure)
    assert failure.remedy


def test_an_earlier_failure_does_not_colour_a_later_one() -> None:
    """What was being handled when the connection broke belongs to another attempt."""
    later = httpx2.ReadError("x")
    later.__context__ = ConnectionRefusedError()
    failure = transport_failure(later, provider="openai", url="http://host", timeout=30)
    assert "before the end of its answer" in str(failure)
