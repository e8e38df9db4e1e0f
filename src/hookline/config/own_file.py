"""The user's own file: one setting is written into it, and everything else in it stays as it is."""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from pathlib import Path

from hookline.config.layers import line_of, read_layer
from hookline.config.locations import is_file
from hookline.errors import ConfigError

_PRIVATE = 0o600
"""A new file: a key may be written into it later."""


def write_model(path: Path, model: str) -> None:
    """Set `model` in that file. A file in which one line cannot do it is an error, and is left alone."""
    text = read_layer(path).text if is_file(path) else ""
    data = tomllib.loads(text)
    lines = text.splitlines(keepends=True)
    position = line_of(text, ("model",)) if "model" in data else None
    before, after = (lines[: position - 1], lines[position:]) if position else ([], lines)
    changed = "".join([*before, f"model = {json.dumps(model, ensure_ascii=False)}\n", *after])
    try:
        is_right = model.isprintable() and tomllib.loads(changed) == {**data, "model": model}
    except tomllib.TOMLDecodeError:
        is_right = False
    if not is_right:
        raise ConfigError(
            f"{path}: the model cannot be set without changing more of the file.",
            remedy="Set `model` there yourself.",
        )
    _replace(path, changed)


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all. A link stays a link, and a file keeps its mode."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target = path.resolve()
        mode = target.stat().st_mode & 0o777 if target.exists() else _PRIVATE
        with tempfile.NamedTemporaryFile("wb", dir=target.parent, delete=False) as file:
            try:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
                os.chmod(file.name, mode)
                os.replace(file.name, target)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror or error}.",
            remedy="Set HOOKLINE_CONFIG_DIR to a directory that can be written to.",
        ) from None
