from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

import pytest

from hookline.config.own_file import write_model
from hookline.errors import ConfigError

NAME = 'local:/a "b" \\ é.gguf'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "MODEL\n"),
        ("# mine\n[limits]\nsteps = 5\n", "MODEL\n# mine\n[limits]\nsteps = 5\n"),
        (
            '# mine\nmodel = "x:y" # old\n[agents.a]\nmodel = "z:z"\n',
            '# mine\nMODEL\n[agents.a]\nmodel = "z:z"\n',
        ),
        ('[agents.a]\nmodel = "z:z"\n', 'MODEL\n[agents.a]\nmodel = "z:z"\n'),
        (
            "\ufeffmodel_options = {temperature = 0}\r\n",
            "MODEL\nmodel_options = {temperature = 0}\r\n",
        ),
        ('journal = "/j"\nmodel = ["a:b", "c:d"]', 'journal = "/j"\nMODEL\n'),
    ],
)
def test_only_the_model_changes(tmp_path: Path, before: str, after: str) -> None:
    """Comments, other settings and other models stay, and the name is read as it was given."""
    path = tmp_path / "config.toml"
    path.write_bytes(before.encode())
    write_model(path, NAME)
    text = path.read_bytes().decode()
    line = next(each for each in text.splitlines() if each.startswith("model ="))
    assert text.replace(line, "MODEL", 1) == after
    assert tomllib.loads(text)["model"] == NAME


def test_a_file_is_made_that_only_its_owner_reads(tmp_path: Path) -> None:
    """A file that is there keeps its mode, and a link to it stays a link."""
    path = tmp_path / "new" / "config.toml"
    write_model(path, NAME)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    shared, link = tmp_path / "dotfiles.toml", tmp_path / "config.toml"
    shared.write_text("# shared\n")
    shared.chmod(0o644)
    link.symlink_to(shared)
    write_model(link, NAME)
    assert link.is_symlink()
    assert stat.S_IMODE(shared.stat().st_mode) == 0o644
    assert shared.read_text().endswith("# shared\n")
    assert sorted(os.listdir(tmp_path)) == ["config.toml", "dotfiles.toml", "new"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('model = [\n  "a:b",\n]\n', NAME),  # more than one line
        ("model = \n", NAME),  # not TOML
        ("", "local:/a\nb.gguf"),
        ("", "local:/\udcff.gguf"),
    ],
)
def test_what_cannot_be_written_leaves_the_file_alone(tmp_path: Path, text: str, name: str) -> None:
    """It is an error, and not half a file."""
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        write_model(path, name)
    assert path.read_text() == text
    with pytest.raises(ConfigError, match="cannot be written"):
        write_model(Path(os.devnull) / "config.toml", "local:")
