"""Recorded runs, driven again: the same run, or what other hooks would have said to it."""

from hookline.rehearse.replaying import Difference, Replayed, replay

__all__ = ["Difference", "Replayed", "replay"]
