"""One turn with a model."""

from hookline.drivers.base import Driver, Turn
from hookline.drivers.scripted import ScriptedCall, ScriptedDriver, ScriptedTurn, call, calls, say
from hookline.state import InferenceRequest, InferenceResponse

__all__ = [
    "Driver",
    "InferenceRequest",
    "InferenceResponse",
    "ScriptedCall",
    "ScriptedDriver",
    "ScriptedTurn",
    "Turn",
    "call",
    "calls",
    "say",
]
