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
from hookline.providers.openai_failures import FarEnd, failure

OPENAI = FarEnd("https://api.openai.com/v1", "gpt-4o", True, ("hunter2hunter2",))
OTHER = FarEnd("http://user:pw@localhost:8000/v1", "llama3", False, ())


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
@pytest.mark.parametrize("far_end", [OPENAI, OTHER])
def test_each_complaint_is_its_own_error(
    status: int, body: Any, kind: type[ModelError], far_end: FarEnd
) -> None:
    """A complaint has one class for the error policy, names who complained, and says what to do in one line."""
    error = failure(body, far_end, status)
    assert type(error) is kind
    assert far_end.name in str(error)
    assert error.remedy
    assert "\n" not in str(error)


@pytest.mark.parametrize(("status", "kind"), [(429, RateLimitError), (503, OverloadedError)])
def test_the_wait_is_the_one_asked_for(
    status: int, kind: type[RateLimitError | OverloadedError]
) -> None:
    """Retry-After reaches the error policy."""
    error = failure("", OPENAI, status, {"retry-after": "7"})
    assert isinstance(error, kind)
    assert error.retry_after == 7.0


def test_a_missing_model_is_named() -> None:
    """OpenAI's models are on a page; another server lists its own. No password is shown."""
    assert "'gpt-4o'" in str(failure("", OPENAI, 404))
    assert "platform.openai.com" in failure("", OPENAI, 404).remedy
    error = failure("", OTHER, 404)
    assert "'llama3'" in str(error)
    assert "localhost:8000/v1/models" in error.remedy
    assert "pw" not in str(error)


def test_an_option_that_is_refused_is_named() -> None:
    """The remedy names the option where the server did."""
    error = failure(said("Unknown parameter: 'x'.", "unknown_parameter", "", "x"), OPENAI, 400)
    assert "Leave 'x' out" in error.remedy
    assert "Correct 'y' in the request" in failure(said("Bad.", "", "", "y"), OPENAI, 400).remedy


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
def test_an_error_in_mid_stream_is_told_apart_too(body: Any, kind: type[ModelError]) -> None:
    """Without a status, the code or the type of the error says what it is."""
    assert type(failure(body, OPENAI)) is kind


def test_the_key_is_never_repeated() -> None:
    """What a server echoes of the request does not reach the error, and the far end does not show what it knows."""
    error = failure(said("bad key hunter2hunter2"), OPENAI, 401)
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
    error = failure(body, OPENAI, status, headers)
    assert isinstance(error, ModelError)
    assert error.remedy
