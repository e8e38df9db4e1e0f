"""The `hookline` command."""

from hookline.cli.main import main

__all__ = ["main"]
