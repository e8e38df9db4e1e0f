import email.utils
import math
import socket
import ssl

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import (
    AuthenticationError,
    ConnectionLostError,
    HooklineError,
    ModelTimeoutError,
)
from hookline.providers.failures import (
    find_key,
    missing_key,
    origin,
    retry_after,
    said,
    sentence,
    transport_failure,
    without_secrets,
)

# --- how long to wait ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "20"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "20"}, 20.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "in a while"}, None),
        ({"retry-after": "Wed, 99 Foo 2026 99:99:99 GMT"}, None),
    ],
)
def test_retry_after_is_read_in_either_form(headers: dict[str, str], seconds: float | None) -> None:
    """Seconds or milliseconds are taken as they are; what is no number of seconds is not made up."""
    assert retry_after(headers) == seconds


def test_a_date_is_held_against_the_clock_that_made_it() -> None:
    """The wait until a date is told by the far end's own clock, so that ours may be wrong."""
    headers = {
        "date": "Wed, 21 Oct 2026 07:28:00 GMT",
        "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT",
    }
    assert retry_after(headers) == 30.0
    assert retry_after({**headers, "retry-after": "Wed, 21 Oct 2026 07:00:00 GMT"}) == 0.0


def test_a_date_without_a_clock_is_held_against_ours() -> None:
    """A date that has passed by now asks for no wait; one to come asks for some."""
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    later = retry_after({"retry-after": email.utils.formatdate(4_000_000_000, usegmt=True)})
    assert later is not None
    assert later > 0


@given(st.text(), st.text(), st.text())
def test_retry_after_never_fails(milliseconds: str, asked: str, date: str) -> None:
    """Whatever a server writes there, the wait is a number of seconds or unknown."""
    seconds = retry_after({"retry-after-ms": milliseconds, "retry-after": asked, "date": date})
    assert seconds is None or (seconds >= 0 and math.isfinite(seconds))


# --- what may be repeated ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "leak",
    [
        "Incorrect API key provided: sk-proj-abc_DEF-123456.",
        "Incorrect API key provided: sk-1234************wxyz.",
        "header was Authorization: Bearer eyJhbGciOi.abc-123",
        "bad key AIzaSyA-1234567890abcdef",
        "GET https://host/v1?key=hunter2hunter2&alt=sse failed",
        "cannot reach https://user:hunter2hunter2@host/v1",
        "the key hunter2hunter2 is not known",
    ],
)
def test_keys_are_not_repeated(leak: str) -> None:
    """What looks like a key, and the key we have, are taken out of what a server says."""
    shown = said(leak, ["hunter2hunter2"])
    for secret in ("abc_DEF", "1234", "wxyz", "eyJ", "abc-123", "hunter2"):
        assert secret not in shown
    assert "[key]" in shown


@given(st.text(), st.from_regex(r"\A[A-Za-z0-9_.-]{6,40}\Z"))
def test_a_secret_never_survives(text: str, secret: str) -> None:
    """Wherever a secret stands in a text, it is gone afterwards."""
    shown = without_secrets(f"{text}{secret}{text}", [secret])
    assert secret not in shown


@pytest.mark.parametrize("text", ["a Bearer token is missing", "use sk-learn", "see a.org/?page=2"])
def test_words_that_are_no_keys_stay(text: str) -> None:
    """An error that hides what it is about helps nobody."""
    assert said(text) == text


def test_what_a_server_says_is_one_short_line() -> None:
    """A page of HTML does not become an error of many lines."""
    shown = said("<html>\n\n" + "word " * 1_000)
    assert "\n" not in shown
    assert len(shown) < 500
    assert said("  plain   words ") == "plain words"


def test_a_sentence_has_one_end() -> None:
    """A remedy follows what a server said, so it has to end."""
    assert [sentence(text) for text in ("no", "no.", "no!", "no…")] == ["no.", "no.", "no!", "no…"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com"),
        ("http://user:secret@localhost:11434/v1?key=secret", "http://localhost:11434"),
        ("http://[::1]:8000/v1", "http://[::1]:8000"),
        ("localhost:8000", "localhost:8000"),
        ("http://host:99999999/", "http://host:99999999/"),
    ],
)
def test_an_origin_names_the_host_alone(url: str, shown: str) -> None:
    """An error names the far end without a password, a path or a query."""
    assert origin(url) == shown


# --- keys and addresses --------------------------------------------------------------------------


def test_a_key_is_given_or_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key that is given wins, the first variable that is set comes next, and an empty one is none."""
    monkeypatch.setenv("SECOND_KEY", " second\n")
    monkeypatch.delenv("FIRST_KEY", raising=False)
    assert find_key("x", None, "FIRST_KEY", "SECOND_KEY") == "second"
    assert find_key("x", "given", "FIRST_KEY", "SECOND_KEY") == "given"
    assert find_key("x", "", "FIRST_KEY", "SECOND_KEY") == ""
    assert find_key("x", None, "FIRST_KEY") == ""


@pytest.mark.parametrize("key", ["se\ncret", "sé-cret", "two words", "se\x00cret"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(key: str) -> None:
    """A key with a line break in it is a mistake of copying; the error does not show it."""
    with pytest.raises(AuthenticationError, match="Copy it again") as caught:
        find_key("x", key, "X_API_KEY")
    assert key not in str(caught.value)


def test_a_missing_key_says_where_it_belongs() -> None:
    """One line says which variable to set."""
    assert str(missing_key("openai", "OPENAI_API_KEY")) == (
        "there is no key for provider 'openai'. Set OPENAI_API_KEY in the environment, or give api_key=."
    )


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
        (httpx2.RemoteProtocolError("x"), ConnectionLostError, "before its answer was over"),
        (httpx2.ReadError("x"), ConnectionLostError, "before its answer was over"),
    ],
)
def test_what_lies_beneath_tells_what_to_do(
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
    assert "before its answer was over" in str(failure)
