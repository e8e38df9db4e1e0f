"""Settings: files, environment and flags, checked and merged. The origin of each value is known."""

from hookline.config.layers import Layer
from hookline.config.load import HeldSetting, Settings, load
from hookline.config.schema import Configuration, json_schema
from hookline.config.trust import TrustStatus

__all__ = [
    "Configuration",
    "HeldSetting",
    "Layer",
    "Settings",
    "TrustStatus",
    "json_schema",
    "load",
]
