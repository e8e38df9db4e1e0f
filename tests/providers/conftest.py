"""What the tests of providers share."""

from pathlib import Path

import certifi
import pytest

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_SETTINGS = {
    "ANTHROPIC": ("API_KEY", "AUTH_TOKEN", "BASE_URL", "CUSTOM_HEADERS"),
    "GEMINI": ("API_KEY",),
    "GOOGLE": ("API_KEY", "GEMINI_BASE_URL"),
    "OPENAI": ("API_KEY", "BASE_URL", "ORG_ID", "PROJECT_ID"),
}


@pytest.fixture
def no_settings(few_certificates: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine is set to must not change what is tested."""
    own = [f"{prefix}_{name}" for prefix, names in _SETTINGS.items() for name in names]
    for name in (*own, *_PROXIES, *(name.lower() for name in _PROXIES)):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def one_certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one certificate."""
    first, end, _ = Path(certifi.where()).read_text(encoding="utf-8").partition("END CERTIFICATE")
    path = tmp_path_factory.mktemp("certificates") / "one.pem"
    path.write_text(f"{first}{end}-----\n", encoding="utf-8")
    return path


@pytest.fixture
def few_certificates(one_certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that make many clients and use no TLS: each client reads all certificates, which takes 20 ms."""
    monkeypatch.setenv("SSL_CERT_FILE", str(one_certificate))
