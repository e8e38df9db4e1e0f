"""Recorded runs, driven again: the same run, or what other hooks would have said to it."""

from hookline.rehearse.backtesting import backtest
from hookline.rehearse.findings import Change, HookReport, Unfollowed, Unjudged
from hookline.rehearse.replaying import Difference, Replayed, replay
from hookline.rehearse.report import BacktestReport
from hookline.rehearse.tallies import Latency

__all__ = [
    "BacktestReport",
    "Change",
    "Difference",
    "HookReport",
    "Latency",
    "Replayed",
    "Unfollowed",
    "Unjudged",
    "backtest",
    "replay",
]
