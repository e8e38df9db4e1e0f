"""Settings: files, environment and flags, checked and put together, each value with where it came from."""

from hookline.config.environment import OTHERS, VARIABLES, put
from hookline.config.following import Followed, files_of_program, follow, runs_what_others_say
from hookline.config.layers import Layer, Merged, checked, leaves, read_layer
from hookline.config.lines import dotted
from hookline.config.load import (
    DEFAULTS,
    NO_FLAGS,
    Held,
    Settings,
    load,
    prints_of,
    project_layers,
    trust_of,
)
from hookline.config.places import (
    PROJECT_FILES,
    data_folder,
    home,
    journal_of,
    project_files,
    project_of,
    user_folder,
)
from hookline.config.published import json_schema
from hookline.config.schema import (
    AgentSettings,
    ApprovalSettings,
    Configuration,
    ErrorSettings,
    HookSettings,
    LimitSettings,
    MatchSettings,
    McpSettings,
    ModelSettings,
    PlaceName,
    SandboxName,
)
from hookline.config.tighten import refuse_endpoints, tightened
from hookline.config.trust import Standing, Trust

__all__ = [
    "DEFAULTS",
    "NO_FLAGS",
    "OTHERS",
    "PROJECT_FILES",
    "VARIABLES",
    "AgentSettings",
    "ApprovalSettings",
    "Configuration",
    "ErrorSettings",
    "Followed",
    "Held",
    "HookSettings",
    "Layer",
    "LimitSettings",
    "MatchSettings",
    "McpSettings",
    "Merged",
    "ModelSettings",
    "PlaceName",
    "SandboxName",
    "Settings",
    "Standing",
    "Trust",
    "checked",
    "data_folder",
    "dotted",
    "files_of_program",
    "follow",
    "home",
    "journal_of",
    "json_schema",
    "leaves",
    "load",
    "prints_of",
    "project_files",
    "project_layers",
    "project_of",
    "put",
    "read_layer",
    "refuse_endpoints",
    "runs_what_others_say",
    "tightened",
    "trust_of",
    "user_folder",
]
