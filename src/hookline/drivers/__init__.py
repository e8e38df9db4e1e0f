"""One turn with a model."""

from hookline.drivers.base import Driver, Turn
from hookline.drivers.fallback import FALLBACK_ON, FallbackDriver
from hookline.drivers.model import ToolCallingDriver
from hookline.drivers.react import ReActDriver
from hookline.drivers.scripted import (
    Scripted,
    ScriptedCall,
    ScriptedDriver,
    ScriptedTurn,
    call,
    calls,
    say,
)
from hookline.drivers.selection import driver_for
from hookline.state import InferenceRequest, InferenceResponse

__all__ = [
    "FALLBACK_ON",
    "Driver",
    "FallbackDriver",
    "InferenceRequest",
    "InferenceResponse",
    "ReActDriver",
    "Scripted",
    "ScriptedCall",
    "ScriptedDriver",
    "ScriptedTurn",
    "ToolCallingDriver",
    "Turn",
    "call",
    "calls",
    "driver_for",
    "say",
]
