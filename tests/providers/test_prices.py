import subprocess
import sys

import pytest

from hookline.providers.prices import cost_of, with_cost
from hookline.state import Usage

USAGE = Usage(input_tokens=1_000, output_tokens=100, requests=1)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-4o"),
        ("openai", "gpt-4o-2024-08-06"),
        ("anthropic", "claude-sonnet-4-5"),
        ("google", "gemini-2.5-flash"),
    ],
)
def test_a_known_model_has_a_price(provider: str, model: str) -> None:
    """What the list knows is counted, and twice the tokens cost twice as much."""
    once = cost_of(provider, model, USAGE)
    twice = cost_of(provider, model, USAGE + USAGE)
    assert once is not None
    assert 0 < once < 1
    assert twice == pytest.approx(2 * once)


def test_tokens_from_the_cache_are_cheaper() -> None:
    """The tokens that a provider had in its cache are counted at their own rate."""
    cached = Usage(input_tokens=1_000, output_tokens=100, cache_read_tokens=900)
    whole, saved = cost_of("openai", "gpt-4o", USAGE), cost_of("openai", "gpt-4o", cached)
    assert whole is not None
    assert saved is not None
    assert saved < whole


@pytest.mark.parametrize(
    ("provider", "model", "usage"),
    [
        ("openai", "no-such-model", USAGE),
        ("no-such-provider", "gpt-4o", USAGE),
        ("openai", "", USAGE),
        ("openai", "gpt-4o", Usage(input_tokens=1, cache_read_tokens=1_000)),
        ("google", "gemma-3", USAGE),  # in the list, without a rate
    ],
)
def test_an_unknown_price_is_none(provider: str, model: str, usage: Usage) -> None:
    """An unknown price is unknown; it is never zero."""
    assert cost_of(provider, model, usage) is None


def test_the_address_decides_whose_price_it_is() -> None:
    """A server that speaks another's protocol has its own prices, or none that are known."""
    at_openai = cost_of("openai", "gpt-4o", USAGE, url="https://api.openai.com/v1")
    assert at_openai == cost_of("openai", "gpt-4o", USAGE)
    assert cost_of("openai", "gpt-4o", USAGE, url="http://localhost:11434/v1") is None
    elsewhere = cost_of("openai", "openai/gpt-4o", USAGE, url="https://openrouter.ai/api/v1")
    assert elsewhere is not None


def test_usage_says_whether_its_cost_is_known() -> None:
    """A request without a price is counted as one that the cost does not cover."""
    known = with_cost(USAGE, "openai", "gpt-4o")
    assert (known.cost, known.unpriced_requests) == (cost_of("openai", "gpt-4o", USAGE), 0)
    unknown = with_cost(USAGE, "openai", "no-such-model")
    assert (unknown.cost, unknown.unpriced_requests) == (None, 1)
    assert unknown.input_tokens == USAGE.input_tokens


def test_without_the_price_list_every_price_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is an extra: a run continues without it."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    assert cost_of("openai", "gpt-4o", USAGE) is None


def test_the_price_list_is_not_loaded_before_it_is_asked() -> None:
    """Importing the module costs nothing; the first answer pays for the list."""
    code = "import hookline.providers.prices, sys; sys.exit('genai_prices' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
