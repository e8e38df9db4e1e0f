"""What the tests of providers share."""

import pytest

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_SETTINGS = {
    "ANTHROPIC": ("API_KEY", "AUTH_TOKEN", "BASE_URL", "CUSTOM_HEADERS"),
    "GEMINI": ("API_KEY",),
    "GOOGLE": ("API_KEY", "GEMINI_BASE_URL"),
    "OPENAI": ("API_KEY", "BASE_URL", "ORG_ID", "PROJECT_ID"),
}


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine is set to must not change what is tested."""
    own = [f"{prefix}_{name}" for prefix, names in _SETTINGS.items() for name in names]
    for name in (*own, *_PROXIES, *(name.lower() for name in _PROXIES)):
        monkeypatch.delenv(name, raising=False)
