"""Worked episodes that show a small model how it is done."""

from hookline.providers.local.episodes.bank import Episode
from hookline.providers.local.episodes.choosing import chosen, likely, shown_first

__all__ = ["Episode", "chosen", "likely", "shown_first"]
