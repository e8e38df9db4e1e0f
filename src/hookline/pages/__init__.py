"""Recorded runs as pages and pictures: one file each, which needs nothing else."""

from hookline.pages.run_page import run_page
from hookline.pages.timeline import draw_run

__all__ = ["draw_run", "run_page"]
