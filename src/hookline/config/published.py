"""The JSON schema of the configuration, for editors: published as docs/hookline.schema.json."""

from __future__ import annotations

from typing import Any

import msgspec

from hookline.config.schema import Configuration


def json_schema() -> dict[str, Any]:
    """The schema, with the definitions of all tables."""
    schema = msgspec.json.schema(Configuration)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hookline configuration",
        "description": "hookline.toml, .hookline/config.toml and [tool.hookline] in pyproject.toml",
        **schema,
    }
