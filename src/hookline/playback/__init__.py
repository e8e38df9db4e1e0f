"""Recorded runs, driven again: the same run, or what other hooks would have said to it."""

from hookline.playback.backtests import backtest
from hookline.playback.replays import Difference, ReplayResult, replay
from hookline.playback.report import (
    BacktestReport,
    Change,
    HookReport,
    Latency,
    UnfollowedRun,
    UnjudgedHooks,
)

__all__ = [
    "BacktestReport",
    "Change",
    "Difference",
    "HookReport",
    "Latency",
    "ReplayResult",
    "UnfollowedRun",
    "UnjudgedHooks",
    "backtest",
    "replay",
]
