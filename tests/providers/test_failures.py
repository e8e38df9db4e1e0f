import email.utils
import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import (
    AuthenticationError,
    ContentFilterError,
    ContextOverflowError,
    ModelError,
    ModelNotFoundError,
    ModelTimeoutError,
    OverloadedError,
    RateLimitError,
    UnsupportedError,
)
from hookline.providers.failures import (
    Server,
    clean_text,
    end_sentence,
    failure,
    find_key,
    missing_key,
    origin,
    read_report,
    remove_secrets,
    retry_after,
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
    """The wait until a date is computed with the server's clock, so that ours may be wrong."""
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
    shown = clean_text(leak, ["hunter2hunter2"])
    for secret in ("abc_DEF", "1234", "wxyz", "eyJ", "abc-123", "hunter2"):
        assert secret not in shown
    assert "[key]" in shown


@given(st.text(), st.from_regex(r"\A[A-Za-z0-9_.-]{6,40}\Z"))
def test_a_secret_never_survives(text: str, secret: str) -> None:
    """Wherever a secret stands in a text, it is gone afterwards."""
    shown = remove_secrets(f"{text}{secret}{text}", [secret])
    assert secret not in shown


@pytest.mark.parametrize("text", ["a Bearer token is missing", "use sk-learn", "see a.org/?page=2"])
def test_words_that_are_no_keys_stay(text: str) -> None:
    """An error that hides what it is about helps nobody."""
    assert clean_text(text) == text


def test_what_a_server_says_is_one_short_line() -> None:
    """A page of HTML does not become an error of many lines."""
    shown = clean_text("<html>\n\n" + "word " * 1_000)
    assert "\n" not in shown
    assert len(shown) < 500
    assert clean_text("  plain   words ") == "plain words"


def test_a_sentence_has_one_end() -> None:
    """A remedy follows what a server said, so it has to end."""
    assert [end_sentence(text) for text in ("no", "no.", "no!", "no…")] == [
        "no.",
        "no.",
        "no!",
        "no…",
    ]


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
    """An error names the server without a password, a path or a query."""
    assert origin(url) == shown


# --- keys and addresses --------------------------------------------------------------------------


def test_a_key_is_given_or_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The explicit key wins, then the first variable that is set; an empty variable does not count."""
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


# --- what a server complains about ---

OPENAI = Server(
    provider="openai",
    url="https://api.openai.com/v1",
    model="gpt-4o",
    is_home=True,
    key_variable="OPENAI_API_KEY",
    models_page="https://platform.openai.com/docs/models",
    models_path="/models",
    address_hint=", which usually ends in /v1",
    secrets=("hunter2hunter2",),
)
OTHER = OPENAI._replace(url="http://user:pw@localhost:8000/v1", model="llama3", is_home=False)


def failure_of(
    body: Any, server: Server, status: int | None = None, headers: Mapping[str, str] = {}
) -> ModelError:
    """The error for a body; without a status it came in the middle of a stream."""
    return failure(read_report(body, status or 200, headers, server.secrets), server)


def said(message: str, code: Any = None, type: str = "", param: Any = None) -> dict[str, Any]:
    """An error as OpenAI writes it."""
    return {"message": message, "type": type, "param": param, "code": code}


# What servers really write: OpenAI, Azure, vLLM, llama.cpp, LM Studio, SGLang, Ollama, DeepSeek, Groq, gateways.
COMPLAINTS: list[tuple[int, Any, type[ModelError]]] = [
    (401, said("Incorrect API key provided.", "invalid_api_key"), AuthenticationError),
    (403, said("Country not supported", "unsupported_country"), AuthenticationError),
    (
        403,
        said("Project does not have access to model gpt-5", "model_not_found"),
        ModelNotFoundError,
    ),
    (402, said("Insufficient Balance"), AuthenticationError),
    (
        429,
        said("You exceeded your current quota.", "insufficient_quota", "insufficient_quota"),
        AuthenticationError,
    ),
    (429, said("Rate limit reached.", "rate_limit_exceeded", "requests"), RateLimitError),
    (
        429,
        said(
            "Rate limit reached for requests per min: Limit 3. You can increase your rate limit by adding a payment "
            "method to your account at https://platform.openai.com/account/billing.",
            "rate_limit_exceeded",
            "requests",
        ),
        RateLimitError,
    ),
    (429, said("You exceeded your current quota, please check your billing", 429), RateLimitError),
    (429, "", RateLimitError),
    (
        429,
        said("Request too large for gpt-4o on tokens per min: Limit 3, Requested 9", "x"),
        ContextOverflowError,
    ),
    (413, said("Request Entity Too Large"), ContextOverflowError),
    (404, said("The model `x` does not exist", "model_not_found"), ModelNotFoundError),
    (404, said("model 'x' not found, try pulling it first", None, "api_error"), ModelNotFoundError),
    (404, {"detail": "Not Found"}, ModelNotFoundError),
    (404, "404 page not found", ModelNotFoundError),
    (400, said("x is not a valid model ID", 400), ModelNotFoundError),
    (400, said("Model Not Exist", "invalid_request_error"), ModelNotFoundError),
    (400, said("Too long.", "context_length_exceeded"), ContextOverflowError),
    (
        400,
        said("request (919 tokens) exceeds the available context size (512 tokens)", 400),
        ContextOverflowError,
    ),
    (500, said("the request exceeds the available context size", 500), ContextOverflowError),
    (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested 9000.",
            "type": "BadRequestError",
            "code": 400,
        },
        ContextOverflowError,
    ),
    (
        400,
        said("The decoder prompt (length 9000) is longer than the maximum model length of 4096."),
        ContextOverflowError,
    ),
    (
        400,
        said(
            "The number of tokens to keep from the initial prompt is greater than the context length"
        ),
        ContextOverflowError,
    ),
    (
        400,
        said("The input (9000 tokens) is longer than the model's context length (4096)."),
        ContextOverflowError,
    ),
    (400, said("The response was filtered", "content_filter"), ContentFilterError),
    (400, said("Your prompt was flagged.", "invalid_prompt"), ContentFilterError),
    (
        400,
        said("Unsupported parameter: 'max_tokens'.", "unsupported_parameter", "x", "max_tokens"),
        UnsupportedError,
    ),
    (400, said("Unrecognized request argument supplied: temprature"), UnsupportedError),
    (400, said("llama3 does not support tools"), UnsupportedError),
    (400, said('"auto" tool choice requires --enable-auto-tool-choice'), UnsupportedError),
    (500, said("image input is not supported", 500, "server_error"), UnsupportedError),
    (501, said("This server does not support embeddings.", 501), UnsupportedError),
    (
        422,
        {"detail": [{"loc": ["body", "temprature"], "msg": "Extra inputs are not permitted"}]},
        UnsupportedError,
    ),
    (400, said("Field 'temperature': type must be number, but is string", 400), ModelError),
    (409, said("Conflict"), ModelError),
    (307, "", ModelError),
    (408, "", ModelTimeoutError),
    (504, "<html>Gateway Time-out</html>", ModelTimeoutError),
    (500, said("The server had an error.", None, "server_error"), OverloadedError),
    (500, "", OverloadedError),
    (522, "<html>Connection timed out</html>", OverloadedError),
    (502, "<html>Bad Gateway</html>", OverloadedError),
    (503, said("The engine is currently overloaded", None, "server_error"), OverloadedError),
    (503, said("Loading model", 503, "unavailable_error"), OverloadedError),
    (529, "", OverloadedError),
]


@pytest.mark.parametrize(("status", "body", "kind"), COMPLAINTS)
@pytest.mark.parametrize("server", [OPENAI, OTHER])
def test_each_complaint_is_its_own_error(
    status: int, body: Any, kind: type[ModelError], server: Server
) -> None:
    """A complaint has one class for the error policy, names who complained, and says what to do in one line."""
    error = failure_of(body, server, status)
    assert type(error) is kind
    assert server.name in str(error)
    assert error.remedy
    assert "\n" not in str(error)


@pytest.mark.parametrize(("status", "kind"), [(429, RateLimitError), (503, OverloadedError)])
def test_the_wait_is_the_one_asked_for(
    status: int, kind: type[RateLimitError | OverloadedError]
) -> None:
    """Retry-After reaches the error policy."""
    error = failure_of("", OPENAI, status, {"retry-after": "7"})
    assert isinstance(error, kind)
    assert error.retry_after == 7.0


def test_a_missing_model_is_named() -> None:
    """OpenAI's models are on a page; another server lists its own. No password is shown."""
    assert "'gpt-4o'" in str(failure_of("", OPENAI, 404))
    assert "platform.openai.com" in failure_of("", OPENAI, 404).remedy
    error = failure_of("", OTHER, 404)
    assert "'llama3'" in str(error)
    assert "localhost:8000/v1/models" in error.remedy
    assert "pw" not in str(error)


def test_an_option_that_is_refused_is_named() -> None:
    """The remedy names the option where the server did."""
    error = failure_of(said("Unknown parameter: 'x'.", "unknown_parameter", "", "x"), OPENAI, 400)
    assert "Leave 'x' out" in error.remedy
    assert "Correct 'y' in the request" in failure_of(said("Bad.", "", "", "y"), OPENAI, 400).remedy


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (said("Rate limit", "rate_limit_exceeded"), RateLimitError),
        (said("Provider returned 503", 503), OverloadedError),
        (said("slow down", "429"), RateLimitError),
        (said("Overloaded", None, "overloaded_error"), OverloadedError),
        (said("too long: context length", 400), ContextOverflowError),
        (said("boom", "server_error"), OverloadedError),
        ("boom", OverloadedError),
        (None, OverloadedError),
    ],
)
def test_an_error_in_mid_stream_is_distinguished_too(body: Any, kind: type[ModelError]) -> None:
    """Without a status, the code or the type of the error says what it is."""
    assert type(failure_of(body, OPENAI)) is kind


def test_the_key_is_never_repeated() -> None:
    """What a server echoes of the request does not reach the error, and the server does not show what it knows."""
    error = failure_of(said("bad key hunter2hunter2"), OPENAI, 401)
    assert "hunter2" not in str(error)
    assert "hunter2" not in repr(OPENAI)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
ERROR_LIKE = st.dictionaries(
    st.sampled_from(["error", "message", "code", "type", "param", "detail"]), JSON
)


@given(
    ERROR_LIKE | JSON,
    st.none() | st.integers(400, 599),
    st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text()),
)
def test_whatever_a_server_says_becomes_an_error(
    body: Any, status: int | None, headers: Mapping[str, str]
) -> None:
    """No error body is so odd that it hides the error."""
    error = failure_of(body, OPENAI, status, headers)
    assert isinstance(error, ModelError)
    assert error.remedy
