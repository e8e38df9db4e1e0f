"""Settings: files, environment and flags, checked and merged. The origin of each value is known."""

from hookline.config.environment import OTHERS, VARIABLES
from hookline.config.layers import Layer, Merged, check_layer, leaves, put, read_layer
from hookline.config.lines import dotted
from hookline.config.load import (
    DEFAULTS,
    NO_FLAGS,
    HeldSetting,
    Settings,
    load,
    project_layers,
)
from hookline.config.locations import (
    PROJECT_FILES,
    data_folder,
    home,
    is_file,
    journal_of,
    project_files,
    project_of,
    user_folder,
)
from hookline.config.schema import (
    AgentSettings,
    ApprovalModeName,
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
    json_schema,
)
from hookline.config.script_dependencies import (
    ScriptDependencies,
    files_of_program,
    find_dependencies,
    is_task_runner,
)
from hookline.config.trust import TrustFile, TrustStatus, fingerprints, trust_file
from hookline.config.untrusted import keep_stricter, refuse_endpoints
from hookline.config.validation import suggest

__all__ = [
    "DEFAULTS",
    "NO_FLAGS",
    "OTHERS",
    "PROJECT_FILES",
    "VARIABLES",
    "AgentSettings",
    "ApprovalModeName",
    "ApprovalSettings",
    "Configuration",
    "ErrorSettings",
    "HeldSetting",
    "HookSettings",
    "Layer",
    "LimitSettings",
    "MatchSettings",
    "McpSettings",
    "Merged",
    "ModelSettings",
    "PlaceName",
    "SandboxName",
    "ScriptDependencies",
    "Settings",
    "TrustFile",
    "TrustStatus",
    "check_layer",
    "data_folder",
    "dotted",
    "files_of_program",
    "find_dependencies",
    "fingerprints",
    "home",
    "is_file",
    "is_task_runner",
    "journal_of",
    "json_schema",
    "keep_stricter",
    "leaves",
    "load",
    "project_files",
    "project_layers",
    "project_of",
    "put",
    "read_layer",
    "refuse_endpoints",
    "suggest",
    "trust_file",
    "user_folder",
]
