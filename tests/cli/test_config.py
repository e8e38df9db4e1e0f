"""`hookline config`."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.cli.main import main


def test_secrets_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a name calls a secret, and what redaction is told of, is hidden; the rest is shown."""
    (tmp_path / "config.toml").write_text(
        'model = "openai:gpt"\n[capabilities.redaction]\nvalues = ["Nightingale"]\nnames = ["pin"]\n'
    )
    monkeypatch.setenv("HOOKLINE_CONFIG_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["config", "show"]) == 0
    shown = capsys.readouterr().out
    assert "openai:gpt" in shown
    assert "pin" in shown
    assert "[hidden]" in shown
    assert "Nightingale" not in shown
