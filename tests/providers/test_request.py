from __future__ import annotations

from typing import Any

import pytest

from hookline.providers.request import portable, translate_options

ALL = {"max_tokens": 5, "temperature": 0, "top_p": 1.0, "stop": "END", "seed": 7}


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        (
            "anthropic",
            {"max_tokens": 5, "temperature": 0, "top_p": 1.0, "stop_sequences": ["END"]},
        ),
        (
            "google",
            {
                "max_output_tokens": 5,
                "temperature": 0,
                "top_p": 1.0,
                "stop_sequences": ["END"],
                "seed": 7,
            },
        ),
        ("local", {**ALL, "stop": ["END"]}),
        ("openai", ALL),
        ("somebody", ALL),
    ],
)
def test_portable_options_are_said_in_the_words_of_each_provider(
    provider: str, said: dict[str, Any]
) -> None:
    """One that it does not have is left out."""
    assert translate_options(provider, ALL) == said


def test_what_a_provider_names_itself_wins() -> None:
    """And its own options stay as they are."""
    given = {"max_output_tokens": 9, "max_tokens": 5, "top_k": 3}
    assert translate_options("google", given) == {"max_output_tokens": 9, "top_k": 3}
    assert portable(given) == {"max_tokens": 5}
