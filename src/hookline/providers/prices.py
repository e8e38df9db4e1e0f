"""What a request cost, from the price list of `genai-prices` as it was installed; nothing is fetched."""

from __future__ import annotations

import msgspec

from hookline.state import Usage


def cost_of(provider: str, model: str, usage: Usage, *, url: str = "") -> float | None:
    """What this usage cost in US dollars; None when nobody here knows, which is not the same as nothing.

    With `url`, the price is that of the server at this address: many servers speak one protocol.
    """
    try:
        # imported with the first answer: an agent that never gets one does not wait for a price list
        from genai_prices import Usage as PricedUsage
        from genai_prices import calc_price
    except ImportError:
        return None
    try:
        counts = PricedUsage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
        if url:
            priced = calc_price(counts, model, provider_api_url=url)
        else:
            priced = calc_price(counts, model, provider_id=provider)
    except (LookupError, ValueError):
        return None  # the list does not have this model, or the counts contradict each other
    if not str(priced.model_price):
        return None  # the list has the model, but no rate for it
    return float(priced.total_price)


UNCOUNTED = Usage(requests=1, unpriced_requests=1)
"""One request of which nobody says what it used."""


def with_cost(usage: Usage, provider: str, model: str, *, url: str = "") -> Usage:
    """This usage of one request with its cost, or counted as unpriced where that is unknown."""
    cost = cost_of(provider, model, usage, url=url)
    unpriced = 1 if cost is None else 0
    return msgspec.structs.replace(usage, cost=cost, unpriced_requests=unpriced)
