"""The command that installs an extra works without an index that has Hookline."""

import re
import shlex
import sys
from importlib import metadata

import pytest

from hookline import extras
from hookline.extras import install_command


def test_the_packages_of_an_extra_are_named() -> None:
    """Those of the extras that it stands for, too, and never Hookline itself."""
    words = shlex.split(install_command("terminal"))
    packages = {re.split("[<>]", each)[0] for each in words}
    assert {"pyyaml", "shtab", "tree-sitter-bash", "xllamacpp"} <= packages
    offered = metadata.metadata("hookline").get_all("Provides-Extra") or []
    assert offered
    assert not [each for each in offered if "hookline[" in install_command(each)]


def test_the_python_that_runs_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its pip, or by uv: `uv tool install` makes an environment without pip."""
    python = shlex.quote(sys.executable)
    for spec, install in (
        (object(), f"{python} -m pip install "),
        (None, f"uv pip install --python {python} "),
    ):
        monkeypatch.setattr(extras, "find_spec", lambda name, spec=spec: spec)
        assert install_command("hub").startswith(install)


def test_without_metadata_the_checkout_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source tree on the path has no metadata."""

    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert shlex.split(install_command("hub"))[-1].endswith("[hub]")
